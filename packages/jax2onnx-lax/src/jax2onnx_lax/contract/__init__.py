"""Products of arrays: `dot_general` and convolutions."""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = (
    "conv",
    "dot_general",
)
