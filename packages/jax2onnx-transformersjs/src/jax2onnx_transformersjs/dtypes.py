"""`Dtype`: the precisions that transformers.js' option `dtype` names, each a file of the folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.program import Program
from jax2onnx_runtime.quantization import Mode, Quantization

__all__ = ["Dtype", "check_dtypes", "default_dtype", "file_name", "in_precision"]

#: "fp32": the model as it was exported; "fp16": half precision; "q8": products of integers of 8 bits; "q4": weights in
#: 4 bits; "q4f16": these in half precision.
Dtype = Literal["fp32", "fp16", "q8", "q4", "q4f16"]

_SUFFIXES: Mapping[Dtype, str] = {"fp32": "", "fp16": "_fp16", "q8": "_quantized", "q4": "_q4", "q4f16": "_q4f16"}
_MODES: Mapping[Dtype, Sequence[Mode]] = {
    "fp32": (), "fp16": ("float16",), "q8": ("dynamic_int8",), "q4": ("int4",), "q4f16": ("int4", "float16"),
}  # fmt: skip
# What transformers.js takes where a page says nothing: q8 in WebAssembly, fp32 elsewhere.
_TAKEN_UNASKED: frozenset[Dtype] = frozenset({"fp32", "q8"})


def check_dtypes(dtypes: Sequence[Dtype]) -> None:
    """Raise OptionError unless these are precisions, at least one, each once."""
    known = get_args(Dtype)
    if isinstance(dtypes, str) or not isinstance(dtypes, Sequence):
        raise OptionError(f"dtypes is a list of precisions, such as ['fp32', 'q8'], not {dtypes!r:.80}.")
    if wrong := [dtype for dtype in dtypes if dtype not in known]:
        raise OptionError(f"There is no dtype {wrong[0]!r}; those written here are {', '.join(known)}.")
    if not dtypes or len(set(dtypes)) < len(dtypes):
        raise OptionError(f"dtypes names each precision that shall be written once, at least one, not {[*dtypes]}.")


def file_name(dtype: Dtype) -> str:
    """The file of the model in a precision, as transformers.js looks for it below `onnx`."""
    return f"model{_SUFFIXES[dtype]}.onnx"


def default_dtype(dtypes: Sequence[Dtype]) -> Dtype | None:
    """The precision that the configuration has to name, so that a page that names none loads a file that is there.

    Returns:
      The first one; None where the folder has all files that are loaded unasked.
    """
    return None if set(dtypes) >= _TAKEN_UNASKED else dtypes[0]


def in_precision(model: ir.Model, dtype: Dtype, program: Program) -> ir.Model:
    """The model in a precision, with inputs and outputs of float32, by the quantizers of the program's runtime.

    Raises:
      OptionError: nothing in the model can be written in that precision.
      TargetError: the runtime has no quantizer.
    """
    for mode in _MODES[dtype]:
        model = program.runtime.installed().quantize(model, Quantization(mode), program.target)
    return model
