"""`Uses`: the functions, classes and modules that a function uses, found by the names in its code."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Iterator, Mapping

from jax2onnx_core.frontend._library_code import (
    BENEATH,
    functions_of,
    home_of,
    is_behaviour,
    requirements,
    root_of,
    root_of_module,
)
from jax2onnx_core.frontend.python_functions import closed_over

__all__ = ["Binding", "OwnCode", "Uses", "attribute_of", "is_field", "is_method", "names_in", "uses_of_function"]

#: The code of a function as its library wrote it, though a window may have put other code in place.
OwnCode = Callable[[types.FunctionType], types.CodeType]
_ABSENT = object()
#: The methods that run where a class or its object is called.
_CONSTRUCTED = ("__init__", "__new__", "__call__", "__post_init__")

#: Attribute access itself goes through these.
_ACCESS = {"__getattribute__", "__getattr__", "__setattr__", "__delattr__"}
#: What makes, describes or names an object takes no part in its calls.
_ASIDE = {"__init__", "__new__", "__post_init__", "__class__", "__name__", "__repr__", "__str__"}


@dataclasses.dataclass(frozen=True)
class Binding:
    """A name in a namespace, and the value that it had when it was met.

    Attributes:
      namespace: that of a module or a class.
      place: the name of the module or class.
      name: the name in it.
      value: the function, class, module or descriptor there.
    """

    namespace: Mapping[str, object]
    place: str
    name: str
    value: object


class Uses:
    """All that a function may use: whatever a name in its code, or in the code of what it uses, stands for.

    A name may stand for a global variable, for an attribute of a module or class that the same code names, and for an
    attribute of the object. That is more than is used in fact, never less.

    Attributes:
      names: the names in the code that an object may have an attribute of, but for that of the function itself.
      bindings: the functions, classes and modules that were found, with their places.
      foreign: the places of what is neither of the library nor of something that it requires.

    Args:
      function: where to begin.
      owner: the class of the object whose method it is, or None.
      library: the package that the function is of; functions of others are not followed, and of JAX those of other modules.
      own_code: the code of functions as they were written.
    """

    def __init__(self, function: types.FunctionType, owner: type | None, library: str, own_code: OwnCode) -> None:
        self._names: set[str] = set()
        self.bindings: dict[tuple[int, str], Binding] = {}
        self.foreign: list[str] = []
        self._owner, self._library, self._own_code = owner, library, own_code
        self._module = function.__globals__["__name__"] if library in BENEATH else None
        self._codes: dict[types.FunctionType, types.CodeType] = {}
        self._waiting: list[types.FunctionType] = []
        self._found(function, function.__qualname__)
        while self._waiting:
            self._walk(self._waiting.pop())
        self.names = frozenset({*self._names, *_ACCESS} - _ASIDE - {function.__name__})

    def _walk(self, function: types.FunctionType) -> None:
        if function in self._codes:
            return
        code = self._codes[function] = self._own_code(function)
        names = names_in(code)
        if self._owner is not None:
            for name in sorted(names - self._names):
                self._attribute(self._owner, name)
        self._names |= names
        seen: set[tuple[int, str]] = set()
        for name in sorted(names & function.__globals__.keys()):
            self._global(function.__globals__, name, names, seen)
        for name, value in closed_over(function).items():
            if callable(value):
                self._found(value, f"{function.__qualname__}.{name}")

    def _attribute(self, cls: type, name: str) -> None:
        """Follow a method, property or descriptor of a class, and those of its bases, which `super()` reaches."""
        for base in cls.__mro__[:-1] if is_method(cls, name) else ():
            if name in vars(base) and is_behaviour(vars(base)[name]):
                self._bind(vars(base), base.__qualname__, name, vars(base)[name])

    def _global(
        self, namespace: Mapping[str, object], name: str, names: frozenset[str], seen: set[tuple[int, str]]
    ) -> None:
        """Follow a name in the namespace of a module, and what of it the same code names; `seen` are the places met in that code."""
        value = namespace[name]
        if (id(namespace), name) in seen or not (isinstance(value, types.ModuleType) or callable(value)):
            return
        seen.add((id(namespace), name))
        self._bind(namespace, str(namespace["__name__"]), name, value)
        if isinstance(value, types.ModuleType):
            for used in sorted(names & vars(value).keys()):
                self._global(vars(value), used, names, seen)
        elif isinstance(value, type) and root_of_module(value.__module__) == self._library and self._module is None:
            for used in sorted({*_CONSTRUCTED, *names} & vars(value).keys()):
                if is_behaviour(vars(value)[used]):
                    self._bind(vars(value), value.__qualname__, used, vars(value)[used])

    def _bind(self, namespace: Mapping[str, object], place: str, name: str, value: object) -> None:
        if (id(namespace), name) not in self.bindings:
            self.bindings[id(namespace), name] = Binding(namespace, place, name, value)
            self._found(value, f"{place}.{name}")

    def _found(self, value: object, place: str) -> None:
        """Follow the functions behind something callable, or note that it is foreign."""
        functions = list(functions_of(value))
        roots = {root_of(function) for function in functions} or {root_of_module(home_of(value))}
        unknown = roots - {self._library, *BENEATH}
        if unknown and unknown - requirements(self._library):
            self.foreign.append(place)
        self._waiting += [
            function
            for function in functions
            if root_of(function) == self._library and self._module in (None, function.__globals__["__name__"])
        ]

    def replaced(self) -> str | None:
        """The place of something that is not the library's, or not what it was when this was made; None if there is none."""
        if self.foreign:
            return self.foreign[0]
        for binding in self.bindings.values():  # for each call of a layer, so that each call here counts
            if binding.namespace.get(binding.name, _ABSENT) is not binding.value:
                return f"{binding.place}.{binding.name}"
        changed = (f for f, code in self._codes.items() if f.__code__ is not code and self._own_code(f) is not code)
        return next((f"the code of {function.__qualname__}" for function in changed), None)


_UsesKey = tuple[types.FunctionType, type | None, str, OwnCode]
#: What a function used when it was met first: later changes show against that.
_met: dict[_UsesKey, Uses] = {}


def uses_of_function(function: types.FunctionType, owner: type | None, library: str, own_code: OwnCode) -> Uses:
    """`Uses` of when a function was met first, the library being taken to be unmodified then but for what is foreign to it."""
    key = function, owner, library, own_code
    uses = _met.get(key)
    if uses is None:
        uses = Uses(*key)
        if not uses.foreign:  # as while a function is patched; it may be there again the next time
            _met[key] = uses
    return uses


def attribute_of(cls: type, name: str) -> object:
    """An attribute of a class as the class that defines it holds it: a function, and not what a descriptor gives; None if there is none."""
    holder = _holder(cls, name)
    return None if holder is None else vars(holder)[name]


def is_method(cls: type, name: str) -> bool:
    """Whether an attribute of a class is a method, a property or another descriptor, and no field of a dataclass."""
    return is_behaviour(attribute_of(cls, name)) and not is_field(cls, name)


def is_field(cls: type, name: str) -> bool:
    """Whether an attribute is a field of a dataclass, whose value each object has."""
    dataclass = _holder(cls, "__dataclass_fields__")
    return dataclass is not None and name in vars(dataclass)["__dataclass_fields__"]


def _holder(cls: type, name: str) -> type | None:
    """The class that defines an attribute of a class; None if it has none but that of every object."""
    for base in cls.__mro__[:-1]:
        if name in base.__dict__:
            return base
    return None


@functools.cache
def names_in(code: types.CodeType) -> frozenset[str]:
    """The names of globals and attributes in a code object, and texts that may be the name of an attribute."""
    return frozenset(_all_names(code))


def _all_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _all_names(const)
        elif isinstance(const, str) and const.isidentifier():
            yield const
