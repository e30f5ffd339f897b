"""Known limitations of the NPU, as measured with the provider's library for processors of x86-64."""

from __future__ import annotations

from jax2onnx_graph.limitations import Limitation

__all__ = ["LIMITATIONS"]

LIMITATIONS = (
    Limitation("NaN and infinities", "The NPU has neither: what is not finite becomes the greatest number of half precision, 65504, and so "
               "does what is beyond it.", values=("NaN", "infinities", "signs of zeros", "subnormal numbers", "large numbers")),
    Limitation("precision", "Floats are computed in half precision, in which about three digits are right, whatever the types of the model say.",
               ("float32", "float64")),
    Limitation("integers", "Integers of 64 bits are computed in 32, and what exceeds these saturates instead of wrapping around.",
               ("int32", "int64")),
)  # fmt: skip
