"""Arguments for running the exported function in JAX: given ones as it was traced, and random ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np
from jax2onnx_graph.progress import steps
from jax2onnx_runtime.comparison import random_array
from jax2onnx_runtime.probing import Extent
from jax2onnx_runtime.sizes import Ranges, Sizes, index_ranges
from jax2onnx_runtime.verification import Run

from jax2onnx_core import _compat, _compat_meshes
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.jax_types import PyTree

__all__ = ["as_traced", "random_runs"]

_Kind = Literal["usual", "least", "largest"]


def as_traced(arrays: Sequence[Any], avals: Sequence[jax.ShapeDtypeStruct]) -> list[jax.Array]:
    """JAX arrays for inputs of these avals, weakly typed and divided over devices where those are."""
    typed = [
        x if _compat.is_extended_dtype(aval.dtype) else jax.numpy.asarray(x, aval.dtype)
        for x, aval in zip(arrays, avals, strict=True)
    ]
    typed = [
        x if aval.sharding is None else _compat_meshes.divided(x, aval.sharding)
        for x, aval in zip(typed, avals, strict=True)
    ]
    return [_compat.as_weak(x) if aval.weak_type else x for x, aval in zip(typed, avals, strict=True)]


def random_runs(
    inputs: Inputs, sizes: Sequence[Sizes], ranges: Ranges, extents: Mapping[str, Sequence[Extent]], seed: int
) -> Iterator[Run]:
    """A run with random arguments for each of `sizes`.

    Where sizes depend on data, the first runs come once more with the least and with the largest numbers alone, by which most masks select
    nothing, or all.

    Args:
      inputs: the names, types and pytree of the arguments.
      sizes: symbols → numbers, one mapping per run.
      ranges: input name → `(low, high)` of its random numbers.
      extents: input name → the sizes of the axes that it indexes, within which its numbers are without a range.
      seed: that of the first run; the others have the numbers after it.
    """
    space = inputs.space()
    kinds: list[_Kind] = ["usual", "least", "largest"] if inputs.symbols.from_data else ["usual"]
    runs = [(values, kind) for kind in kinds for values in (sizes if kind == "usual" else sizes[:2])]
    for number, (values, kind) in enumerate(steps("verify", runs)):
        rng = np.random.default_rng(seed + number)
        bounds = {**index_ranges(space, extents, values), **ranges}
        leaves = [
            _of_kind(_random(rng, aval, tuple(space.evaluate(d, values) for d in aval.shape), bounds.get(name)), kind)
            for name, aval in zip(inputs.names, inputs.avals, strict=True)
        ]
        args, kwargs = jax.tree_util.tree_unflatten(inputs.tree, leaves)
        where = ", ".join(f"{k} = {v}" for k, v in values.items()) or "the exported shapes"
        yield Run(where, args, kwargs) if kind == "usual" else Run(f"{where}, the {kind} numbers", args, kwargs, True)


def _random(
    rng: np.random.Generator, aval: jax.ShapeDtypeStruct, shape: tuple[int, ...], bounds: tuple[float, float] | None
) -> Any:
    if _compat.is_extended_dtype(aval.dtype):
        return _compat.random_keys(int(rng.integers(2**31)), math.prod(shape), aval).reshape(shape)
    return random_array(rng, aval.dtype, shape, bounds)


def _of_kind(x: PyTree, kind: _Kind) -> PyTree:
    """The random array, or one of its least or its largest numbers alone."""
    if kind == "usual" or not isinstance(x, np.ndarray) or not x.size or x.dtype.kind == "c":
        return x
    if x.dtype == np.bool_:
        return np.full_like(x, kind == "largest")
    if np.issubdtype(x.dtype, np.integer):
        return np.full_like(x, x.max() if kind == "largest" else x.min())
    return np.abs(x) if kind == "largest" else -np.abs(x)
