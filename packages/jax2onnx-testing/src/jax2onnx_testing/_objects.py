"""The objects of a class in a callable, and changes of them: another class, or another value of an attribute."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import inspect
import types
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jax2onnx_core.frontend.python_functions import closed_over
from jax2onnx_core.jax_types import PyTree

__all__ = ["Change", "changes_of", "claimed_function", "doubled", "objects_of", "owner_of", "restored", "subclass_of"]


@dataclasses.dataclass(frozen=True)
class Change:
    """Something that a user may have changed of a layer.

    Attributes:
      what: the change, as messages call it: "a subclass that overrides param".
      make: changes an object; what it returns says whether the change was met since.
    """

    what: str
    make: Callable[[object], Callable[[], bool]]

    def apply(self, held: object) -> Callable[[], bool] | None:
        """Change an object; None where its class refuses that."""
        try:
            return self.make(held)
        except (TypeError, ValueError, AttributeError):
            return None


def claimed_function(claimed: str) -> tuple[object, type | None]:
    """The function that a composite claims, "module:qualified.name", and the class of which it is a method, if it is one.

    Raises:
      ModuleNotFoundError: the library is not installed.
    """
    module, _, path = claimed.partition(":")
    held: object = importlib.import_module(module)
    owner: type | None = None
    for name in path.split("."):
        held = vars(held)[name]
        owner = held if isinstance(held, type) else owner
    return held, owner


def owner_of(claimed: str) -> type | None:
    """The class of which the function that a composite claims is a method; None for a function, or without the library."""
    try:
        return claimed_function(claimed)[1]
    except ModuleNotFoundError:
        return None


@contextlib.contextmanager
def restored(held: object) -> Iterator[None]:
    """Inside, an object may be changed; then it has its class and its fields again, since a case may share it with others."""
    cls, fields = type(held), dict(vars(held)) if type(held).__dictoffset__ else None
    try:
        yield
    finally:
        object.__setattr__(held, "__class__", cls)
        if fields is not None:
            for name in vars(held).keys() - fields.keys():
                object.__delattr__(held, name)
            for name, value in fields.items():
                object.__setattr__(held, name, value)


def objects_of(held: object, cls: type) -> list[object]:
    """The objects of a class that a callable holds, in closures, fields, partials and containers."""
    seen: set[int] = set()
    found: list[object] = []
    waiting = [held]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type | types.ModuleType | jax.Array):
            continue
        seen.add(id(value))
        if isinstance(value, cls):
            found.append(value)
        waiting += _parts(value)
    return found


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, types.FunctionType):
        wrapped = inspect.unwrap(value)
        return [*closed_over(value).values(), *([] if wrapped is value else [wrapped])]
    if type(value).__module__ == "builtins":
        return []
    held = vars(value) if type(value).__dictoffset__ else {}
    return list(held.values())


def subclass_of(cls: type, changes: dict[str, object]) -> type:
    """A subclass with these attributes; the hooks of the class see it without them, since they may reject or wrap them."""
    made = type(cls)("Changed", (cls,), {"__module__": __name__})
    for name, value in changes.items():
        type.__setattr__(made, name, value)
    return made


def doubled(result: PyTree) -> PyTree:
    """A result whose arrays of floats are doubled."""
    return jax.tree.map(_doubled, result)


def _doubled(leaf: PyTree) -> PyTree:
    return leaf * 2 if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def changes_of(held: object, claimed: str) -> Iterator[Change]:
    """Each change of an object that its class allows: methods and properties that a subclass overrides or that the object
    replaces, and other numbers, flags and functions in its fields.

    Args:
      held: an object.
      claimed: the method that the composite claims and that is called; another one in its place is another function.
    """
    cls = type(held)
    called = {name for name in claimed.partition(":")[2].split(".") if name in dir(cls)}
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        if name.startswith("__") or name in called:
            continue
        if isinstance(value, types.FunctionType):
            yield Change(f"a subclass that overrides {name}", functools.partial(_override, name, value))
            yield Change(f"an object that replaces {name}", functools.partial(_replace_method, name, value))
        elif isinstance(value, property) and value.fget is not None:
            yield Change(
                f"a subclass that overrides the property {name}", functools.partial(_override_property, name, value)
            )
    for name, value in list(vars(held).items() if cls.__dictoffset__ else ()):
        other = _other(value)
        if other is not None:
            yield Change(f"an object with another {name}", functools.partial(_replace_field, name))


def _override(name: str, original: types.FunctionType, held: object) -> Callable[[], bool]:
    calls: list[str] = []

    @functools.wraps(original)
    def overriding(self: object, /, *args: PyTree, **kwargs: PyTree) -> PyTree:
        calls.append(name)
        return doubled(original(self, *args, **kwargs))

    object.__setattr__(held, "__class__", subclass_of(type(held), {name: overriding}))
    return lambda: bool(calls)


def _override_property(name: str, original: property, held: object) -> Callable[[], bool]:
    calls: list[str] = []

    def overriding(self: object) -> PyTree:
        calls.append(name)
        value = original.__get__(self)
        return doubled(value) if isinstance(value, jax.Array) else _other(value) or value

    object.__setattr__(held, "__class__", subclass_of(type(held), {name: property(overriding)}))
    return lambda: bool(calls)


def _replace_method(name: str, original: types.FunctionType, held: object) -> Callable[[], bool]:
    calls: list[str] = []

    @functools.wraps(original)
    def replacing(*args: PyTree, **kwargs: PyTree) -> PyTree:
        calls.append(name)
        return doubled(original(held, *args, **kwargs))

    object.__setattr__(held, name, replacing)
    return lambda: bool(calls)


def _replace_field(name: str, held: object) -> Callable[[], bool]:
    object.__setattr__(held, name, _other(vars(held)[name]))
    return lambda: True


def _other(value: object) -> object | None:
    """Another value of the same kind; None where there is none at hand."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value * 1.5 + 0.25
    if isinstance(value, int):
        return value + 1
    if isinstance(value, types.FunctionType) and vars(jax.lax).get(value.__name__) is not value:
        original = value  # a function of lax is the reducer of a window: twice its result has no meaning there

        @functools.wraps(original)
        def other(*args: PyTree, **kwargs: PyTree) -> PyTree:
            return doubled(original(*args, **kwargs))

        return other
    return None
