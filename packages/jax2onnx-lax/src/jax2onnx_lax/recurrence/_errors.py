"""`UnsuitableError`: a scan is no linear recurrence that is computed faster than step by step."""

from __future__ import annotations

__all__ = ["UnsuitableError"]


class UnsuitableError(Exception):
    """A scan stays a loop; the text says why."""
