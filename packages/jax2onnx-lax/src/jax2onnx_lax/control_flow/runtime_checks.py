"""Checks that a library makes while a program runs, as `equinox.error_if` does for itself and for Diffrax.

They raise by calling back into Python and return what they were given. A model raises nothing, as it prints nothing: the
values pass through, as Equinox itself does it with `EQX_ON_ERROR=off`.
"""

from __future__ import annotations

__all__ = ["composites", "rules"]

from collections.abc import Sequence
from typing import Any

import jax
from jax2onnx_core import Call, Composites, Rules

composites = Composites()
rules = Rules()


@composites.call("equinox:error_if", name="equinox.error_if", keep_under_vmap=True)
def error_if(x: Any, pred: Any, msg: str, *, on_error: str = "default") -> Call | None:
    return _checked(x)


@composites.call("equinox.internal:branched_error_if", name="equinox.error_if", keep_under_vmap=True)
def branched_error_if(x: Any, pred: Any, index: Any, msgs: Sequence[str], *, on_error: str = "default") -> Call | None:
    return _checked(x)


def _checked(x: Any) -> Call | None:
    """The call that returns `x`, a pytree of arrays; None if something else is in it."""
    leaves = jax.tree_util.tree_leaves(x)
    return Call(*leaves) if leaves and all(isinstance(leaf, jax.Array) for leaf in leaves) else None


@rules.lower("equinox.error_if", packed=True)
def lower_error_if(ctx: Any, *values: Any) -> Any:
    return list(values)
