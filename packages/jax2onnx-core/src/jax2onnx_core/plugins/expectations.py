"""Structural expectations: what a graph must look like, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

__all__ = ["AttributeValue", "ExpectGraph", "expect_graph"]

#: A value that an attribute must have; None where the node must not have it.
AttributeValue = int | float | str | Sequence[int] | Sequence[float] | Sequence[str] | None


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
    attrs: Mapping[str, Mapping[str, AttributeValue]]
    no_unused_inputs: bool


def expect_graph(
    *paths: str,
    counts: Mapping[str, int] | None = None,
    absent: Sequence[str] = (),
    match: Literal["exact", "path"] = "path",
    symbols: Mapping[str, int | None] | None = None,
    search_functions: bool = False,
    at_most: int | None = None,
    attrs: Mapping[str, Mapping[str, AttributeValue]] | None = None,
    no_unused_inputs: bool = False,
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
      attrs: operator → the attributes that each node of it must have; there must be one.
      no_unused_inputs: whether every input of the graph (with `search_functions`, of functions too) must be read.

    Raises:
      ValueError: there is no such `match`, or nothing is expected.
    """
    if match not in ("exact", "path"):
        raise ValueError(f"expect_graph: match must be 'exact' or 'path', not {match!r}")
    if match == "path" and at_most is None and not (paths or counts or absent or attrs or no_unused_inputs):
        raise ValueError(
            "expect_graph: nothing is expected; give paths, counts, absent, at_most, attrs, no_unused_inputs, "
            'or match="exact" for no operator'
        )
    return ExpectGraph(
        paths, dict(counts or {}), tuple(absent), match, dict(symbols or {}), search_functions, at_most,
        {operator: dict(values) for operator, values in (attrs or {}).items()}, no_unused_inputs,
    )  # fmt: skip
