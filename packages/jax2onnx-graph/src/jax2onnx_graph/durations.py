"""Times as people read them."""

from __future__ import annotations

__all__ = ["duration_text"]


def duration_text(seconds: float) -> str:
    """A time with three digits.

    >>> [duration_text(seconds) for seconds in (2.5, 0.00123, 4.2e-05)]
    ['2.5 s', '1.23 ms', '42 µs']
    """
    unit, size = next((unit, size) for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 0.0)) if seconds >= size)
    return f"{seconds / (size or 1e-6):.3g} {unit}"
