"""Functions whose results have sizes that depend on data: masks, numbers that are sizes, sets."""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = (
    "branches",
    "creation",
    "masks",
    "resized",
    "searching",
    "selections",
    "sets",
    "slices",
    "unknown",
)
