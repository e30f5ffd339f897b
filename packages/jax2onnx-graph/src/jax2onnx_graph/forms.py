"""`Form` and `Threshold`: the choices of `Target.prefers` and `Target.threshold`.

The answers are the targets' own, and should be measured.
"""

from __future__ import annotations

import enum

__all__ = ["ALONG_AN_AXIS", "Form", "Threshold"]


class Form(enum.Enum):
    """One of several forms of equal meaning; its value shows the operators that tell it from the others."""

    # Products with a weight.
    MATMUL = "MatMul"
    GEMM = "Gemm"
    EINSUM = "Einsum"
    GEMM_TRANSPOSED = "Gemm(transB=1)"
    """The weight is stored once, with its axes the other way round, as a tied embedding is."""
    MATMUL_OF_TRANSPOSE = "MatMul(x, Transpose(w))"
    EINSUM_TRANSPOSED = "Einsum(x, w)"
    """The equation names the axes of the stored weight in their own order."""
    ADD_VECTOR = "Add(MatMul, [C])"
    """A bias of one axis."""
    ADD_ROW = "Add(MatMul, [1, C])"
    """A bias of as many axes as the product."""
    JOINED_PRODUCTS = "MatMul(x, [w, v]), Split"
    """Products of one operand with several weights as one product with their concatenation."""
    SEPARATE_PRODUCTS = "MatMul(x, w), MatMul(x, v)"
    FLOAT_PRODUCT = "MatMul of floats"
    PRODUCT_OF_16_BITS = "MatMul(uint16, int8)"
    """A product that loses too much in 8 bits, with activations in 16 bits behind QuantizeLinear."""
    PRODUCT_WITH_ZERO_POINTS = "MatMul(uint8, int8)"
    """A product in 8 bits whose activations have zero points, and its bias 32 bits."""
    SYMMETRIC_PRODUCT = "MatMul(int8, int8)"
    """A product in 8 bits without zero points, and with a bias of floats."""

    # Activations.
    SILU_BY_SIGMOID = "Mul(x, Sigmoid(x))"
    SWISH = "Swish"
    SILU_BY_EXP = "Div(x, 1 + Exp(-x))"
    GELU = "Gelu"
    GELU_BY_QUOTIENT = "Erf(Div(x, √2))"
    """`x · (erf(x / √2) + 1) · ½`, as PyTorch's exporters write it."""
    GELU_BY_PRODUCT = "Erf(Mul(x, √½))"
    """The same with `erf(x · √½)`."""
    GELU_BY_DIFFERENCE = "Sub(1, Erf)"
    """`x · (1 - erf(-x · √½)) · ½`, by JAX's erfc."""
    GELU_TANH = "Gelu(approximate=tanh)"
    GELU_TANH_BY_POWER = "Tanh(Pow(x, 3))"
    GELU_TANH_BY_PRODUCT = "Tanh(Mul(x, Mul(x, x)))"
    RELU = "Relu"
    MAX = "Max"
    """`Max(x, 0)`."""
    CLIP = "Clip"
    MIN = "Min"
    """`Min(Relu(x), c)`."""

    # Operators along an axis: the last one, the first of several, or any other.
    SOFTMAX_LAST_AXIS = "Softmax(axis=-1)"
    SOFTMAX = "Softmax(axis)"
    SOFTMAX_FIRST_AXIS = "Softmax(axis=0)"
    SOFTMAX_BY_FORMULA = "Exp, ReduceSum, Div"
    LOG_SOFTMAX_LAST_AXIS = "LogSoftmax(axis=-1)"
    LOG_SOFTMAX = "LogSoftmax(axis)"
    LOG_SOFTMAX_FIRST_AXIS = "LogSoftmax(axis=0)"
    LOG_SOFTMAX_BY_FORMULA = "Exp, ReduceSum, Log, Sub"
    LOG_SUM_EXP_BY_FORMULA = "ReduceMax, Exp, ReduceSum, Log"
    REDUCE_LOG_SUM_EXP = "ReduceLogSumExp"
    DEPTHWISE_CONV_OF_ONE_AXIS = "Conv(group=channels) of [N, C, T]"
    DEPTHWISE_CONV_OF_TWO_AXES = "Conv(group=channels) of [N, C, 1, T]"
    CONV_OF_LARGE_WINDOWS = "Conv with fewer outputs than elements of its kernel"
    PRODUCTS_OF_WINDOWS = "Slice, Gemm for each output of a convolution"
    SOFTPLUS = "Softplus of 1024 elements or more"
    SOFTPLUS_BY_FORMULA = "Abs, Exp, Log, Relu, …"
    HARDMAX_LAST_AXIS = "Hardmax(axis=-1)"
    HARDMAX = "Hardmax(axis)"
    TOP_K_LAST_AXIS = "TopK(axis=-1)"
    TOP_K = "TopK(axis)"
    TOP_K_OF_BLOCKS = "TopK(blocks)"
    """The greatest elements of a long axis among the blocks whose own greatest elements are greatest."""
    TOP_K_OF_LONG_AXIS = "TopK(long axis)"

    # What is right for every value but slow, and what is right for nearly all values.
    RARE_IN_A_BRANCH = "If(rare) {slow} else {fast}"
    RARE_ALWAYS = "slow"
    """The slow way for all values, where a branch on data costs more or cannot be run."""

    # Normalisations and means.
    LAYER_NORMALIZATION = "LayerNormalization"
    SKIP_LAYER_NORMALIZATION = "SkipLayerNormalization"
    """A residual sum and its normalisation in one."""
    LAYER_NORMALIZATION_BY_MOMENTS = "ReduceMean(x), ReduceMean(x²)"
    RMS_NORMALIZATION = "RMSNormalization"
    RMS_NORMALIZATION_BY_POWER = "Pow(x, 2), ReduceMean"
    RMS_NORMALIZATION_BY_PRODUCT = "Mul(x, x), ReduceMean"
    INSTANCE_NORMALIZATION = "InstanceNormalization"
    """A normalisation of groups of channels, computed on the groups of a reshaped operand."""
    LAYER_NORMALIZATION_OF_GROUPS = "LayerNormalization(groups)"
    GROUP_NORMALIZATION = "GroupNormalization"
    GROUP_NORMALIZATION_BY_MOMENTS = "ReduceMean(groups)"
    GLOBAL_AVERAGE_POOL_OF_TRANSPOSE = "GlobalAveragePool"
    """The mean over the space of images whose channels lie last, which a Transpose brings to the front."""
    REDUCE_MEAN_CHANNELS_LAST = "ReduceMean(NHWC)"
    REDUCE_MEAN_CHANNELS_FIRST = "ReduceMean(NCHW)"
    GLOBAL_AVERAGE_POOL = "GlobalAveragePool(NCHW)"
    """The same of images whose channels lie first anyhow."""
    SCALE_AND_SHIFT = "Mul(x, a), Add(b)"
    """A batch normalisation with known statistics, folded into one product and one sum."""
    BATCH_NORMALIZATION = "BatchNormalization"
    BATCH_NORMALIZATION_BY_FORMULA = "Sub(m), Mul(a), Add(b)"

    # Images.
    RESIZE_LAST_TWO_AXES = "Resize(last two axes)"
    RESIZE_ANY_AXES = "Resize(any axes)"

    # Attention.
    ATTENTION_3D = "Attention(3-D)"
    """The heads are joined with the features: `[B, S, K · H]`."""
    ATTENTION_4D = "Attention(4-D)"
    """The heads are an axis: `[B, K, S, H]`."""
    ATTENTION_BY_PRODUCTS = "MatMul, Softmax, MatMul"
    ATTENTION_BY_WHERE = "Where, Softmax"
    """The mask by Where instead of Add."""
    ATTENTION_BY_EINSUM = "Einsum, Softmax"

    # Attention of one query, as when text is generated; "scale=1": the query carries the scale.
    ONE_QUERY_4D_SCALED = "Attention(4-D, scale=1)"
    ONE_QUERY_BY_PRODUCTS = "MatMul, Softmax, MatMul(one query)"
    ONE_QUERY_3D_SCALED = "Attention(3-D, scale=1)"
    ONE_QUERY_4D = "Attention(4-D, scale)"
    ONE_QUERY_3D = "Attention(3-D, scale)"
    GROUP_QUERY_ATTENTION_IN_PLACE = "GroupQueryAttention(in place)"
    """The new keys are written into the cache, which is not copied."""
    GROUP_QUERY_ATTENTION = "GroupQueryAttention"
    HEADS = "Attention(heads)"
    """One query of more query heads than key heads."""
    HEADS_AS_ROWS = "Attention(heads as rows)"
    """The query heads of a key head as so many queries of it, so that each key is read once."""
    ROTARY_EMBEDDING_3D = "RotaryEmbedding(3-D)"
    ROTARY_EMBEDDING_4D = "RotaryEmbedding(4-D)"
    ROTARY_EMBEDDING_BY_CONCAT = "Split, Neg, Concat"
    ROTARY_EMBEDDING_BY_HALVES = "Split, Sub, Add"

    # Writing into a buffer.
    TENSOR_SCATTER = "TensorScatter"
    SCATTER_ELEMENTS = "ScatterElements"
    SLICE_AND_CONCAT = "Slice, Concat"
    SCATTER_ND = "ScatterND"
    WHERE = "Where"

    # Recurrences over a sequence; "activations": others than the operator has by default.
    LSTM = "LSTM"
    GRU = "GRU"
    RNN = "RNN"
    LSTM_OF_OTHER_ACTIVATIONS = "LSTM(activations)"
    GRU_OF_OTHER_ACTIVATIONS = "GRU(activations)"
    RNN_OF_OTHER_ACTIVATIONS = "RNN(activations)"
    SCAN = "Scan"
    LOOP = "Loop"


#: Operators whose speed may depend on the axis → (along any axis, along the last one).
ALONG_AN_AXIS = {
    "Hardmax": (Form.HARDMAX, Form.HARDMAX_LAST_AXIS),
    "LogSoftmax": (Form.LOG_SOFTMAX, Form.LOG_SOFTMAX_LAST_AXIS),
    "Softmax": (Form.SOFTMAX, Form.SOFTMAX_LAST_AXIS),
    "TopK": (Form.TOP_K, Form.TOP_K_LAST_AXIS),
}


class Threshold(enum.Enum):
    """A size from which a form pays, where this depends on the runtime."""

    LONG_AXIS = "elements of an axis"
    """The elements of an axis from which on its TopK is `Form.TOP_K_OF_LONG_AXIS`, which TopK of blocks may be faster than."""
    SHARING_HEADS = "query heads of a key head"
    """The query heads of a key head from which on `Form.HEADS_AS_ROWS` may be faster, since the keys are read once."""
    OPERATOR_CALL = "elements computed"
    """The elements that are computed in the time of calling one more operator."""
    GROUP_BRANCHES = "groups"
    """The groups from which on a branch for each costs less than reading the matrices of all, where few groups have rows."""
