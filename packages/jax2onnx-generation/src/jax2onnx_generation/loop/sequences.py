"""`WrittenSequence`: one sequence that is being written: its tokens, its text, and what ends it."""

from __future__ import annotations

import math

import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import RuntimeInputError

from jax2onnx_generation.loop.requests import Request
from jax2onnx_generation.loop.results import Piece, Stop, Written
from jax2onnx_generation.texts.streams import StopTexts, TextStream

__all__ = ["WrittenSequence", "nan_error"]


class WrittenSequence:
    """One sequence that is being written.

    Args:
      number: that of its prompt.
      tokens: all tokens until now; new ones are added to this list.
      request: what shall be written.
      random: gives the random numbers.

    Attributes:
      ids: the new tokens.
      stop: why it ended; None while it goes on.
    """

    def __init__(self, number: int, tokens: list[int], request: Request, random: np.random.Generator) -> None:
        self.number, self.tokens, self.ids = number, tokens, list[int]()
        self.stop: Stop | None = None
        self.score: float | None = None
        self._request, self._random, self._text = request, random, list[str]()
        self._stream = None if request.tokenizer is None else TextStream(request.tokenizer, tokens)
        self._ends = StopTexts(request.ends.texts)

    def choose(self, logits: Array) -> int:
        """The next token for logits [V]."""
        # The largest of numbers among which there is NaN is NaN, with a penalty, too.
        sampling = self._request.sampling
        token = None if sampling.temperature else sampling.choose(logits, self.tokens, self._random)
        if math.isnan(logits[logits.argmax() if token is None else token]):
            raise nan_error(self.number, str(len(self.tokens)))
        return sampling.choose(logits, self.tokens, self._random) if token is None else token

    def guess(self, logits: Array, further: list[int]) -> int:
        """The token that a draft model would choose after further tokens."""
        return self._request.sampling.choose(logits, [*self.tokens, *further], self._random)

    @property
    def left(self) -> int:
        """Largest number of further tokens."""
        return self._request.ends.count - len(self.ids)

    def add(self, token: int) -> Piece:
        """Add a token; the piece of the sequence that it is."""
        self.tokens.append(token)
        self.ids.append(token)
        ends, text = self._request.ends, ""
        if token in ends.tokens:
            self.stop = Stop.TOKEN
        elif self._stream is not None:
            text = self._ends.add(self._stream.add(token))
            self.stop = Stop.TEXT if self._ends.found else None
        if self.stop is None and len(self.ids) == ends.count:
            self.stop = Stop.LENGTH
        return self._piece(token, text)

    def end(self, piece: Piece, stop: Stop) -> Piece:
        """The last piece, which ends the sequence."""
        self.stop = stop
        self._text.pop()
        return self._piece(piece.token, piece.text)

    def _piece(self, token: int, text: str) -> Piece:
        if self.stop is not None and self.stop is not Stop.TEXT and self._stream is not None:
            text += self._ends.add(self._stream.rest())
            self.stop = Stop.TEXT if self._ends.found else self.stop
            text += self._ends.rest()
        self._text.append(text)
        return Piece(self.number, token, text, self.stop)

    def written(self) -> Written:
        """The result, once it has ended."""
        assert self.stop is not None, "it has ended"
        return Written(list(self.ids), "".join(self._text), self.stop, self.score)


def nan_error(sequence: int, count: str) -> RuntimeInputError:
    """The error where the logits after so many tokens of a sequence are NaN."""
    return RuntimeInputError(
        f"The model returned NaN for sequence {sequence} after {count} tokens. program.verify() compares it with the function."
    )
