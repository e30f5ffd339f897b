"""Which of several forms of equal meaning ONNX Runtime's CPU provider runs fastest.

A form is named by the operators that tell it from the others. The numbers are measured times, relative to the fastest
form of the group (one thread, version 1.31, typical shapes); where the times depend on the shape, they are those of a
middle-sized one.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FORMS", "preferred"]

#: The groups of forms that can replace each other: form → relative time.
FORMS: tuple[Mapping[str, float], ...] = (
    # Products.
    {"MatMul": 1.0, "Gemm": 1.0, "Einsum": 1.5},
    {"Gemm(transB=1)": 1.0, "MatMul(x, Transpose(w))": 1.0, "Einsum(x, w)": 14.5},
    {"Add(MatMul, [C])": 1.0, "Add(MatMul, [1, C])": 1.02},
    # Query, key and value of one token; of 512 tokens both take the same time. Joining pays for quantised weights only.
    {"MatMul(x, [w, v]), Split": 1.0, "MatMul(x, w), MatMul(x, v)": 1.01},
    # Activations.
    {"Mul(x, Sigmoid(x))": 1.0, "Swish": 3.42, "Div(x, 1 + Exp(-x))": 4.32},
    {"Gelu": 1.0, "Erf(Div(x, √2))": 1.16, "Erf(Mul(x, √½))": 2.95, "Sub(1, Erf)": 3.36},
    {"Gelu(approximate=tanh)": 1.0, "Tanh(Pow(x, 3))": 4.37, "Tanh(Mul(x, Mul(x, x)))": 4.86},
    {"Relu": 1.0, "Max": 1.07},
    {"Clip": 1.0, "Min": 1.08},
    # Operators along an axis.
    {"Softmax(axis=-1)": 1.0, "Softmax(axis)": 3.2, "Exp, ReduceSum, Div": 3.8, "Softmax(axis=0)": 51.0},
    {"LogSoftmax(axis=-1)": 1.0, "LogSoftmax(axis)": 3.4, "Exp, ReduceSum, Log, Sub": 3.5, "LogSoftmax(axis=0)": 27.0},
    {"ReduceMax, Exp, ReduceSum, Log": 1.0, "ReduceLogSumExp": 6.3},
    {"Hardmax(axis=-1)": 1.0, "Hardmax(axis)": 2.2},
    {"TopK(axis=-1)": 1.0, "TopK(axis)": 1.14},
    # The 50 greatest of 151,936 elements; the others are of blocks whose maxima are not among the 50 greatest.
    {"TopK(blocks)": 1.0, "TopK(long axis)": 1.7},
    # Normalisations and means.
    {"LayerNormalization": 1.0, "ReduceMean(x), ReduceMean(x²)": 2.6, "SkipLayerNormalization": 9.6},
    {"RMSNormalization": 1.0, "Pow(x, 2), ReduceMean": 1.04, "Mul(x, x), ReduceMean": 2.5},
    {"InstanceNormalization": 1.0, "LayerNormalization(groups)": 1.13, "GroupNormalization": 1.5, "ReduceMean(groups)": 2.2},
    {"GlobalAveragePool": 1.0, "ReduceMean(NHWC)": 3.3},
    {"ReduceMean(NCHW)": 1.0, "GlobalAveragePool(NCHW)": 3.1},
    {"Mul(x, a), Add(b)": 1.0, "BatchNormalization": 1.0, "Sub(m), Mul(a), Add(b)": 1.13},
    # Images.
    {"Resize(last two axes)": 1.0, "Resize(any axes)": 1.06},
    # Attention.
    {"Attention(3-D)": 1.0, "Attention(4-D)": 1.1, "MatMul, Softmax, MatMul": 1.2, "Where, Softmax": 1.3, "Einsum, Softmax": 1.8},
    # One query of 16 heads on a cache of 1024 keys of 8 heads; in place: the cache is not copied.
    {"Attention(4-D, scale=1)": 1.0, "MatMul, Softmax, MatMul(one query)": 1.53, "Attention(3-D, scale=1)": 1.54, "Attention(4-D, scale)": 1.83, "GroupQueryAttention(in place)": 2.0, "Attention(3-D, scale)": 3.0, "GroupQueryAttention": 3.3},
    # One query with four heads for each key head, the scale 1; with eight the factor is 1.7, with two 0.7.
    {"Attention(heads as rows)": 1.0, "Attention(heads)": 1.2},
    {"RotaryEmbedding(3-D)": 1.0, "RotaryEmbedding(4-D)": 2.0, "Split, Neg, Concat": 3.8, "Split, Sub, Add": 4.2},
    # Buffers and sequences.
    {"TensorScatter": 1.0, "ScatterElements": 1.25, "Slice, Concat": 1.95, "ScatterND": 2.16, "Where": 3.42},
    {"LSTM": 1.0, "GRU": 1.0, "RNN": 1.0, "LSTM(activations)": 1.0, "GRU(activations)": 1.0, "RNN(activations)": 1.0, "Scan": 2.1, "Loop": 2.3},
)  # fmt: skip


def preferred(forms: tuple[str, ...]) -> str:
    """The fastest of `forms`; those that were not measured together with the first are left out of account."""
    times = next((group for group in FORMS if forms[0] in group), {forms[0]: 1.0})
    return min((form for form in forms if form in times), key=times.__getitem__)
