"""An encoder, and what a decoder takes from it, with the inputs and outputs of onnxruntime-genai's models for speech."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from jax2onnx_generation.decoders.caches import Cache, layers_of
from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim
from jax2onnx_graph.metadata import LAYOUTS_KEY, SYMBOLS_KEY, StatePair, read_states
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.passes import optimise
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.targets import Target
from jax2onnx_graph.traversal import given_inputs
from jax2onnx_runtime.bundles.links import Link
from jax2onnx_runtime.feeds import sizes_of, symbol_space

__all__ = ["FEATURES", "HIDDEN", "MEMORY", "PAST_CROSS", "PRESENT_CROSS", "Crossing", "crossing", "encoder_model", "turned_inputs"]  # fmt: skip

FEATURES, HIDDEN, MEMORY = "audio_features", "hidden_states", "encoder_hidden_states"
PAST_CROSS, PRESENT_CROSS = "past_{}_cross_{}", "present_{}_cross_{}"
# The runtime takes this many frames, half a minute of sound, and has memory for half as many places.
_FRAMES = 3000
_PLACES = _FRAMES // 2


@dataclasses.dataclass(frozen=True)
class Crossing:
    """The values that a decoder takes from an encoder: keys and values of each layer, or the hidden states of which it computes them.

    Attributes:
      inputs: the names in the folder of the decoder's inputs, by those that they have.
      outputs: the names in the folder of the encoder's outputs, by those that they have.
      perms: the axis by the axis of [batch, heads, places, features], by the name of an input or output; none for hidden states.
      layers: the number of layers; 0 for hidden states.
      heads: the number of heads of keys and values; 0 for hidden states.
      features: the features of a head, or of the hidden states.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    perms: Mapping[str, Sequence[int]]
    layers: int
    heads: int
    features: int


def crossing(encoder: ir.Model, links: Sequence[Link]) -> Crossing:
    """Read from the links between two programs how the encoder hands its results to the decoder.

    Raises:
      OptionError: the encoder takes no features alone, or what it hands over is neither the hidden states [B, 1500, D] nor keys and
        values [B, 1500, N, H] of each layer.
    """
    results = {value.name: value for value in encoder.graph.outputs}
    values = [results[link.output] for link in links]
    space, (features, axis) = symbol_space(encoder), _features(encoder)
    shape = [
        _FRAMES if i == axis else dim if isinstance(dim, int) else 1 for i, dim in enumerate(dims_of(features) or ())
    ]
    sizes = sizes_of(space, encoder, {features.name or "": shape})
    for value in values:
        _check_places(value, lambda dim: dim if isinstance(dim, int) else space.evaluate(str(dim), sizes))
    ranks = [len(value.shape or ()) for value in values]
    if ranks == [3]:
        width = (dims_of(values[0]) or ())[2]
        assert isinstance(width, int), "it has been checked"
        return Crossing({links[0].input: MEMORY}, {links[0].output: HIDDEN}, {}, 0, 0, width)
    if set(ranks) != {4} or len({link.output for link in links}) < len(links):
        shown = ", ".join(f"{link}: {type_text(value)}" for link, value in zip(links, values, strict=True))
        raise OptionError(
            f"The runtime hands over the hidden states of the encoder [B, {_PLACES}, D], or a pair of keys and values "
            f"[B, {_PLACES}, N, H] for each layer, and not {shown}."
        )
    caches = [_cross_cache(link, value) for link, value in zip(links, values, strict=True)]
    inputs, outputs, perms = {}, {}, {}
    layers = layers_of(caches)
    for number, layer in enumerate(layers):
        for kind, cache in layer.named():
            inputs[cache.pair.input] = PAST_CROSS.format(kind, number)
            outputs[cache.pair.output] = PRESENT_CROSS.format(kind, number)
            perms[cache.pair.input] = perms[cache.pair.output] = cache.perm
    return Crossing(inputs, outputs, perms, len(layers), caches[0].heads, caches[0].features)


def _check_places(value: ir.Value, size: Callable[[LabelledDim], int]) -> None:
    """Raise OptionError unless an output [B, …] has one axis of 1500 places, and numbers for the others."""
    dims = dims_of(value) or ()
    sizes = [size(dim) for dim in dims]
    open_axes = [axis for axis, dim in enumerate(dims) if axis and not isinstance(dim, int)]
    places = open_axes or [axis for axis, dim in enumerate(dims) if axis and dim == _PLACES]
    if not places or len(open_axes) > 1 or sizes[places[0]] != _PLACES or (len(sizes) == 3 and places[0] != 1):
        raise OptionError(
            f"The output {value.name}: {type_text(value)} of the encoder has no axis of {_PLACES} places. The runtime feeds {_FRAMES} frames, "
            "and has memory for a place of each two of them; other sizes are numbers."
        )


def _cross_cache(link: Link, value: ir.Value) -> Cache:
    """Keys or values [B, …] of an encoder; of two axes that could be the places, the one that is no number is, or the first one."""
    dims = dims_of(value) or ()
    axes = sorted((1, 2, 3), key=lambda axis: isinstance(dims[axis], int))
    places = next(axis for axis in axes if dims[axis] == _PLACES or not isinstance(dims[axis], int))
    heads_axis, last = (i for i in (1, 2, 3) if i != places)
    heads, features = dims[heads_axis], dims[last]
    assert isinstance(heads, int) and isinstance(features, int), "it has been checked"
    return Cache(StatePair(link.input, link.output), heads_axis, 0, places, heads, features, _PLACES)


def turned_inputs(decoder: ir.Model, found: Crossing) -> None:
    """Let a decoder take keys and values of an encoder as [batch, heads, places, features]."""
    editor = GraphEditor(decoder.graph, opset=opset_of(decoder))
    for index, old in enumerate(decoder.graph.inputs):
        perm = found.perms.get(old.name or "", (0, 1, 2, 3))
        if perm == (0, 1, 2, 3):
            continue
        dims, back = dims_of(old) or (), sorted(range(4), key=lambda axis: perm[axis])
        new = ir.Value(name=old.name, type=old.type, shape=ir.Shape([dims[axis] for axis in perm]))
        editor.replace_value(old, editor.after(new).transpose(new, back))
        decoder.graph.inputs[index] = new
    editor.finish()


def encoder_model(model: ir.Model, target: Target, found: Crossing) -> None:
    """Exchange the input and the outputs of an encoder for those of the runtime; the model is changed."""
    editor, graph = GraphEditor(model.graph, opset=opset_of(model), target=target), model.graph
    features = _mels_first(editor, *_features(model))
    made: dict[str, ir.Value] = {}
    for old in list(graph.outputs):
        name = found.outputs.get(old.name or "")
        if name is not None:
            perm = found.perms.get(old.name or "", ())
            made[name] = editor.after(old).transpose(old, perm) if perm not in ((), (0, 1, 2, 3)) else old
    if HIDDEN not in made:
        made = {HIDDEN: _no_hidden_states(editor, features), **made}
    weights = [value for value in graph.inputs if value.name in graph.initializers]
    graph.inputs[:] = [features, *weights]
    graph.outputs[:] = list(made.values())
    features.name = FEATURES
    for name, value in made.items():
        value.name = name
    for key in (SYMBOLS_KEY, LAYOUTS_KEY):
        model.metadata_props.pop(key, None)
    editor.finish()
    optimise(model, target)


def _features(model: ir.Model) -> tuple[ir.Value, int]:
    """The input of the features, and which of its axes is that of the frames: the last one, or the one before.

    Raises:
      OptionError: the encoder takes something else than features [B, M, 3000] or [B, 3000, M], or it has states.
    """
    given = list(given_inputs(model.graph))
    dims = dims_of(given[0]) or () if given else ()
    frames = [i for i in (1, 2) if len(dims) == 3 and _may_be_frames(dims[i], dims[0])]
    is_float = bool(given) and given[0].dtype is not None and given[0].dtype.is_floating_point()
    if read_states(model) or len(given) != 1 or len(frames) != 1 or not is_float:
        shown = ", ".join(f"{value.name}: {type_text(value)}" for value in given)
        raise OptionError(
            f"The encoder takes {shown or 'nothing'}. The runtime feeds features alone, floats [B, M, {_FRAMES}] or [B, {_FRAMES}, M], "
            "and keeps no states of an encoder."
        )
    return given[0], frames[0]


def _may_be_frames(dim: LabelledDim, batch: LabelledDim) -> bool:
    return dim == _FRAMES if isinstance(dim, int) else not same_dim(dim, batch)


def _mels_first(editor: GraphEditor, old: ir.Value, frames: int) -> ir.Value:
    """The features as [B, M, frames]."""
    if frames == 2:
        return old
    batch, length, mels = dims_of(old) or ()
    new = ir.Value(name=old.name, type=old.type, shape=ir.Shape([batch, mels, length]))
    editor.replace_value(old, editor.after(new).transpose(new, (0, 2, 1)))
    return new


def _no_hidden_states(editor: GraphEditor, features: ir.Value) -> ir.Value:
    """Zeros [B, 1500, 1], for the runtime asks for hidden states also where the decoder takes keys and values."""
    assert features.dtype is not None, "the inputs of a finished model have types"
    at, batch = editor.after(features), (dims_of(features) or ())[0]
    sizes = at.op.Concat(at.op.Shape(features, start=0, end=1), at.ints([_PLACES, 1]), axis=0)
    return at.op.Expand(at.constant(0, features.dtype.numpy()), sizes, dims=labelled([batch, _PLACES, 1]))
