"""`FoldReversals`: recurrent operators read sequences in the order in which these are."""

from __future__ import annotations

__all__ = ["FoldReversals"]

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, GraphPass, NodePass, Phase
from jax2onnx_graph.targets import Target, standard_target

from jax2onnx_fusions.recurrence._results import (
    OPERATORS,
    all_results,
    direction_of,
    own_readers,
    reads_all_steps,
    recurrences,
    views_of_result,
)
from jax2onnx_fusions.recurrence._reversals import (
    Reversal,
    index_taken,
    is_reversed_by_readers,
    reapplied,
    reversal_above,
    reversed_axis,
)

_OTHER = {"forward": "reverse", "reverse": "forward"}


class FoldReversals(GraphPass):
    """Fold reversals of sequences around LSTM, GRU and RNN, whose results are Y [T, directions, B, H] of all steps and the last states.

    1. The operator on a reversed sequence is the operator in the other direction on the sequence itself, where all readers of Y
       reverse it too or take single steps.
    2. A reversal of a reversal, perhaps with views between, is the sequence itself; a step of a reversed sequence is the
       one counted from the other end.
    3. The step of Y that is computed last is the last hidden state.

    Each rule is applied to the whole graph before the next.
    """

    phase = Phase.LAY_OUT
    forms = "A recurrence in the other direction"

    def __init__(self, target: Target = standard_target) -> None:
        super().__init__(target)
        self._rules: Sequence[NodePass[Any]] = (
            _TurnOperators(target),
            _CancelReversals(target),
            _UseLastStates(target),
        )

    def rewrite_graph(self, editor: GraphEditor) -> None:
        if not recurrences(editor):
            return
        for rule in self._rules:
            rule.declined.clear()
            rule.rewrite_graph(editor)
            self.declined += rule.declined


class _TurnOperators(NodePass[Reversal]):
    """Rule 1."""

    operators = OPERATORS

    def match(self, node: ir.Node, editor: GraphEditor) -> Reversal | Declined | None:
        found = reversal_above(node.inputs[0], 0)
        if found is None:
            return None
        if direction_of(node) not in _OTHER:
            return Declined("it reads a reversed sequence in both directions", node)
        if not reads_all_steps(node):
            return Declined("it has lengths of sequences, or the batch first", node)
        if not is_reversed_by_readers(node.outputs[0], 0):
            return Declined("its results are read in the order of the reversed sequence", node)
        return found

    def rewrite(self, node: ir.Node, match: Reversal, editor: GraphEditor) -> None:
        builder, dims = editor.before(node), labelled(dims_of(node.outputs[0]) or ())
        x = reapplied(builder, match.views, match.source)
        attributes = {**attribute_values(node), "direction": _OTHER[direction_of(node)]}
        results = builder.emit(node.op_type, [x, *node.inputs[1:]], "", len(node.outputs), None, dims, attributes)
        for old, new in zip(node.outputs, results, strict=True):
            builder.set_dims(new, builder.known_dims(old))
        bounds = [editor.ints([number]) for number in (-1, -(2**63), 0, -1)]
        turned = builder.op.Slice(results[0], *bounds, dims=dims)
        for old, new in zip(node.outputs, [turned, *results[1:]], strict=True):
            editor.replace_value(old, new)
        editor.discard(node)


@dataclasses.dataclass(frozen=True)
class _Cancelled:
    """A reversal of a reversed sequence, or the index of a step that is taken of it."""

    reversal: Reversal
    index: int | None


class _CancelReversals(NodePass[_Cancelled]):
    """Rule 2."""

    operators = frozenset({"Slice", "Gather"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Cancelled | None:
        taken = index_taken(node)
        axis = reversed_axis(node) if taken is None else taken[0]
        found = None if axis is None else reversal_above(node.inputs[0], axis)
        return None if found is None else _Cancelled(found, None if taken is None else taken[1])

    def rewrite(self, node: ir.Node, match: _Cancelled, editor: GraphEditor) -> None:
        builder = editor.before(node)
        source = reapplied(builder, match.reversal.views, match.reversal.source)
        if match.index is not None:
            dims, index = labelled(dims_of(node.outputs[0]) or ()), builder.constant(np.int64(-1 - match.index))
            source = builder.variant(node, [source, index], dims=dims)
        editor.replace(node, source)


@dataclasses.dataclass(frozen=True)
class _LastStep:
    """A Gather that takes the last hidden state out of Y, and the axes of the operator's state that its result lacks."""

    gather: ir.Node
    removed: Sequence[int]


class _UseLastStates(NodePass[Sequence[_LastStep]]):
    """Rule 3."""

    operators = OPERATORS

    def match(self, node: ir.Node, editor: GraphEditor) -> Sequence[_LastStep] | None:
        direction, whole = direction_of(node), node.outputs[0]
        if direction not in _OTHER or not reads_all_steps(node):
            return None
        length = (dims_of(whole) or (None,))[0]
        last = (-1, *((length - 1,) if isinstance(length, int) else ())) if direction == "forward" else (0,)
        found: list[_LastStep] = []
        for value, perm in views_of_result(whole, 1):
            rank = len(dims_of(value) or ())
            wanted = [(perm.index(0), index) for index in last]
            removed = [axis - 1 for axis in perm[rank - 1 : -1]]
            if rank < len(perm):
                found += [_LastStep(user, removed) for user in own_readers(value) if index_taken(user) in wanted]
        return found or None

    def rewrite(self, node: ir.Node, match: Sequence[_LastStep], editor: GraphEditor) -> None:
        for step in match:
            builder, dims = editor.before(step.gather), labelled(dims_of(step.gather.outputs[0]) or ())
            removed = builder.ints(step.removed)
            editor.replace(step.gather, builder.op.Squeeze(all_results(editor, node)[1], removed, dims=dims))
