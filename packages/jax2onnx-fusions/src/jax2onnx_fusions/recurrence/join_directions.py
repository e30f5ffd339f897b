"""`JoinDirections`: two recurrent operators that read a sequence from both ends become one."""

from __future__ import annotations

__all__ = ["JoinDirections"]

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.values import constant_tensor, dims_of, operand
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.traversal import is_value_read, needed_by
from jax2onnx_graph.weights.absent import computed

from jax2onnx_fusions.recurrence._results import (
    DIRECTIONS,
    OPERATORS,
    all_results,
    direction_of,
    last_kept,
    own_readers,
    recurrences,
    views_of_result,
)
from jax2onnx_fusions.recurrence.fold_reversals import FoldReversals

_STATES = (5, 6)  # the operands that are first states
_NOT_JOINED = frozenset({"activation_alpha", "activation_beta", "layout"})  # attributes


@dataclasses.dataclass(frozen=True)
class _Directions:
    """Two operators that are one in both directions.

    Attributes:
      forward, backward: the operators.
      between: the nodes between the two that the later one needs, in order.
    """

    forward: ir.Node
    backward: ir.Node
    between: Sequence[ir.Node]


class JoinDirections(NodePass[_Directions]):
    """LSTMs, GRUs or RNNs in both directions:

    1. One forwards and one backwards of the same sequence, with weights that are constants, are one in both directions
       where their results Y or last states are concatenated, forwards first, along the features or along the axis
       of directions. What else reads their results reads the parts of a Split.
    """

    phase = Phase.LAY_OUT
    after = (FoldReversals,)
    forms = "A recurrence in both directions"
    operators = OPERATORS

    def rewrite_graph(self, editor: GraphEditor) -> None:
        self._recurrences = recurrences(editor)
        if len(self._recurrences) > 1:
            super().rewrite_graph(editor)

    def match(self, node: ir.Node, editor: GraphEditor) -> _Directions | Declined | None:
        declined = None
        for other in self._recurrences[self._recurrences.index(node) + 1 :]:
            if _is_other_direction(node, other):
                found = _directions(node, other, editor.graph)
                if isinstance(found, _Directions):
                    return found
                declined = declined or found
        return declined

    def rewrite(self, node: ir.Node, match: _Directions, editor: GraphEditor) -> None:
        for needed in match.between:
            editor.graph.remove(needed)
            editor.insert_before(node, needed)
        builder, both = editor.before(node), (match.forward, match.backward)
        states = [_joined_states(builder, [each.inputs[i] for each in both]) for i in _STATES if operand(node, i)]
        results = [all_results(editor, each) for each in both]
        weights = [_joined_weights(editor, [each.inputs[index] for each in both]) for index in (1, 2, 3)]
        attributes = {**attribute_values(node), "direction": "bidirectional"}
        if (activations := node.attributes.get_strings("activations", None)) is not None:
            attributes["activations"] = [*activations, *activations]
        operands = [node.inputs[0], *weights, *([None, *states] if states else [])]
        length, _, batch, hidden = labelled(dims_of(node.outputs[0]) or ())
        dims = (length, 2, batch, hidden)
        joined = builder.emit(node.op_type, operands, "", len(node.outputs), None, dims, attributes)
        for value in joined[1:]:
            builder.set_dims(value, (2, batch, hidden))
        for forward, backward, axis, value in zip(*results, DIRECTIONS[: len(joined)], joined, strict=True):
            _put_result(editor, builder, (forward, backward), axis, value)
        for each in both:
            editor.discard(each)


# ----------------------------------------------------------------------------------------------- reading


def _is_other_direction(first: ir.Node, second: ir.Node) -> bool:
    """Whether two nodes are one operator that reads one sequence from one end, and from the other."""
    return (
        first.op_type == second.op_type
        and {direction_of(first), direction_of(second)} == {"forward", "reverse"}
        and first.inputs[0] is second.inputs[0]
    )


def _directions(first: ir.Node, second: ir.Node, graph: ir.Graph) -> _Directions | Declined:
    """The two directions of one sequence as one operator; `first` is the earlier node."""
    forward, backward = (first, second) if direction_of(first) == "forward" else (second, first)
    reason = _obstacle(first, second)
    if reason:
        return Declined(reason, first)
    pairs = zip(forward.outputs, backward.outputs, DIRECTIONS, strict=False)
    if not any(True for pair in pairs for _ in _concats(*pair)):
        return Declined("the results of the two directions are not concatenated, forwards first", first)
    needed = needed_by(second)
    if first in needed:
        return Declined("one direction begins with what the other one computes", first)
    between = itertools.takewhile(
        lambda node: node is not second, itertools.dropwhile(lambda node: node is not first, graph)
    )
    return _Directions(forward, backward, [node for node in between if node in needed])


def _obstacle(first: ir.Node, second: ir.Node) -> str:
    """Why the two directions of one sequence cannot be one operator; empty if nothing in their operands forbids it."""
    a, b = ({k: v for k, v in attribute_values(node).items() if k != "direction"} for node in (first, second))
    given = [[i for i, value in enumerate(node.inputs) if value is not None] for node in (first, second)]
    if a != b or _NOT_JOINED & set(a):
        return "the two directions have different attributes, or parameters of activations, or the batch first"
    if given[0] != given[1]:
        return "only one of the two directions has first states"
    if given[0][:4] != [0, 1, 2, 3] or not set(given[0]) <= {0, 1, 2, 3, *_STATES}:
        return "the two directions have sequence lengths or peepholes, or no biases"
    if any(constant_tensor(value) is None for node in (first, second) for value in node.inputs[1:4]):
        return "the weights are not constant"
    return ""


@dataclasses.dataclass(frozen=True)
class _Concat:
    """A Concat of one result of both operators, which the result of the joined operator replaces.

    Attributes:
      node: the Concat.
      perm: a permutation of the axes of that result, after which those that are merged are the last.
    """

    node: ir.Node
    perm: tuple[int, ...]


def _concats(forward: ir.Value, backward: ir.Value, axis: int) -> Iterator[_Concat]:
    """The Concats that join two results whose `axis` is that of directions, forwards first."""
    others = {perm: value for value, perm in views_of_result(backward, axis)}
    for value, perm in views_of_result(forward, axis):
        for node in own_readers(value):
            rank = len(dims_of(value) or ())
            if node.op_type == "Concat" and not node.domain and list(node.inputs) == [value, others.get(perm)]:
                along = node.attributes["axis"].as_int() % rank
                if along == (axis if rank == len(perm) else rank - 1):
                    yield _Concat(node, perm)


# ----------------------------------------------------------------------------------------------- writing


def _joined_states(builder: InsertionPoint, given: Sequence[ir.Value | None]) -> ir.Value:
    """The first states of both directions as one operand."""
    values = [value for value in given if value is not None]
    return builder.with_dims(builder.concat(values, 0), (2, *builder.known_dims(values[0])[1:]))


def _joined_weights(editor: GraphEditor, weights: Sequence[ir.Value | None]) -> ir.Value:
    """The weights of both directions as one constant."""
    tensors = [tensor for value in weights if (tensor := constant_tensor(value)) is not None]
    shape = (len(tensors), *tensors[0].shape.numpy()[1:])
    return editor.own(computed(lambda *arrays: np.concatenate(arrays), tensors, tensors[0].dtype, shape), weights)


def _put_result(
    editor: GraphEditor, builder: InsertionPoint, old: tuple[ir.Value, ir.Value], axis: int, joined: ir.Value
) -> None:
    """Let all that reads the results `old` of the two operators read the result `joined` of the one."""
    for found in list(_concats(*old, axis)):
        node, perm = found.node, found.perm
        if len(dims_of(node.outputs[0]) or ()) == len(perm):
            editor.replace(node, joined)
            continue
        readers, is_only = own_readers(node.outputs[0]), len(node.outputs[0].uses()) == 1
        order = last_kept(readers[0]) if readers and is_only and not node.outputs[0].is_graph_output() else None
        if order is not None:
            node, perm = readers[0], (*(perm[i] for i in order), *perm[len(order) :])
        at, dims = editor.before(node), labelled(dims_of(node.outputs[0]) or ())
        shape = [*[0] * (len(dims) - 1), builder.known_dims(joined)[-1] * 2]
        editor.replace(node, at.op.Reshape(at.transpose(joined, perm), at.shape(shape), dims=dims))
    if any(map(is_value_read, old)):
        single = [1 if i == axis else size for i, size in enumerate(builder.known_dims(joined))]
        parts = builder.op.several("Split", joined, outputs=2, axis=axis, num_outputs=2, dims=single)
        for value, part in zip(old, parts, strict=True):
            editor.replace_value(value, part)
