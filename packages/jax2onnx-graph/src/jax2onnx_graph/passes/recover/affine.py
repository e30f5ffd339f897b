"""Reading a value in the body of a Scan as an affine function of what the step is given."""

from __future__ import annotations

from jax2onnx_graph.arrays import Array

__all__ = ["Affine", "Body", "addends"]

import dataclasses
from collections.abc import Iterator

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of, known
from jax2onnx_graph.rewrite.patterns import operation

_LIMIT = 1 << 26


@dataclasses.dataclass(frozen=True)
class Affine:
    """The sum of `leaf · matrix` over `products`, plus `bias`: matrices [width of the leaf, N], bias [N] or a number."""

    products: dict[ir.Value, Array]
    bias: Array

    def __add__(self, other: Affine) -> Affine:
        products = dict(self.products)
        for leaf, matrix in other.products.items():
            products[leaf] = products[leaf] + matrix if leaf in products else matrix
        return Affine(products, self.bias + other.bias)

    def __neg__(self) -> Affine:
        return Affine({leaf: -matrix for leaf, matrix in self.products.items()}, -self.bias)


def addends(value: ir.Value | None) -> Iterator[ir.Value | None]:
    """The terms of the sum `value`; `value` itself where it is no sum."""
    node = operation(value, "Add")
    if node is None:
        yield value
    else:
        for operand in node.inputs:
            yield from addends(operand)


class Body:
    """The body of a Scan whose scan axes are all the first. A scanned slice is read as the whole input of the Scan.

    Attributes:
      graph: the body.
      before: the states at the start of a step.
      after: the states at its end.
      stacked: the results that the Scan collects.
      initial: the first states, outside of the body.
    """

    def __init__(self, scan: ir.Node) -> None:
        self.graph = scan.attributes["body"].as_graph()
        count = len(scan.inputs) - scan.attributes["num_scan_inputs"].as_int()
        inputs, outputs = list(self.graph.inputs), list(self.graph.outputs)
        self.before, self.after, self.stacked = inputs[:count], outputs[:count], outputs[count:]
        self.initial = list(scan.inputs[:count])
        self._whole = dict(zip(inputs[count:], scan.inputs[count:], strict=True))

    def affine(self, value: ir.Value | None) -> Affine | None:
        """`value` as an affine function with constant matrices; None where it is not one."""
        width = (dims_of(value) or (None,))[-1]
        return self._columns(value, 0, width) if isinstance(width, int) else None

    def _columns(self, value: ir.Value | None, start: int, stop: int) -> Affine | None:
        """Columns `start` to `stop` of `value`, as an affine function."""
        if value is None:
            return None
        if (array := known(value, _LIMIT)) is not None:
            return _constant(array, start, stop)
        if value in self._whole:
            return self._columns(self._whole[value], start, stop)
        node = value.producer()
        if node is None or node.domain:
            return None
        if node.op_type == "Identity":
            return self._columns(node.inputs[0], start, stop)
        if node.op_type == "Add":
            parts = [self._columns(operand, start, stop) for operand in node.inputs]
            return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
        if node.op_type == "Split":
            offset = _offset(node, value)
            return None if offset is None else self._columns(node.inputs[0], start + offset, stop + offset)
        return self._product(node, start, stop) if node.op_type == "MatMul" else None

    def _product(self, node: ir.Node, start: int, stop: int) -> Affine | None:
        """Columns of the MatMul `node` of a value, or of several joined along the last axis, with a constant matrix."""
        left, matrix = node.inputs[0], known(node.inputs[1], _LIMIT)
        if left is None or matrix is None or matrix.ndim != 2:
            return None
        parts = _joined(left)
        widths = [width for part in parts if isinstance(width := (dims_of(part) or (None,))[-1], int)]
        if len(widths) != len(parts):
            return None
        rows = np.split(matrix[:, start:stop], np.cumsum(widths)[:-1].tolist())
        total = Affine({}, np.zeros((), matrix.dtype))
        for part, own in zip(parts, rows, strict=True):
            leaf = self._whole.get(part) or part
            total += Affine({leaf: own}, np.zeros((), matrix.dtype))
        return total


def _constant(array: Array, start: int, stop: int) -> Affine | None:
    """Columns of a constant row [N], or of a constant number."""
    if array.ndim and array.shape[-1] != array.size:
        return None
    flat = array.reshape(-1)
    return Affine({}, flat[0] if flat.size == 1 else flat[start:stop])


def _joined(value: ir.Value) -> list[ir.Value]:
    """The operands of a concatenation along the last axis; `value` alone where it is none."""
    node = operation(value, "Concat")
    rank = len(dims_of(value) or ())
    if node is None or node.attributes["axis"].as_int() not in (-1, rank - 1):
        return [value]
    return [part for part in node.inputs if part is not None]


def _offset(split: ir.Node, value: ir.Value) -> int | None:
    """The first column of the output `value` of a Split along the last axis; None where that is not known."""
    rank = len(dims_of(value) or ())
    axis = split.attributes["axis"].as_int() if "axis" in split.attributes else 0
    if axis not in (-1, rank - 1):
        return None
    widths = [(dims_of(output) or (None,))[-1] for output in split.outputs[: value.index()]]
    return sum(w for w in widths if isinstance(w, int)) if all(isinstance(w, int) for w in widths) else None
