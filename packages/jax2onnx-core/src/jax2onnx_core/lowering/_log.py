"""`LoweringLog`: what became of the operations of a function, and sentences about those that no plugin lowers."""

from __future__ import annotations

import collections
import dataclasses
import importlib.metadata
from collections.abc import Collection, Iterable, Iterator, Mapping

from jax2onnx_graph.rewrite.pass_base import NotFormed

from jax2onnx_core.plugins.rules import Unsupported

__all__ = ["LoweringLog", "Missing", "missing_text", "supplier_hints"]

_INLINE = (
    "A rule can be given inline: to_onnx(..., plugins=[plugin]), where plugin has a hook "
    "jax2onnx_register(registry) that calls registry.add(rules)."
)


@dataclasses.dataclass
class Missing:
    """A primitive without a rule: how often it occurs, where first, why it cannot be."""

    count: int
    location: str
    declared: Unsupported | None


class LoweringLog:
    """The record of how each operation was lowered.

    Attributes:
      notes: sentences about plugins, or parts of them, that failed and were left out.
      not_formed: the formulas that passes left as they are, with reasons.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.not_formed: list[NotFormed] = []
        self._ways: list[tuple[str, str]] = []
        self._reasons: list[tuple[str, str, bool]] = []
        self._missing: list[tuple[str, str, Unsupported | None]] = []

    @property
    def ways(self) -> collections.Counter[tuple[str, str]]:
        """Number of lowerings by operation and way: (operation, way) → count."""
        return collections.Counter(self._ways)

    @property
    def reasons(self) -> collections.Counter[tuple[str, str]]:
        """Number of declined rules by operation and reason: (operation, reason) → count."""
        return collections.Counter((name, reason) for name, reason, _ in self._reasons)

    @property
    def shown_reasons(self) -> collections.Counter[tuple[str, str]]:
        """`reasons` without those of rules that are for other operands."""
        return collections.Counter((name, reason) for name, reason, is_shown in self._reasons if is_shown)

    @property
    def unsupported(self) -> dict[str, Missing]:
        """The primitives that no plugin lowers."""
        found: dict[str, Missing] = {}
        for name, location, declared in self._missing:
            found.setdefault(name, Missing(0, location, declared)).count += 1
        return found

    def lowered(self, name: str, way: str) -> None:
        """An operation was lowered in this way: "rule", "decomposition", …"""
        self._ways.append((name, way))

    def declined(self, name: str, reason: str, *, is_shown: bool = True) -> None:
        """A rule for the operation declined; the reason is shown unless the rule is for other operands."""
        self._reasons.append((name, reason, is_shown))

    def missing(self, name: str, location: str, declared: Unsupported | None) -> None:
        """No plugin lowers the primitive; `declared` is what one says about that."""
        self._missing.append((name, location, declared))

    def mark(self) -> tuple[int, int, int]:
        """Position in the log, for `roll_back`."""
        return len(self._ways), len(self._reasons), len(self._missing)

    def missing_since(self, mark: tuple[int, int, int]) -> list[str]:
        """The primitives that were found to be missing since `mark`, each once."""
        return list(dict.fromkeys(name for name, *_ in self._missing[mark[2] :]))

    def roll_back(self, mark: tuple[int, int, int]) -> None:
        """Forget what the engine did since `mark`."""
        del self._ways[mark[0] :], self._reasons[mark[1] :], self._missing[mark[2] :]


def missing_lines(log: LoweringLog, family: str, installed: Collection[str]) -> Iterator[str]:
    """A line about each primitive that no plugin lowers: where it is, and why that is so or what supplies it.

    By convention, the distribution `jax2onnx-<family>` supplies what is called `<family>.<operation>`.

    Args:
      log: what was lowered.
      family: that of primitives whose name has none.
      installed: the names of the installed distributions.
    """
    for name, missing in sorted(log.unsupported.items()):
        times = f"{missing.count} times, first" if missing.count > 1 else "once,"
        line = f"  {name}: {times} at {missing.location}"
        shown, all_reasons = (
            [reason for declined, reason in found if declined == name] for found in (log.shown_reasons, log.reasons)
        )
        reasons = shown or all_reasons
        supplier = f"jax2onnx-{name.partition('.')[0] if '.' in name else family}"
        if missing.declared is not None:
            line += f". {missing.declared.reason} {missing.declared.advice}".rstrip()
        elif reasons:
            line += f". Its rules declined: {'; '.join(reasons)}"
        elif supplier not in installed:
            line += f". It is supplied by {supplier}: pip install {supplier}"
        yield line


def missing_text(log: LoweringLog, family: str, notes: Iterable[str]) -> str:
    """The text of the error about primitives that no plugin lowers; `notes` are sentences about plugins that failed."""
    installed = {distribution.name for distribution in importlib.metadata.distributions()}
    return "\n".join([
        "No installed plugin can lower these primitives:", *missing_lines(log, family, installed), *notes,
        _INLINE,
    ])  # fmt: skip


def supplier_hints(classes: Iterable[type], suppliers: Mapping[str, str], installed: Collection[str]) -> Iterator[str]:
    """A sentence for each library of `suppliers` (module → distribution) whose classes are used while its distribution is
    not installed.
    """
    homes = {cls.__module__ for cls in classes}
    for module, distribution in suppliers.items():
        if distribution not in installed and any(f"{home}.".startswith(f"{module}.") for home in homes):
            yield f"{module} is in use: pip install {distribution} names its weights and recognises its layers."
