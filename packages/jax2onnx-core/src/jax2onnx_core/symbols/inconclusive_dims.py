"""What tracing may ask about a symbolic dimension that has no one answer, said in the user's own terms."""

from __future__ import annotations

import re
import traceback

from jax2onnx_core import _compat
from jax2onnx_core.plugins.errors import UndecidedDimensionError
from jax2onnx_core.symbols.symbols import Symbols

__all__ = ["is_about_a_symbol", "undecided"]

_QUOTED = re.compile(r"'([^']+)'")
_COMPARISON = re.compile(r"comparison '(.+)' (<=|>=|<|>|==|!=) '(.+)' is inconclusive")
_DIMENSION = "'_DimExpr' object"  # how Python calls a dimension that it wants to be an int
_STRICT = {">": " + 1", "<": " - 1"}


def is_about_a_symbol(error: Exception) -> bool:
    """Whether JAX's or Python's `error` says that a symbolic dimension is no number."""
    return isinstance(error, _compat.inconclusive_dimension_error) or _DIMENSION in str(error)


def undecided(error: Exception, symbols: Symbols, place: str | None = None) -> UndecidedDimensionError:
    """The error to raise for JAX's `error`, which arose at `place`; by default where its traceback ends."""
    found: set[str] = set()

    def show(match: re.Match[str]) -> str:
        label, names = symbols.shown(match[1])
        found.update(names)
        return f"'{label}'"

    text = str(error).partition("\n")[0].replace(_DIMENSION, "A symbolic dimension")
    shown = _QUOTED.sub(show, text)
    name = min(found, default="T")
    return UndecidedDimensionError(
        f"Here the program needs the number behind a symbolic dimension: {shown.rstrip('.')}, at {place or _place(error)}. "
        f"Either give a constraint that decides the question, constraints=({_deciding(shown, name)!r},), or a number "
        f"for the symbol, specialize={{{name!r}: …}}.",
        frozenset(found),
    )


def _deciding(shown: str, name: str) -> str:
    """A constraint that answers a comparison with yes."""
    compared = _COMPARISON.search(shown)
    if compared is None:
        return f"{name} == 8"
    left, comparison, right = compared.groups()
    return f"{left} {'==' if comparison == '!=' else comparison[0] + '='} {right}{_STRICT.get(comparison, '')}"


def _place(error: Exception) -> str:
    """The innermost line of the user's own code."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _compat.is_user_file(f.filename)]
    if not frames:
        return "an unknown line"
    frame = frames[-1]
    return f"{frame.filename}:{frame.lineno} ({frame.name}): {frame.line}"
