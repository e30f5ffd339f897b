"""Charts of times: valid SVG for any names and times, with gaps where nothing was measured."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from jax2onnx_report.page.chart import TimeRange, TimeSeries, chart_page, chart_svg

SVG = "{http://www.w3.org/2000/svg}"


def ranges(*middles):
    return [None if middle is None else TimeRange(0.9 * middle, middle, 1.2 * middle) for middle in middles]


def drawn(*series, labels=("B = 1", "B = 8", "B = 64"), **options):
    return ET.fromstring(chart_svg("times of <x>", labels, series, **options))


def paths(svg, number):
    return [path.get("d") for path in svg.iter(f"{SVG}path") if path.get("class") == f"s{number}"]


def test_a_line_with_a_point_for_each_label_and_a_legend():
    svg = drawn(TimeSeries("a & b", ranges(1e-3, 1e-2, 1e-1)))
    texts = [text.text for text in svg.iter(f"{SVG}text")]
    assert {"times of <x>", "a & b", "B = 1", "B = 8", "B = 64", "1 ms", "10 ms", "100 ms"} <= {*texts}
    (path,) = paths(svg, 0)
    heights = [float(point.split()[1]) for point in path[1:].split("L")]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)  # equal ratios, equal steps
    assert heights[0] > heights[2]
    assert "a & b, B = 8: 10 ms" in [title.text for title in svg.iter(f"{SVG}title")]


def test_a_line_is_interrupted_where_nothing_was_measured():
    svg = drawn(TimeSeries("a", ranges(1e-3, None, 1e-3)), TimeSeries("b", ranges(None, 2e-3, 2e-3)))
    assert [path.count("L") for path in paths(svg, 0)] == [0, 0]
    assert [path.count("L") for path in paths(svg, 1)] == [1]


def test_times_of_nothing_and_of_zero_have_a_picture():
    assert not paths(drawn(TimeSeries("a", ranges(None, None, None))), 0)
    assert paths(drawn(TimeSeries("a", ranges(0.0)), labels=["all"]), 0)


def test_many_series_and_notes():
    svg = drawn(*(TimeSeries(f"way {n}", ranges(1e-4 * (n + 1), 2e-4, 3e-4)) for n in range(8)), notes=["one", "two"])
    assert len(paths(svg, 0)) == 2  # colours begin anew
    lowest = max(float(text.get("y")) for text in svg.iter(f"{SVG}text"))
    assert lowest < float(svg.get("height"))


def test_light_and_dark():
    text = chart_svg("t", ["a"], [TimeSeries("x", ranges(1.0))])
    assert "prefers-color-scheme: dark" in text
    page = chart_page("t", "a < b", ["a"], [TimeSeries("x", ranges(1.0))])
    assert "<svg" in page
    assert "a &lt; b" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
