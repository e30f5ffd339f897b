"""Adapting: model objects inside a callable become fresh copies for each call, their arrays get names."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_graph.build.names import Names

from jax2onnx_core._array_identity import array_identity
from jax2onnx_core.frontend._pytrees import is_too_deep, path_name
from jax2onnx_core.frontend.python_functions import closed_over, rebuilt, used_globals
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.jaxprs import is_static, struct
from jax2onnx_core.plugins.adapted import Adapted, AdaptedStates, Adapter, imported_class
from jax2onnx_core.plugins.errors import InputError, Jax2OnnxError, OptionError, PluginError

__all__ = ["AdaptedCallable", "FreshCallable", "adapt_callable"]

#: The names of the absent weights of a model object, or of a pytree, by their paths in it.
AbsentPaths = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class AdaptedCallable:
    """A callable taken apart into a function and the arrays of the model objects found in it.

    Attributes:
      called: the callable whose parameters the inputs are.
      names: `array_identity` of an array → its name.
      arrays: the arrays themselves, so that their ids stay theirs.
      classes: those of the objects found.
      absent: the weights that are given as types only: name → type.
      state_keyword: the keyword under which the selected states are arguments.
    """

    called: Function
    names: Mapping[Hashable, str]
    arrays: Sequence[object]
    classes: frozenset[type]
    absent: Mapping[str, jax.ShapeDtypeStruct]
    _make: Callable[[_Copies], Function]
    _models: Mapping[int, Adapted]
    _absent_paths: Mapping[int, AbsentPaths]
    _stateful: Mapping[int, AdaptedStates] = dataclasses.field(default_factory=dict)
    state_keyword: str = ""

    @functools.cached_property
    def owners(self) -> dict[str, str]:
        """Name of an array → the part of a model that it belongs to, as messages call it."""
        return {name: owner for adapted in self._models.values() for name, owner in adapted.owners.items()}

    @functools.cached_property
    def states(self) -> dict[str, jax.Array]:
        """The selected states: path → array."""
        return {path: array for states in self._stateful.values() for path, array in states.arrays.items()}

    @property
    def state_inputs(self) -> dict[str, PyTree]:
        """The types of the selected states, as a further keyword argument."""
        return {self.state_keyword: {path: struct(x) for path, x in self.states.items()}} if self._stateful else {}

    def with_states(self, wanted: object, taken: Iterable[str]) -> AdaptedCallable:
        """The callable whose models' states that `wanted` means are arguments, by a keyword that is not in `taken`.

        Raises:
          OptionError: it means none.
        """
        found = {key: made.states(wanted) for key, made in self._models.items()}
        stateful = {key: states for key, states in found.items() if states is not None and states.arrays}
        if not stateful:
            raise OptionError(
                f"states={wanted!r:.80} means no state of a model here. It is {{0: 0}} or {{'cache': 'new_cache'}}, which maps "
                "arguments to results, or says which variables of a model are states, in the terms of its framework."
            )
        return dataclasses.replace(self, _stateful=stateful, state_keyword=Names(taken).unique("state"))

    def with_weights(self, weights: Mapping[str, jax.Array]) -> Function:
        """The callable around these arrays in the place of absent weights; each call has fresh copies of the models."""

        def call(*args: PyTree, **kwargs: PyTree) -> PyTree:
            states = kwargs.pop(self.state_keyword, {})
            return self.fresh(weights, states)(*args, **kwargs)

        return call

    def fresh(self, weights: Mapping[str, jax.Array], states: Mapping[str, jax.Array]) -> FreshCallable:
        """The callable around fresh copies of its models, for one call.

        Args:
          weights: arrays for the absent weights, by name.
          states: arrays for the selected states, by path.
        """
        copies = _Copies(weights, states, self._absent_paths, self._stateful)
        return FreshCallable(self._make(copies), copies, tuple(self.states))


class FreshCallable:
    """A callable around fresh copies of its models, to be called once."""

    def __init__(self, fn: Function, copies: _Copies, states: Sequence[str]) -> None:
        self._fn, self._copies, self._states = copies.surround(fn), copies, states

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """The result of the callable; where states were selected, the result and the new states by path."""
        result = self._fn(*args, **kwargs)
        if not self._states:
            return result
        held = self._copies.states()
        return result, {path: held[path] for path in self._states}

    def modules(self) -> dict[str, Any]:
        """The parts of the models: path → part."""
        return {path: part for adapted, model in self._copies for path, part in adapted.modules(model).items()}

    def written(self) -> dict[str, Any]:
        """The state of the models that the call has changed: path → array."""
        return {path: array for adapted, model in self._copies for path, array in adapted.written(model).items()}


class _Copies:
    """The copies of the models for one call; one object found in several places stays one object."""

    def __init__(
        self, weights: Mapping[str, jax.Array], states: Mapping[str, jax.Array],
        absent_paths: Mapping[int, AbsentPaths], stateful: Mapping[int, AdaptedStates],
    ) -> None:  # fmt: skip
        self._weights, self._given = weights, states
        self._absent_paths, self._stateful = absent_paths, stateful
        self._made: dict[int, tuple[Adapted, Any]] = {}

    def __iter__(self) -> Iterator[tuple[Adapted, Any]]:
        return iter(self._made.values())

    def of(self, key: int, adapted: Adapted) -> Any:
        """The copy of the model object with the id `key`."""
        if key not in self._made:
            states, values = self._stateful.get(key), self.weights(key)
            if states:
                values |= {path: self._given[path] for path in states.arrays}
            self._made[key] = adapted, (states or adapted).fresh(values)
        return self._made[key][1]

    def weights(self, key: int) -> dict[str, jax.Array]:
        """The arrays that were given for absent weights of an object, by their paths in it."""
        paths = self._absent_paths.get(key, {})
        return {path: self._weights[name] for path, name in paths.items() if name in self._weights}

    def states(self) -> dict[str, Any]:
        """The selected states as the copies hold them now."""
        return {path: x for key, s in self._stateful.items() for path, x in s.read(self._made[key][1]).items()}

    def surround(self, fn: Function) -> Function:
        """A function that was made of the copies, with what their adapters put around it."""
        return functools.reduce(lambda call, made: made[0].around(call), self, fn)


#: Makes a fresh object from the copies of one call.
Maker = Callable[[_Copies], Any]


class _Search:
    """Finds the model objects in a callable, names their arrays, and says how it is made anew around copies of them."""

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self._adapters = [(a, cls) for a in adapters for cls in [imported_class(a.target)] if cls is not None]
        # Functions of these libraries close over what the user gave them, but their globals hold no models.
        self._libraries = {"jax", "numpy", *(a.target.partition(".")[0].partition(":")[0] for a in adapters)}
        self._seen: set[int] = set()
        self._makers: dict[int, Maker] = {}
        self._absent_names = Names()
        self.names: dict[Hashable, str] = {}
        self.arrays: list[object] = []
        self.classes: set[type] = set()
        self.models: dict[int, Adapted] = {}
        self.absent: dict[str, jax.ShapeDtypeStruct] = {}
        self.absent_paths: dict[int, dict[str, str]] = {}

    def is_made_whole(self, value: object) -> bool:
        """Whether a value is a model object, or a pytree with absent weights."""
        return id(value) in self._makers

    def called(self, fn: Function) -> Function:
        """A callable with the parameters of `fn`; those of a model object are those of its copy."""
        if not self.is_made_whole(fn):
            return fn
        model = self.models.get(id(fn))
        like = None if model is None else model.callable_like
        return self._makers[id(fn)](_Copies({}, {}, self.absent_paths, {})) if like is None else like

    def maker(self, value: object, name: str) -> Maker | None:
        """A maker of a fresh `value`, or None where there is nothing to make fresh; `name` is that of the value."""
        if id(value) in self._makers:
            return self._makers[id(value)]
        self.classes.update(type(value).__mro__)
        for adapter, cls in self._adapters:
            if adapter.claims(value) if adapter.claims else isinstance(value, cls):
                return self._model(value, _adapted(adapter, value))
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
            self.maker(original, name)  # of jit and its like only the names are wanted
        return self._tree(value, name)

    def _model(self, value: object, adapted: Adapted) -> Maker:
        key = id(value)
        self._name_leaves(key, adapted.weights)
        self.models[key] = adapted
        self._makers[key] = lambda copies: copies.of(key, adapted)
        return self._makers[key]

    def _name_leaves(self, key: int, leaves: Mapping[str, object]) -> None:
        for path, leaf in leaves.items():
            if isinstance(leaf, jax.ShapeDtypeStruct):
                if not all(map(is_static, leaf.shape)):
                    raise InputError(f"The weight {path} has the shape {leaf.shape}; the shape of a weight is numbers.")
                name = self._absent_names.unique(path)
                self.absent_paths.setdefault(key, {})[path] = name
                self.absent[name] = leaf
            elif isinstance(leaf, jax.Array | np.ndarray) and (identity := array_identity(leaf)) not in self.names:
                self.names[identity] = path
                self.arrays.append(leaf)

    def _tree(self, value: object, name: str) -> Maker | None:
        """A maker of a pytree with absent weights; the arrays in others are named."""
        if not isinstance(value, (dict, list, tuple, jax.Array, np.ndarray, jax.ShapeDtypeStruct)) or is_too_deep(
            value
        ):
            return None
        key, (leaves, tree) = id(value), jax.tree_util.tree_flatten_with_path(value)
        named = {".".join(filter(None, [name, path_name(path)])): leaf for path, leaf in leaves}
        self._name_leaves(key, named)
        if not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in named.values()):
            return None

        def fresh(copies: _Copies) -> PyTree:
            return jax.tree_util.tree_unflatten(tree, {**named, **copies.weights(key)}.values())

        self._makers[key] = fresh
        return fresh

    def _partial(self, value: functools.partial[PyTree], name: str) -> Maker | None:
        # Parameters that are bound to a function (`partial(apply, params)`) have the names of their keys.
        names = ["" if isinstance(a, dict) else f"arg{i}" for i, a in enumerate(value.args)]
        makers = [self.maker(value.func, name), *map(self.maker, value.args, names)]
        keywords = {k: self.maker(v, k) for k, v in value.keywords.items()}
        if not any(makers) and not any(keywords.values()):
            return None

        def fresh(copies: _Copies) -> functools.partial[PyTree]:
            old = (value.func, *value.args)
            func, *args = (make(copies) if make else one for make, one in zip(makers, old, strict=True))
            named = {k: make(copies) if make else value.keywords[k] for k, make in keywords.items()}
            return functools.partial(func, *args, **named)

        return fresh

    def _method(self, value: types.MethodType, name: str) -> Maker | None:
        make = self.maker(value.__self__, name)
        return make and (lambda copies: types.MethodType(value.__func__, make(copies)))

    def _function(self, fn: types.FunctionType) -> Maker | None:
        """A function that closes over models, or uses global ones, is rebuilt around fresh copies."""
        used = used_globals(fn)
        if fn.__module__ is not None and fn.__module__.partition(".")[0] in self._libraries:
            used = {}
        closed = {name: self.maker(value, name) for name, value in closed_over(fn).items()}
        globals_ = {name: self.maker(value, name) for name, value in used.items() if not isinstance(value, type)}
        if not any(closed.values()) and not any(globals_.values()):
            return None

        def fresh(copies: _Copies) -> types.FunctionType:
            return rebuilt(fn, *({name: make(copies) for name, make in m.items() if make} for m in (closed, globals_)))

        return fresh


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
    """Take `fn` apart by the adapters of plugins; raises OptionError if it is not callable."""
    search = _Search(adapters)
    make = search.maker(fn, "")
    if make is None and not callable(fn):
        raise OptionError(f"to_onnx needs a callable, not {type(fn).__name__}: {fn!r:.80}.")
    return AdaptedCallable(
        search.called(fn), search.names, search.arrays, frozenset(search.classes), search.absent,
        make or (lambda _: fn), search.models, search.absent_paths,
    )  # fmt: skip
