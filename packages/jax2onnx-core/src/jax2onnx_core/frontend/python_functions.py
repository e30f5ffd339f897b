"""Python functions taken apart: their parameters, what they close over, and their code."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol

import jax.extend.core
from jax2onnx_graph.build.names import unwrapped
from jax2onnx_graph.errors import InputError, PluginError

__all__ = [
    "Dispatching", "bound_parameters", "closed_over", "copied", "defaults_of", "dispatching_code", "fill", "function_behind", "may_dispatch", "name_of", "parameter_names", "rebuilt", "used_globals",
]  # fmt: skip


class Dispatching(Protocol):
    """A receiver of the calls of a function."""

    def dispatch(self, /, *args: object, **kwargs: object) -> object:
        """Take a call of the function, and return its result."""


def bound_parameters(fn: Callable[..., object], count: int, kwargs: Mapping[str, object]) -> list[str]:
    """The names of the parameters that positional arguments are bound to; "x" for a single one that is bound to `*args`.

    Args:
      fn: the callable.
      count: how many positional arguments there are.
      kwargs: the keyword arguments beside them.

    Raises:
      InputError: the function cannot take them.
    """
    if others := [name for name in kwargs if not isinstance(name, str)]:
        raise InputError(
            f"kwargs has the key {others[0]!r}; the keys are names of parameters, {{'scale': ((), 'float32')}}."
        )
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins and C functions have no signature
        return [f"arg{i}" for i in range(count)]
    try:
        bound = signature.bind(*range(count), **dict.fromkeys(kwargs))
    except TypeError as error:
        raise InputError(
            f"The function {name_of(fn)}{signature} cannot be called with {count} positional inputs"
            f"{' and keywords ' + ', '.join(kwargs) if kwargs else ''}: {error}."
        ) from None
    names: list[str] = []
    for parameter, value in bound.arguments.items():
        if signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL:
            is_only_one = len(value) == count == 1 and "x" not in kwargs
            names += ["x"] if is_only_one else [f"{parameter}_{i}" for i in range(len(value))]
        elif isinstance(value, int):  # its number; keywords have none, though one may be called like a parameter
            names.append(parameter)
    return names


def parameter_names(fn: Callable[..., object]) -> list[str]:
    """The names of a function's parameters; none where it has no signature."""
    try:
        return list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return []


def name_of(fn: Callable[..., object]) -> str:
    """A callable as messages name it: by its own qualified name, or by the class of an object."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = unwrapped(fn)
    if isinstance(fn, types.MethodType) and isinstance(fn.__self__, jax.extend.core.Primitive):
        return f"{fn.__qualname__} of {fn.__self__.name!r}"
    return fn.__qualname__ if inspect.isroutine(fn) or inspect.isclass(fn) else type(fn).__name__


def closed_over(fn: types.FunctionType) -> dict[str, object]:
    """The values that a function closes over, by name."""
    cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def used_globals(fn: types.FunctionType) -> dict[str, object]:
    """The global variables that a function names, or one that is defined inside of it."""
    return {name: fn.__globals__[name] for name in _global_names(fn.__code__) if name in fn.__globals__}


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _global_names(const)


def defaults_of(fn: types.FunctionType) -> dict[str, object]:
    """The defaults of a function's parameters, by name."""
    return {**dict(zip(_with_default(fn), fn.__defaults__ or (), strict=True)), **(fn.__kwdefaults__ or {})}


def _with_default(fn: types.FunctionType) -> tuple[str, ...]:
    """The parameter of each positional default; empty where the code has fewer, as the one that `dispatching_code` makes."""
    count, wanted = fn.__code__.co_argcount, len(fn.__defaults__ or ())
    return ("",) * (wanted - count) + fn.__code__.co_varnames[max(count - wanted, 0) : count]


def rebuilt(fn: types.FunctionType, closed: Collection[str]) -> types.FunctionType:
    """A copy of the function whose global variables, and what it closes over by these names, are its own, for `fill`."""
    cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
    closure = tuple(types.CellType() if name in closed else cell for name, cell in cells)
    fresh = types.FunctionType(fn.__code__, {**fn.__globals__}, fn.__name__, fn.__defaults__, closure or None)
    fresh.__kwdefaults__ = fn.__kwdefaults__
    fresh.__qualname__ = fn.__qualname__
    fresh.__dict__ = {**vars(fn)}
    return fresh


def fill(
    fresh: types.FunctionType, closed: Mapping[str, object], global_variables: Mapping[str, object], defaults: Mapping[str, object],
) -> None:  # fmt: skip
    """Put values into a function that `rebuilt` made.

    Args:
      fresh: the function.
      closed: name → value in place of the one that the function closes over, for each name that `rebuilt` was given.
      global_variables: name → value in place of the global variable.
      defaults: name → value in place of the default of the parameter.
    """
    for name, cell in zip(fresh.__code__.co_freevars, fresh.__closure__ or (), strict=True):
        if name in closed:
            cell.cell_contents = closed[name]
    fresh.__globals__.update(global_variables)
    positional = zip(_with_default(fresh), fresh.__defaults__ or (), strict=True)
    fresh.__defaults__ = tuple(defaults.get(name, value) for name, value in positional) or None
    fresh.__kwdefaults__ = {
        name: defaults.get(name, value) for name, value in (fresh.__kwdefaults__ or {}).items()
    } or None


def function_behind(name: str) -> types.FunctionType:
    """The Python function of the name `"module:Class.method"` that a composite claims: that which a decorator wraps, if one does.

    Raises:
      PluginError: the module, which is imported, has none there.
    """
    module, _, path = name.partition(":")
    found: object = sys.modules[module]
    try:
        for part in path.split("."):
            found = vars(found)[part]
    except KeyError as missing:
        raise PluginError(
            f"A composite claims the function {name!r}, which does not exist: {module} has no {missing.args[0]!r} there. "
            "The installed version of that module may be another one than the plugin was written for."
        ) from None
    function = found
    if callable(found) and not isinstance(found, types.FunctionType):
        function = inspect.unwrap(found, stop=lambda f: isinstance(f, types.FunctionType))
    if not isinstance(function, types.FunctionType):
        raise PluginError(f"A composite claims {name!r}, which is a {type(found).__name__}, not a Python function.")
    return function


def copied(fn: types.FunctionType) -> types.FunctionType:
    """A function that keeps the code of `fn` whatever becomes of it there."""
    copy = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    copy.__kwdefaults__ = fn.__kwdefaults__
    return copy


def dispatching_code(code: types.CodeType, receiver: Dispatching) -> types.CodeType:
    """Code that hands each call to `receiver.dispatch`, for a function whose own code is `code`.

    The receiver is a constant of the code, since a function's closure cannot be replaced.
    """
    return _template.__code__.replace(
        co_consts=tuple(receiver if const == "receiver" else const for const in _template.__code__.co_consts),
        co_freevars=code.co_freevars,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )


def may_dispatch(code: types.CodeType) -> bool:
    """Whether code has the names that `dispatching_code` writes, and so may be of it."""
    return code.co_names == _template.__code__.co_names


def _template(*args: object, **kwargs: object) -> object:
    return "receiver".dispatch(*args, **kwargs)  # type: ignore[attr-defined]


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  (an empty cell raises)
    except ValueError:
        return False
    return True
