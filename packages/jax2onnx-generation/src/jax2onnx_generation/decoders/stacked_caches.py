"""`with_separate_caches`: a decoder whose caches of all layers are one array, with a cache for each layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.facts.values import LabelledDim, dims_of
from jax2onnx_graph.metadata import StatePair, read_states, write_states
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.targets import Target
from jax2onnx_graph.traversal import all_values
from jax2onnx_runtime.unstacking import Stack, unstacked

from jax2onnx_generation.decoders.declaration import declared_roles, decoder_metadata
from jax2onnx_generation.decoders.kinds import Kind, StateKind
from jax2onnx_generation.decoders.signature import DecoderSignature
from jax2onnx_generation.decoders.states import known_kinds

__all__ = ["with_separate_caches"]

# Axes of a cache of one layer: the batch, the heads, the places, the features.
_AXES = 4


def with_separate_caches(model: ir.Model, target: Target, signature: DecoderSignature) -> ir.Model:
    """A copy of a model with states [L, B, …] of caches as L states [B, …], and [L, 2, B, …] as 2 L of them.

    The axis of the layers is the one along which the model takes and stacks single entries, and otherwise the first whose size is a
    number, but those of the places and of the batch. Where the layers take and give single entries, nothing is copied; where a loop
    over the layers takes all of them, such as a `Scan`, the caches are joined before it and split after it, which copies them at each step.

    Args:
      model: the model of a decoder, which stays as it is.
      target: what the model was made for.
      signature: its inputs and outputs, which show the batch and the places where their sizes are numbers.
    """
    kinds = known_kinds(model, signature)
    tokens = next(value for value in model.graph.inputs if value.name == signature.tokens)
    batch = (dims_of(tokens) or (None,))[0]
    found = unstacked(model)
    copy = model.clone() if found is None else found.model
    for name, stack in ({} if found is None else found.stacks).items():
        if name in kinds:
            kinds.update(_of_parts(stack, kinds.pop(name)))
    editor = GraphEditor(copy.graph, opset=opset_of(copy), target=target)
    names = Names(str(value.name) for value in all_values(copy))
    states = [
        one for pair in read_states(copy) for one in _separated(editor, pair, kinds.get(pair.input), batch, names)
    ]
    write_states(copy, [pair for pair, _ in states])
    if declared := {pair.input: kind for pair, kind in states if kind is not None}:
        decoder_metadata(roles=declared_roles(model), states=declared).write(copy)
    editor.finish()
    return copy


def _without(kind: StateKind, axis: int) -> StateKind:
    """The kind of an entry of a state along an axis."""
    return dataclasses.replace(kind, axis=kind.axis - int(axis < kind.axis))


def _of_parts(part: Stack | str, kind: StateKind) -> dict[str, StateKind]:
    """The kinds of the states that stand for one of a kind."""
    if isinstance(part, str):
        return {part: kind}
    within = _without(kind, part.axis)
    return {name: found for one in part.parts for name, found in _of_parts(one, within).items()}


def _layers_axis(dims: Sequence[LabelledDim], places: int | None, batch: LabelledDim | None) -> int | None:
    """The first axis whose size is a number, but those of the places and of the batch; None without one.

    The batch is the first axis as long as it, but the second where the first two are: the layers stand before it then.
    """
    if len(dims) <= _AXES:
        return None
    fixed = [axis for axis, dim in enumerate(dims) if isinstance(dim, int) and dim > 0 and axis != places]
    like_batch = [axis for axis in fixed if dims[axis] == batch]
    return next((axis for axis in fixed if axis not in like_batch[:1] or like_batch[:2] == fixed[:2]), None)


def _separated(
    editor: GraphEditor, pair: StatePair, kind: StateKind | None, batch: LabelledDim | None, taken: Names
) -> Iterator[tuple[StatePair, StateKind | None]]:
    """The states of single layers that a state becomes, with their kinds; itself, if it is none of all layers."""
    graph = editor.graph
    before = next(value for value in graph.inputs if value.name == pair.input)
    after = next(value for value in graph.outputs if value.name == pair.output)
    dims = dims_of(before) or ()
    is_cache = kind is not None and kind.kind is Kind.CACHE
    axis = _layers_axis(dims, kind.axis if kind is not None and is_cache else pair.grows, batch)
    count = None if axis is None else dims[axis]
    if axis is None or not isinstance(count, int):
        yield pair, kind
        return
    shape, rest = (ir.Shape([*d[:axis], *d[axis + 1 :]]) for d in (dims, dims_of(after) or dims))
    names = [(taken.unique(f"{pair.input}.{i}"), taken.unique(f"{pair.output}.{i}")) for i in range(count)]
    inputs = [ir.Value(name=name, type=before.type, shape=shape) for name, _ in names]
    place = graph.inputs.index(before)
    graph.inputs[place : place + 1] = inputs
    at = editor.after(before)
    joined = at.op.Concat(*(at.unsqueeze(value, [axis]) for value in inputs), axis=axis, dims=labelled(dims))
    editor.replace_value(before, joined)
    behind = editor.after(after)
    sizes = behind.ints([1] * count)
    parts = behind.op.several("Split", after, sizes, outputs=count, axis=axis)
    for part in parts:
        part.shape = ir.Shape([*rest[:axis], 1, *rest[axis:]])
    outputs = [behind.squeeze(part, [axis]) for part in parts]
    place = graph.outputs.index(after)
    graph.outputs[place : place + 1] = outputs
    for value, (_, name) in zip(outputs, names, strict=True):
        value.name = name
    grows = None if pair.grows is None else pair.grows - int(axis < pair.grows)
    within = None if kind is None else _without(kind, axis)
    for old, new in names:
        yield from _separated(editor, StatePair(old, new, grows), within, batch, taken)
