"""Reductions, windows, cumulative sums, sorting."""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = (
    "cumulative",
    "reduce_window",
    "reductions",
    "select_and_scatter",
    "sorting",
)
