"""Known limitations of versions of ONNX Runtime, which remain in spite of legalisation and repairs."""

from __future__ import annotations

from collections.abc import Sequence

from jax2onnx_graph.limitations import Limitation

from jax2onnx_onnxruntime._kernels import NEWEST, WEB, measured_versions

__all__ = ["limitations", "limitations_of_running"]

_PRELU = Limitation(
    "PRelu", "PRelu multiplies what it does not choose by zero: infinities become NaN.", operators=("PRelu",)
)  # fmt: skip
_SQRT = Limitation(
    "Sqrt", "Sqrt of the version takes subnormal numbers for zero.", operators=("Sqrt",), cases=("*::sqrt_special",)
)
_REDUCE_MAX = Limitation(
    "ReduceMax", "ReduceMax of the version takes no array without elements.", operators=("ReduceMax",), message="ReduceMax"
)  # fmt: skip
_ATTENTION = Limitation(
    "Attention", "Attention of the version takes no mask that has heads.", operators=("Attention",), cases=("*masked_by_head*",),
    message="Attention",
)  # fmt: skip
_RECURRENT = Limitation(
    "Infinities in recurrent operators", "LSTM, GRU and RNN are finite where infinite inputs or states of a step give NaN in JAX.",
    operators=("LSTM", "GRU", "RNN"), message="With infinities",
)  # fmt: skip
_HIDDEN_ROWS = Limitation(
    "Rows of attention that see no key", "Attention gives 0 where all keys are hidden by minus infinity; JAX gives NaN.",
)  # fmt: skip
_WEBGPU = Limitation(
    "NaN and infinities", "On the graphics card results for NaN and infinities are left open by the language of its shaders."
)  # fmt: skip
_ARRAYS = Limitation(
    "types that NumPy lacks", "The Python API of the version takes and gives no arrays of types that NumPy lacks.",
    ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4"), message="OrtValue",
)  # fmt: skip

_OF_KERNELS = {
    "1.18": (_PRELU, _SQRT, _REDUCE_MAX),
    "1.20": (_PRELU, _SQRT, _REDUCE_MAX),
    "1.22": (_PRELU,),
    "1.23": (_PRELU, _ATTENTION),
    WEB: (_WEBGPU,),
}


def limitations(version: str = NEWEST) -> Sequence[Limitation]:
    """Limitations of the kernels of a version: wrong results and refusals."""
    return (*_OF_KERNELS.get(version, ()), _RECURRENT, _HIDDEN_ROWS)


def limitations_of_running(version: str = NEWEST) -> Sequence[Limitation]:
    """Limitations of the Python API of a version, which hold for every model."""
    return (_ARRAYS,) if version != NEWEST and version in measured_versions() else ()
