"""Recurrences that are linear in their state: scans that are computed for many steps at once."""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = ("linear_attention",)
