"""`Uses`: all that a function uses, found by following its code."""

from __future__ import annotations

import dataclasses
import dis
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping

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

__all__ = ["Binding", "OwnCode", "SelfUse", "Uses", "is_field", "self_use", "uses_of_function"]

#: The code of a function as its library wrote it, though a window may have put other code in place.
OwnCode = Callable[[types.FunctionType], types.CodeType]
_ABSENT = object()
#: The methods that run where a class or its object is called.
_CONSTRUCTED = ("__init__", "__new__", "__call__", "__post_init__")
#: Instructions that end a statement, and those that make a text of a value.
_ENDS = ("POP_TOP", "RETURN_VALUE")
_TEXT = ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE")


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

    def is_kept(self) -> bool:
        """Whether the namespace still holds it."""
        return self.namespace.get(self.name, _ABSENT) is self.value


@dataclasses.dataclass(frozen=True)
class SelfUse:
    """How a function uses its first parameter.

    Attributes:
      attributes: those that it reads of it.
      receivers: names of what it may hand it to; None if that may be anything that it names.
    """

    attributes: frozenset[str] = frozenset()
    receivers: frozenset[str] | None = frozenset()

    def may_reach(self, name: str) -> bool:
        """Whether what is named may be handed the parameter."""
        return self.receivers is None or name in self.receivers


class Uses:
    """All that a function uses, found by following its code.

    Attributes:
      attributes: names of the attributes of its object, if it is a method.
      bindings: the functions, classes and modules that were found, with their places.

    Args:
      function: where to begin.
      owner: the class whose method it is, or None.
      library: the package that the function is of; functions of others are not followed.
      own_code: the code of functions as they were written.
    """

    def __init__(self, function: types.FunctionType, owner: type | None, library: str, own_code: OwnCode) -> None:
        self.attributes: set[str] = set()
        self.bindings: dict[tuple[int, str], Binding] = {}
        self._places = {function.__qualname__: {root_of(function)}}
        self._owner, self._own_code = owner, own_code
        self._library = library
        self._walked: set[tuple[types.CodeType, bool]] = set()
        self._codes: dict[types.FunctionType, types.CodeType] = {}
        self._waiting: list[tuple[types.FunctionType, bool]] = [(function, owner is not None)]
        self._only_module = function.__globals__["__name__"] if self._library in BENEATH else None
        while self._waiting:
            self._walk(*self._waiting.pop())

    def _walk(self, function: types.FunctionType, has_object: bool) -> None:
        code = self._own_code(function)
        if (code, has_object) in self._walked:
            return
        self._walked.add((code, has_object))
        self._codes[function] = code
        names = _names(code)
        use = self_use(code) if has_object else SelfUse()
        for name in use.attributes:
            self._attribute(name)
        if use.receivers is None or use.receivers:
            texts = {c for c in _constants(code) if isinstance(c, str) and c.isidentifier()}
            for name in names | texts:
                self._attribute(name)
        for name in names & function.__globals__.keys():
            self._global(function.__globals__, function.__globals__["__name__"], name, names, use)
        for name, value in closed_over(function).items():
            if callable(value):
                self._found(value, f"{function.__qualname__}.{name}", use.may_reach(name))

    def _attribute(self, name: str) -> None:
        """Follow an attribute of the object."""
        if self._owner is None or name in self.attributes:
            return
        self.attributes.add(name)
        for cls in self._owner.__mro__[:-1]:
            if name in vars(cls):
                value = vars(cls)[name]
                if is_behaviour(value) and not is_field(self._owner, name):
                    self._bind(vars(cls), cls.__qualname__, name, value, has_object=True)
                return

    def _global(
        self, namespace: Mapping[str, object], place: str, name: str, names: Iterable[str], use: SelfUse
    ) -> None:
        value = namespace[name]
        if isinstance(value, types.ModuleType):
            self._module(namespace, place, name, names, use)
        elif callable(value):
            self._bind(namespace, place, name, value, has_object=use.may_reach(name))
            if isinstance(value, type):
                self._class(value, name, names, use)

    def _class(self, cls: type, name: str, names: Iterable[str], use: SelfUse) -> None:
        """Follow the construction of a class of the library, its call, and what else of it is named."""
        if root_of_module(cls.__module__) != self._library or self._only_module is not None:
            return
        for used in {*_CONSTRUCTED, *names} & vars(cls).keys():
            if is_behaviour(vars(cls)[used]):
                reached = use.may_reach(used) or use.may_reach(name)
                self._bind(vars(cls), cls.__qualname__, used, vars(cls)[used], has_object=reached)

    def _module(
        self, namespace: Mapping[str, object], place: str, name: str, names: Iterable[str], use: SelfUse
    ) -> None:
        module = namespace[name]
        assert isinstance(module, types.ModuleType)
        key = id(namespace), name
        if key not in self.bindings:
            self.bindings[key] = Binding(namespace, place, name, module)
            self._places.setdefault(f"{place}.{name}", set()).add(root_of_module(module.__name__))
        for used in names:
            if used in vars(module) and (id(vars(module)), used) not in self.bindings:
                self._global(vars(module), module.__name__, used, names, use)

    def _bind(self, namespace: Mapping[str, object], place: str, name: str, value: object, has_object: bool) -> None:
        self.bindings.setdefault((id(namespace), name), Binding(namespace, place, name, value))
        self._found(value, f"{place}.{name}", has_object)

    def _found(self, value: object, place: str, has_object: bool) -> None:
        """Follow the functions behind something callable, or note that it is foreign."""
        functions = list(functions_of(value))
        roots = {root_of(function) for function in functions} or {root_of_module(home_of(value))}
        self._places.setdefault(place, set()).update(roots)
        for function in functions:
            inside = self._only_module in (None, function.__globals__["__name__"])
            if root_of(function) == self._library and inside:
                self._waiting.append((function, has_object))

    def replaced(self) -> str | None:
        """The place of something that is not the library's, or not what it was when this was made; None if there is none."""
        if self.foreign:
            return self.foreign[0]
        for binding in self.bindings.values():
            if not binding.is_kept():
                return f"{binding.place}.{binding.name}"
        changed = (f for f, code in self._codes.items() if f.__code__ is not code and self._own_code(f) is not code)
        return next((f"the code of {function.__qualname__}" for function in changed), None)

    def is_outdated(self) -> bool:
        """Whether something foreign was found, as while a function was patched, and a name holds something else since."""
        return bool(self.foreign) and not all(binding.is_kept() for binding in self.bindings.values())

    @functools.cached_property
    def foreign(self) -> list[str]:
        """The places of what is neither of the library nor of something that it requires."""
        known = {self._library, *BENEATH}
        unknown = {place: roots - known for place, roots in self._places.items() if roots - known}
        return [place for place, roots in unknown.items() if roots - requirements(self._library)]


_UsesKey = tuple[types.FunctionType, type | None, str, OwnCode]
#: What a function used when it was met first: later changes show against that.
_met_uses: dict[_UsesKey, Uses] = {}


def uses_of_function(function: types.FunctionType, owner: type | None, library: str, own_code: OwnCode) -> Uses:
    key = function, owner, library, own_code
    uses = _met_uses.get(key)
    if uses is None or uses.is_outdated():
        uses = _met_uses[key] = Uses(*key)
    return uses


def is_field(owner: type, name: str) -> bool:
    """Whether an attribute is a field of a dataclass, whose value each object has."""
    return name in inspect.getattr_static(owner, "__dataclass_fields__", {})


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those of the functions inside of it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


@functools.cache
def _names(code: types.CodeType) -> frozenset[str]:
    """The names of globals and attributes in a code object."""
    return frozenset(name for inner in _codes(code) for name in inner.co_names)


def _constants(code: types.CodeType) -> Iterator[object]:
    return (const for inner in _codes(code) for const in inner.co_consts)


@functools.cache
def self_use(code: types.CodeType) -> SelfUse:
    """How a function uses its first parameter; one without takes whatever it is given with `*args`."""
    if not code.co_argcount:
        return SelfUse(receivers=None)
    attributes: set[str] = set()
    receivers: set[str] | None = set()
    for inner in _codes(code):
        read, handed_to = _uses_of(inner, code.co_varnames[0])
        attributes |= read
        receivers = None if receivers is None or handed_to is None else receivers | handed_to
    return SelfUse(frozenset(attributes), None if receivers is None else frozenset(receivers))


def _uses_of(code: types.CodeType, variable: str) -> tuple[set[str], set[str] | None]:
    """The attributes that code reads of a variable, and the names loaded in the statements that hand it on."""
    instructions = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    attributes: set[str] = set()
    receivers: set[str] | None = set()
    loaded: set[str] = set()
    for instruction, following in zip(instructions, [*instructions[1:], instructions[-1]], strict=True):
        operation, argument = instruction.opname, instruction.argval
        if operation in _ENDS or operation.startswith("STORE_"):
            loaded = set()
        elif operation in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            loaded.add(str(argument))
            if argument == "super":
                attributes |= set(code.co_names)
        elif operation.startswith("LOAD_") and operation not in ("LOAD_CONST", "LOAD_CLOSURE"):
            pair = isinstance(argument, tuple)
            if argument == variable and following.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR"):
                attributes.add(str(following.argval))
            elif argument == variable or (pair and variable in argument):
                kept = following.opname.startswith("STORE_")
                if following.opname not in _TEXT:
                    receivers = None if receivers is None or kept else receivers | loaded | {variable}
            elif isinstance(argument, str):
                loaded.add(argument)
    return attributes, receivers
