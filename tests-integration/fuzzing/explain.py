"""Differences that are no defects: those that rounding, or what JAX itself leaves open, can make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_runtime.comparison import tolerance

from fuzzing.dependence import depending
from fuzzing.execution import Arrays, evaluate, evaluate_for_all_sizes, evaluate_perturbed
from fuzzing.known import explained_elements
from fuzzing.programs import Program

__all__ = ["REASONS", "are_close", "explain"]

REASONS = {
    "compiled otherwise": "JAX itself computes the value of the model when it evaluates the statements one by one.",
    "traced for all sizes": "JAX itself computes the value of the model if it traces the program with symbols.",
    "rounding": "JAX's own result changes as much if what is rounded is changed by a few units of the last place.",
    "signs of NaN and zeros": "JAX's own result changes as much if NaN, or zeros chosen by max, min and where, change their signs.",
    "nothing to slide over": "A runtime refuses a convolution or a pooling over an empty axis; JAX gives an empty result.",
    "factors of NaN": "LAPACK factorises what comes before a NaN, or gives NaN throughout, as it was compiled.",
    "masked keys": "Attention adds its mask to the scores, so that a masked key whose score is NaN or infinite counts.",
    "overflow in a normalisation": "JAX's formula has the mean of squares, the operator the square of what differs from the mean.",
    "small results of activations": "Elu, Selu and Celu are exp(x) - 1, whose absolute error is small, JAX's expm1(x) is exact.",
    "open gates": "Recurrent operators do not close their gates entirely, and are finite where infinities meet.",
    "weights of zero": "JAX multiplies what it does not use by zero, which makes NaN of NaN and of infinities; the operator leaves it out.",
    "nothing to find": "JAX fills with 0 what it finds in an array that it knows to be empty, with fill_value in others.",
    "transforms of infinities": "The product with a matrix makes a NaN of an infinity that XLA's algorithm does not multiply by zero.",
    "subnormal numbers": "XLA on CPU flushes them to zero, a model computes with them.",
    "half precision": "A runtime may keep float32 between two half-precision operators.",
    "more precise": "The value of the model is nearer than JAX's to that which JAX computes in double precision.",
    "overflow of products": "Of products that overflow, the sum is infinite or NaN: a fused multiply-add does not round them before.",
    "infinite complex numbers": "Which part of one that is not finite is infinite and which is NaN depends on how it is computed.",
}


_FACTOR = 10.0
_TINY = 1e6
_GREATEST = 1e30
_WIDER = {
    "half precision": {"float16": "float32", "bfloat16": "float32"},
    "more precise": {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex64": "complex128"},
}


def are_close(got: Array, want: Array) -> Array:
    """For each element whether it is equal within the tolerance of the dtype; NaN equals NaN."""
    rtol = tolerance(want.dtype)
    if rtol == 0:
        return np.asarray(got == want)
    wide, exact = _wide(got), _wide(want)
    magnitudes = np.abs(exact[np.isfinite(exact) & (exact != 0)])
    scale = min(1.0, float(np.median(magnitudes))) if magnitudes.size else 0.0
    close = np.isclose(wide, exact, rtol=rtol, atol=max(rtol * scale, _smallest(want)), equal_nan=True)
    # Complex numbers that are not finite are equal if both parts are.
    parts = [_equal(wide.real, exact.real), _equal(wide.imag, exact.imag)]
    return close & (np.isfinite(exact) | np.all(parts, axis=0))


def _equal(got: Array, want: Array) -> Array:
    return (got == want) | (np.isnan(got) & np.isnan(want))


def _smallest(array: Array) -> float:
    """The smallest normal number of the dtype, below which XLA flushes to zero."""
    return float(jnp.finfo(array.dtype).smallest_normal) if jnp.issubdtype(array.dtype, jnp.inexact) else 0.0


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if np.issubdtype(array.dtype, np.complexfloating) else np.float64)


def explain(
    program: Program, name: str, arguments: Arrays, got: Array, want: Array, run: Callable[[Arrays], Array]
) -> str:
    """Reason that the difference of a variable is no defect: a key of `REASONS`, or "" if it may be one.

    Args:
      program: the program whose result is wrong, of one statement or of several.
      name: the variable.
      arguments: the inputs of the program.
      got: what the model gives.
      want: what JAX gives.
      run: runs the model on other arguments.
    """
    wrong = ~are_close(got, want)
    for reason, explained in _explanations(program, name, arguments, got, want):
        wrong &= ~explained
        if not wrong.any():
            return reason
    excused = (_excused(program, name, arguments, excuse, got, want) for excuse in program.excuses)
    for (reason, _), elements in zip(program.excuses, excused):
        wrong &= ~elements
        if not wrong.any():
            return reason
    return "subnormal numbers" if _agree_without_tiny(program, name, arguments, wrong, run) else ""


def _explanations(
    program: Program, name: str, arguments: Arrays, got: Array, want: Array
) -> Iterator[tuple[str, Array]]:
    """Reasons, each with the elements that may be wrong because of it."""
    others = [evaluate(program, [name], arguments, eager=eager)[name] for eager in (True, False)]
    yield "compiled otherwise", np.any([are_close(got, other) for other in others], axis=0)
    yield "traced for all sizes", _as_for_all_sizes(program, name, arguments, got)
    for reason, signs in (("rounding", False), ("signs of NaN and zeros", True)):
        perturbed = [results[name] for results in evaluate_perturbed(program, [name], arguments, signs=signs)]
        yield reason, _within(got, want, [*others, *perturbed])
    yield from explained_elements(program, name, arguments, got, want)
    if np.iscomplexobj(want):
        yield "infinite complex numbers", ~np.isfinite(got) & ~np.isfinite(want)
    overflowing = {key: _overflowing_squares(value) for key, value in arguments.items()}
    if any(places.any() for places in overflowing.values()):
        depend = depending(program, name, arguments, overflowing)
        yield "overflow of products", depend & ~np.isfinite(got) & ~np.isfinite(want)
    for reason, dtypes in _WIDER.items():
        yield reason, _as_with_dtypes(program.with_dtypes(dtypes), name, arguments, got, want)
    yield "half precision", _as_partly_rounded(program, name, arguments, got)


def _excused(
    program: Program, name: str, arguments: Arrays, excuse: tuple[str, float], got: Array, want: Array
) -> Array:
    """The elements that an excuse of the program is about: those that depend on a number of its magnitude, and those that depend on one
    that is not finite and differ as the reason says.
    """
    reason, magnitude = excuse
    if reason == "weights of zero":
        return np.isnan(want) & _as_without_zero_weights(program, name, arguments, got)
    expected = _OF_INFINITIES[reason](got, want)
    large = {key: np.abs(_wide(value)) >= magnitude for key, value in arguments.items()}
    odd = {key: ~np.isfinite(_wide(value)) for key, value in arguments.items()}
    if reason not in _UP_TO_INFINITY:
        large = {key: large[key] & ~odd[key] for key in large}
    return depending(program, name, arguments, large) | (expected & depending(program, name, arguments, odd))


#: The reasons that are about scores or states beyond a magnitude, however large.
_UP_TO_INFINITY = {"masked keys"}


#: Reason → which elements that depend on an infinity or NaN may differ, of what the model and JAX give.
_OF_INFINITIES: Mapping[str, Callable[[Array, Array], Array]] = {
    "masked keys": lambda got, want: np.isnan(got),
    "open gates": lambda got, want: ~(np.isfinite(got) & np.isfinite(want)),
    "overflow in a normalisation": lambda got, want: np.zeros(got.shape, bool),
    "overflow of products": lambda got, want: ~np.isfinite(got) & ~np.isfinite(want),
}


def _as_without_zero_weights(program: Program, name: str, arguments: Arrays, got: Array) -> Array:
    """For each element of a linear function whether it is that of finite inputs, and infinite where infinite ones have a weight."""
    moderate = {key: _moderate(value) for key, value in arguments.items()}
    result = evaluate(program, [name], moderate)[name]
    limit = np.sqrt(_GREATEST)
    infinite = np.where(np.abs(_wide(result)) > limit, np.sign(_wide(result)) * np.inf, _wide(result)).astype(
        result.dtype
    )
    return are_close(got, infinite)


def _moderate(array: Array) -> Array:
    """Large numbers instead of infinities, and zeros instead of NaN."""
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return array
    great = np.asarray(min(_GREATEST, float(jnp.finfo(array.dtype).max) / 16), array.dtype)
    return np.where(np.isnan(array), np.zeros_like(array), np.clip(array, -great, great))


def _is_large(array: Array, magnitude: float) -> Array:
    """The finite elements of at least a magnitude."""
    wide = _wide(array)
    return np.isfinite(wide) & (np.abs(wide) >= magnitude)


def _overflowing_squares(array: Array) -> Array:
    """The elements of an array of floats whose squares are too great for its type."""
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return np.zeros(array.shape, bool)
    return _is_large(array, float(np.sqrt(float(jnp.finfo(array.dtype).max))))


def _as_for_all_sizes(program: Program, name: str, arguments: Arrays, got: Array) -> Array:
    """For each element whether the program that JAX makes for all sizes gives it."""
    if all(isinstance(d, int) for v in program.inputs for d in v.aval.shape):
        return np.zeros(got.shape, bool)
    # Not everything that can be traced with symbols can be exported by JAX, whose errors have no common type.
    try:
        result = evaluate_for_all_sizes(program, [name], arguments)[name]
    except Exception:  # noqa: BLE001
        return np.zeros(got.shape, bool)
    return are_close(got, result)


def _agree_without_tiny(
    program: Program, name: str, arguments: Arrays, wrong: Array, run: Callable[[Arrays], Array]
) -> bool:
    """Whether the wrong elements depend on numbers that are, or may soon become, subnormal, and the results are the same with zeros in
    their place.
    """
    flushed = {key: _flushed(value) for key, value in arguments.items()}
    tiny = {key: np.asarray(flushed[key] != value) & ~np.isnan(_wide(value)) for key, value in arguments.items()}
    if (wrong & ~depending(program, name, arguments, tiny)).any():
        return False
    return bool(are_close(run(flushed), evaluate(program, [name], flushed)[name]).all())


def _as_with_dtypes(program: Program | None, name: str, arguments: Arrays, got: Array, want: Array) -> Array:
    """For each element whether the program with other dtypes gives it, or a number nearer to it than JAX's."""
    nowhere = np.zeros(want.shape, bool)
    if program is None:
        return nowhere
    # Not everything can be done with another dtype, such as taking its bits as 16.
    try:
        with jax.enable_x64(True):
            result = evaluate(program, [name], arguments)[name]
    except (TypeError, ValueError):
        return nowhere
    if result.shape != want.shape:
        return nowhere
    with np.errstate(all="ignore"):
        is_nearer = np.abs(_wide(got) - _wide(result)) <= np.abs(_wide(want) - _wide(result))
        return (is_nearer & np.isfinite(want)) | are_close(got, result.astype(want.dtype))


def _as_partly_rounded(program: Program, name: str, arguments: Arrays, got: Array) -> Array:
    """For each element whether it is that of the program in float32 of which some intermediate results are rounded to half precision."""
    units = {key: float(jnp.finfo(key).eps) for key in _WIDER["half precision"]}
    inputs = [units[v.aval.dtype.name] for v in program.inputs if v.aval.dtype.name in units]
    wider = program.with_dtypes(_WIDER["half precision"])
    if wider is None or not inputs:
        return np.zeros(got.shape, bool)
    # Not everything can be done with another dtype, such as taking its bits as 16.
    try:
        center = evaluate(wider, [name], arguments)[name]
    except (TypeError, ValueError):
        return np.zeros(got.shape, bool)
    samples = [results[name] for results in evaluate_perturbed(wider, [name], arguments, precision=max(inputs))]
    return _within(got, center, samples)


def _within(got: Array, want: Array, samples: Sequence[Array]) -> Array:
    """For each element whether it differs no more than the samples do among themselves."""
    if not np.issubdtype(_wide(want).dtype, np.complexfloating) and tolerance(want.dtype) == 0:
        return np.any([sample != want for sample in samples], axis=0)
    wide = np.stack([_wide(want), *map(_wide, samples)])
    finite = np.isfinite(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.abs(wide - wide[0]).max(0)
        near = np.abs(_wide(got) - wide[0]) <= _FACTOR * spread + tolerance(want.dtype) * np.abs(wide[0])
    # A result that is now finite and now not, or now infinite and now otherwise, may be anything.
    same = (wide == wide[0]) | (np.isnan(wide) & np.isnan(wide[0]))
    return near | (finite.any(0) & ~finite.all(0)) | (~finite.any(0) & ~same.all(0))


def _flushed(array: Array) -> Array:
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return array
    return np.where(np.abs(array) < _smallest(array) * _TINY, np.zeros_like(array), array)
