"""Adapting: model objects inside a callable become fresh copies for the trace, their arrays get names."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax2onnx_graph.build.names import Names

from jax2onnx_core.frontend.activation import named_modules
from jax2onnx_core.frontend.pytrees import is_too_deep, path_name
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.errors import Jax2OnnxError, OptionError, PluginError
from jax2onnx_core.plugins.registry import Adapted, AdaptedStates, Adapter

__all__ = ["AdaptedCallable", "adapt_callable"]


#: Makes a fresh object.
Maker = Callable[[], Any]


class AdaptedCallable:
    """A callable taken apart.

    `make()` gives the callable to trace, with fresh copies of the model objects found in it;
    `names` maps the id of each array found to its name, `arrays` keeps them alive, and `owners` maps names to the parts
    of models that they belong to; `classes` are those of the objects found. The inputs are arguments of `called`, and,
    under the keyword `state_keyword`, the `states` that were selected: path → array.
    """

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self._adapters = [(a, cls) for a in adapters for cls in [_imported_class(a.target)] if cls is not None]
        # Functions of these libraries close over what the user gave them, but their globals hold no models.
        self._libraries = {"jax", "numpy", *(a.target.partition(".")[0].partition(":")[0] for a in adapters)}
        self.names: dict[int, str] = {}
        self.arrays: list[jax.Array] = []
        self.owners: dict[str, str] = {}
        self.make: Callable[[], Function]
        self.classes: set[type] = set()
        self.called: Function
        self._seen: set[int] = set()
        self.models: dict[int, Maker] = {}
        self._copies: dict[int, tuple[Adapted, Any]] = {}
        self._adapted: dict[int, Adapted] = {}
        self.states: dict[str, jax.Array] = {}
        self.state_keyword = ""
        self._stateful: dict[int, AdaptedStates] = {}
        self._given: Mapping[str, jax.Array] = {}
        self._lock = threading.RLock()  # around the copies of one call

    def adapt(self, value: object, name: str) -> Maker | None:
        """A maker of a fresh `value`, or None where there is nothing to make fresh."""
        if id(value) in self.models:
            return self.models[id(value)]
        self.classes.update(type(value).__mro__)
        for adapter, cls in self._adapters:
            if adapter.claims(value) if adapter.claims else isinstance(value, cls):
                made = _adapted(adapter, value)
                self._record(made)
                self._adapted[id(value)] = made
                # One object found in several places stays one object.
                self.models[id(value)] = functools.partial(self._copy, id(value), made)
                return self.models[id(value)]
        if id(value) in self._seen:
            return None
        self._seen.add(id(value))
        if isinstance(value, functools.partial):
            return self._partial(value, name)
        if isinstance(value, types.MethodType):
            return self._method(value, name)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if callable(value) and (original := inspect.unwrap(value)) is not value:
            self.adapt(original, name)  # of jit and its like only the names are wanted
        self._name_arrays(value, name)
        return None

    def _copy(self, key: int, adapted: Adapted) -> Any:
        if key not in self._copies:
            states = self._stateful.get(key)
            copy = states.fresh({p: self._given[p] for p in states.arrays}) if states else adapted.fresh()
            self._copies[key] = adapted, copy
        return self._copies[key][1]

    def select_states(self, wanted: object, taken: Iterable[str]) -> None:
        """Make the states of models that `wanted` means arguments of `call`, by a keyword that is not in `taken`.

        Raises:
          OptionError: it means none.
        """
        found = {key: made.states(wanted) for key, made in self._adapted.items()}
        self._stateful = {key: states for key, states in found.items() if states is not None and states.arrays}
        if not self._stateful:
            raise OptionError(
                f"states={wanted!r:.80} means no state of a model here. It is {{0: 0}} or {{'cache': 'new_cache'}}, which maps "
                "arguments to results, or says which variables of a model are states, in the terms of its framework."
            )
        for states in self._stateful.values():
            self.states.update(states.arrays)
        self.state_keyword = Names(taken).unique("state")

    def call(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the callable, with fresh copies of models; with states, they are an argument and come back beside the result."""
        with self._lock:
            self._given = kwargs.pop(self.state_keyword, {})
            fn = self.make()
            with named_modules(self.modules()):
                result = fn(*args, **kwargs)
            if not self._stateful:
                return result
            held = {path: x for key, s in self._stateful.items() for path, x in s.read(self._copies[key][1]).items()}
            return result, {path: held[path] for path in self.states}

    def fresh(self, make: Maker) -> Function:
        """What `make` makes around copies of its own."""
        self._copies.clear()
        return make()

    def surrounded(self, fn: Function) -> Function:
        """A function that was just made, with what its models put around it."""
        return functools.reduce(lambda call, made: made[0].around(call), self._copies.values(), fn)

    def modules(self) -> dict[str, Any]:
        """The parts of the last copies of the models: path → part."""
        return {path: part for adapted, copy in self._copies.values() for path, part in adapted.modules(copy).items()}

    def written(self) -> dict[str, Any]:
        """What the last copies of the models hold where a call has changed their state: path → array."""
        return {path: array for adapted, copy in self._copies.values() for path, array in adapted.written(copy).items()}

    def _record(self, adapted: Adapted) -> None:
        self.owners.update(adapted.owners)
        for path, array in adapted.weights.items():
            self._name(array, path)

    def _name(self, array: jax.Array, name: str) -> None:
        if id(array) not in self.names:
            self.names[id(array)] = name
            self.arrays.append(array)

    def _name_arrays(self, value: object, name: str) -> None:
        if isinstance(value, (dict, list, tuple, jax.Array)) and not is_too_deep(value):
            for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
                if isinstance(leaf, jax.Array):
                    self._name(leaf, ".".join(filter(None, [name, path_name(path)])))

    def _partial(self, value: functools.partial[PyTree], name: str) -> Maker | None:
        # Parameters that are bound to a function (`partial(apply, params)`) have the names of their keys.
        names = ["" if isinstance(a, dict) else f"arg{i}" for i, a in enumerate(value.args)]
        makers = [self.adapt(value.func, name), *map(self.adapt, value.args, names)]
        keywords = {k: self.adapt(v, k) for k, v in value.keywords.items()}
        if not any(makers) and not any(keywords.values()):
            return None

        def fresh() -> functools.partial[PyTree]:
            func, *args = (make() if make else old for make, old in zip(makers, (value.func, *value.args), strict=True))
            return functools.partial(
                func, *args, **{k: make() if make else value.keywords[k] for k, make in keywords.items()}
            )

        return fresh

    def _method(self, value: types.MethodType, name: str) -> Maker | None:
        make = self.adapt(value.__self__, name)
        return make and (lambda: types.MethodType(value.__func__, make()))

    def _function(self, fn: types.FunctionType) -> Maker | None:
        """A function that closes over models, or uses global ones, is rebuilt around fresh copies."""
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        filled = {name: cell.cell_contents for name, cell in cells.items() if _is_filled(cell)}
        used = {name: fn.__globals__[name] for name in fn.__code__.co_names if name in fn.__globals__}
        if fn.__module__ is not None and fn.__module__.partition(".")[0] in self._libraries:
            used = {}
        closed = {name: self.adapt(value, name) for name, value in filled.items()}
        globals_ = {name: self.adapt(value, name) for name, value in used.items() if not isinstance(value, type)}
        if not any(closed.values()) and not any(globals_.values()):
            return None

        def make() -> Function:
            closure = tuple(
                types.CellType(maker()) if (maker := closed.get(name)) else cell for name, cell in cells.items()
            )
            namespace = {**fn.__globals__, **{name: maker() for name, maker in globals_.items() if maker}}
            fresh = types.FunctionType(fn.__code__, namespace, fn.__name__, fn.__defaults__, closure or None)
            fresh.__kwdefaults__ = fn.__kwdefaults__
            return fresh

        return make


def _adapted(adapter: Adapter, value: object) -> Adapted:
    try:
        return adapter.adapt(value)
    except Jax2OnnxError:
        raise
    except Exception as error:
        raise PluginError(
            f"The adapter of {adapter.owner} for {adapter.target} failed on a {type(value).__name__} "
            f"({type(error).__name__}: {error})."
        ) from error


def adapt_callable(fn: Function, adapters: Sequence[Adapter]) -> AdaptedCallable:
    """Take `fn` apart; raises OptionError if it is not callable."""
    adapted = AdaptedCallable(adapters)
    make = adapted.adapt(fn, "")
    if make is None and not callable(fn):
        raise OptionError(f"to_onnx needs a callable, not {type(fn).__name__}: {fn!r:.80}.")
    adapted.make = lambda: adapted.surrounded(adapted.fresh(make) if make else fn)
    adapted.called = make() if make and id(fn) in adapted.models else fn
    return adapted


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  (an empty cell raises)
    except ValueError:
        return False
    return True


def _imported_class(target: str) -> type | None:
    module, _, name = target.partition(":")
    if module not in sys.modules:
        return None
    found = vars(sys.modules[module])[name]
    assert isinstance(found, type)
    return found
