"""How a decoder treats its states, rows and masks, found out by running it on a few tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError

from jax2onnx_runtime.generation.decoder import Decoder, Kind, Rows, StateKind, Traits
from jax2onnx_runtime.generation.forms import DecoderForms
from jax2onnx_runtime.probing import index_extents

__all__ = ["position_count", "tried"]

_TOLERANCE = 1e-3


def position_count(model: ir.Model, forms: DecoderForms) -> int | None:
    """How many positions a model has in the tables where it looks them up; None where that is not known."""
    extents = [] if forms.positions is None else index_extents(model).get(forms.positions.name, [])
    return min((extent for extent in extents if isinstance(extent, int)), default=None)


def tried(decoder: Decoder, positions: int | None) -> Traits:
    """How a decoder treats its states and rows; it is run a few times, and has its first states again afterwards.

    Nothing is run where all states grow and the mask has no floats. A state is a cache that is written at places if a run on one
    token changes it at the place of that token only.

    Args:
      decoder: the decoder, of which nothing is known but which states grow.
      positions: how many positions there are, if that is known.
    """
    rows = _rows(decoder)
    fixed = [name for name, state in decoder.states.items() if state.grows is None]
    floats = decoder.forms.mask is not None and decoder.forms.mask.dtype.kind not in "biu"
    if not fixed and not floats:
        return dataclasses.replace(decoder.traits, rows=_padded(decoder, decoder.traits.kinds), positions=positions)
    trial = _Trial(decoder, rows)
    kinds = {**decoder.traits.kinds, **trial.kinds(fixed, positions)}
    if floats and not trial.mask_adds():
        assert decoder.forms.mask is not None, "it has floats"
        decoder.forms = dataclasses.replace(decoder.forms, mask=dataclasses.replace(decoder.forms.mask, adds=False))
    found = trial.rows_of(kinds)
    decoder.begin(rows)
    return Traits(kinds, found, positions)


def _rows(decoder: Decoder) -> int:
    """How many rows a trial has: two where that is possible."""
    batch = decoder.forms.tokens.batch
    if isinstance(batch, int):
        return batch
    try:
        decoder.first_values(2)
    except OptionError:
        axes = {name: decoder.batch_axis(name) for name in decoder.states}
        return next(decoder.first[name].shape[axis] for name, axis in axes.items() if axis is not None)
    return 2


def _padded(decoder: Decoder, kinds: Mapping[str, StateKind]) -> Rows:
    """Whether shorter rows can have hidden tokens in front: each row has positions and a mask of its own."""
    forms, mask = decoder.forms, decoder.forms.mask
    if not kinds or mask is None or mask.cache is None or not mask.is_of_rows or decoder.window:
        return Rows.SAME
    positions = forms.positions
    of_tokens = positions is not None and (positions.is_of_tokens or forms.tokens.time == 1)
    return Rows.PADDED if positions is not None and positions.is_of_rows and of_tokens else Rows.SAME


class _Trial:
    """Runs a decoder on single tokens, from states and at positions of any kind."""

    def __init__(self, decoder: Decoder, rows: int) -> None:
        self._decoder, self._rows = decoder, rows
        self._first = decoder.first_values(rows)
        self._counters: list[str] = []

    def run(
        self, states: Mapping[str, Array], token: int, positions: Sequence[int], mask: float = 1
    ) -> tuple[Array, dict[str, Array]]:
        """The logits and the new states of a run on one token in each row."""
        decoder, forms = self._decoder, self._decoder.forms
        for name, array in states.items():
            decoder.model.write(name, array)
        token = min(token, (forms.logits.vocabulary or token + 1) - 1)
        feeds = {**decoder.others, forms.tokens.name: forms.tokens.made(np.full((self._rows, 1), token))}
        if forms.positions is not None:
            feeds[forms.positions.name] = forms.positions.made(np.array(positions)[:, None])
        if forms.mask is not None:
            entries = 0 if forms.mask.cache is None else states[forms.mask.cache[0]].shape[forms.mask.cache[1]]
            keys = entries + (forms.mask.cache is None or forms.mask.grows)
            visible = np.ones((self._rows, 1, keys), bool)
            feeds[forms.mask.name] = np.full_like(forms.mask.made(visible), mask)
        logits = forms.logits.read(decoder.model.run(feeds))
        return logits, {name: decoder.model.read(name) for name in decoder.states}

    def kinds(self, fixed: Sequence[str], positions: int | None) -> dict[str, StateKind]:
        """The kinds of the states that do not grow."""
        start = self._start()
        _, once = self.run(self._first, 1, [start] * self._rows)
        _, twice = self.run(once, 2, [start + 1] * self._rows)
        self._counters = [name for name in fixed if _counts(self._first[name], once[name], twice[name])]
        if start := self._start():
            _, once = self.run(self._first, 1, [start] * self._rows)
            _, twice = self.run(once, 2, [start + 1] * self._rows)
        found = {}
        for name in fixed:
            axis = _written_axis(self._first[name], once[name], twice[name], start)
            kind = Kind.COUNTER if name in self._counters else Kind.OTHER if axis is None else Kind.CACHE
            found[name] = StateKind(kind, axis or 0)
        return {name: dataclasses.replace(kind, rolls=self._rolls(name, kind, positions)) for name, kind in found.items()}  # fmt: skip

    def _start(self) -> int:
        """The place of the first token: where a counter stands at first."""
        counted = [int(self._first[name].max()) for name in self._counters if self._first[name].size]
        return max(counted, default=0)

    def _rolls(self, name: str, kind: StateKind, positions: int | None) -> bool:
        """Whether a cache is written at its beginning by a token past its end."""
        size = self._first[name].shape[kind.axis] if kind.kind is Kind.CACHE else 0
        if not size or (positions is not None and positions <= size):
            return False
        counted = {name: np.full_like(self._first[name], size) for name in self._counters}
        before = {**self._first, **counted}
        _, after = self.run(before, 1, [size] * self._rows)
        return _changed(before[name], after[name], kind.axis) == {0}

    def rows_of(self, kinds: Mapping[str, StateKind]) -> Rows:
        """How sequences of different lengths can be fed together."""
        forms, found = self._decoder.forms, {kind.kind for kind in kinds.values()}
        caches = {name: kind.axis for name, kind in kinds.items() if kind.kind is Kind.CACHE}
        if Kind.OTHER in found or self._rows == 1 or any(kind.rolls for kind in kinds.values()):
            return Rows.SAME
        if Kind.COUNTER not in found and Kind.GROWS not in found:
            has_last = forms.logits.has_all or forms.tokens.time == 1
            own = (
                forms.positions is not None and forms.positions.is_of_rows and has_last and self._has_own_places(caches)
            )
            return Rows.OWN if own else Rows.SAME
        if caches and (Kind.COUNTER not in found or not self._follows_counter(caches)):
            return Rows.SAME
        return _padded(self._decoder, kinds)

    def _has_own_places(self, caches: Mapping[str, int]) -> bool:
        """Whether each row is written at its own position."""
        _, after = self.run(self._first, 1, list(range(self._rows)))
        for name, axis in caches.items():
            rows = self._decoder.batch_axis(name)
            rows = self._first[name].shape.index(self._rows) if rows is None else rows
            for row in range(self._rows):
                before, now = (np.take(array, [row], rows) for array in (self._first[name], after[name]))
                if _changed(before, now, axis) != {row}:
                    return False
        return True

    def _follows_counter(self, caches: Mapping[str, int]) -> bool:
        """Whether caches are written where the counter stands, whatever the position is."""
        _, after = self.run(self._first, 1, [self._start() + 1] * self._rows)
        return all(_changed(self._first[name], after[name], axis) == {self._start()} for name, axis in caches.items())

    def mask_adds(self) -> bool:
        """Whether a mask of floats is added to the scores: one number for all keys changes nothing then."""
        states = self._first
        for place, token in enumerate((1, 2)):
            _, states = self.run(states, token, [self._start() + place] * self._rows)
        zeros, ones = (self.run(states, 3, [self._start() + 2] * self._rows, mask)[0] for mask in (0, 1))
        scale = np.abs(ones.astype(np.float64)).max(initial=0)
        return bool(np.allclose(zeros.astype(np.float64), ones.astype(np.float64), rtol=0, atol=_TOLERANCE * scale))


def _counts(first: Array, once: Array, twice: Array) -> bool:
    if first.dtype.kind not in "iu" or not first.size:
        return False
    return bool((once.astype(np.int64) - first == 1).all() and (twice.astype(np.int64) - once == 1).all())


def _written_axis(first: Array, once: Array, twice: Array, start: int) -> int | None:
    """The axis along which the first run wrote at one place only, and the second at the next."""
    for axis, size in enumerate(first.shape):
        if size > start + 1 and (_changed(first, once, axis), _changed(once, twice, axis)) == ({start}, {start + 1}):
            return axis
    return None


def _changed(before: Array, after: Array, axis: int) -> set[int]:
    """The places along an axis at which the bits of two arrays differ."""
    before, after = (np.ascontiguousarray(np.moveaxis(array, axis, 0)) for array in (before, after))
    flat = [array.reshape(len(array), -1).view(np.uint8) for array in (before, after)]
    return set(np.flatnonzero((flat[0] != flat[1]).any(1)).tolist())
