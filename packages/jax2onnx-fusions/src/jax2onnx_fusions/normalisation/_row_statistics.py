"""`RowStatistics`: statistics of the rows of a tensor, along its last axis or another, recognised in a graph."""

from __future__ import annotations

__all__ = ["RowStatistics"]

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import dims_of, known, same_dims
from jax2onnx_graph.rewrite.patterns import operation, other_operand, scalar, square_of

_VIEWS = ("Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Max", "Where")


class RowStatistics:
    """Recognises values that are statistics of the rows (the vectors along `axis`) of `x` [*batch, C].

    A statistic has one number per row: its shape is [*batch] or [*batch, 1], or that of x by expansion. Each method
    takes a value and returns the tensor of which it is the statistic, or None where it is not that statistic. A value
    that is computed with x has to go through `beside` before.
    """

    def __init__(self, x: ir.Value, axis: int = -1) -> None:
        self.x = x
        self._dims = dims_of(x) or ()
        self._axis = axis % len(self._dims) if self._dims else 0
        before, after = self._dims[: self._axis], self._dims[self._axis + 1 :]
        self._dims_per_row = ((*before, *after), (*before, 1, *after))

    def beside(self, value: ir.Value | None) -> ir.Value | None:
        """`value`, if each row of x meets its own number of a statistic where the two broadcast; else None.

        [*batch] without the axis of the rows is taken for the last axes of x: of x [3, 3], each column meets a number.
        """
        is_shorter = len(dims_of(value) or ()) < len(self._dims)
        return None if is_shorter and any(dim != 1 for dim in self._dims[: self._axis]) else value

    def core(self, value: ir.Value | None) -> ir.Value | None:
        """The statistic that `value` is a view of; None where `value` does not have one number per row.

        Views are reshapes and expansions, a maximum with minus infinity (JAX puts one behind a maximum with an initial
        value), and a `Where` that is there for runtimes whose maximum skips NaN: `_is_nan_of_rows`.
        """
        while self._is_per_row(value):
            node = operation(value, *_VIEWS)
            if node is None:
                return value
            if node.op_type == "Where":
                if not self._is_nan_of_rows(node):
                    return value
                value = node.inputs[2]
            elif node.op_type == "Max":
                low = [v for v in node.inputs if scalar(v) == -np.inf]
                if not low:
                    return value
                value = other_operand(node, low[0])
            elif self._is_per_row(node.inputs[0] if node.op_type != "Expand" else self.beside(node.inputs[0])):
                value = node.inputs[0]
            else:
                return value
        return None

    def _is_per_row(self, value: ir.Value | None) -> bool:
        dims = dims_of(value)
        if dims is None or not self._dims:
            return False
        if operation(value, "Expand") and same_dims(dims, self._dims):
            return True
        return any(same_dims(dims, kept) for kept in self._dims_per_row)

    def _is_nan_of_rows(self, node: ir.Node) -> bool:
        """Whether the node is `Where(IsNaN(m), m, ·)` with m the sum of |x| over each row: NaN where a row has one."""
        test, total = operation(node.inputs[0], "IsNaN"), node.inputs[1]
        magnitude = operation(self.reduced(total, "ReduceSum"), "Abs")
        return test is not None and test.inputs[0] is total and magnitude is not None and magnitude.inputs[0] is self.x

    def reduced(self, value: ir.Value | None, op_type: str) -> ir.Value | None:
        """v where `value` is the reduction `op_type` of v, of the shape of x, over the rows."""
        node = operation(self.core(value), op_type)
        if node is None or len(node.inputs) < 2 or not same_dims(dims_of(node.inputs[0]), self._dims):
            return None
        axes = known(node.inputs[1])
        return node.inputs[0] if axes is not None and (axes % len(self._dims)).tolist() == [self._axis] else None

    def mean(self, value: ir.Value | None) -> ir.Value | None:
        """v where `value` is the mean of the rows of v: a `ReduceMean`, or their sum divided by C."""
        count = self._dims[self._axis] if self._dims else None
        if count == 0:  # rows without elements have no mean
            return None
        direct = self.reduced(value, "ReduceMean")
        node = operation(self.core(value), "Div", "Mul")
        if direct is not None or node is None or not isinstance(count, int):
            return direct
        for total in node.inputs if node.op_type == "Mul" else node.inputs[:1]:
            summed = self.reduced(total, "ReduceSum")
            number = scalar(other_operand(node, total))
            expected = count if node.op_type == "Div" else 1 / count
            if summed is not None and number is not None and np.isclose(number, expected, rtol=1e-6, atol=0):
                return summed
        return None

    def is_centred(self, value: ir.Value | None) -> bool:
        """Whether `value` is x minus the mean of its rows."""
        node = operation(value, "Sub")
        return node is not None and node.inputs[0] is self.x and self.mean(self.beside(node.inputs[1])) is self.x

    def is_mean_square(self, value: ir.Value | None) -> bool:
        """Whether `value` is the mean of x²."""
        return square_of(self.mean(value)) is self.x

    def is_variance(self, value: ir.Value | None) -> bool:
        """Whether `value` is the variance of the rows: mean((x - mean(x))²) or mean(x²) - mean(x)², clipped at 0 or not."""
        value = self.core(value)
        centred = square_of(self.mean(value))
        if centred is not None and self.is_centred(centred):
            return True
        difference = operation(self.core(_clipped_at_zero(value)), "Sub")
        if difference is None or not self.is_mean_square(difference.inputs[0]):
            return False
        return self.mean(square_of(self.core(difference.inputs[1]))) is self.x

    def inverse_root(self, value: ir.Value | None) -> ir.Value | None:
        """v where `value` is 1 / sqrt(v)."""
        node = operation(self.core(value), "Reciprocal", "Div")
        if node is None or (node.op_type == "Div" and scalar(node.inputs[0]) != 1):
            return None
        return self.root(node.inputs[-1])

    def root(self, value: ir.Value | None) -> ir.Value | None:
        """v where `value` is sqrt(v)."""
        node = operation(self.core(value), "Sqrt")
        return None if node is None else self.core(node.inputs[0])

    def plus_number(self, value: ir.Value | None) -> tuple[ir.Value | None, float]:
        """(v, number) where `value` is v plus a positive number; (None, 0) otherwise."""
        node = operation(self.core(value), "Add")
        if node is not None:
            for operand in node.inputs:
                number = scalar(operand)
                if number is not None and number > 0:
                    return other_operand(node, operand), number
        return None, 0.0


def _clipped_at_zero(value: ir.Value | None) -> ir.Value | None:
    """v where `value` is max(v, 0); otherwise `value` itself."""
    node = operation(value, "Max", "Relu", "Clip")
    if node is None:
        return value
    if node.op_type == "Max":
        bounds = [v for v in node.inputs if scalar(v) == 0]
        return other_operand(node, bounds[0]) if len(bounds) == 1 else value
    if node.op_type == "Clip" and (len(node.inputs) != 2 or scalar(node.inputs[1]) != 0):
        return value
    return node.inputs[0]
