"""What the passes for layer norm and RMS norm share: scales and biases around a normalisation."""

from __future__ import annotations

__all__ = ["Normalised", "absorb_bias", "absorb_scale", "put_normalisation", "scale_and_root"]

import dataclasses

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.dtypes import is_exact_attribute
from jax2onnx_graph.facts.values import dims_of, known
from jax2onnx_graph.passes.fusion._row_statistics import RowStatistics
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.patterns import is_read_once, operation, other_operand, scalar

_LIMIT = 1 << 20


@dataclasses.dataclass(frozen=True)
class Normalised:
    """A formula read as the normalisation of `x` [*batch, C] over the last axis.

    `scale` has the shape [C], up to leading axes of size 1, or is None for ones; `epsilon` is added to the mean square
    or the variance.
    """

    x: ir.Value
    scale: ir.Value | None
    epsilon: float


def scale_and_root(
    rows: RowStatistics, node: ir.Node, factor: ir.Value | None
) -> tuple[ir.Value | None, ir.Value | None]:
    """(scale, v) where the `factor` of `node` normalises by sqrt(v).

    That is the divisor sqrt(v) of a Div, or the factor 1 / sqrt(v) of a Mul, perhaps times a scale [C], which may have
    leading axes of size 1.
    """
    if node.op_type == "Div":
        return None, rows.root(factor)
    if (direct := rows.inverse_root(factor)) is not None:
        return None, direct
    product = operation(factor, "Mul")
    if product is not None:
        for operand in product.inputs:
            scale = other_operand(product, operand)
            if _is_vector(scale, rows.x) and (shifted := rows.inverse_root(operand)) is not None:
                return scale, shifted
    return None, None


def put_normalisation(editor: GraphEditor, node: ir.Node, op_type: str, found: Normalised) -> None:
    """Put the normalisation `op_type` in the place of `node`.

    Not where the scale is computed with leading axes, or where epsilon is a double that an attribute cannot hold.
    """
    if not is_exact_attribute(found.epsilon, found.x.dtype):
        return
    width, dtype = (dims_of(found.x) or ())[-1], found.x.dtype
    scale = found.scale
    if scale is None and isinstance(width, int) and dtype is not None:
        scale = editor.constant(np.ones(width, dtype.numpy()))
    scale = _as_vector(editor, scale, found.x)
    if scale is not None:
        editor.put(node, op_type, [found.x, scale], {"axis": -1, "epsilon": found.epsilon})


def absorb_scale(editor: GraphEditor, node: ir.Node, op_type: str) -> None:
    """Rewrite `Mul` of a constant or computed scale [C] with a normalisation whose scale is 1 as one normalisation."""
    before, factor = _normalisation_before(node, op_type)
    if before is None or len(before.inputs) != 2 or scalar(before.inputs[1]) != 1:
        return
    scale = _as_vector(editor, factor, before.inputs[0])
    if scale is not None:
        editor.put(node, op_type, [before.inputs[0], scale], attribute_values(before))


def absorb_bias(editor: GraphEditor, node: ir.Node, op_type: str) -> None:
    """Rewrite `Add` of a bias [C] to a normalisation that has none as one normalisation."""
    before, summand = _normalisation_before(node, op_type)
    if before is None or len(before.inputs) != 2:
        return
    bias = _as_vector(editor, summand, before.inputs[0])
    if bias is not None:
        editor.put(node, op_type, [*before.inputs, bias], attribute_values(before))


def _normalisation_before(node: ir.Node, op_type: str) -> tuple[ir.Node | None, ir.Value | None]:
    """The normalisation that only the binary `node` reads, and the node's other operand; (None, None) without one."""
    for operand in node.inputs:
        producer = operation(operand, op_type)
        if producer is not None and is_read_once(operand):
            return producer, other_operand(node, operand)
    return None, None


def _as_vector(editor: GraphEditor, value: ir.Value | None, x: ir.Value | None) -> ir.Value | None:
    """`value` as a tensor [C], where it is a view of one, or a constant with leading axes of size 1."""
    if value is None or (vector := _vector(value, x)) is not None:
        return None if value is None else vector
    array = known(value, _LIMIT) if _is_vector(value, x) else None
    if array is None:
        return None
    return editor.derived(value, ir.Tensor(np.ascontiguousarray(array).reshape(-1)), "vector")


def _vector(value: ir.Value | None, x: ir.Value | None) -> ir.Value | None:
    """The tensor [C] of which `value` is a view with leading axes of size 1, or which it is itself."""
    while (view := operation(value, "Reshape", "Unsqueeze")) is not None and _is_vector(value, x):
        value = view.inputs[0]
    return value if value is not None and _is_vector(value, x) and len(value.shape or ()) == 1 else None


def _is_vector(value: ir.Value | None, x: ir.Value | None) -> bool:
    """Whether the shape of `value` is [C], C the last dimension of x, up to leading axes of size 1."""
    dims, width = dims_of(value), (dims_of(x) or (None,))[-1]
    if dims is None or len(dims) > len(dims_of(x) or ()):
        return False
    return dims[-1:] == (width,) and isinstance(width, int) and all(d == 1 for d in dims[:-1])
