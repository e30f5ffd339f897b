"""`unstacked`: a model whose stacked states, as one cache for all layers, are states of their own, so that no step copies them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.facts.axes import axis_of, named_axes
from jax2onnx_graph.facts.values import dims_of, known, same_dims
from jax2onnx_graph.metadata import DIMS_KEY, StatePair, read_states, write_states
from jax2onnx_graph.rewrite.patterns import operation, without_axis
from jax2onnx_graph.traversal import all_values
from onnx_ir.passes.common import RemoveUnusedNodesPass

from jax2onnx_runtime.runtimes import Runtime
from jax2onnx_runtime.states import RuntimeOptions, StatefulModel

__all__ = ["Stack", "StackedStates", "Unstacked", "open_unstacked", "unstacked"]

#: The name of a state, or states that are stacked along a further axis.
Part: TypeAlias = "str | Stack"


@dataclasses.dataclass(frozen=True)
class Stack:
    """States that stand for one state: they are its entries along an axis.

    Attributes:
      axis: the axis of the state.
      parts: its entries along it.
    """

    axis: int
    parts: tuple[Part, ...]


@dataclasses.dataclass(frozen=True)
class Unstacked:
    """A model some of whose states are several.

    Attributes:
      model: the model, with the states in its metadata.
      stacks: state of the original → the states that it is.
    """

    model: ir.Model
    stacks: Mapping[str, Stack]


def unstacked(model: ir.Model, among: Collection[str] | None = None) -> Unstacked | None:
    """A copy of a model in which stacked states are states of their own; None where there are none.

    A state is taken apart along an axis if

    1. the axis has a known number of entries, and the state does not grow along it;
    2. all nodes that read it take its shape, or single entries along the axis, at constant places: by Gather, or by Split or Slice
       with the axis of size 1 taken away;
    3. its new value is the Concat, along that axis, of as many values with the axis put in.

    The states that this gives are taken apart likewise.

    Args:
      model: the model, which stays as it is.
      among: the states that may be taken apart; all by default.
    """
    chosen = [pair for pair in read_states(model) if among is None or pair.input in among]
    if not any(_level(*_values(model.graph, pair), pair.grows) for pair in chosen):
        return None
    copy = model.clone()
    stacks, pairs, names = {}, [], Names(value.name for value in all_values(copy) if value.name)
    for pair in read_states(copy):
        part: Part = pair.input
        if pair in chosen:
            part, found = _taken_apart(copy.graph, *_values(copy.graph, pair), pair.grows, names)
            pairs += found
        else:
            pairs.append(pair)
        if isinstance(part, Stack):
            stacks[pair.input] = part
    write_states(copy, pairs)
    RemoveUnusedNodesPass()(copy)
    return Unstacked(copy, stacks)


def _values(graph: ir.Graph, pair: StatePair) -> tuple[ir.Value, ir.Value]:
    """The input and the output of a state."""
    before = next(value for value in graph.inputs if value.name == pair.input)
    return before, next(value for value in graph.outputs if value.name == pair.output)


@dataclasses.dataclass(frozen=True)
class _Level:
    """An axis of a state along which the model stacks separate entries.

    Attributes:
      axis: the axis.
      entries: the new entries.
      reads: values that are old entries, with their numbers.
      shapes: nodes that take the shape of the state.
    """

    axis: int
    entries: Sequence[ir.Value]
    reads: Sequence[tuple[ir.Value, int]]
    shapes: Sequence[ir.Node]


def _level(before: ir.Value, after: ir.Value, grows: int | None) -> _Level | None:
    """The outermost axis along which a state is stacked; None where it is not, or grows there."""
    node, dims = operation(after, "Concat"), dims_of(before)
    if node is None or dims is None or before.is_graph_output():
        return None
    axis = axis_of(node, len(dims))
    entries = [without_axis(value, axis) for value in node.inputs]
    found = [entry for entry in entries if entry is not None]
    if axis == grows or len(found) != len(entries) or dims[axis] != len(entries):
        return None
    reads: list[tuple[ir.Value, int]] = []
    for user, place in before.uses():
        read = [] if _is_shape(user) else _entries(user, place, axis, dims)
        if read is None or any(value.is_graph_output() for value, _ in read):
            return None
        reads += read
    return _Level(axis, found, reads, [user for user, _ in before.uses() if _is_shape(user)])


def _is_shape(node: ir.Node) -> bool:
    return node.op_type == "Shape" and not node.domain


def _entries(node: ir.Node, place: int, axis: int, dims: Sequence[object]) -> list[tuple[ir.Value, int]] | None:
    """The entries of its first operand along an axis that a node reads, with their numbers; None where it reads otherwise."""
    count = dims[axis]
    if node.domain or place != 0 or not isinstance(count, int):
        return None
    if node.op_type == "Gather" and axis_of(node, len(dims)) == axis:
        index = known(node.inputs[1])
        fits = index is not None and index.ndim == 0 and -count <= int(index) < count
        return [(node.outputs[0], int(index) % count)] if fits and index is not None else None
    if node.op_type == "Split" and axis_of(node, len(dims)) == axis and len(node.outputs) == count:
        return _squeezed([(output, number) for number, output in enumerate(node.outputs)], axis)
    if node.op_type == "Slice" and named_axes(node, len(dims)) == [axis] and _is_of_one(node.outputs[0], axis):
        start = known(node.inputs[1])
        step = known(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else np.ones(1)
        if start is not None and step is not None and -count <= int(start.item()) < count:
            return _squeezed([(node.outputs[0], int(start.item()) % count)], axis)
    return None


def _is_of_one(value: ir.Value, axis: int) -> bool:
    dims = dims_of(value)
    return dims is not None and dims[axis] == 1


def _squeezed(values: Sequence[tuple[ir.Value, int]], axis: int) -> list[tuple[ir.Value, int]] | None:
    """The results of the nodes that take away the axis of size 1 of values, which is all that reads these; None where one does not."""
    found = []
    for value, number in values:
        dims = dims_of(value)
        if dims is None or dims[axis] != 1 or value.is_graph_output():
            return None
        for user, place in value.uses():
            is_view = not user.domain and user.op_type in ("Squeeze", "Reshape") and place == 0
            if not is_view or not same_dims(dims_of(user.outputs[0]), (*dims[:axis], *dims[axis + 1 :])):
                return None
            found.append((user.outputs[0], number))
    return found


def _taken_apart(
    graph: ir.Graph, before: ir.Value, after: ir.Value, grows: int | None, names: Names
) -> tuple[Part, list[StatePair]]:  # fmt: skip
    """The states that a state becomes, and their pairs."""
    level = _level(before, after, grows)
    old, new = str(before.name), str(after.name)
    if level is None:
        return old, [StatePair(old, new, grows)]
    count = len(level.entries)
    inputs = [_input(before, names.unique(f"{old}.{i}"), level.axis) for i in range(count)]
    place = graph.inputs.index(before)
    graph.inputs[place : place + 1] = inputs
    for value, number in level.reads:
        value.replace_all_uses_with(inputs[number])
    for node in level.shapes:
        _take_shape_of(graph, node, inputs[0], level.axis, count)
    entries = [dict(level.reads).get(entry) for entry in level.entries]
    values = [entry if i is None else inputs[i] for entry, i in zip(level.entries, entries, strict=True)]
    outputs = [_output(graph, value, names.unique(f"{new}.{i}"), values[:i]) for i, value in enumerate(values)]
    place = graph.outputs.index(after)
    graph.outputs[place : place + 1] = outputs
    within = None if grows is None else grows - (grows > level.axis)
    found = [_taken_apart(graph, *pair, within, names) for pair in zip(inputs, outputs, strict=True)]
    return Stack(level.axis, tuple(part for part, _ in found)), [pair for _, pairs in found for pair in pairs]


def _input(before: ir.Value, name: str, axis: int) -> ir.Value:
    dims = dims_of(before) or ()
    shape = ir.Shape([*dims[:axis], *dims[axis + 1 :]])
    made = ir.Value(name=name, type=before.type, shape=shape)
    made.metadata_props.update({key: text for key, text in before.metadata_props.items() if key != DIMS_KEY})
    return made


def _output(graph: ir.Graph, value: ir.Value, name: str, others: Sequence[ir.Value]) -> ir.Value:
    """The output of a graph that is a value; a copy of it where the value has another name already."""
    if value.producer() is None or value.is_graph_output() or value in others:
        copied = ir.Node("", "Identity", [value], name=name)
        graph.append(copied)
        copied.outputs[0].type, copied.outputs[0].shape = value.type, value.shape
        value = copied.outputs[0]
    value.name = name
    return value


def _take_shape_of(graph: ir.Graph, node: ir.Node, part: ir.Value, axis: int, count: int) -> None:
    """Let a node that takes the shape of a state take it of one of its parts, with the number of parts put in."""
    rank = len(part.shape or ()) + 1
    start, end = (
        min(max(number + rank if number < 0 else number, 0), rank)
        for number in (node.attributes.get_int("start", 0), node.attributes.get_int("end", rank))
    )
    owner = node.graph or graph
    if not start <= axis < end:
        shift = int(start > axis)
        pieces = [_shape(part, start - shift, end - shift)]
    else:
        constant = ir.Node("", "Constant", [], [ir.AttrInt64s("value_ints", [count])])
        pieces = [_shape(part, start, axis), constant, _shape(part, axis, end - 1)]
    joined = pieces[0]
    if len(pieces) > 1:
        joined = ir.Node("", "Concat", [piece.outputs[0] for piece in pieces], [ir.AttrInt64("axis", 0)])
    for made in dict.fromkeys([*pieces, joined]):
        made.outputs[0].type = node.outputs[0].type
        owner.insert_before(node, made)
    joined.outputs[0].shape = node.outputs[0].shape
    node.outputs[0].replace_all_uses_with(joined.outputs[0])


def _shape(value: ir.Value, start: int, end: int) -> ir.Node:
    return ir.Node("", "Shape", [value], [ir.AttrInt64("start", start), ir.AttrInt64("end", end)])


def open_unstacked(
    runtime: Runtime, source: ir.Model | Path, model: ir.Model, options: RuntimeOptions
) -> StatefulModel:
    """Load a model with the states that its metadata names, stacked ones as states of their own.

    Args:
      runtime: what runs it.
      source: the model, or its file.
      model: the model.
      options: how it is to be run.
    """
    found = unstacked(model)
    if found is None:
        return runtime.open(source, read_states(model), options)
    return StackedStates(runtime.open(found.model, read_states(found.model), options), found.stacks)


# -- running ------------------------------------------------------------------------------------


class StackedStates:
    """A loaded model whose states were taken apart, as a `StatefulModel` with the states of the original.

    Args:
      inner: the loaded model.
      stacks: state of the original → the states that it is.
    """

    def __init__(self, inner: StatefulModel, stacks: Mapping[str, Stack]) -> None:
        self.inner, self._stacks = inner, stacks

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """One run of the model."""
        return self.inner.run(inputs)

    def read(self, state: str) -> Array:
        """A copy of a state."""
        return self._joined(self._stacks.get(state, state))

    def _joined(self, part: Part) -> Array:
        if isinstance(part, str):
            return self.inner.read(part)
        return np.stack([self._joined(one) for one in part.parts], axis=part.axis)

    def write(self, state: str, array: Array) -> None:
        """Replace a state by a copy of the array."""
        for name, entry in _split(self._stacks.get(state, state), array):
            self.inner.write(name, entry)

    def keep_last(self, state: str, axis: int, count: int) -> None:
        """Cut off what is before the last entries along an axis."""
        self._keep_last(self._stacks.get(state, state), axis, count)

    def _keep_last(self, part: Part, axis: int, count: int) -> None:
        if isinstance(part, str):
            self.inner.keep_last(part, axis, count)
            return
        for one in part.parts:
            self._keep_last(one, axis - (axis > part.axis), count)

    def change(self, state: str, change: Callable[[Array], Array]) -> None:
        """Replace a state by what a function makes of it."""
        part = self._stacks.get(state)
        if part is None:
            self.inner.change(state, change)
        else:
            self.write(state, change(self._joined(part)))

    def undo(self) -> None:
        """Put the states back to what they were before the last run."""
        self.inner.undo()

    def shape(self, state: str) -> tuple[int, ...]:
        """The shape of a state."""
        return self._shape(self._stacks.get(state, state))

    def _shape(self, part: Part) -> tuple[int, ...]:
        if isinstance(part, str):
            return self.inner.shape(part)
        inner = self._shape(part.parts[0])
        return (*inner[: part.axis], len(part.parts), *inner[part.axis :])


def _split(part: Part, array: Array) -> Iterator[tuple[str, Array]]:
    """The states that an array consists of, by their names."""
    if isinstance(part, str):
        yield part, array
        return
    for number, one in enumerate(part.parts):
        yield from _split(one, array[(slice(None),) * part.axis + (number,)])
