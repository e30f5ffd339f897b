"""Progress of long work, told to whoever listens, by default to nobody: exports, verification, calibration, saving."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

__all__ = ["Listener", "progress_to", "steps"]

_T = TypeVar("_T")

#: Takes the name of the stage, how many of its steps are done, and how many there are.
Listener = Callable[[str, int, int], None]


@dataclasses.dataclass
class _Listening:
    """A listener, and whether it is being told of a stage; stages inside of another are not told."""

    listener: Listener
    is_busy: bool = False


_LISTENING: contextvars.ContextVar[_Listening | None] = contextvars.ContextVar("jax2onnx_progress", default=None)


@contextlib.contextmanager
def progress_to(listener: Listener) -> Iterator[None]:
    """Tell a function of the progress of the work in the block: `listener(stage, done, total)`, first with 0 done.

    Stages are "lower" and "optimise" of an export, "verify", "calibrate" and "save". They come one after another.
    """
    token = _LISTENING.set(_Listening(listener))
    try:
        yield
    finally:
        _LISTENING.reset(token)


def steps(stage: str, items: Sequence[_T]) -> Iterable[_T]:
    """The items, of which each is a step of a stage that is done when the next is asked for."""
    listening = _LISTENING.get()
    return items if listening is None or listening.is_busy else _told(listening, stage, items)


def _told(listening: _Listening, stage: str, items: Sequence[_T]) -> Iterator[_T]:
    listening.is_busy = True
    try:
        for done, item in enumerate(items):
            listening.listener(stage, done, len(items))
            yield item
        listening.listener(stage, len(items), len(items))
    finally:
        listening.is_busy = False
