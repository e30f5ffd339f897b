"""Cases of `activations`."""

from __future__ import annotations

from jax2onnx_core import Case, expect_graph
from keras import activations, layers

from jax2onnx_keras._built import built

__all__ = ["cases"]

_X = [("B", 7)]

cases = [
    Case(
        "prelu",
        built(layers.PReLU, (None, 5, 4), shared_axes=[1]),
        [("B", 5, 4)],
        covers=("nn.prelu",),
        expect="PRelu",
    ),
    Case(
        "mish",
        activations.mish,
        _X,
        covers=("jax.nn.mish",),
        expect="Mish",
        values="special",
    ),
    *(
        Case(name, vars(activations)[name], _X, expect=expect_graph(operator, match="exact"), values="special")
        for name, operator in [
            ("relu", "Relu"), ("gelu", "Gelu"), ("softplus", "Softplus"), ("hard_sigmoid", "HardSigmoid"),
            ("selu", "Selu"), ("leaky_relu", "LeakyRelu"), ("relu6", "Clip"), ("hard_silu", "HardSwish"),
        ]
    ),
]  # fmt: skip
