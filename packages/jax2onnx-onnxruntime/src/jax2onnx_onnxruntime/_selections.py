"""Selections by conditions that no processor can predict, written without branches.

The kernel of Where takes a branch for each element (seen in 1.32), which costs little where neighbours have the same condition, as in
masks, and 15 ns for each wrong prediction: for 131,072 random elements 1.6 ms, where GatherElements takes 0.4 ms with its Concat,
and 0.35 ms where it takes 0.3 ms if the condition is always the same. Gradients of activations, of poolings and of dropout are such
selections.
"""

from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.sizes import estimated_elements, size_of
from jax2onnx_graph.facts.values import constant_tensor, dims_of, known, same_dims
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass
from jax2onnx_graph.rewrite.patterns import source_of
from jax2onnx_graph.targets import Target, standard_target

__all__ = ["SelectionsPass"]

# From so many elements on, where the calls of the further nodes cost a small part of the gain.
_MANY = 4096
# Constants of more elements are not looked at.
_MOST_CONSTANTS = 1 << 20
_ORDER = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
_TYPES = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64)


class SelectionsPass(NodePass[bool]):
    """Write a large Where whose condition compares floats by their order in a form without branches; the numbers are the same.

    1. `Where(c, x, y)` becomes `GatherElements([y, x], c)` of rows, where condition and operands have the shape of the result.
    2. Where one operand is a number, Pad puts it beside the other one.
    3. `Where(c, x, 0)` becomes `x · Cast(c)` where all numbers are promised to be finite.
    """

    operators = frozenset({"Where"})
    forms = "A selection without branches"

    def __init__(self, target: Target = standard_target) -> None:
        super().__init__(target)
        self._from_order: dict[ir.Value, bool] = {}
        self._indices: dict[ir.Value, ir.Value] = {}

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        self._indices.clear()
        super().rewrite_graph(editor)

    def match(self, node: ir.Node, editor: GraphEditor) -> bool | Declined | None:
        condition, x, y = node.inputs
        result, dims = node.outputs[0], dims_of(node.outputs[0])
        if dims is None or not dims or estimated_elements(dims) < _MANY or result.dtype not in _TYPES:
            return None
        if condition is None or not self._compares_order(condition):
            return None
        if not same_dims(dims_of(condition), dims):
            return Declined("the condition is broadcast", node)
        numbers = [_number(value) is not None for value in (x, y)]
        if all(numbers):
            return Declined("both operands are numbers", node)
        if not all(is_number or same_dims(dims_of(v), dims) for v, is_number in zip((x, y), numbers, strict=True)):
            return Declined("an operand is broadcast", node)
        return editor.supports("GatherElements", result) and (not any(numbers) or editor.supports("Pad", result))

    def rewrite(self, node: ir.Node, match: bool, editor: GraphEditor) -> None:
        """Put the form without branches in the place of a Where; `match` is whether there are kernels for it."""
        condition, x, y = node.inputs
        assert condition is not None and x is not None and y is not None
        result = node.outputs[0]
        if (
            _number(y) == 0
            and result.dtype is not None
            and result.dtype.is_floating_point()
            and editor.assumes(Assumption.FINITE)
        ):
            editor.put(node, "Mul", [x, editor.before(node).op.Cast(condition, to=result.dtype)])
        elif match:
            made = _gathered(editor, node, self._index(editor, node, condition))
            shape = _shape(editor, node)
            # A size that is computed may be 0, and that is no copy then.
            computed = constant_tensor(shape) is None
            new = editor.put(node, "Reshape", [made, shape], {"allowzero": 1 if computed else None})
            self._from_order[new.outputs[0]] = True

    def _index(self, editor: GraphEditor, node: ir.Node, condition: ir.Value) -> ir.Value:
        """A condition as the indices of GatherElements, [1, elements]: once for all selections by it in a graph."""
        if condition not in self._indices:
            dims = labelled(dims_of(condition) or ())
            number = editor.before(node).op.Cast(condition, to=ir.DataType.INT32, dims=dims)
            self._indices[condition] = _flat(editor, node, number)
        return self._indices[condition]

    def _compares_order(self, value: ir.Value) -> bool:
        """Whether elements of a value depend, one by one, on which of two floats is greater, neither of them a constant mask."""
        stack = [value]
        while stack:
            top = stack[-1]
            if top in self._from_order:
                stack.pop()
                continue
            operands = _operands(top)
            if missing := [x for x in operands if x not in self._from_order]:
                stack.extend(missing)
                continue
            self._from_order[top] = _is_order_of_floats(top) or any(self._from_order[x] for x in operands)
        return self._from_order[value]


def _operands(value: ir.Value) -> list[ir.Value]:
    """The values of which a value of integers or booleans is computed, element by element."""
    node = value.producer()
    if node is None or node.domain or value.dtype is None or value.dtype.is_floating_point():
        return []
    facts = facts_of(node.op_type)
    if facts.is_view or node.op_type == "Transpose":
        return [x for x in node.inputs[:1] if x is not None]
    return [] if facts.elementwise is None else [x for x in node.inputs if x is not None]


def _is_order_of_floats(value: ir.Value) -> bool:
    node = value.producer()
    if node is None or node.domain or node.op_type not in _ORDER:
        return False
    return all(x is not None and x.dtype is not None and x.dtype.is_floating_point() for x in node.inputs) and any(
        constant_tensor(x) is None for x in node.inputs
    )


def _number(value: ir.Value | None) -> Array | None:
    """The number that every element of a constant is, as an array without axes."""
    array = known(source_of(value, "Expand", "Reshape", "Unsqueeze"), _MOST_CONSTANTS)
    if array is None or not array.size or array.tobytes() != array.flat[:1].tobytes() * array.size:
        return None
    return array.flat[:1].reshape(())


def _flat(editor: GraphEditor, node: ir.Node, value: ir.Value | None) -> ir.Value:
    """A value as one row, [1, elements]: along shorter rows the kernel takes twice as long."""
    assert value is not None, "the operands of Where are not optional"
    return editor.before(node).op.Flatten(value, axis=0, dims=labelled((1, size_of(dims_of(value) or ()).dim)))


def _gathered(editor: GraphEditor, node: ir.Node, index: ir.Value) -> ir.Value:
    """[1, elements]: for each element the first or the second operand of a Where."""
    builder, (_, x, y) = editor.before(node), node.inputs
    count = size_of(dims_of(node.outputs[0]) or ()).dim
    first, last = _number(y), _number(x)
    if (number := last if first is None else first) is not None:
        row = _flat(editor, node, x if last is None else y)
        pads = editor.ints([1, 0, 0, 0] if last is None else [0, 0, 1, 0])
        rows = builder.op.Pad(row, pads, editor.constant(number), dims=labelled((2, count)))
    else:
        pair = [_flat(editor, node, operand) for operand in (y, x)]
        rows = builder.op.Concat(*pair, axis=0, dims=labelled((2, count)))
    return builder.op.GatherElements(rows, index, axis=0, dims=labelled((1, count)))


def _shape(editor: GraphEditor, node: ir.Node) -> ir.Value:
    """The shape of the result of a Where, of which Reshape finds one size by itself."""
    dims = dims_of(node.outputs[0]) or ()
    sizes = [dim if isinstance(dim, int) else -1 for dim in dims]
    if sizes.count(-1) < 2 and 0 not in sizes:
        return editor.ints(sizes)
    return editor.before(node).op.Shape(node.inputs[0], dims=(len(dims),))
