"""Recurrences that are recognised in the steps of scans: cells that are operators, and states that are linear, computed for many steps at once."""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = ("linear_attention",)
