"""`ModelSearch`: the model objects in a callable, and how the callable is made anew around fresh copies of them."""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import itertools
import re
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import jax
import numpy as np
from jax2onnx_graph.build.names import Names, numbered

from jax2onnx_core._array_identity import array_identity
from jax2onnx_core.frontend._containers import Containers
from jax2onnx_core.frontend._pytrees import is_too_deep, path_name
from jax2onnx_core.frontend.python_functions import closed_over, defaults_of, rebuilt, used_globals
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.jaxprs import is_static
from jax2onnx_core.plugins.adapted import Adapted, AdaptedStates, Adapter, adapter_of, imported_adapters
from jax2onnx_core.plugins.errors import InputError, Jax2OnnxError, PluginError

__all__ = ["AbsentPaths", "Copies", "ModelSearch"]

#: The names of the absent weights of a model object, or of a pytree, by their paths in it.
AbsentPaths = Mapping[str, str]


class Copies:
    """The copies of the models for one call; one object found in several places stays one object."""

    def __init__(
        self, weights: Mapping[str, jax.Array], states: Mapping[str, jax.Array],
        absent_paths: Mapping[int, AbsentPaths], stateful: Mapping[int, AdaptedStates],
    ) -> None:  # fmt: skip
        self._weights, self._given = weights, states
        self._absent_paths, self._stateful = absent_paths, stateful
        self._made: dict[int, tuple[Adapted, Any]] = {}
        self._others: dict[int, object] = {}

    def __iter__(self) -> Iterator[tuple[Adapted, Any]]:
        return iter(self._made.values())

    def copy_of(self, key: int, adapted: Adapted) -> Any:
        """The copy of the model object with the id `key`."""
        if key not in self._made:
            states, values = self._stateful.get(key), self.weights(key)
            if states:
                values |= {path: self._given[path] for path in states.arrays}
            self._made[key] = adapted, (states or adapted).fresh(values)
        return self._made[key][1]

    def once(self, key: int, make: Maker) -> object:
        """The copy of the object with the id `key`, made by `make` at the first call."""
        if key not in self._others:
            self._others[key] = make(self)
        return self._others[key]

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
Maker = Callable[[Copies], Any]
_DEEPEST = 100  # objects within objects
# A program that a model or a global keeps, and its sessions, hold weights, but are no models of JAX.
_OF_PROGRAMS = ("jax2onnx_core.program.", "jax2onnx_runtime.")


class ModelSearch:
    """Finds the model objects in a callable, names their arrays, and says how it is made anew around copies of them.

    It looks into closures, global variables, bound arguments, methods, containers, and the attributes of the user's objects.
    """

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self._adapters = imported_adapters(adapters)
        # Functions of these libraries close over what the user gave them, but their globals hold no models.
        self._libraries = {"jax", "jaxlib", "numpy", *(re.split("[.:]", a.claimed, maxsplit=1)[0] for a in adapters)}
        self._makers: dict[int, Maker | None] = {}
        self._depth = 0
        self._absent_names = Names()
        self._paths: dict[str, object] = {}
        self.names: dict[Hashable, str] = {}
        self.arrays: list[object] = []
        self.classes: set[type] = set()
        self.models: dict[int, Adapted] = {}
        self.containers = Containers()
        self.absent: dict[str, jax.ShapeDtypeStruct] = {}
        self.absent_paths: dict[int, dict[str, str]] = {}

    def called(self, fn: Function) -> Function:
        """A callable with the parameters of `fn`; those of a model object are those of its copy."""
        model, make = self.models.get(id(fn)), self._makers.get(id(fn))
        if make is None or not (model or id(fn) in self.absent_paths):
            return fn
        like = None if model is None else model.callable_like
        return make(Copies({}, {}, self.absent_paths, {})) if like is None else like

    def maker(self, value: object, name: str) -> Maker | None:
        """A maker of a fresh `value`, or None where there is nothing to make fresh; `name` is that of the value."""
        return self._maker(value, name, "")

    def _part(self, value: object, place: str) -> Maker | None:
        """A maker of what a container or an object holds; also the arrays of a model there are named after the place."""
        return self._maker(value, place, place)

    def _maker(self, value: object, name: str, place: str) -> Maker | None:
        key = id(value)
        if key not in self._makers:
            self._makers[key] = None  # what is met again inside of itself is left there
            self.classes.update(type(value).__mro__)
            self._depth += 1
            make = self._made(value, name, place) if self._depth <= _DEEPEST else None
            self._depth -= 1
            self._makers[key] = make and (lambda copies: copies.once(key, make))
        return self._makers[key]

    def _made(self, value: object, name: str, place: str) -> Maker | None:
        if (adapter := adapter_of(value, self._adapters)) is not None:
            return self._model(value, self._placed(_adapted(adapter, value), name, place))
        if isinstance(value, functools.partial):
            return self._partial(value, name)
        if isinstance(value, types.MethodType):
            return self._method(value, name)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, jax.Array | np.ndarray | jax.ShapeDtypeStruct):
            return self._tree(value, name)
        if callable(value) and (original := inspect.unwrap(value)) is not value:
            self.maker(original, name)  # of jit and its like only the names are wanted
            return None
        if isinstance(value, dict | list | tuple):
            if is_too_deep(value):
                return None
            self.containers.add(value, name)
            return self._tree(value, name)
        return self._object(value, name) if self._is_of_the_user(value) else None

    def _is_of_the_user(self, value: object) -> bool:
        """Whether a value is an object with attributes whose class no library defines that we know."""
        module = type(value).__module__
        if module.partition(".")[0] in self._libraries or module.startswith(_OF_PROGRAMS):
            return False
        return not isinstance(value, type | types.ModuleType) and "__dict__" in dir(value)

    def _placed(self, adapted: Adapted, name: str, place: str) -> Adapted:
        """The model object at its place; after its name, or a number, where another one has other arrays at the same paths."""
        places = itertools.chain([place, name or place], itertools.islice(numbered(name or "model"), 1, None))
        placed = next(found for found in map(adapted.at, places) if self._are_free(found.weights))
        self._paths.update(placed.weights)
        return placed

    def _are_free(self, weights: Mapping[str, object]) -> bool:
        """Whether no model object that was found before has another array at one of these paths."""
        return all(
            array_identity(self._paths.get(path, leaf)) == array_identity(leaf) for path, leaf in weights.items()
        )

    def _model(self, value: object, adapted: Adapted) -> Maker:
        key = id(value)
        self._name_leaves(key, adapted.weights)
        self.models[key] = adapted
        return lambda copies: copies.copy_of(key, adapted)

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
        """A maker of a pytree with absent weights or models; the arrays in others are named."""
        if _is_without_order(value):
            return self._dict_without_order(value, name)
        key = id(value)
        leaves, tree = jax.tree_util.tree_flatten_with_path(
            value, is_leaf=lambda one: _is_without_order(one) or adapter_of(one, self._adapters) is not None
        )
        named = {".".join(filter(None, [name, path_name(path)])): leaf for path, leaf in leaves}
        self._name_leaves(key, named)
        makers = {
            path: make for path, leaf in named.items() if leaf is not value and (make := self._of_leaf(leaf, path))
        }
        if key not in self.absent_paths and not makers:
            return None

        def fresh(copies: Copies) -> PyTree:
            made = {path: make(copies) for path, make in makers.items()}
            return jax.tree_util.tree_unflatten(tree, {**named, **copies.weights(key), **made}.values())

        return fresh

    def _dict_without_order(self, value: dict[Hashable, object], name: str) -> Maker | None:
        """A copy of a dict that is no pytree around fresh copies of the models that it holds."""
        paths = {key: ".".join(filter(None, [name, path_name((jax.tree_util.DictKey(key),))])) for key in value}
        makers = {key: make for key, held in value.items() if (make := self._part(held, paths[key]))}
        if not makers:
            return None

        def fresh(copies: Copies) -> dict[Hashable, object]:
            new = copy.copy(value)
            new.update({key: make(copies) for key, make in makers.items()})
            return new

        return fresh

    def _of_leaf(self, leaf: object, path: str) -> Maker | None:
        """A maker of a leaf of a pytree that is no array."""
        if isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct | str | bool | int | float):
            return None
        return self._part(leaf, path)

    def _partial(self, value: functools.partial[PyTree], name: str) -> Maker | None:
        # Parameters that are bound to a function (`partial(apply, params)`) have the names of their keys.
        names = ["" if isinstance(a, dict) else f"arg{i}" for i, a in enumerate(value.args)]
        makers = [self.maker(value.func, name), *map(self.maker, value.args, names)]
        keywords = {k: self.maker(v, k) for k, v in value.keywords.items()}
        if not any(makers) and not any(keywords.values()):
            return None

        def fresh(copies: Copies) -> functools.partial[PyTree]:
            old = (value.func, *value.args)
            func, *args = (make(copies) if make else one for make, one in zip(makers, old, strict=True))
            named = {k: make(copies) if make else value.keywords[k] for k, make in keywords.items()}
            return functools.partial(func, *args, **named)

        return fresh

    def _method(self, value: types.MethodType, name: str) -> Maker | None:
        make = self.maker(value.__self__, name)
        return make and (lambda copies: types.MethodType(value.__func__, make(copies)))

    def _object(self, value: object, name: str) -> Maker | None:
        """A copy of an object of the user around fresh copies of the models that its attributes hold."""
        attributes = vars(value)
        self.containers.add(attributes, name)
        makers = {k: self._part(v, f"{name}.{k}" if name else k) for k, v in [*attributes.items()]}
        if not any(makers.values()):
            return None

        def fresh(copies: Copies) -> object:
            new = copy.copy(value)
            for attribute, make in makers.items():
                if make is not None:
                    object.__setattr__(new, attribute, make(copies))
            return new

        return fresh

    def _function(self, fn: types.FunctionType) -> Maker | None:
        """A function that closes over models, uses global ones, or has some as defaults, is rebuilt around fresh copies."""
        is_of_a_library = fn.__module__ is not None and fn.__module__.partition(".")[0] in self._libraries
        used = {} if is_of_a_library else used_globals(fn)
        closed = {name: self.maker(value, "" if is_of_a_library else name) for name, value in closed_over(fn).items()}
        globals_ = {name: self.maker(value, name) for name, value in used.items() if not isinstance(value, type)}
        defaults = {} if is_of_a_library else {name: self.maker(value, name) for name, value in defaults_of(fn).items()}
        found = [{name: make for name, make in m.items() if make} for m in (closed, globals_, defaults)]
        if not any(found):
            return None

        def fresh(copies: Copies) -> types.FunctionType:
            return rebuilt(fn, *({name: make(copies) for name, make in makers.items()} for makers in found))

        return fresh


def _adapted(adapter: Adapter, value: object) -> Adapted:
    try:
        return adapter.adapt(value)
    except Jax2OnnxError:
        raise
    except Exception as error:
        raise PluginError(
            f"The adapter of {adapter.owner} for {adapter.claimed} failed on a {type(value).__name__} "
            f"({type(error).__name__}: {error})."
        ) from error


def _is_without_order(value: object) -> TypeGuard[dict[Hashable, object]]:
    """Whether it is a dict whose keys cannot be sorted, such as types: JAX takes it for an error in a pytree."""
    if not isinstance(value, dict) or type(value) not in (dict, collections.defaultdict):
        return False
    try:
        sorted(value)
    except TypeError:
        return True
    return False
