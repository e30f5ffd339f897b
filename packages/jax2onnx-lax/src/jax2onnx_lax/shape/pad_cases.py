"""Cases of `pad`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

cases = [
    Case("pad", lambda x: jnp.pad(x, ((1, 0), (2, 3))), [("B", 4)], covers=("pad",), expect="Pad:B + 1x9"),
    Case("pad_value", lambda x: jnp.pad(x, 1, constant_values=7), [(2, 3)], covers=("pad",), expect="Pad:4x5"),
    Case("pad_by_operand", lambda x, v: lax.pad(x, v, [(1, 2, 0)]), [(3,), ()], covers=("pad",), expect="Pad:6"),
    Case("pad_nothing", lambda x: lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0)]) + 1, [(3,)], covers=("pad",),
         expect="Add:3"),
    Case("pad_negative", lambda x: lax.pad(x, jnp.zeros((), x.dtype), [(-1, 0, 0), (0, -2, 0)]), [("B", 5)],
         covers=("pad",), options={"constraints": ("B >= 2",)}, expect="Slice:B - 1x3"),
    Case("pad_both_ways", lambda x: lax.pad(x, jnp.ones((), x.dtype), [(-1, 2, 0)]), [(5,)], covers=("pad",),
         expect="Pad:6"),
    Case("pad_interior", lambda x: lax.pad(x, jnp.ones((), x.dtype), [(0, 1, 2), (1, 0, 1)]), [("B", 3)],
         covers=("pad",), expect="Unsqueeze -> Pad -> Reshape -> Pad -> Reshape -> Pad"),
    Case("pad_interior_possibly_empty", lambda x: lax.pad(x, jnp.ones((), x.dtype), [(2, 0, 1), (0, 0, 0)]), [("B - 1", 3)],
         covers=("pad",), expect=at_most(20)),
    Case("pad_interior_negative", lambda x: lax.pad(x, jnp.ones((), x.dtype), [(-1, -1, 2)]), [(4,)], covers=("pad",),
         expect="Unsqueeze -> Pad -> Reshape -> Slice"),
    Case("pad_by_symbol", lambda x: jnp.pad(x, ((0, x.shape[1]), (x.shape[0], 1))), [("B", "N")], covers=("pad",),
         expect=["Shape -> Concat -> Pad", "Shape -> Concat"]),
    Case("pad_complex", lambda x: jnp.pad(lax.complex(x, -x), 1, constant_values=2j).imag, [(3,)], covers=("pad",),
         expect="Neg -> Pad"),
    Case("pad_edge", lambda x: jnp.pad(x, ((2, 1), (0, 9)), mode="edge"), [("B", 3)], covers=("jax.numpy.pad",), expect="Pad"),
    Case("pad_reflect", lambda x: jnp.pad(x, ((0, 0), (2, 4)), mode="reflect"), [("B", 5)], expect="Pad:Bx11"),
    Case("pad_reflect_beyond_the_axis", lambda x: jnp.pad(x, ((5, 3), (0, 0)), mode="reflect"), [(4, 3)], expect=at_most(10),
         declines="an axis may be shorter than its padding"),
    Case("pad_symmetric", lambda x: jnp.pad(x, (5, 2), mode="symmetric"), [(5,)],
         expect=expect_graph("Slice -> Concat:12", counts={"Slice": 2})),
    Case("pad_symmetric_one_side", lambda x: jnp.pad(x, ((0, 0), (0, 3)), mode="symmetric"), [("B", "N")],
         options={"constraints": ("N >= 4",)}, expect="Slice -> Concat"),
    Case("pad_by_elements_of_any_number", lambda x: [jnp.pad(x, ((0, 0), (4, 3)), mode=m) for m in ("wrap", "reflect", "symmetric")],
         [(2, "N")], covers=("jax.numpy.pad",), expect=at_most(105)),
    Case("pad_grad", jax.grad(lambda x: (lax.pad(x, jnp.ones((), x.dtype), [(1, -1, 1)]) ** 2).sum()), [(4,)],
         covers=("pad",), expect="Unsqueeze -> Pad -> Reshape -> Pad -> Mul -> Pad -> Slice"),
    Case("pad_of_a_scalar", lambda x: (lax.pad(x, x, []), lax.pad(np.float32(2), np.float32(3), []) + x), [()],
         covers=("pad",), expect=["Add", "Identity"]),
    Case("pad_of_a_complex_scalar", lambda x: lax.pad(x.astype(jnp.complex64), jnp.complex64(3), []), [()], covers=("pad",),
         expect="Unsqueeze -> Concat"),
    Case("pad_vjp_of_a_scalar", lambda x: jax.vjp(lambda x, v: lax.pad(x, v, []), x, x)[1](x), [()], covers=("pad",),
         expect=["Sub", "Identity"]),
    Case("pad_vjp_of_nothing", lambda x, v: jax.vjp(lambda x, v: lax.pad(x, v, [(1, 2, 3)]), x, v)[1](jnp.ones(3, v.dtype)),
         [(0,), ()], covers=("pad",), expect=["Identity", "Identity"]),
    Case("pad_of_nothing", lambda x: lax.pad(x, jnp.ones((), x.dtype), [(1, 2, 3)]), [(0,)], covers=("pad",),
         expect="Pad"),
]  # fmt: skip
