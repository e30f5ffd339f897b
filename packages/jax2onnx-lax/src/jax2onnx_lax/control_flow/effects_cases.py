"""Cases of `effects`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.layout import Layout, with_layout_constraint
from jax.experimental.shard_alike import shard_alike
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

_Arrays = jax.Array | tuple[jax.Array, ...]
_Function = Callable[..., _Arrays]


def _mesh(kind: AxisType) -> Mesh:
    return jax.make_mesh((1,), ("i",), axis_types=(kind,), devices=jax.devices()[:1])


def _on_mesh(
    fn: _Function, in_spec: PartitionSpec, out_specs: PartitionSpec | tuple[PartitionSpec, ...], varying: bool = False
) -> _Function:
    """`fn` over a mesh of one device, which is made when the case runs."""

    @functools.wraps(fn)
    def sharded(*operands: jax.Array) -> _Arrays:
        mesh = _mesh(AxisType.Auto)
        return jax.shard_map(fn, mesh=mesh, in_specs=in_spec, out_specs=out_specs, check_vma=varying)(*operands)

    return sharded


def _on_explicit_mesh(
    fn: _Function, in_spec: PartitionSpec, out_spec: PartitionSpec | tuple[PartitionSpec, ...]
) -> _Function:
    """`fn` over a mesh of one device whose shardings are part of the types."""

    @functools.wraps(fn)
    def sharded(x: jax.Array) -> _Arrays:
        mesh = _mesh(AxisType.Explicit)
        placed = jax.sharding.reshard(x, NamedSharding(mesh, in_spec))
        return jax.shard_map(fn, mesh=mesh, in_specs=in_spec, out_specs=out_spec)(placed)

    return jax.jit(sharded)


_ROWS, _WHOLE = PartitionSpec("i"), PartitionSpec()


def _collectives(x: jax.Array) -> tuple[jax.Array, ...]:
    return (
        lax.psum(x, "i"),
        lax.pmean(x, "i"),
        lax.pmax(x, "i"),
        lax.pmin(x, "i"),
        lax.all_gather(x, "i"),
        lax.all_gather(x, "i", tiled=True),
        lax.psum_scatter(x, "i", tiled=True),
        lax.all_to_all(x, "i", 0, 1, tiled=True),
        lax.ppermute(x, "i", [(0, 0)]),
        lax.ppermute(x, "i", []),
        x + lax.axis_index("i"),
    )


def _invariant(x: jax.Array) -> tuple[jax.Array, ...]:
    """Collectives where JAX keeps track of which values differ between devices (`check_vma`)."""
    total = lax.psum(x, "i")
    return total, lax.all_gather(x, "i", to="invarying"), x + total


def _reduced(x: jax.Array) -> jax.Array:
    return lax.pcast(lax.all_gather(x, "i", to="reduced", tiled=True), "i", to="varying")


def _unreduced(x: jax.Array) -> tuple[jax.Array, ...]:
    partial = lax.pcast(x, "i", to="unreduced")
    return lax.psum(partial, "i"), lax.psum_scatter(partial, "i", tiled=True)


def _printing(x: jax.Array) -> jax.Array:
    jax.debug.print("sum {}", x.sum())
    jax.debug.callback(lambda value: None, x)
    jax.debug.inspect_array_sharding(x, callback=lambda sharding: None)
    return 2 * x


def _mutating(x: jax.Array) -> tuple[jax.Array, ...]:
    """A reference that is read, written and added to, also in a loop."""
    ref = jax.new_ref(x)
    ref[0] = jnp.ones_like(x[0])

    def body(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        ref[1] += row
        return carry + row, ref[...].sum()

    carry, sums = lax.scan(body, jnp.zeros_like(x[0]), x)
    return carry, sums, jax.freeze(ref)


def _constrained(x: jax.Array) -> jax.Array:
    return lax.with_sharding_constraint(jnp.sin(x), SingleDeviceSharding(jax.devices()[0]))


#: What the loop only adds up is summed without it.
_MUTATED = at_most(12, Scan=1, CumSum=1)

cases = [
    Case("name", lambda x: checkpoint_name(jnp.sin(x), "saved"), [("N", 3)], covers=("name",), expect="Sin"),
    Case("stop_gradient", jax.vmap(lambda x: lax.stop_gradient(jnp.sin(x))), [("N", 3)], covers=("stop_gradient",),
         expect="Sin"),
    Case("device_put", lambda x: jax.device_put(jnp.sin(x)), [("N", 3)], covers=("device_put",), expect="Sin"),
    Case("sharding_constraint", _constrained, [(2, 3)], covers=("sharding_constraint",), expect="Sin"),
    Case("collectives_over_vmap", jax.vmap(lambda x: (lax.pmean(x, "i"), lax.pmax(x, "i"), lax.pmin(x, "i")), axis_name="i"),
         [(4, "N")], expect=at_most(20, ReduceMax=1, ReduceMin=1, ReduceSum=2)),
    Case("shard_map", _on_mesh(jnp.sin, _ROWS, _ROWS), [(4, 3)], covers=("shard_map",), expect="Sin"),
    Case("collectives", _on_mesh(_collectives, _ROWS, (_WHOLE,) * 4 + (_ROWS,) * 7), [(4, 3)],
         covers=("psum", "pmax", "pmin", "all_gather", "reduce_scatter", "all_to_all", "ppermute", "axis_index"),
         expect=at_most(20)),
    Case("ppermute_without_a_sender", _on_mesh(lambda x: lax.ppermute(x, "i", []), _ROWS, _ROWS), [(4, 3)],
         covers=("ppermute",), values="special", expect="Expand"),
    Case("references", _mutating, [(4, 3)], expect=_MUTATED),
    Case("references_in_jit", jax.jit(_mutating), [(4, 3)], expect=_MUTATED),
    Case("collectives_invariant", _on_mesh(_invariant, _ROWS, (_WHOLE, _WHOLE, _ROWS), varying=True), [(4, 3)],
         covers=("psum_invariant", "all_gather_invariant", "pvary"), expect=["Reshape", "Add", "Identity"],
         declines="no axis of the operand"),
    Case("collectives_reduced", _on_explicit_mesh(_reduced, _ROWS, _ROWS), [(4, 3)],
         covers=("all_gather_reduced", "reduced_vary_cast", "reduced_vary_cast_p", "reshard"), expect="Identity"),
    Case("collectives_unreduced", _on_explicit_mesh(_unreduced, _ROWS, (_WHOLE, _ROWS)), [(4, 3)],
         covers=("unreduced_psum", "unreduced_reduce_scatter", "vary_unreduced_cast", "vary_unreduced_cast_p"),
         expect=["Identity", "Identity"]),
    Case("cast_to_reduced",
         _on_explicit_mesh(lambda x: lax.pcast(lax.pcast(x, "i", to="reduced"), "i", to="varying"), _WHOLE, _ROWS),
         [(4, 3)], covers=("preduced",), expect="Identity"),
    Case("layout_constraint", lambda x: with_layout_constraint(jnp.sin(x), Layout((0, 1))), [(4, 3)],
         covers=("layout_constraint",), expect="Sin"),
    Case("shard_alike", lambda x: shard_alike(jnp.sin(x), jnp.cos(x)), [("N", 3)], covers=("shard_alike",),
         expect=["Sin", "Cos"]),
    Case("metadata", lambda x: set_xla_metadata(jnp.sin(x), colour="red"), [("N", 3)], covers=("xla_metadata_value",),
         expect="Sin"),
    Case("debug", jax.jit(_printing), [(4, 3)], covers=("debug_print", "debug_callback", "inspect_sharding"),
         expect="Mul", doc="What prints, calls back or inspects is left out of the model."),
]  # fmt: skip
