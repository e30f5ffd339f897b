"""Cases of `structural`."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Case, expect_graph

__all__ = ["cases"]


cases = [
    Case("reshape", lambda x: x.reshape(-1, 2), [("B", 6)], covers=("reshape",), expect="Reshape:3*Bx2"),
    Case("reshape_two_symbols", lambda x: x.reshape(x.shape[0] * 2, -1), [("B", "N", 4)], covers=("reshape",),
         expect=["Shape -> Mul -> Concat -> Reshape", "Shape -> Mul -> Concat"]),
    Case("reshape_after_transpose", lambda x: lax.reshape(x, (6,), (1, 0)), [(2, 3)], covers=("reshape",),
         expect="Transpose:3x2 -> Reshape:6"),
    Case("reshape_complex", lambda x: lax.complex(x, 2 * x).reshape(-1), [("B", 3)], covers=("reshape",),
         expect=["Mul -> Reshape -> Concat", "Reshape -> Concat"]),
    Case("reshape_of_nothing", lambda x: x.reshape(0, 5), [(0, 3)], covers=("reshape",), expect="Identity"),
    Case("transpose", lambda x: x.transpose(2, 0, 1), [("B", "N", 4)], covers=("transpose",),
         expect="Transpose:4xBxN"),
    Case("transpose_identity", lambda x: lax.transpose(x, (0, 1)) + 1, [(2, 3)], covers=("transpose",),
         expect="Add:2x3"),
    Case("squeeze", lambda x: jnp.squeeze(x, (0, 2)), [(1, "B", 1)], covers=("squeeze",), expect="Squeeze:B"),
    Case("expand_dims", lambda x: x[:, None, :], [("B", 3)], covers=("broadcast_in_dim",),
         expect="Unsqueeze:Bx1x3"),
    Case("broadcast_scalar", lambda x: jnp.broadcast_to(x, (4, 2)), [()], covers=("broadcast_in_dim",),
         expect="Expand:4x2"),
    Case("broadcast_symbolic", lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], 5, x.shape[1])), [("B", "N")],
         covers=("broadcast_in_dim",), expect=["Shape -> Concat -> Expand", "Shape -> Concat", "Unsqueeze -> Expand"]),
    Case("broadcast_row", lambda x: lax.broadcast_in_dim(x, (3, 4), (0,)), [(3,)], covers=("broadcast_in_dim",),
         expect="Reshape -> Expand"),
    Case("full", lambda x: jnp.full(x.shape, 2.0, x.dtype), [("B", 3)], covers=("broadcast_in_dim",),
         expect="Shape -> Concat -> Expand"),
    Case("concatenate", lambda x, y: jnp.concatenate([x, y, x], 1), [("B", "M"), ("B", "N")], covers=("concatenate",),
         expect="Concat:BxN + 2*M"),
    Case("concatenate_one", lambda x: jnp.concatenate([x, x[:, :0]], 1), [(2, 3)], covers=("concatenate",),
         expect="Identity"),
    Case("stack", lambda x, y: jnp.stack([x, y], 1), [("B", 3), ("B", 3)], covers=("stack",),
         expect=expect_graph("Unsqueeze:Bx1x3 -> Concat:Bx2x3", counts={"Unsqueeze": 2}, match="exact")),
    Case("unstack", lambda x: jnp.unstack(x, axis=1), [("B", 3)], covers=("unstack",),
         expect=expect_graph(counts={"Gather": 3}, match="exact")),
    Case("split", lambda x: jnp.split(x, [1, 3], axis=1), [("B", 7)], covers=("split",), expect="Split"),
    Case("split_by_symbol", lambda x: lax.split(x, (x.shape[0] - 1, 1), 0), [("B", 2)], covers=("split",),
         options={"constraints": ("B >= 2",)}, expect="Shape -> Sub -> Concat -> Split"),
    Case("tile", lambda x: jnp.tile(x, (1, 3)), [("B", "N")], covers=("tile",), expect="Tile:Bx3*N"),
    Case("tile_new_axis", lambda x: jnp.tile(x, (2, 3, 1)), [("B", 2)], covers=("tile",), expect="Unsqueeze -> Tile"),
    Case("tile_of_one", lambda x: jnp.tile(x, (4, 1)), [(1, 3)], covers=("tile",), expect="Expand"),
    Case("repeat", lambda x: jnp.repeat(x, 3, axis=0), [("B", 2)], covers=("broadcast_in_dim",),
         expect=["Shape -> Concat -> Expand -> Reshape", "Reshape -> Expand"]),
    Case("rev", lambda x: jnp.flip(x, (0, 1)), [("B", 3)], covers=("rev",), expect="Slice:Bx3"),
    Case("rev_along_another_axis", lambda x: jnp.flip(jnp.flip(x, 1), 0), [("B", 3)], expect="Slice -> Slice"),
    Case("rev_twice", lambda x: jnp.flip(jnp.flip(x, 0), 0) + 1, [("B", 3)], expect="Add:Bx3"),
    Case("rev_of_one", lambda x: lax.rev(x, (0,)) + 1, [(1, 3)], covers=("rev",), expect="Add:1x3"),
    Case("copy", lambda x: jnp.copy(x) + 1, [("B", 3)], covers=("copy", "copy_p"), expect="Add:Bx3"),
    Case("optimization_barrier", lambda x: lax.optimization_barrier((x + 1, x)), [("B", 3)],
         covers=("optimization_barrier", "tie", "dce_sink"), expect=["Add", "Identity"]),
]  # fmt: skip
