"""Known gaps, each with the reason for which it stays; the coverage table and the conformance page show them."""

from __future__ import annotations

from jax2onnx_core import Limitation

__all__ = ["LIMITATIONS"]

LIMITATIONS = (
    Limitation("top_k", "XLA puts a NaN first or last by its sign. Before opset 26 no ONNX operator shows that sign: a NaN "
               "is taken to be negative in the result of a negation, else positive, so that top_k of x and of -x agree.",
               ("float16", "bfloat16", "float32", "float64"), values=("NaN",)),
    Limitation("approx_top_k", "Where the operand has a NaN, XLA leaves the result open; in a model NaN is greater than "
               "every number.", values=("NaN",)),
    Limitation("bitcast_convert_type", "Below opset 26 (BitCast) no operator shows the sign or the payload of a NaN: every NaN "
               "has the bits of the positive quiet one. With opset=26 all bits are kept.",
               ("float16", "bfloat16", "float32", "float64"), values=("NaN",)),
    Limitation("signs of zeros", "max, min, clip, relu, and reductions and poolings by them may give 0.0 or -0.0 where both are among "
               "the operands, or where a zero is the bound: a runtime's Relu(-0.0) is -0.0, and an Add behind each would take as long as "
               "the Relu itself. A sum of nothing but -0.0 may be 0.0, prefixes may keep -0.0, sign(-0.0) is 0.0. It shows in "
               "reciprocals, sign bits and angles only.", values=("signs of zeros",)),
    Limitation("subnormal numbers", "XLA on CPU takes them for zero in arithmetic and comparisons, as operands and as results; a model "
               "computes with them. To flush them would take two more operators around each.", values=("subnormal numbers",)),
    Limitation("half precision", "A runtime may keep float32 between two half-precision operators, so that an "
               "intermediate overflow of JAX can be a finite number, and a number that is rounded for one of its readers alone can differ "
               "from itself: x == x[:1].", ("float16", "bfloat16"), values=("large numbers",)),
    Limitation("layer norms by the mean of squares", "Where squares overflow, the variance of JAX's formula E[x²] − E[x]² is infinite or "
               "NaN; the operator takes squares of what differs from the mean, which may be a number.", values=("large numbers",)),
    Limitation("sums of products", "Where products overflow, a sum of them may be infinite in a model and NaN in JAX, or the other way: a "
               "fused multiply-add does not round a product, and the order of the terms is the kernel's. Of a product of many numbers too: "
               "infinity times factors whose own product is 0 is infinite or NaN by the order, which in cumprod and windows is not JAX's.",
               values=("large numbers",)),
    Limitation("associative_scan", "Of more than 64 elements and 131,072 numbers, or of a symbolic length, elements are combined in "
               "another order than in JAX: factors whose product underflows may meet before they meet an infinity, which is NaN then where JAX "
               "has an infinity, or the other way.", values=("infinities",)),
    Limitation("jax.image.resize", "JAX multiplies the pixels that it does not use by zero, so that one NaN or infinity makes NaN of all "
               "results of an image; Resize gives NaN and infinities where such a pixel has a weight.", values=("NaN", "infinities")),
    Limitation("scatter with mode promise_in_bounds", "An index that breaks the promise may be an error of ONNX's operator "
               "where XLA drops the update: to drop it would copy the operand twice. This mode is never the default."),
    Limitation("indices of 64 bits", "JAX takes an index modulo 2³² where the axis has a fixed size; in a model it is out of "
               "range along a symbolic axis, as in jax.export, and for jnp.take.", ("int64", "uint32", "uint64")),
    Limitation("float4_e2m1fn", "ONNX has views, transposes and conversions of it; the default target has not even those, "
               "which is an error at export."),
    Limitation("max pooling layers", "They are one MaxPool, which does not propagate a NaN inside a window; "
               "lax.reduce_window does.", ("float32",), operators=("MaxPool",), message="With (NaN|infinities)", values=("NaN",)),
    Limitation("convolutions and poolings of no elements", "Where a spatial axis is empty at run time, a runtime may refuse the "
               "operator, which is an error that says so; JAX gives an empty result, or one of padding only. A guard at each operator on "
               "H // 2 and the like, which may be 0, would keep it from its neighbours. Axes that are known to be empty are exact."),
    Limitation("cholesky", "A matrix with NaN gives NaN throughout; LAPACK, as JAX has it, may leave numbers before the first "
               "pivot that is NaN.", values=("NaN",)),
    Limitation("elu, celu and selu", "A runtime's kernels round exp(x) - 1, so that results near zero are exact to 1e-7 of 1, not "
               "of themselves. Eight operators around Tanh are exact; they take as long for a million elements, and 1.4 times "
               "as long for a hundred or ten million.", ("float16", "float32")),
    Limitation("igamma", "Where both operands are nearly equal and above 2²⁴ (float32), JAX's series takes millions of steps "
               "that change nothing, which takes minutes in a model."),
    Limitation("attention", "The mask is added to the scores: a hidden key whose score is NaN, infinite or beyond the range of the type makes "
               "the row NaN. To select the scores would be a pass over all of them, or over all keys.", values=("hidden keys",)),
    Limitation("select_and_scatter", "Other reductions than the addition of values selected by ge or le raise an error: "
               "JAX itself only makes these."),
    Limitation("rng_bit_generator", "Keys of the rbg kind draw no bits of a symbolic shape."),
    Limitation("fft", "Where an operand is infinite or NaN, an element of the result is finite where it is in JAX, but for "
               "the real elements of half spectra that an infinite part reaches by a factor of zero, which JAX leaves out: they are NaN. Which "
               "component is infinite and which NaN follows from the order of the products, which differs.", values=("infinities", "NaN")),
    Limitation("fft", "An axis of symbolic length n is multiplied by an n × n matrix made at run time."),
)  # fmt: skip
