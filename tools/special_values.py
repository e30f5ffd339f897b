"""Write the table of docs/guide/special-values.md: where models differ from JAX for special values, and why.

The rows are the limitations of plugins, targets and runtimes that name such values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import coverage_table
import targets
from jax2onnx_graph.limitations import Limitation, SpecialValues
from pages import write_part

PAGE = targets.ROOT / "docs" / "guide" / "special-values.md"


def differences() -> dict[Limitation, list[str]]:
    """Each limitation about special values, with the targets that have it; none for one of all targets."""
    found: dict[Limitation, list[str]] = {one: [] for one in coverage_table.limitations() if one.values}
    for target, one in targets.limitations():
        if one.values:
            found.setdefault(one, []).append(f"`{target}`")
    return found


def rows() -> Iterator[str]:
    """The table, by special values: first what all targets differ in."""
    yield "| values | of | target | dtypes | difference |"
    yield "|---|---|---|---|---|"
    found = differences()
    for values in get_args(SpecialValues):
        for one, names in sorted(found.items(), key=lambda item: bool(item[1])):
            if one.values[0] == values:
                dtypes = ", ".join(f"`{dtype}`" for dtype in one.dtypes) or "all"
                which = ", ".join(dict.fromkeys(names)) or "all"
                yield f"| {', '.join(one.values)} | {one.subject} | {which} | {dtypes} | {one.reason} |"


def main() -> None:
    write_part(PAGE, "differences", rows())


if __name__ == "__main__":
    main()
