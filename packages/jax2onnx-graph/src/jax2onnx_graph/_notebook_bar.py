"""`NotebookBar`: progress of long work in the output of a notebook's cell, as HTML that is updated in place."""

from __future__ import annotations

import html
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

__all__ = ["NotebookBar", "notebook_display"]

# Work that is done sooner shows nothing.
_SHOWN_AFTER = 0.5
_BETWEEN_UPDATES = 0.1


class _Handle(Protocol):
    """An output of a cell that was displayed."""

    def update(self, data: Mapping[str, str], *, raw: bool) -> None:
        """Show other data, by their media types, in its place."""


class Display(Protocol):
    """`IPython.display.display`."""

    def __call__(self, data: Mapping[str, str], *, raw: bool, display_id: bool) -> _Handle:
        """Display data by their media types."""


def notebook_display() -> Display | None:
    """IPython's function that displays outputs of a cell, in the main thread of a kernel; None anywhere else."""
    if "IPython" not in sys.modules or threading.current_thread() is not threading.main_thread():
        return None
    shell = sys.modules["IPython"].get_ipython()
    if shell is None or "IPKernelApp" not in shell.config:
        return None
    display: Display = sys.modules["IPython"].display.display
    return display


class NotebookBar:
    """A bar for one stage after another, which disappears when a stage is over.

    Args:
      display: displays outputs of a cell.
      clock: the time in seconds.
    """

    def __init__(self, display: Display, clock: Callable[[], float] = time.monotonic) -> None:
        self._display, self._clock = display, clock
        self._began = self._updated = clock()
        self._handle: _Handle | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show the number of finished steps of a stage."""
        now = self._clock()
        if done == 0:
            self._began = self._updated = now
        elif now - self._began < _SHOWN_AFTER or (self._handle is not None and now - self._updated < _BETWEEN_UPDATES):
            return
        else:
            self._updated = now
            self._show(f"{stage}: {done} of {total}, {now - self._began:.0f} s", done, total)

    def _show(self, text: str, done: int, total: int) -> None:
        bar = f'<progress value="{done}" max="{total}"></progress> {html.escape(text)}'
        data = {"text/html": bar, "text/plain": text}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def close(self) -> None:
        """Remove the bar."""
        if self._handle is not None:
            self._handle.update({"text/html": "", "text/plain": ""}, raw=True)
            self._handle = None
