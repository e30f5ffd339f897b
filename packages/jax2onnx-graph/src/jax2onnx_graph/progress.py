"""Progress of long work, told to whoever listens, by default to a bar in a notebook and else to nobody."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from jax2onnx_graph._notebook_bar import NotebookBar, notebook_display

__all__ = ["Listener", "progress_to", "steps"]

_T = TypeVar("_T")

#: Takes the name of the stage, how many of its steps are done, and how many there are.
Listener = Callable[[str, int, int], None]


@dataclasses.dataclass
class _Listening:
    """A listener, what is called at the end of each stage, and whether it is being told of one; those inside of it are not told."""

    listener: Listener
    close: Callable[[], None] = lambda: None
    is_busy: bool = False


_LISTENING: contextvars.ContextVar[_Listening | None] = contextvars.ContextVar("jax2onnx_progress", default=None)


@contextlib.contextmanager
def progress_to(listener: Listener) -> Iterator[None]:
    """Tell a function of the progress of the work in the block: `listener(stage, done, total)`, first with 0 done.

    Stages are "lower" and "optimise" of an export, "verify", "calibrate", "benchmark" and "save". They come one after another. In the
    kernel of a notebook, work of more than half a second shows a bar without this; `progress_to(lambda *_: None)` shows none.
    """
    token = _LISTENING.set(_Listening(listener))
    try:
        yield
    finally:
        _LISTENING.reset(token)


def steps(stage: str, items: Sequence[_T]) -> Iterable[_T]:
    """The items, of which each is a step of a stage that is done when the next is asked for."""
    listening = _LISTENING.get() or _notebook()
    return items if listening is None or listening.is_busy else _told(listening, stage, items)


def _notebook() -> _Listening | None:
    """A bar in the notebook, where there is one; it listens to this context from now on, so that inner stages are not told."""
    display = notebook_display()
    if display is None:
        return None
    bar = NotebookBar(display)
    listening = _Listening(bar, bar.close)
    _LISTENING.set(listening)
    return listening


def _told(listening: _Listening, stage: str, items: Sequence[_T]) -> Iterator[_T]:
    listening.is_busy = True
    try:
        for done, item in enumerate(items):
            listening.listener(stage, done, len(items))
            yield item
        listening.listener(stage, len(items), len(items))
    finally:
        listening.is_busy = False
        listening.close()
