"""Failures of optional forms: whatever goes wrong while a better form is sought declines it, except in tests, where it is raised."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator
from typing import TypeVar

__all__ = ["are_failures_raised", "attempt", "failures_raised"]

_Made = TypeVar("_Made")


@dataclasses.dataclass
class _Setting:
    """The number of blocks of `failures_raised` that the process is in."""

    blocks: int = 0


_SETTING = _Setting()

#: Whether an optional form is being made.
_IN_FORM = contextvars.ContextVar("_IN_FORM", default=False)


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


def attempt(form: Callable[[], _Made], failed: Callable[[str], None]) -> _Made | None:
    """The result of an optional form; None where it fails, unless failures are raised.

    A recursion without end declines the outermost form alone: inside of it, each of many levels would try its other forms, too.

    Args:
      form: makes the form.
      failed: is told the error in one line.
    """
    is_inner = _IN_FORM.get()
    token = _IN_FORM.set(True)
    try:
        return form()
    except Exception as error:
        if are_failures_raised() or (is_inner and isinstance(error, RecursionError)):
            raise
        failed(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
        return None
    finally:
        _IN_FORM.reset(token)
