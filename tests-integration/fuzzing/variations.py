"""Variations of a formula: the same change at every place of its text where it can be made.

The points of mutation of a `Formula` are what its author thought of. These are what a pass forgets to look at: the order of operands, another
power, a factor more, the sign of an epsilon, another axis, a reversed operand, a function that is applied twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

__all__ = ["variations"]

_ORDERED = {ast.Sub: "-", ast.Div: "/", ast.Pow: "**", ast.MatMult: "@", ast.FloorDiv: "//", ast.Mod: "%"}
_ORDERS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_FUNCTIONS = ("jnp.", "nn.", "lax.")


def variations(source: str) -> dict[str, str]:
    """Sources that differ from the given one in one change each, by what was changed; JAX may not accept all of them."""
    lines = source.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    found: dict[str, str] = {}
    for node in _values(ast.parse(source)):
        for change, place, new in _changes(node):
            assert place.end_lineno is not None
            assert place.end_col_offset is not None
            start, end = (
                starts[place.lineno - 1] + place.col_offset,
                starts[place.end_lineno - 1] + place.end_col_offset,
            )
            name = f"{change}: {source[start:end]}"
            name = f"{name} [{sum(known.startswith(name) for known in found)}]" if name in found else name
            found[name] = f"{source[:start]}({new}){source[end:]}"
    return found


def _values(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree that compute values from inputs."""
    if isinstance(tree, ast.Call) and ast.unparse(tree.func).startswith("np."):
        return
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from _values(child)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr, str]]:
    """The changes of a node: what is done, the expression that is replaced, and what stands there then."""
    match node:
        case ast.BinOp(left, op, right):
            yield from ((change, node, new) for change, new in _changed_operations(left, op, right))
            yield "a factor more", node, f"1.5 * ({ast.unparse(node)})"
        case ast.Compare(left, [op], [right]) if type(op) in _ORDERS:
            yield "swapped", node, f"({ast.unparse(right)}) {_ORDERS[type(op)]} ({ast.unparse(left)})"
        case ast.Constant(float(value)) if value:
            yield "another sign", node, str(-value)
        case ast.Call(function, [operand], []) if ast.unparse(function).startswith(_FUNCTIONS):
            yield "applied twice", node, f"{ast.unparse(function)}({ast.unparse(node)})"
            yield "reversed", operand, f"jnp.flip({ast.unparse(operand)}, -1)"
        case ast.Call(_, operands, keywords):
            for axis in _axes([*operands[1:], *(k.value for k in keywords if k.arg == "axis")]):
                yield "another axis", axis, "1" if ast.unparse(axis) == "0" else "0"
        case ast.Assign(_, ast.expr() as value) | ast.Return(ast.expr() as value) if not isinstance(value, ast.Tuple):
            yield "reversed", value, f"jnp.flip({ast.unparse(value)}, 0)"


def _changed_operations(left: ast.expr, op: ast.operator, right: ast.expr) -> Iterator[tuple[str, str]]:
    """Other operations on two operands."""
    a, b = ast.unparse(left), ast.unparse(right)
    if type(op) in _ORDERED:
        yield "swapped", f"({b}) {_ORDERED[type(op)]} ({a})"
    elif isinstance(op, ast.Add):
        yield "subtracted", f"({b}) - ({a})"
    elif isinstance(op, ast.Mult):
        yield "another power", f"({a}) * ({a}) * ({b})"
        yield "without a factor", b


def _axes(operands: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """The operands that are numbers of axes."""
    for node in operands:
        value = node.operand if isinstance(node, ast.UnaryOp) else node
        if isinstance(value, ast.Constant) and type(value.value) is int:
            yield node
