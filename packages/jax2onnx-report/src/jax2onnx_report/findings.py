"""`Findings`: what is known of a model besides the model itself, as the report shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from jax2onnx_graph.targets import Target

__all__ = ["Findings", "VerifiedOutput"]


@dataclasses.dataclass(frozen=True)
class VerifiedOutput:
    """An output of a model beside what it should be, in one run.

    Attributes:
      output: its name.
      where: the run: "B = 3".
      largest: the largest finite absolute difference.
      scale: the size of an ordinary number of the output.
      allowed: the absolute difference that is allowed of every element.
      detail: how many elements differ by more, and the first of them; empty if none does.
      is_known: whether the comparison says something: a number that the output should have is finite, or it has none.
    """

    output: str
    where: str
    largest: float
    scale: float
    allowed: float
    detail: str
    is_known: bool

    @property
    def is_close(self) -> bool:
        """Whether all elements are equal within the tolerance."""
        return not self.detail


@dataclasses.dataclass(frozen=True)
class Findings:
    """The findings about a model besides the model itself.

    Attributes:
      target: what it was made for.
      ways: (operation, way) → how often the operation was lowered in this way: by a "rule", a "decomposition", …
      reasons: (operation, reason) → how often a rule for the operation declined.
      notes: sentences that the user should read.
      verified: what verification found, output by output and run by run.
      accuracy: how far a model in fewer bits is off, as text.
      times: seconds by the names of nodes.
      timed_at: the sizes at which the times were measured: "B = 3"; empty where they are all fixed.
      not_formed: a sentence about each formula that is no operator of its own, with the reason.
    """

    target: Target | None = None
    ways: Mapping[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    reasons: Mapping[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    notes: Sequence[str] = ()
    verified: Sequence[VerifiedOutput] = ()
    accuracy: str = ""
    times: Mapping[str, float] = dataclasses.field(default_factory=dict)
    timed_at: str = ""
    not_formed: Sequence[str] = ()
