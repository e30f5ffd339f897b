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


def expect_graph(
    *paths: str,
    counts: Mapping[str, int] | None = None,
    absent: Sequence[str] = (),
    match: Literal["exact", "path"] = "path",
    symbols: Mapping[str, int | None] | None = None,
    search_functions: bool = False,
) -> ExpectGraph:
    """The structure that an exported graph must have.

    Args:
      paths: operators along data edges, each with an optional shape (`x` between dimensions, `?` for any):
        `"Transpose -> Conv:Bx32x28x28 -> Relu"`.
      counts: the exact numbers of operators.
      absent: operators that must not occur.
      match: "exact" fails on any operator that no path names.
      symbols: numbers for the names of dimensions in shapes, None for any.
      search_functions: whether operators inside of ONNX functions and subgraphs count.

    Raises:
      ValueError: there is no such `match`.
    """
    if match not in ("exact", "path"):
        raise ValueError(f"expect_graph: match must be 'exact' or 'path', not {match!r}")
    return ExpectGraph(paths, dict(counts or {}), tuple(absent), match, dict(symbols or {}), search_functions)
