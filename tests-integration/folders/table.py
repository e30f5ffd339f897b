"""The table of docs/folders-measured.md: what the scripts of this folder found, a row for each model in each runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Row", "write"]

PAGE = Path(__file__).parents[2] / "docs" / "folders-measured.md"
_HEAD = "| model | runtime | equal | speed |\n|---|---|---|---|\n"


@dataclasses.dataclass(frozen=True)
class Row:
    """The result of a model in a runtime.

    Attributes:
      model: the model, with its precision.
      runtime: the runtime, with its version.
      equal: what was compared with JAX: "200 of 200 tokens".
      speed: what was measured, with what it is compared with; empty where nothing was.
    """

    model: str
    runtime: str
    equal: str
    speed: str = ""

    def __str__(self) -> str:
        return f"| {self.model} | {self.runtime} | {self.equal} | {self.speed} |"


def write(runtime: str, rows: Sequence[Row], *, keep_speeds: bool = False) -> None:
    """Print the rows, and write them into the page in the place of the older ones of the same runtime.

    Args:
      runtime: the beginning of the rows' `runtime`, its name without a version.
      rows: the rows.
      keep_speeds: whether the page keeps the speeds that it has, also those of models that are not among the rows.
    """
    print("\n".join(map(str, rows)))
    before, _, below = PAGE.read_text().partition(_HEAD)
    table, blank, after = below.partition("\n\n")
    lines_of = {_key(line): line for line in table.splitlines() if line}
    others = [line for (of, _), line in lines_of.items() if not of.startswith(runtime)]
    kept: list[str] = []
    if keep_speeds:
        own = {key: line for key, line in lines_of.items() if key[0].startswith(runtime)}
        rows = [dataclasses.replace(row, speed=_speed(own.get((row.runtime, row.model), ""))) for row in rows]
        made = {row.model for row in rows}
        kept = [line for (_, model), line in own.items() if model not in made]
    lines = [*others, *map(str, rows), *kept]
    ordered = sorted(lines, key=lambda line: _key(line)[0].casefold())  # keeps the order within a runtime
    PAGE.write_text(before + _HEAD + "\n".join(ordered) + ("\n" if not after else blank) + after)


def _key(line: str) -> tuple[str, str]:
    """The runtime and the model of a line of the table."""
    model, runtime = (cell.strip() for cell in line.split("|")[1:3])
    return runtime, model


def _speed(line: str) -> str:
    """The speed in a line of the table, "" for no line."""
    return line.split("|")[4].strip() if line else ""
