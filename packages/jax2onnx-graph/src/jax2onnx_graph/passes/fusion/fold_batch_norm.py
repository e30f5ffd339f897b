"""Fold factors and summands per channel into the convolution before them, as batch norms leave them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.build.final_names import common_name
from jax2onnx_graph.build.origins import drop_origins
from jax2onnx_graph.facts.values import constant_tensor, dims_of
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import is_read_once, operation, other_operand, permutation_of
from jax2onnx_graph.weights.absent import computed

__all__ = ["FoldBatchNorm"]

_BIASES = {"Mul": np.multiply, "Add": np.add, "Sub": np.subtract}


class FoldBatchNorm(GraphPass):
    """After a `Conv` or `ConvTranspose` with constant weights whose result has no other reader:

    1. `Mul` with a constant per output channel goes into weights and bias.
    2. `Add` of a constant per output channel goes into the bias; `Sub` likewise.
    3. So it does where a Transpose is between them.

    A constant is per channel if it has one number, or one for each place on the axis of channels. New weights are
    computed when the model is written, so that conversion holds no second copy.
    """

    after = (FoldTransposes,)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if not node.domain and node.op_type in ("Mul", "Add", "Sub"):
                _fold(editor, node)


def _fold(editor: GraphEditor, node: ir.Node) -> None:
    """Fold the binary `node` into the convolution that makes one of its operands, if there is one."""
    for operand in node.inputs[:1] if node.op_type == "Sub" else node.inputs:
        transpose = operation(operand, "Transpose")
        result = operand if transpose is None else transpose.inputs[0]
        conv = operation(result, "Conv", "ConvTranspose")
        if conv is None or operand is None or not (is_read_once(operand) and is_read_once(result)):
            continue
        channels = _channels(conv)
        if channels is None:
            continue
        axis = 1 if transpose is None else permutation_of(transpose).index(1)
        constant = other_operand(node, operand)
        values, bias = _per_channel(constant, operand, channels, axis), _bias(conv, channels)
        if values is not None and bias is not None:
            folded = _put_folded(editor, conv, node.op_type, values, bias, _namesake(conv, node.op_type, constant))
            drop_origins([operand, folded])
            editor.replace(node, folded if transpose is None else transpose.outputs[0])
            return


def _put_folded(
    editor: GraphEditor, conv: ir.Node, op_type: str, values: ir.TensorProtocol, bias: ir.TensorProtocol,
    named: Sequence[ir.Value | None],
) -> ir.Value:  # fmt: skip
    """Put a convolution that does `op_type` with `values` [C] by itself in the place of `conv`; returns its result.

    Its bias is named after `named`.
    """
    weights = _scaled_weights(editor, conv, values) if op_type == "Mul" else conv.inputs[1]
    new_bias = editor.own(computed(_BIASES[op_type], [bias, values], bias.dtype, bias.shape.numpy()), named)
    new = editor.put(conv, conv.op_type, [conv.inputs[0], weights, new_bias], attribute_values(conv))
    return new.outputs[0]


def _namesake(conv: ir.Node, op_type: str, constant: ir.Value | None) -> list[ir.Value | None]:
    """What a folded bias is named after: the bias of the convolution, or, where it has none with a name, its summand."""
    if common_name([v for v in conv.inputs[2:] if v is not None]) != common_name([]):
        return list(conv.inputs[2:])
    return [] if op_type == "Mul" else [constant]


def _channels(conv: ir.Node) -> int | None:
    """The number of output channels, where the weights are constant; None for grouped transposed convolutions."""
    shape = dims_of(conv.inputs[1])
    if shape is None or constant_tensor(conv.inputs[1]) is None:
        return None
    if conv.op_type == "ConvTranspose" and conv.attributes.get_int("group", 1) != 1:
        return None
    count = shape[0] if conv.op_type == "Conv" else shape[1]
    return count if isinstance(count, int) else None


def _per_channel(value: ir.Value | None, result: ir.Value, channels: int, axis: int) -> ir.TensorProtocol | None:
    """The constant [C] that `value` adds or multiplies along `axis` of the result."""
    tensor, rank = constant_tensor(value), len(dims_of(result) or ())
    if tensor is None or len(tensor.shape) > rank or rank < 3:
        return None
    shape = (1,) * (rank - len(tensor.shape)) + tuple(tensor.shape.numpy())
    if shape[axis] not in (1, channels) or any(d != 1 for i, d in enumerate(shape) if i != axis):
        return None
    return computed(lambda a: np.broadcast_to(a.reshape(-1), (channels,)), [tensor], tensor.dtype, [channels])


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
