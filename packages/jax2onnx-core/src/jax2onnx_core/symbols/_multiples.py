"""Advice for shapes that would be equal if a symbolic dimension were a multiple of a number, as where convolutions halve it."""

from __future__ import annotations

import itertools
import re

from jax2onnx_core import _compat_dims
from jax2onnx_core.jaxprs import is_static
from jax2onnx_core.symbols.symbols import Symbols

__all__ = ["dimensions", "multiples_that_agree"]

_SHAPES = re.compile(r"incompatible shapes for broadcasting: \((.*)\), \((.*)\)\.?$")
_NAME = re.compile(r"\b(?!(?:floordiv|mod|max|min)\b)[A-Za-z_]\w*")
_FACTORS = (2, 4, 8, 16, 32, 64, 128)


def multiples_that_agree(message: str) -> dict[str, str]:
    """For symbols, the multiples of them with which the two shapes of JAX's message agree; none where no multiple is known to help.

    Halving the size of an image rounds up or down, as each layer does it. JAX cannot tell whether two such sizes are equal; of a
    multiple it can.
    """
    found = _SHAPES.search(message.partition("\n")[0])
    if found is None or "floordiv" not in message:
        return {}
    left, right = (dimensions(text) for text in found.groups())
    pairs = [(a, b) for a, b in zip(reversed(left), reversed(right), strict=False) if a != b and "1" not in (a, b)]
    names = sorted({name for a, b in pairs for name in _NAME.findall(f"{a} {b}")})
    factor = next((factor for factor in _FACTORS if all(_agree(a, b, factor) for a, b in pairs)), None)
    return {} if factor is None else {name: f"{factor}*{name}" for name in names}


def _agree(left: str, right: str, factor: int) -> bool:
    """Whether two dimensions are known to be equal where every symbol in them is a multiple of `factor`."""
    symbols = Symbols([])
    scaled = {name: symbols.parse(f"{factor}*{name}") for name in _NAME.findall(f"{left} {right}")}
    one, other = (symbols.parse(text) for text in (left, right))
    if is_static(one) or is_static(other):
        return False
    return bool(_compat_dims.substitute(one, scaled) == _compat_dims.substitute(other, scaled))


def dimensions(shape: str) -> list[str]:
    """The dimensions of a shape that is written as text, without its parentheses."""
    depths = itertools.accumulate((c == "(") - (c == ")") for c in shape)
    marked = "".join("\n" if c == "," and depth == 0 else c for c, depth in zip(shape, depths, strict=True))
    return [part.strip() for part in marked.split("\n") if part.strip()]
