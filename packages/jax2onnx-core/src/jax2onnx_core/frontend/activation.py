"""The activation window: while one thread traces, the calls that plugins declared become composites."""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

import jax

from jax2onnx_core.frontend.composite import bind_composite
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.errors import PluginError
from jax2onnx_core.plugins.rules import Call, CompositeSpec, qualified_name

__all__ = ["activation_window", "active_composites", "exporting", "find_target"]

#: What a function is an attribute of.
Holder = ModuleType | type

# JAX's trace caches are keyed by this value, so traces made inside a window stay inside it.
_trace_context = jax.make_user_context(default_value=None)
_thread = threading.local()
_lock = threading.Lock()
_installed: dict[str, _Patch] = {}


def active_composites() -> dict[str, CompositeSpec] | None:
    """Target → composite of the window that this thread is in, None outside of any."""
    return vars(_thread).get("specs")


def exporting() -> bool:
    """Whether this thread is tracing a function for an export."""
    return active_composites() is not None


@contextmanager
def activation_window(specs: Sequence[CompositeSpec], token: object) -> Iterator[None]:
    """Inside, calls of the specs' targets made by this thread are traced as composites.

    Targets whose module is not imported are skipped. Other threads see the original functions; on
    leaving, also by an exception, no wrapper is left anywhere. `token` keys JAX's trace caches.
    """
    by_target = {spec.target: spec for spec in specs if spec.target.partition(":")[0] in sys.modules}
    outer = active_composites()
    _install(list(by_target))
    outer_traced = vars(_thread).get("traced")
    _thread.specs, _thread.traced = by_target, {}
    try:
        with _trace_context(token):
            yield
    finally:
        _thread.specs, _thread.traced = outer, outer_traced
        _uninstall(list(by_target))


def patched(fn: Function) -> Function:
    """The wrapper that stands for `fn` inside the window, also for one that was bound to a method or to arguments
    before it: the callable handed to `to_onnx` is looked up by no name.
    """
    wrappers = {id(patch.original): patch.wrapper for patch in _installed.values()}
    if isinstance(fn, functools.partial):
        func = patched(fn.func)
        return fn if func is fn.func else functools.partial(func, *fn.args, **fn.keywords)
    if isinstance(fn, types.MethodType):
        wrapper = wrappers.get(id(fn.__func__))
        return fn if wrapper is None else types.MethodType(wrapper, fn.__self__)
    return wrappers.get(id(fn), fn)


def find_target(target: str) -> tuple[Holder, str, Function]:
    """`"module:Class.method"` → (holder, attribute name, the object itself)."""
    module, _, path = target.partition(":")
    holder: Holder = sys.modules[module]
    *parents, name = path.split(".")
    try:
        for parent in parents:
            holder = vars(holder)[parent]
        return holder, name, vars(holder)[name]
    except KeyError as missing:
        raise PluginError(
            f"The composite target {target!r} does not exist: {module} has no {missing.args[0]!r} there. "
            "The installed version of that module may be another one than the plugin was written for."
        ) from None


class _Patch:
    """One replaced function: where its wrapper stands, and how many windows need it."""

    def __init__(self, target: str) -> None:
        self.users = 0
        holder, name, self.original = find_target(target)
        self.wrapper = _wrap(target, self.original)
        if isinstance(holder, type):
            self.places: list[tuple[Holder, str]] = [(holder, name)]
        else:
            self.places = list(_aliases.places[target])

    def put(self, old: Function, new: Function) -> None:
        for holder, name in self.places:
            if vars(holder).get(name) is old:
                setattr(holder, name, new)


class _Aliases:
    """Where module-level functions stand under any name.

    A scan of all modules costs 10 ms, so what was found is kept and only modules that are new or have
    grown are looked at again.
    """

    def __init__(self) -> None:
        self.seen: dict[str, tuple[ModuleType, int]] = {}
        self.places: dict[str, list[tuple[Holder, str]]] = {}

    def scan(self, functions: dict[str, Function]) -> None:
        """Bring the places of these functions (target → function) up to date."""
        if not functions.keys() <= self.places.keys():
            self.seen.clear()
            self.places = {target: [] for target in {*self.places, *functions}}
        by_id = {id(function): self.places[target] for target, function in functions.items()}
        for name, module in list(sys.modules.items()):
            if _is_plain(module) and self.seen.get(name) != (module, len(vars(module))):
                self.seen[name] = module, len(vars(module))
                _scan_module(module, by_id)

    def imported_since(self) -> list[ModuleType]:
        return [m for name, m in list(sys.modules.items()) if name not in self.seen and _is_plain(m)]


def _is_plain(module: object) -> bool:
    # Looking into a lazily loaded module (a subclass of ModuleType) would load it.
    return type(module) is ModuleType


def _scan_module(module: ModuleType, by_id: dict[int, list[tuple[Holder, str]]]) -> None:
    namespace = vars(module)
    if not by_id.keys().isdisjoint(map(id, namespace.values())):
        for name, value in list(namespace.items()):
            if id(value) in by_id and (module, name) not in by_id[id(value)]:
                by_id[id(value)].append((module, name))


_aliases = _Aliases()


def _wrap(target: str, original: Function) -> Function:
    @functools.wraps(original)
    def wrapper(*args: PyTree, **kwargs: PyTree) -> PyTree:
        specs = active_composites()
        spec = specs.get(target) if specs else None
        call = _call_of(spec, original, args, kwargs) if spec else None
        if spec is None or call is None:
            return original(*args, **kwargs)

        def traced_original() -> PyTree:
            traced_args, traced_kwargs = (args, kwargs) if call.arguments is None else call.arguments()
            return original(*traced_args, **traced_kwargs)

        return bind_composite(
            spec.name,
            call,
            traced_original,
            keep_under_vmap=spec.keep_under_vmap,
            traced=vars(_thread)["traced"].setdefault(target, {}),
        )

    return wrapper


def _call_of(
    spec: CompositeSpec, original: Function, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
) -> Call | None:
    """What the composite's function makes of a call; PluginError where it fails on one that the original takes."""
    try:
        call = spec.fn(*args, **kwargs)
    except Exception as error:
        original(*args, **kwargs)
        raise PluginError(
            f"The composite {qualified_name(spec.fn)} of {spec.target} failed: {type(error).__name__}: {error}"
        ) from error
    if call is not None and not isinstance(call, Call):
        raise PluginError(
            f"The composite {qualified_name(spec.fn)} of {spec.target} returned {call!r:.80}, not a Call or None."
        )
    return call


def _install(targets: list[str]) -> None:
    with _lock:
        new = [target for target in targets if target not in _installed]
        found = {target: find_target(target) for target in new}
        _aliases.scan({t: function for t, (holder, _, function) in found.items() if not isinstance(holder, type)})
        for target in new:
            patch = _installed[target] = _Patch(target)
            patch.put(patch.original, patch.wrapper)
        for target in targets:
            _installed[target].users += 1


def _uninstall(targets: list[str]) -> None:
    with _lock:
        done = []
        for target in targets:
            _installed[target].users -= 1
            if not _installed[target].users:
                done.append(_installed.pop(target))
        # A module imported inside the window may have picked up a wrapper.
        by_id = {id(patch.wrapper): patch.places for patch in done}
        for module in _aliases.imported_since():
            _scan_module(module, by_id)
        for patch in done:
            patch.put(patch.wrapper, patch.original)
