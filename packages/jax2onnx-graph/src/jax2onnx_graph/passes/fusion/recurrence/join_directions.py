"""Let recurrent operators read sequences in the order in which they are, and join two directions."""

from __future__ import annotations

__all__ = ["JoinDirections"]

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.build.origins import share_origins
from jax2onnx_graph.facts.values import constant_tensor, dims_of, known
from jax2onnx_graph.passes.fusion.recurrence._reversals import (
    is_reversed_again,
    reapplied,
    reversal_above,
    reversed_axis,
    same_tensor,
    step_of,
)
from jax2onnx_graph.passes.fusion.recurrence.fuse_recurrent import FuseRecurrent
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import permutation_of
from jax2onnx_graph.weights.absent import computed

_OPERATORS = ("LSTM", "GRU", "RNN")
_STATES = (5, 6)  # the operands that are first states


class JoinDirections(GraphPass):
    """With an LSTM, GRU or RNN, whose results are Y [T, directions, B, H] of all steps and the last states,

    1. of a reversed sequence, all readers of whose Y reverse it again or take single steps, is the operator in the
       other direction, of the sequence itself.
    2. A reversal of a reversal, perhaps with views between, is what is reversed; a step of a reversed sequence is the
       one counted from the other end.
    3. The step of Y that is computed last is the last hidden state.
    4. One forwards and one backwards of the same sequence, with weights that are constants, are one in both directions
       where their results Y or last states are concatenated, forwards first, along the features or along the axis
       of directions. What else reads their results reads the parts of a Split.
    """

    after = (FuseRecurrent,)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        if not any(node.op_type in _OPERATORS for node in editor.graph):
            return
        for node in list(_recurrent(editor)):
            _read_in_order(editor, node)
        for node in list(editor.nodes()):
            _cancel(editor, node)
        for node in list(_recurrent(editor)):
            _use_last_state(editor, node)
        for first, second in itertools.combinations(list(_recurrent(editor)), 2):
            if _is_other_direction(first, second):
                _join(editor, first, second)


def _recurrent(editor: GraphEditor) -> Iterator[ir.Node]:
    return (node for node in editor.nodes() if node.op_type in _OPERATORS and not node.domain)


def _direction(node: ir.Node) -> str:
    return node.attributes.get_string("direction", "forward")


# -- rules 1 to 3: reading in order -----------------------------------------------------------------


def _read_in_order(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 1."""
    found = reversal_above(node.inputs[0], 0)
    other = {"forward": "reverse", "reverse": "forward"}.get(_direction(node))
    if found is None or other is None or found[0].inputs[0] is None or not is_reversed_again(node.outputs[0], 0):
        return
    builder, dims = editor.before(node), labelled(dims_of(node.outputs[0]) or ())
    x = reapplied(builder, found[1], found[0].inputs[0])
    attributes = {**attribute_values(node), "direction": other}
    results = builder.emit(node.op_type, [x, *node.inputs[1:]], "", len(node.outputs), None, dims, attributes)
    for old, new in zip(node.outputs, results, strict=True):
        builder.set_dims(new, builder.known_dims(old))
    bounds = [editor.ints([number]) for number in (-1, -(2**63), 0, -1)]
    turned = builder.op.Slice(results[0], *bounds, dims=dims)
    for old, new in zip(node.outputs, [turned, *results[1:]], strict=True):
        _take_over(editor, old, new)
    editor.discard(node)


def _cancel(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 2."""
    step = step_of(node)
    axis = reversed_axis(node) if step is None else step[0]
    found = None if axis is None else reversal_above(node.inputs[0], axis)
    if found is None or found[0].inputs[0] is None:
        return
    builder = editor.before(node)
    source = reapplied(builder, found[1], found[0].inputs[0])
    if step is not None:
        dims = labelled(dims_of(node.outputs[0]) or ())
        source = builder.variant(node, [source, builder.constant(np.int64(-1 - step[1]))], dims=dims)
    editor.replace(node, source)


def _use_last_state(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 3."""
    if _direction(node) == "bidirectional":
        return
    whole = node.outputs[0]
    length = (dims_of(whole) or (None,))[0]
    end = length - 1 if isinstance(length, int) else -1
    for value, perm in list(_readings(whole, 1)):
        rank = len(dims_of(value) or ())
        for user, _ in value.uses() if rank < len(perm) else ():
            if step_of(user) in [(perm.index(0), i) for i in ((-1, end) if _direction(node) == "forward" else (0,))]:
                builder, dims = editor.before(user), labelled(dims_of(user.outputs[0]) or ())
                gone = builder.ints([axis - 1 for axis in perm[rank - 1 : -1]])
                editor.replace(user, builder.op.Squeeze(_results(editor, node)[1], gone, dims=dims))


def _results(editor: GraphEditor, node: ir.Node) -> Sequence[ir.Value]:
    """All results of an operator, those added that it was written without."""
    node.resize_outputs(3 if node.op_type == "LSTM" else 2)
    whole = node.outputs[0]
    for value in node.outputs[1:]:
        if not value.name:
            value.name = editor.value_name(f"{node.name or node.op_type}_state")
            value.type, value.shape = whole.type, ir.Shape((dims_of(whole) or ())[1:])
    return node.outputs


def _squeezed(node: ir.Node) -> list[int] | None:
    """The axes that a Squeeze removes; None for other nodes."""
    axes = known(node.inputs[1]) if node.op_type == "Squeeze" and not node.domain and len(node.inputs) > 1 else None
    return None if axes is None else axes.tolist()


# -- rule 4: joining -------------------------------------------------------------------------------


def _is_other_direction(first: ir.Node, second: ir.Node) -> bool:
    """Whether two operators differ in direction, constant weights and first states only, and read one sequence."""
    if first.op_type != second.op_type or {_direction(first), _direction(second)} != {"forward", "reverse"}:
        return False
    a, b = ({k: v for k, v in attribute_values(node).items() if k != "direction"} for node in (first, second))
    given = [[i for i, value in enumerate(node.inputs) if value is not None] for node in (first, second)]
    return (
        a == b
        and not {"activation_alpha", "activation_beta", "layout"} & set(a)
        and given[0] == given[1]
        and given[0][:4] == [0, 1, 2, 3]
        and set(given[0]) <= {0, 1, 2, 3, *_STATES}
        and all(constant_tensor(value) is not None for node in (first, second) for value in node.inputs[1:4])
        and same_tensor(first.inputs[0], second.inputs[0])
    )


@dataclasses.dataclass(frozen=True)
class _Concat:
    """A Concat of one result of both operators: what it is of the result of the one operator in both directions.

    Attributes:
      perm: a permutation of the axes of the result, after which those that are merged are the last.
    """

    node: ir.Node
    perm: tuple[int, ...]


def _concats(forward: ir.Value, backward: ir.Value, axis: int) -> Iterator[_Concat]:
    """The Concats that join two results whose `axis` is that of directions, forwards first."""
    others = {perm: value for value, perm in _readings(backward, axis)}
    for value, perm in _readings(forward, axis):
        for node, _ in value.uses():
            rank = len(dims_of(value) or ())
            if node.op_type == "Concat" and not node.domain and list(node.inputs) == [value, others.get(perm)]:
                along = node.attributes["axis"].as_int() % rank
                if along == (axis if rank == len(perm) else rank - 1):
                    yield _Concat(node, perm)


def _readings(result: ir.Value, axis: int) -> Iterator[tuple[ir.Value, tuple[int, ...]]]:
    """A result itself, without its axes of directions and batch of one, and transposed, with what `_Concat.perm` says."""
    rank = len(dims_of(result) or ())
    yield result, tuple(range(rank))
    for view, _ in result.uses():
        gone = _squeezed(view) or []
        if axis not in gone or rank - 1 in gone:
            continue
        kept = [i for i in range(rank - 1) if i not in gone]
        value = view.outputs[0]
        yield value, (*kept, *gone, rank - 1)
        for node, _ in value.uses():
            if node.op_type == "Unsqueeze" and dims_of(node.outputs[0]) == dims_of(result):
                yield node.outputs[0], tuple(range(rank))
            elif (order := _last_kept(node)) is not None:
                yield node.outputs[0], (*(kept[i] for i in order), *gone, rank - 1)


def _last_kept(node: ir.Node) -> list[int] | None:
    """The permutation of the axes but the last of a Transpose that leaves that in its place; None for other nodes."""
    perm = permutation_of(node) if node.op_type == "Transpose" and not node.domain else ()
    return list(perm[:-1]) if perm and perm[-1] == len(perm) - 1 else None


def _join(editor: GraphEditor, first: ir.Node, second: ir.Node) -> None:
    """Put one operator in the place of `first` and `second`, if there is a Concat of their results."""
    forward, backward = (first, second) if _direction(first) == "forward" else (second, first)
    axes = (1, 0, 0)  # of directions, in Y and in the states
    if not any(
        True for f, b, axis in zip(forward.outputs, backward.outputs, axes, strict=False) for _ in _concats(f, b, axis)
    ):
        return
    builder = editor.before(first)
    states = _first_states(builder, editor.graph, first, (forward, backward))
    if states is None:
        return
    results = [_results(editor, node) for node in (forward, backward)]
    weights = [_both(editor, [node.inputs[i] for node in (forward, backward)]) for i in (1, 2, 3)]
    attributes = {**attribute_values(first), "direction": "bidirectional"}
    if (activations := first.attributes.get_strings("activations", None)) is not None:
        attributes["activations"] = [*activations, *activations]
    operands = [first.inputs[0], *weights, *([None, *states] if states else [])]
    length, _, batch, hidden = labelled(dims_of(first.outputs[0]) or ())
    joined = builder.emit(first.op_type, operands, "", len(first.outputs), None, (length, 2, batch, hidden), attributes)
    for value in joined[1:]:
        builder.set_dims(value, (2, batch, hidden))
    for f, b, axis, value in zip(*results, axes[: len(joined)], joined, strict=True):
        _replace(editor, builder, (f, b), axis, value)
    editor.discard(first)
    editor.discard(second)


def _both(editor: GraphEditor, weights: Sequence[ir.Value | None]) -> ir.Value:
    """The weights of both directions as one constant."""
    tensors = [tensor for value in weights if (tensor := constant_tensor(value)) is not None]
    shape = (len(tensors), *tensors[0].shape.numpy()[1:])
    return editor.own(computed(lambda *arrays: np.concatenate(arrays), tensors, tensors[0].dtype, shape), weights)


def _first_states(
    builder: InsertionPoint, graph: ir.Graph, first: ir.Node, both: tuple[ir.Node, ir.Node]
) -> list[ir.Value] | None:
    """The first states of both directions, none where they are zeros; None if some are not there before `first`."""
    position = {node: place for place, node in enumerate(graph)}
    states = []
    for place in _STATES:
        given = [node.inputs[place] if place < len(node.inputs) else None for node in both]
        given = given[:1] * 2 if same_tensor(*given) else given
        found = [_available(builder, value, position, first) for value in given if value is not None]
        available = [value for value in found if value is not None]
        if len(available) < len(found):
            return None
        if available:
            dims = (2, *builder.known_dims(available[0])[1:])
            states.append(builder.with_dims(builder.concat(available, 0), dims))
    return states


def _available(
    builder: InsertionPoint, value: ir.Value, position: Mapping[ir.Node, int], first: ir.Node
) -> ir.Value | None:
    """`value`, made anew where it is an Unsqueeze after `first` of what is there before."""
    node = value.producer()
    if node is None or position.get(node, -1) < position[first]:
        return value
    if node.op_type != "Unsqueeze" or node.inputs[0] is None:
        return None
    source = _available(builder, node.inputs[0], position, first)
    return None if source is None else builder.variant(node, [source, *node.inputs[1:]], dims=builder.known_dims(value))


def _replace(
    editor: GraphEditor, builder: InsertionPoint, old: tuple[ir.Value, ir.Value], axis: int, joined: ir.Value
) -> None:
    """Let all that reads the results `old` of the two operators read the result `joined` of the one."""
    for found in list(_concats(*old, axis)):
        node, perm = found.node, found.perm
        if len(dims_of(node.outputs[0]) or ()) == len(perm):
            editor.replace(node, joined)
            continue
        readers = list(node.outputs[0].uses())
        order = _last_kept(readers[0][0]) if len(readers) == 1 and not node.outputs[0].is_graph_output() else None
        if order is not None:
            node, perm = readers[0][0], (*(perm[i] for i in order), *perm[len(order) :])
        at, dims = editor.before(node), labelled(dims_of(node.outputs[0]) or ())
        shape = [*[0] * (len(dims) - 1), builder.known_dims(joined)[-1] * 2]
        editor.replace(node, at.op.Reshape(at.transpose(joined, perm), at.shape(shape), dims=dims))
    if any(value.uses() or value.is_graph_output() for value in old):
        single = [1 if i == axis else size for i, size in enumerate(builder.known_dims(joined))]
        parts = builder.op.several("Split", joined, outputs=2, axis=axis, num_outputs=2, dims=single)
        for value, part in zip(old, parts, strict=True):
            _take_over(editor, value, part)


def _take_over(editor: GraphEditor, old: ir.Value, new: ir.Value) -> None:
    """Let `new` be what `old` is."""
    share_origins(old, new)
    for user, index in old.uses():
        user.replace_input_with(index, new)
    if old.is_graph_output():
        editor.hand_over_output(old, new)
