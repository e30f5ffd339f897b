"""Cases of kernels of Pallas."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax2onnx_core import Case, expect_graph

__all__ = ["cases"]


def _add(x: jax.Array, y: jax.Array) -> jax.Array:
    def kernel(x_ref: jax.Ref, y_ref: jax.Ref, out_ref: jax.Ref) -> None:
        out_ref[...] = x_ref[...] + y_ref[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x, y)


def _product(x: jax.Array, y: jax.Array) -> jax.Array:
    """A product of matrices in blocks, which are summed up over the last axis of the grid."""

    def kernel(x_ref: jax.Ref, y_ref: jax.Ref, out_ref: jax.Ref) -> None:
        @pl.when(pl.program_id(2) == 0)  # type: ignore[untyped-decorator]
        def _() -> None:
            out_ref[...] = jnp.zeros_like(out_ref)

        out_ref[...] += x_ref[...] @ y_ref[...]

    return pl.pallas_call(
        kernel,
        grid=(2, 3, 4),
        in_specs=[pl.BlockSpec((4, 2), lambda i, j, k: (i, k)), pl.BlockSpec((2, 3), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((4, 3), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((8, 9), x.dtype),
        interpret=True,
    )(x, y)


def _partly_outside(x: jax.Array) -> jax.Array:
    """Blocks of four of an array whose length is no multiple of four."""

    def kernel(x_ref: jax.Ref, out_ref: jax.Ref) -> None:
        out_ref[...] = x_ref[...] * (pl.program_id(0) + 1).astype(x_ref.dtype)

    block = pl.BlockSpec((4,), lambda i: (i,))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(kernel, grid=(3,), in_specs=[block], out_specs=block, out_shape=shape, interpret=True)(x)


_covers = ("pallas_call",)
_interpreted = functools.partial(Case, covers=_covers)

cases = [
    _interpreted(
        "pallas_whole_arrays", _add, [(8,), (8,)], expect=expect_graph(counts={"Add": 1}, search_functions=True)
    ),
    _interpreted("pallas_product_in_blocks", _product, [(8, 8), (8, 9)], expect="Loop"),
    _interpreted("pallas_blocks_partly_outside", _partly_outside, [(10,)], expect="Pad -> Loop -> Slice"),
    _interpreted("pallas_of_integers", _add, [((8,), np.int32), ((8,), np.int32)], expect="Add"),
    _interpreted("pallas_under_vmap", jax.vmap(_partly_outside), [(3, 10)], expect="Pad -> Loop -> Slice"),
]
