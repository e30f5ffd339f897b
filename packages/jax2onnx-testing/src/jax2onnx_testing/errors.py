"""Errors of the testing kit."""

from __future__ import annotations

__all__ = ["CheckFailedError", "KnownLimitationError"]


class CheckFailedError(AssertionError):
    """A program fails a check of its case, or one that every program must pass."""


class KnownLimitationError(Exception):
    """The target that the tests are for refuses a case, or is known to get it wrong; the message says why."""
