"""How a composite's primitive behaves under JAX's transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import batching as _batching
from jax._src.interpreters import mlir as _mlir

from jax2onnx_core._compat.jaxprs import eval_jaxpr, open_jaxpr
from jax2onnx_core.jax_types import Jaxpr, Primitive, PyTree

__all__ = ["register_composite_rules"]


def register_composite_rules(primitive: Primitive, batch: Callable[..., list[jax.Array]]) -> None:
    """Make a primitive whose `jaxpr` parameter is its meaning (of the operands after the first `count`)
    behave as that jaxpr under every transform: evaluation, jit, grad, jvp, transposition; under vmap it becomes
    `batch(size, axis name, operands, axes, **params)`.
    """

    def inline(*operands: jax.Array, jaxpr: Jaxpr, count: int, **_: object) -> list[jax.Array]:
        return eval_jaxpr(jaxpr, *operands[count:])

    def jvp(
        primals: Sequence[jax.Array], tangents: Sequence[jax.Array], *, jaxpr: Jaxpr, count: int, **_: object
    ) -> PyTree:  # fmt: skip
        moved = {i: t for i, t in enumerate(tangents) if not isinstance(t, _ad.Zero)}

        def of_moved(values: dict[int, jax.Array]) -> PyTree:
            return inline(*(values.get(i, x) for i, x in enumerate(primals)), jaxpr=jaxpr, count=count)

        return jax.jvp(of_moved, ({i: primals[i] for i in moved},), (moved,))

    def transpose(
        cotangents: Sequence[jax.Array], *operands: jax.Array, jaxpr: Jaxpr, count: int, **_: object
    ) -> list[jax.Array | None]:
        inner, consts = open_jaxpr(jaxpr)
        return [None] * count + _ad.backward_pass(inner, False, consts, operands[count:], cotangents)

    def batcher(
        axis_data: _batching.AxisData, operands: Sequence[jax.Array], axes: Sequence[int | None], **params: object
    ) -> PyTree:
        if all(axis is None for axis in axes):  # vmap is around it, but does not concern it
            outs = primitive.bind(*operands, **params)
            return outs, [None] * len(outs)
        outs = batch(axis_data.size, axis_data.name, operands, axes, **params)
        return outs, [0] * len(outs)

    primitive.multiple_results = True
    primitive.def_impl(inline)
    primitive.def_abstract_eval(lambda *_, jaxpr, **__: list(jaxpr.out_avals))
    _mlir.register_lowering(primitive, _mlir.lower_fun(inline, multiple_results=True))
    _ad.primitive_jvps[primitive] = jvp
    _ad.primitive_transposes[primitive] = transpose
    _batching.fancy_primitive_batchers[primitive] = batcher
