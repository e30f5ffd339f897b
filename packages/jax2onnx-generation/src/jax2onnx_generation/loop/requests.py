"""`Request`: what shall be written, checked and with the prompts as tokens."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError, RuntimeInputError

from jax2onnx_generation.sampling import Sampling, is_number, is_whole
from jax2onnx_generation.texts.tokenizer import Tokenizer

__all__ = ["Beams", "Ends", "Prompt", "Request", "Stops", "ends_of", "prompt_rows"]

#: Ids, a batch of rows of ids, a text, or a batch of texts.
Prompt = str | Array | Sequence[int] | Sequence[str] | Sequence[Sequence[int]]
#: A token or a text that ends a sequence, or several of them.
Stops = int | str | Sequence[int | str]


# The powers of e up to this one, and their reciprocals, are numbers.
_LARGEST_EXPONENT = 700


@dataclasses.dataclass(frozen=True)
class Ends:
    """The ends of a sequence.

    Attributes:
      count: how many new tokens there are at most.
      tokens: the stop tokens.
      texts: the stop texts.
    """

    count: int
    tokens: frozenset[int] = frozenset()
    texts: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Beams:
    """A search among several continuations.

    Attributes:
      width: how many are kept.
      length_penalty: the logarithm of the probability of a continuation is divided by its length to this power.
    """

    width: int = 1
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not is_whole(self.width, 1):
            raise OptionError(f"beams={self.width!r}, but it is a whole number from 1 on.")
        if not is_number(self.length_penalty) or not math.isfinite(self.length_penalty):
            raise OptionError(
                f"length_penalty={self.length_penalty!r}, but it is a number; 0 compares beams by their probabilities alone."
            )


@dataclasses.dataclass(frozen=True)
class Request:
    """A request for tokens.

    Attributes:
      ends: what ends a sequence.
      sampling: how tokens are chosen.
      tokenizer: the tokenizer, if there is one.
      beams: the search.
      chunk: how many tokens of a prompt are fed in a run at most; None for all.
      drafts: how many tokens a draft model proposes at once.
    """

    ends: Ends
    sampling: Sampling = dataclasses.field(default_factory=Sampling)
    tokenizer: Tokenizer | None = None
    beams: Beams = dataclasses.field(default_factory=Beams)
    chunk: int | None = None
    drafts: int = 4

    def __post_init__(self) -> None:
        if self.ends.texts and self.tokenizer is None:
            raise OptionError(
                "stop: a stop text needs a tokenizer, tokenizer='tokenizer.json'; without one, give stop tokens."
            )
        if self.beams.width > 1 and (
            self.sampling.temperature or self.sampling.repetition_penalty != 1 or self.ends.texts
        ):
            raise OptionError(
                "beams are compared by their probabilities: they have no temperature, no penalty and no stop texts."
            )
        if abs(self.beams.length_penalty) * math.log(self.ends.count) > _LARGEST_EXPONENT:
            raise OptionError(
                f"length_penalty={self.beams.length_penalty!r}, but {self.ends.count} new tokens to this power are no number."
            )
        for option, number in (
            ("prefill_chunk", 1 if self.chunk is None else self.chunk),
            ("draft_tokens", self.drafts),
        ):
            if not is_whole(number, 1):
                raise OptionError(f"{option}={number!r}, but it is a whole number from 1 on.")


def ends_of(count: int, stop: Stops) -> Ends:
    """The ends of a sequence: after so many tokens, or by a token or a text in `stop`, one or several of them.

    Raises:
      OptionError: something else is given.
    """
    if not is_whole(count, 1):
        raise OptionError(f"max_new_tokens={count!r}, but it is a whole number from 1 on.")
    given: Iterable[object] = stop if isinstance(stop, Iterable) and not isinstance(stop, str | bytes) else [stop]
    tokens, texts = set(), []
    for one in given:
        if isinstance(one, str) and one:
            texts.append(one)
        elif isinstance(one, int | np.integer) and not isinstance(one, bool):
            tokens.add(int(one))
        else:
            raise OptionError(f"stop has tokens and texts, [2, 'END'], not {one!r:.80}.")
    return Ends(count, frozenset(tokens), tuple(texts))


def prompt_rows(
    prompt: Prompt, tokenizer: Tokenizer | None, vocabulary: int | None, before: Sequence[Sequence[int]] = ()
) -> list[list[int]]:
    """The tokens of each prompt.

    Args:
      prompt: ids, rows of ids, a text or texts.
      tokenizer: the tokenizer, for texts.
      vocabulary: how many tokens the model has, if that is known.
      before: the tokens that each prompt follows; no token begins a text that follows some.

    Raises:
      RuntimeInputError: it is none of these, or has a token that the model lacks.
    """
    rows: list[list[int]] = []
    for number, one in enumerate(_prompts(prompt)):
        if not isinstance(one, str):
            rows.append(_ids(one))
        elif tokenizer is None:
            raise RuntimeInputError("The prompt is a text: give tokenizer='tokenizer.json', or the ids of its tokens.")
        else:
            begins = number >= len(before) or not before[number]
            rows.append(list(tokenizer.encode(one, add_special_tokens=begins).ids))
    for row in rows:
        if wrong := [token for token in row if token < 0 or (vocabulary is not None and token >= vocabulary)]:
            raise RuntimeInputError(
                f"The prompt has the token {wrong[0]}, but those of the model are from 0 to {(vocabulary or 0) - 1}."
                if vocabulary is not None else f"The prompt has the token {wrong[0]}, but tokens are numbers from 0 on."
            )  # fmt: skip
    return rows


def _prompts(prompt: Prompt) -> list[object]:
    """The prompts one by one, texts or ids."""
    if isinstance(prompt, str):
        return [prompt]
    # The numbers of bytes are no tokens.
    if not isinstance(prompt, Sequence | np.ndarray) or isinstance(prompt, bytes | bytearray | memoryview):
        raise _wrong(prompt)
    if isinstance(prompt, np.ndarray) and prompt.ndim != 1:
        return list(prompt) if prompt.ndim else [prompt]
    items = list(prompt)
    if items and all(isinstance(item, str) or (not isinstance(item, int | np.integer)) for item in items):
        return items
    return [items]


def _ids(given: object) -> list[int]:
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise _wrong(given) from error
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise _wrong(given)
    return [int(token) for token in array]


def _wrong(given: object) -> RuntimeInputError:
    return RuntimeInputError(
        f"A prompt is a list of ids, a list of such lists, a text or a list of texts, not {given!r:.80}."
    )
