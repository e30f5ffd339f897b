"""Expressions of symbols in the shapes and constraints that a model file holds, computed for sizes of the symbols."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from jax2onnx_graph.arrays import Array

__all__ = ["evaluate", "holds", "is_expression", "parsed", "solutions"]

#: The size of a symbol, or several that are tried at once.
_Size: TypeAlias = "int | np.int64 | Array"

_BINARY: Mapping[type[ast.operator], Callable[[_Size, _Size], _Size]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
_CALLS: Mapping[str, Callable[[_Size, _Size], _Size]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": np.maximum,
    "min": np.minimum,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[_Size, _Size], bool | Array]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.GtE: operator.ge, ast.LtE: operator.le, ast.Gt: operator.gt, ast.Lt: operator.lt,
}  # fmt: skip

# Dimensions of a higher power are a mistake, and would take their time.
_LARGEST_EXPONENT = 8


def evaluate(text: str, sizes: Mapping[str, int]) -> int:
    """The number that an expression is for sizes of its symbols.

    Raises:
      ValueError: it is none.
      KeyError: a symbol has no size.

    >>> evaluate("2*T + floordiv(S, 2)", {"T": 3, "S": 5})
    8
    """
    return int(_value(parsed(text), sizes))


def holds(text: str, sizes: Mapping[str, int]) -> bool:
    """Whether a comparison of two expressions is true.

    >>> holds("mod(T, 2) == 0", {"T": 3})
    False
    """
    return bool(_compared(text, sizes))


def solutions(text: str, symbol: str, tried: Array, sizes: Mapping[str, int]) -> Array:
    """The sizes of a symbol at which a comparison of two expressions is true.

    Args:
      text: the comparison.
      symbol: the symbol.
      tried: the sizes to try, of type int64.
      sizes: the sizes of the other symbols.

    Returns:
      Those of `tried` that fit, in their order.

    >>> solutions("mod(T, 2) == 0", "T", np.arange(6), {})
    array([0, 2, 4])
    """
    with np.errstate(all="ignore"):  # NumPy makes 0 of a quotient by 0
        return tried[_compared(text, {name: np.int64(size) for name, size in sizes.items()} | {symbol: tried})]


def _compared(text: str, sizes: Mapping[str, _Size]) -> bool | Array:
    match parsed(text):
        case ast.Compare(left, [comparison], [right]) if type(comparison) in _COMPARISONS:
            return _COMPARISONS[type(comparison)](_value(left, sizes), _value(right, sizes))
    raise ValueError(f"{text!r} compares no two expressions")


def is_expression(text: str) -> bool:
    """Whether a text is an expression of symbols: a label of another producer may be any text."""
    try:
        tree = parsed(text)
        _value(tree, {node.id: 1 for node in ast.walk(tree) if isinstance(node, ast.Name)})
    except (ValueError, ArithmeticError):
        return False
    return True


@functools.lru_cache(1024)
def parsed(text: str) -> ast.expr:
    """The syntax tree of an expression of symbols, in which a power may be written `^`.

    Raises:
      ValueError: the text is no expression.
    """
    try:
        return ast.parse(text.replace("^", "**").strip(), mode="eval").body
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"{text!r} is no expression") from error


def _value(node: ast.expr, sizes: Mapping[str, _Size]) -> _Size:
    match node:
        case ast.Constant(int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(name):
            return sizes[name]
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand, sizes)
        case ast.BinOp(base, ast.Pow(), ast.Constant(int(exponent))) if 0 <= exponent <= _LARGEST_EXPONENT:
            return _value(base, sizes) ** exponent
        case ast.BinOp(left, op, right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Call(ast.Name(name), [left, right], []) if name in _CALLS:
            return _CALLS[name](_value(left, sizes), _value(right, sizes))
    raise ValueError(f"{ast.unparse(node)!r} is no expression of symbols")
