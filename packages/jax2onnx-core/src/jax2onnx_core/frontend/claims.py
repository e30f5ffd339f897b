"""`Claim`: whether a call of a composite's target still computes what the library wrote, or something of it was changed.

A composite was written for the unmodified function. All that the function uses is followed through its code: the attributes
of its object's class, and the functions and classes of its library that it names. A call is not claimed where

1. the object's class, or a class beside the claimed one, defines one of the used attributes anew,
2. the object itself holds something else in place of a used method, or
3. one of the used functions is not the library's any more.

A property that the composite's function reads itself has the same value for both. What the library's own subclasses define
anew was there when the plugin was written.
"""

from __future__ import annotations

import collections
import dataclasses
import dis
import functools
import importlib.metadata
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping

import jax

from jax2onnx_core.frontend.python_functions import closed_over
from jax2onnx_core.jax_types import Function

__all__ = ["Binding", "Claim", "JaxFunctions", "Uses", "claim_of"]

#: The code of a function as its library wrote it, though a window may have put other code in place.
OwnCode = Callable[[types.FunctionType], types.CodeType]

_ABSENT = object()
#: Attribute access itself goes through these.
_ACCESS = ("__getattribute__", "__getattr__", "__setattr__", "__delattr__")
#: What makes, describes or names an object takes no part in its calls.
_ASIDE = {"__init__", "__new__", "__post_init__", "__class__", "__name__", "__repr__", "__str__"}
#: Instructions that end a statement, and those that make a text of a value.
_ENDS = ("POP_TOP", "RETURN_VALUE")
_TEXT = ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE")
#: JAX and what it requires, and Python's own modules.
_BENEATH = {
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "ml_dtypes",
    "opt_einsum",
    "typing_extensions",
    *sys.stdlib_module_names,
} - {"unittest", "__main__"}


@dataclasses.dataclass(frozen=True)
class Binding:
    """Look up a name in a namespace.

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
class _SelfUse:
    """How a function uses its first parameter.

    Attributes:
      attributes: those that it reads of it.
      receivers: names of what it may hand it to; None if that may be anything that it names.
    """

    attributes: frozenset[str] = frozenset()
    receivers: frozenset[str] | None = frozenset()

    def may_reach(self, name: str) -> bool:
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
        self._places = {function.__qualname__: {_root(function)}}
        self._owner, self._own_code = owner, own_code
        self._library = library
        self._walked: set[tuple[types.CodeType, bool]] = set()
        self._codes: dict[types.FunctionType, types.CodeType] = {}
        self._waiting: list[tuple[types.FunctionType, bool]] = [(function, owner is not None)]
        self._only_module = function.__globals__["__name__"] if self._library in _BENEATH else None
        while self._waiting:
            self._walk(*self._waiting.pop())

    def _walk(self, function: types.FunctionType, has_object: bool) -> None:
        code = self._own_code(function)
        if (code, has_object) in self._walked:
            return
        self._walked.add((code, has_object))
        self._codes[function] = code
        names = _names(code)
        use = _self_use(code) if has_object else _SelfUse()
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
                if _is_behaviour(value) and not _is_field(self._owner, name):
                    self._bind(vars(cls), cls.__qualname__, name, value, has_object=True)
                return

    def _global(
        self, namespace: Mapping[str, object], place: str, name: str, names: Iterable[str], use: _SelfUse
    ) -> None:
        value = namespace[name]
        if isinstance(value, types.ModuleType):
            self._module(namespace, place, name, names, use)
        elif isinstance(value, type):
            self._bind(namespace, place, name, value, has_object=use.may_reach(name))
            if _module_root(value.__module__) == self._library and self._only_module is None:
                for used in {"__init__", "__new__", "__call__", "__post_init__", *names} & vars(value).keys():
                    if _is_behaviour(vars(value)[used]):
                        self._bind(
                            vars(value),
                            value.__qualname__,
                            used,
                            vars(value)[used],
                            has_object=use.may_reach(used) or use.may_reach(name),
                        )
        elif callable(value):
            self._bind(namespace, place, name, value, has_object=use.may_reach(name))

    def _module(
        self, namespace: Mapping[str, object], place: str, name: str, names: Iterable[str], use: _SelfUse
    ) -> None:
        module = namespace[name]
        assert isinstance(module, types.ModuleType)
        key = id(namespace), name
        if key not in self.bindings:
            self.bindings[key] = Binding(namespace, place, name, module)
            self._places.setdefault(f"{place}.{name}", set()).add(_module_root(module.__name__))
        for used in names:
            if used in vars(module) and (id(vars(module)), used) not in self.bindings:
                self._global(vars(module), module.__name__, used, names, use)

    def _bind(self, namespace: Mapping[str, object], place: str, name: str, value: object, has_object: bool) -> None:
        self.bindings.setdefault((id(namespace), name), Binding(namespace, place, name, value))
        self._found(value, f"{place}.{name}", has_object)

    def _found(self, value: object, place: str, has_object: bool) -> None:
        """Follow the functions behind something callable, or note that it is foreign."""
        functions = list(_functions(value))
        roots = {_root(function) for function in functions} or {_module_root(_home(value))}
        self._places.setdefault(place, set()).update(roots)
        for function in functions:
            inside = self._only_module in (None, function.__globals__["__name__"])
            if _root(function) == self._library and inside:
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
        known = {self._library, *_BENEATH}
        unknown = {place: roots - known for place, roots in self._places.items() if roots - known}
        return [place for place, roots in unknown.items() if roots - _requirements(self._library)]


class Claim:
    """The calls of a function that a composite may stand for.

    Args:
      target: the composite's target, "module:qualified.name".
      function: the function there.
      fn: the function of the composite.
      own_code: the code of functions as they were written.
    """

    def __init__(self, target: str, function: types.FunctionType, fn: Function, own_code: OwnCode) -> None:
        self._target, self._function = target, function
        self._owner = _owner_of(target)
        self._library = library = _module_root(target.partition(":")[0])
        self._uses = _uses_of_function(function, self._owner, library, own_code)
        reader = _uses_of_function(fn, self._owner, _root(fn), own_code) if isinstance(fn, types.FunctionType) else None
        self._read = reader.attributes if reader is not None else set()
        used = {*self._uses.attributes, *self._read, *_ACCESS} - _ASIDE - {function.__name__}
        self._used = frozenset(used)
        self._methods = frozenset(name for name in used if self._owner is not None and _is_method(self._owner, name))
        self._own_code = own_code
        self._knows_library = not isinstance(fn, types.FunctionType) or _root(fn) != self._library

    @property
    def owner(self) -> type | None:
        """The class of which the target is a method; None for a function."""
        return self._owner

    @property
    def methods(self) -> frozenset[str]:
        """The names of the methods and properties of the class that a call uses, or that the composite's function uses."""
        return self._methods - {*_ACCESS}

    @property
    def bindings(self) -> list[Binding]:
        """The functions, classes and modules that a call uses."""
        return list(self._uses.bindings.values())

    def is_outdated(self) -> bool:
        """Whether it was made while a function was patched that is not any more."""
        return self._uses.is_outdated()

    def reads(self, name: str) -> bool:
        """Whether the composite's function reads an attribute of the object."""
        return name in self._read

    def change(self, args: tuple[object, ...]) -> str | None:
        """A sentence about what was changed for a call with these arguments; None where nothing was."""
        replaced = self._uses.replaced()
        if replaced is not None:
            return self._sentence(f"{replaced} was replaced")
        return self._object_change(args[0]) if self._owner is not None and args else None

    def change_of_parts(self, args: tuple[object, ...]) -> str | None:
        """A sentence about a changed object of the library that a composite's function reads in place of calling it.

        Such as the cell of a recurrent layer: those among the arguments, and those that the call's object holds.
        """
        if self._owner is None or not args:
            return self._change_of_any(args, set())
        held = [vars(args[0])[name] for name in sorted(self._read & _fields(args[0]).keys())]
        return self._change_of_any([*args[1:], *held], {id(args[0])})

    def _change_of_any(self, values: Iterable[object], seen: set[int]) -> str | None:
        """A sentence about the first changed object of the library; `seen` are the identities of those met."""
        for value in values:
            if isinstance(value, list | tuple):
                found = self._change_of_any(value, seen)
            elif id(value) not in seen and callable(value) and not isinstance(value, type | types.FunctionType):
                seen.add(id(value))
                found = self._part_change(value, seen)
            else:
                found = None
            if found is not None:
                return found
        return None

    def _part_change(self, part: object, seen: set[int]) -> str | None:
        mro = type(part).__mro__
        base = next((cls for cls in mro if _module_root(cls.__module__) == self._library), None)
        if base is None:
            return None
        methods = {name for name in (self._function.__name__, "__call__") if _is_method(base, name)}
        used, direct = set(methods), set[str]()
        for name in methods:
            for function in list(_functions(inspect.getattr_static(base, name)))[-1:]:
                uses = _uses_of_function(function, base, self._library, self._own_code)
                replaced = uses.replaced()
                if replaced is not None:
                    return self._sentence(f"{replaced} was replaced")
                used |= uses.attributes
                direct |= _self_use(self._own_code(function)).attributes
        for cls in mro[: mro.index(base)]:
            for name in sorted(used & vars(cls).keys()):
                if _is_behaviour(vars(cls)[name]) and not _is_field(base, name):
                    return self._sentence(f"{cls.__qualname__} overrides {name}")
        for name in sorted(used & _fields(part).keys()):
            if _is_method(base, name) and not _is_the_library_s(vars(part)[name], inspect.getattr_static(base, name)):
                return self._sentence(f"{name} of an object of {type(part).__qualname__} was replaced")
        return self._change_of_any([vars(part)[name] for name in sorted(direct & _fields(part).keys())], seen)

    def _object_change(self, held: object) -> str | None:
        found = self._type_change(type(held))
        if found is not None:
            return found
        for name in self._methods & _fields(held).keys():
            if not _is_the_library_s(vars(held)[name], inspect.getattr_static(self._owner, name)):
                return self._sentence(f"{name} of an object of {type(held).__qualname__} was replaced")
        return None

    def _type_change(self, cls: type) -> str | None:
        assert self._owner is not None
        if self._owner not in cls.__mro__:
            return f"{cls.__qualname__} is not a {self._owner.__qualname__}, for which {self._target} was written"
        for other in cls.__mro__:
            if other in self._owner.__mro__:
                continue
            for name in sorted(self._used & vars(other).keys()):
                if self._is_changed(name, vars(other)[name]) and not self._is_known(other, name):
                    return self._sentence(f"{other.__qualname__} overrides {name}")
        return None

    def _is_changed(self, name: str, value: object) -> bool:
        """Whether an attribute's definition in another class means something else to the function than to the composite."""
        assert self._owner is not None
        if _is_field(self._owner, name) and not _is_property(value):
            return False
        if _is_property(value) and _module_root(_home(value)) == self._library and not any(_functions(value)):
            return False  # the library's own descriptor, which a hook of the library puts into each class
        if not _is_behaviour(value) and not _is_method(self._owner, name):
            return False
        return not (_is_property(value) and name in self._read)

    def _is_known(self, cls: type, name: str) -> bool:
        """Whether a definition is that of the library's own subclass, and the plugin was written for the library from outside."""
        roots = {_module_root(cls.__module__), *map(_root, _functions(vars(cls)[name]))}
        return self._knows_library and roots == {self._library}

    def _sentence(self, change: str) -> str:
        return f"{change}, which {self._target.partition(':')[2].removesuffix('.__wrapped__')} uses"


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


_UsesKey = tuple[types.FunctionType, type | None, str, OwnCode]
_ClaimKey = tuple[str, types.FunctionType, Function, OwnCode]

#: What a function used when it was met first: later changes show against that.
_met_uses: dict[_UsesKey, Uses] = {}
_met_claims: dict[_ClaimKey, Claim] = {}


def _uses_of_function(function: types.FunctionType, owner: type | None, library: str, own_code: OwnCode) -> Uses:
    key = function, owner, library, own_code
    uses = _met_uses.get(key)
    if uses is None or uses.is_outdated():
        uses = _met_uses[key] = Uses(*key)
    return uses


def claim_of(target: str, function: types.FunctionType, fn: Function, own_code: OwnCode) -> Claim:
    """The claim of a composite, made when one of its calls is met first: the library is taken to be unmodified then,
    but for what is not its own. One that was made while a function was patched is made anew after that.

    Args:
      target: the composite's target, "module:qualified.name".
      function: the function there.
      fn: the function of the composite.
      own_code: the code of functions as they were written.
    """
    key = target, function, fn, own_code
    claim = _met_claims.get(key)
    if claim is None or claim.is_outdated():
        claim = _met_claims[key] = Claim(*key)
    return claim


def _is_behaviour(value: object) -> bool:
    """Whether an attribute of a class is a method, a property or another descriptor, or something callable, not data."""
    return not isinstance(value, types.MemberDescriptorType) and (callable(value) or hasattr(type(value), "__get__"))


def _fields(held: object) -> Mapping[str, object]:
    """The attributes that an object itself holds."""
    return vars(held) if type(held).__dictoffset__ else {}


def _is_property(value: object) -> bool:
    """Whether a class's attribute computes the attribute of an object: a property, or another descriptor that is no method."""
    return _is_behaviour(value) and not callable(value) and not isinstance(value, classmethod | functools.partialmethod)


def _is_field(owner: type, name: str) -> bool:
    """Whether an attribute is a field of a dataclass, whose value each object has."""
    return name in inspect.getattr_static(owner, "__dataclass_fields__", {})


def _is_method(owner: type, name: str) -> bool:
    found = inspect.getattr_static(owner, name, None)
    return found is not None and _is_behaviour(found) and not _is_field(owner, name)


def _is_the_library_s(value: object, method: object) -> bool:
    """Whether what an object holds in place of a method is the method, perhaps wrapped by the library's constructor."""
    inside, own = list(_functions(value)), list(_functions(method))
    names = {function.__name__ for function in own}
    roots = {_root(function) for function in own}
    return bool(inside) and all(f.__name__ in names and _root(f) in roots for f in inside)


def _owner_of(target: str) -> type | None:
    """The class of a target that is a method."""
    module, _, path = target.partition(":")
    found: object = sys.modules[module]
    owner: type | None = None
    for name in path.split("."):
        found = vars(found)[name]
        owner = found if isinstance(found, type) else owner
    return owner


def _functions(value: object) -> Iterator[types.FunctionType]:
    """The Python functions that something callable, or a descriptor, is made of."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, types.FunctionType):
            yield found
        waiting += _parts(found)


def _parts(value: object) -> list[object]:
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, staticmethod | classmethod | types.MethodType):
        return [value.__func__]
    if isinstance(value, functools.partial | functools.partialmethod | functools.cached_property):
        return [value.func]
    if isinstance(value, type) or not _is_behaviour(value):
        return []
    wrapped = inspect.getattr_static(value, "__wrapped__", None)
    if isinstance(wrapped, types.FunctionType) or wrapped is None:
        held = vars(value).values() if type(value).__dictoffset__ and wrapped is None else ()
        return [wrapped, *(v for v in held if isinstance(v, types.FunctionType))]
    return [inspect.unwrap(value)] if callable(value) else []


def _home(value: object) -> str:
    """The module of something callable in which there is no Python function."""
    named = value if isinstance(value, type | types.BuiltinFunctionType) else type(value)
    return named.__module__ or "builtins"


def _root(function: types.FunctionType) -> str:
    """The package that a function's code belongs to, whatever a wrapper has copied to it."""
    root = _module_root(str(function.__globals__.get("__name__", "builtins")))
    return "collections" if root.startswith("namedtuple_") else root


@functools.cache
def _requirements(library: str) -> frozenset[str]:
    """The packages of the distributions that a library's own distribution requires."""
    packages: dict[str, set[str]] = collections.defaultdict(set)
    for package, distributions in importlib.metadata.packages_distributions().items():
        for distribution in distributions:
            packages[_normal(distribution)].add(package)
    own = [name for name, held in packages.items() if library in held]
    required = [r for name in own for r in importlib.metadata.requires(name) or () if "extra ==" not in r]
    names = [match.group() for r in required if (match := re.match(r"[\w.-]+", r))]
    return frozenset(package for name in names for package in packages[_normal(name)])


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _module_root(module: str) -> str:
    return module.partition(".")[0]


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
def _self_use(code: types.CodeType) -> _SelfUse:
    """How a function uses its first parameter; one without takes whatever it is given with `*args`."""
    if not code.co_argcount:
        return _SelfUse(receivers=None)
    attributes: set[str] = set()
    receivers: set[str] | None = set()
    for inner in _codes(code):
        read, handed_to = _uses_of(inner, code.co_varnames[0])
        attributes |= read
        receivers = None if receivers is None or handed_to is None else receivers | handed_to
    return _SelfUse(frozenset(attributes), None if receivers is None else frozenset(receivers))


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
