"""Test cases as data: what a plugin declares, what the testing kit turns into tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

__all__ = [
    "Case",
    "Construct",
    "ExpectGraph",
    "Limitation",
    "construct",
    "expect_graph",
    "with_dtype",
    "with_rngs",
]

Precision = Literal["f32", "f64"]


@dataclasses.dataclass(frozen=True)
class _WithDtype:
    pass


@dataclasses.dataclass(frozen=True)
class _WithRngs:
    seed: int


def with_dtype() -> Any:
    """Placeholder inside `construct`: the float dtype of the variant (float32 or float64)."""
    return _WithDtype()


def with_rngs(seed: int) -> Any:
    """Placeholder inside `construct`: a fresh `flax.nnx.Rngs(seed)` for each variant."""
    return _WithRngs(seed)


@dataclasses.dataclass(frozen=True)
class Construct:
    """A callable to build anew for each variant; see `construct`."""

    factory: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def construct(factory: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Construct:
    """Build `factory(*args, **kwargs)` when the case runs, placeholders filled in; never at import."""
    return Construct(factory, args, kwargs)


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
    """What the graph must look like.

    A path is `"Transpose -> Conv:Bx32x28x28 -> Relu"`: operators along data edges, each with an
    optional shape (`x` between dimensions, `?` for any). `counts` gives exact numbers of operators,
    `absent` operators that must not occur. `match="exact"` fails on any operator that no path
    names. `symbols` fixes dimension names used in shapes to numbers (or None for any).
    `search_functions` looks inside ONNX functions and subgraphs too.
    """
    if match not in ("exact", "path"):
        raise ValueError(f"expect_graph: match must be 'exact' or 'path', not {match!r}")
    return ExpectGraph(paths, dict(counts or {}), tuple(absent), match, dict(symbols or {}), search_functions)


@dataclasses.dataclass(frozen=True)
class Limitation:
    """A known gap: which primitive or case, with which dtypes, and why it stays."""

    subject: str
    reason: str
    dtypes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Case:
    """One test case: converted, run and compared with JAX as f32 and f64, at several sizes.

    Args:
      name: unique within the plugin module.
      fn: the callable, or `construct(...)` of one.
      inputs: one entry per positional argument: a shape tuple (the variant's float dtype), or
        `(shape, dtype)`, or a concrete array (fixed values; float arrays take the variant's dtype).
        A dimension may be a string.
      covers: primitives and composites that this case is the evidence for.
      expect: structural expectation(s), checked on the f32 variant.
      values: "special" mixes NaN, infinities, signed zeros and extremes into the inputs, "finite"
        is standard normal, "positive" is in (0, 3), "unit" is in (-1, 1).
      rtol, atol: tolerances; None for those of the dtype.
      options: further keyword arguments of `to_onnx`.
      skip: variant name ("f32", "f64") → the reason for which it is skipped.
    """

    name: str
    fn: Any
    inputs: Sequence[Any] = ()
    covers: tuple[str, ...] = ()
    expect: ExpectGraph | Sequence[ExpectGraph] = ()
    values: Literal["special", "finite", "positive", "unit"] = "finite"
    rtol: float | None = None
    atol: float | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    skip: Mapping[Precision, str] = dataclasses.field(default_factory=dict)
