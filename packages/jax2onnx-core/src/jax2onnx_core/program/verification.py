"""Verifying an exported program against the JAX function it came from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jax2onnx_core import _compat
from jax2onnx_core.plugins.errors import SymbolError, VerificationError
from jax2onnx_core.symbols.symbols import evaluate_dim

if TYPE_CHECKING:
    from jax2onnx_core.program.program import OnnxProgram

__all__ = ["choose_sizes", "random_arguments", "tolerance", "verify"]

# Relative tolerance by dtype: about four decimal digits less than the dtype has.
_TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 6e-2, "complex128": 1e-9, "complex64": 1e-4}
_CANDIDATES = (1, 7, 12, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 16, 0)


def tolerance(dtype: Any) -> float:
    """The relative tolerance for results of this dtype; exact for integers and booleans."""
    return _TOLERANCES.get(np.dtype(dtype).name, 0.3 if "float" in np.dtype(dtype).name else 0.0)


def verify(
    program: OnnxProgram,
    sizes: Sequence[Mapping[str, int]] | None,
    seed: int,
    rtol: float | None,
    atol: float | None,
) -> float:
    """See `OnnxProgram.verify`."""
    worst = 0.0
    for run, values in enumerate(choose_sizes(program) if sizes is None else sizes):
        args, kwargs = random_arguments(program, values, seed + run)
        expected = _expected(program, args, kwargs)
        actual = jax.tree_util.tree_leaves(program(*args, **kwargs))
        for name, want, got in zip(program.output_names, expected, actual, strict=True):
            worst = max(worst, _compare(name, np.asarray(want), np.asarray(got), values, rtol, atol))
    return worst


def _expected(program: OnnxProgram, args: Any, kwargs: Any) -> list[Any]:
    """What the function itself computes, on JAX arrays as it was traced for."""
    with jax.enable_x64(program.options.x64):
        args, kwargs = jax.tree_util.tree_map(jax.numpy.asarray, (args, kwargs))
        return jax.tree_util.tree_leaves(program.fn(*args, **kwargs))


def _compare(
    name: str, want: np.ndarray[Any, Any], got: np.ndarray[Any, Any], values: Mapping[str, int],
    rtol: float | None, atol: float | None,
) -> float:  # fmt: skip
    where = ", ".join(f"{k} = {v}" for k, v in values.items()) or "the exported shapes"
    if want.shape != got.shape:
        raise VerificationError(f"Output {name!r} has shape {got.shape}, JAX's has {want.shape}, at {where}.")
    rtol = tolerance(want.dtype) if rtol is None else rtol
    wide = np.complex128 if np.issubdtype(want.dtype, np.complexfloating) else np.float64
    exact, computed = want.astype(wide), got.astype(wide)
    scale = float(np.max(np.abs(exact), initial=0.0, where=np.isfinite(exact)))
    atol = rtol * max(scale, 1e-30) if atol is None else atol
    close = np.isclose(computed, exact, rtol=rtol, atol=atol, equal_nan=True)
    with np.errstate(invalid="ignore"):
        difference = np.where(computed == exact, 0.0, np.abs(computed - exact))
    finite = difference[np.isfinite(difference)]
    largest = float(finite.max(initial=0.0))
    if not close.all():
        index = tuple(int(i) for i in np.argwhere(~close)[0])
        raise VerificationError(
            f"Output {name!r} differs from JAX at {where}: {int((~close).sum())} of {close.size} elements, largest "
            f"difference {largest:.3g}; the first is at {index}: {got[index]!r} instead of {want[index]!r}."
        )
    return largest


def choose_sizes(program: OnnxProgram) -> list[dict[str, int]]:
    """Values for the symbols: the smallest allowed, a prime and a larger one, each symbol another."""
    inputs = program.inputs
    symbols = inputs.symbols
    dims = [d for aval in inputs.avals for d in aval.shape]
    names = symbols.names(dims)
    if not names:
        return [{}]
    found: list[dict[str, int]] = []
    for start in (0, 1, 2):
        values = _search(program, names, start)
        if values is not None and values not in found:
            found.append(values)
    if not found:
        raise SymbolError(f"No small sizes of {', '.join(names)} satisfy the constraints; give them: verify(sizes=[…]).")
    return found


def _search(program: OnnxProgram, names: Sequence[str], start: int) -> dict[str, int] | None:
    """Depth-first over small candidates, rotated for each symbol so that symbols differ."""

    def extend(values: dict[str, int]) -> dict[str, int] | None:
        if len(values) == len(names):
            return values if _fits(program, values) else None
        name = names[len(values)]
        shift = 0 if start == 0 else start + len(values)
        order = (_CANDIDATES[-1:] if start == 0 and program.inputs.symbols.minimum(name) == 0 else ()) + _CANDIDATES
        for k in range(len(order)):
            candidate = {**values, name: order[(k + shift) % len(order)]}
            if _allowed(program, candidate) and (result := extend(candidate)):
                return result
        return None

    return extend({})


def _allowed(program: OnnxProgram, values: Mapping[str, int]) -> bool:
    try:
        program.inputs.symbols.check_constraints(values)
    except SymbolError:
        return False
    return True


def _fits(program: OnnxProgram, values: Mapping[str, int]) -> bool:
    """Whether every dimension of every input and output is a size."""
    traced = program.inputs.symbols.traced_values(values)
    avals = [*program.inputs.avals, *program.traced.out_avals]
    sizes = [evaluate_dim(d, traced) for aval in avals for d in aval.shape]
    return all(size >= 0 for size in sizes)


def random_arguments(program: OnnxProgram, values: Mapping[str, int], seed: int) -> tuple[Any, Any]:
    """Random `(args, kwargs)` of the shapes that the inputs have at these values of the symbols."""
    rng = np.random.default_rng(seed)
    traced = program.inputs.symbols.traced_values(values)
    leaves = [
        _random(rng, aval, tuple(evaluate_dim(d, traced) for d in aval.shape)) for aval in program.inputs.avals
    ]
    args, kwargs = jax.tree_util.tree_unflatten(program.inputs.tree, leaves)
    return args, kwargs


def _random(rng: np.random.Generator, aval: Any, shape: tuple[int, ...]) -> Any:
    if _compat.is_extended_dtype(aval.dtype):
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31)), impl=aval.dtype._impl), math.prod(shape) or 1)
        return keys[: math.prod(shape)].reshape(shape)
    dtype = np.dtype(aval.dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0, 5, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
