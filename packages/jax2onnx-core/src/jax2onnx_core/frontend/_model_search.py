"""`ModelSearch`: the model objects in a callable, and how the callable is made anew around fresh copies of them."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import re
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, TypeVar

import jax
import numpy as np
from jax2onnx_graph.build.names import Names, by_paths, numbered, unwrapped

from jax2onnx_core._array_identity import array_identity
from jax2onnx_core.frontend._containers import Containers, attributes_of, items_of
from jax2onnx_core.frontend._pytrees import is_too_deep, path_name
from jax2onnx_core.frontend.python_functions import closed_over, defaults_of, fill, rebuilt, used_globals
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.jaxprs import is_static
from jax2onnx_core.plugins.adapted import Adapted, AdaptedStates, Adapter, adapter_of, imported_adapters
from jax2onnx_core.plugins.errors import InputError, Jax2OnnxError, PluginError

__all__ = ["AbsentPaths", "Copies", "ModelSearch"]

T = TypeVar("T")
#: With places that are numbers, or keys.
_Container: TypeAlias = "list[object] | dict[Hashable, object] | collections.deque[object]"

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
            made = make(self)
            self._others.setdefault(key, made)
        return self._others[key]

    def begun(self, value: T, new: T) -> T:
        """The new copy of an object, which what is put into it may hold in turn."""
        self._others[id(value)] = new
        return new

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


@dataclasses.dataclass(frozen=True)
class _OfCycle:
    """A maker of something in which there is nothing to make fresh but what holds it, as far as the search knows."""

    make: Maker

    def __call__(self, copies: Copies) -> object:
        return self.make(copies)


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
            self._makers[key] = _OfCycle(lambda copies: self._met_again(key, value, copies))
            self.classes.update(type(value).__mro__)
            self._depth += 1
            make = self._made(value, name, place) if self._depth <= _DEEPEST else None
            self._depth -= 1
            if not self._depth and isinstance(make, _OfCycle):
                make = None
            self._makers[key] = make and _of_parts([make], lambda copies: copies.once(key, make))
        return self._makers[key]

    def _met_again(self, key: int, value: object, copies: Copies) -> object:
        """The copy of what the search met inside of itself; itself where it turned out that there is nothing to make fresh."""
        make = self._makers[key]
        return value if make is None else make(copies)

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
        if callable(value) and (original := unwrapped(value)) is not value:
            self.maker(original, name)  # of jit and its like only the names are wanted
            return None
        if isinstance(value, dict | list | tuple | collections.deque):
            if is_too_deep(value):
                return None
            self.containers.add(value, name)
            return self._tree(value, name)
        return self._object(value, name) if self._is_of_the_user(value) else None

    def _is_of_the_user(self, value: object) -> bool:
        """Whether a value is an object with attributes whose class no library defines that we know."""
        module = type(value).__module__ or ""
        if module.partition(".")[0] in self._libraries or module.startswith(_OF_PROGRAMS):
            return False
        return not isinstance(value, type | types.ModuleType) and bool(attributes_of(value))

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
        if _is_no_pytree(value):
            return self._container(value, name)
        key = id(value)
        leaves, tree = jax.tree_util.tree_flatten_with_path(
            value, is_leaf=lambda one: _is_no_pytree(one) or adapter_of(one, self._adapters) is not None
        )
        named = by_paths((".".join(filter(None, [name, path_name(path)])), leaf) for path, leaf in leaves)
        self._name_leaves(key, named)
        makers = {
            path: make for path, leaf in named.items() if leaf is not value and (make := self._of_leaf(leaf, path))
        }

        def fresh(copies: Copies) -> PyTree:
            made = {path: make(copies) for path, make in makers.items()}
            return jax.tree_util.tree_unflatten(tree, {**named, **copies.weights(key), **made}.values())

        return fresh if key in self.absent_paths else _of_parts(makers.values(), fresh)

    def _container(self, value: _Container, name: str) -> Maker | None:
        """A maker of a dict, a list or a deque that is no pytree, around fresh copies of the models that it holds."""
        makers = {
            key: make
            for key, held in items_of(value)
            if (make := self._part(held, ".".join(filter(None, [name, path_name((jax.tree_util.DictKey(key),))]))))
        }

        def fresh(copies: Copies) -> _Container:
            new = copies.begun(value, copy.copy(value))
            for key, make in makers.items():
                new[key] = make(copies)
            return new

        return _of_parts(makers.values(), fresh)

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

        def fresh(copies: Copies) -> functools.partial[PyTree]:
            old = (value.func, *value.args)
            func, *args = (make(copies) if make else one for make, one in zip(makers, old, strict=True))
            named = {k: make(copies) if make else value.keywords[k] for k, make in keywords.items()}
            return functools.partial(func, *args, **named)

        return _of_parts([*makers, *keywords.values()], fresh)

    def _method(self, value: types.MethodType, name: str) -> Maker | None:
        make = self.maker(value.__self__, name)
        return make and _of_parts([make], lambda copies: types.MethodType(value.__func__, make(copies)))

    def _object(self, value: object, name: str) -> Maker | None:
        """A copy of an object of the user around fresh copies of the models that its attributes hold."""
        held = attributes_of(value)
        for attributes in held:
            self.containers.add(attributes, name)
        found = [item for attributes in held for item in items_of(attributes)]
        makers = {k: self._part(v, f"{name}.{k}" if name else k) for k, v in found}

        def fresh(copies: Copies) -> object:
            new = copies.begun(value, copy.copy(value))
            for attribute, make in makers.items():
                if make is not None:
                    object.__setattr__(new, attribute, make(copies))
            return new

        return _of_parts(makers.values(), fresh)

    def _function(self, fn: types.FunctionType) -> Maker | None:
        """A function that closes over models, uses global ones, or has some as defaults, is rebuilt around fresh copies."""
        is_of_a_library = fn.__module__ is not None and fn.__module__.partition(".")[0] in self._libraries
        used = {} if is_of_a_library else used_globals(fn)
        closed = {name: self.maker(value, "" if is_of_a_library else name) for name, value in closed_over(fn).items()}
        globals_ = {name: self.maker(value, name) for name, value in used.items() if not isinstance(value, type)}
        defaults = {} if is_of_a_library else {name: self.maker(value, name) for name, value in defaults_of(fn).items()}
        found = [{name: make for name, make in m.items() if make} for m in (closed, globals_, defaults)]

        def fresh(copies: Copies) -> types.FunctionType:
            new = copies.begun(fn, rebuilt(fn, found[0]))
            fill(new, *({name: make(copies) for name, make in makers.items()} for makers in found))
            return new

        return _of_parts((make for makers in found for make in makers.values()), fresh)


def _of_parts(parts: Iterable[Maker | None], make: Maker) -> Maker | None:
    """A maker of what holds some parts; None where there is nothing to make fresh in them."""
    found = [part for part in parts if part is not None]
    if not found:
        return None
    return _OfCycle(make) if all(isinstance(part, _OfCycle) for part in found) else make


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


def _is_no_pytree(value: object) -> TypeGuard[_Container]:
    """Whether it is a dict, a list or a deque that JAX takes for an array or refuses: of another class, or with keys that cannot be sorted."""
    if not isinstance(value, dict | list | collections.deque):
        return False
    if type(value) not in (dict, collections.defaultdict):
        return jax.tree_util.all_leaves([value])
    try:
        sorted(value)
    except TypeError:
        return True
    return False
