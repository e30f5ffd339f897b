"""Warnings of an export: what the trace took for granted, and what a model cannot keep."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from jax2onnx_core.frontend._specialized_tracing import SpecializedFunction
from jax2onnx_core.plugins.errors import ExportWarning

__all__ = ["warn"]

_UNDECIDED = (
    "The function asks at {line} whether {0} == {1}, which JAX answers by False where it does not know. So the model is for {0} != {1} "
    "only, which is checked when it runs; constraints=('{0} != {1}',) says that this is meant, and specialize={{…}} exports the other case."
)
_REQUIRED = (
    "The function reshapes an array at {line} to a shape that has as many elements only if {0}. So the model is for such sizes only, "
    "which is checked when it runs; constraints=('{0}',) says that this is meant."
)
_LOOKED_UP = (
    "The function looks {0} up in a dict or a set at {line}, which know no symbol but this very one. So the model is for sizes that are none "
    "of the keys, which nothing checks; a comparison with == is checked, and specialize={{…}} exports the case of a key."
)
_PRINTS = "The function prints at {line}, which a model cannot: it is left out."
_UNCHANGED = (
    "A call returns these states as they were: {names}. If it is meant to change them, a session would repeat its first step: the model may "
    "change a copy, as one that comes back from jax.jit is, or hold them where its framework does not look, as in a plain list."
)


def warn(function: SpecializedFunction, constraints: Sequence[str]) -> None:
    """Warn the caller of `to_onnx` of what the trace took for granted and of what it could not keep."""
    traced, symbols = function.traced, function.inputs.symbols
    messages = [] if traced.lost is None else [traced.lost]
    for (left, right), line in traced.undecided.items():
        labels = symbols.label(left), symbols.label(right)
        if f"{labels[0]} != {labels[1]}" not in constraints:
            messages.append(_UNDECIDED.format(*labels, line=line))
    messages += [_LOOKED_UP.format(symbols.label(dim), line=line) for dim, line in traced.lookups.items()]
    messages += [_REQUIRED.format(text, line=line) for text, line in traced.required.items() if text not in constraints]
    messages += [_PRINTS.format(line=line) for line in traced.printing]
    if traced.unchanged:
        messages.append(_UNCHANGED.format(names=", ".join(traced.unchanged)))
    for message in messages:
        warnings.warn(message, ExportWarning, stacklevel=3)
