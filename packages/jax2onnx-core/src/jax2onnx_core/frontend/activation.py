"""The activation window: calls that plugins declared become composites, seen in the functions' code, by any reference."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import threading
import weakref
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import CodeType, FunctionType

import jax
from jax2onnx_graph.optional_forms import are_failures_raised

from jax2onnx_core._compat_builtins import builtins_of_sizes
from jax2onnx_core._compat_dims import inconclusive_dimension_error
from jax2onnx_core.frontend._composite import TracedOriginal, bind_composite
from jax2onnx_core.frontend.claims import Claim, JaxFunctions, claim_of
from jax2onnx_core.frontend.python_functions import copied, dispatching_code, function_behind, may_dispatch
from jax2onnx_core.frontend.sizes import tracing_sizes
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.plugins.errors import PluginError
from jax2onnx_core.plugins.rules import Call, CompositeSpec, Replacement, qualified_name
from jax2onnx_core.symbols.symbols import Symbols

__all__ = ["activation_window", "exporting", "forget_traces", "named_modules"]

# JAX's trace caches are keyed by this value, so traces made inside a window stay inside it.
_trace_context = jax.make_user_context(default_value=None)
# What it is for the token of a window: another object as soon as a trace is made that no other may share: its sizes are from data,
# or it asked questions that have to be asked again.
_contexts: weakref.WeakKeyDictionary[object, object] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class _Window:
    """The windows that a thread is in.

    Attributes:
      specs: function → the composite that its calls are traced as; None outside of an activation window.
      declined: operation and reason of each call that is traced as it is, because something of its library was changed.
      traced: function that a composite claims → the jaxprs that were traced for it.
      paths: id of a module → its path.
      path: the path of the module whose call is traced.
      jax: the functions of JAX as they were when the window was opened.
    """

    specs: Mapping[FunctionType, CompositeSpec] | None = None
    declined: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    traced: dict[str, dict[Hashable, TracedOriginal]] = dataclasses.field(default_factory=dict)
    paths: Mapping[int, str] = dataclasses.field(default_factory=dict)
    path: str = ""
    jax: JaxFunctions | None = None

    def of_calls(self, specs: Mapping[FunctionType, CompositeSpec]) -> _Window:
        """An activation window inside of this one."""
        return dataclasses.replace(self, specs=specs, declined=[], traced={}, jax=JaxFunctions(_own_code))

    def of_modules(self, paths: Mapping[int, str]) -> _Window:
        """A window inside of this one in which modules have these paths."""
        return dataclasses.replace(self, paths=paths, path="")

    def of_module(self, path: str) -> _Window:
        """A window inside of this one, for the call of a module."""
        return dataclasses.replace(self, path=path)


class _Thread(threading.local):
    """The state of one thread."""

    window = _Window()


_thread = _Thread()


def exporting() -> bool:
    """Whether this thread is tracing a function for an export."""
    return _thread.window.specs is not None


@contextmanager
def activation_window(
    specs: Sequence[CompositeSpec], token: object, symbols: Symbols | None = None
) -> Iterator[list[tuple[str, str]]]:
    """Inside, calls of the claimed functions that this thread makes are traced as composites.

    Functions whose module is not imported are skipped. Other threads see the original functions; on
    leaving, also by an exception, every function has its own code again. `token` keys JAX's trace caches.
    The list of the window gets the operation and the reason of each call that is traced as it is, because something that
    the call uses is not what the library wrote. Where there are `symbols`, shapes may have sizes from data, which become
    symbols; no trace that has one is used twice.
    """
    imported = [spec for spec in specs if spec.claimed.partition(":")[0] in sys.modules]
    by_function: dict[FunctionType, CompositeSpec] = {}
    gone: list[tuple[str, str]] = []
    for spec in reversed(imported):
        try:
            by_function[function_behind(spec.claimed)] = spec
        except PluginError as error:  # another version of the library, or a patch: there is nothing to intercept
            gone.append((spec.name, str(error)))
    with ExitStack() as stack:
        stack.enter_context(_trace_context(_contexts.get(token, token) if symbols else token))
        stack.enter_context(_patched(by_function))
        stack.enter_context(builtins_of_sizes())
        if symbols is not None:
            stack.enter_context(tracing_sizes(symbols, functools.partial(_renew, token, stack)))
        window = _thread.window.of_calls(by_function)
        window.declined.extend(gone)
        with _inside(window):
            yield window.declined


def _renew(token: object, stack: ExitStack) -> None:
    """Let no later trace, in this window or another one of the token, find those so far in JAX's caches."""
    forget_traces(token)
    stack.enter_context(_trace_context(object()))


def forget_traces(token: object) -> None:
    """Let no later window of the token find the traces so far in JAX's caches."""
    _contexts[token] = object()


@contextmanager
def named_modules(modules: Mapping[str, object]) -> Iterator[None]:
    """Inside, what this thread computes in a call of one of the modules (path → object) is named after its path."""
    calls = {function for m in modules.values() if isinstance(function := vars(type(m)).get("__call__"), FunctionType)}
    paths = {id(module): path for path, module in modules.items() if path}
    with _patched(calls), _inside(_thread.window.of_modules(paths)):
        yield


@contextmanager
def _patched(functions: Iterable[FunctionType]) -> Iterator[None]:
    with _lock:  # it guards the making of patches, too: a function has one
        patches = [_patch_of(function) for function in functions]
        for patch in patches:
            patch.enter()
    try:
        yield
    finally:
        with _lock:
            for patch in patches:
                patch.leave()


@contextmanager
def _inside(window: _Window) -> Iterator[None]:
    """Inside, the window is that of this thread."""
    outer, _thread.window = _thread.window, window
    try:
        yield
    finally:
        _thread.window = outer


@contextmanager
def _scope_of(module: object) -> Iterator[None]:
    """Inside, JAX's name stack has the path of the module, as far as the module around it has not."""
    path = _thread.window.paths.get(id(module))
    if path is None:
        yield
        return
    with jax.named_scope(path.removeprefix(f"{_thread.window.path}.")), _inside(_thread.window.of_module(path)):
        yield


class _Patch:
    """A function whose code calls `dispatch` while a window needs it, and a copy that keeps the code of its own."""

    def __init__(self, function: FunctionType) -> None:
        self.windows = 0
        self.function = function
        self._read()
        # The signature is asked for by those who wrap the function during the window.
        has_one = not vars(function).keys().isdisjoint(("__signature__", "__wrapped__"))
        self.attributes = {} if has_one else {"__signature__": inspect.signature(function)}

    def _read(self) -> None:
        """Take the function as it is now."""
        self.code = self.function.__code__
        self.original = copied(self.function)
        self.intercepting = dispatching_code(self.code, self)

    @property
    def _is_changed(self) -> bool:
        """Whether the function has other code or other defaults than when it was read."""
        now, read = self.function, self.original
        return (
            now.__code__ is not self.code
            or now.__defaults__ is not read.__defaults__
            or now.__kwdefaults__ is not read.__kwdefaults__
        )

    def enter(self) -> None:
        self.windows += 1
        if self.windows == 1:
            if self._is_changed:
                self._read()
            for name, value in self.attributes.items():
                setattr(self.function, name, value)
            self.function.__code__ = self.intercepting

    def leave(self) -> None:
        self.windows -= 1
        if not self.windows:
            self.function.__code__ = self.code
            for name in self.attributes:
                delattr(self.function, name)

    def dispatch(self, /, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the function, as this thread's window says."""
        with _scope_of(args[0]) if args else nullcontext():
            return self._call(args, kwargs)

    def _call(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> PyTree:
        window = _thread.window
        spec = window.specs.get(self.function) if window.specs else None
        if spec is None:
            return self.original(*args, **kwargs)
        if spec.recovers:
            return self._recovered(spec, args, kwargs)
        claim = claim_of(spec.claimed, self.function, spec.fn, _own_code)
        call, change = self._answer(spec, claim, window, args, kwargs)
        if change is not None:
            window.declined.append((spec.name, change))
        if isinstance(call, Replacement):
            return call.value
        if call is None:
            return self.original(*args, **kwargs)

        return bind_composite(
            spec.name,
            call,
            functools.partial(self.original, *args, **kwargs),
            keep_under_vmap=spec.keep_under_vmap,
            traced=window.traced.setdefault(spec.claimed, {}),
        )

    def _answer(
        self, spec: CompositeSpec, claim: Claim, window: _Window, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> tuple[Call | Replacement | None, str | None]:
        """The operation or value in the place of a call, None for the call as it is; and what was changed, if that is why."""
        is_plain = claim.owner is None
        # The composite of a plain function says more quickly than the claim that a call is not its own.
        call = self._claimed(spec, args, kwargs) if is_plain else None
        if is_plain and call is None:
            return None, None
        change = claim.change(args) or (window.jax.change() if window.jax else None)
        if change is not None:
            return None, change
        if not is_plain:
            call = self._claimed(spec, args, kwargs)
        change = claim.change_of_parts(args) if isinstance(call, Call) else None
        return (None if change is not None else call), change

    def _recovered(self, spec: CompositeSpec, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> PyTree:
        """The result of the function, or that of the composite's function where it raises TypeError or asks for the number of a dimension."""
        try:
            return self.original(*args, **kwargs)
        except (TypeError, inconclusive_dimension_error):
            call = self._claimed(spec, args, kwargs)
            if not isinstance(call, Replacement):
                raise
            return call.value

    def _claimed(
        self, spec: CompositeSpec, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> Call | Replacement | None:
        """The composite's call or replacement; None, with a noted reason, where it fails, so that the original is traced."""
        try:
            return _call_of(spec, args, kwargs)
        except PluginError as error:
            if are_failures_raised():
                self.original(*args, **kwargs)  # a call that this refuses is the user's error
                raise
            _thread.window.declined.append((spec.name, str(error).strip().partition("\n")[0]))
            return None


_patch_of = functools.cache(_Patch)


def _own_code(function: FunctionType) -> CodeType:
    """The code that a function has outside of all windows."""
    code = function.__code__
    if not may_dispatch(code):  # hundreds of functions are asked for in each window
        return code
    return next((const.code for const in code.co_consts if isinstance(const, _Patch)), code)


def _call_of(spec: CompositeSpec, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> Call | Replacement | None:
    """The result of the composite's function for a call; PluginError where it fails."""
    try:
        call = spec.fn(*args, **kwargs)
    except Exception as error:
        if spec.is_required:
            raise
        raise PluginError(
            f"The composite {qualified_name(spec.fn)} of {spec.claimed} failed: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(call, Call | Replacement | None):
        raise PluginError(
            f"The composite {qualified_name(spec.fn)} of {spec.claimed} returned {call!r:.80}, not a Call, a Replacement or None."
        )
    return call
