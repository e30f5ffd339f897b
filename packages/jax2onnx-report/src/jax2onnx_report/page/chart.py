"""A chart of times as SVG, which is readable on light and on dark ground, and as a page around it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from jax2onnx_graph.durations import duration_text

from jax2onnx_report.page.page import asset

__all__ = ["TimeRange", "TimeSeries", "chart_page", "chart_svg"]

_WIDTH, _HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 20, 36
_ROW = 20
_LEAST = 1e-9


@dataclasses.dataclass(frozen=True)
class TimeRange:
    """Times that were measured: the middle, and between which the middle half of them is; in seconds."""

    low: float
    middle: float
    high: float


@dataclasses.dataclass(frozen=True)
class TimeSeries:
    """The times of one contender.

    Attributes:
      name: what the legend calls it.
      times: a range for each label, None where there is none.
    """

    name: str
    times: Sequence[TimeRange | None]


@dataclasses.dataclass(frozen=True)
class _Point:
    """A point of a line, and the ends of its spread, in units of the picture; the text that tells them."""

    x: float
    y: float
    low: float
    high: float
    text: str


@dataclasses.dataclass(frozen=True)
class _Line:
    """A line of points, in pieces where some are missing."""

    name: str
    number: int
    pieces: Sequence[Sequence[_Point]]


@dataclasses.dataclass(frozen=True)
class _Scale:
    """Logarithms of seconds as heights."""

    least: float
    most: float
    top: float
    bottom: float

    @classmethod
    def spanning(cls, seconds: Sequence[float], top: float, bottom: float) -> _Scale:
        """The scale on which all these times have a place."""
        logs = [math.log10(max(s, _LEAST)) for s in seconds] or [-3.0]
        return cls(min(logs) - 0.1, max(logs) + 0.1, top, bottom)

    def height(self, seconds: float) -> float:
        """The place of a time."""
        share = (math.log10(max(seconds, _LEAST)) - self.least) / (self.most - self.least)
        return round(self.bottom - share * (self.bottom - self.top), 1)

    def ticks(self) -> Iterator[float]:
        """Round times within the scale: those with 1, 2 or 5, and over a wide range those with 1."""
        digits = (1, 2, 5) if self.most - self.least < 3 else (1,)
        for power in range(math.floor(self.least), math.ceil(self.most) + 1):
            yield from (d * 10.0**power for d in digits if self.least <= math.log10(d * 10.0**power) <= self.most)


def chart_svg(title: str, labels: Sequence[str], series: Sequence[TimeSeries], notes: Sequence[str] = ()) -> str:
    """A chart: a line for each series over the labels, times on a logarithmic scale.

    Args:
      title: its title.
      labels: the runs, from left to right.
      series: the contenders, with a range of times for each label.
      notes: lines of text below the chart.
    """
    top = _TOP + _ROW * (1 + len(series))
    bottom = top + _HEIGHT - _BOTTOM
    times = [second for one in series for t in one.times if t is not None for second in (t.low, t.middle, t.high)]
    scale = _Scale.spanning(times, top, bottom)
    places = [round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * (i + 0.5) / len(labels), 1) for i in range(len(labels))]
    return _rendered(
        "chart.svg", title=title, labels=list(zip(places, labels, strict=True)), notes=notes, left=_LEFT, right=_WIDTH - _RIGHT,
        lines=[_Line(one.name, number, list(_pieces(one, labels, places, scale))) for number, one in enumerate(series)],
        ticks=[(scale.height(tick), duration_text(tick)) for tick in scale.ticks()], top=top, bottom=bottom, width=_WIDTH,
        height=bottom + _BOTTOM + _ROW * len(notes), row=_ROW,
    )  # fmt: skip


def _pieces(one: TimeSeries, labels: Sequence[str], places: Sequence[float], scale: _Scale) -> Iterator[list[_Point]]:
    piece: list[_Point] = []
    for x, label, time in zip(places, labels, one.times, strict=True):
        if time is not None:
            low, middle, high = (scale.height(second) for second in (time.low, time.middle, time.high))
            text = f"{one.name}, {label}: {duration_text(time.middle)}"
            piece.append(_Point(x, middle, low, high, text))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def chart_page(title: str, table: str, labels: Sequence[str], series: Sequence[TimeSeries]) -> str:
    """A page for a browser with the chart and a table as text below it; see `chart_svg`."""
    return _rendered("chart.html", title=title, chart=chart_svg(title, labels, series), table=table)


def _rendered(template: str, **values: object) -> str:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(asset(template)).render(**values)
