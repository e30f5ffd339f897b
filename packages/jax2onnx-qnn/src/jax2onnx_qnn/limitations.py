"""Known limitations of the NPU, as measured with the provider's library for processors of x86-64."""

from __future__ import annotations

from jax2onnx_graph.limitations import Limitation

__all__ = ["LIMITATIONS"]

LIMITATIONS = (
    Limitation("NaN and infinities", "The NPU has neither: what is not finite becomes the greatest number of half precision, 65504, and so "
               "does what is beyond it; what is below 6e-8 is zero.",
               cases=("*::*special*", "*::*huge*", "*::*infinit*", "*::*finite*", "*::*nan*", "*_of_small", "*_of_large", "*_tail", "*::*extreme*"),
               values=("NaN", "infinities", "signs of zeros", "subnormal numbers", "large numbers")),
    Limitation("results without a number", "Where JAX gives NaN or infinity, as outside of the domain of a function, the NPU gives some number.",
               message=r"instead of np\.float\d+\((nan|-?inf)\)"),
    Limitation("precision", "Floats are computed in half precision, in which about three digits are right, whatever the types of the model say.",
               ("float32",), cases=("*::algorithm_of_float16", "*::from_elsewhere")),
    Limitation("integers", "Integers of 64 bits are computed in 32, what exceeds these saturates instead of wrapping around, and TopK compares "
               "the first 24 bits.", ("int32", "int64"),
               cases=("*wraps_around*", "*shift_left*", "*evaluators::bits*", "*evaluators::choices*", "*::top_k_int32*", "*take_fills_integers*")),
    Limitation("preparing small programs", "The library says that memory is lacking while it prepares some small programs, such as the Fourier "
               "transform of two numbers and its inverse in one model.", message="QNN_COMMON_ERROR_MEM_ALLOC"),
    Limitation("order of equal elements", "TopK of the NPU gives equal elements in any order, so that sorting by several keys does, too.",
               operators=("TopK",)),
)  # fmt: skip
