"""`ImplicitBroadcast`: operators broadcast by themselves instead of through Expand."""

from __future__ import annotations

__all__ = ["ImplicitBroadcast"]

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import Elementwise, facts_of, operators_where
from jax2onnx_graph.facts.shapes import broadcast_dims
from jax2onnx_graph.facts.values import constant_tensor, dims_of, same_dims
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase
from jax2onnx_graph.rewrite.patterns import operation, scalar
from jax2onnx_graph.targets import Target, standard_target
from jax2onnx_graph.weights.absent import computed

_BROADCASTING = operators_where(lambda facts: facts.elementwise is Elementwise.BROADCAST)

_Inputs = list[ir.Value | None]


@dataclasses.dataclass(frozen=True)
class _Narrowed:
    """Operands that a node may read without the nodes that broadcast them.

    Attributes:
      operands: place → the value that is broadcast.
      weights: place → the shape of a weight without its leading axes of size 1.
    """

    operands: Mapping[int, ir.Value]
    weights: Mapping[int, tuple[int, ...]]


class ImplicitBroadcast(NodePass[_Narrowed]):
    """Drop Expand where the operator that reads it broadcasts and its result keeps its shape.

    1. `Add(Expand(x), y)` is `Add(x, y)`, likewise for each operator that broadcasts all its operands
       and each of these, where the result has the same labelled dimensions without the Expand. They are not left to a constant whose
       elements are all equal: formulas take that for a number.
    2. The same for a Reshape or Unsqueeze that only adds leading axes of size 1, where no reader needs it: formulas that
       read it twice stay what they are.
    3. The same for `MatMul` and the batch dimensions of its operands.
    4. `Expand(Expand(x))` is one Expand, where `x` broadcasts to the outer shape.
    5. `Where(condition, x, x)` is an Expand of `x`: so `lax.switch` selects what its branches read, under `vmap`.
    6. Weights lose leading axes of size 1 likewise, so that runtimes can join `MatMul` with the `Add` of a bias [C].
    """

    phase = Phase.SIMPLIFY
    operators = frozenset({"Expand", "MatMul"}) | _BROADCASTING

    def __init__(self, target: Target = standard_target) -> None:
        super().__init__(target)
        self._needed: dict[ir.Value, bool] = {}

    def rewrite_graph(self, editor: GraphEditor) -> None:
        self._needed.clear()  # views that have a reader which needs them, decided when they are first met
        super().rewrite_graph(editor)

    def match(self, node: ir.Node, editor: GraphEditor) -> _Narrowed | None:
        if len(node.outputs) != 1:
            return None
        inputs: _Inputs = list(node.inputs)
        weights: dict[int, tuple[int, ...]] = {}
        if node.op_type == "Expand":
            inputs[0] = _inner_operand(node)
        else:
            self._skip_broadcasts(node, inputs)
        if node.op_type in _BROADCASTING:
            weights = _stripped_shapes(node, inputs)
        pairs = enumerate(zip(inputs, node.inputs, strict=True))
        operands = {place: new for place, (new, old) in pairs if new is not old and new is not None}
        return _Narrowed(operands, weights) if operands or weights else None

    def rewrite(self, node: ir.Node, match: _Narrowed, editor: GraphEditor) -> None:
        for place, value in match.operands.items():
            node.replace_input_with(place, value)
        for place, shape in match.weights.items():
            node.replace_input_with(place, _stripped(editor, node.inputs[place], shape))
        editor.modified = True

    def _skip_broadcasts(self, node: ir.Node, inputs: _Inputs) -> None:
        """Rules 1 to 3: put the values that are broadcast in the place of those operands in `inputs` that need not be."""
        for place in range(len(inputs)):
            while (value := inputs[place]) is not None:
                source = _before_broadcast(value)
                if source is None or not _keeps_shape(node, inputs, place, source):
                    break
                if operation(value, "Expand", "Where") is None and self._is_needed(value, source, node, inputs):
                    break
                inputs[place] = source

    def _is_needed(self, value: ir.Value, source: ir.Value, node: ir.Node, inputs: _Inputs) -> bool:
        """Whether `value`, a view of `source`, has a reader that needs it, once `node` reads `inputs`."""
        if value not in self._needed:
            others = [(use.node, use.idx) for use in value.uses() if use.node is not node]
            readers = [one for one in others if not _is_view(one[0]) and not _is_unread(one[0], node, inputs)]
            readers += [(node, place) for place, operand in enumerate(inputs) if operand is value]
            reads_twice = len({reader for reader, _ in readers}) < len(readers)
            self._needed[value] = reads_twice or not all(
                _keeps_shape(reader, inputs if reader is node else reader.inputs, place, source)
                for reader, place in readers
            )
        return self._needed[value]


def _matrix_axes(node: ir.Node) -> int | None:
    """The number of last axes of its operands that an operator does not broadcast; None for one that broadcasts nothing."""
    if node.domain:
        return None
    if node.op_type == "MatMul":
        return 2
    return 0 if node.op_type in _BROADCASTING else None


def _is_unread(one: ir.Node, node: ir.Node, inputs: _Inputs) -> bool:
    """Whether nothing reads the results of a node, once `node` reads `inputs`."""
    return not any(output.is_graph_output() for output in one.outputs) and all(
        user is node and inputs[place] is not user.inputs[place]
        for output in one.outputs
        for user, place in output.uses()
    )


def _is_view(node: ir.Node) -> bool:
    """Whether a node takes a view of a value as well as the value."""
    return not node.domain and facts_of(node.op_type).is_view


def _before_broadcast(value: ir.Value) -> ir.Value | None:
    """The operand of the Expand or the like, or of the view adding leading axes, that makes `value`."""
    producer = value.producer()
    if producer is None or producer.domain:
        return None
    if producer.op_type == "Where":
        return producer.inputs[1] if producer.inputs[1] is producer.inputs[2] else None
    source = producer.inputs[0] if producer.inputs else None
    if producer.op_type == "Expand":
        return source
    if producer.op_type not in ("Reshape", "Unsqueeze"):
        return None
    small, large = dims_of(source), dims_of(value)
    if small is None or large is None or len(small) >= len(large):
        return None
    added = len(large) - len(small)
    leading = all(dim == 1 for dim in large[:added]) and same_dims(small, large[added:])
    return source if leading else None


def _keeps_shape(node: ir.Node, inputs: Sequence[ir.Value | None], place: int, source: ir.Value) -> bool:
    """Whether the result of a node that reads `inputs` has the same dimensions with `source` in the place of one of them."""
    matrix_axes, dims = _matrix_axes(node), dims_of(node.outputs[0])
    if matrix_axes is None or dims is None:
        return False
    values = [source if position == place else value for position, value in enumerate(inputs)]
    shapes = [dims_of(value) if matrix_axes or scalar(value) is None else () for value in values]
    if any(shape is None or len(shape) < matrix_axes for shape in shapes):
        return False
    known_shapes = [shape for shape in shapes if shape is not None]
    if matrix_axes:
        before = dims_of(inputs[place])
        if before is None or not same_dims(before[-matrix_axes:], known_shapes[place][-matrix_axes:]):
            return False
        known_shapes = [shape[:-matrix_axes] for shape in known_shapes]
        dims = dims[:-matrix_axes]
    return same_dims(broadcast_dims(known_shapes), dims)


def _inner_operand(expand: ir.Node) -> ir.Value | None:
    """Rule 4: the operand that an Expand may expand at once."""
    source = expand.inputs[0]
    inner = operation(source, "Expand")
    value = source if inner is None else inner.inputs[0]
    first, dims = dims_of(value), dims_of(expand.outputs[0])
    is_enough = first is not None and dims is not None and same_dims(broadcast_dims([first, dims]), dims)
    return value if is_enough else source


def _stripped_shapes(node: ir.Node, inputs: _Inputs) -> dict[int, tuple[int, ...]]:
    """Rule 6: place → the shape of a weight among `inputs` without leading axes of size 1; not of one that callers may replace."""
    found: dict[int, tuple[int, ...]] = {}
    for place, value in enumerate(inputs):
        tensor = constant_tensor(value) if value is not None and value.producer() is None else None
        if tensor is None or tensor.size == 1 or tensor.shape[0] != 1:
            continue
        full = tensor.shape.numpy()
        shape = tuple(full[next(axis for axis, dim in enumerate(full) if dim != 1) :])
        stripped = {**found, place: shape}
        shapes = [stripped.get(other, dims_of(v)) for other, v in enumerate(inputs)]
        known_shapes = [dims for dims in shapes if dims is not None]
        if len(known_shapes) == len(shapes) and same_dims(broadcast_dims(known_shapes), dims_of(node.outputs[0])):
            found[place] = shape
    return found


def _stripped(editor: GraphEditor, value: ir.Value | None, shape: tuple[int, ...]) -> ir.Value:
    """A weight in another shape."""
    assert value is not None, "the operand is a weight"
    tensor = value.const_value
    assert tensor is not None, "the operand is a weight"
    stripped = computed(functools.partial(np.reshape, shape=shape), [tensor], tensor.dtype, shape)
    return editor.derived(value, stripped, "squeeze")
