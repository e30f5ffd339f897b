"""`len`, `max` and `min` in JAX's modules while functions are traced: a symbolic size is no number that Python's could return."""

from __future__ import annotations

import builtins
import contextlib
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator

import jax
from jax._src import core as _core

from jax2onnx_core._compat_dims import is_symbolic_dim
from jax2onnx_core.jaxprs import Dim

__all__ = ["builtins_of_sizes"]

#: Where JAX's functions ask for the lengths of arrays.
_PACKAGES = ("jax._src.numpy.", "jax._src.scipy.")


def _length(value: object) -> Dim:
    """`len`, a dimension where the first axis of a traced array has a symbolic size."""
    shape = value.shape if isinstance(value, jax.core.Tracer) else ()
    if shape and is_symbolic_dim(shape[0]):
        return shape[0]
    return builtins.len(value)  # type: ignore[arg-type]


def _extreme(python: Callable[..., object], of_two: Callable[[Dim, Dim], Dim]) -> Callable[..., object]:
    """Python's `max` or `min`, a dimension where a symbolic one is among the values."""

    def extreme(*args: object, **options: object) -> object:
        values = list(args[0] if len(args) == 1 else args)  # type: ignore[call-overload]
        if any(map(is_symbolic_dim, values)):
            return functools.reduce(of_two, values)
        return python(values, **options)

    return extreme


_FUNCTIONS = {"len": _length, "max": _extreme(max, _core.max_dim), "min": _extreme(min, _core.min_dim)}


class _Builtins:
    """The modules of JAX in which names of Python's functions are, while a trace is made, those of functions of sizes, too."""

    def __init__(self) -> None:
        self._lock, self._windows = threading.Lock(), 0
        self._put: list[tuple[types.ModuleType, str]] = []

    @contextlib.contextmanager
    def of_sizes(self) -> Iterator[None]:
        """Inside, JAX's functions take symbolic sizes for lengths of arrays."""
        self._enter(1)
        try:
            yield
        finally:
            self._enter(-1)

    def _enter(self, change: int) -> None:
        with self._lock:
            self._windows += change
            if change > 0 and self._windows == 1:
                modules = [module for name, module in list(sys.modules.items()) if name.startswith(_PACKAGES)]
                self._put = [(module, name) for module in modules for name in _FUNCTIONS if name not in vars(module)]
                for module, name in self._put:
                    setattr(module, name, _FUNCTIONS[name])
            elif not self._windows:
                for module, name in self._put:
                    delattr(module, name)


builtins_of_sizes = _Builtins().of_sizes
