"""Verifying an exported program against the JAX function it came from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.comparison import OutputError, output_error, random_array
from jax2onnx_graph.probing import Extent
from jax2onnx_graph.progress import steps
from jax2onnx_graph.sizes import Ranges, Sizes, index_ranges

from jax2onnx_core import _compat
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.lowering.physical import physical_array

__all__ = ["Run", "as_traced", "random_runs", "verify"]


@dataclasses.dataclass(frozen=True)
class Run:
    """The arguments of one run, and what is said of them in messages."""

    where: str
    args: Sequence[PyTree]
    kwargs: Mapping[str, PyTree]


def verify(
    fresh: Callable[[], Function], program: Function, runs: Iterable[Run], inputs: Inputs, output_names: Sequence[str],
    found: list[OutputError], *, x64: bool, rtol: float | None, atol: float | None,
) -> None:  # fmt: skip
    """Compare `program` with the functions that `fresh` makes, one for each run, and add to `found`; see `OnnxProgram.verify`."""
    for run in runs:
        actual = map(physical_array, jax.tree_util.tree_leaves(program(*run.args, **run.kwargs)))
        expected = _expected(fresh(), x64, run, inputs)
        for name, got, want in zip(output_names, actual, expected, strict=True):
            found.append(output_error(name, got, want, run.where, rtol=rtol, atol=atol))
            found[-1].check()


def _expected(fn: Function, x64: bool, run: Run, inputs: Inputs) -> list[Array]:
    """What the function itself computes, on JAX arrays of the types that it was traced for."""
    with jax.enable_x64(x64):
        leaves = as_traced(jax.tree_util.tree_leaves((tuple(run.args), dict(run.kwargs))), inputs.avals)
        args, kwargs = jax.tree_util.tree_unflatten(inputs.tree, leaves)
        return [physical_array(jax.numpy.asarray(x)) for x in jax.tree_util.tree_leaves(fn(*args, **kwargs))]


def as_traced(arrays: Sequence[Any], avals: Sequence[jax.ShapeDtypeStruct]) -> list[jax.Array]:
    """JAX arrays for inputs of these avals, weakly typed where those are."""
    typed = [
        x if _compat.is_extended_dtype(aval.dtype) else jax.numpy.asarray(x, aval.dtype)
        for x, aval in zip(arrays, avals, strict=True)
    ]
    return [_compat.as_weak(x) if aval.weak_type else x for x, aval in zip(typed, avals, strict=True)]


def random_runs(
    inputs: Inputs, sizes: Sequence[Sizes], ranges: Ranges, extents: Mapping[str, Sequence[Extent]], seed: int
) -> Iterator[Run]:
    """A run with random arguments for each of `sizes`; inputs with `extents` (of axes that they index) are in range."""
    space = inputs.space()
    for number, values in enumerate(steps("verify", sizes)):
        rng = np.random.default_rng(seed + number)
        bounds = {**index_ranges(space, extents, values), **ranges}
        leaves = [
            _random(rng, aval, tuple(space.evaluate(d, values) for d in aval.shape), bounds.get(name))
            for name, aval in zip(inputs.names, inputs.avals, strict=True)
        ]
        args, kwargs = jax.tree_util.tree_unflatten(inputs.tree, leaves)
        yield Run(", ".join(f"{k} = {v}" for k, v in values.items()) or "the exported shapes", args, kwargs)


def _random(
    rng: np.random.Generator, aval: jax.ShapeDtypeStruct, shape: tuple[int, ...], bounds: tuple[float, float] | None
) -> Any:
    if _compat.is_extended_dtype(aval.dtype):
        return _compat.random_keys(int(rng.integers(2**31)), math.prod(shape), aval).reshape(shape)
    return random_array(rng, aval.dtype, shape, bounds)
