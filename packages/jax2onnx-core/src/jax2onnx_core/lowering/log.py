"""The record of an export: what was lowered how, what declined and why, what nobody claims."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jax2onnx_core.plugins.rules import Unsupported

__all__ = ["Missing", "Record"]


@dataclasses.dataclass
class Missing:
    """A primitive without a rule: how often it occurs, the first user line, why it cannot be."""

    count: int
    location: str | None
    declared: Unsupported | None


class Record:
    """Counts of what the engine did."""

    def __init__(self) -> None:
        self.ways: collections.Counter[tuple[str, str]] = collections.Counter()
        self.reasons: dict[tuple[str, str], int] = {}
        self.unsupported: dict[str, Missing] = {}

    def lowered(self, name: str, way: str) -> None:
        self.ways[name, way] += 1

    def declined(self, name: str, reason: str) -> None:
        self.reasons[name, reason] = self.reasons.get((name, reason), 0) + 1

    def missing(self, name: str, location: str | None, declared: Unsupported | None) -> None:
        found = self.unsupported.setdefault(name, Missing(0, location, declared))
        found.count += 1
