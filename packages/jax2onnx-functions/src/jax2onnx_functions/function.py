"""`onnx_function`: a callable, a method or a class of modules whose calls become calls of an ONNX function."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar, overload

from jax2onnx_core import Call, Rules, bind_composite, exporting

__all__ = ["onnx_function", "rules"]

rules = Rules()

_OPERATION = "jax2onnx.function"
_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


@overload
def onnx_function(target: _Decorated, /) -> _Decorated: ...


@overload
def onnx_function(*, name: str | None = None, domain: str = "jax2onnx") -> Callable[[_Decorated], _Decorated]: ...


def onnx_function(
    target: Callable[..., Any] | None = None, /, *, name: str | None = None, domain: str = "jax2onnx"
) -> Any:
    """Make each call of `target` a call of an ONNX function in exported models.

    Args:
      target: a function, a method (decorated in its class), or a class, whose `__call__` is meant. The class
        itself is changed and returned, so it stays what it was for everyone else.
      name: of the ONNX function; the name of the function or class if not given. Functions of equal
        name and different body are numbered.
      domain: of the ONNX function.

    The function's inputs are the arrays that the call uses: its arguments, and weights of the bound object or
    of enclosing scopes. Calls whose computation is equal share one body: the same operations on the same
    types, whatever the arrays. So equal blocks of a network are stored once. Static arguments and
    configuration are part of the body.

    Outside an export the callable is just called. Under `jax.vmap` it stays a function; under `jax.grad`
    and `jax.jvp` its derivative is computed where it is called, without a function.

    >>> @onnx_function(name="Scale")
    ... def scale(x, factor):
    ...     return x * factor
    """

    def decorate(decorated: Any) -> Any:
        if isinstance(decorated, type):
            own = vars(decorated).get("__call__") or decorated.__call__
            setattr(decorated, "__call__", _wrap(own, name or decorated.__name__, domain))  # noqa: B010
            return decorated
        if not callable(decorated):
            raise TypeError(f"onnx_function decorates functions, methods and classes, not {decorated!r}.")
        return _wrap(decorated, name or _plain_name(decorated), domain)

    return decorate if target is None else decorate(target)


def _plain_name(fn: Callable[..., Any]) -> str:
    """`Class.method` of a method, the bare name of a local function, as an identifier."""
    qualified = fn.__qualname__.rpartition("<locals>.")[2]
    return re.sub(r"\W+", "_", qualified).strip("_") or "function"


def _wrap(fn: Callable[..., Any], name: str, domain: str) -> Callable[..., Any]:
    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not exporting():
            return fn(*args, **kwargs)
        static = Call(name=name, domain=domain)
        return bind_composite(_OPERATION, static, lambda: fn(*args, **kwargs), keep_under_vmap=True)

    return call


@rules.lower(_OPERATION, packed=True)
def lower_function(ctx: Any, *, name: str, domain: str) -> Any:
    """A call node; the body is stored once for all calls of equal structure."""
    jaxpr, operands = ctx.body
    if not ctx.avals_out:
        return []
    return ctx.function(jaxpr, *operands, name=name, domain=domain)
