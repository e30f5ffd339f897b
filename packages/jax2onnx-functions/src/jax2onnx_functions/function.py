"""`onnx_function`: a function, a method or a class of modules whose calls become calls of an ONNX function."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar, overload

from jax2onnx_core import Call, Context, Rules, Value, bind_composite, exporting

from jax2onnx_functions._domains import check_function_domain

__all__ = ["onnx_function", "rules"]

rules = Rules()

_OPERATION = "jax2onnx.function"
Decorated = TypeVar("Decorated", bound=Callable[..., object])
P = ParamSpec("P")
R = TypeVar("R")


@overload
def onnx_function(target: Decorated, /) -> Decorated: ...


@overload
def onnx_function(*, name: str | None = None, domain: str = "jax2onnx") -> Callable[[Decorated], Decorated]: ...


def onnx_function(
    target: Callable[..., object] | None = None, /, *, name: str | None = None, domain: str = "jax2onnx"
) -> object:
    """Make each call of `target` a call of an ONNX function in exported models.

    Args:
      target: a function, a method (decorated in its class), or a class, whose `__call__` is replaced. The class
        itself is returned, so that `isinstance` and inheritance go on working.
      name: the name of the ONNX function; that of the Python function or class if not given. Functions of equal
        name and different body are numbered.
      domain: the domain of the ONNX function.

    Raises:
      TypeError: `target` is not callable.
      ValueError: the domain is that of the standard operators, or of a runtime's.

    The function's inputs are the arrays that the call uses: its arguments, and weights of the bound object or
    of enclosing scopes. Calls whose jaxprs are equal share one body, whatever the values of the arrays, so that equal
    blocks of a network are stored once. Static arguments and configuration are part of the body.

    Outside an export the callable is called as it is. Under `jax.vmap` it stays a function; under `jax.grad`
    and `jax.jvp` its derivative is computed where it is called, without a function.

    >>> @onnx_function(name="Scale")
    ... def scale(x, factor):
    ...     return x * factor
    """
    check_function_domain("onnx_function", domain)

    def decorate(decorated: Callable[..., object]) -> Callable[..., object]:
        if isinstance(decorated, type):
            own = vars(decorated).get("__call__") or decorated.__call__
            setattr(decorated, "__call__", _wrap(own, name or decorated.__name__, domain))  # noqa: B010
            return decorated
        if not callable(decorated):
            raise TypeError(f"onnx_function decorates functions, methods and classes, not {decorated!r}.")
        return _wrap(decorated, name or _plain_name(decorated), domain)

    return decorate if target is None else decorate(target)


def _plain_name(fn: Callable[..., object]) -> str:
    """The qualified name of a function, without enclosing functions, as an identifier: `Class_method`."""
    qualified = fn.__qualname__.rpartition("<locals>.")[2]
    return re.sub(r"\W+", "_", qualified).strip("_") or "function"


def _wrap(fn: Callable[P, R], name: str, domain: str) -> Callable[P, R]:
    """`fn`, whose calls during an export are traced as one operation."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not exporting():
            return fn(*args, **kwargs)
        static = Call(name=name, domain=domain)
        return bind_composite(_OPERATION, static, lambda: fn(*args, **kwargs), keep_under_vmap=True)

    return call


@rules.lower(_OPERATION, physical=True)
def lower_function(ctx: Context, *, name: str, domain: str) -> Sequence[Value]:
    """A call of the function; its body is stored once for all calls of equal jaxprs."""
    jaxpr, operands = ctx.body
    if not ctx.avals_out:
        return ()
    return ctx.function(jaxpr, *operands, name=name, domain=domain)
