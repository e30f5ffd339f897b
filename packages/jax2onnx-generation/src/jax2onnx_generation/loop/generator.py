"""`Generator`: writes with a decoder: groups of sequences, conversations, drafts and beams."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import ContextFullError, OptionError, RuntimeInputError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_runtime.session import ModelSession

from jax2onnx_generation.decoders.declaration import Roles
from jax2onnx_generation.decoders.decoder import Decoder
from jax2onnx_generation.decoders.forms import decoder_forms
from jax2onnx_generation.decoders.kinds import StateKind
from jax2onnx_generation.decoders.signature import decoder_signature
from jax2onnx_generation.decoders.states import state_uses
from jax2onnx_generation.decoders.traits import Batching, decoder_traits
from jax2onnx_generation.loop.beams import search
from jax2onnx_generation.loop.requests import Beams, Prompt, Request, Stops, ends_of, prompt_rows
from jax2onnx_generation.loop.results import Generation, Piece, Stop
from jax2onnx_generation.loop.sequences import WrittenSequence
from jax2onnx_generation.loop.speculation import Speculation
from jax2onnx_generation.sampling import Sampling, is_whole
from jax2onnx_generation.texts.tokenizer import Tokenizer, read_tokenizer

__all__ = ["GenerationStream", "Generator"]


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
        """The result, once all pieces have come; asking for it takes those that have not.

        Raises:
          RuntimeInputError: an error ended the stream before.
        """
        for _ in self:
            pass
        if any(sequence.stop is None for sequence in self._sequences):
            raise RuntimeInputError(
                "An error ended this stream, so that it has no result; its pieces until then are what was written."
            )
        written = [sequence.written() for sequence in self._sequences]
        drafted, accepted = (
            (0, 0) if self._speculation is None else (self._speculation.drafted, self._speculation.accepted)
        )
        return Generation(written, self._prompt_tokens, self._seconds, drafted, accepted)


class Generator:
    """Writes with the decoder of a session, and keeps what was written, so that a conversation goes on.

    The tokens of the conversation are the truth, and the states follow them: where they cannot go on or back to what is wanted,
    the model is run anew.

    Args:
      session: a session of the model; its states are those of the conversation.
      roles: the inputs and outputs that are not recognised: `{"tokens": "x", "logits": "output_0"}`; see `DecoderSignature`.
      states: how states change in a run, where the graph does not show it: `{"cache": StateKind(Kind.CACHE, axis=1)}`.

    Attributes:
      session: the session.
      decoder: its model as a decoder.
      conversation: the tokens of each sequence until now, prompts and what was written.

    Raises:
      OptionError: the model is no decoder, has forms that decoders do not have, or has its states in common with other sessions.
    """

    def __init__(
        self, session: ModelSession, *, roles: Roles | None = None, states: Mapping[str, StateKind] | None = None
    ) -> None:
        self.session, self.decoder = session, _decoder(session, roles, states)
        names = decoder_signature(session.model, roles).others
        self._further = [value for value in session.model.graph.inputs if value.name in names]
        self.conversation: list[list[int]] = []
        self._turn = 0
        self._changes = -1  # the first look at the states begins the conversation, or refuses them

    def generate(
        self, prompt: Prompt, *, max_new_tokens: int = 128, temperature: float = 0.0, top_k: int | None = None,
        top_p: float | None = None, min_p: float | None = None, repetition_penalty: float = 1.0, seed: int | None = None,
        stop: Stops = (), tokenizer: Tokenizer | str | os.PathLike[str] | None = None, beams: int = 1, length_penalty: float = 1.0,
        draft: Generator | None = None, draft_tokens: int = 4, prefill_chunk: int | None = None,
        inputs: Mapping[str, Array] | None = None,
    ) -> Generation:  # fmt: skip
        """Write tokens after a prompt, and after what was written before.

        Sequences of different lengths are written together where the model can express it, and one after the other where it cannot.

        Args:
          prompt: ids, a list of such lists, a text, or a list of texts.
          max_new_tokens: how many tokens are written after each prompt at most.
          temperature: divides the logits; 0 takes the likeliest token.
          top_k: how many of the likeliest tokens are kept.
          top_p: the probability that the likeliest tokens which are kept reach together.
          min_p: tokens are kept whose probability is at least this part of the largest.
          repetition_penalty: above 1, it makes tokens that were there before less likely.
          seed: that of the random numbers; None for others each time.
          stop: the tokens and texts that end a sequence, or one of them.
          tokenizer: a `tokenizers.Tokenizer`, or the path of a `tokenizer.json` or of its folder; texts need one.
          beams: how many continuations are compared; 1 for no search.
          length_penalty: the power of its length by which the logarithm of a beam's probability is divided.
          draft: a generator with a smaller model of the same tokens, which proposes tokens; what is written is the same.
          draft_tokens: how many tokens it proposes at once.
          prefill_chunk: how many tokens of a prompt are fed in one run at most; None for all.
          inputs: the arrays of further inputs, the same in all runs; None for those of the last time.

        Raises:
          OptionError: an option has an impossible value.
          RuntimeInputError: the prompt does not fit the model or the conversation, or somebody else has changed the states.
          ContextFullError: the prompt has no room in the caches.
        """
        return self.stream(
            prompt, max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
            repetition_penalty=repetition_penalty, seed=seed, stop=stop, tokenizer=tokenizer, beams=beams,
            length_penalty=length_penalty, draft=draft, draft_tokens=draft_tokens, prefill_chunk=prefill_chunk, inputs=inputs,
        ).result  # fmt: skip

    def stream(
        self, prompt: Prompt, *, max_new_tokens: int = 128, temperature: float = 0.0, top_k: int | None = None,
        top_p: float | None = None, min_p: float | None = None, repetition_penalty: float = 1.0, seed: int | None = None,
        stop: Stops = (), tokenizer: Tokenizer | str | os.PathLike[str] | None = None, beams: int = 1, length_penalty: float = 1.0,
        draft: Generator | None = None, draft_tokens: int = 4, prefill_chunk: int | None = None,
        inputs: Mapping[str, Array] | None = None,
    ) -> GenerationStream:  # fmt: skip
        """Write piece by piece: an iterator of `Piece`s, each a token with the text that is certain with it; see `generate`."""
        self._check_states()
        vocabulary = self.decoder.forms.logits.vocabulary
        reader = None if tokenizer is None else read_tokenizer(tokenizer, vocabulary)
        request = Request(
            ends_of(max_new_tokens, stop), Sampling(repetition_penalty, temperature, top_k, top_p, min_p, seed), reader,
            Beams(beams, length_penalty), prefill_chunk, draft_tokens,
        )  # fmt: skip
        rows = prompt_rows(prompt, reader, vocabulary, self.conversation)
        for one in (self, *(() if draft is None else (draft,))):
            one._check_states()  # noqa: SLF001  (another object of this class)
            one._give(inputs)  # noqa: SLF001
        return self._begin(rows, request, draft)

    def rewind(self, count: int) -> None:
        """Forget the last tokens of each sequence of the conversation.

        Caches are cut, or their positions set back, where they allow it; otherwise the model is run on the others anew.

        Raises:
          RuntimeInputError: there are not so many.
        """
        self._check_states()
        shortest = min(map(len, self.conversation), default=0)
        if not is_whole(count, 0) or count > shortest:
            raise RuntimeInputError(f"rewind({count!r}): the conversation has {shortest} tokens that can be forgotten.")
        self._turn += 1
        self.conversation = [row[: len(row) - count] for row in self.conversation]
        decoder, lengths = self.decoder, [len(row) for row in self.conversation]
        extra = {len(fed) - length for fed, length in zip(decoder.tokens, lengths, strict=False)}
        if decoder.row_count == len(lengths) and len(extra) == 1 and min(extra) > 0 and decoder.can_cut(min(extra)):
            decoder.cut(min(extra))
            self._changes = self.session.state.changes

    def reset(self) -> None:
        """Begin a new conversation, with the states as they were at first."""
        self.session.reset()
        self._check_states()

    def _give(self, inputs: Mapping[str, Array] | None) -> None:
        """Take other arrays for the inputs without a role. Raises OptionError where they do not fit, or are missing.

        The states of before are those of the arrays of before: where these were others, the model is run anew.
        """
        if inputs or len(self.decoder.others) != len(self._further):
            before, given = self.decoder.others, given_inputs(self._further, inputs or {})
            if before and not all(np.array_equal(array, before[name]) for name, array in given.items()):
                self.decoder.tokens = []
            self.decoder.others = given

    def _check_states(self) -> None:
        """Begin anew where the session was reset. Raises RuntimeInputError where somebody else has changed the states."""
        state = self.session.state
        if state.are_first and state.changes != self._changes:
            self.conversation, self.decoder.tokens = [], []
            self._turn += 1
            self._changes = state.changes
        if state.changes != self._changes:
            raise RuntimeInputError(
                "The states were changed by step, or were set, so that it is not known of which tokens they are. generator.reset() begins "
                "anew; initial={…} of program.session gives states to begin with."
            )

    def _begin(self, rows: Sequence[Sequence[int]], request: Request, draft: Generator | None) -> GenerationStream:
        """Write after prompts, which follow the conversation if there is one.

        Raises:
          OptionError: the model does not do what is asked for.
          RuntimeInputError: the prompts do not fit the conversation, or there are no tokens.
        """
        before = self.conversation or [[] for _ in rows]
        if len(before) != len(rows):
            raise RuntimeInputError(
                f"The conversation has {len(before)} sequences, but there are {len(rows)} prompts. generator.reset() begins a new one."
            )
        tokens = [[*old, *new] for old, new in zip(before, rows, strict=True)]
        if empty := [number for number, row in enumerate(tokens) if not row]:
            raise RuntimeInputError(f"Prompt {empty[0]} is empty: a decoder goes on from one token at least.")
        self._turn += 1
        decoder = self.decoder
        decoder.chunk = request.chunk
        random = request.sampling.generators(len(rows))
        sequences = [WrittenSequence(number, row, request, random[number]) for number, row in enumerate(tokens)]
        speculation = None if draft is None else Speculation(decoder, draft.decoder, request.drafts)
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
        return GenerationStream(self._watched(pieces, sequences, draft), sequences, speculation)

    def _watched(
        self, pieces: Iterator[Piece], sequences: Sequence[WrittenSequence], draft: Generator | None
    ) -> Iterator[Piece]:
        """The pieces, as long as nothing else is written, and nobody else changes the states."""
        before, turn = self.conversation, self._turn
        while True:
            if self._turn != turn or self._changes != self.session.state.changes:
                raise RuntimeInputError(
                    "The generator has begun to write something else, or its session was changed; this stream cannot go on."
                )
            # What is there of a stream that is left is part of the conversation.
            self.conversation = [sequence.tokens for sequence in sequences]
            try:
                piece = next(pieces)
            except StopIteration:
                return
            except Exception:
                self.conversation = before
                raise
            finally:
                for one in (self, *(() if draft is None else (draft,))):
                    one._changes = one.session.state.changes  # noqa: SLF001  (another object of this class)
            yield piece

    def _write(self, sequences: Sequence[WrittenSequence]) -> Iterator[Piece]:
        pending = self._groups(sequences)
        while pending:
            group = pending.pop(0)
            logits = self._begun(group)
            if self.decoder.traits.batching is Batching.PADDED and np.isnan(logits).any():
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
            together = 0 if self.decoder.traits.batching is not Batching.EQUAL_LENGTHS else len(sequence.tokens)
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
        if self.decoder.traits.batching is Batching.EQUAL_LENGTHS and len({len(rest) for rest in rests}) > 1:
            self.decoder.begin(len(rests))
            rests = self._filled([list(sequence.tokens) for sequence in group])
        return self.decoder.feed(rests)

    def _continue(self, group: Sequence[WrittenSequence], logits: Array) -> Iterator[Piece]:
        """Write a group to its end, from the logits after the prompts."""
        while True:
            active = [(row, sequence) for row, sequence in enumerate(group) if sequence.stop is None]
            pieces = [sequence.add(sequence.choose(logits[row])) for row, sequence in active]
            left = [sequence for sequence in group if sequence.stop is None]
            if not left or self._has_room():
                yield from pieces
            else:
                # The others have room without the hidden tokens and the longer rows beside them.
                full = [sequence for sequence in left if len(sequence.tokens) > self.decoder.places]
                for piece, (_, sequence) in zip(pieces, active, strict=True):
                    yield sequence.end(piece, Stop.CONTEXT) if sequence in full else piece
                self.decoder.tokens = []
                yield from self._write([sequence for sequence in left if sequence not in full])
                return
            if not left:
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


def _decoder(session: ModelSession, roles: Roles | None, states: Mapping[str, StateKind] | None) -> Decoder:
    """The model of a session as a decoder."""
    if session.is_shared:
        raise OptionError(
            "The session has its states in common with others of a bundle, so that it does not know of which tokens they are. Write "
            "with a session of one program, program.session(…)."
        )
    signature = decoder_signature(session.model, roles)
    for state in session.types.values():
        if state.grows is not None and isinstance(state.dims[state.grows], int):
            raise OptionError(
                f"The state {state} was fixed to {state.dims[state.grows]} entries, of which a decoder cannot tell how many are "
                "written. Write with the program that has a symbol there."
            )
    forms = decoder_forms(session.model, signature, session.types)
    uses = state_uses(session.model, signature, states)
    traits = decoder_traits(session.model, forms, uses, is_windowed=bool(session.sizes.window))
    return Decoder(session, forms, traits)


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
    return {name: np.array(array) for name, array in inputs.items()}
