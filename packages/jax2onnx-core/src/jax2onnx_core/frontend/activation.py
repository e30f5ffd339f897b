"""The activation window: calls that plugins declared become composites, seen in the functions' code, by any reference."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import FunctionType

import jax

from jax2onnx_core.frontend.composite import bind_composite
from jax2onnx_core.frontend.python_functions import copied, dispatching_code, function_behind
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.plugins.errors import PluginError
from jax2onnx_core.plugins.rules import Call, CompositeSpec, Replacement, qualified_name

__all__ = ["activation_window", "exporting", "named_modules"]

# JAX's trace caches are keyed by this value, so traces made inside a window stay inside it.
_trace_context = jax.make_user_context(default_value=None)
_thread = threading.local()
_lock = threading.Lock()


def exporting() -> bool:
    """Whether this thread is tracing a function for an export."""
    return vars(_thread).get("specs") is not None


@contextmanager
def activation_window(specs: Sequence[CompositeSpec], token: object) -> Iterator[None]:
    """Inside, calls of the specs' targets made by this thread are traced as composites.

    Targets whose module is not imported are skipped. Other threads see the original functions; on
    leaving, also by an exception, every function has its own code again. `token` keys JAX's trace caches.
    """
    imported = [spec for spec in specs if spec.target.partition(":")[0] in sys.modules]
    by_function = {function_behind(spec.target): spec for spec in reversed(imported)}
    with _trace_context(token), _patched(by_function), _thread_has(specs=by_function, traced={}):
        yield


@contextmanager
def named_modules(modules: Mapping[str, object]) -> Iterator[None]:
    """Inside, what this thread computes in a call of one of the modules (path → object) is named after its path."""
    calls = {function for m in modules.values() if isinstance(function := vars(type(m)).get("__call__"), FunctionType)}
    paths = {id(module): path for path, module in modules.items() if path}
    with _patched(calls), _thread_has(paths=paths, path=""):
        yield


@contextmanager
def _patched(functions: Iterable[FunctionType]) -> Iterator[None]:
    patches = [_patch_of(function) for function in functions]
    with _lock:
        for patch in patches:
            patch.enter()
    try:
        yield
    finally:
        with _lock:
            for patch in patches:
                patch.leave()


@contextmanager
def _thread_has(**values: object) -> Iterator[None]:
    """Inside, these are attributes of `_thread`."""
    outer = {name: vars(_thread).get(name) for name in values}
    vars(_thread).update(values)
    try:
        yield
    finally:
        vars(_thread).update(outer)


@contextmanager
def _scope_of(module: object) -> Iterator[None]:
    """Inside, JAX's name stack has the path of the module, as far as the module around it has not."""
    path = (vars(_thread).get("paths") or {}).get(id(module))
    if path is None:
        yield
        return
    with jax.named_scope(path.removeprefix(f"{_thread.path}.")), _thread_has(path=path):
        yield


class _Patch:
    """A function whose code calls `dispatch` while a window needs it, and a copy that keeps the code of its own."""

    def __init__(self, function: FunctionType) -> None:
        self.windows = 0
        self.function, self.code = function, function.__code__
        self.original = copied(function)
        self.intercepting = dispatching_code(self.code, self)
        # The signature is asked for by those who wrap the function during the window.
        has_one = not vars(function).keys().isdisjoint(("__signature__", "__wrapped__"))
        self.attributes = {} if has_one else {"__signature__": inspect.signature(function)}

    def enter(self) -> None:
        self.windows += 1
        if self.windows == 1:
            vars(self.function).update(self.attributes)
            self.function.__code__ = self.intercepting

    def leave(self) -> None:
        self.windows -= 1
        if not self.windows:
            self.function.__code__ = self.code
            for name in self.attributes:
                delattr(self.function, name)

    def dispatch(self, /, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """What a call of the function does inside a window of any thread."""
        with _scope_of(args[0]) if args else nullcontext():
            return self._call(args, kwargs)

    def _call(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> PyTree:
        spec = (vars(_thread).get("specs") or {}).get(self.function)
        call = _call_of(spec, self.original, args, kwargs) if spec else None
        if spec is None or call is None:
            return self.original(*args, **kwargs)
        if isinstance(call, Replacement):
            return call.value

        def traced_original() -> PyTree:
            traced_args, traced_kwargs = (args, kwargs) if call.arguments is None else call.arguments()
            return self.original(*traced_args, **traced_kwargs)

        return bind_composite(
            spec.name,
            call,
            traced_original,
            keep_under_vmap=spec.keep_under_vmap,
            traced=vars(_thread)["traced"].setdefault(spec.target, {}),
        )


_patch_of = functools.cache(_Patch)


def _call_of(
    spec: CompositeSpec, original: FunctionType, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
) -> Call | Replacement | None:
    """What the composite's function makes of a call; PluginError where it fails on one that the original takes."""
    try:
        call = spec.fn(*args, **kwargs)
    except Exception as error:
        original(*args, **kwargs)
        raise PluginError(
            f"The composite {qualified_name(spec.fn)} of {spec.target} failed: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(call, Call | Replacement | None):
        raise PluginError(
            f"The composite {qualified_name(spec.fn)} of {spec.target} returned {call!r:.80}, not a Call, a Replacement or None."
        )
    return call
