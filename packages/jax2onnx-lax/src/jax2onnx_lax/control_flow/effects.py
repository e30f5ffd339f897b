"""Annotations, collectives and effects: the identity on one device, or declared as unsupported."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Aval, Context, Jaxpr, Rules, Value
from jax2onnx_graph.arrays import Array

__all__ = ["rules"]

rules = Rules()


@rules.lower(
    "name", "sharding_constraint", "layout_constraint", "pvary", "reshard", "preduced", "reduced_vary_cast",
    "reduced_vary_cast_p", "vary_unreduced_cast", "vary_unreduced_cast_p", "stop_gradient", "device_put",
    "xla_metadata_value", "shard_alike", physical=True,
)  # fmt: skip
def annotation(ctx: Context, *operands: Value, **_: object) -> Sequence[Value]:
    """An annotation changes no value."""
    return operands


@rules.numpy_evaluator("sharding_constraint", "reshard")
def placed(x: Array, **_: object) -> Array:
    """A weight that is placed on devices is that weight."""
    return x


@rules.lower("shard_map", physical=True)
def shard_map(
    ctx: Context, *operands: Value, jaxpr: Jaxpr, mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    newly_manual_axes: frozenset[str], **_: object,
) -> Sequence[Value]:  # fmt: skip
    """The body, inlined: over a mesh of one device a shard is the whole array."""
    if any(mesh.shape[axis] != 1 for axis in newly_manual_axes):
        ctx.decline("the mesh has several devices")
    return ctx.inline(jaxpr, *operands)


@rules.lower(
    "psum", "psum_invariant", "pmax", "pmin", "all_gather", "all_gather_invariant", "all_gather_reduced",
    "reduce_scatter", "all_to_all", "unreduced_psum", "unreduced_reduce_scatter", physical=True,
)  # fmt: skip
def collective(ctx: Context, *operands: Value, **_: object) -> Sequence[Value]:
    """A collective over one device returns its operands; only axes of size 1 come or go."""
    avals = zip(ctx.avals_in, ctx.avals_out, strict=True)
    return [_reshaped(ctx, x, old, new) for x, (old, new) in zip(operands, avals, strict=True)]


def _reshaped(ctx: Context, x: Value, old: Aval, new: Aval) -> Value:
    """`x` in the shape of `new`; the axes that only its physical tensor has stay at the end."""
    return ctx.reshape(x, (*new.shape, *ctx.known_dims(x)[len(old.shape) :]))


_REDUCTIONS: dict[str, Callable[..., jax.Array]] = {
    "psum": jnp.sum, "psum_invariant": jnp.sum, "pmax": jnp.max, "pmin": jnp.min,
}  # fmt: skip


@rules.lower(*_REDUCTIONS)
def collective_over_axis(ctx: Context, *operands: Value, axes: Sequence[str | int], **_: object) -> Sequence[Value]:
    """Under `vmap` over the collective's name: a reduction of the axes whose numbers are among the names."""
    positions = tuple(axis for axis in axes if isinstance(axis, int))
    if not positions:
        ctx.pass_on("no axis of the operand")
    return [ctx.jax(_REDUCTIONS[ctx.primitive], x, axis=positions) for x in operands]


@rules.lower("ppermute", physical=True)
def ppermute(ctx: Context, x: Value, *, perm: Sequence[tuple[int, int]], **_: object) -> Value:
    """The operand where the one device sends to itself, else zeros."""
    if (0, 0) in [tuple(pair) for pair in perm]:
        return x
    return ctx.broadcast(ctx.constant(0, like=x), ctx.known_dims(x))


@rules.lower("axis_index")
def axis_index(ctx: Context, **_: object) -> Value:
    return ctx.constant(np.array(0, np.int32))


@rules.lower("debug_callback", "debug_print", "inspect_sharding", physical=True)
def debug(ctx: Context, *_: Value, **__: object) -> Sequence[Value]:
    """Emit nothing: a model does not print."""
    return ()


rules.unsupported(
    ("pure_callback", "io_callback", "xla_python_cpu_callback", "xla_python_gpu_callback"),
    "It calls back into Python, which the runtime of an ONNX file does not have.",
    "Write the computation in JAX, or export the parts before and after it. A check at run time, as of equinox.error_if, "
    "is left out if jax2onnx-equinox is installed, or if EQX_ON_ERROR=off is in the environment before Equinox is imported.",
)
rules.unsupported(
    ("infeed", "outfeed", "create_token", "after_all", "psend", "precv"),
    "It exchanges data with the host while the program runs.",
    "Make the data arguments or results of the function.",
)
rules.unsupported(
    ("ffi_call", "custom_call", "tpu_custom_call", "cudnn_fusion", "triton_kernel_call"),
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
    "It raises an error of jax.experimental.checkify, which a model cannot do.",
    "Leave the check out, export checkify.checkify(f), whose error is a result of the model, or only the values beside the error: lambda *args: checkify.checkify(f)(*args)[1].",
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
