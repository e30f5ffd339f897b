"""Arithmetic and functions of complex numbers, as pairs of real arrays."""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = (
    "arithmetic",
    "elementary",
    "inverse",
    "operations",
)
