"""Arithmetic, comparison, logic, bits and conversions, element by element."""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = (
    "arithmetic",
    "bits",
    "comparison",
    "conversion",
    "integer",
)
