"""Known limitations of OpenVINO's CPU plugin, which remain in spite of legalisation, repairs and refusals."""

from __future__ import annotations

from jax2onnx_graph.limitations import Limitation

__all__ = ["LIMITATIONS"]

LIMITATIONS = (
    Limitation("Softmax", "Softmax of OpenVINO keeps a NaN, but not in the whole row.", operators=("Softmax",),
               cases=("*::softmax*", "*_of_softmax*"), values=("NaN",)),
    Limitation("Attention", "Attention of OpenVINO gives 0 in a row that is NaN in JAX, because scores or values are, or because all keys are "
               "hidden by minus infinity.", values=("NaN", "hidden keys")),
    Limitation("ReduceMax", "ReduceMax of OpenVINO gives the lowest finite number for a row of nothing but minus infinity, ReduceMin the "
               "greatest for one of infinity.", ("float32",), values=("infinities",)),
    Limitation("Pow", "Pow of OpenVINO gives NaN for minus infinity to the power of a fraction; JAX gives infinity.", ("float32",),
               values=("infinities",)),
    Limitation("Mod", "Mod of floats of OpenVINO takes the quotient in float32: remainders of quotients beyond 2²⁴ are wrong.",
               ("float32",), operators=("Mod",)),
    Limitation("half precision", "OpenVINO computes float16 in float32 between casts: results have more digits on the way, and sums beyond 65504 "
               "are no infinities there.", ("float16",)),
    Limitation("sizes that grow", "OpenVINO takes values of an earlier size where sizes grow from run to run.",
               cases=("*::svd_symbolic",)),
    Limitation("signs of zeros", "OpenVINO loses the sign of zero in a chain of operators.", cases=("*::lt_to_of_zeros",),
               values=("signs of zeros",)),
    Limitation("Scan of no rows", "A Scan of no rows has no rows' sizes either in OpenVINO.", operators=("Loop", "Scan"),
               message="has shape"),
    Limitation("names of dimensions", "Values between the operators that stand for one in OpenVINO may be without a declared shape.",
               message="its shape is not known"),
    Limitation("TopK", "OpenVINO sorts bfloat16 by TopK below opset 24, too, from which on the standard has this.", ("bfloat16",),
               operators=("TopK",), message="TopK.*unsupported type: tensor.bfloat16"),
    Limitation("TopK", "TopK of OpenVINO gives equal elements in any order. Along axes of up to 1,664,510 this is put right."),
    Limitation("TopK", "TopK of OpenVINO takes one element at least.", operators=("TopK",),
               message="must be greater or equal to 1"),
    Limitation("Conv", "Convolutions and poolings of OpenVINO over images that turn out to have no elements give what is in memory."),
)  # fmt: skip
