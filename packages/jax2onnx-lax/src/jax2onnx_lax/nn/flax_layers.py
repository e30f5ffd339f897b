"""Cases of the layers that both libraries of Flax have, NNX and Linen, with what their graphs must be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jax2onnx_core import Case, construct, expect_graph
from jax2onnx_core.plugins.cases import Construct, ExpectGraph
from jax2onnx_graph.arrays import Array

__all__ = [
    "IMAGES",
    "TOKENS",
    "Library",
    "conv_cases",
    "embedding_cases",
    "guarded",
    "guarded_counts",
    "linear_cases",
    "normalization_cases",
    "pooling_cases",
    "recurrent_cases",
    "trained_values",
]

#: Inputs of layers.
TOKENS, IMAGES = ("B", "T", 8), ("B", 6, 5, 8)
_ANY_IMAGES, _PHOTOS, _ANY_PHOTOS = ("B", "H", "W", 8), ("B", 9, 7, 4), ("B", "H", "W", 4)

#: A shape of floats, a shape and a dtype, or the numbers.
Input = tuple[int | str, ...] | tuple[tuple[int | str, ...], DTypeLike] | Array
PoolFunction = Callable[..., jax.Array]
Expect = str | ExpectGraph | Sequence[str]


class Library(Protocol):
    """How one of the libraries makes a layer for a case."""

    def __call__(self, layer: str, example: Sequence[int], *args: object, **options: object) -> Construct:
        """Make a layer whose variables are as after training.

        Args:
          layer: the name of its class in NNX.
          example: a shape that its input may have.
          args: the arguments that its class takes in NNX, of which the first may be the number of features of the input.
          options: further arguments, which are the same in both libraries.
        """
        ...


def trained_values(key: jax.Array, name: str, like: jax.ShapeDtypeStruct | jax.Array) -> jax.Array:
    """Values of a variable as they are after training: means and biases are not 0, scales not 1, variances positive.

    Args:
      key: the random key.
      name: the name of the variable in its layer.
      like: its shape and dtype.
    """
    fan_in = max(1, like.size // like.shape[-1]) if len(like.shape) > 1 else 1
    low = 0.5 if name in ("var", "scale") else -1
    return jax.random.uniform(key, like.shape, like.dtype, low, 1.5) / fan_in**0.5


def _case(
    library: Library, name: str, given: Input, expect: Expect, layer: str, *args: object,
    case: Mapping[str, Any] | None = None, **options: object,
) -> Case:  # fmt: skip
    """The case of a layer with one input, whose fields besides the usual ones are `case`."""
    shape = (1,) if isinstance(given, np.ndarray) or isinstance(given[0], tuple) else given  # indices, else floats
    example = tuple(9 if isinstance(d, str) else d for d in shape)
    return Case(name, library(layer, example, *args, **options), [given], expect=expect, **(case or {}))


# -- convolutions ---------------------------------------------------------------------------

_CONV, _TRANSPOSED = "Transpose -> Conv -> Transpose", "Transpose -> ConvTranspose -> Transpose"


def conv_cases(library: Library) -> list[Case]:
    """The cases of `Conv` and `ConvTranspose`."""
    case = functools.partial(_case, library)
    return [
        case("conv", _PHOTOS, _CONV, "Conv", 4, 6, (3, 3)),
        case("conv_any_size", _ANY_PHOTOS, _CONV, "Conv", 4, 6, (3, 2)),
        case("conv_strided", _PHOTOS, _CONV, "Conv", 4, 6, (3, 4), strides=(2, 3)),
        case("conv_strided_any_size", _ANY_PHOTOS, _CONV, "Conv", 4, 6, (3, 3), strides=2),
        case("conv_dilated_in_groups", _PHOTOS, _CONV, "Conv", 4, 6, (3, 3), kernel_dilation=2, feature_group_count=2),
        case("conv_strided_dilated_in_groups", _PHOTOS, _CONV, "Conv", 4, 6, (3, 2), strides=2, kernel_dilation=(1, 2),
             feature_group_count=2, padding=((1, 2), (0, 3)), use_bias=False),
        case("conv_depthwise_padded", _PHOTOS, _CONV, "Conv", 4, 4, (3, 3), padding=((1, 2), (0, 3)),
             feature_group_count=4, use_bias=False),
        case("conv_valid", _PHOTOS, _CONV, "Conv", 4, 6, (3, 3), padding="VALID"),
        case("conv_causal", ("B", "T", 4), _CONV, "Conv", 4, 6, 3, padding="CAUSAL", kernel_dilation=2),
        case("conv_circular", _PHOTOS,
             ["Transpose -> Slice -> Concat:Bx4x11x7 -> Slice -> Concat:Bx4x11x9 -> Conv:Bx6x9x7 -> Transpose", "Slice", "Slice"],
             "Conv", 4, 6, (3, 3), padding="CIRCULAR"),
        case("conv_of_volumes", ("B", 5, 6, 4, 2), _CONV, "Conv", 2, 3, (3, 3, 2)),
        case("conv_of_one_image", (9, 7, 4), "Reshape -> Transpose -> Conv -> Transpose -> Reshape", "Conv", 4, 6, (3, 3)),
        case("conv_of_videos", ("B", "T", 9, 7, 4),
             ["Reshape:B*Tx9x7x4 -> Transpose -> Conv -> Transpose -> Reshape:BxTx9x7x6", "Shape -> Concat", "Shape"],
             "Conv", 4, 6, (3, 3)),
        case("conv_dilated_input", _PHOTOS, _TRANSPOSED, "Conv", 4, 6, (3, 3), input_dilation=2, padding=((1, 1), (2, 0))),
        case("conv_transpose", _ANY_PHOTOS, _TRANSPOSED, "ConvTranspose", 4, 6, (3, 3), strides=(2, 2)),
        case("conv_transpose_valid", _PHOTOS, _TRANSPOSED, "ConvTranspose", 4, 6, (3, 2), strides=(2, 1), padding="VALID"),
        case("conv_transpose_stride_beyond_window", _PHOTOS, _TRANSPOSED, "ConvTranspose", 4, 6, (2, 2), strides=(3, 4)),
        case("conv_transpose_of_transposed_kernel", _PHOTOS, _TRANSPOSED, "ConvTranspose", 4, 6, (4, 3), strides=(2, 1),
             transpose_kernel=True, use_bias=False),
        case("conv_transpose_of_transposed_kernel_valid", _PHOTOS, _TRANSPOSED, "ConvTranspose", 4, 6, (4, 3),
             strides=(2, 1), transpose_kernel=True, padding="VALID"),
        case("conv_transpose_dilated", _PHOTOS, _TRANSPOSED, "ConvTranspose", 4, 6, (3, 3), strides=(2, 2),
             kernel_dilation=(2, 2), padding=((1, 2), (2, 1))),
        case("conv_transpose_circular", _PHOTOS,
             "Transpose -> ConvTranspose:Bx6x19x15 -> Transpose -> Pad:Bx54x42x6"
             " -> Reshape -> ReduceSum:Bx18x42x6 -> Reshape -> ReduceSum:Bx18x14x6 -> Add",
             "ConvTranspose", 4, 6, (3, 3), strides=(2, 2), padding="CIRCULAR"),
    ]  # fmt: skip


# -- normalisations -------------------------------------------------------------------------

#: The factor of a layer whose statistics are computed by operators of their own.
_FACTOR = "Add -> Sqrt -> Reciprocal"
_AFFINE = "Mul -> Add"
_CLOSE = {"rtol": 1e-5}


def normalization_cases(library: Library) -> list[Case]:
    """The cases of `LayerNorm`, `RMSNorm`, `BatchNorm`, `GroupNorm` and `InstanceNorm`."""
    case, layer_norm = functools.partial(_case, library), "LayerNormalization"
    running = functools.partial(case, use_running_average=True)
    return [
        case("layer_norm", TOKENS, layer_norm, "LayerNorm", 8, case={**_CLOSE, "covers": ("nn.layer_norm",)}),
        case("layer_norm_without_scale", TOKENS, layer_norm, "LayerNorm", 8, use_scale=False, case=_CLOSE),
        case("layer_norm_bare", TOKENS, layer_norm, "LayerNorm", 8, use_scale=False, use_bias=False, case=_CLOSE),
        case("layer_norm_slow_variance", TOKENS, layer_norm, "LayerNorm", 8, use_fast_variance=False, case=_CLOSE),
        case("layer_norm_over_two_axes", ("B", 3, 8), expect_graph(
            "ReduceMean:B -> Mul -> Sub -> Relu", f"{_FACTOR} -> Mul -> Mul -> Add", counts={"ReduceMean": 2}),
            "LayerNorm", 8, reduction_axes=(-2, -1)),
        Case("layer_norm_masked", construct(_masked, library("LayerNorm", (1, 8), 8)), [TOKENS], expect=expect_graph(
            "Where:BxTx8 -> ReduceSum:BxT -> Div", f"{_FACTOR} -> Mul -> Mul -> Add", counts={"Where": 2, "ReduceSum": 3})),
        case("rms_norm", TOKENS, "RMSNormalization", "RMSNorm", 8, case={**_CLOSE, "covers": ("nn.rms_norm",)}),
        case("rms_norm_opset_18", TOKENS, "Pow -> ReduceMean:BxTx1 -> Add -> Sqrt -> Div -> Mul", "RMSNorm", 8,
             case={"options": {"opset": 18}}),
        running("batch_norm", IMAGES, _AFFINE, "BatchNorm", 8, case={"covers": ("nn.batch_norm",)}),
        running("batch_norm_channels_first", IMAGES, _AFFINE, "BatchNorm", 6, axis=1),
        running("batch_norm_without_scale", IMAGES, _AFFINE, "BatchNorm", 8, use_scale=False),
        running("batch_norm_bare", IMAGES, _AFFINE, "BatchNorm", 8, use_scale=False, use_bias=False),
        case("group_norm", _ANY_IMAGES,
             expect_graph("Transpose -> Reshape -> InstanceNormalization -> Reshape -> Transpose -> Mul -> Add"),
             "GroupNorm", 8, 2, case={**_CLOSE, "covers": ("nn.group_norm",)}),
        case("group_norm_of_vectors", ("B", 8), "Reshape -> InstanceNormalization:Bx2x4 -> Reshape -> Mul -> Add",
             "GroupNorm", 8, 2, case={"rtol": 1e-4}),
        case("group_norm_by_size", IMAGES,
             "Transpose -> Reshape -> InstanceNormalization:Bx2x120 -> Reshape -> Transpose -> Mul",
             "GroupNorm", 8, None, group_size=4, use_bias=False, case=_CLOSE),
        # The variance of one pixel is nothing but rounding.
        case("instance_norm", _ANY_IMAGES, "Transpose -> InstanceNormalization -> Transpose", "InstanceNorm", 8,
             case={"rtol": 1e-4, "options": {"constraints": ("H >= 2", "W >= 2")}}),
    ]  # fmt: skip


def _masked(norm: Callable[..., jax.Array]) -> Callable[[jax.Array], jax.Array]:
    return lambda x: norm(x, mask=jnp.arange(8) < 5)


# -- projections and tables -----------------------------------------------------------------

_DENSE = "MatMul -> Add"


def linear_cases(library: Library) -> list[Case]:
    """The cases of `Linear` and `LinearGeneral`, which Linen calls `Dense` and `DenseGeneral`."""
    case = functools.partial(_case, library)
    return [
        case("linear", ("B", 5, 8), _DENSE, "Linear", 8, 6),
        case("linear_of_a_matrix", ("B", 8), _DENSE, "Linear", 8, 6),
        case("linear_of_a_vector", (8,), _DENSE, "Linear", 8, 6),
        case("linear_without_bias", TOKENS, "MatMul", "Linear", 8, 6, use_bias=False),
        case("linear_general_to_heads", TOKENS, "MatMul -> Add -> Reshape", "LinearGeneral", 8, (2, 3),
             case={"covers": ("nn.linear",)}),
        case("linear_general_from_heads", ("B", "T", 2, 3), "Reshape -> MatMul -> Add", "LinearGeneral", (2, 3), 8,
             axis=(-2, -1)),
        case("linear_general_over_another_axis", ("B", 4, "T"), "Transpose:BxTx4 -> MatMul -> Add", "LinearGeneral", 4, 6,
             axis=1),
    ]  # fmt: skip


_NASTY = np.array([[0, 10, -1, -11], [11, -12, 2**31 - 1, -(2**31)]], np.int32)


def embedding_cases(library: Library) -> list[Case]:
    """The cases of `Embed`."""
    case, any_length = functools.partial(_case, library), (("B", "T"), np.int32)
    attend = functools.partial(construct, _attend, library("Embed", (1,), 11, 8))
    return [
        case("embed", _NASTY, expect_graph("Clip -> Gather -> Mul", counts={"Gather": 1, "Where": 1}), "Embed", 11, 8,
             case={"covers": ("nn.embedding",)}),
        case("embed_any_length", any_length, ["Gather:BxTx8 -> Mul", "Clip -> Equal -> Where:BxT -> Unsqueeze -> Mul"],
             "Embed", 11, 8),
        case("embed_bytes", (("B", "T"), np.uint8), expect_graph("Gather", absent=["Where", "Clip"]), "Embed", 256, 8),
        case("embed_one", any_length, ["Shape -> Concat -> Expand:BxTx8", "Shape"], "Embed", 1, 8),
        Case("attend", attend(), [("B", 5, 8)], covers=("nn.unembedding",), expect="Reshape -> Gemm -> Reshape"),
        Case("attend_of_a_matrix", attend(), [("B", 8)], expect="Gemm"),
        Case("tied", attend(tied=True), [any_length], expect=expect_graph("Gather", "Gemm")),
    ]  # fmt: skip


def _attend(embed: Any, *, tied: bool = False) -> Callable[[jax.Array], jax.Array]:
    """The scores of vectors, or of what is looked up, by the same table."""
    return (lambda tokens: embed.attend(embed(tokens))) if tied else embed.attend


# -- poolings -------------------------------------------------------------------------------


def pooling_cases(avg_pool: PoolFunction, max_pool: PoolFunction, min_pool: PoolFunction) -> list[Case]:
    """The cases of the pooling functions of a library."""
    average, maximum = (functools.partial(f, window_shape=(3, 2), strides=(2, 1)) for f in (avg_pool, max_pool))
    mean, extreme = "Transpose -> AveragePool -> Transpose", "Transpose -> MaxPool -> Transpose"
    same = functools.partial(functools.partial, padding="SAME")
    return [
        Case("avg_pool", average, [_PHOTOS], covers=("nn.avg_pool",), expect=mean),
        Case("avg_pool_same", same(average), [_PHOTOS], expect=mean),
        Case("avg_pool_same_any_size", same(average), [_ANY_PHOTOS], expect=mean),
        Case("avg_pool_excluding_padding",
             functools.partial(average, padding=((1, 2), (0, 1)), count_include_pad=False), [_PHOTOS], expect=mean),
        Case("avg_pool_of_one_image", average, [(9, 7, 4)],
             expect="Unsqueeze -> Transpose -> AveragePool -> Transpose -> Squeeze"),
        Case("max_pool", maximum, [_PHOTOS], covers=("nn.max_pool",), expect=extreme),
        Case("max_pool_same_any_size", same(maximum), [_ANY_PHOTOS], expect=extreme),
        Case("max_pool_mapped", jax.vmap(maximum), [_PHOTOS], expect=extreme),
        Case("max_pool_of_one_image", maximum, [(9, 7, 4)],
             expect="Unsqueeze -> Transpose -> MaxPool -> Transpose -> Squeeze"),
        Case("min_pool", functools.partial(min_pool, window_shape=(3, 3), strides=(2, 2), padding="SAME"), [_PHOTOS],
             covers=("nn.min_pool",), expect=expect_graph("Neg -> Transpose -> MaxPool -> Transpose -> Neg")),
    ]  # fmt: skip


# -- recurrent layers -----------------------------------------------------------------------

#: Operators in branches: where numbers are not finite, the steps are a Scan, since kernels of the operators lose them.
guarded = functools.partial(expect_graph, absent=["Loop"], search_functions=True)


def guarded_counts(operator: str, count: int = 1, **others: int) -> dict[str, int]:
    """The numbers of operators of so many guarded recurrences."""
    return {operator: count, "If": count, "Scan": count, **others}


def recurrent_cases(rnn: Callable[..., Construct]) -> list[Case]:
    """The cases of `RNN`.

    Args:
      rnn: makes the layer of a cell for a case, of 5 features to 4: it takes the name of the cell's class and options of the layer.
    """
    sequences = [("B", "T", 5)]

    def case(name: str, operator: str, cell: str, **options: bool) -> Case:
        expect = guarded(f"Transpose -> {operator}", counts=guarded_counts(operator))
        return Case(name, rnn(cell, **options), sequences, expect=expect)

    return [
        case("lstm", "LSTM", "OptimizedLSTMCell"),
        case("lstm_of_single_gates", "LSTM", "LSTMCell"),
        case("lstm_reversed", "LSTM", "OptimizedLSTMCell", reverse=True, keep_order=True),
        case("lstm_with_carry", "LSTM", "OptimizedLSTMCell", return_carry=True),
        case("gru", "GRU", "GRUCell"),
        case("gru_with_carry", "GRU", "GRUCell", return_carry=True),
        Case("simple", rnn("SimpleCell"), sequences,
             expect=expect_graph("Transpose -> RNN", counts={"RNN": 1}, absent=["Scan", "Loop", "If"])),
        Case("lstm_reversed_twice", rnn("LSTMCell", reverse=True), sequences, expect=expect_graph(
            "Slice -> Transpose", "If -> Squeeze -> Transpose:BxTx4", counts={"If": 1, "Slice": 1})),
        Case("lstm_time_major", rnn("LSTMCell", time_major=True), [("T", "B", 5)],
             expect=guarded("If -> Squeeze:TxBx4", counts=guarded_counts("LSTM", Transpose=0))),
    ]  # fmt: skip
