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

import functools
import inspect
import sys
import types
from collections.abc import Iterable, Mapping

import jax

from jax2onnx_core.frontend._library_code import functions_of, home_of, is_behaviour, root_of, root_of_module
from jax2onnx_core.frontend._uses import Binding, OwnCode, Uses, is_field, self_use, uses_of_function
from jax2onnx_core.jax_types import Function

__all__ = ["Binding", "Claim", "JaxFunctions", "Uses", "claim_of"]

#: Attribute access itself goes through these.
_ACCESS = ("__getattribute__", "__getattr__", "__setattr__", "__delattr__")
#: What makes, describes or names an object takes no part in its calls.
_ASIDE = {"__init__", "__new__", "__post_init__", "__class__", "__name__", "__repr__", "__str__"}


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
        self._library = library = root_of_module(target.partition(":")[0])
        self._uses = uses_of_function(function, self._owner, library, own_code)
        reader = (
            uses_of_function(fn, self._owner, root_of(fn), own_code) if isinstance(fn, types.FunctionType) else None
        )
        self._read = reader.attributes if reader is not None else set()
        used = {*self._uses.attributes, *self._read, *_ACCESS} - _ASIDE - {function.__name__}
        self._used = frozenset(used)
        self._methods = frozenset(name for name in used if self._owner is not None and _is_method(self._owner, name))
        self._own_code = own_code
        self._knows_library = not isinstance(fn, types.FunctionType) or root_of(fn) != self._library

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
        base = next((cls for cls in mro if root_of_module(cls.__module__) == self._library), None)
        if base is None:
            return None
        methods = {name for name in (self._function.__name__, "__call__") if _is_method(base, name)}
        used, direct = set(methods), set[str]()
        for name in methods:
            for function in list(functions_of(inspect.getattr_static(base, name)))[-1:]:
                uses = uses_of_function(function, base, self._library, self._own_code)
                replaced = uses.replaced()
                if replaced is not None:
                    return self._sentence(f"{replaced} was replaced")
                used |= uses.attributes
                direct |= self_use(self._own_code(function)).attributes
        for cls in mro[: mro.index(base)]:
            for name in sorted(used & vars(cls).keys()):
                if is_behaviour(vars(cls)[name]) and not is_field(base, name):
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
        if is_field(self._owner, name) and not _is_property(value):
            return False
        if _is_property(value) and root_of_module(home_of(value)) == self._library and not any(functions_of(value)):
            return False  # the library's own descriptor, which a hook of the library puts into each class
        if not is_behaviour(value) and not _is_method(self._owner, name):
            return False
        return not (_is_property(value) and name in self._read)

    def _is_known(self, cls: type, name: str) -> bool:
        """Whether a definition is that of the library's own subclass, and the plugin was written for the library from outside."""
        roots = {root_of_module(cls.__module__), *map(root_of, functions_of(vars(cls)[name]))}
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


_ClaimKey = tuple[str, types.FunctionType, Function, OwnCode]
_met_claims: dict[_ClaimKey, Claim] = {}


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


def _fields(held: object) -> Mapping[str, object]:
    """The attributes that an object itself holds."""
    return vars(held) if type(held).__dictoffset__ else {}


def _is_property(value: object) -> bool:
    """Whether a class's attribute computes the attribute of an object: a property, or another descriptor that is no method."""
    return is_behaviour(value) and not callable(value) and not isinstance(value, classmethod | functools.partialmethod)


def _is_method(owner: type, name: str) -> bool:
    found = inspect.getattr_static(owner, name, None)
    return found is not None and is_behaviour(found) and not is_field(owner, name)


def _is_the_library_s(value: object, method: object) -> bool:
    """Whether what an object holds in place of a method is the method, perhaps wrapped by the library's constructor."""
    inside, own = list(functions_of(value)), list(functions_of(method))
    names = {function.__name__ for function in own}
    roots = {root_of(function) for function in own}
    return bool(inside) and all(f.__name__ in names and root_of(f) in roots for f in inside)


def _owner_of(target: str) -> type | None:
    """The class of a target that is a method."""
    module, _, path = target.partition(":")
    found: object = sys.modules[module]
    owner: type | None = None
    for name in path.split("."):
        found = vars(found)[name]
        owner = found if isinstance(found, type) else owner
    return owner
