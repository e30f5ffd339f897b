"""`Names`: deterministic, unique names for the values and nodes of one model."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Names"]


class Names:
    """The names that are taken in one model, those in `taken` to begin with."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._counts = dict.fromkeys(taken, 0)

    def unique(self, base: str) -> str:
        """`base`, or `base_1`, `base_2`, … where it is taken."""
        count = self._counts.get(base)
        if count is None:
            self._counts[base] = 0
            return base
        while True:
            count += 1
            candidate = f"{base}_{count}"
            if candidate not in self._counts:
                self._counts[base] = count
                self._counts[candidate] = 0
                return candidate
