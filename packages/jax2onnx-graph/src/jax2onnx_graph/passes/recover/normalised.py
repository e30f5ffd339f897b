"""What the passes for layer norm and RMS norm share: scales and biases around a normalisation."""

from __future__ import annotations

__all__ = ["absorb_bias", "absorb_scale", "rewrite_normalisation", "scale_of"]

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of, known
from jax2onnx_graph.passes.recover.row_statistics import Rows
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.patterns import is_read_once, operation, other_operand, rewrite_as, scalar

_LIMIT = 1 << 20


def scale_of(rows: Rows, value: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None]:
    """(scale, v) where `value` is 1 / sqrt(v), or that times a scale [C], which may have leading axes of size one."""
    if (direct := rows.inverse_root(value)) is not None:
        return None, direct
    node = operation(value, "Mul")
    if node is not None:
        for factor in node.inputs:
            scale = other_operand(node, factor)
            if _is_vector(scale, rows.x) and (shifted := rows.inverse_root(factor)) is not None:
                return scale, shifted
    return None, None


def _vector(value: ir.Value | None, x: ir.Value | None) -> ir.Value | None:
    """The [C] tensor that `value` is, up to leading axes of size one."""
    while (view := operation(value, "Reshape", "Unsqueeze")) is not None and _is_vector(value, x):
        value = view.inputs[0]
    return value if value is not None and _is_vector(value, x) and len(value.shape or ()) == 1 else None


def _is_vector(value: ir.Value | None, x: ir.Value | None) -> bool:
    dims, width = dims_of(value), (dims_of(x) or (None,))[-1]
    if dims is None or len(dims) > len(dims_of(x) or ()):
        return False
    return dims[-1:] == (width,) and isinstance(width, int) and all(d == 1 for d in dims[:-1])


def _as_vector(editor: GraphEditor, value: ir.Value | None, x: ir.Value | None) -> ir.Value | None:
    """`value` as a [C] tensor, making one of a constant with leading axes of size one."""
    if value is None or (vector := _vector(value, x)) is not None:
        return None if value is None else vector
    array = known(value, _LIMIT) if _is_vector(value, x) else None
    return None if array is None else editor.own(ir.Tensor(np.ascontiguousarray(array).reshape(-1)))


def rewrite_normalisation(
    editor: GraphEditor, node: ir.Node, op_type: str, found: tuple[ir.Value, ir.Value | None, float]
) -> None:
    """Rewrite the node as `op_type` over the last axis of `found` = (x, scale or None for ones, epsilon)."""
    x, scale, epsilon = found
    width = (dims_of(x) or ())[-1]
    if scale is None and isinstance(width, int):
        scale = editor.constant(np.ones(width, x.dtype.numpy()))  # type: ignore[union-attr]
    scale = _as_vector(editor, scale, x)
    if scale is not None:
        rewrite_as(editor, node, op_type, [x, scale], {"axis": -1, "epsilon": epsilon})


def _normalisation_before(node: ir.Node, op_type: str) -> tuple[ir.Node | None, ir.Value | None]:
    """The normalisation that alone feeds the binary node, and the node's other operand."""
    for operand in node.inputs:
        producer = operation(operand, op_type)
        if producer is not None and is_read_once(operand):
            return producer, other_operand(node, operand)
    return None, None


def absorb_scale(editor: GraphEditor, node: ir.Node, op_type: str) -> None:
    """`Mul(normalisation with a scale of ones, [C])` as one normalisation."""
    before, factor = _normalisation_before(node, op_type)
    if before is None or len(before.inputs) != 2 or scalar(before.inputs[1]) != 1:
        return
    scale = _as_vector(editor, factor, before.inputs[0])
    if scale is not None:
        rewrite_as(editor, node, op_type, [before.inputs[0], scale], dict(_attributes(before)))


def absorb_bias(editor: GraphEditor, node: ir.Node, op_type: str) -> None:
    """`Add(normalisation without a bias, [C])` as one normalisation."""
    before, summand = _normalisation_before(node, op_type)
    if before is None or len(before.inputs) != 2:
        return
    bias = _as_vector(editor, summand, before.inputs[0])
    if bias is not None:
        rewrite_as(editor, node, op_type, [*before.inputs, bias], dict(_attributes(before)))


def _attributes(node: ir.Node) -> dict[str, int | float]:
    return {"axis": node.attributes["axis"].as_int(), "epsilon": node.attributes["epsilon"].as_float()}
