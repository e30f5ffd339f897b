"""Checks at run time, as `equinox.error_if` makes them for itself and for Diffrax.

They raise by calling back into Python, else they return the values that were given. A model cannot raise: the values
pass through, as Equinox itself does it with `EQX_ON_ERROR=off`.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax2onnx_core import Call, Composites, Context, Rules, Value
from jax2onnx_core.jax_types import PyTree

__all__ = ["composites", "rules"]

composites = Composites()
rules = Rules()


@composites.call("equinox:error_if", name="equinox.error_if", keep_under_vmap=True)
def error_if(x: PyTree, pred: jax.Array, msg: str, *, on_error: str = "default") -> Call | None:
    return _checked(x)


@composites.call("equinox.internal:branched_error_if", name="equinox.error_if", keep_under_vmap=True)
def branched_error_if(
    x: PyTree, pred: jax.Array, index: jax.Array, msgs: Sequence[str], *, on_error: str = "default"
) -> Call | None:
    return _checked(x)


def _checked(x: PyTree) -> Call | None:
    """The call that returns `x`, a pytree of arrays; None if it has other leaves, or none."""
    leaves = jax.tree_util.tree_leaves(x)
    arrays = jax.Array | np.ndarray | np.generic
    return Call(*leaves) if leaves and all(isinstance(leaf, arrays) for leaf in leaves) else None


@rules.lower("equinox.error_if", physical=True)
def lower_error_if(ctx: Context, *values: Value) -> Sequence[Value]:
    return values
