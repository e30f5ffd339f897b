"""`Unsuitable`: a scan is no linear recurrence that is computed faster than step by step."""

from __future__ import annotations

__all__ = ["Unsuitable"]


class Unsuitable(Exception):
    """A scan stays a loop; the text says why."""
