"""`OrderProducts`: a product of matrices has the order of axes in which least is transposed around it."""

from __future__ import annotations

__all__ = ["OrderProducts"]

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.sizes import estimated_elements
from jax2onnx_graph.facts.values import constant_tensor, dims_of
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import only_reader, operation

from jax2onnx_fusions._reasons import UnreadableError
from jax2onnx_fusions.attention._arrangement import Arrangement, Move, cheapest, moved
from jax2onnx_fusions.attention._axes import Axes, Axis, axes_in, product_axes, resolved, size_of, through
from jax2onnx_fusions.attention._formula import Operand, read_operand, view_before
from jax2onnx_fusions.attention._result import Replacement, put_result, replacement
from jax2onnx_fusions.attention.fuse_attention import FuseAttention

_Order = tuple[Axis, ...]
_VIEWS = ("Transpose", "Reshape", "Squeeze", "Unsqueeze")


@dataclasses.dataclass(frozen=True)
class _Form:
    """A product of two operands in some order of axes.

    Attributes:
      operands: the operands in order.
      axes: the axes of its result.
      result: the moves from its result to the last view of the product that it replaces.
      cost: the elements that are transposed for it.
    """

    operands: tuple[Arrangement, Arrangement]
    axes: Axes
    result: Replacement
    cost: int


class OrderProducts(NodePass[_Form]):
    """Let products of two computed tensors have the order of axes in which fewer elements are transposed.

    1. `Transpose(MatMul(a, b))`, which exchanges the rows and columns of the product, is a product of the transposes of b and a: the
       logits of attention, of which there are many more than elements of queries and keys.
    2. So is a product that takes the probabilities of attention transposed.
    3. Rows or columns that are several axes keep the order that these have in an operand, or that the result has after its views.
    """

    phase = Phase.FUSE
    after = (FuseAttention,)
    forms = "A product with fewer transposes"
    operators = frozenset({"MatMul"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Form | Declined | None:
        if any(constant_tensor(value) is not None or len(dims_of(value) or ()) < 2 for value in node.inputs):
            return None
        try:
            return _best(node, editor.threshold(Threshold.OPERATOR_CALL))
        except UnreadableError as error:
            return Declined(str(error), node) if _is_transposed(node) else None

    def rewrite(self, node: ir.Node, match: _Form, editor: GraphEditor) -> None:
        builder = editor.before(node)
        operands = [moved(builder, each.candidate.value, each.moves) for each in match.operands]
        product = builder.op.MatMul(*operands, dims=labelled(list(map(size_of, match.axes))))
        put_result(editor, match.result, product)


def _is_transposed(node: ir.Node) -> bool:
    """Whether an operand or the result of a product is transposed."""
    return any(operation(value, "Transpose") for value in node.inputs) or any(_views_behind(node))


def _best(node: ir.Node, least: int) -> _Form | None:
    """The form of a product with fewest transposes; None where it does not save `least` elements.

    Raises:
      UnreadableError: its axes cannot be told.
    """
    left, right = (read_operand(value, view_before) for value in node.inputs[:2])
    views = list(_views_behind(node))
    now = sum(map(_moved_elements, [*views, *_nodes_of(left), *_nodes_of(right)]))
    if now < least or any(constant_tensor(operand.candidates[0].value) is not None for operand in (left, right)):
        return None
    best = min(_forms(node, left, right, views), key=lambda form: form.cost, default=None)
    return best if best is not None and now - best.cost >= least else None


def _forms(node: ir.Node, left: Operand, right: Operand, views: Sequence[ir.Node]) -> Iterator[_Form]:
    """The forms of a product, whose views these are; none where a factor is a vector, which kernels take in both orders.

    Raises:
      UnreadableError: its axes cannot be told.
    """
    own, contracted = product_axes(node, left.axes(), right.axes())
    final = own
    for view in views:
        final = through(view, final)
    own, final = resolved(own), resolved(final)
    if not (own[-2] and own[-1]):
        return
    for swapped in (False, True):
        first, second = ((left, own[-2]), (right, own[-1]))[:: -1 if swapped else 1]
        for rows, columns in itertools.product(_orders(*first, final), _orders(*second, final)):
            found = _form(node, own[:-2], (first[0], rows), (second[0], columns), contracted, views, final)
            if found is not None:
                yield found


def _orders(operand: Operand, axes: _Order, final: Axes) -> list[_Order]:
    """The orders in which the product, its operand and its last view have these axes."""
    orders = (axes, *([axis for axis in order if axis in axes] for order in (operand.root(), axes_in(final))))
    return [order for order in dict.fromkeys(map(tuple, orders)) if len(order) == len(axes)]


def _form(
    node: ir.Node, batch: Axes, first: tuple[Operand, _Order], second: tuple[Operand, _Order], contracted: _Order,
    views: Sequence[ir.Node], final: Axes,
) -> _Form | None:  # fmt: skip
    """The product of these operands with these axes as rows and columns; None where it cannot be written."""
    (left, rows), (right, columns) = first, second
    axes, sized = (*batch, rows, columns), [left.candidates[0], right.candidates[0]]
    try:
        one = cheapest(left.candidates, (*_batch_of(left, right, batch), rows, contracted), sized)
        other = cheapest(right.candidates, (*_batch_of(right, left, batch), contracted, columns), sized)
        result = replacement(views[-1] if views else node, final, axes, sized)
    except UnreadableError:
        return None
    moves = _transposed(result.moves or ())
    cost = moves + sum(_cost_of(operand, each) for operand, each in ((left, one), (right, other)))
    return _Form((one, other), axes, result, cost)


def _batch_of(operand: Operand, other: Operand, batch: Axes) -> Axes:
    """The batch axes of a product that an operand has, without those along which it is repeated to fit the other."""
    shown = axes_in(operand.axes())
    own = {axis for axis in shown if axis in operand.root() or axis not in other.root()}
    return tuple(tuple(axis for axis in group if axis in shown) if own & {*group} else () for group in batch)


def _cost_of(operand: Operand, arrangement: Arrangement) -> int:
    """The elements that are transposed for an arranged operand."""
    before = operand.candidates.index(arrangement.candidate)
    return _transposed(arrangement.moves) + sum(map(_moved_elements, _nodes_of(operand)[:before]))


def _nodes_of(operand: Operand) -> list[ir.Node]:
    """The views between the tensor that an operand is made of and the product."""
    nodes = (candidate.value.producer() for candidate in operand.candidates[1:])
    return [node for node in nodes if node is not None]


def _views_behind(node: ir.Node) -> Iterator[ir.Node]:
    """The views of the result of a node in its graph, one after another, up to the last Transpose, where nothing else reads them."""
    found: list[ir.Node] = []
    graph, reader = node.graph, only_reader(node.outputs[0])
    while reader is not None and reader.graph is graph and not reader.domain and reader.op_type in _VIEWS:
        found.append(reader)
        if reader.op_type == "Transpose":
            yield from found
            found = []
        reader = only_reader(reader.outputs[0])


def _moved_elements(node: ir.Node) -> int:
    """The elements that a node transposes."""
    dims = dims_of(node.outputs[0]) if node.op_type == "Transpose" else None
    return 0 if dims is None else estimated_elements(dims)


def _transposed(moves: Sequence[Move]) -> int:
    return sum(estimated_elements(move.dims) for move in moves if move.op_type == "Transpose")
