"""Test cases of the operations."""

import jax
import jax.numpy as jnp
from jax2onnx_core import Case

from jax2onnx_acme.ops import damping
from jax2onnx_acme.primitives import sawtooth

cases = [
    # In float32 at several sizes of B, with the graph that is expected, and in float64. NaN, infinities, signed zeros and
    # extremes are among the inputs.
    Case(
        "sawtooth",
        sawtooth,
        inputs=[("B", 3)],
        covers=("acme_sawtooth",),
        values="special",
        expect="Floor:Bx3 -> Sub:Bx3",
    ),
    Case(
        "sawtooth_of_another_period",
        lambda x: sawtooth(x, period=0.75),
        inputs=[("B", 3)],
        expect="Div:Bx3 -> Floor:Bx3 -> Mul:Bx3 -> Sub:Bx3",
    ),
    Case("sawtooth_of_each_row", jax.vmap(jax.jit(sawtooth)), inputs=[("B", 3)]),
    # A composite: its cases run under JAX's transformations, too.
    Case(
        "damping",
        damping,
        inputs=[("B", 4), (4,)],
        covers=("acme.damping",),
        expect="Softsign:Bx4 -> Mul:Bx4",
    ),
    Case("damping_special", damping, inputs=[("B", 4), (4,)], values="special"),
    # Integers have no Softsign: the rule declines.
    Case("damping_integers", lambda x: damping(x, jnp.float32(2)), inputs=[(("B", 4), "int32")]),
]
