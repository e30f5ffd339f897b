"""Known limitations of TensorRT, by its documentation and by the builder of TensorRT for RTX; no engine was run."""

from __future__ import annotations

from jax2onnx_graph.limitations import Limitation

__all__ = ["LIMITATIONS"]

LIMITATIONS = (
    Limitation("double precision", "TensorRT has no float64: its parser would make float32 of it, so that models with it are refused.",
               ("float64",)),
    Limitation("integers", "TensorRT has integers of 32 and 64 bits alone, uint8 for inputs and outputs, and int8 between QuantizeLinear and "
               "DequantizeLinear; models with others are refused, and so are bitwise operators and random numbers.",
               ("int8", "int16", "uint8", "uint16", "uint32", "uint64")),
    Limitation("NaN and infinities", "What TensorRT makes of NaN, of infinities and of the sign of zero is not documented; models are made "
               "as if it kept the meaning of operators.", values=("NaN", "infinities", "signs of zeros")),
    Limitation("Rows of attention that see no key", "What TensorRT's Attention gives where all keys are hidden is not documented.",
               values=("hidden keys",)),
    Limitation("attention in single precision", "TensorRT for RTX builds Attention in float16 and bfloat16 alone, with heads of 16, 24, 32, … 256 "
               "features and values of as many: elsewhere its formula is written, which TensorRT may fuse itself. Export a function in "
               "float16 for the operator.", ("float32",)),
    Limitation("sums into places", "Scatters with a reduction compare every update with every place, since TensorRT for RTX has no others: their "
               "time grows with the product of both numbers."),
    Limitation("scopes of loops", "The builder of TensorRT for RTX fails on some loops in which slices of a state are replaced, and on some deep graphs.",
               message=r"graphScope\.cpp"),
    Limitation("causal attention", "Which keys is_causal of Attention shows where there are fewer queries than keys is not documented; models "
               "are made as if it were as in ONNX.", operators=("Attention",), cases=("*causal*",)),
    Limitation("TopK", "TopK finds up to 3839 elements; where the number is symbolic this is not checked at export, nor is the order of "
               "equal elements documented."),
    Limitation("Loop", "Stacked results of loops whose number of steps depends on data, and states whose shape changes, are refused; so "
               "are scans of integers and booleans."),
    Limitation("data-dependent shapes", "TensorRT computes the shapes of results that depend on data (NonZero) at run time; the engine's "
               "user has to supply an output allocator.", operators=("NonZero", "NonMaxSuppression")),
    Limitation("precision", "With --fp16 TensorRT computes in float16 what is float32 in the model wherever that is faster; it computes "
               "float32 in TF32 unless told not to (--noTF32)."),
)  # fmt: skip
