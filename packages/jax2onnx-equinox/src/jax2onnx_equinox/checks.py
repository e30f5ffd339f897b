"""Checks at run time, as `eqx.error_if` makes them for itself, Diffrax, Lineax and Optimistix.

They raise by calling back into Python, else they return the values that were given. A model cannot raise: the values
pass through, as Equinox itself does it with `EQX_ON_ERROR=off`, and the report names the messages.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

import jax
from jax2onnx_core import Call, Composites, Context, Replacement, Rules, Value
from jax2onnx_core.jax_types import PyTree

__all__ = ["composites", "passed", "rules"]

composites = Composites()
rules = Rules()


@composites.call("equinox.internal:branched_error_if", name="equinox.error_if")
def branched_error_if(
    x: PyTree,
    pred: jax.Array,
    index: jax.Array,
    msgs: Sequence[str],
    *,
    on_error: Literal["default", "raise", "breakpoint", "off", "nan"] = "default",
) -> Replacement | None:
    """The values without the check; the check stays where its outcome is known, or where no callback is wanted.

    Kept because a check calls back into Python, which no model can.
    """
    import equinox as eqx

    wanted = os.environ.get("EQX_ON_ERROR", "raise") if on_error == "default" else on_error
    if wanted in ("off", "nan") or not isinstance(pred, jax.core.Tracer):
        return None
    arrays, others = eqx.partition(x, eqx.is_array)
    first, *more = [line for message in msgs for line in message.strip().splitlines()[:1]]
    text = f"{first!r} or {len(more)} other messages" if more else repr(first)
    return Replacement(eqx.combine(passed(arrays, text), others)) if jax.tree.leaves(arrays) else None


def passed(arrays: PyTree, messages: str) -> PyTree:
    """The arrays themselves; a function of its own, so that a composite can name the check in the report."""
    return arrays


@composites.call("jax2onnx_equinox.checks:passed", name="equinox.error_if", keep_under_vmap=True)
def passed_call(arrays: PyTree, messages: str) -> Call:
    """Kept because the report names the check."""
    return Call(*jax.tree.leaves(arrays), messages=messages)


@rules.lower("equinox.error_if", physical=True)
def lower_passed(ctx: Context, *values: Value, messages: str) -> Sequence[Value]:
    return values


@rules.lower("equinox.error_if", physical=True)
def name_in_report(ctx: Context, *values: Value, messages: str) -> Sequence[Value]:
    """Decline with the message of the check, so that the report has it."""
    ctx.decline(f"a model cannot raise {messages}")
