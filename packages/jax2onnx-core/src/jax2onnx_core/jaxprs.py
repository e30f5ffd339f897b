"""Reading and making jaxprs, whatever JAX's version: what plugins share with the engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
from jax2onnx_graph.facts.dims import Dim, Dims, is_static

from jax2onnx_core._compat import (
    bind_equation,
    bind_primitive,
    defines_sizes,
    eval_jaxpr,
    inner_jaxprs,
    is_drop_var,
    is_extended_dtype,
    is_jaxpr,
    is_literal,
    open_jaxpr,
    scan_counts,
    user_frame,
)
from jax2onnx_core._compat_dims import bounds, dim_expression, inconclusive_dimension_error, is_symbolic_dim
from jax2onnx_core.jax_types import Aval, Equation, Jaxpr

__all__ = [
    "AbsentWeight", "Aval", "Dim", "Dims", "Equation", "Jaxpr", "StaticParams", "bind_equation", "bind_primitive", "bounds", "defines_sizes", "definitely_le",
    "dim_expression", "eval_jaxpr", "every_jaxpr", "is_drop_var", "is_extended_dtype", "is_jaxpr", "is_literal", "is_positive", "is_static",
    "is_symbolic_dim", "open_jaxpr", "scan_counts", "struct", "user_frame",
]  # fmt: skip


def struct(aval: Aval) -> jax.ShapeDtypeStruct:
    """The aval as something to trace rules and decompositions with.

    It is not weakly typed: what a rule computes has the dtype of its operands, whatever JAX's default dtype is.
    """
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def every_jaxpr(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """A jaxpr and those in its equations, at any depth; each once, however many calls share it."""
    pending, seen = [jaxpr], {id(jaxpr)}
    while pending:
        one = pending.pop()
        yield one
        for eqn in open_jaxpr(one)[0].eqns:
            fresh = [inner for inner in inner_jaxprs(eqn) if id(inner) not in seen]
            seen.update(map(id, fresh))
            pending += fresh


def is_positive(dim: Dim) -> bool:
    """Whether a dimension is at least 1 for every value of its symbols."""
    return definitely_le(1, dim)


def definitely_le(a: Dim, b: Dim) -> bool:
    """Whether `a <= b` for every value of the symbols."""
    try:
        return bool(a <= b)
    except inconclusive_dimension_error:
        return False


@dataclasses.dataclass(frozen=True)
class AbsentWeight:
    """A constant of a jaxpr of which only the name and the type are known."""

    name: str
    type: jax.ShapeDtypeStruct


class StaticParams:
    """The static parameters of a composite; compared by identity, printed in jaxprs."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.values.items())
