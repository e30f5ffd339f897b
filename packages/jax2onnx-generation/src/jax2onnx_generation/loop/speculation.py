"""Speculative decoding: a small model proposes tokens, and the large one looks at all of them in one run."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator

from jax2onnx_graph.errors import ContextFullError, OptionError

from jax2onnx_generation.decoders.decoder import Decoder
from jax2onnx_generation.loop.results import Piece, Stop
from jax2onnx_generation.loop.sequences import WrittenSequence

__all__ = ["Speculation"]


@dataclasses.dataclass
class Speculation:
    """Writes a sequence with a draft model (Leviathan et al. 2023, of which this is the greedy form): the tokens are those of the large
    model alone.

    Attributes:
      decoder: the large model.
      draft: the small one.
      count: how many tokens are proposed at once.
      drafted: how many were proposed.
      accepted: how many of these were right.
    """

    decoder: Decoder
    draft: Decoder
    count: int
    drafted: int = 0
    accepted: int = 0

    def check(self) -> None:
        """Raises OptionError where the large model does not look at several tokens at once, or the models have different tokens or one session."""
        forms, small = self.decoder.forms, self.draft.forms
        if self.draft.session is self.decoder.session:
            raise OptionError(
                "draft: it has the session of this generator, whose states are those of one text; open another session."
            )
        if forms.tokens.time == 1 or not forms.logits.has_all:
            raise OptionError(
                "draft: the model returns logits for one token in a run, but it has to look at several. Export it with a symbol for their "
                "number, ('B', 'T'), and logits [B, T, V]."
            )
        if forms.logits.vocabulary != small.logits.vocabulary:
            raise OptionError(
                f"draft: it has {small.logits.vocabulary} tokens, but the model has {forms.logits.vocabulary}; both need the same."
            )

    def write(self, sequence: WrittenSequence) -> Iterator[Piece]:
        """Write a sequence to its end, piece by piece."""
        (rest,) = self.decoder.align([sequence.tokens])
        token = sequence.choose(self.decoder.feed([rest])[0])
        while True:
            piece = sequence.add(token)
            if sequence.stop is None and not self._has_room(1):
                piece = sequence.end(piece, Stop.CONTEXT)
            yield piece
            if sequence.stop is not None:
                return
            token = yield from self._round(sequence)
            if sequence.stop is not None:
                return

    def _round(self, sequence: WrittenSequence) -> Generator[Piece, None, int]:
        """Propose tokens, add those that are right; returns the token after them."""
        room = min(self.count, sequence.left - 1)
        while room and not self._has_room(room + 1):
            room -= 1
        proposed = self._proposed(sequence, room)
        decoder, known = self.decoder, sequence.tokens[-1]
        before = None if decoder.can_always_cut else decoder.snapshot()
        logits = decoder.feed_all([known, *proposed])
        self.drafted += len(proposed)
        fed = len(sequence.tokens)
        for place, guess in enumerate([*proposed, None]):
            token = sequence.choose(logits[place])
            if token != guess:
                break
            self.accepted += 1
            yield sequence.add(token)
            if sequence.stop is not None:
                break
        if wrong := len(proposed) - (len(sequence.tokens) - fed):
            if before is None:
                decoder.cut(wrong)
            else:
                decoder.restore(before)
                decoder.feed([sequence.tokens[fed - 1 :]])
        return token

    def _proposed(self, sequence: WrittenSequence, count: int) -> list[int]:
        """The tokens that the small model would write."""
        found: list[int] = []
        try:
            (rest,) = self.draft.align([sequence.tokens])
            for _ in range(count):
                found.append(sequence.guess(self.draft.feed([rest])[0], found))
                rest = found[-1:]
        except ContextFullError:
            pass  # the large model goes on with what there is
        return found

    def _has_room(self, count: int) -> bool:
        try:
            self.decoder.check_room(count)
        except ContextFullError:
            return False
        return True
