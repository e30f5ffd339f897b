"""`Claim`: whether a call of a composite's function still computes what the library wrote, or something of it was changed.

A composite was written for the unmodified function. A call is not claimed where

1. a class of its object that is not the library's defines one of the names in the function's code, or in the code of what that uses,
2. the object itself holds something else in place of a method of such a name,
3. one of the functions, classes and modules that may be used is not the library's any more, or
4. one of these is so of an object of the library that the composite's function reads, such as the cell of a recurrent layer.

What the library's own subclasses define anew was there when the plugin was written.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterable, Mapping

import jax

from jax2onnx_core.frontend._library_code import functions_of, is_behaviour, root_of, root_of_module
from jax2onnx_core.frontend._uses import (
    Binding,
    OwnCode,
    Uses,
    attribute_of,
    is_field,
    is_method,
    names_in,
    uses_of_function,
)
from jax2onnx_core.jax_types import Function

__all__ = ["Binding", "Claim", "JaxFunctions", "claim_of"]


class Claim:
    """The calls of a function that a composite may stand for.

    Args:
      claimed: the name of the function that the composite claims, "module:qualified.name".
      function: the function of this name.
      fn: the function of the composite.
      own_code: the code of functions as they were written.
    """

    def __init__(self, claimed: str, function: types.FunctionType, fn: Function, own_code: OwnCode) -> None:
        module, _, path = claimed.partition(":")
        self.owner = _owner_of(module, path)
        self._path, self._function, self._own_code = path.removesuffix(".__wrapped__"), function, own_code
        self._library = root_of_module(module)
        self._is_own_plugin = isinstance(fn, types.FunctionType) and root_of(fn) == self._library
        self._read = _names_read(fn, own_code) if isinstance(fn, types.FunctionType) else frozenset()

    @property
    def bindings(self) -> list[Binding]:
        """The functions, classes and modules that a call may use."""
        return list(self._uses(self._function, self.owner).bindings.values())

    @property
    def methods(self) -> frozenset[str]:
        """The names of the methods and properties of the class that a call may use."""
        if self.owner is None:
            return frozenset()
        return frozenset(n for n in self._names(self._function, self.owner) if is_method(self.owner, n))

    def change(self, args: tuple[object, ...]) -> str | None:
        """A sentence about what was changed for a call with these arguments; None where nothing was."""
        if self.owner is None or not args:
            found = self._replaced(self._function, None)
        elif not isinstance(args[0], self.owner):
            found = f"{type(args[0]).__qualname__} is not a {self.owner.__qualname__}"
        else:
            base = self.owner if self._is_own_plugin else self._base_of(args[0])
            found = self._object_change(args[0], base or self.owner, self._function)
        return None if found is None else f"{found}, which {self._path} uses"

    def change_of_parts(self, args: tuple[object, ...]) -> str | None:
        """A sentence about a changed object of the library that a composite's function reads in place of calling it.

        Such as the cell of a recurrent layer: those among the arguments, and those that the call's object holds.
        """
        held = _held(args[0], self._read) if self.owner is not None and args else args[:1]
        found = self._change_of_any([*args[1:], *held], {id(arg) for arg in args[:1] if self.owner is not None})
        return None if found is None else f"{found}, which {self._path} uses"

    def _change_of_any(self, values: Iterable[object], seen: set[int]) -> str | None:
        """The first change of an object of the library; `seen` are the identities of those met."""
        for value in values:
            found = (
                self._change_of_any(value, seen) if isinstance(value, list | tuple) else self._part_change(value, seen)
            )
            if found is not None:
                return found
        return None

    def _part_change(self, part: object, seen: set[int]) -> str | None:
        if id(part) in seen or not callable(part) or isinstance(part, type | types.FunctionType):
            return None
        seen.add(id(part))
        base = self._base_of(part)
        if base is None:
            return None
        methods = [name for name in dict.fromkeys((self._function.__name__, "__call__")) if is_method(base, name)]
        for name in methods:
            for function in list(functions_of(attribute_of(base, name)))[-1:]:
                found = self._object_change(part, base, function, name) or self._change_of_any(
                    _held(part, names_in(self._own_code(function))), seen
                )
                if found is not None:
                    return found
        return None

    def _base_of(self, held: object) -> type | None:
        """The first class of an object that is the library's."""
        return next((cls for cls in type(held).__mro__ if root_of_module(cls.__module__) == self._library), None)

    def _object_change(self, held: object, base: type, function: types.FunctionType, *names: str) -> str | None:
        """A change of an object, whose class of the library is `base`, that matters to a method; `names` matter too."""
        replaced = self._replaced(function, base)
        if replaced is not None:
            return replaced
        used = self._names(function, base).union(names)
        for cls in type(held).__mro__:
            for name in sorted(used.intersection(vars(cls))) if cls not in base.__mro__ else ():
                if self._is_changed(base, name, vars(cls)[name]):
                    return f"{cls.__qualname__} overrides {name}"
        for name in sorted(used.intersection(_fields(held))):
            if is_method(base, name) and not _is_the_library_s(vars(held)[name], attribute_of(base, name)):
                return f"{name} of an object of {type(held).__qualname__} was replaced"
        return None

    def _is_changed(self, base: type, name: str, value: object) -> bool:
        """Whether a class's attribute means something else to a method of `base` than the attribute there."""
        is_property = is_behaviour(value) and not callable(value) and not isinstance(value, classmethod)
        if is_property and not any(functions_of(value)) and root_of_module(type(value).__module__) == self._library:
            return False  # the library's own descriptor, which a hook of the library puts into each class
        if is_field(base, name):
            return is_property
        return is_behaviour(value) or is_method(base, name)

    def _names(self, function: types.FunctionType, owner: type) -> frozenset[str]:
        """The names that matter to a method."""
        return self._uses(function, owner).names

    def _replaced(self, function: types.FunctionType, owner: type | None) -> str | None:
        place = self._uses(function, owner).replaced()
        return None if place is None else f"{place} was replaced"

    def _uses(self, function: types.FunctionType, owner: type | None) -> Uses:
        return uses_of_function(function, owner, self._library, self._own_code)


claim_of = functools.cache(Claim)


class JaxFunctions:
    """The public functions of JAX with the code of their own that they have now.

    Libraries that quantise layers, or add adapters to them, put other code into JAX's functions while a model is called, by which any
    layer then computes something else.

    Args:
      own_code: the code of functions as they were written.
    """

    def __init__(self, own_code: OwnCode) -> None:
        self._own_code = own_code
        # `__code__` may be that of another thread's window, which takes it away at any time, so it alone says nothing.
        self._codes = [(function, function.__code__, own_code(function)) for function in _jax_functions()]

    def change(self) -> str | None:
        """A sentence about a function that has other code than before; None where none has."""
        for function, code, own in self._codes:
            if function.__code__ is not code and self._own_code(function) is not own:
                return f"the code of jax's {function.__name__} was replaced, by which layers compute"
        return None


@functools.cache
def _jax_functions() -> list[types.FunctionType]:
    """JAX's public functions of arrays that are plain Python functions."""
    spaces = (jax.lax, jax.numpy, jax.nn)
    found = {value: None for space in spaces for value in vars(space).values() if isinstance(value, types.FunctionType)}
    return list(found)


def _names_read(fn: types.FunctionType, own_code: OwnCode) -> frozenset[str]:
    """The names in the code of a composite's function, and of the functions of its package that it calls."""
    return frozenset(uses_of_function(fn, None, root_of(fn), own_code).names)


def _held(value: object, names: frozenset[str]) -> list[object]:
    """Values of the object's attributes with these names."""
    return [held for name, held in _fields(value).items() if name in names]


def _fields(held: object) -> Mapping[str, object]:
    """The attributes that an object itself holds."""
    return vars(held) if type(held).__dictoffset__ else {}


def _is_the_library_s(value: object, method: object) -> bool:
    """Whether what an object holds in place of a method is the method, perhaps wrapped by the library's constructor."""
    inside, own = list(functions_of(value)), list(functions_of(method))
    names = {function.__name__ for function in own}
    roots = {root_of(function) for function in own}
    return bool(inside) and all(f.__name__ in names and root_of(f) in roots for f in inside)


def _owner_of(module: str, path: str) -> type | None:
    """The class of a function that is a method."""
    found: object = sys.modules[module]
    owner: type | None = None
    for name in path.split("."):
        found = vars(found)[name]
        owner = found if isinstance(found, type) else owner
    return owner
