"""`FoldBatchNorm`: factors and summands per channel, as batch norms leave them, go into the convolution before them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import ml_dtypes
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.final_names import common_name
from jax2onnx_graph.facts.sub_axes import SubAxis, result_sub_axes
from jax2onnx_graph.facts.values import constant_tensor, dims_of
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import is_read_once, operation, other_operand, source_of
from jax2onnx_graph.weights.absent import computed, known_array

__all__ = ["FoldBatchNorm"]

# Constants of so many bytes may be broadcasts that were computed at export.
_SMALL = 16_384
_ORDINARY = 1e4  # weights are smaller: only factors that are large beside the greatest number need a look at them
_VIEWS = ("Transpose", "Reshape", "Unsqueeze", "Squeeze")
_BIASES = {"Mul": np.multiply, "Add": np.add, "Sub": np.subtract}


@dataclasses.dataclass(frozen=True)
class _Folding:
    """A factor or summand of the result of a convolution.

    Attributes:
      conv: the convolution.
      views: the values from the result of the convolution to the operand, which is it, or a view of it.
      other: the other operand.
      numbers: its numbers [C], one for each output channel; the input of the model that holds them, if they are not constant.
      bias: the bias [C] that the convolution has so far, zeros where it has none.
    """

    conv: ir.Node
    views: Sequence[ir.Value]
    other: ir.Value | None
    numbers: ir.TensorProtocol | ir.Value
    bias: ir.TensorProtocol


class FoldBatchNorm(NodePass[_Folding]):
    """After a `Conv` or `ConvTranspose` whose result has no other reader:

    1. `Mul` with a constant per output channel goes into constant weights and the bias.
    2. `Add` of a constant per output channel goes into the bias; `Sub` likewise.
    3. `Add` of an input of the model becomes the bias where there is none.
    4. So it does where views of the result are between them, in which its channels are an axis of their own.

    The numbers have to be finite, and so do the weights times the factors: a product with infinity, or one that overflows, would
    meet others in the sums of the convolution. Numbers that are not there yet are taken to be.

    A constant is per channel if it has one number, or one for each index along the axis of channels, which a small one may repeat
    along other axes. New weights are computed when the model is written, so that conversion holds no second copy.
    """

    phase = Phase.LAY_OUT
    after = (FoldTransposes,)
    forms = "A convolution with the scale or bias behind it folded in"
    operators = frozenset({"Mul", "Add", "Sub"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Folding | Declined | None:
        declined = None
        for views, conv in _convolutions(node):
            found = _folding(node, views, conv)
            if isinstance(found, _Folding):
                return found
            declined = declined or found
        return declined

    def rewrite(self, node: ir.Node, match: _Folding, editor: GraphEditor) -> None:
        _fold(editor, node.op_type, match)
        editor.set_contents(match.views)
        editor.replace(node, match.views[-1])


def _convolutions(node: ir.Node) -> Iterator[tuple[list[ir.Value], ir.Node]]:
    """(values, convolution) for each operand of the binary `node` that is the result of one, or a view of it.

    The values are those from the result to the operand.
    """
    for operand in node.inputs[:1] if node.op_type == "Sub" else node.inputs:
        values = [operand]
        while (view := operation(values[0], *_VIEWS)) is not None:
            values.insert(0, view.inputs[0])
        conv = operation(values[0], "Conv", "ConvTranspose")
        if conv is not None:
            yield [value for value in values if value is not None], conv


def _channels_in(views: Sequence[ir.Value]) -> int | None:
    """The axis of the last of some views, each of the one before it, that the channels of the first one are; None if they are none."""
    rows: SubAxis | None = SubAxis(1)
    for view in views[1:]:
        producer = view.producer()
        found = None if producer is None or rows is None else result_sub_axes(producer, 0, rows)
        rows = None if found is None else found[0]
    return rows.axis if rows is not None and rows.is_whole else None


def _folding(node: ir.Node, views: Sequence[ir.Value], conv: ir.Node) -> _Folding | Declined | None:
    """The folding of `node` into `conv`, of which `views` lead to an operand; None where its constant is not per channel."""
    operand, axis = views[-1], _channels_in(views)
    channels, other = (dims_of(conv.outputs[0]) or (None, None))[1], other_operand(node, operand)
    if not isinstance(channels, int) or axis is None or other is None:
        return None
    has_bias = len(conv.inputs) > 2 and conv.inputs[2] is not None
    takes_vector = node.op_type == "Add" and not has_bias and conv.graph is node.graph  # a body has inputs of its own
    vector = _vector(other, operand, channels, axis) if takes_vector else None
    numbers = _per_channel(other, operand, channels, axis)
    if vector is None and numbers is None:
        return None
    if not all(map(is_read_once, views)):
        return Declined("the result of the convolution has a second reader", node)
    bias = _bias(conv, channels)
    if bias is None:
        return Declined("the bias of the convolution is not constant", node)
    if numbers is None:
        return None if vector is None else _Folding(conv, views, other, vector, bias)
    weights = constant_tensor(conv.inputs[1])
    if node.op_type == "Mul" and weights is None:
        return Declined("the weights of the convolution are not constant", node)
    if node.op_type == "Mul" and conv.op_type == "ConvTranspose" and conv.attributes.get_int("group", 1) != 1:
        return Declined("the transposed convolution is grouped", node)
    if reason := _overflow(node.op_type, numbers, weights):
        return Declined(reason, node)
    return _Folding(conv, views, other, numbers, bias)


def _overflow(op_type: str, numbers: ir.TensorProtocol, weights: ir.TensorProtocol | None) -> str:
    """Why these numbers cannot be folded in without an infinity or a NaN among the weights or the bias; empty if they can."""
    array = known_array(numbers)
    if array is None:
        return ""
    largest = float(np.abs(array.astype(np.float64)).max(initial=0))
    if not np.isfinite(largest):
        return "the factor or summand is not finite"
    limit = float(ml_dtypes.finfo(numbers.dtype.numpy()).max)
    if op_type != "Mul" or weights is None or largest * _ORDINARY <= limit:
        return ""
    read = known_array(weights)
    product = 0.0 if read is None else largest * float(np.abs(read.astype(np.float64)).max(initial=0))
    return "" if product <= limit else "the weights times the factor would overflow"


def _fold(editor: GraphEditor, op_type: str, found: _Folding) -> None:
    """Fold the factor or summand into the weights and the bias of the convolution."""
    conv, numbers, bias = found.conv, found.numbers, found.bias
    named_after = _namesakes(conv, op_type, found.other)
    conv.resize_inputs(3)
    if isinstance(numbers, ir.Value):
        conv.replace_input_with(2, numbers)
        return
    if op_type == "Mul":
        conv.replace_input_with(1, _scaled_weights(editor, conv, numbers))
    new_bias = computed(_BIASES[op_type], [bias, numbers], bias.dtype, bias.shape.numpy())
    conv.replace_input_with(2, editor.own(new_bias, named_after))


def _namesakes(conv: ir.Node, op_type: str, other: ir.Value | None) -> Sequence[ir.Value | None]:
    """The values after which a folded bias is named: the bias of the convolution, or, where that has no name, the summand."""
    if common_name([v for v in conv.inputs[2:] if v is not None]) != common_name([]):
        return list(conv.inputs[2:])
    return [] if op_type == "Mul" else [other]


def _per_channel(value: ir.Value | None, result: ir.Value, channels: int, axis: int) -> ir.TensorProtocol | None:
    """The constant [C] that `value` adds or multiplies along `axis` of the result."""
    tensor, rank = constant_tensor(value), len(dims_of(result) or ())
    if tensor is None or len(tensor.shape) > rank:
        return None
    shape = (1,) * (rank - len(tensor.shape)) + tuple(tensor.shape.numpy())
    is_repeated = any(d != 1 for i, d in enumerate(shape) if i != axis)
    if shape[axis] not in (1, channels) or (is_repeated and not _repeats(tensor, shape, axis)):
        return None
    first = tuple(slice(None) if i == axis else 0 for i in range(rank))
    return computed(lambda a: np.broadcast_to(a.reshape(shape)[first], (channels,)), [tensor], tensor.dtype, [channels])


def _repeats(tensor: ir.TensorProtocol, shape: Sequence[int], axis: int) -> bool:
    """Whether a small constant, as one of this shape, has the same numbers along `axis` at all indices of the other axes."""
    array = known_array(tensor) if 0 < tensor.nbytes <= _SMALL else None
    if array is None:
        return False
    rows = np.moveaxis(array.reshape(shape), axis, -1).reshape(-1, shape[axis])
    return bool((rows == rows[0]).all())


def _vector(value: ir.Value, result: ir.Value, channels: int, axis: int) -> ir.Value | None:
    """The input [C] of the model that `value`, which is added along `axis` of the result, is a view of."""
    source, dims, rank = source_of(value, "Unsqueeze", "Reshape"), dims_of(value) or (), len(dims_of(result) or ())
    wanted = tuple(channels if i == axis else 1 for i in range(rank))
    if source is None or not source.is_graph_input() or dims_of(source) != (channels,):
        return None
    return source if (1,) * (rank - len(dims)) + dims == wanted else None


def _bias(conv: ir.Node, channels: int) -> ir.TensorProtocol | None:
    """The bias [C] of a convolution, zeros where it has none; None where it is not constant."""
    if len(conv.inputs) > 2 and conv.inputs[2] is not None:
        return constant_tensor(conv.inputs[2])
    dtype = conv.outputs[0].dtype
    return None if dtype is None else ir.Tensor(np.zeros(channels, dtype.numpy()))


def _scaled_weights(editor: GraphEditor, conv: ir.Node, factors: ir.TensorProtocol) -> ir.Value:
    """The weights times `factors` [C], one for each output channel, computed when the model is written."""
    old = conv.inputs[1]
    tensor = constant_tensor(old)
    assert tensor is not None
    axis = 0 if conv.op_type == "Conv" else 1
    shape = (1,) * axis + (-1,) + (1,) * (len(tensor.shape) - axis - 1)
    scaled = computed(
        lambda array, factors: array * factors.reshape(shape), [tensor, factors], tensor.dtype, tensor.shape.numpy()
    )
    return editor.own(scaled, [old])
