"""`with_separate_caches`: a decoder whose caches of all layers are one array, with a cache for each layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from jax2onnx_graph import ir
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.metadata import StatePair, read_states, write_states
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.targets import Target
from jax2onnx_graph.traversal import all_values
from jax2onnx_runtime.unstacking import unstacked

from jax2onnx_generation.decoders.declaration import declared_roles, declared_states, decoder_metadata
from jax2onnx_generation.decoders.states import declared_kinds

__all__ = ["with_separate_caches"]

# Axes of a cache of one layer: the batch, the heads, the places, the features.
_AXES = 4


def with_separate_caches(model: ir.Model, target: Target) -> ir.Model:
    """A copy of a model with states [L, B, …] of caches as L states [B, …], and [L, 2, B, …] as 2 L of them.

    Where the layers take and give single entries, nothing is copied; where a loop over the layers takes all of them, such as a
    `Scan`, the caches are joined before it and split after it, which copies them at each step.

    Args:
      model: the model of a decoder, which stays as it is.
      target: what the model was made for.
    """
    found = unstacked(model)
    copy = model.clone() if found is None else found.model
    editor = GraphEditor(copy.graph, opset=opset_of(copy), target=target)
    names = Names(str(value.name) for value in all_values(copy))
    pairs = [one for pair in read_states(copy) for one in _separated(editor, pair, names)]
    write_states(copy, pairs)
    _declare_parts(model, copy)
    editor.finish()
    return copy


def _declare_parts(model: ir.Model, copy: ir.Model) -> None:
    """Let what the metadata declare of states be about their parts, which lack the first axes whose sizes are numbers."""
    whole, parts = (
        {v.name: v for v in m.graph.inputs if v.name in {p.input for p in read_states(m)}} for m in (model, copy)
    )
    kinds = {}
    for name, kind in declared_kinds(declared_states(model), [*whole.values()]).items():
        for part, value in parts.items():
            if part == name or str(part).startswith(f"{name}."):
                dims = dims_of(whole[name]) or ()
                fixed = [axis for axis, dim in enumerate(dims) if isinstance(dim, int)]
                lost = fixed[: len(dims) - len(value.shape or ())]
                kinds[str(part)] = dataclasses.replace(kind, axis=kind.axis - sum(axis < kind.axis for axis in lost))
    if kinds:
        decoder_metadata(roles=declared_roles(model), states=kinds).write(copy)


def _separated(editor: GraphEditor, pair: StatePair, taken: Names) -> Iterator[StatePair]:
    """The states of single layers that a state becomes; itself, if it is none of all layers."""
    graph = editor.graph
    before = next(value for value in graph.inputs if value.name == pair.input)
    after = next(value for value in graph.outputs if value.name == pair.output)
    dims = dims_of(before) or ()
    axis = next((i for i, dim in enumerate(dims) if isinstance(dim, int)), None)
    count = None if axis is None else dims[axis]
    if len(dims) <= _AXES or axis is None or axis == pair.grows or not isinstance(count, int) or count < 1:
        yield pair
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
    for old, new in names:
        yield from _separated(editor, StatePair(old, new, grows), taken)
