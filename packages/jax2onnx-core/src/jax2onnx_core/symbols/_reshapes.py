"""Reshapes that fit only at some sizes: JAX accepts every one that has symbols in it, so that each is a constraint of the program."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence

from jax2onnx_graph.facts.dims import Dim, Dims, is_static

from jax2onnx_core import _compat, _compat_dims
from jax2onnx_core.jax_types import Equation, Jaxpr
from jax2onnx_core.jaxprs import open_jaxpr
from jax2onnx_core.plugins.errors import SymbolError
from jax2onnx_core.symbols._quotients import are_equal
from jax2onnx_core.symbols.symbols import Symbols, evaluate_dim

__all__ = ["fitting_reshapes"]

_SIZES = (*range(33), 48, 60, 64, 96, 120, 128, 240, 256, 720, 5040, 10**6)
_DRAWS = 2000


def fitting_reshapes(jaxpr: Jaxpr, symbols: Symbols) -> dict[str, str]:
    """The constraints under which all reshapes of a traced function fit → the user's lines.

    A reshape whose sizes are the same at every size that is tried is taken to fit, though JAX may not prove it. One whose sizes
    depend on values is left to its rule.

    Args:
      jaxpr: the traced function.
      symbols: the symbols of its inputs.

    Raises:
      SymbolError: a reshape fits at no size.
    """
    found: dict[str, str] = {}
    for (operand, result), equations in _reshapes(jaxpr).items() if symbols.known else ():
        left, right = math.prod(operand), math.prod(result)
        if is_static(left - right) or not symbols.known.issuperset(symbols.names([left, right])):
            continue
        if left == right or are_equal(left, right) or _seem_equal(left, right, symbols):
            continue
        line = _line(equations)
        shown = [f"({', '.join(map(symbols.label, shape))})" for shape in (operand, result)]
        found.setdefault(_equality(left, right, symbols, f"{shown[0]} is reshaped to {shown[1]} at {line}"), line)
    return found


def _reshapes(jaxpr: Jaxpr) -> dict[tuple[Dims, Dims], Sequence[Equation]]:
    """The symbolic shapes before and after reshapes, each once → the calls around the first such reshape, and its equation."""
    found: dict[tuple[Dims, Dims], Sequence[Equation]] = {}
    seen: set[int] = set()

    def visit(jaxpr: Jaxpr, calls: Sequence[Equation]) -> None:
        for eqn in open_jaxpr(jaxpr)[0].eqns:
            if _compat.is_reshape(eqn) and not all(
                map(is_static, (*eqn.invars[0].aval.shape, *eqn.outvars[0].aval.shape))
            ):
                found.setdefault((eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape), (*calls, eqn))
            for inner in _compat.inner_jaxprs(eqn):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    visit(inner, (*calls, eqn))

    visit(jaxpr, ())
    return found


def _line(equations: Sequence[Equation]) -> str:
    """The user's line of the last of some equations; that of the call around it where it has none."""
    lines = (_compat.user_frame(eqn.source_info) for eqn in reversed(equations))
    return next(filter(None, lines), _compat.NO_LINE)


def _seem_equal(left: Dim, right: Dim, symbols: Symbols) -> bool:
    """Whether two dimensions are equal at each of many sizes that are allowed; False if there are none among them."""
    tried = False
    for sizes in _allowed(symbols, symbols.names([left, right])):
        traced = symbols.traced_values(sizes)
        if evaluate_dim(left, traced) != evaluate_dim(right, traced):
            return False
        tried = True
    return tried


def _allowed(symbols: Symbols, names: list[str]) -> Iterator[Mapping[str, int]]:
    if len(_SIZES) ** len(names) <= _DRAWS:
        tuples: Iterator[tuple[int, ...]] = itertools.product(_SIZES, repeat=len(names))
    else:
        draw = random.Random(0)  # noqa: S311
        tuples = (tuple(draw.choices(_SIZES, k=len(names))) for _ in range(_DRAWS))
    return filter(symbols.allow, (dict(zip(names, sizes, strict=True)) for sizes in tuples))


def _equality(left: Dim, right: Dim, symbols: Symbols, where: str) -> str:
    """The constraint that two dimensions are equal, in the user's symbols and in lowest terms; SymbolError if they never are.

    `where` says what wants them to be equal, for the error.
    """
    least, largest = _compat_dims.bounds(left - right)
    difference = Symbols([]).parse(symbols.label(left - right))
    terms = _compat_dims.dim_expression(difference)
    common = math.gcd(*(coefficient for coefficient, factors in terms if factors))
    constant = sum(coefficient for coefficient, factors in terms if not factors)
    if constant % common or least > 0 or largest < 0:
        raise SymbolError(
            f"{where}, but no sizes have as many elements in both: {symbols.label(left)} is never {symbols.label(right)}."
        )
    for operand, divisor in _quotients(difference):
        remainder = _compat_dims.operation("mod", (operand, divisor), difference)
        if are_equal(difference, common * remainder) or are_equal(-difference, common * remainder):
            return f"{remainder} == 0"
    parts = [
        sum(_compat_dims.term(sign * coefficient // common, factors, difference) for coefficient, factors in terms if sign * coefficient > 0)
        for sign in (1, -1)
    ]  # fmt: skip
    return " == ".join(map(str, parts))


def _quotients(dim: Dim) -> Iterator[Sequence[Dim]]:
    """The operands of the quotients in an expression."""
    for _, factors in _compat_dims.dim_expression(dim):
        for factor, _ in factors:
            if not isinstance(factor, str) and factor[0] == "floordiv":
                yield factor[1]
