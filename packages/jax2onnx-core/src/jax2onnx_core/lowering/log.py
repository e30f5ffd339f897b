"""`LoweringLog`: what was lowered how, what declined and why, what nobody claims."""

from __future__ import annotations

import collections
import dataclasses

from jax2onnx_core.plugins.rules import Unsupported

__all__ = ["LoweringLog", "Missing"]


@dataclasses.dataclass
class Missing:
    """A primitive without a rule: how often it occurs, the first user line, why it cannot be."""

    count: int
    location: str | None
    declared: Unsupported | None


class LoweringLog:
    """Counts of what the engine did.

    Attributes:
      ways: how often each operation was lowered in which way: (operation, way) → count.
      reasons: why rules declined: (operation, reason) → count.
      unsupported: the primitives that nobody lowers.
      notes: sentences about plugins, or parts of them, that failed and were left out.
    """

    def __init__(self) -> None:
        self.ways: collections.Counter[tuple[str, str]] = collections.Counter()
        self.reasons: collections.Counter[tuple[str, str]] = collections.Counter()
        self.unsupported: dict[str, Missing] = {}
        self.notes: list[str] = []

    def lowered(self, name: str, way: str) -> None:
        """An operation was lowered in this way: "rule", "decomposition", …"""
        self.ways[name, way] += 1

    def declined(self, name: str, reason: str) -> None:
        """A rule for the operation declined."""
        self.reasons[name, reason] += 1

    def missing(self, name: str, location: str | None, declared: Unsupported | None) -> None:
        """No plugin lowers the primitive; `declared` is what one says about that."""
        found = self.unsupported.setdefault(name, Missing(0, location, declared))
        found.count += 1
