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


def write(runner: str, rows: Sequence[Row]) -> None:
    """Print the rows, and write them into the page in the place of the older ones of the same runner.

    Args:
      runner: the beginning of the rows' `runner`, its name without a version.
      rows: the rows.
    """
    lines = [str(row) for row in rows]
    print("\n".join(lines))
    before, _, below = PAGE.read_text().partition(_HEAD)
    table, blank, after = below.partition("\n\n")
    others = [line for line in table.splitlines() if line and not line.split("|")[2].strip().startswith(runner)]
    ordered = sorted(
        [*others, *lines], key=lambda line: line.split("|")[2].casefold()
    )  # keeps the order within a runner
    PAGE.write_text(before + _HEAD + "\n".join(ordered) + ("\n" if not after else blank) + after)
