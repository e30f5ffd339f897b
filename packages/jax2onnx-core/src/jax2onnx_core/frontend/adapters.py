"""Adapting: model objects inside a callable become fresh copies for the trace, their arrays get names."""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax2onnx_graph.build.names import Names

from jax2onnx_core.frontend.activation import named_modules
from jax2onnx_core.frontend.python_functions import closed_over, rebuilt, used_globals
from jax2onnx_core.frontend.pytrees import is_too_deep, path_name
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.jaxprs import is_static
from jax2onnx_core.plugins.adapted import Adapted, AdaptedStates, Adapter, imported_class
from jax2onnx_core.plugins.errors import InputError, Jax2OnnxError, OptionError, PluginError

__all__ = ["AdaptedCallable", "adapt_callable"]


#: Makes a fresh object.
Maker = Callable[[], Any]


class AdaptedCallable:
    """A callable taken apart.

    `make()` gives the callable to trace, with fresh copies of the model objects found in it;
    `names` maps the id of each array found to its name, and `arrays` keeps them alive; `classes` are those of the objects
    found. The inputs are arguments of `called`, and,
    under the keyword `state_keyword`, the `states` that were selected: path → array. `absent` are the weights that are
    given as types only: name → type; `holding` is what is called with arrays for them.
    """

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self._adapters = [(a, cls) for a in adapters for cls in [imported_class(a.target)] if cls is not None]
        # Functions of these libraries close over what the user gave them, but their globals hold no models.
        self._libraries = {"jax", "numpy", *(a.target.partition(".")[0].partition(":")[0] for a in adapters)}
        self.names: dict[int, str] = {}
        self.arrays: list[object] = []
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
        self.absent: dict[str, jax.ShapeDtypeStruct] = {}
        self._absent: dict[tuple[int, str], str] = {}  # model, and path in it → name
        self._absent_names = Names()
        self._weights: Mapping[str, jax.Array] = {}
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
                self._name_leaves(id(value), made.weights)
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
        return self._tree(value, name)

    def _copy(self, key: int, adapted: Adapted) -> Any:
        if key not in self._copies:
            states, values = self._stateful.get(key), self._weights_of(key)
            if states:
                values |= {path: self._given[path] for path in states.arrays}
            self._copies[key] = adapted, (states or adapted).fresh(values)
        return self._copies[key][1]

    def _weights_of(self, key: int) -> dict[str, jax.Array]:
        """The arrays that were given for absent weights of a model, by their paths in it."""
        found = {path: name for (model, path), name in self._absent.items() if model == key}
        return {path: self._weights[name] for path, name in found.items() if name in self._weights}

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

    def holding(self, weights: Mapping[str, jax.Array]) -> Function:
        """The callable around these arrays in the place of absent weights."""
        return functools.partial(self._call, weights)

    def _call(self, weights: Mapping[str, jax.Array], /, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the callable, with fresh copies of models; with states, they are an argument and come back beside the result."""
        with self._lock:
            self._weights, self._given = weights, kwargs.pop(self.state_keyword, {})
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

    def owners(self) -> dict[str, str]:
        """The parts of models that arrays belong to: name → part, as messages call it."""
        return {name: owner for made in self._adapted.values() for name, owner in made.owners.items()}

    def _name_leaves(self, key: int, leaves: Mapping[str, object]) -> None:
        for path, leaf in leaves.items():
            if isinstance(leaf, jax.ShapeDtypeStruct):
                if not all(map(is_static, leaf.shape)):
                    raise InputError(f"The weight {path} has the shape {leaf.shape}; the shape of a weight is numbers.")
                name = self._absent[key, path] = self._absent_names.unique(path)
                self.absent[name] = leaf
            elif isinstance(leaf, jax.Array) and id(leaf) not in self.names:
                self.names[id(leaf)] = path
                self.arrays.append(leaf)

    def _tree(self, value: object, name: str) -> Maker | None:
        """A maker of a pytree with absent weights; the arrays in others are named."""
        if not isinstance(value, (dict, list, tuple, jax.Array, jax.ShapeDtypeStruct)) or is_too_deep(value):
            return None
        leaves, tree = jax.tree_util.tree_flatten_with_path(value)
        named = {".".join(filter(None, [name, path_name(path)])): leaf for path, leaf in leaves}
        self._name_leaves(id(value), named)
        if not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in named.values()):
            return None

        def fresh() -> PyTree:
            return jax.tree_util.tree_unflatten(tree, {**named, **self._weights_of(id(value))}.values())

        self.models[id(value)] = fresh
        return fresh

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
        used = used_globals(fn)
        if fn.__module__ is not None and fn.__module__.partition(".")[0] in self._libraries:
            used = {}
        closed = {name: self.adapt(value, name) for name, value in closed_over(fn).items()}
        globals_ = {name: self.adapt(value, name) for name, value in used.items() if not isinstance(value, type)}
        if not any(closed.values()) and not any(globals_.values()):
            return None
        return lambda: rebuilt(fn, *({name: make() for name, make in m.items() if make} for m in (closed, globals_)))


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
