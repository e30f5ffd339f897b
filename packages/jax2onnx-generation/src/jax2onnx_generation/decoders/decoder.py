"""`Decoder`: a model with its states, fed with rows of tokens, whose positions, masks and capacities it keeps right."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import ContextFullError, OptionError, RuntimeInputError, SymbolError
from jax2onnx_runtime.session import ModelSession
from jax2onnx_runtime.states import StateType

from jax2onnx_generation.decoders.forms import DecoderForms
from jax2onnx_generation.decoders.kinds import Kind, StateKind
from jax2onnx_generation.decoders.traits import Batching, Traits

__all__ = ["Decoder"]


# A number of places that no cache has.
_ENDLESS = 2**62


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The states of a decoder at some time, and what was fed until then."""

    states: Mapping[str, Array]
    tokens: list[list[int]]
    places: int
    hidden: Array | None
    spoiled: frozenset[int]


class Decoder:
    """A model with its states, fed with rows of tokens.

    Args:
      session: the model with its states.
      forms: those of its inputs and logits.
      traits: how the model treats its states and rows.

    Attributes:
      traits: how the model treats its states and rows.
      tokens: the tokens of each row that were fed.
      spoiled: the rows that were fed something else, too.
      others: the arrays of inputs without a role.
      chunk: how many tokens are fed in a run at most.
    """

    def __init__(self, session: ModelSession, forms: DecoderForms, traits: Traits) -> None:
        self.session, self.forms, self.traits = session, forms, traits
        self.states, self.first = session.types, session.initial
        window = session.sizes.window
        self.window = {s.name: window[s.labels[s.grows]] for s in self.states.values() if s.grows is not None and s.labels[s.grows] in window}  # fmt: skip
        self.others: Mapping[str, Array] = {}
        self.chunk: int | None = None
        self.tokens: list[list[int]] = []
        self.spoiled: set[int] = set()
        self._places, self._hidden = 0, None if forms.mask is None else np.zeros((0, 0), bool)
        self._origin = 0
        self._free = 0  # up to how many places there is room
        self._allowed: set[tuple[int, int]] = (
            set()
        )  # numbers of rows and tokens that fit the constraints of the symbols

    # -- rows ------------------------------------------------------------------------------------

    @property
    def row_count(self) -> int:
        """Number of rows of the states."""
        return len(self.tokens)

    @property
    def places(self) -> int:
        """Number of tokens of each row that were fed, with hidden ones before the shorter rows."""
        return self._places - self._origin

    def begin(self, rows: int) -> None:
        """Put the states back to what they were at first, for so many rows.

        Raises:
          OptionError: the states have first values for another number of rows.
        """
        batch = self.forms.tokens.batch
        if isinstance(batch, int) and batch != rows:
            raise OptionError(f"The model takes {batch} sequences at once, not {rows}.")
        for name, array in self.first_values(rows).items():
            self.session.state[name] = array
        self.tokens, self.spoiled = [[] for _ in range(rows)], set()
        grown = [self.first[s.name].shape[s.grows] for s in self.states.values() if s.grows is not None]
        counted = [self.first[name] for name, found in self.traits.kinds.items() if found.kind is Kind.COUNTER]
        self._origin = grown[0] if grown else int(counted[0].max()) if counted and counted[0].size else 0
        self._places, self._free = self._origin, 0
        self._hidden = None

    def first_values(self, rows: int) -> dict[str, Array]:
        """The first values of the states for so many rows. Raises OptionError where they are for another number of rows."""
        return {name: self._first(name, array, rows) for name, array in self.first.items()}

    def _first(self, name: str, array: Array, rows: int) -> Array:
        axis = self.batch_axis(name)
        if axis is None or array.shape[axis] == rows:
            return array
        one = array[(slice(None),) * axis + (slice(1),)]
        if not one.shape[axis] or not (array == one).all():
            raise OptionError(
                f"The state {name!r} has first values for {array.shape[axis]} sequences that differ, but there are {rows}: "
                f"give initial={{{name!r}: …}} for so many."
            )
        return np.repeat(one, rows, axis)

    def batch_axis(self, name: str) -> int | None:
        """The axis of the sequences of a state, where their number is a symbol."""
        batch, dims = self.forms.tokens.batch, self.states[name].dims
        return dims.index(batch) if isinstance(batch, str) and batch in dims else None

    def without_padding(self) -> None:
        """Feed rows of different lengths apart from now on, from their beginnings."""
        self.traits = dataclasses.replace(self.traits, batching=Batching.EQUAL_LENGTHS)
        self.tokens = []

    def select(self, rows: Sequence[int]) -> None:
        """Let the states be those of these rows, in this order; a row may be there several times."""
        order = list(rows)
        if order == list(range(self.row_count)):
            return
        for name in self.states:
            axis = self.batch_axis(name)
            if axis is not None:
                self.session.state.change(name, lambda array, axis=axis: np.take(array, order, axis))  # type: ignore[misc]
        self.tokens = [list(self.tokens[row]) for row in order]
        self._hidden = None if self._hidden is None else self._hidden[order]

    # -- feeding ---------------------------------------------------------------------------------

    def feed(self, new: Sequence[Sequence[int]]) -> Array:
        """Run the model on further tokens of each row; the logits [rows, V] after the last of each.

        A row without further tokens is left as it is, or is `spoiled`, where the model cannot leave it.

        Raises:
          ContextFullError: the caches have no room for them; the states stay as they are.
        """
        if not self.states and self.tokens[0]:  # without states, each run takes all tokens
            new = [[*old, *given] for old, given in zip(self.tokens, new, strict=True)]
            self.begin(len(new))
        tokens, real = self._padded(new)
        count = tokens.shape[1]
        self.check_room(count)
        chunks = self._chunks(count)
        if real is None:
            for start, stop in chunks:
                logits = self._run(tokens[:, start:stop], None)
            # Those of a long prompt are not kept for the sake of its last token's.
            return _exact(logits[:, -1], copy=logits.shape[1] > 1)
        last = count - 1 - real[:, ::-1].argmax(1)
        found: list[Array | None] = [None] * len(new)
        for start, stop in chunks:
            logits = self._run(tokens[:, start:stop], real[:, start:stop])
            for row, place in enumerate(last):
                if start <= place < stop:
                    found[row] = logits[row, place - start if self.forms.logits.has_all else -1]
        return _exact(np.stack([row for row in found if row is not None]))

    def align(self, wanted: Sequence[Sequence[int]]) -> list[list[int]]:
        """Let the states be those of the beginnings of these rows of tokens, of as much of them as is possible; the rests.

        No rest is empty: at least the last token of each row is still to be fed.
        """
        same = [_common(fed, row) for fed, row in zip(self.tokens, wanted, strict=False)]
        extra = {
            len(fed) - min(count, len(row) - 1) for fed, row, count in zip(self.tokens, wanted, same, strict=False)
        }
        count = max(extra, default=0)
        together = self.row_count == len(wanted) and not self.spoiled and (len(extra) == 1 or not count)
        if self.states and together and (not count or self.can_cut(count)):
            self.cut(count)
        else:
            self.begin(len(wanted))
        return [list(row[len(fed) :]) for fed, row in zip(self.tokens, wanted, strict=True)]

    def feed_all(self, new: Sequence[int]) -> Array:
        """Run the model on further tokens of its only row; the logits [T, V] after each of them."""
        if not self.states and self.tokens[0]:  # without states, each run takes all tokens
            whole = [*self.tokens[0], *new]
            self.begin(1)
            return self.feed_all(whole)[-len(new) :]
        tokens = np.array([new])
        self.check_room(len(new))
        parts = [self._run(tokens[:, a:b], None) for a, b in self._chunks(len(new))]
        return _exact(np.concatenate([part[0] for part in parts]))

    def _padded(self, new: Sequence[Sequence[int]]) -> tuple[Array, Array | None]:
        """Tokens [B, T] of rows of different lengths, and which of them are real; None where all are."""
        lengths = set(map(len, new))
        if len(lengths) == 1:
            return np.array(new, np.int64), None
        count = max(lengths)
        tokens, real = np.zeros((len(new), count), np.int64), np.zeros((len(new), count), bool)
        for row, given in enumerate(new):
            part = (
                slice(0, len(given))
                if self.traits.batching is Batching.OWN_POSITIONS
                else slice(count - len(given), count)
            )
            tokens[row, part], real[row, part] = given, True
        if self.traits.batching is Batching.EQUAL_LENGTHS:
            self.spoiled |= {row for row, given in enumerate(new) if not given}
            assert lengths == {0, count}, "rows of different lengths are fed apart"
        return tokens, real

    def _chunks(self, count: int) -> list[tuple[int, int]]:
        """The parts in which so many tokens are fed."""
        if self.forms.tokens.time == 1:
            starts = list(range(count))
        elif self.window and not (self.forms.mask is not None and self.forms.mask.is_of_tokens):
            # Each token sees as many entries as if they were fed one by one.
            room = (
                max(1, min(self.window.values()) + 1 - (self._places - self._origin))
                if self._places == self._origin
                else 1
            )
            starts = [0, *range(min(room, self.chunk or room), count)]
        elif not self.states:
            starts = [0]
        else:
            starts = list(range(0, count, self.chunk or max(count, 1)))
        return list(zip(starts, [*starts[1:], count], strict=True))

    def _run(self, tokens: Array, real: Array | None) -> Array:
        forms = self.forms
        if self.traits.batching is Batching.PADDED:
            self._hide(tokens.shape, real)
        feeds = {**self.others, forms.tokens.name: forms.tokens.made(tokens)}
        if forms.positions is not None:
            feeds[forms.positions.name] = forms.positions.made(self._positions(tokens.shape, real))
        if forms.mask is not None:
            feeds[forms.mask.name] = self._mask(*tokens.shape)
        logits = forms.logits.read(self.session.run(feeds))
        forms.logits.check(logits, tokens)
        for row, given in enumerate(tokens.tolist()):
            self.tokens[row] += given if real is None else [t for t, k in zip(given, real[row], strict=True) if k]
        self._places += tokens.shape[1]
        if self.traits.batching is Batching.OWN_POSITIONS:
            self._places = self._origin + max(map(len, self.tokens))
        return logits

    def _positions(self, shape: tuple[int, ...], real: Array | None) -> Array:
        """The positions [B, T] of the tokens of a run."""
        rows, count = shape
        if self.traits.batching is Batching.EQUAL_LENGTHS:
            return np.array([range(self._places, self._places + count)] * rows)
        starts = [self._origin + len(row) for row in self.tokens]
        if real is None or self.traits.batching is Batching.OWN_POSITIONS:
            return np.array([range(start, start + count) for start in starts])
        return np.maximum(np.array(starts)[:, None] + real.cumsum(1) - 1, 0)

    # -- masks -----------------------------------------------------------------------------------

    def _hide(self, shape: tuple[int, ...], real: Array | None) -> None:
        """Remember which tokens of a run are hidden."""
        if self._hidden is None and real is None:
            return
        before = np.zeros((shape[0], self._places), bool) if self._hidden is None else self._hidden
        self._hidden = np.concatenate([before, np.zeros(shape, bool) if real is None else ~real], axis=1)

    def _mask(self, rows: int, count: int) -> Array:
        """The mask of a run: a token sees what is before it and itself, what is not hidden, and no more than a window."""
        form = self.forms.mask
        assert form is not None, "it is asked for where there is a mask"
        entries = 0 if form.cache is None else self.session.state.shape(form.cache[0])[form.cache[1]]
        keys, first = entries, 0
        if form.cache is None or form.grows:
            keys, first = entries + count, self._places - entries
        if count == 1 and self._hidden is None and first + keys == self._places + 1 and form.grows:
            return form.made_of_all((rows, 1, keys))
        starts = [self._places] * rows
        if self.traits.batching is Batching.OWN_POSITIONS:
            starts = [self._origin + len(row) for row in self.tokens]
        queries = np.array(starts)[:, None] + np.arange(count)
        places = first + np.arange(keys)
        visible = places <= queries[:, :, None]
        if form.cache is not None and form.cache[0] in self.window:
            visible = visible & (places >= queries[:, :, None] - self.window[form.cache[0]])
        if self._hidden is not None:
            hidden = np.zeros((rows, keys), bool)
            known = self._hidden[:, max(first, 0) : first + keys]
            hidden[:, : known.shape[1]] = known
            # A hidden token sees itself, so that it has no row of nothing, whose softmax is NaN.
            visible = visible & (~hidden[:, None, :] | (places == queries[:, :, None])) if form.is_of_tokens else visible & ~hidden[:, None, :]  # fmt: skip
        return form.made(visible)

    # -- room ------------------------------------------------------------------------------------

    def check_room(self, count: int) -> None:
        """Make room for so many further tokens in each row.

        Raises:
          ContextFullError: there is none.
        """
        places = self._places
        if places + count > self._free:
            self._make_room(count)
        if self.traits.positions is not None and places + count > self.traits.positions:
            raise ContextFullError(
                f"The context is full: the model knows {self.traits.positions} positions, but there would be {places + count} tokens. {_NEXT}"
            )
        for size in {end - start for start, end in self._chunks(count)}:
            self._check_symbols(size)

    def _check_symbols(self, count: int) -> None:
        """Raise RuntimeInputError where the model does not take so many tokens in a run."""
        tokens = self.forms.tokens
        if (self.row_count, count) in self._allowed:
            return
        sizes = {
            name: size for name, size in ((tokens.batch, self.row_count), (tokens.time, count)) if isinstance(name, str)
        }
        try:
            self.session.space.check(sizes)
        except SymbolError as error:
            raise RuntimeInputError(f"The tokens do not fit the model: {error}") from error
        self._allowed.add((self.row_count, count))

    def _make_room(self, count: int) -> None:
        """Let there be so many further places in all caches; how many tokens there is room for is known afterwards."""
        ends = [_ENDLESS]
        for state in self.states.values():
            found = self.traits.kinds[state.name]
            if found.kind is Kind.GROWS and state.name not in self.window:
                entries, label = self.session.state.shape(state.name)[found.axis], state.labels[found.axis]
                self._check(label, entries + count)
                ends.append(self.session.sizes.limits.get(label, _ENDLESS) - entries + self._places)
            elif found.kind is Kind.CACHE and not self._may_roll(state.name, found):
                self._widen(state, found.axis, self._places + count)
                ends.append(self.session.state.shape(state.name)[found.axis])
        self._free = min(ends)

    def _may_roll(self, name: str, found: StateKind) -> bool:
        mask = self.forms.mask
        return found.rolls and (mask is None or mask.cache is None or mask.cache[0] != name)

    def _check(self, label: str, size: int) -> None:
        limit = self.session.sizes.limits.get(label)
        if limit is not None and size > limit:
            raise ContextFullError(
                f"The context is full: the caches would have {size} entries, more than the limit {label} = {limit}. {_NEXT}"
            )

    def _widen(self, state: StateType, axis: int, needed: int) -> None:
        """Give caches of a symbolic capacity twice the places, at least those that are needed."""
        size, label = self.session.state.shape(state.name)[axis], state.dims[axis]
        if needed <= size:
            return
        if isinstance(label, int):
            raise ContextFullError(
                f"The context is full: the caches have {size} places, but {needed} are needed. {_NEXT}"
            )
        self._check(label, needed)
        wanted = min(max(2 * size, needed), self.session.sizes.limits.get(label, max(2 * size, needed)))
        for other in self.states.values():
            axes = [place for place, dim in enumerate(other.dims) if dim == label]
            if axes:
                widths = [(0, wanted - size if place in axes else 0) for place in range(len(other.dims))]
                self.session.state.change(other.name, lambda array, widths=widths: np.pad(array, widths))  # type: ignore[misc]

    # -- going back ------------------------------------------------------------------------------

    @property
    def can_always_cut(self) -> bool:
        """Whether tokens can be forgotten however many were fed."""
        return not self.window and all(
            not found.rolls and self._is_cuttable(name, found) for name, found in self.traits.kinds.items()
        )

    def can_cut(self, count: int) -> bool:
        """Whether the last tokens of every row can be forgotten without running the model anew."""
        if self._hidden is not None and self._hidden[:, self._places - count :].any():
            return False
        if self.spoiled or count > min(map(len, self.tokens), default=0):
            return False
        return all(self._is_cuttable(name, found) for name, found in self.traits.kinds.items())

    def _is_cuttable(self, name: str, found: StateKind) -> bool:
        if found.kind is Kind.GROWS:
            return self.session.state.shape(name)[found.axis] == self._places
        if found.kind is Kind.CACHE:
            return self._places <= self.session.state.shape(name)[found.axis]
        return found.kind is Kind.COUNTER

    def cut(self, count: int) -> None:
        """Forget the last tokens of every row, where `can_cut` says so."""
        if not count:
            return
        for name, found in self.traits.kinds.items():
            if found.kind is Kind.GROWS:
                kept = (slice(None),) * found.axis + (slice(self._places - count),)
                self.session.state.change(name, lambda array, kept=kept: array[kept])  # type: ignore[misc]
            elif found.kind is Kind.COUNTER:
                self.session.state.change(name, lambda array: (array - count).astype(array.dtype))
        self._places -= count
        self._hidden = None if self._hidden is None else self._hidden[:, : self._places]
        self.tokens = [row[: len(row) - count] for row in self.tokens]

    def snapshot(self) -> Snapshot:
        """The states as they are now, to be restored."""
        hidden = None if self._hidden is None else self._hidden.copy()
        states = {name: self.session.state[name] for name in self.states}
        return Snapshot(states, [list(row) for row in self.tokens], self._places, hidden, frozenset(self.spoiled))

    def restore(self, snapshot: Snapshot) -> None:
        """Put the states back to what they were."""
        for name, array in snapshot.states.items():
            self.session.state[name] = array
        self.tokens, self.spoiled = [list(row) for row in snapshot.tokens], set(snapshot.spoiled)
        self._places, self._free, self._hidden = snapshot.places, 0, snapshot.hidden


def _exact(logits: Array, *, copy: bool = False) -> Array:
    """Logits with all their digits, in float32 at least."""
    return logits.astype(np.promote_types(logits.dtype, np.float32), copy=copy)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Number of tokens at the beginning that two rows have in common."""
    if list(other[: len(one)]) == one:
        return len(one)
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


_NEXT = "Reset the session, rewind it, or write less."
