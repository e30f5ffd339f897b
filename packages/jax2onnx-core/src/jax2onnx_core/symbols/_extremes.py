"""Advice for shapes that would be equal if a minimum or a maximum were known to be one of its operands, as where a table is cut to a length."""

from __future__ import annotations

import re

from jax2onnx_core import _compat_dims
from jax2onnx_core.plugins.errors import SymbolError
from jax2onnx_core.symbols._multiples import dimensions
from jax2onnx_core.symbols.symbols import Symbols

__all__ = ["deciding_constraints"]

_EXTREME = re.compile(r"\b(min|max)\(")
_COMPARISONS = {"min": "<=", "max": ">="}


def deciding_constraints(message: str, symbols: Symbols) -> list[str]:
    """Constraints under which each minimum and maximum of JAX's message is its operand that has symbols: `T <= 64` for `min(64, T)`."""
    found = []
    for match in _EXTREME.finditer(message):
        operands = dimensions(message[match.end() : _end(message, match.end())])
        symbolic = [operand for operand in operands if not operand.lstrip("-").isdecimal()]
        if len(operands) != 2 or not symbolic:
            continue
        taken = symbolic[-1]
        (other,) = operands[:1] if taken == operands[1] else operands[1:]
        text = f"{symbols.shown(taken)[0]} {_COMPARISONS[match[1]]} {symbols.shown(other)[0]}"
        if text not in found and _decides(text, symbols.shown(f"{match[1]}({taken}, {other})")[0], symbols):
            found.append(text)
    return found


def _decides(constraint: str, extreme: str, symbols: Symbols) -> bool:
    """Whether JAX knows under a further constraint that a minimum or maximum is one of its operands."""
    try:
        dim = symbols.constrained(constraint).parse(extreme)
    except (SymbolError, _compat_dims.inconclusive_dimension_error):
        return False
    return _EXTREME.search(str(dim)) is None


def _end(text: str, start: int) -> int:
    """The place of the parenthesis that closes the one before `start`."""
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    return len(text)
