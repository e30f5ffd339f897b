"""The states of a decoder as runtimes of text models know them: `Cache`, of keys or of values, and `Counter`, which they do not hold."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim
from jax2onnx_graph.metadata import StatePair

from jax2onnx_generation.decoders.kinds import Kind
from jax2onnx_generation.decoders.signature import DecoderSignature
from jax2onnx_generation.decoders.states import StateUse, state_uses

__all__ = ["Cache", "Counter", "Layer", "layers_of", "states_of"]


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
    tokens = inputs[signature.tokens]
    caches, counters = [], []
    for use in state_uses(model, signature):
        before = inputs[use.pair.input]
        if use.kind.kind is Kind.COUNTER:
            counters.append(Counter(use.pair))
        elif use.kind.kind is Kind.OTHER:
            raise _no_cache(before)
        else:
            caches.append(_cache(use, before, tokens))
    return caches, counters


# -- caches ---------------------------------------------------------------------------------------

_FORMS = (
    "The runtime holds caches of keys and values, a pair for each layer, of shape [batch, heads, places, features]; other orders of "
    "these axes are turned."
)


def _no_cache(before: ir.Value) -> OptionError:
    return OptionError(
        f"The state {before.name}: {type_text(before)} is no cache of keys or values, and no number that grows by the tokens of each "
        f"step. {_FORMS} The number of tokens is read from the runtime's attention_mask. Recurrent states, which have no places, are "
        "none of them; let the function take others as arguments of which it computes them anew, such as positions and a mask."
    )


def _cache(use: StateUse, before: ir.Value, tokens: ir.Value) -> Cache:
    dims, pair, places = dims_of(before), use.pair, use.kind.axis
    if dims is None or len(dims) != 4 or before.dtype is None or not before.dtype.is_floating_point():
        raise _no_cache(before)
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


# -- layers ---------------------------------------------------------------------------------------

_KEYS = re.compile(r"(?<![a-z])(cached_|past_)?(k|key|keys)(_cache|_cached|s)?(?![a-z])", re.IGNORECASE)
_VALUES = re.compile(r"(?<![a-z])(cached_|past_)?(v|value|values)(_cache|_cached|s)?(?![a-z])", re.IGNORECASE)


def layers_of(caches: Sequence[Cache]) -> list[Layer]:
    """The caches as pairs, in the order of the numbers in their names.

    A name says which of the two a cache is where it has `k` or `key`, `v` or `value` in it; else the caches of keys and
    values alternate. The runtime treats both alike, so that it matters only for the names in the folder.

    Raises:
      OptionError: there are none, their number is odd, or they differ in heads or features.
    """
    if not caches:
        raise OptionError(
            "The decoder has no caches: name them by states=… at the export. Without them each step would compute all "
            "tokens anew, which the runtime does not do."
        )
    shapes = {(cache.heads, cache.features, cache.capacity is None) for cache in caches}
    if len(caches) % 2 or len(shapes) > 1:
        shown = ", ".join(f"{cache.pair.input} with {cache.heads} heads of {cache.features}" for cache in caches)
        raise OptionError(
            f"The caches are no pairs of keys and values with the same heads and features: {shown}. The runtime has one "
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
