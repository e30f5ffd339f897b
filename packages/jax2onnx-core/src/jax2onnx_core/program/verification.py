"""Verifying an exported program against the JAX function it came from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.comparison import compare, random_array

from jax2onnx_core import _compat
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.jax_types import Aval, Function
from jax2onnx_core.jaxprs import Dims
from jax2onnx_core.plugins.errors import SymbolError, VerificationError
from jax2onnx_core.symbols.symbols import Symbols, evaluate_dim

__all__ = ["as_traced", "choose_sizes", "find_sizes", "random_arguments", "verify"]


_CANDIDATES = (1, 7, 12, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 16, 0)


def verify(
    fn: Function, run: Function, inputs: Inputs, out_avals: Sequence[Aval], output_names: Sequence[str],
    *, x64: bool, sizes: Sequence[Mapping[str, int]] | None, seed: int, rtol: float | None, atol: float | None,
) -> float:  # fmt: skip
    """Compare `run` with the JAX function `fn` on random inputs; see `OnnxProgram.verify`."""
    worst = 0.0
    for number, values in enumerate(choose_sizes(inputs, out_avals) if sizes is None else sizes):
        args, kwargs = random_arguments(inputs, values, seed + number)
        expected = _expected(fn, inputs, x64, args, kwargs)
        actual = jax.tree_util.tree_leaves(run(*args, **kwargs))
        for name, want, got in zip(output_names, expected, actual, strict=True):
            worst = max(worst, _largest_difference(name, np.asarray(got), np.asarray(want), values, rtol, atol))
    return worst


def _expected(fn: Function, inputs: Inputs, x64: bool, args: Any, kwargs: Any) -> list[Any]:
    """What the function itself computes, on JAX arrays as it was traced for."""
    with jax.enable_x64(x64):
        leaves = as_traced(jax.tree_util.tree_leaves((args, kwargs)), inputs.avals)
        args, kwargs = jax.tree_util.tree_unflatten(inputs.tree, leaves)
        return jax.tree_util.tree_leaves(fn(*args, **kwargs))


def as_traced(arrays: Sequence[Any], avals: Sequence[jax.ShapeDtypeStruct]) -> list[jax.Array]:
    """JAX arrays for inputs of these avals, weakly typed where those are."""
    typed = map(jax.numpy.asarray, arrays)
    return [_compat.as_weak(x) if aval.weak_type else x for x, aval in zip(typed, avals, strict=True)]


def _largest_difference(
    name: str, got: Array, want: Array, values: Mapping[str, int], rtol: float | None, atol: float | None
) -> float:
    """The largest difference of an output from JAX's; VerificationError if it is beyond the tolerance."""
    where = ", ".join(f"{k} = {v}" for k, v in values.items()) or "the exported shapes"
    if want.shape != got.shape:
        raise VerificationError(f"Output {name!r} has shape {got.shape}, JAX's has {want.shape}, at {where}.")
    found = compare(got, want, rtol=rtol, atol=atol)
    if not found.is_close:
        raise VerificationError(f"Output {name!r} differs from JAX at {where}: {found.detail}.")
    return found.largest


def choose_sizes(inputs: Inputs, out_avals: Sequence[Aval]) -> list[dict[str, int]]:
    """Values for the symbols: the smallest allowed, a prime and a larger one, each symbol another.

    Raises:
      SymbolError: no small sizes satisfy the constraints.
    """
    symbols, shapes = inputs.symbols, [aval.shape for aval in (*inputs.avals, *out_avals)]
    names = symbols.names([d for aval in inputs.avals for d in aval.shape])
    found: list[dict[str, int]] = []
    for start in (0, 1, 2):
        values = find_sizes(symbols, shapes, _candidates(symbols, names, start))
        if values is not None and values not in found:
            found.append(values)
    if not found:
        raise SymbolError(f"No small sizes of {', '.join(names)} fit the constraints; give them: verify(sizes=[…]).")
    return found


def _candidates(symbols: Symbols, names: Sequence[str], start: int) -> dict[str, Sequence[int]]:
    """Sizes to try for each symbol: the smallest first for `start` 0, else rotated, so that symbols differ."""
    if start == 0:
        return {name: ((0,) if symbols.minimum(name) == 0 else ()) + _CANDIDATES for name in names}
    shifts = [(start + i) % len(_CANDIDATES) for i in range(len(names))]
    return {name: _CANDIDATES[k:] + _CANDIDATES[:k] for name, k in zip(names, shifts, strict=True)}


def find_sizes(
    symbols: Symbols, shapes: Sequence[Dims], candidates: Mapping[str, Sequence[int]],
    given: Mapping[str, int] | None = None, *, distinct: bool = False,
) -> dict[str, int] | None:  # fmt: skip
    """The first sizes of the symbols that satisfy the constraints and make every dimension of `shapes` at least 0.

    Args:
      symbols: the symbols with their constraints.
      shapes: shapes in terms of the symbols.
      candidates: symbol → the sizes to try, in order; those of the last symbol vary fastest.
      given: sizes of further symbols.
      distinct: whether no two of `candidates` may get the same size.

    Returns:
      The sizes of all symbols; None if none of the candidates fit.
    """
    names, given = list(candidates), given or {}

    def extend(chosen: dict[str, int]) -> dict[str, int] | None:
        if len(chosen) == len(names):
            return {**given, **chosen} if _fits(symbols, shapes, {**given, **chosen}) else None
        name = names[len(chosen)]
        for size in candidates[name]:
            if (distinct and size in chosen.values()) or not symbols.allow({**given, **chosen, name: size}):
                continue
            result = extend({**chosen, name: size})
            if result is not None:
                return result
        return None

    return extend({})


def _fits(symbols: Symbols, shapes: Sequence[Dims], values: Mapping[str, int]) -> bool:
    """Whether every dimension of these shapes is a size."""
    traced = symbols.traced_values(values)
    return all(evaluate_dim(d, traced) >= 0 for shape in shapes for d in shape)


def random_arguments(inputs: Inputs, values: Mapping[str, int], seed: int) -> tuple[Any, Any]:
    """Random `(args, kwargs)` of the shapes that the inputs have at these values of the symbols."""
    rng = np.random.default_rng(seed)
    traced = inputs.symbols.traced_values(values)
    leaves = [_random(rng, aval, tuple(evaluate_dim(d, traced) for d in aval.shape)) for aval in inputs.avals]
    args, kwargs = jax.tree_util.tree_unflatten(inputs.tree, leaves)
    return args, kwargs


def _random(rng: np.random.Generator, aval: jax.ShapeDtypeStruct, shape: tuple[int, ...]) -> Any:
    if _compat.is_extended_dtype(aval.dtype):
        return _compat.random_keys(int(rng.integers(2**31)), math.prod(shape), aval).reshape(shape)
    return random_array(rng, aval.dtype, shape)
