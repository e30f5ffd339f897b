"""`DimLowerer`: dimension expressions as values of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jax2onnx_graph.build.builder import GraphBuilder, Value
from jax2onnx_graph.facts.dims import Dim, Dims, Factor, SymbolicDim, Term, is_static

__all__ = ["DimLowerer"]


class DimLowerer:
    """Dimension expressions → int64 values of shape [1], each computed once per main graph or function.

    Args:
      builder: writes the arithmetic.
      symbol: the value of a symbol, an int64 tensor of shape [1].
      terms: what a symbolic dimension is the sum of.
      bounds: the least and the greatest value that a dimension can have.
      known: dimensions → their values, tensors of shape [1].
    """

    def __init__(
        self, builder: GraphBuilder, symbol: Callable[[str], Value], *, terms: Callable[[SymbolicDim], Sequence[Term]],
        bounds: Callable[[Dim], tuple[float, float]], known: Mapping[Dim, Value] | None = None,
    ) -> None:  # fmt: skip
        self._builder = builder
        self._symbol = symbol
        self._terms, self._bounds = terms, bounds
        self._vectors: dict[Dim, Value] = dict(known or {})
        self._scalars: dict[Dim, Value] = {}
        self._shapes: dict[Dims, Value] = {}
        self.used_symbols: dict[str, Value] = {}

    def symbol(self, name: str) -> Value:
        """The value of a symbol as an int64 tensor of shape [1]."""
        if name not in self.used_symbols:
            self.used_symbols[name] = self._symbol(name)
        return self.used_symbols[name]

    def vector(self, dim: Dim) -> Value:
        """The dimension as an int64 tensor of shape [1]."""
        if is_static(dim):
            return self._builder.ints([dim])
        if dim not in self._vectors:
            self._vectors[dim] = self._sum(self._terms(dim))
        return self._vectors[dim]

    def scalar(self, dim: Dim) -> Value:
        """The dimension as an int64 scalar."""
        if is_static(dim):
            return self._builder.new_constant(np.array(int(dim), np.int64))
        if dim not in self._scalars:
            self._scalars[dim] = self._builder.op.Squeeze(self.vector(dim), dims=())
        return self._scalars[dim]

    def shape(self, dims: Sequence[Dim]) -> Value:
        """The dimensions as one int64 tensor of shape [rank]; a constant where all are numbers."""
        key = tuple(dims)
        if all(map(is_static, key)):
            return self._builder.ints([d for d in key if is_static(d)])
        if key not in self._shapes:
            pieces = self._pieces(key)
            whole = pieces[0] if len(pieces) == 1 else self._builder.op.Concat(*pieces, axis=0)
            self._shapes[key] = whole
        return self._shapes[key]

    def _pieces(self, dims: Dims) -> list[Value]:
        pieces: list[Value] = []
        numbers: list[int] = []
        for d in dims:
            if is_static(d):
                numbers.append(int(d))
                continue
            if numbers:
                pieces.append(self._builder.ints(numbers))
                numbers = []
            pieces.append(self.vector(d))
        if numbers:
            pieces.append(self._builder.ints(numbers))
        return pieces

    def _sum(self, terms: Sequence[Term]) -> Value:
        """Positive terms first, so that `T - 1` is one Sub and no negative intermediate arises needlessly."""
        terms = sorted(terms, key=lambda t: t[0] < 0)
        total: Value | None = None
        constant = 0
        for coefficient, factors in terms:
            if not factors:
                constant += coefficient
                continue
            product = self._product(abs(coefficient), factors)
            if total is None:
                total = product if coefficient > 0 else self._builder.op.Neg(product)
            else:
                total = self._builder.op("Add" if coefficient > 0 else "Sub", total, product)
        if total is None:  # an operand of floordiv or mod may be a number in the guise of an expression
            return self._builder.ints([constant])
        if constant:
            # No int64 is the positive counterpart of the least one, which is added as it is.
            op_type, number = ("Sub", -constant) if -(2**63) < constant < 0 else ("Add", constant)
            total = self._builder.op(op_type, total, self._builder.ints([number]))
        return total

    def _product(self, coefficient: int, factors: Sequence[tuple[Factor, int]]) -> Value:
        values = [self._factor(factor) for factor, exponent in factors for _ in range(exponent)]
        if coefficient != 1:
            values.append(self._builder.ints([coefficient]))
        product = values[0]
        for value in values[1:]:
            product = self._builder.op.Mul(product, value)
        return product

    def _factor(self, factor: Factor) -> Value:
        if isinstance(factor, str):
            return self.symbol(factor)
        operation, operands = factor
        a, b = (self.vector(o) for o in operands)
        if operation == "floordiv":
            # ONNX's Div truncates; its Mod follows the divisor's sign, as Python's does.
            if self._bounds(operands[0])[0] >= 0 and self._bounds(operands[1])[0] > 0:
                return self._builder.op.Div(a, b)
            exact = self._builder.op.Sub(a, self._builder.op.Mod(a, b))
            return self._builder.op.Div(exact, b)
        return self._builder.op({"mod": "Mod", "max": "Max", "min": "Min"}[operation], a, b)
