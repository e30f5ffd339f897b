"""JAX's symbolic dimensions, as far as they depend on its version or on its private API."""

from __future__ import annotations

import ast
import contextlib
import operator
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np
from jax._src import core as _core
from jax._src.export import shape_poly as _shape_poly
from jax._src.lax import lax as _lax
from jax2onnx_graph.facts.dims import Dim, Factor, SymbolicDim, Term, is_static

from jax2onnx_core.jax_types import Aval, Equation

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "LESS_ONE",
    "bounds",
    "computed",
    "constrain",
    "constraints_kept",
    "dim_expression",
    "divisors",
    "inconclusive_dimension_error",
    "is_product",
    "is_symbolic_dim",
    "operation",
    "scope_of",
    "solve_dims",
    "substitute",
    "symbol",
    "symbols_of",
    "term",
    "unknown_symbol_error",
    "with_known_dim",
]


def is_symbolic_dim(dim: object) -> TypeIs[SymbolicDim]:
    """Whether a dimension is an expression of symbols."""
    return isinstance(dim, _shape_poly._DimExpr)


def is_product(frame: traceback.FrameSummary) -> bool:
    """Whether a frame of a traceback multiplies a symbolic dimension by something."""
    return frame.filename == _shape_poly.__file__ and frame.name in ("__mul__", "__rmul__")


def scope_of(dim: _shape_poly._DimExpr) -> jax.export.SymbolicScope:
    return dim.scope


def symbols_of(dim: _shape_poly._DimExpr) -> set[str]:
    """Names of the symbols in a dimension expression."""
    return dim._get_vars()


def dim_expression(dim: _shape_poly._DimExpr) -> list[Term]:
    """The terms that a dimension expression is the sum of."""
    return [
        (coefficient, [(f.var if f.var is not None else (f.operation, f.operands), e) for f, e in term._factors])
        for term, coefficient in dim._sorted_terms
    ]


def bounds(dim: Dim) -> tuple[float, float]:
    """The least and the greatest value that a dimension can have, as far as JAX can tell."""
    if is_static(dim):
        return dim, dim
    return _shape_poly._bounds_decision(dim, _shape_poly.BoundsPrecision.BEST)


def substitute(dim: _shape_poly._DimExpr, env: Mapping[str, Dim]) -> Dim:
    """The expression with its symbols replaced (by expressions of one other scope, or numbers)."""
    return dim._evaluate(dict(env))


_BINARY: Mapping[type[ast.operator], Callable[[Dim, Dim], Dim]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow,
}  # fmt: skip
_CALLS: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "max": _core.max_dim, "min": _core.min_dim,
}  # fmt: skip


def computed(node: ast.expr, symbols: Mapping[str, Dim]) -> Dim:
    """The dimension that an expression is, whose text JAX can parse, for these dimensions in the place of its symbols."""
    match node:
        case ast.Constant(int(number)):
            return number
        case ast.Name(name):
            return symbols[name]
        case ast.UnaryOp(ast.USub(), operand):
            return -computed(operand, symbols)
        case ast.BinOp(left, op, right):
            return _BINARY[type(op)](computed(left, symbols), computed(right, symbols))
        case ast.Call(ast.Name(name), [left, right], []):
            return _CALLS[name](computed(left, symbols), computed(right, symbols))
    raise AssertionError(f"JAX parses no {ast.unparse(node)}")


def divisors(dim: _shape_poly._DimExpr) -> dict[str, int]:
    """The symbols of the scope of a dimension that have a constraint `mod(symbol, number) == 0`, with the number."""
    found: dict[str, int] = {}
    number = _shape_poly._DimExpr._to_constant
    for term, (value, _) in dim.scope._normalization_rules.items():
        (factor, exponent), *others = term._factors
        if others or exponent != 1 or factor.operation != _shape_poly._DimFactor.MOD or number(value) != 0:
            continue
        dividend, divisor = factor.operands
        name = dividend._to_var() if isinstance(dividend, _shape_poly._DimExpr) else None
        times = number(divisor)
        if name is not None and times is not None:
            found[name] = times
    return found


def constrain(scope: jax.export.SymbolicScope, constraints: Sequence[str]) -> None:
    """Add constraints to a scope, about symbols that no expression of it has yet."""
    for text in constraints:
        scope._parse_and_process_explicit_constraint(text)
        scope._bounds_cache.clear()
        scope._decision_initial_state = None


#: What the symbol ends with that stands for a size which may be 0, and is 1 more.
LESS_ONE = "__plus_1"


@contextlib.contextmanager
def constraints_kept(scope: jax.export.SymbolicScope) -> Iterator[None]:
    """On leaving, the scope has the constraints again that it has now."""
    before = list(scope._explicit_constraints)
    try:
        yield
    finally:
        if len(scope._explicit_constraints) != len(before):
            scope._explicit_constraints[:] = before
            scope._bounds_cache.clear()
            scope._decision_initial_state = None


def solve_dims(avals: Sequence[Aval]) -> tuple[dict[str, Dim], list[tuple[str, int, int]]]:
    """JAX's own solution of the symbols from the shapes of the arguments.

    Returns symbol → expression over synthetic variables, and those variables as
    `(name, argument index, axis)`. Raises ValueError when a symbol cannot be solved.
    """
    # JAX asks for a tree to name places, and takes it apart into leaves that are no arrays, which some classes refuse.
    flat = jax.tree_util.tree_structure((tuple(avals), {}))
    solution, _, synthetic = _shape_poly.solve_dim_vars(tuple(avals), flat)
    return dict(solution), list(synthetic)


def with_known_dim(eqn: Equation) -> Equation:
    """The equation; one whose result is the size of a dimension that is known copies that number."""
    if eqn.primitive is not _shape_poly.dim_as_value_p or is_symbolic_dim(eqn.params["dim"]):
        return eqn
    aval = eqn.outvars[0].aval
    number = _core.Literal(np.asarray(int(eqn.params["dim"]), aval.dtype), aval)
    return eqn.replace(primitive=_lax.copy_p, invars=[number], params={})


def symbol(name: str, like: _shape_poly._DimExpr) -> Dim:
    """The symbol `name` of the scope of the expression `like`."""
    return _shape_poly._DimExpr._from_var(name, like.scope)


def operation(name: str, operands: Sequence[Dim], like: _shape_poly._DimExpr) -> Dim:
    """The dimension that an operation ("floordiv", "mod", "max", "min") of the scope of `like` is, as it is written."""
    return _shape_poly._DimExpr._from_operation(name, *operands, scope=like.scope)


def term(coefficient: int, factors: Sequence[tuple[Factor, int]], like: _shape_poly._DimExpr) -> Dim:
    """One term of `dim_expression` as a dimension of the scope of `like`."""
    product: Dim = coefficient
    for factor, exponent in factors:
        one = symbol(factor, like) if isinstance(factor, str) else operation(*factor, like)
        for _ in range(exponent):
            product = product * one
    return product


inconclusive_dimension_error = _core.InconclusiveDimensionOperation

unknown_symbol_error = _shape_poly.UnexpectedDimVar
