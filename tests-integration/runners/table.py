"""The table of docs/runners.md: what the scripts of this folder found, a row for each model in each runner."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Row", "write"]

PAGE = Path(__file__).parents[2] / "docs" / "runners.md"
_HEAD = "| model | runner | equal | speed |\n|---|---|---|---|\n"


@dataclasses.dataclass(frozen=True)
class Row:
    """The result of a model in a runner.

    Attributes:
      model: the model, with its precision.
      runner: the runner, with its version.
      equal: what was compared with JAX: "200 of 200 tokens".
      speed: what was measured, with what it is compared with; empty where nothing was.
    """

    model: str
    runner: str
    equal: str
    speed: str = ""

    def __str__(self) -> str:
        return f"| {self.model} | {self.runner} | {self.equal} | {self.speed} |"


def write(runner: str, rows: Sequence[Row], *, keep_speeds: bool = False) -> None:
    """Print the rows, and write them into the page in the place of the older ones of the same runner.

    Args:
      runner: the beginning of the rows' `runner`, its name without a version.
      rows: the rows.
      keep_speeds: whether the page keeps the speeds that it has, also those of models that are not among the rows.
    """
    print("\n".join(map(str, rows)))
    before, _, below = PAGE.read_text().partition(_HEAD)
    table, blank, after = below.partition("\n\n")
    lines_of = {_key(line): line for line in table.splitlines() if line}
    others = [line for (of, _), line in lines_of.items() if not of.startswith(runner)]
    kept: list[str] = []
    if keep_speeds:
        own = {key: line for key, line in lines_of.items() if key[0].startswith(runner)}
        rows = [dataclasses.replace(row, speed=_speed(own.get((row.runner, row.model), ""))) for row in rows]
        made = {row.model for row in rows}
        kept = [line for (_, model), line in own.items() if model not in made]
    lines = [*others, *map(str, rows), *kept]
    ordered = sorted(lines, key=lambda line: _key(line)[0].casefold())  # keeps the order within a runner
    PAGE.write_text(before + _HEAD + "\n".join(ordered) + ("\n" if not after else blank) + after)


def _key(line: str) -> tuple[str, str]:
    """The runner and the model of a line of the table."""
    model, runner = (cell.strip() for cell in line.split("|")[1:3])
    return runner, model


def _speed(line: str) -> str:
    """The speed in a line of the table, "" for no line."""
    return line.split("|")[4].strip() if line else ""
