"""The warning about state that a call changes and a model cannot keep: running statistics, counters, random keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["lost_state"]

_WHAT = "Every call of the model begins with the state at the export, and draws the same random numbers:"
_ADVICE = (
    "For inference, put the model into evaluation mode before the export: model.eval(), or what its framework has for it. "
    "State that is to be kept, and keys, can be inputs of the function, and new state a result."
)
_MOST_LINES = 8


def lost_state(written: Iterable[str], keys: Iterable[str], owners: Mapping[str, str]) -> str | None:
    """A text about state at the paths `written` and random keys at the paths `keys`; None if there are none."""
    facts: dict[str, dict[str, list[str]]] = {}
    for what, paths in (("changes", written), ("draws random numbers from the constant key", keys)):
        for path in paths:
            facts.setdefault(owners.get(path, "the function"), {}).setdefault(what, []).append(path or "without a name")
    if not facts:
        return None
    lines = [f"  {owner} {_listed(found)}" for owner, found in facts.items()]
    more = [f"  … and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return "\n".join([_WHAT, *lines[:_MOST_LINES], *more, _ADVICE])


def _listed(facts: Mapping[str, Sequence[str]]) -> str:
    return " and ".join(f"{what} {', '.join(paths)}" for what, paths in facts.items())
