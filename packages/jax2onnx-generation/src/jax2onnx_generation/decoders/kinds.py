"""The kinds of states that decoders have."""

from __future__ import annotations

import dataclasses
import enum

__all__ = ["Kind", "StateKind"]


class Kind(enum.Enum):
    """Kinds of change of a state in a run."""

    GROWS = "gets further entries"
    CACHE = "is written at the places of the tokens"
    COUNTER = "counts the tokens"
    OTHER = "changes as a whole"


@dataclasses.dataclass(frozen=True)
class StateKind:
    """Change of a state in a run, with its axis.

    Attributes:
      kind: the kind.
      axis: the axis of the places, of a state that grows or is written at places.
      rolls: whether places past the end begin anew, rather than being lost.
    """

    kind: Kind
    axis: int = 0
    rolls: bool = False
