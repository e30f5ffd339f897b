"""Cases of `resizing`."""

from __future__ import annotations

from jax2onnx_core import Case, expect_graph
from keras import layers

from jax2onnx_keras._built import built

__all__ = ["cases"]

cases = [
    Case(
        "up_sampling",
        built(layers.UpSampling2D, (None, 4, 3, 2), (2, 3)),
        [("B", 4, 3, 2)],
        covers=("jax.image.resize",),
        expect=expect_graph("Resize"),
    ),
    Case(
        "up_sampling_any_size",
        built(layers.UpSampling2D, (None, 2, None, None), 2, "channels_first"),
        [("B", 2, "H", "W")],
        expect="Resize:Bx2x2*Hx2*W",
    ),
    Case(
        "up_sampling_linear",
        built(layers.UpSampling2D, (None, 4, 3, 2), 2, interpolation="bilinear"),
        [("B", 4, 3, 2)],
        expect="Resize:Bx8x6x2",
    ),
    Case(
        "up_sampling_1d",
        built(layers.UpSampling1D, (None, 4, 3), 3),
        [("B", "T", 3)],
        expect=expect_graph(
            "Reshape:BxTx1x3 -> Expand:BxTx3x3 -> Reshape:Bx3*Tx3",
            "Shape -> Concat",
            counts={"Shape": 2},
            match="exact",
        ),
    ),
]
