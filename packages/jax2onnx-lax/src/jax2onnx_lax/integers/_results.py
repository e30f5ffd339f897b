"""`Transfer`: what is known of the result of an equation, from what is known of its operands."""

from __future__ import annotations

from collections.abc import Callable

from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import Dims
from jax2onnx_core.lowering.definitions import Definition

from jax2onnx_lax.integers._domain import Affine, Integers, affine

__all__ = ["Transfer", "affine_pair", "affine_result", "dims_of", "same"]

#: What is known of the result of an equation, from the equation and what is known of its operands; None if nothing is.
Transfer = Callable[..., Integers | None]


def dims_of(definition: Definition) -> Dims:
    """The dimensions of the first operand."""
    return tuple(definition.avals_in[0].shape)


def affine_result(definition: Definition, form: Affine) -> Integers:
    """The result where its elements are affine in their positions."""
    return affine(form, tuple(definition.aval.shape))


def _raised(form: Affine, rank: int) -> Affine:
    """An affine scalar as an array of a rank; other arrays as they are."""
    return form if form.steps else form._replace(steps=(0,) * rank)


def affine_pair(definition: Definition, x: Integers, y: Integers) -> tuple[Affine, Affine] | None:
    """The affine forms of two operands of the rank of the result; None where an operand has none."""
    if x.affine is None or y.affine is None:
        return None
    rank = len(definition.aval.shape)
    return _raised(x.affine, rank), _raised(y.affine, rank)


def same(a: Dim, b: Dim) -> bool:
    """Whether two sizes are equal for every value of their symbols."""
    return bool(a == b)
