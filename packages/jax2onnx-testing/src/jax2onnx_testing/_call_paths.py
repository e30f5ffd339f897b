"""`CALL_PATHS`: the ways by which a program may reach a function, and a check that a composite sees all of them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Replacement
from jax2onnx_core.frontend.activation import activation_window
from jax2onnx_core.frontend.python_functions import function_behind
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.rules import CompositeSpec

from jax2onnx_testing._objects import claimed_function
from jax2onnx_testing._transforms import NotApplicableError
from jax2onnx_testing.errors import CheckFailedError

__all__ = ["check_reached"]


def _module_alias(fn: Function) -> Function:
    module = types.ModuleType("jax2onnx_testing_alias")
    setattr(module, "renamed", fn)  # noqa: B010
    return lambda *args: vars(module)["renamed"](*args)


def _default_argument(fn: Function) -> Function:
    def call(*args: PyTree, act: Function = fn) -> PyTree:
        return act(*args)

    return call


def _dataclass_field(fn: Function) -> Function:
    @dataclasses.dataclass(frozen=True)
    class Layer:
        act: Function = dataclasses.field(default_factory=lambda: fn)

    layer = Layer()
    return lambda *args: layer.act(*args)


#: Name of a way → a function that makes, from a function, one that calls it by a reference taken before. Axes are
#: added by `lax.expand_dims`, since indexing may be what is claimed.
CALL_PATHS: Mapping[str, Callable[[Function], Function]] = {
    "alias": _module_alias,
    "attribute": lambda fn: types.SimpleNamespace(act=fn).act,
    "list": lambda fn: [fn].__getitem__(0),
    "dict": lambda fn: {"act": fn}["act"],
    "closure": lambda fn: lambda *args: fn(*args),
    "partial": lambda fn: functools.partial(fn),
    "default argument": _default_argument,
    "dataclass field": _dataclass_field,
    "argument of jit": jax.jit,
    "argument of vmap": lambda fn: lambda *args: jax.vmap(fn)(*(lax.expand_dims(a, (0,)) for a in args)),
    "argument of checkpoint": lambda fn: jax.checkpoint(fn),
    "body of scan": lambda fn: (
        lambda *args: lax.scan(lambda _, xs: (None, fn(*xs)), None, [lax.expand_dims(a, (0,)) for a in args])
    ),
}


def check_reached(spec: CompositeSpec) -> None:
    """Check that a composite sees every call of its target, by whichever of the `CALL_PATHS`, and only in an activation window.

    Raises:
      NotApplicableError: the library is not installed.
      CheckFailedError: calls are not seen, or the function stays intercepted.
    """
    try:
        held, owner = claimed_function(spec.claimed)
    except ModuleNotFoundError as error:
        raise NotApplicableError(f"{error.name} is not installed.") from error
    assert callable(held)
    function = function_behind(spec.claimed)
    code, operands = function.__code__, [jnp.zeros(()) for _ in _required(function)]
    if owner is not None:
        held, operands = functools.partial(held, object.__new__(owner)), operands[1:]
    seen: list[CompositeSpec] = []
    answer = jnp.zeros(())  # Made here, since `record` may stand in for `jnp.zeros`.

    def record(*args: PyTree, **kwargs: PyTree) -> Replacement:
        seen.append(spec)
        return Replacement(answer)

    missed = []
    for way, make in CALL_PATHS.items():
        call = make(held)
        seen.clear()
        # A window for each: JAX remembers what it traced in one.
        with activation_window([dataclasses.replace(spec, fn=record)], object()):
            jax.make_jaxpr(call)(*operands)
        missed += [] if seen else [way]
    if missed:
        raise CheckFailedError(f"A call of {spec.claimed} is not seen by {', '.join(missed)}.")
    if function.__code__ is not code:
        raise CheckFailedError(f"{spec.claimed} stays intercepted after the export.")


def _required(function: types.FunctionType) -> list[str]:
    """The parameters that have to be given by position."""
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind in by_position and p.default is p.empty]
