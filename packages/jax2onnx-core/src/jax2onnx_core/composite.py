"""The composite primitive: one equation that carries a name, static parameters and its own meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jax2onnx_core import _compat
from jax2onnx_core.rules import Call

__all__ = ["Static", "bind_composite", "composite_p", "is_composite"]

composite_p = _compat.Primitive("jax2onnx_composite")


class Static:
    """The static parameters of a composite; compared by identity, printed in jaxprs."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.values.items())


def is_composite(primitive: Any) -> bool:
    return primitive is composite_p


def bind_composite(name: str, call: Call, original: Callable[[], Any], *, keep_under_vmap: bool = False) -> Any:
    """Trace `original()` and bind it as the operation `name` with the operands and params of `call`.

    The equation's operands are those of the call followed by everything that the original closed
    over, so the decomposition is always at hand and no operand has to be matched with an argument.
    Returns what `original()` would have returned.
    """
    jaxpr, consts, out = _compat.trace_thunk(original)
    operands, tree = jax.tree_util.tree_flatten(call.operands)
    operands = [jnp.asarray(x) for x in operands]
    results = composite_p.bind(
        *operands,
        *consts,
        name=name,
        jaxpr=jaxpr,
        count=len(operands),
        tree=tree,
        static=Static(call.params),
        keep=keep_under_vmap,
    )
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(out), results)


def _batch(size: Any, axis_name: Any, operands: Sequence[Any], axes: Sequence[int | None], **params: Any) -> list[Any]:
    count, jaxpr = params["count"], params["jaxpr"]

    def meaning(*args: Any) -> list[Any]:
        return _compat.eval_closed(jaxpr, *args)

    if not params["keep"]:
        batched = jax.vmap(meaning, tuple(axes[count:]), 0, axis_name=axis_name, axis_size=size)
        return list(batched(*operands[count:]))
    front = [_to_front(x, axis, size) for x, axis in zip(operands, axes, strict=True)]
    batched = jax.vmap(meaning, axis_name=axis_name, axis_size=size)
    traced = jax.make_jaxpr(batched)(*(jax.typeof(x) for x in front[count:]))
    return list(composite_p.bind(*front, **{**params, "jaxpr": traced}))


def _to_front(x: Any, axis: int | None, size: Any) -> Any:
    return jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)


_compat.register_composite_rules(composite_p, _batch)
