"""Test cases of the operations."""

import jax.numpy as jnp
from jax2onnx_core import Case

from jax2onnx_acme.ops import damping

cases = [
    # In float32 at several sizes of B, with the graph that is expected, in float64, and under JAX's transformations.
    Case(
        "damping",
        damping,
        inputs=[("B", 4), (4,)],
        covers=("acme.damping",),
        expect="Softsign -> Mul:Bx4",
    ),
    # NaN, infinities, signed zeros and extremes are among the inputs.
    Case("damping_special", damping, inputs=[("B", 4), (4,)], values="special"),
    # Integers have no Softsign: the rule declines.
    Case("damping_integers", lambda x: damping(x, jnp.float32(2)), inputs=[(("B", 4), "int32")]),
]
