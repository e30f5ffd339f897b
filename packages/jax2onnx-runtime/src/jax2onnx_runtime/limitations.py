"""Known limitations of `onnx.reference`: wrong results and refusals."""

from __future__ import annotations

from jax2onnx_graph.limitations import Limitation

__all__ = ["LIMITATIONS"]

LIMITATIONS = (
    Limitation("MaxPool", "MaxPool of onnx.reference pads integers by NaN.", ("int8", "uint8"), operators=("MaxPool",),
               message="cannot convert float NaN to integer"),
    Limitation("MaxPool", "MaxPool of onnx.reference reads behind the end of some windows.", operators=("MaxPool",),
               message="is out of bounds for axis"),
    Limitation("ConvTranspose", "onnx.reference has no ConvTranspose of groups.", operators=("ConvTranspose",),
               message="cannot reshape array"),
    Limitation("DFT", "onnx.reference transforms no axis without elements.", operators=("DFT",),
               message="Invalid number of FFT data points"),
    Limitation("GatherElements", "GatherElements of onnx.reference takes axes of up to 64 elements.", operators=("GatherElements",),
               message="at most 64 array objects"),
    Limitation("RNN", "onnx.reference has no RNN of Relu.", operators=("RNN",), message="Unknown activation function"),
    Limitation("MaxPool", "MaxPool of onnx.reference loses NaN.", operators=("MaxPool",), message="nan", values=("NaN",)),
    Limitation("LogSoftmax", "LogSoftmax of onnx.reference takes the logarithm of Softmax, which may be zero.",
               operators=("LogSoftmax",)),
    Limitation("ReduceLogSumExp", "ReduceLogSumExp of onnx.reference is NaN where all numbers are −∞.",
               operators=("ReduceLogSumExp",), values=("infinities",)),
    Limitation("PRelu", "PRelu multiplies what it does not choose by zero: infinities become NaN.", operators=("PRelu",),
               values=("infinities",)),
)  # fmt: skip
