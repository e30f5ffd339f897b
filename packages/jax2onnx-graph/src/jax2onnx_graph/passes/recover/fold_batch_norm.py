"""Fold factors and summands per channel into the convolution before them."""

from __future__ import annotations

__all__ = ["FoldBatchNorm"]

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import constant_tensor, dims_of, known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import is_read_once, operation, other_operand, rewrite_as

_CHANNELS = 1 << 16


class FoldBatchNorm(GraphPass):
    """Behind a `Conv` or `ConvTranspose` with constant weights whose result nobody else uses:

    1. `Mul` with a constant per output channel goes into weights and bias.
    2. `Add` of a constant per output channel goes into the bias; `Sub` likewise.

    A constant is per channel if it has one number for each place on the axis of channels, which may have been
    transposed since. New weights are computed when the
    model is written, so that conversion holds no second copy.
    """

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if not node.domain and node.op_type in ("Mul", "Add", "Sub"):
                _fold(editor, node)


def _fold(editor: GraphEditor, node: ir.Node) -> None:
    for operand in node.inputs[:1] if node.op_type == "Sub" else node.inputs:
        transpose = operation(operand, "Transpose")
        result = operand if transpose is None else transpose.inputs[0]
        conv = operation(result, "Conv", "ConvTranspose")
        if conv is None or not (is_read_once(operand) and is_read_once(result)) or operand is None:
            continue
        perm = None if transpose is None else list(transpose.attributes["perm"].as_ints())
        channels = _channels(conv)
        axis = 1 if perm is None else perm.index(1)
        values = None if channels is None else _per_channel(other_operand(node, operand), operand, channels, axis)
        if values is not None and channels is not None and (bias := _bias(conv, channels)) is not None:
            folded = _folded(editor, conv, node.op_type, values, bias)
            if perm is None:
                editor.replace(node, folded)
            else:
                rewrite_as(editor, node, "Transpose", [folded], {"perm": perm})
            return


def _folded(editor: GraphEditor, conv: ir.Node, op_type: str, values: np.ndarray, bias: np.ndarray) -> ir.Value:
    """The result of a convolution that does `op_type` with `values` [C] by itself."""
    weights = conv.inputs[1]
    if op_type == "Mul":
        weights, bias = _scaled_weights(editor, conv, values), bias * values
    else:
        bias = bias + values if op_type == "Add" else bias - values
    new_bias = editor.own(ir.Tensor(bias))
    _name_after(new_bias, conv.inputs[2] if len(conv.inputs) > 2 else None)
    new = ir.Node(
        "", conv.op_type, [conv.inputs[0], weights, new_bias], list(conv.attributes.values()),
        metadata_props=dict(conv.metadata_props), name=conv.name,
    )  # fmt: skip
    new.outputs[0].type, new.outputs[0].shape = conv.outputs[0].type, conv.outputs[0].shape
    editor.graph.insert_before(conv, new)
    return new.outputs[0]


def _channels(conv: ir.Node) -> int | None:
    """The number of output channels, where the weights are constant."""
    shape = dims_of(conv.inputs[1])
    if shape is None or constant_tensor(conv.inputs[1]) is None:
        return None
    groups = conv.attributes["group"].as_int() if "group" in conv.attributes else 1
    if conv.op_type == "ConvTranspose" and groups != 1:
        return None
    count = shape[0] if conv.op_type == "Conv" else shape[1]
    return count if isinstance(count, int) else None


def _per_channel(value: ir.Value | None, result: ir.Value, channels: int, axis: int) -> np.ndarray | None:
    """The constant [C] that `value` adds or multiplies along `axis` of the result."""
    array, rank = known(value, _CHANNELS), len(dims_of(result) or ())
    if array is None or array.ndim > rank or rank < 3:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if shape[axis] not in (1, channels) or any(d != 1 for i, d in enumerate(shape) if i != axis):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,))


def _bias(conv: ir.Node, channels: int) -> np.ndarray | None:
    if len(conv.inputs) > 2 and conv.inputs[2] is not None:
        return known(conv.inputs[2], _CHANNELS)
    dtype = conv.outputs[0].dtype
    return None if dtype is None else np.zeros(channels, dtype.numpy())


def _scaled_weights(editor: GraphEditor, conv: ir.Node, factors: np.ndarray) -> ir.Value:
    """The weights times a factor per output channel, computed when they are written."""
    old = conv.inputs[1]
    tensor = constant_tensor(old)
    assert tensor is not None
    axis = 0 if conv.op_type == "Conv" else 1
    shaped = factors.reshape((1,) * axis + (-1,) + (1,) * (len(tensor.shape) - axis - 1))

    def scaled() -> ir.TensorProtocol:
        return ir.Tensor(tensor.numpy() * shaped)

    new = editor.own(ir.LazyTensor(scaled, dtype=tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=tensor.name))
    _name_after(new, old)
    return new


def _name_after(new: ir.Value, old: ir.Value | None) -> None:
    """Keep the parameter's path as the name of what it became."""
    if old is not None and old.name and new.name:
        new.name = f"{old.name}.folded"
