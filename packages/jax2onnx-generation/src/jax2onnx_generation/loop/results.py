"""The results of writing: pieces while it goes on, sequences when it is done."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

__all__ = ["Generation", "Piece", "Stop", "Written"]


class Stop(enum.Enum):
    """Reasons for the end of a sequence."""

    TOKEN = "a stop token"  # noqa: S105  (no password)
    TEXT = "a stop text"
    LENGTH = "the number of new tokens"
    CONTEXT = "a full context"


@dataclasses.dataclass(frozen=True)
class Piece:
    """One new token.

    Attributes:
      sequence: the number of its sequence among the prompts.
      token: the token.
      text: the text that is certain with it; empty while a character has further tokens, a stop text may have begun, or there is
        no tokenizer.
      stop: why the sequence ended with it; None while it goes on.
    """

    sequence: int
    token: int
    text: str
    stop: Stop | None


@dataclasses.dataclass(frozen=True)
class Written:
    """The tokens that were written after one prompt.

    Attributes:
      ids: the new tokens, with the stop token or those of the stop text.
      text: their text without these; empty without a tokenizer.
      stop: why it ended.
      score: the score of a beam; None without beams.
    """

    ids: list[int]
    text: str
    stop: Stop
    score: float | None = None


@dataclasses.dataclass(frozen=True)
class Generation:
    """The sequences that were written, and how fast.

    Attributes:
      sequences: one for each prompt.
      prompt_tokens: how many tokens of prompts were fed.
      seconds: how long it took.
      drafted: how many tokens a draft model proposed.
      accepted: how many of these were right.
    """

    sequences: Sequence[Written]
    prompt_tokens: int
    seconds: float
    drafted: int = 0
    accepted: int = 0

    @property
    def ids(self) -> list[list[int]]:
        """The new tokens after each prompt."""
        return [written.ids for written in self.sequences]

    @property
    def texts(self) -> list[str]:
        """The text after each prompt."""
        return [written.text for written in self.sequences]

    @property
    def text(self) -> str:
        """The text after the first prompt."""
        return self.sequences[0].text

    @property
    def stops(self) -> list[Stop]:
        """Reason for the end of each sequence."""
        return [written.stop for written in self.sequences]

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of all sequences together, the time for the prompts included."""
        return sum(len(written.ids) for written in self.sequences) / max(self.seconds, 1e-9)

    @property
    def accept_rate(self) -> float:
        """Share of the drafted tokens that the model accepted; 0 without a draft model."""
        return self.accepted / self.drafted if self.drafted else 0.0

    def __repr__(self) -> str:
        count = sum(len(written.ids) for written in self.sequences)
        ends = ", ".join(dict.fromkeys(stop.value for stop in self.stops))
        return f"Generation({len(self.sequences)} sequences, {count} tokens, {self.tokens_per_second:.0f} a second, ended by {ends})"
