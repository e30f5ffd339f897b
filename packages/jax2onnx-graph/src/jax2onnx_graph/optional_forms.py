"""Failures of optional forms: whatever goes wrong while a better form is sought declines it, except in tests, where it is raised."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

__all__ = ["are_failures_raised", "failures_raised"]


@dataclasses.dataclass
class _Setting:
    """The number of blocks of `failures_raised` that the process is in."""

    blocks: int = 0


_SETTING = _Setting()


@contextlib.contextmanager
def failures_raised() -> Iterator[None]:
    """In the block, failures of optional forms are raised, in every thread: tests find defects by them that users need not see."""
    _SETTING.blocks += 1
    try:
        yield
    finally:
        _SETTING.blocks -= 1


def are_failures_raised() -> bool:
    """Whether an optional form that fails raises its error; otherwise it declines, with the error as its reason."""
    return _SETTING.blocks > 0
