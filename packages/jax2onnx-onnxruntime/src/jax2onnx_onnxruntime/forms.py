"""The fastest of several forms of equal meaning on ONNX Runtime's CPU provider.

The numbers are measured times, relative to the fastest form of the group (one thread, version 1.31, typical shapes); where the
times depend on the shape, they are those of a middle-sized one.
"""

from __future__ import annotations

from collections.abc import Mapping

from jax2onnx_graph.forms import Form, Threshold

__all__ = ["FORMS", "THRESHOLDS", "preferred"]

#: The groups of forms that can replace each other: form → relative time.
FORMS: tuple[Mapping[Form, float], ...] = (
    # Products.
    {Form.MATMUL: 1.0, Form.GEMM: 1.0, Form.EINSUM: 1.5},
    {Form.GEMM_TRANSPOSED: 1.0, Form.MATMUL_OF_TRANSPOSE: 1.0, Form.EINSUM_TRANSPOSED: 14.5},
    {Form.ADD_VECTOR: 1.0, Form.ADD_ROW: 1.02},
    # Query, key and value of one token; of 512 tokens both take the same time. Joining pays for quantised weights only.
    {Form.JOINED_PRODUCTS: 1.0, Form.SEPARATE_PRODUCTS: 1.01},
    # Activations.
    {Form.SILU_BY_SIGMOID: 1.0, Form.SWISH: 3.42, Form.SILU_BY_EXP: 4.32},
    {Form.GELU: 1.0, Form.GELU_BY_QUOTIENT: 1.16, Form.GELU_BY_PRODUCT: 2.95, Form.GELU_BY_DIFFERENCE: 3.36},
    {Form.GELU_TANH: 1.0, Form.GELU_TANH_BY_POWER: 4.37, Form.GELU_TANH_BY_PRODUCT: 4.86},
    {Form.RELU: 1.0, Form.MAX: 1.07},
    {Form.CLIP: 1.0, Form.MIN: 1.08},
    # Operators along an axis.
    {Form.SOFTMAX_LAST_AXIS: 1.0, Form.SOFTMAX: 3.2, Form.SOFTMAX_BY_FORMULA: 3.8, Form.SOFTMAX_FIRST_AXIS: 51.0},
    {Form.LOG_SOFTMAX_LAST_AXIS: 1.0, Form.LOG_SOFTMAX: 3.4, Form.LOG_SOFTMAX_BY_FORMULA: 3.5, Form.LOG_SOFTMAX_FIRST_AXIS: 27.0},
    {Form.LOG_SUM_EXP_BY_FORMULA: 1.0, Form.REDUCE_LOG_SUM_EXP: 6.3},
    {Form.DEPTHWISE_CONV_OF_TWO_AXES: 1.0, Form.DEPTHWISE_CONV_OF_ONE_AXIS: 1.7},
    # The gradient of 3×3 kernels: windows of [32, 14, 14] for 3×3 outputs.
    {Form.PRODUCTS_OF_WINDOWS: 1.0, Form.CONV_OF_LARGE_WINDOWS: 2.0},
    {Form.SOFTPLUS_BY_FORMULA: 1.0, Form.SOFTPLUS: 3.8},
    {Form.HARDMAX_LAST_AXIS: 1.0, Form.HARDMAX: 2.2},
    {Form.TOP_K_LAST_AXIS: 1.0, Form.TOP_K: 1.14},
    # The 50 greatest of 151,936 elements; the others are of blocks whose maxima are not among the 50 greatest.
    {Form.TOP_K_OF_BLOCKS: 1.0, Form.TOP_K_OF_LONG_AXIS: 1.7},
    # Normalisations and means.
    {Form.LAYER_NORMALIZATION: 1.0, Form.LAYER_NORMALIZATION_BY_MOMENTS: 2.6, Form.SKIP_LAYER_NORMALIZATION: 9.6},
    {Form.RMS_NORMALIZATION: 1.0, Form.RMS_NORMALIZATION_BY_POWER: 1.04, Form.RMS_NORMALIZATION_BY_PRODUCT: 2.5},
    {Form.INSTANCE_NORMALIZATION: 1.0, Form.LAYER_NORMALIZATION_OF_GROUPS: 1.13, Form.GROUP_NORMALIZATION: 1.5, Form.GROUP_NORMALIZATION_BY_MOMENTS: 2.2},
    {Form.GLOBAL_AVERAGE_POOL_OF_TRANSPOSE: 1.0, Form.REDUCE_MEAN_CHANNELS_LAST: 3.3},
    {Form.REDUCE_MEAN_CHANNELS_FIRST: 1.0, Form.GLOBAL_AVERAGE_POOL: 3.1},
    {Form.SCALE_AND_SHIFT: 1.0, Form.BATCH_NORMALIZATION: 1.0, Form.BATCH_NORMALIZATION_BY_FORMULA: 1.13},
    # Images.
    {Form.RESIZE_LAST_TWO_AXES: 1.0, Form.RESIZE_ANY_AXES: 1.06},
    # Attention.
    {Form.ATTENTION_3D: 1.0, Form.ATTENTION_4D: 1.1, Form.ATTENTION_BY_PRODUCTS: 1.2, Form.ATTENTION_BY_WHERE: 1.3, Form.ATTENTION_BY_EINSUM: 1.8},
    # One query of 16 heads on a cache of 1024 keys of 8 heads; in place: the cache is not copied.
    {Form.ONE_QUERY_4D_SCALED: 1.0, Form.ONE_QUERY_BY_PRODUCTS: 1.53, Form.ONE_QUERY_3D_SCALED: 1.54, Form.ONE_QUERY_4D: 1.83, Form.GROUP_QUERY_ATTENTION_IN_PLACE: 2.0, Form.ONE_QUERY_3D: 3.0, Form.GROUP_QUERY_ATTENTION: 3.3},
    # One query with four heads for each key head, the scale 1; with eight the factor is 1.7, with two 0.7.
    {Form.HEADS_AS_ROWS: 1.0, Form.HEADS: 1.2},
    {Form.ROTARY_EMBEDDING_3D: 1.0, Form.ROTARY_EMBEDDING_4D: 2.0, Form.ROTARY_EMBEDDING_BY_CONCAT: 3.8, Form.ROTARY_EMBEDDING_BY_HALVES: 4.2},
    # Buffers and sequences.
    {Form.TENSOR_SCATTER: 1.0, Form.SCATTER_ELEMENTS: 1.25, Form.SLICE_AND_CONCAT: 1.95, Form.SCATTER_ND: 2.16, Form.WHERE: 3.42},
    {Form.LSTM: 1.0, Form.GRU: 1.0, Form.RNN: 1.0, Form.LSTM_OF_OTHER_ACTIVATIONS: 1.0, Form.GRU_OF_OTHER_ACTIVATIONS: 1.0, Form.RNN_OF_OTHER_ACTIVATIONS: 1.0, Form.SCAN: 2.1, Form.LOOP: 2.3},
)  # fmt: skip


#: The sizes from which forms pay.
THRESHOLDS: Mapping[Threshold, int] = {
    # The greatest of 8,192 elements take 16 µs by both forms, those of 65,536 take 54 µs by one TopK and 26 µs by blocks.
    Threshold.LONG_AXIS: 8192,
    # With four query heads for each key head, rows are 1.2 times as fast, with eight 1.7 times, with two 0.7 times.
    Threshold.SHARING_HEADS: 4,
    # The call of a small Sub takes 0.25 µs, in which one of many float32 elements computes so many more.
    Threshold.OPERATOR_CALL: 2000,
    # Of 8 groups that all have rows, branches take 1.6 times as long as Gathers; of 32 of which two have rows, 0.1 times.
    Threshold.GROUP_BRANCHES: 16,
}


def preferred(forms: tuple[Form, ...]) -> Form:
    """The fastest of `forms`; those that were not measured together with the first are left out of account."""
    times = next((group for group in FORMS if forms[0] in group), {forms[0]: 1.0})
    return min((form for form in forms if form in times), key=times.__getitem__)
