"""`MergeReshapes`: operators that return their operand as it is are removed, chains of views are merged."""

from __future__ import annotations

from jax2onnx_graph.rewrite.patterns import copied, permutation_of
from jax2onnx_graph.rewrite.permutations import moves_only_ones

__all__ = ["MergeReshapes", "become_view", "view_of"]

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import IdentityIf, facts_of, operators_where
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dim, same_dims
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase

#: The operator and the int64 operand of a view: ("Unsqueeze", axes), ("Squeeze", axes) or ("Reshape", shape).
View = tuple[str, list[int]]


@dataclasses.dataclass(frozen=True)
class _ViewOf:
    """A node as a view of a tensor that it need not read through other views.

    Attributes:
      root: the tensor.
      view: the operator and its operand; None for a Reshape to a shape that is computed, which stays what it is.
    """

    root: ir.Value
    view: View | None


class MergeReshapes(NodePass[ir.Value | _ViewOf]):
    """Views of one tensor are made directly from it, and only where they differ from it.

    A view is Reshape, Squeeze, Unsqueeze, Flatten, or a Transpose that moves only axes of size 1.

    1. Reshape, Squeeze, Unsqueeze, Flatten, Expand and Tile to the operand's own shape are the operand.
    2. So are Identity, Concat, Max, Min, Sum and Mean of one operand, a Slice with positive steps
       to the operand's own shape, a Pad by nothing, and a Transpose that permutes nothing.
    3. A view of a view of `x` is a view of `x`, or `x` itself where the shapes are equal.
    4. A Transpose that moves only axes of size 1 is a Reshape.
    5. An output that is another output, or an input, is an Identity of it, and not of an Identity.

    Shapes are equal where all numbers and labels are.
    """

    phase = Phase.SIMPLIFY
    operators = operators_where(lambda facts: facts.identity_if is not None)

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Value | _ViewOf | None:
        """The value that the node returns as it is, or the tensor that it is a view of."""
        source = node.inputs[0]
        if source is None or len(node.outputs) != 1:
            return None
        if _is_identity(node, source):
            return copied(source)
        return _viewed(node, source) if _is_view(node) else None

    def rewrite(self, node: ir.Node, match: ir.Value | _ViewOf, editor: GraphEditor) -> None:
        if isinstance(match, ir.Value):
            editor.replace(node, match)
        elif match.view is not None:
            become_view(editor, node, match.root, match.view)
        else:
            node.replace_input_with(0, match.root)
            editor.modified = True


def view_of(source: Sequence[LabelledDim], target: Sequence[LabelledDim]) -> View | None:
    """The operator and its int64 operand that view dimensions `source` as `target`, if one can.

    >>> view_of([2, 3], [2, 1, 3])
    ('Unsqueeze', [1])
    >>> view_of([2, 3, 4], [2, 12])
    ('Reshape', [2, 12])
    """
    if (axes := _inserted_ones(source, target)) is not None:
        return "Unsqueeze", axes
    if (axes := _inserted_ones(target, source)) is not None:
        return "Squeeze", axes
    shape: list[int] = []
    for position, dim in enumerate(target):
        if isinstance(dim, int):
            shape.append(dim)
        elif position < len(source) and same_dim(source[position], dim):
            shape.append(0)
        else:
            shape.append(-1)
    copied = [dim for dim, size in zip(target, shape, strict=True) if size == 0]
    # A copied size that is 0 leaves the inferred one open; symbols are at least 1, expressions of them may be 0.
    ambiguous = shape.count(-1) > 1 or 0 in target or (-1 in shape and not all(map(_is_symbol, copied)))
    return None if ambiguous else ("Reshape", shape)


def become_view(editor: GraphEditor, node: ir.Node, root: ir.Value | None, view: View) -> None:
    """Make a node a view, in its place.

    Args:
      editor: the graph.
      node: the node, with one output.
      root: the tensor that it becomes a view of.
      view: the operator and its int64 operand, as `view_of` gives them.
    """
    op_type, operand = view
    node.op_type = op_type
    node.attributes.clear()
    node.resize_inputs(2)
    node.replace_input_with(0, root)
    node.replace_input_with(1, editor.ints(operand))
    editor.modified = True


def _is_symbol(dim: LabelledDim) -> bool:
    return isinstance(dim, ir.SymbolicDim) and dim.value is not None and dim.value.isidentifier()


def _inserted_ones(short: Sequence[LabelledDim], long: Sequence[LabelledDim]) -> list[int] | None:
    axes, position = [], 0
    for axis, dim in enumerate(long):
        if position < len(short) and same_dim(short[position], dim):
            position += 1
        elif dim == 1:
            axes.append(axis)
        else:
            return None
    return axes if position == len(short) and axes else None


def _is_identity(node: ir.Node, source: ir.Value) -> bool:
    op_type, identity_if = node.op_type, facts_of(node.op_type).identity_if
    if identity_if is IdentityIf.ONE_OPERAND:
        return len(node.inputs) == 1
    if op_type == "Transpose":
        perm = node.attributes.get_ints("perm", None)
        return perm is not None and list(perm) == list(range(len(perm)))
    if not same_dims(dims_of(source), dims_of(node.outputs[0])):
        return False
    if identity_if is IdentityIf.SAME_SHAPE:
        return True
    if op_type == "Pad":
        pads = known(node.inputs[1])
        return pads is not None and not pads.any()
    steps = known(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else None
    return len(node.inputs) < 5 or node.inputs[4] is None or (steps is not None and bool((steps > 0).all()))


def _is_view(node: ir.Node) -> bool:
    if facts_of(node.op_type).is_view:
        return True
    if node.op_type != "Transpose":
        return False
    dims = dims_of(node.inputs[0])
    return dims is not None and moves_only_ones(dims, permutation_of(node))


def _viewed(node: ir.Node, source: ir.Value) -> ir.Value | _ViewOf | None:
    """Rules 3 and 4 for a view of `source`."""
    root = _root(source)
    source_dims, dims = dims_of(root), dims_of(node.outputs[0])
    if source_dims is None or dims is None:
        return None
    if same_dims(source_dims, dims):
        return root
    if root is source and node.op_type != "Transpose":
        return None
    view = view_of(source_dims, dims)
    stays = view is None and not (node.op_type == "Reshape" and known(node.inputs[1]) is None)
    return None if stays else _ViewOf(root, view)


def _root(value: ir.Value) -> ir.Value:
    """The tensor that `value` is a view of."""
    producer = value.producer()
    while producer is not None and not producer.domain and _is_view(producer):
        source = producer.inputs[0]
        if source is None or source.shape is None:
            break
        value, producer = source, source.producer()
    return value
