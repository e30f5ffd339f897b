"""Devices, meshes, names and effects: the identity on one device, or nothing that a file can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Rules

__all__ = ["rules"]

rules = Rules()


@rules.lower(
    "name", "sharding_constraint", "layout_constraint", "pvary", "reshard", "preduced", "reduced_vary_cast",
    "reduced_vary_cast_p", "vary_unreduced_cast", "vary_unreduced_cast_p", "stop_gradient", "device_put",
    "xla_metadata_value", packed=True,
)  # fmt: skip
def annotation(ctx: Any, *operands: Any, **_: Any) -> Any:
    """Annotations that change no value."""
    return list(operands)


@rules.lower("shard_map", packed=True)
def shard_map(ctx: Any, *operands: Any, jaxpr: Any, mesh: Any, **_: Any) -> Any:
    """Over a mesh of one device a shard is the whole array."""
    if mesh.size != 1:
        raise ValueError(
            f"shard_map over a mesh of {mesh.size} devices ({dict(mesh.shape)}) cannot be in an ONNX file, which "
            "describes one device. Export the function with a mesh of one device, or without shard_map."
        )
    return ctx.inline(jaxpr, *operands)


@rules.lower(
    "psum", "psum_invariant", "pmax", "pmin", "all_gather", "all_gather_invariant", "all_gather_reduced",
    "reduce_scatter", "all_to_all", "unreduced_psum", "unreduced_reduce_scatter", packed=True,
)  # fmt: skip
def collective(ctx: Any, *operands: Any, **_: Any) -> Any:
    """Collectives over one device return what it has; only axes of size 1 come or go."""
    return [_like(ctx, x, aval) for x, aval in zip(operands, ctx.avals_out, strict=True)]


def _over_batch(name: str, reduce: Callable[..., Any]) -> None:
    """Under `vmap` a collective over the mapped name is a reduction of an axis, whose number stands among the names."""

    @rules.lower(name)
    def lower(ctx: Any, *operands: Any, axes: Any, **_: Any) -> Any:
        positions = tuple(axis for axis in axes if isinstance(axis, int))
        if not positions:
            ctx.decline("no axis of the operand")
        return [ctx.jax(reduce, x, axis=positions) for x in operands]


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "psum": jnp.sum, "psum_invariant": jnp.sum, "pmax": jnp.max, "pmin": jnp.min,
}  # fmt: skip
for _name, _reduce in _REDUCTIONS.items():
    _over_batch(_name, _reduce)


@rules.lower("ppermute", packed=True)
def ppermute(ctx: Any, x: Any, *, perm: Any, **_: Any) -> Any:
    """The operand where the one device sends to itself, else zeros."""
    return x if (0, 0) in [tuple(pair) for pair in perm] else ctx.op.Sub(x, x)


@rules.lower("axis_index")
def axis_index(ctx: Any, **_: Any) -> Any:
    return ctx.constant(np.array(0, np.int32))


def _like(ctx: Any, x: Any, aval: Any) -> Any:
    extra = len(ctx.dims(x)) - len(ctx.avals_in[0].shape)
    tail = ctx.dims(x)[len(ctx.dims(x)) - extra :] if extra else ()
    return ctx.reshape(x, (*aval.shape, *tail))


@rules.lower("debug_callback", "debug_print", "inspect_sharding", packed=True)
def debug(ctx: Any, *_: Any, **__: Any) -> Any:
    """Prints change no value: the model does not print."""
    return []


rules.unsupported(
    ("pure_callback", "io_callback", "xla_python_cpu_callback", "xla_python_gpu_callback"),
    "It calls back into Python, which the runtime of an ONNX file does not have.",
    "Write the computation in JAX, or export the parts before and after it.",
)
rules.unsupported(
    ("infeed", "outfeed", "create_token", "after_all", "psend", "precv"),
    "It exchanges data with the host while the program runs.",
    "Make the data arguments or results of the function.",
)
rules.unsupported(
    ("ffi_call", "custom_call", "pallas_call", "tpu_custom_call", "cudnn_fusion", "triton_kernel_call"),
    "It runs compiled code that belongs to one device.",
    "Use the plain JAX implementation of the operation.",
)
rules.unsupported(
    ("new_ref", "empty_ref", "free_ref", "get", "swap", "addupdate", "freeze", "accum_grad_in_ref",
     "core_map", "pin", "unpin"),
    "It reads or writes a mutable array reference that was made outside the exported function.",
    "Make the reference inside (jax.new_ref), or take the array and return the updated one.",
)  # fmt: skip
rules.unsupported(
    "check",
    "It records an error of jax.experimental.checkify, which a model cannot raise.",
    "Export the function without checkify.",
)
rules.unsupported(
    ("pbroadcast", "pbroadcast_dynamic"),
    "JAX itself runs it on accelerators only.",
    "Leave it out: on a mesh of one device it is the identity.",
)
rules.unsupported(
    "ragged_all_to_all",
    "It exchanges rows between several devices.",
    "Export the function with a mesh of one device.",
)
