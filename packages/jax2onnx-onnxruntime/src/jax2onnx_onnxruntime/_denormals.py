"""Runs that take denormal numbers for zeros, as XLA does on processors; x86 computes with others up to a hundred times slower.

ONNX Runtime has an option for it (`session.set_denormal_as_zero`), which is about the threads of its own, and about the thread that opens
the first session of a process, for ever. The thread that calls a run takes part in it, and is made to do so for this time alone.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

__all__ = ["OPTION", "DenormalsAsZeros"]

OPTION = "session.set_denormal_as_zero"

# fenv_t of the C libraries of Linux on x86-64: its last word is the register MXCSR.
_Environment = ctypes.c_uint32 * 8
_MXCSR = 7
_FLUSH_RESULTS, _FLUSH_OPERANDS = 0x8000, 0x0040


@functools.cache
def _library() -> ctypes.PyDLL | None:
    """The C library; None on machines where nothing is to be done, or nothing known."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    library = ctypes.PyDLL(None)
    try:
        library.fegetenv, library.fesetenv  # noqa: B018
    except AttributeError:
        return None
    return library


class DenormalsAsZeros:
    """A block in which this thread takes denormal numbers for zeros; after it the thread does what it did before."""

    def __enter__(self) -> None:
        self._library = _library()
        if self._library is not None:
            self._before = _Environment()
            self._library.fegetenv(self._before)
            flushing = _Environment(*self._before)
            flushing[_MXCSR] |= _FLUSH_RESULTS | _FLUSH_OPERANDS
            self._library.fesetenv(flushing)

    def __exit__(self, *raised: object) -> None:
        if self._library is not None:
            self._library.fesetenv(self._before)
