"""Structural expectations: what a graph must look like, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

__all__ = ["ExpectGraph", "expect_graph"]


@dataclasses.dataclass(frozen=True)
class ExpectGraph:
    """A structural expectation; see `expect_graph`."""

    paths: tuple[str, ...]
    counts: Mapping[str, int]
    absent: tuple[str, ...]
    match: Literal["exact", "path"]
    symbols: Mapping[str, int | None]
    search_functions: bool
    at_most: int | None


def expect_graph(
    *paths: str,
    counts: Mapping[str, int] | None = None,
    absent: Sequence[str] = (),
    match: Literal["exact", "path"] = "path",
    symbols: Mapping[str, int | None] | None = None,
    search_functions: bool = False,
    at_most: int | None = None,
) -> ExpectGraph:
    """The structure that an exported graph must have.

    Args:
      paths: operators along data edges, each with an optional shape (`x` between dimensions, `?` for any):
        `"Transpose -> Conv:Bx32x28x28 -> Relu"`.
      counts: the exact numbers of operators.
      absent: operators that must not occur.
      match: "exact" fails on any operator that no path names.
      symbols: numbers for the names of dimensions in shapes, None for any one in the whole path.
      search_functions: whether operators inside of ONNX functions and subgraphs count.
      at_most: the largest number of operators, for graphs that are too long to be written down.

    Raises:
      ValueError: there is no such `match`, or nothing is expected.
    """
    if match not in ("exact", "path"):
        raise ValueError(f"expect_graph: match must be 'exact' or 'path', not {match!r}")
    if match == "path" and at_most is None and not (paths or counts or absent):
        raise ValueError(
            'expect_graph: nothing is expected; give paths, counts, absent, at_most, or match="exact" for no operator'
        )
    return ExpectGraph(paths, dict(counts or {}), tuple(absent), match, dict(symbols or {}), search_functions, at_most)
