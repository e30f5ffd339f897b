"""`Generator`: writes with a decoder: groups of sequences, conversations, drafts and beams."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import ContextFullError, OptionError, RuntimeInputError
from jax2onnx_graph.facts.type_text import type_text

from jax2onnx_runtime.generation.beams import search
from jax2onnx_runtime.generation.decoder import Decoder, DecoderModel, Rows
from jax2onnx_runtime.generation.forms import decoder_forms
from jax2onnx_runtime.generation.requests import Request
from jax2onnx_runtime.generation.results import Generation, Piece, Stop
from jax2onnx_runtime.generation.sequences import WrittenSequence
from jax2onnx_runtime.generation.signature import Roles, decoder_signature
from jax2onnx_runtime.generation.speculation import Speculation
from jax2onnx_runtime.generation.trial import position_count, tried
from jax2onnx_runtime.sizes import SymbolSpace
from jax2onnx_runtime.states import StateType

__all__ = ["GenerationStream", "Generator", "open_generator"]


class GenerationStream(Iterator[Piece]):
    """The pieces of what is being written, as they come.

    Args:
      pieces: the pieces.
      sequences: the sequences that they are of.
      speculation: counts drafted tokens, where there is a draft model.
    """

    def __init__(
        self, pieces: Iterator[Piece], sequences: Sequence[WrittenSequence], speculation: Speculation | None
    ) -> None:
        self._pieces, self._sequences, self._speculation = pieces, sequences, speculation
        self._prompt_tokens = sum(len(sequence.tokens) for sequence in sequences)
        self._seconds = 0.0

    def __next__(self) -> Piece:
        start = time.perf_counter()
        try:
            return next(self._pieces)
        finally:
            self._seconds += time.perf_counter() - start

    @property
    def result(self) -> Generation:
        """The result, once all pieces have come; asking for it takes those that have not."""
        for _ in self:
            pass
        written = [sequence.written() for sequence in self._sequences]
        drafted, accepted = (
            (0, 0) if self._speculation is None else (self._speculation.drafted, self._speculation.accepted)
        )
        return Generation(written, self._prompt_tokens, self._seconds, drafted, accepted)


class Generator:
    """Writes with a decoder, and keeps what was written, so that a conversation goes on.

    The tokens of the conversation are the truth, and the states follow them: where they cannot go on or back to what is wanted,
    the model is run anew.

    Args:
      decoder: the decoder.
      further: the inputs without a role.

    Attributes:
      conversation: the tokens of each sequence until now, prompts and what was written.
    """

    def __init__(self, decoder: Decoder, further: Sequence[ir.Value] = ()) -> None:
        self.decoder, self._further = decoder, further
        self.conversation: list[list[int]] = []
        self._turn = 0

    def give(self, inputs: Mapping[str, Array]) -> None:
        """Take other arrays for the inputs without a role, from the next run on. Raises OptionError where they do not fit."""
        self.decoder.others = given_inputs(self._further, inputs)

    def forget(self) -> None:
        """Begin a new conversation."""
        self.conversation = []
        self.decoder.tokens = []
        self._turn += 1

    def rewind(self, count: int) -> None:
        """Forget the last tokens of each sequence of the conversation.

        Raises:
          RuntimeInputError: there are not so many.
        """
        shortest = min(map(len, self.conversation), default=0)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= shortest:
            raise RuntimeInputError(f"rewind({count!r}): the conversation has {shortest} tokens that can be forgotten.")
        self._turn += 1
        self.conversation = [row[: len(row) - count] for row in self.conversation]
        decoder, lengths = self.decoder, [len(row) for row in self.conversation]
        extra = {len(fed) - length for fed, length in zip(decoder.tokens, lengths, strict=False)}
        if decoder.row_count == len(lengths) and len(extra) == 1 and min(extra) > 0 and decoder.can_cut(min(extra)):
            decoder.cut(min(extra))

    def stream(self, rows: Sequence[Sequence[int]], request: Request, draft: Decoder | None = None) -> GenerationStream:
        """Write after prompts, which follow the conversation if there is one.

        Raises:
          OptionError: the model does not do what is asked for.
          RuntimeInputError: the prompts do not fit the conversation, or there are no tokens.
        """
        before = self.conversation or [[] for _ in rows]
        if len(before) != len(rows):
            raise RuntimeInputError(
                f"The conversation has {len(before)} sequences, but there are {len(rows)} prompts. session.reset() begins a new one."
            )
        tokens = [[*old, *new] for old, new in zip(before, rows, strict=True)]
        if empty := [number for number, row in enumerate(tokens) if not row]:
            raise RuntimeInputError(f"Prompt {empty[0]} is empty: a decoder goes on from one token at least.")
        self._turn += 1
        decoder = self.decoder
        decoder.chunk = request.chunk
        random = request.sampling.generators(len(rows))
        sequences = [WrittenSequence(number, row, request, random[number]) for number, row in enumerate(tokens)]
        speculation = None if draft is None else Speculation(decoder, draft, request.drafts)
        if speculation is not None:
            if request.sampling.temperature or request.beams.width > 1:
                raise OptionError(
                    "draft: what is written with a draft model is greedy; it has no temperature and no beams."
                )
            speculation.check()
        if request.beams.width > 1:
            pieces = self._search(sequences, request)
        elif speculation is not None:
            pieces = (piece for sequence in sequences for piece in speculation.write(sequence))
        else:
            pieces = self._write(sequences)
        return GenerationStream(self._watched(pieces, sequences), sequences, speculation)

    def _watched(self, pieces: Iterator[Piece], sequences: Sequence[WrittenSequence]) -> Iterator[Piece]:
        """The pieces, as long as nothing else is written in this session."""
        before, turn = self.conversation, self._turn
        while True:
            if self._turn != turn:
                raise RuntimeInputError(
                    "The session has begun to write something else, or was reset; this stream cannot go on."
                )
            # What is there of a stream that is left is part of the conversation.
            self.conversation = [sequence.tokens for sequence in sequences]
            try:
                piece = next(pieces)
            except StopIteration:
                return
            except ContextFullError:
                self.conversation = before
                raise
            yield piece

    def _write(self, sequences: Sequence[WrittenSequence]) -> Iterator[Piece]:
        pending = self._groups(sequences)
        while pending:
            group = pending.pop(0)
            logits = self._begun(group)
            if self.decoder.traits.rows is Rows.PADDED and np.isnan(logits).any():
                # A token that sees nothing but hidden ones is NaN in this model: rows of different lengths are written apart.
                self.decoder.without_padding()
                pending = self._groups([*group, *(sequence for other in pending for sequence in other)])
                continue
            yield from self._continue(group, logits)

    def _groups(self, sequences: Sequence[WrittenSequence]) -> list[list[WrittenSequence]]:
        """The sequences that are written together: all, those of one length, or each by itself."""
        batch = self.decoder.forms.tokens.batch
        most = batch if isinstance(batch, int) else len(sequences)
        lengths: dict[int, list[WrittenSequence]] = {}
        for sequence in sequences:
            together = 0 if self.decoder.traits.rows is not Rows.SAME else len(sequence.tokens)
            lengths.setdefault(together, []).append(sequence)
        if not self.decoder.states:
            most = 1
        return [group[start : start + most] for group in lengths.values() for start in range(0, len(group), most)]

    def _filled(self, rows: Sequence[list[int]]) -> list[list[int]]:
        """The rows, the last of them several times where the model takes a fixed number."""
        batch = self.decoder.forms.tokens.batch
        missing = max(batch - len(rows), 0) if isinstance(batch, int) else 0
        return [*rows, *(list(rows[-1]) for _ in range(missing))]

    def _begun(self, group: Sequence[WrittenSequence]) -> Array:
        """The logits after the prompts."""
        rests = self.decoder.align(self._filled([sequence.tokens for sequence in group]))
        if self.decoder.traits.rows is Rows.SAME and len({len(rest) for rest in rests}) > 1:
            self.decoder.begin(len(rests))
            rests = self._filled([list(sequence.tokens) for sequence in group])
        return self.decoder.feed(rests)

    def _continue(self, group: Sequence[WrittenSequence], logits: Array) -> Iterator[Piece]:
        """Write a group to its end, from the logits after the prompts."""
        while True:
            active = [(row, sequence) for row, sequence in enumerate(group) if sequence.stop is None]
            pieces = [sequence.add(sequence.choose(logits[row])) for row, sequence in active]
            goes_on = any(sequence.stop is None for sequence in group)
            if goes_on and not self._has_room():
                pieces = [
                    piece if sequence.stop is not None else sequence.end(piece, Stop.CONTEXT)
                    for piece, (_, sequence) in zip(pieces, active, strict=True)
                ]
                goes_on = False
            yield from pieces
            if not goes_on:
                return
            logits = self.decoder.feed(self._filled([[] if s.stop is not None else s.tokens[-1:] for s in group]))

    def _has_room(self) -> bool:
        try:
            self.decoder.check_room(1)
        except ContextFullError:
            return False
        return True

    def _search(self, sequences: Sequence[WrittenSequence], request: Request) -> Iterator[Piece]:
        for sequence in sequences:
            best = search(self.decoder, sequence.tokens, request.ends, request.beams)
            sequence.score = best.score
            for left, token in zip(range(len(best.ids))[::-1], best.ids, strict=True):
                piece = sequence.add(token)
                yield sequence.end(piece, best.stop) if best.stop is Stop.CONTEXT and not left else piece


def open_generator(
    model: ir.Model, loaded: DecoderModel, states: Mapping[str, StateType], first: Mapping[str, Array], *, roles: Roles | None,
    inputs: Mapping[str, Array], window: Mapping[str, int], limits: Mapping[str, int], space: SymbolSpace,
) -> Generator:  # fmt: skip
    """Prepare a model to write; where it has states of fixed sizes, it is run a few times to find out how it treats them.

    Args:
      model: the model.
      loaded: the loaded model with its states.
      states: their types.
      first: their first values.
      roles: the inputs and outputs of roles that are not recognised.
      inputs: the arrays of inputs without a role.
      window: how many entries of a growing axis are kept, by its label.
      limits: how many entries an axis may have, by its label.
      space: the sizes that the symbols may have.

    Raises:
      OptionError: the model is no decoder, has inputs that are not given, or forms that decoders do not have.
    """
    signature = decoder_signature(model, roles)
    for state in states.values():
        if state.grows is not None and isinstance(state.dims[state.grows], int):
            raise OptionError(
                f"The state {state} was fixed to {state.dims[state.grows]} entries, of which a decoder cannot tell how many are "
                "written. Write with the program that has a symbol there."
            )
    forms = decoder_forms(model, signature, states)
    decoder = Decoder(loaded, forms, states, first, window=window, limits=limits, space=space)
    generator = Generator(decoder, [value for value in model.graph.inputs if value.name in signature.others])
    generator.give(inputs)
    decoder.traits = tried(decoder, position_count(model, forms))
    return generator


def given_inputs(further: Sequence[ir.Value], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of the inputs without a role. Raises OptionError where they are not those that were given."""
    values = {str(value.name): value for value in further}
    for name, value in values.items():
        if name not in inputs:
            raise OptionError(
                f"The model takes {name!r}, {type_text(value)}, which is no tokens, positions or mask that are recognised. Give "
                f'its array for all runs, inputs={{{name!r}: …}}, or say what it is: roles={{"positions": {name!r}}}.'
            )
    for name, array in inputs.items():
        if name not in values:
            raise OptionError(f"inputs: there is no further input {name!r}; there are {', '.join(values) or 'none'}.")
        dtype = values[name].dtype
        if dtype is not None and np.asarray(array).dtype != dtype.numpy():
            raise OptionError(f"inputs: {name!r} is {type_text(values[name])}, not {np.asarray(array).dtype}.")
    return {name: np.asarray(array) for name, array in inputs.items()}
