"""`SymbolicEvaluator`: the values of a graph as formulas of given ones, whatever arranges, splits and joins them on the way."""

from __future__ import annotations

from jax2onnx_graph.arrays import Array

__all__ = ["ACTIVATIONS", "SymbolicEvaluator"]

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dim
from jax2onnx_graph.rewrite.patterns import permutation_of

from jax2onnx_fusions._reasons import UnreadableError
from jax2onnx_fusions.recurrence._affine import (
    Affine,
    Batch,
    Leaf,
    Product,
    Term,
    common_frame,
)
from jax2onnx_fusions.recurrence._formulas import Formula

#: The activations of a formula.
ACTIVATIONS = ("Sigmoid", "Tanh", "Relu")

_LIMIT = 1 << 26


class SymbolicEvaluator:
    """Evaluates values as formulas of `given` ones.

    Attributes:
      sizes: the sizes of the batch axes.
      given: formulas that are known.
      rows: the leaves that stand for formulas with activations which a matrix multiplies.
    """

    def __init__(self, given: Mapping[ir.Value, Formula], sizes: Mapping[str, LabelledDim]) -> None:
        self.sizes, self.given = sizes, dict(given)
        self.rows: dict[Formula, Leaf] = {}

    def formula(self, value: ir.Value | None) -> Formula:
        """The formula of a value.

        Raises:
          UnreadableError: it has none; the message says why.
        """
        assert value is not None, "the operators that are evaluated have all their operands"
        if value not in self.given:
            self.given[value] = self._computed(value)
        return self.given[value]

    def _computed(self, value: ir.Value) -> Formula:
        array = known(value, _LIMIT)
        if array is not None:
            return Formula.from_affine(Affine.constant(value, array))
        node = value.producer()
        if node is None:
            raise UnreadableError("its step depends on a tensor from outside that is not constant")
        if node.domain or node.op_type not in (*_RULES, *ACTIVATIONS):
            raise UnreadableError(f"its step contains {node.op_type}, which is in no gate")
        if node.op_type in ACTIVATIONS:
            return Formula.activation(node.op_type, self.formula(node.inputs[0]))
        return _RULES[node.op_type](self, node, value)

    def features(self, value: ir.Value | None, axis: int) -> Formula:
        """A value whose `axis` is one of features, with all of its elements along it."""
        formula, size = self.formula(value), _dims(value)[axis]
        frame = formula.frame
        if frame.batch[axis] or not isinstance(size, int):
            raise UnreadableError("its step takes a batch apart")
        return formula.broadcast(frame.batch, (*frame.shape[:axis], size, *frame.shape[axis:][1:]))

    def row(self, formula: Formula, axis: int) -> Affine:
        """A formula as a row along `axis`; if it has activations, as the row of a leaf of its own."""
        if formula.affine is not None:
            return formula.affine
        frame = formula.frame
        if math.prod(frame.shape) != frame.shape[axis]:
            raise UnreadableError("its step multiplies several rows at once by a matrix")
        if formula not in self.rows:
            self.rows[formula] = Leaf(formula, frame.shape[axis])
        return Affine.row(self.rows[formula], frame.batch, axis)


Rule = Callable[[SymbolicEvaluator, ir.Node, ir.Value], Formula]


def _dims(value: ir.Value | None) -> tuple[LabelledDim, ...]:
    dims = dims_of(value)
    if dims is None:
        raise UnreadableError("a shape in its step is not known")
    return dims


def _sum(evaluator: SymbolicEvaluator, node: ir.Node, _: ir.Value) -> Formula:
    return evaluator.formula(node.inputs[0]) + evaluator.formula(node.inputs[1])


def _difference(evaluator: SymbolicEvaluator, node: ir.Node, _: ir.Value) -> Formula:
    return evaluator.formula(node.inputs[0]) + -evaluator.formula(node.inputs[1])


def _multiplied(evaluator: SymbolicEvaluator, node: ir.Node, _: ir.Value) -> Formula:
    return evaluator.formula(node.inputs[0]) * evaluator.formula(node.inputs[1])


def _negated(evaluator: SymbolicEvaluator, node: ir.Node, _: ir.Value) -> Formula:
    return -evaluator.formula(node.inputs[0])


def _same(evaluator: SymbolicEvaluator, node: ir.Node, _: ir.Value) -> Formula:
    return evaluator.formula(node.inputs[0])


def _transposed(evaluator: SymbolicEvaluator, node: ir.Node, _: ir.Value) -> Formula:
    return _permuted(evaluator.formula(node.inputs[0]), permutation_of(node))


def _permuted(formula: Formula, perm: Sequence[int]) -> Formula:
    batch = tuple(formula.frame.batch[axis] for axis in perm)
    return formula.arranged(lambda array: array.transpose(perm), batch)


def _expanded(evaluator: SymbolicEvaluator, node: ir.Node, value: ir.Value) -> Formula:
    """Axes that are repeated stay of size 1, since they broadcast."""
    formula, rank = evaluator.formula(node.inputs[0]), len(_dims(value))
    missing = rank - len(formula.frame.shape)
    return formula.broadcast(((),) * missing + formula.frame.batch, (1,) * missing + formula.frame.shape)


def _squeezed(evaluator: SymbolicEvaluator, node: ir.Node, _: ir.Value) -> Formula:
    formula, axes = evaluator.formula(node.inputs[0]), _axes(node, len(_dims(node.inputs[0])))
    batch = tuple(over for axis, over in enumerate(formula.frame.batch) if axis not in axes)
    return formula.arranged(lambda array: array.squeeze(axes), batch)


def _unsqueezed(evaluator: SymbolicEvaluator, node: ir.Node, value: ir.Value) -> Formula:
    formula, rank = evaluator.formula(node.inputs[0]), len(_dims(value))
    axes, old = _axes(node, rank), iter(formula.frame.batch)
    batch = tuple(() if axis in axes else next(old) for axis in range(rank))
    return formula.arranged(lambda array: np.expand_dims(array, axes), batch)


def _axes(node: ir.Node, rank: int) -> tuple[int, ...]:
    axes = known(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is None:
        raise UnreadableError("the axes of a view in its step are not constant")
    return tuple(int(axis) % rank for axis in axes)


def _reshaped(evaluator: SymbolicEvaluator, node: ir.Node, value: ir.Value) -> Formula:
    formula, old, dims = evaluator.formula(node.inputs[0]), _dims(node.inputs[0]), _dims(value)
    sizes = [1 if over else size for over, size in zip(formula.frame.batch, old, strict=True)]
    formula = formula.broadcast(formula.frame.batch, tuple(size for size in sizes if isinstance(size, int)))
    frame = formula.frame
    factors = [f for over, size in zip(frame.batch, frame.shape, strict=True) for f in over or (size,) if f != 1]
    batch = _grouped(factors, dims, evaluator.sizes)
    if batch is None:
        raise UnreadableError("a reshape in its step mixes batches with features")
    new = [size if isinstance(size, int) and not over else 1 for over, size in zip(batch, dims, strict=True)]
    return formula.arranged(lambda array: array.reshape(new), batch)


def _grouped(
    factors: Sequence[str | int], dims: Sequence[LabelledDim], sizes: Mapping[str, LabelledDim]
) -> Batch | None:
    """The batch axes that each axis of a reshaped array runs over; None where the reshape mixes batch axes with features.

    The array has axes of the sizes `dims`; `factors` are those before, in row-major order: names of batch axes and sizes of
    features. There are two batch axes at most; so where their product is not known as a number, one axis can be both of them,
    which the number of elements makes certain.
    """
    if not dims:
        return None if factors else ()
    size, rest = dims[0], None
    if size == 1:
        rest = _grouped(factors, dims[1:], sizes)
        return None if rest is None else ((), *rest)
    for count in range(1, len(factors) + 1):
        head, tail = factors[:count], factors[count:]
        names = tuple(f for f in head if isinstance(f, str))
        if len(names) == count and _is_product(size, [sizes[name] for name in names]):
            rest = _grouped(tail, dims[1:], sizes)
        elif not names and isinstance(size, int) and size:
            whole = math.prod(f for f in head if isinstance(f, int))
            left = [whole // size] if whole > size else []
            rest = _grouped([*left, *tail], dims[1:], sizes) if whole % size == 0 else None
        if rest is not None:
            return (names, *rest)
    return None


def _is_product(size: LabelledDim, factors: Sequence[LabelledDim]) -> bool:
    """Whether `size` may be the product: certainly is, where it is a number or there is one factor."""
    if len(factors) == 1:
        return same_dim(size, factors[0])
    numbers = [f for f in factors if isinstance(f, int)]
    known_product = math.prod(numbers) if len(numbers) == len(factors) else None
    return size == known_product if isinstance(size, int) or known_product is not None else True


def _split(evaluator: SymbolicEvaluator, node: ir.Node, value: ir.Value) -> Formula:
    axis = _axis(node, len(_dims(value)))
    widths = [_dims(output)[axis] for output in node.outputs]
    stops = np.cumsum([width for width in widths if isinstance(width, int)])
    if len(stops) < len(widths):
        raise UnreadableError("the sizes of a split in its step are not known")
    index, formula = value.index() or 0, evaluator.features(node.inputs[0], axis)
    return _taken(formula, np.arange(stops[index] - int(np.diff(stops, prepend=0)[index]), stops[index]), axis)


def _sliced(evaluator: SymbolicEvaluator, node: ir.Node, _: ir.Value) -> Formula:
    bounds = [known(operand) for operand in node.inputs[1:]]
    starts, stops = bounds[0], bounds[1]
    if starts is None or stops is None or any(bound is None for bound in bounds):
        raise UnreadableError("the bounds of a slice in its step are not constant")
    axes = bounds[2] if len(bounds) > 2 and bounds[2] is not None else np.arange(starts.size)
    steps = bounds[3] if len(bounds) > 3 and bounds[3] is not None else np.ones_like(starts)
    formula, rank = evaluator.formula(node.inputs[0]), len(_dims(node.inputs[0]))
    for start, stop, axis, step in zip(starts, stops, axes % rank, steps, strict=True):
        whole = evaluator.features(node.inputs[0], int(axis)).frame
        formula = formula.broadcast(*common_frame(formula.frame, whole))
        formula = _taken(formula, np.arange(whole.shape[axis])[slice(int(start), int(stop), int(step))], int(axis))
    return formula


def _gathered(evaluator: SymbolicEvaluator, node: ir.Node, _: ir.Value) -> Formula:
    indices, axis = known(node.inputs[1]), _axis(node, len(_dims(node.inputs[0])))
    if indices is None:
        raise UnreadableError("indices in its step are not constant")
    return _taken(evaluator.features(node.inputs[0], axis), indices, axis)


def _taken(formula: Formula, indices: Array, axis: int) -> Formula:
    batch, size = formula.frame.batch, formula.frame.shape[axis]
    if ((indices < -size) | (indices >= size)).any():
        raise UnreadableError("an index in its step is out of range")
    return formula.arranged(
        lambda array: np.take(array, indices, axis), (*batch[:axis], *[()] * indices.ndim, *batch[axis + 1 :])
    )


def _axis(node: ir.Node, rank: int) -> int:
    return node.attributes.get_int("axis", 0) % rank


def _joined(evaluator: SymbolicEvaluator, node: ir.Node, value: ir.Value) -> Formula:
    """A Concat along features: the sum of its parts, each padded with zeros to the whole size."""
    axis = _axis(node, len(_dims(value)))
    parts = [evaluator.row(evaluator.features(operand, axis), axis) for operand in node.inputs]
    stops = np.cumsum([part.shape[axis] for part in parts])
    total: Formula | None = None
    for part, stop in zip(parts, stops, strict=True):
        ends = [(0, 0)] * len(part.shape)
        ends[axis] = (int(stop) - part.shape[axis], int(stops[-1] - stop))
        padded = Formula.from_affine(part.arranged(functools.partial(np.pad, pad_width=ends), part.batch))
        total = padded if total is None else total + padded
    assert total is not None, "a Concat has operands"
    return total


def _matrix_product(evaluator: SymbolicEvaluator, node: ir.Node, _: ir.Value) -> Formula:
    left, right = node.inputs
    matrix = known(right, _LIMIT)
    if matrix is not None:
        return _times(evaluator, evaluator.formula(left), matrix, right)
    matrix = known(left, _LIMIT)
    if matrix is None:
        raise UnreadableError("the weights are not constant")
    formula = evaluator.formula(right)
    product = _times(evaluator, _swapped(formula), matrix.swapaxes(-2, -1) if matrix.ndim > 1 else matrix, left)
    return _swapped(product) if matrix.ndim > 1 and len(formula.frame.shape) > 1 else product


def _swapped(formula: Formula) -> Formula:
    """The last two axes exchanged."""
    rank = len(formula.frame.shape)
    return _permuted(formula, [*range(rank - 2), rank - 1, rank - 2]) if rank > 1 else formula


def _times(evaluator: SymbolicEvaluator, formula: Formula, matrix: Array, weight: ir.Value | None) -> Formula:
    """`formula` [..., n] times a constant [n], [n, m] or [..., n, m], which was made from `weight`."""
    assert weight is not None
    rank = len(formula.frame.shape)
    row = evaluator.row(formula, rank - 1)
    columns = matrix[:, None] if matrix.ndim == 1 else np.moveaxis(matrix, -2, 0)
    count, *lead, width = columns.shape
    if row.batch[-1] or math.prod(row.shape) != row.shape[-1] or row.shape[-1] not in (1, count):
        raise UnreadableError("its step multiplies several rows at once by a matrix")
    flat = row.arranged(lambda array: np.broadcast_to(array.reshape(-1), count), ((),))
    product = Product(flat, columns.reshape(count, -1), weight)
    ahead = max(rank - 2, len(lead))
    last = [width] if matrix.ndim > 1 else []
    shape = (*[1] * (ahead - len(lead)), *lead, *([1] if rank > 1 else []), *last)
    over = (*[()] * (ahead - max(rank - 2, 0)), *row.batch[:-1], *[() for _ in last])
    if any(names and size > 1 for names, size in zip(over, shape, strict=True)):
        raise UnreadableError("its step combines features with batches")
    places = np.arange(product.matrix.shape[1]).reshape(shape)
    terms = (Term(product, places, np.ones(shape, np.float32)),) if flat.terms else ()
    return Formula.from_affine(Affine(terms, (flat.bias @ product.matrix).reshape(shape), over, flat.biases))


def _general_product(evaluator: SymbolicEvaluator, node: ir.Node, _: ir.Value) -> Formula:
    """A Gemm, whose factors are 1."""
    factors = [node.attributes.get_float(name, 1.0) for name in ("alpha", "beta")]
    if factors != [1.0, 1.0]:
        raise UnreadableError("a matrix product in its step has a factor")
    arrays = [known(operand, _LIMIT) for operand in node.inputs[:2]]
    flips = [node.attributes.get_int(name, 0) for name in ("transA", "transB")]
    first, second = (a.T if a is not None and flip else a for a, flip in zip(arrays, flips, strict=True))
    if second is not None:
        formula = evaluator.formula(node.inputs[0])
        product = _times(evaluator, _swapped(formula) if flips[0] else formula, second, node.inputs[1])
    elif first is not None:
        formula = evaluator.formula(node.inputs[1])
        product = _swapped(_times(evaluator, formula if flips[1] else _swapped(formula), first.T, node.inputs[0]))
    else:
        raise UnreadableError("the weights are not constant")
    return (
        product + evaluator.formula(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else product
    )


_RULES: Mapping[str, Rule] = {
    "Add": _sum,
    "Sub": _difference,
    "Mul": _multiplied,
    "Neg": _negated,
    "Identity": _same,
    "Transpose": _transposed,
    "Expand": _expanded,
    "Squeeze": _squeezed,
    "Unsqueeze": _unsqueezed,
    "Reshape": _reshaped,
    "Split": _split,
    "Slice": _sliced,
    "Gather": _gathered,
    "Concat": _joined,
    "MatMul": _matrix_product,
    "Gemm": _general_product,
}
