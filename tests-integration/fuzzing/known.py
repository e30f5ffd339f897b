"""Known differences of single operations: which elements of a result may differ from JAX's, and why."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from jax2onnx_graph.arrays import Array

from fuzzing.execution import evaluate
from fuzzing.programs import Program

__all__ = ["KNOWN", "KNOWN_ERRORS", "Known", "explain_error", "explained_elements"]


@dataclasses.dataclass(frozen=True)
class _Difference:
    """The result of one statement in a model and in JAX.

    Attributes:
      operands: the arrays that the statement reads, each once, in the order in which it names them.
      got: what the model gives.
      want: what JAX gives.
    """

    operands: Sequence[Array]
    got: Array
    want: Array


@dataclasses.dataclass(frozen=True)
class Known:
    """A known difference.

    Attributes:
      expression: what the expression of a statement has in it, a regular expression.
      reason: a key of `explain.REASONS`.
      elements: for each element of the result whether it may differ.
    """

    expression: str
    reason: str
    elements: Callable[[_Difference], Array]


def explained_elements(
    program: Program, name: str, arguments: Mapping[str, Array], got: Array, want: Array
) -> Sequence[tuple[str, Array]]:
    """Reasons, each with the elements of a variable that may be wrong because of it.

    Only the statement that computes the variable is looked at: where several follow each other, each is explained by itself.

    Args:
      program: the program.
      name: the variable.
      arguments: the inputs of the program.
      got: the variable's value in the model.
      want: that in JAX.
    """
    statement = next(s for s in program.statements if any(t.name == name for t in s.targets))
    known = [one for one in KNOWN if re.search(one.expression, statement.expression)]
    if not known:
        return []
    names = list(dict.fromkeys(statement.operands))
    values = {**arguments, **evaluate(program, [operand for operand in names if operand not in arguments], arguments)}
    difference = _Difference([values[operand] for operand in names], got, want)
    return [(one.reason, np.broadcast_to(one.elements(difference), got.shape)) for one in known]


# -- the elements that a reason is about -----------------------------------------------------------


def _hidden_score(difference: _Difference) -> Array:
    """NaN in rows of causal attention of an array with itself, [T, N, H] or [T, H], that hide a score of NaN or plus infinity."""
    (x,) = difference.operands
    wide = x.astype(np.float64).reshape(x.shape[0], -1, x.shape[-1])
    with np.errstate(all="ignore"):
        scores = np.einsum("tnh,snh->nts", wide, wide).astype(jnp.promote_types(x.dtype, np.float32))
    hidden = np.triu(np.ones(scores.shape[-2:], bool), 1)
    rows = ((np.isnan(scores) | np.isposinf(scores)) & hidden).any(-1)
    return rows.T.reshape(*x.shape[:-1], 1) & np.isnan(difference.got)


def _real_of_infinite_rows(difference: _Difference) -> Array:
    """The results that are not finite, of real transforms of rows that are not finite."""
    (x,) = difference.operands
    rows = ~np.isfinite(x).all(-1, keepdims=True)
    return rows & ~np.isfinite(difference.got)


def _overflowing_squares(difference: _Difference) -> Array:
    """Results along an axis of whose elements the squares, or their sum, overflow."""
    (x,) = difference.operands
    limit = np.sqrt(float(jnp.finfo(jnp.promote_types(x.dtype, np.float32)).max)) / _MOST_SUMMANDS
    magnitudes = np.abs(x.astype(np.float64))
    overflows = np.isfinite(magnitudes) & (magnitudes >= limit)
    return np.any([overflows.any(axis, keepdims=True) & np.ones(x.shape, bool) for axis in range(x.ndim)], axis=0)


def _zeros_of_nothing(difference: _Difference) -> Array:
    """Zeros where JAX looks for something in an array without elements."""
    is_empty = any(operand.size == 0 for operand in difference.operands)
    return is_empty & (difference.want == 0)


def _nan_of_factors(difference: _Difference) -> Array:
    """NaN in the factors of an array that is not finite."""
    is_finite = all(np.isfinite(operand).all() for operand in difference.operands)
    return np.isnan(difference.got) & (not is_finite)


def _small_errors(difference: _Difference) -> Array:
    """Numbers that are right to a part of the precision of float32, measured by 1."""
    got, want = difference.got.astype(np.float64), difference.want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.abs(got - want) <= _ERROR_OF_EXPONENTIAL


_MOST_SUMMANDS = 16
_ERROR_OF_EXPONENTIAL = 3e-7

KNOWN = (
    Known(
        r"dot_product_attention\(.*is_causal=True|softmax\(jnp\.where\(jnp\.tril\(.*, -1e9\)",
        "masked keys",
        _hidden_score,
    ),
    Known(r"jnp\.fft\.irfft\(", "transforms of infinities", _real_of_infinite_rows),
    Known(r"standardize", "overflow in a normalisation", _overflowing_squares),
    Known(r"nonzero|argwhere|, size=", "nothing to find", _zeros_of_nothing),
    Known(r"linalg\.cholesky", "factors of NaN", _nan_of_factors),
    Known(r"nn\.(elu|selu|celu)", "small results of activations", _small_errors),
)

KNOWN_ERRORS = {
    r"an image has an axis without elements": "nothing to slide over",
}
"""A regular expression on the error of a runtime, for inputs of which one is empty → the reason why it is no defect."""


def explain_error(text: str, values: Mapping[str, Array]) -> str:
    """Reason that an error of a runtime is no defect: a key of `explain.REASONS`, or "" if it may be one.

    Args:
      text: the error.
      values: all values of the program by name.
    """
    if all(value.size for value in values.values()):
        return ""
    return next((reason for pattern, reason in KNOWN_ERRORS.items() if re.search(pattern, text)), "")
