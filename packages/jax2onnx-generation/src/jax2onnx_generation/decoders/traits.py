"""Traits of a decoder that its graph shows: the kinds of its states, and the batching of sequences of different lengths."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_runtime.probing import index_extents

from jax2onnx_generation.decoders.forms import DecoderForms
from jax2onnx_generation.decoders.kinds import Kind, StateKind
from jax2onnx_generation.decoders.states import StateUse

__all__ = ["Batching", "Traits", "decoder_traits", "known_positions"]


class Batching(enum.Enum):
    """Ways to run sequences of different lengths in one batch."""

    EQUAL_LENGTHS = "only if they have one length"
    PADDED = "with hidden tokens in front of the shorter ones"
    OWN_POSITIONS = "each written at positions of its own"


@dataclasses.dataclass(frozen=True)
class Traits:
    """Kinds of a model's states, and its batching of sequences.

    Attributes:
      kinds: state → its kind.
      batching: how sequences of different lengths run in one batch.
      positions: the number of positions, if the model looks them up in a table; see `known_positions`.
    """

    kinds: Mapping[str, StateKind]
    batching: Batching = Batching.EQUAL_LENGTHS
    positions: int | None = None


def decoder_traits(model: ir.Model, forms: DecoderForms, uses: Sequence[StateUse], *, is_windowed: bool) -> Traits:
    """Read the traits of a decoder from its graph.

    Args:
      model: the model.
      forms: the forms of its inputs and logits.
      uses: how it uses its states.
      is_windowed: whether only the last entries of states that grow are kept.
    """
    kinds = {use.pair.input: use.kind for use in uses}
    given = [] if forms.positions is None else [forms.positions.name]
    counters = [name for name, found in kinds.items() if found.kind is Kind.COUNTER]
    return Traits(kinds, _batching(forms, uses, is_windowed=is_windowed), known_positions(model, [*given, *counters]))


def known_positions(model: ir.Model, names: Collection[str]) -> int | None:
    """The number of positions that a decoder knows: as many as the smallest table has rows for, in which it looks them up; None without one.

    Args:
      model: the model.
      names: the inputs with the positions of the tokens or of the first of them, and the counters of tokens.
    """
    extents = index_extents(model, adding=True)
    return min((e for name in names for e in extents.get(name, ()) if isinstance(e, int)), default=None)


def _batching(forms: DecoderForms, uses: Sequence[StateUse], *, is_windowed: bool) -> Batching:
    """The best way to run sequences of different lengths in one batch that the graph allows for sure."""
    kinds = {use.kind.kind for use in uses}
    if Kind.OTHER in kinds or forms.tokens.batch == 1 or any(use.kind.rolls for use in uses):
        return Batching.EQUAL_LENGTHS
    positions, caches = forms.positions, [use for use in uses if use.kind.kind is Kind.CACHE]
    if caches and kinds == {Kind.CACHE}:
        has_last = forms.logits.has_all or forms.tokens.time == 1
        of_rows = positions is not None and all(form.is_of_rows for form in (positions, forms.mask) if form is not None)
        own = all(use.by_row and positions is not None and use.places == frozenset({positions.name}) for use in caches)
        return Batching.OWN_POSITIONS if own and has_last and of_rows else Batching.EQUAL_LENGTHS
    counters = {use.pair.input for use in uses if use.kind.kind is Kind.COUNTER}
    if not all(use.places and use.places <= counters for use in caches):
        return Batching.EQUAL_LENGTHS
    mask = forms.mask
    if not uses or mask is None or mask.cache is None or not mask.is_of_rows or is_windowed or positions is None:
        return Batching.EQUAL_LENGTHS
    of_tokens = positions.is_of_tokens or forms.tokens.time == 1
    return Batching.PADDED if positions.is_of_rows and of_tokens else Batching.EQUAL_LENGTHS
