"""Test cases as data: what a plugin declares, what the testing kit turns into tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from jax2onnx_core.plugins.expectations import ExpectGraph, expect_graph

__all__ = [
    "Case",
    "Construct",
    "ExpectGraph",
    "Precision",
    "construct",
    "expect_graph",
    "with_dtype",
    "with_rngs",
]

Precision = Literal["f32", "f64"]
Function = Callable[..., Any]


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
    """Placeholder inside `construct`: fresh random streams of this seed for each variant."""
    return _WithRngs(seed)


@dataclasses.dataclass(frozen=True)
class Construct:
    """A callable to build anew for each variant; see `construct`."""

    factory: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def construct(factory: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Construct:
    """A callable that is built anew for each variant of a case, never at import.

    Args:
      factory: builds it: a class, or a function that returns a callable.
      args: its positional arguments; the placeholders `with_dtype()` and `with_rngs(seed)` are filled in.
      kwargs: its keyword arguments, likewise.
    """
    return Construct(factory, args, kwargs)


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
      rtol: the relative tolerance; None for that of the dtype.
      atol: the absolute tolerance; None for that of the dtype.
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
