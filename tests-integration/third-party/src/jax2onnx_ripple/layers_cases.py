"""Test cases of ripple's layer and primitive."""

import ripple
from jax2onnx_core import Case, construct, with_dtype

cases = [
    Case(
        "sawtooth",
        ripple.sawtooth,
        inputs=[("B", 3)],
        covers=("ripple_sawtooth",),
        values="special",
        expect="Floor -> Sub:Bx3",
    ),
    Case(
        "damping",
        construct(ripple.Damping, 4, dtype=with_dtype()),
        inputs=[("B", "T", 4)],
        covers=("ripple.damping",),
        expect="Softsign -> Mul:BxTx4",
    ),
    Case(
        "damping_special",
        construct(ripple.Damping, 4, dtype=with_dtype()),
        inputs=[("B", "T", 4)],
        values="special",
        expect="Softsign -> Mul:BxTx4",
        doc="Damping of NaN and of infinities is NaN, as in JAX.",
        since="0.1.0",
    ),
]
