"""The Python functions behind a callable or a descriptor, and the library that their code is of."""

from __future__ import annotations

import collections
import functools
import importlib.metadata
import inspect
import re
import sys
import types
from collections.abc import Iterator

__all__ = ["BENEATH", "functions_of", "home_of", "is_behaviour", "requirements", "root_of", "root_of_module"]

#: JAX and what it requires, what stands in its modules while a function is traced, and Python's own modules.
BENEATH = {
    "jax",
    "jax2onnx_core",
    "jaxlib",
    "numpy",
    "scipy",
    "ml_dtypes",
    "opt_einsum",
    "typing_extensions",
    *sys.stdlib_module_names,
} - {"unittest", "__main__"}


def is_behaviour(value: object) -> bool:
    """Whether an attribute of a class is a method, a property or another descriptor, or something callable, not data."""
    if isinstance(value, types.MemberDescriptorType):
        return False
    return callable(value) or any("__get__" in vars(cls) for cls in type(value).__mro__)


def functions_of(value: object) -> Iterator[types.FunctionType]:
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
    if isinstance(value, type) or not is_behaviour(value):
        return []
    wrapped = inspect.getattr_static(value, "__wrapped__", None)
    if isinstance(wrapped, types.FunctionType) or wrapped is None:
        held = vars(value).values() if type(value).__dictoffset__ and wrapped is None else ()
        return [wrapped, *(v for v in held if isinstance(v, types.FunctionType))]
    return [inspect.unwrap(value)] if callable(value) else []


def home_of(value: object) -> str:
    """The module of something callable in which there is no Python function."""
    named = value if isinstance(value, type | types.BuiltinFunctionType) else type(value)
    return named.__module__ or "builtins"


def root_of(function: types.FunctionType) -> str:
    """The package that a function's code belongs to, whatever a wrapper has copied to it."""
    root = root_of_module(str(function.__globals__.get("__name__", "builtins")))
    return "collections" if root.startswith("namedtuple_") else root


@functools.cache
def requirements(library: str) -> frozenset[str]:
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


def root_of_module(module: str) -> str:
    """The package that a module is of, by its dotted name."""
    return module.partition(".")[0]
