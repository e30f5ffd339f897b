"""The states of a decoder as onnxruntime-genai knows them: `Cache`, of keys or of values, and `Counter`, which it does not hold."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dim
from jax2onnx_graph.metadata import StatePair
from jax2onnx_runtime.generation.signature import DecoderSignature

__all__ = ["Cache", "Counter", "Layer", "layers_of", "states_of"]

# Operators that hand a number on, in another shape or type.
_VIEWS = frozenset({"Cast", "Expand", "Gather", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
# Operators that write into a cache, and the attribute that names the axis along which they do.
_WRITING = frozenset({"ScatterElements", "TensorScatter"})


@dataclasses.dataclass(frozen=True)
class Cache:
    """A cache of the keys or of the values of one layer.

    Attributes:
      pair: its input and output.
      heads_axis: the axis of the heads; the others are those of the batch, the places and the features.
      batch_axis: the axis of the batch.
      places_axis: the axis of the places.
      heads: the number of heads.
      features: the features of a head.
      capacity: the number of places of a cache that is written at a position: a number, or a symbol; None for one that grows.
    """

    pair: StatePair
    heads_axis: int
    batch_axis: int
    places_axis: int
    heads: int
    features: int
    capacity: LabelledDim | None

    @property
    def perm(self) -> tuple[int, ...]:
        """The axis of the cache by the axis of [batch, heads, places, features]."""
        (features,) = {0, 1, 2, 3} - {self.batch_axis, self.heads_axis, self.places_axis}
        return self.batch_axis, self.heads_axis, self.places_axis, features


@dataclasses.dataclass(frozen=True)
class Counter:
    """A state that is the number of tokens before the step: each step adds its number of tokens."""

    pair: StatePair


@dataclasses.dataclass(frozen=True)
class Layer:
    """The two caches of a layer."""

    key: Cache
    value: Cache

    def named(self) -> Iterator[tuple[str, Cache]]:
        """The two with their names."""
        yield from (("key", self.key), ("value", self.value))


def states_of(model: ir.Model, signature: DecoderSignature) -> tuple[list[Cache], list[Counter]]:
    """The caches and counters of a decoder.

    Raises:
      OptionError: a state is neither.
    """
    inputs = {value.name: value for value in model.graph.inputs}
    outputs = {value.name: value for value in model.graph.outputs}
    tokens = inputs[signature.tokens]
    caches, counters = [], []
    for pair in signature.states:
        before, after = inputs[pair.input], outputs[pair.output]
        if before.dtype is not None and before.dtype.is_integer():
            _check_counter(before, after, tokens)
            counters.append(Counter(pair))
        else:
            caches.append(_cache(pair, before, after, tokens))
    return caches, counters


# -- counters -------------------------------------------------------------------------------------


def _check_counter(before: ir.Value, after: ir.Value, tokens: ir.Value) -> None:
    """Raise OptionError unless a state is a number, or one for each sequence, to which each step adds the number of its tokens."""
    node = after.producer()
    if len(before.shape or ()) <= 1 and node is not None and node.op_type == "Add":
        terms = [_source(value) for value in node.inputs]
        if before in terms and any(_is_token_count(term, tokens) for term in terms if term is not before):
            return
    raise OptionError(
        f"The state {before.name}: {type_text(before)} is no cache of keys or values, and no number that grows by the tokens "
        "of each step. onnxruntime-genai holds caches, and the number of tokens is read from its attention_mask; let the "
        "function take other states as arguments of which it computes them anew, such as positions and a mask."
    )


def _source(value: ir.Value | None) -> ir.Value | None:
    """The value that is handed on by operators that change its shape or type only."""
    while value is not None and (node := value.producer()) is not None and node.op_type in _VIEWS:
        value = node.inputs[0]
    return value


def _is_token_count(value: ir.Value | None, tokens: ir.Value) -> bool:
    """Whether a value is the number of tokens of a step: that number as a constant, or the length of something with that label."""
    if value is None or tokens.shape is None:
        return False
    length = tokens.shape[-1]
    array, node = known(value), value.producer()
    if array is not None:
        return isinstance(length, int) and bool((array == length).all())
    if node is None or node.op_type != "Shape":
        return False
    dims, attributes = dims_of(node.inputs[0]), node.attributes
    if dims is None or "start" not in attributes or "end" not in attributes:
        return False
    measured = dims[attributes["start"].as_int() : attributes["end"].as_int()]
    return len(measured) == 1 and same_dim(measured[0], length)


# -- caches ---------------------------------------------------------------------------------------

_FORMS = (
    "onnxruntime-genai holds caches of keys and values, a pair for each layer, of shape [batch, heads, places, features]; "
    "jax2onnx-genai turns other orders of these axes."
)


def _cache(pair: StatePair, before: ir.Value, after: ir.Value, tokens: ir.Value) -> Cache:
    dims = dims_of(before)
    if dims is None or len(dims) != 4 or before.dtype is None or not before.dtype.is_floating_point():
        raise OptionError(
            f"The state {pair.input}: {type_text(before)} is no cache of keys or values. {_FORMS} The states of recurrent "
            "layers, which have no places, are none of them."
        )
    places = _places_axis(pair, dims, after, tokens)
    batch = _batch_axis(dims, places, tokens)
    rest = [axis for axis in range(4) if axis not in (batch, places)]
    sizes = [dims[axis] for axis in rest]
    if batch is None or len(rest) != 2 or not all(isinstance(size, int) for size in sizes):
        raise OptionError(
            f"The cache {pair.input}: {type_text(before)} has no axes of the batch ({_label(tokens, 0)} as the tokens), of the "
            f"places, and of heads and features, whose sizes are numbers. {_FORMS}"
        )
    heads, features = (int(size) for size in sizes if isinstance(size, int))
    return Cache(pair, rest[0], batch, places, heads, features, None if pair.grows is not None else dims[places])


def _label(value: ir.Value, axis: int) -> LabelledDim | None:
    dims = dims_of(value)
    return None if dims is None else dims[axis]


def _batch_axis(dims: Sequence[LabelledDim], places: int, tokens: ir.Value) -> int | None:
    """The first axis, but that of the places, that is as long as the batch of the tokens."""
    batch = _label(tokens, 0)
    return next((i for i, dim in enumerate(dims) if i != places and batch is not None and same_dim(dim, batch)), None)


def _places_axis(pair: StatePair, dims: Sequence[LabelledDim], after: ir.Value, tokens: ir.Value) -> int:
    """The axis of the places: the one that grows, else the one with a symbol of its own, else the one that is written along."""
    if pair.grows is not None:
        return pair.grows
    batch = _label(tokens, 0)
    symbolic = [
        i for i, dim in enumerate(dims) if not isinstance(dim, int) and not (batch is not None and same_dim(dim, batch))
    ]
    if len(symbolic) == 1:
        return symbolic[0]
    node = after.producer()
    while node is not None and node.op_type in ("Identity", "Cast"):
        source = node.inputs[0]
        node = None if source is None else source.producer()
    if not symbolic and node is not None and node.op_type in _WRITING:
        default = -2 if node.op_type == "TensorScatter" else 0
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else default
        return axis % len(dims)
    raise OptionError(
        f"It does not show which axis of the cache {pair.input}: {list(map(str, dims))} is that of the places: give it a symbol, "
        "such as ('B', 'C', 8, 64)."
    )


# -- layers ---------------------------------------------------------------------------------------

_KEYS = re.compile(r"(?<![a-z])(cached_|past_)?(k|key|keys)(_cache|_cached|s)?(?![a-z])", re.IGNORECASE)
_VALUES = re.compile(r"(?<![a-z])(cached_|past_)?(v|value|values)(_cache|_cached|s)?(?![a-z])", re.IGNORECASE)


def layers_of(caches: Sequence[Cache]) -> list[Layer]:
    """The caches as pairs, in the order of the numbers in their names.

    A name says which of the two a cache is where it has `k` or `key`, `v` or `value` in it; else the caches of keys and
    values alternate. The runner treats both alike, so that it matters only for the names in the folder.

    Raises:
      OptionError: there are none, their number is odd, or they differ in heads or features.
    """
    if not caches:
        raise OptionError(
            "The decoder has no caches: name them by states=… at the export. Without them each step would compute all "
            "tokens anew, which onnxruntime-genai does not do."
        )
    shapes = {(cache.heads, cache.features, cache.capacity is None) for cache in caches}
    if len(caches) % 2 or len(shapes) > 1:
        shown = ", ".join(f"{cache.pair.input} with {cache.heads} heads of {cache.features}" for cache in caches)
        raise OptionError(
            f"The caches are no pairs of keys and values with the same heads and features: {shown}. onnxruntime-genai has one "
            "number of heads and of features for all layers."
        )
    return [Layer(*pair) for pair in _pairs(sorted(caches, key=lambda cache: _natural(cache.pair.input)))]


def _pairs(caches: Sequence[Cache]) -> Iterator[tuple[Cache, Cache]]:
    keys = [cache for cache in caches if _KEYS.search(cache.pair.input) and not _VALUES.search(_last(cache))]
    values = [cache for cache in caches if cache not in keys]
    if len(keys) == len(values) and all(_VALUES.search(cache.pair.input) for cache in values):
        return zip(keys, values, strict=True)
    return zip(caches[::2], caches[1::2], strict=True)


def _last(cache: Cache) -> str:
    """The last part of the name of a cache."""
    return re.split(r"[./]", cache.pair.input)[-1]


def _natural(name: str) -> list[tuple[int, str]]:
    """A sorting key by which the numbers in names count as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
