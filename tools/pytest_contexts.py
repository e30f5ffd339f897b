"""A pytest plugin: JAX 0.10 lowers several programs in one MLIR context, as later versions do by themselves.

Loaded by the nox sessions that run tests (`-p pytest_contexts`). A new context for each takes a quarter of the time that a small
program needs until it runs, and tests have many small programs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

#: Programs in one context, as many as in later versions: it keeps the constants of all of them.
PROGRAMS = 10


class Contexts(threading.local):
    """Gives each thread a context of its own, and a new one after so many programs."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make, self._left = make, 0

    def __call__(self) -> object:
        if self._left == 0:
            self._context, self._left = self._make(), PROGRAMS
        self._left -= 1
        return self._context


def pytest_collection_finish() -> None:
    """Where tests run: the process that only talks to the terminal collects nothing, and needs no JAX."""
    import jax
    from jax._src.interpreters import mlir

    if jax.__version_info__ < (0, 11):
        mlir.make_ir_context = Contexts(mlir.make_ir_context)
