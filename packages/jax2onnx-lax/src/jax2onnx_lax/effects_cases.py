"""Cases of `effects`."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, PartitionSpec, SingleDeviceSharding
from jax2onnx_core import Case, expect_graph

__all__ = ["cases"]


def _on_mesh(fn: Any, in_specs: Any, out_specs: Any) -> Any:
    """`fn` over a mesh of one device; nothing is made before the case runs."""

    @functools.wraps(fn)
    def sharded(*operands: Any) -> Any:
        mesh = jax.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,), devices=jax.devices()[:1])
        return jax.shard_map(fn, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)(*operands)

    return sharded


_ROWS, _WHOLE = PartitionSpec("i"), PartitionSpec()


def _collectives(x: Any) -> Any:
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


def _printing(x: Any) -> Any:
    jax.debug.print("sum {}", x.sum())
    jax.debug.callback(lambda value: None, x)
    return 2 * x


def _mutating(x: Any) -> Any:
    """A reference that is read, written and added to, also in a loop."""
    ref = jax.new_ref(x)
    ref[0] = jnp.ones_like(x[0])

    def body(carry: Any, row: Any) -> Any:
        ref[1] += row
        return carry + row, ref[...].sum()

    carry, sums = lax.scan(body, jnp.zeros_like(x[0]), x)
    return carry, sums, jax.freeze(ref)


def _constrained(x: Any) -> Any:
    return lax.with_sharding_constraint(jnp.sin(x), SingleDeviceSharding(jax.devices()[0]))


cases = [
    Case("name", lambda x: checkpoint_name(jnp.sin(x), "saved"), [("N", 3)], covers=("name",),
         expect=expect_graph("Sin", match="exact")),
    Case("stop_gradient", jax.vmap(lambda x: lax.stop_gradient(jnp.sin(x))), [("N", 3)], covers=("stop_gradient",),
         expect=expect_graph("Sin", match="exact")),
    Case("device_put", lambda x: jax.device_put(jnp.sin(x)), [("N", 3)], covers=("device_put",),
         expect=expect_graph("Sin", match="exact")),
    Case("sharding_constraint", _constrained, [(2, 3)], covers=("sharding_constraint",),
         expect=expect_graph("Sin", match="exact")),
    Case("shard_map", _on_mesh(jnp.sin, _ROWS, _ROWS), [(4, 3)], covers=("shard_map",),
         expect=expect_graph("Sin", match="exact")),
    Case("collectives", _on_mesh(_collectives, _ROWS, (_WHOLE,) * 4 + (_ROWS,) * 7), [(4, 3)],
         covers=("psum", "pmax", "pmin", "all_gather", "reduce_scatter", "all_to_all", "ppermute", "axis_index")),
    Case("references", _mutating, [(4, 3)]),
    Case("references_in_jit", jax.jit(_mutating), [(4, 3)]),
    Case("debug", _printing, [("N", 3)], covers=("debug_print", "debug_callback"),
         expect=expect_graph("Mul", match="exact")),
]  # fmt: skip
