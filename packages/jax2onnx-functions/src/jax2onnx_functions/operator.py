"""`custom_op`: an operator of another domain, with a JAX function that says what it computes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

import jax
from jax2onnx_core import Call, Context, Rules, Value, bind_composite, exporting
from jax2onnx_graph.build.attributes import Attribute

from jax2onnx_functions._domains import check_domain

__all__ = ["custom_op", "rules"]

rules = Rules()

_OPERATION = "jax2onnx.operator"
P = ParamSpec("P")
R = TypeVar("R")


def custom_op(
    op_type: str, *, domain: str, attributes: Mapping[str, Attribute] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: calls of the function become the operator `op_type` of `domain` in exported models.

    The decorated function is the reference implementation of the operator, in JAX: it determines the types and shapes
    of the results, it runs outside exports, and it is traced instead of the operator under `jax.vmap`, `jax.grad` and
    `jax.jvp`. Positional arguments are the operator's inputs (None for an omitted one), keyword arguments its
    attributes; a tuple of results is the operator's outputs in order.

    Args:
      op_type: the name of the operator.
      domain: its domain, which is added to the model's opset imports.
      attributes: attributes that each call has, besides its keyword arguments.

    Raises:
      ValueError: the domain is that of the standard operators, which come from rules.

    >>> @custom_op("QuickGelu", domain="com.microsoft", attributes={"alpha": 1.702})
    ... def quick_gelu(x):
    ...     return x * jax.nn.sigmoid(1.702 * x)
    """
    check_domain(f"custom_op({op_type!r})", domain)
    fixed = dict(attributes or {})

    def decorate(reference: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(reference)
        def call(*operands: P.args, **kwargs: P.kwargs) -> R:
            if not exporting():
                return reference(*operands, **kwargs)
            static = Call(*operands, op_type=op_type, domain=domain, attributes=tuple({**fixed, **kwargs}.items()))
            return bind_composite(_OPERATION, static, lambda: reference(*operands, **kwargs))

        return call

    return decorate


@rules.lower(_OPERATION)
def lower_operator(
    ctx: Context, *operands: Value, op_type: str, domain: str, attributes: Sequence[tuple[str, Attribute]]
) -> Sequence[Value]:
    """One node, whose outputs have the element types of the reference's results."""
    dtypes = [jax.dtypes.canonicalize_dtype(aval.dtype) for aval in ctx.avals_out]
    return ctx.emit(op_type, operands, domain, len(dtypes), dtypes, None, dict(attributes))
