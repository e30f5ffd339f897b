"""What became of the operations of a function, as counts and as a page of text."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.summary import interface_lines, size_lines

__all__ = ["LoweringLog", "Missing", "Unsupported", "report_text"]


@dataclasses.dataclass(frozen=True)
class Unsupported:
    """Why a primitive cannot be in an ONNX file, and what its user can do instead."""

    reason: str
    advice: str = ""


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


def report_text(model: ir.Model, opset: int, target: str, constraints: Sequence[str], log: LoweringLog) -> str:
    """The text of the report."""
    return "\n".join([
        f"ONNX program, opset {opset}, target {target}", *interface_lines(model),
        *(f"  constraint {constraint}" for constraint in constraints), *size_lines(model), *_lowering(log),
    ])  # fmt: skip


def _lowering(log: LoweringLog) -> Iterator[str]:
    by_way: dict[str, list[str]] = {}
    for (name, way), count in sorted(log.ways.items()):
        by_way.setdefault(way, []).append(f"{name} {count}")
    for way, names in by_way.items():
        yield f"lowered by {way}: " + ", ".join(names)
    for (name, reason), count in sorted(log.reasons.items()):
        yield f"declined: {name} ({count}×): {reason}"
    yield from log.notes
