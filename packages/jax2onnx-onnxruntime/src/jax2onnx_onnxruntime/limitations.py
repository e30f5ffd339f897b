"""Known limitations of versions of ONNX Runtime, which remain in spite of legalisation and repairs."""

from __future__ import annotations

from collections.abc import Sequence

from jax2onnx_graph.limitations import Limitation

from jax2onnx_onnxruntime._kernels import NEWEST, WEB, is_since, measured_versions

__all__ = ["limitations", "limitations_of_running"]

_PRELU = Limitation(
    "PRelu", "PRelu multiplies what it does not choose by zero: infinities become NaN.", operators=("PRelu",),
    values=("infinities",),
)  # fmt: skip
_SQRT = Limitation(
    "Sqrt",
    "Sqrt of the version takes subnormal numbers for zero.",
    operators=("Sqrt",),
    cases=("*::sqrt_special",),
    values=("subnormal numbers",),
)
_REDUCE_MAX = Limitation(
    "ReduceMax", "ReduceMax of the version takes no array without elements.", operators=("ReduceMax",), message="ReduceMax"
)  # fmt: skip
_ATTENTION = Limitation(
    "Attention", "Attention of the version takes no mask that has heads.", operators=("Attention",), cases=("*masked_by_head*",),
    message="Attention",
)  # fmt: skip
_HIDDEN_ROWS = Limitation(
    "Rows of attention that see no key", "Attention gives 0 where all keys are hidden by minus infinity; JAX gives NaN.",
    values=("hidden keys",),
)  # fmt: skip
_MASK_INPUTS = Limitation(
    "Masks that are inputs", "Attention gives 0 where all keys are hidden by the lowest float of an input; JAX gives the mean of the values.",
    values=("hidden keys",),
)  # fmt: skip
_WHERE = Limitation(
    "Where", "Where makes 0.0 of a -0.0 that it chooses where the condition is true. Two selections and a product would keep it, in three "
    "times the time.", ("float16", "float32", "float64"), values=("signs of zeros",),
)  # fmt: skip
_SIGMOID = Limitation(
    "Sigmoid", "Sigmoid is off by up to 1e-7, 1e-17 in float64, whatever the size of its result: small ones have few digits, those of numbers below "
    "-18, -37 in float64, are zero. "
    "Where a model divides by one, orders or compares them, or takes the logarithm or a root of one, its formula stands instead.", ("float32", "float64"), values=("small numbers",),
)  # fmt: skip
_WEBGPU = Limitation(
    "NaN and infinities", "On the graphics card results for NaN and infinities are left open by the language of its shaders.",
    values=("NaN", "infinities"),
)  # fmt: skip
_ARRAYS = Limitation(
    "types that NumPy lacks", "The Python API of the version takes and gives no arrays of types that NumPy lacks.",
    ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4"), message="OrtValue",
)  # fmt: skip

_OF_KERNELS = {
    "1.18": (_PRELU, _SQRT, _REDUCE_MAX, _HIDDEN_ROWS),
    "1.20": (_PRELU, _SQRT, _REDUCE_MAX, _HIDDEN_ROWS),
    "1.22": (_PRELU, _HIDDEN_ROWS),
    "1.23": (_PRELU, _ATTENTION, _HIDDEN_ROWS),
    WEB: (_WEBGPU, _HIDDEN_ROWS),
}


def limitations(version: str = NEWEST) -> Sequence[Limitation]:
    """Limitations of the kernels of a version: wrong results and refusals."""
    return (*_OF_KERNELS.get(version, ()), _MASK_INPUTS, _WHERE, _SIGMOID)


def limitations_of_running(version: str = NEWEST) -> Sequence[Limitation]:
    """Limitations of the Python API of a version, which hold for every model."""
    return (_ARRAYS,) if version in measured_versions() and not is_since(version, "1.31") else ()
