"""`AbsorbTransposes`: Transposes of axes that are flattened to features are absorbed into constant weights."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.axis_maps import Axes, AxisMaps, Iteration, axis_maps
from jax2onnx_graph.facts.operators import Elementwise, facts_of
from jax2onnx_graph.facts.values import SMALL, LabelledDim, constant_tensor, dims_of, known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass, Phase
from jax2onnx_graph.rewrite.patterns import permutation_of
from jax2onnx_graph.rewrite.permutations import inverse
from jax2onnx_graph.weights.absent import computed

__all__ = ["AbsorbTransposes"]

_MOST_VALUES = 32  # that are followed from one Transpose


class AbsorbTransposes(GraphPass):
    """Remove Transposes of axes that are flattened to features, or that features are split into.

    The *features* are values whose last axis may be in any order, because all that makes and reads them can be adapted:

    1. `Reshape(Transpose(x))`, or Flatten, that joins the permuted axes becomes `Reshape(x)`.
    2. `Transpose(Reshape(features))` that permutes the axes of the split becomes `Reshape(features)`. Here and there, unary
       operators may stand between the two.
    3. Between them stand nodes that compute each feature by itself, or sum over the features (`facts.axis_maps`): the axes of
       their constants that are the features are ordered anew, such as the rows of weights that features are multiplied by, the
       columns and the bias of weights that make them, and scales.

    A large weight with other readers stays as it is, and so does everything then. Weights are ordered when the model is written.
    """

    phase = Phase.FINISH

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            for view, features in ((_join(node), node.outputs[:1]), (_split(node), node.inputs[:1])):
                reordered = None if view is None else _ReorderedFeatures(editor, view.order)
                if reordered is not None and features[0] is not None and reordered.gather(features[0]):
                    reordered.apply()


@dataclasses.dataclass(frozen=True)
class _View:
    """A view that joins axes to features, or splits features into axes, and the Transpose on the other side of it.

    Attributes:
      transpose: the Transpose.
      between: the unary nodes between the two, in the order of the graph.
      order: the place that each feature has with the Transpose, by its place without.
    """

    transpose: ir.Node
    between: Sequence[ir.Node]
    order: Array


class _ReorderedFeatures:
    """Connected values whose features are ordered anew.

    Attributes:
      order: the place that each feature had.
      values: the values.
      constants: node, operand and axis of constants that are to be ordered.
      joins, splits: the views that join axes to features, and that split them.
    """

    def __init__(self, editor: GraphEditor, order: Array) -> None:
        self.editor, self.order = editor, order
        self.values: dict[ir.Value, None] = {}
        self.constants: dict[tuple[ir.Node, int, int], None] = {}
        self.joins: dict[ir.Node, _View] = {}
        self.splits: dict[ir.Node, _View] = {}
        self._maps: dict[ir.Node, AxisMaps | None] = {}

    def gather(self, features: ir.Value) -> bool:
        """Collect the values and nodes connected to these features; returns whether all of them can be adapted."""
        stack = [features]
        while stack:
            value = stack.pop()
            if value in self.values:
                continue
            self.values[value] = None
            if len(self.values) > _MOST_VALUES or value.is_graph_output() or not self._is_made(value, stack):
                return False
            if not all(self._is_read(user, index, stack) for user, index in value.uses()):
                return False
        return all(map(self._may_be_ordered, self.constants))

    def _is_made(self, value: ir.Value, stack: list[ir.Value]) -> bool:
        node = value.producer()
        if node is None or node.graph is not self.editor.graph:
            return False
        join = _join(node)
        if join is not None:
            self.joins[node] = join
            return np.array_equal(join.order, self.order)
        maps = self._maps_of(node)
        return maps is not None and self._is_adapted(node, maps, maps.results[value.index() or 0], stack)

    def _is_read(self, user: ir.Node, index: int, stack: list[ir.Value]) -> bool:
        if user.graph is not self.editor.graph:
            return False
        split = _split(user)
        if split is not None:
            self.splits[user] = split
            return np.array_equal(split.order, self.order)
        maps = self._maps_of(user)
        return maps is not None and self._is_adapted(user, maps, maps.operands[index], stack)

    def _maps_of(self, node: ir.Node) -> AxisMaps | None:
        if node not in self._maps:
            self._maps[node] = axis_maps(node)
        return self._maps[node]

    def _is_adapted(self, node: ir.Node, maps: AxisMaps, axes: Axes | None, stack: list[ir.Value]) -> bool:
        """Whether a node computes the same with the features in another order, which are the last of these axes of one of its tensors.

        Its constants with the features are noted then, and its other values with them join the reordered features.
        """
        if not axes or len(axes[-1]) != 1:
            return False
        (features,) = axes[-1]
        if features.iteration is Iteration.OTHER or features.size.number != len(self.order):
            return False
        tensors = [*zip(node.inputs, maps.operands, strict=True), *zip(node.outputs, maps.results, strict=True)]
        for index, (value, own) in enumerate(tensors):
            place = next((i for i, group in enumerate(own or ()) if features in group), None)
            if own is None or place is None:
                continue
            if own[place] != (features,) or value is None:
                return False
            if constant_tensor(value) is not None:
                self.constants[node, index, place] = None
            elif place == len(own) - 1:
                stack.append(value)
            else:
                return False
        return True

    def _may_be_ordered(self, place: tuple[ir.Node, int, int]) -> bool:
        """Whether a constant can be ordered without being stored twice; small ones always can."""
        node, index, axis = place
        value, tensor = node.inputs[index], constant_tensor(node.inputs[index])
        assert value is not None
        assert tensor is not None
        return tensor.shape[axis] == len(self.order) and (tensor.size <= SMALL or len(value.uses()) == 1)

    def apply(self) -> None:
        """Order the features anew."""
        self.editor.modified = True
        for node, index, axis in self.constants:
            node.replace_input_with(index, self._ordered(node.inputs[index], axis))
        for node, view in self.joins.items():
            self._join_in_order(node, view)
        for node, view in self.splits.items():
            self._split_in_order(node, view)
        self.editor.set_contents(self.values)

    def _ordered(self, value: ir.Value | None, axis: int) -> ir.Value:
        tensor = constant_tensor(value)
        assert tensor is not None
        ordered = computed(lambda a: np.take(a, self.order, axis), [tensor], tensor.dtype, tensor.shape.numpy())
        return self.editor.own(ordered, [value])

    def _join_in_order(self, node: ir.Node, view: _View) -> None:
        """Let a view join axes as they are before its Transpose."""
        source = view.transpose.inputs[0]
        (*view.between, node)[0].replace_input_with(0, source)
        self._reshape([one.outputs[0] for one in view.between], source)
        self.editor.discard(view.transpose)

    def _split_in_order(self, node: ir.Node, view: _View) -> None:
        """Let a Reshape split features into the axes that the Transpose behind it gives."""
        shape = known(node.inputs[1])
        assert shape is not None
        node.replace_input_with(1, self.editor.ints([int(shape[axis]) for axis in permutation_of(view.transpose)]))
        results = [one.outputs[0] for one in (node, *view.between)]
        self._reshape(results, view.transpose.outputs[0])
        self.editor.replace(view.transpose, results[-1])

    def _reshape(self, values: Sequence[ir.Value], like: ir.Value | None) -> None:
        """Let values have the dimensions of `like`, in which their elements stand in another order than before."""
        for value in values:
            value.shape = None if like is None else like.shape
        self.editor.set_contents(values)


def _join(view: ir.Node) -> _View | None:
    """The view that joins axes to features by this node; None where it does not."""
    if view.op_type not in ("Reshape", "Flatten") or view.domain:
        return None
    between: list[ir.Node] = []
    value = view.inputs[0]
    while (node := _made_for_one(value)) is not None and _is_unary(node):
        between.insert(0, node)
        value = node.inputs[0]
    return _view(view, node, between, is_join=True)


def _split(view: ir.Node) -> _View | None:
    """The view that splits features into axes by this node; None where it does not."""
    if view.op_type != "Reshape" or view.domain or known(view.inputs[1]) is None:
        return None
    between: list[ir.Node] = []
    value = view.outputs[0]
    while (node := _only_reader(value)) is not None and _is_unary(node):
        between.append(node)
        value = node.outputs[0]
    return _view(view, node, between, is_join=False)


def _view(view: ir.Node, node: ir.Node | None, between: Sequence[ir.Node], *, is_join: bool) -> _View | None:
    """The `_View` of a view and the node behind unary nodes, if that is a Transpose of just the axes that are joined to features."""
    if node is None or node.graph is not view.graph or node.op_type != "Transpose" or node.domain:
        return None
    axes, features = (view.inputs[0], view.outputs[0]) if is_join else (view.outputs[0], view.inputs[0])
    dims, perm = dims_of(axes) or (), permutation_of(node)
    start = _start(dims, perm, _size_of_last(features))
    if start is None or not _names_no_axis(view, start):
        return None
    order = tuple(axis - start for axis in perm[start:])
    return _View(node, between, _places(dims[start:], inverse(order) if is_join else order))


def _made_for_one(value: ir.Value | None) -> ir.Node | None:
    """The node that makes a value, if one node reads it."""
    return None if value is None or _only_reader(value) is None else value.producer()


def _only_reader(value: ir.Value) -> ir.Node | None:
    """The node that reads a value as its first operand, if nothing else reads it."""
    uses = list(value.uses())
    return uses[0][0] if len(uses) == 1 and uses[0][1] == 0 and not value.is_graph_output() else None


def _is_unary(node: ir.Node) -> bool:
    return not node.domain and facts_of(node.op_type).elementwise is Elementwise.UNARY and len(node.outputs) == 1


def _start(dims: Sequence[LabelledDim], perm: Sequence[int], size: int | None) -> int | None:
    """The first of the last axes that are `size` features together, if a Transpose moves no other axes."""
    for start in reversed(range(len(dims))):
        if not isinstance(dims[start], int):
            return None
        if math.prod(d for d in dims[start:] if isinstance(d, int)) == size and list(perm[:start]) == [*range(start)]:
            return start if size > 1 else None
    return None


def _names_no_axis(view: ir.Node, start: int) -> bool:
    """Whether a view means the same with the axes from `start` on in another order."""
    if view.op_type == "Flatten":
        return view.attributes.get_int("axis", 1) <= start
    shape = known(view.inputs[1])
    return shape is None or bool(shape[start:].all())


def _places(dims: Sequence[LabelledDim], perm: Sequence[int]) -> Array:
    sizes = [d for d in dims if isinstance(d, int)]
    return np.arange(math.prod(sizes)).reshape(sizes).transpose(perm).reshape(-1)


def _size_of_last(value: ir.Value | None) -> int | None:
    """The size of the last axis, 1 for scalars; None where it is no number."""
    dims = dims_of(value)
    if dims is None:
        return None
    last = dims[-1] if dims else 1
    return last if isinstance(last, int) else None
