"""`Scope`: one graph under construction, and the dimension values computed in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax2onnx_graph import ir

from jax2onnx_core import _compat
from jax2onnx_core.symbols.symbols import Dim

__all__ = ["DimLowerer", "Scope"]


class Scope:
    """The nodes of a main graph, a function or a subgraph while it is being built.

    `root` is the scope whose dimension values subgraphs capture: the main graph or the function.
    `prologue` holds the shape arithmetic, which depends on the graph's inputs only and goes first.
    """

    def __init__(self, name: str, parent: Scope | None = None, *, isolated: bool = False) -> None:
        self.name = name
        self.parent = parent
        self.nodes: list[ir.Node] = []
        self.prologue: list[ir.Node] = []
        self.inputs: list[ir.Value] = []
        self.root: Scope = self if parent is None or isolated else parent.root
        self.dims: DimLowerer | None = None

    def all_nodes(self) -> list[ir.Node]:
        return [*self.prologue, *self.nodes]

    def is_inside(self, other: Scope) -> bool:
        """Whether values of `other` can be used here."""
        scope: Scope | None = self
        while scope is not None and scope is not other:
            scope = scope.parent
        return scope is other

    def roll_back(self, mark: int) -> None:
        """Forget the nodes from index `mark` on, and their uses of other values."""
        for node in self.nodes[mark:]:
            for i in range(len(node.inputs)):
                node.replace_input_with(i, None)
        del self.nodes[mark:]


Emit = Callable[..., ir.Value]


class DimLowerer:
    """Dimension expressions → int64 values of shape [1], each computed once per main graph or function.

    `symbol(name)` gives the value of a symbol, `emit(op, *inputs, **attributes)` adds a node to the
    prologue, `constant(array)` a constant.
    """

    def __init__(self, symbol: Callable[[str], ir.Value], emit: Emit, constant: Callable[..., ir.Value]) -> None:
        self._symbol, self._emit, self._constant = symbol, emit, constant
        self._vectors: dict[Any, ir.Value] = {}
        self._scalars: dict[Any, ir.Value] = {}
        self._shapes: dict[tuple[Any, ...], ir.Value] = {}
        self.used_symbols: dict[str, ir.Value] = {}

    def symbol(self, name: str) -> ir.Value:
        """The value of a symbol as an int64 tensor of shape [1]."""
        if name not in self.used_symbols:
            self.used_symbols[name] = self._symbol(name)
        return self.used_symbols[name]

    def vector(self, dim: Dim) -> ir.Value:
        """The dimension as an int64 tensor of shape [1]."""
        if not _compat.is_symbolic_dim(dim):
            return self._constant(np.array([int(dim)], np.int64))
        if dim not in self._vectors:
            self._vectors[dim] = self._sum(_compat.dim_expression(dim))
        return self._vectors[dim]

    def scalar(self, dim: Dim) -> ir.Value:
        """The dimension as an int64 scalar."""
        if not _compat.is_symbolic_dim(dim):
            return self._constant(np.array(int(dim), np.int64))
        if dim not in self._scalars:
            self._scalars[dim] = self._emit("Squeeze", self.vector(dim), dims=())
        return self._scalars[dim]

    def shape(self, dims: Sequence[Dim]) -> ir.Value:
        """The dimensions as one int64 tensor of shape [rank]; a constant where all are numbers."""
        key = tuple(dims)
        if not any(_compat.is_symbolic_dim(d) for d in key):
            return self._constant(np.array([int(d) for d in key], np.int64))
        if key not in self._shapes:
            pieces = self._pieces(key)
            whole = pieces[0] if len(pieces) == 1 else self._emit("Concat", *pieces, axis=0, dims=(len(key),))
            self._shapes[key] = whole
        return self._shapes[key]

    def _pieces(self, dims: tuple[Dim, ...]) -> list[ir.Value]:
        pieces: list[ir.Value] = []
        numbers: list[int] = []
        for d in dims:
            if not _compat.is_symbolic_dim(d):
                numbers.append(int(d))
                continue
            if numbers:
                pieces.append(self._constant(np.array(numbers, np.int64)))
                numbers = []
            pieces.append(self.vector(d))
        if numbers:
            pieces.append(self._constant(np.array(numbers, np.int64)))
        return pieces

    def _sum(self, terms: list[tuple[int, list[tuple[Any, int]]]]) -> ir.Value:
        """Positive terms first, so that `T - 1` is one Sub and no negative intermediate arises needlessly."""
        terms = sorted(terms, key=lambda t: t[0] < 0)
        total: ir.Value | None = None
        constant = 0
        for coefficient, factors in terms:
            if not factors:
                constant += coefficient
                continue
            product = self._product(abs(coefficient), factors)
            if total is None:
                total = product if coefficient > 0 else self._emit("Neg", product, dims=(1,))
            else:
                total = self._emit("Add" if coefficient > 0 else "Sub", total, product, dims=(1,))
        if total is None:  # an operand of floordiv or mod may be a number in the guise of an expression
            return self._constant(np.array([constant], np.int64))
        if constant:
            operand = self._constant(np.array([abs(constant)], np.int64))
            total = self._emit("Add" if constant > 0 else "Sub", total, operand, dims=(1,))
        return total

    def _product(self, coefficient: int, factors: list[tuple[Any, int]]) -> ir.Value:
        values = [self._factor(factor) for factor, exponent in factors for _ in range(exponent)]
        if coefficient != 1:
            values.append(self._constant(np.array([coefficient], np.int64)))
        product = values[0]
        for value in values[1:]:
            product = self._emit("Mul", product, value, dims=(1,))
        return product

    def _factor(self, factor: Any) -> ir.Value:
        if isinstance(factor, str):
            return self.symbol(factor)
        operation, operands = factor
        a, b = (self.vector(o) for o in operands)
        if operation == "floordiv":
            # ONNX's Div truncates; its Mod follows the divisor's sign, as Python's does.
            if _compat.bounds(operands[0])[0] >= 0 and _compat.bounds(operands[1])[0] > 0:
                return self._emit("Div", a, b, dims=(1,))
            exact = self._emit("Sub", a, self._emit("Mod", a, b, dims=(1,)), dims=(1,))
            return self._emit("Div", exact, b, dims=(1,))
        return self._emit({"mod": "Mod", "max": "Max", "min": "Min"}[operation], a, b, dims=(1,))
