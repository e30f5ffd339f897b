"""Conditionals, loops, calls and effects."""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = (
    "associative_scans",
    "calls",
    "conditionals",
    "effects",
    "pallas",
    "scans",
    "while_loops",
)
