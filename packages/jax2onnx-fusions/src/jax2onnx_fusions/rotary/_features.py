"""Values as features of a tensor: nodes that slice, view, join, turn around, repeat or negate them are run on their numbers."""

from __future__ import annotations

__all__ = ["LARGEST_TABLE", "Features", "feature_numbers", "sources"]

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.axes import axis_of, known_operand, named_axes
from jax2onnx_graph.facts.evaluate import evaluate
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dim, same_dims
from jax2onnx_graph.rewrite.patterns import permutation_of

#: The most elements of a constant that is compared or halved.
LARGEST_TABLE = 1 << 22

_DEPTH = 12
_VIEWS = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
_EVALUATED = frozenset({"Concat", "Gather", "Mul", "Neg", "Slice", "Where"})
_READ = frozenset({"Expand", "Split", "Tile", "Transpose"}) | _VIEWS | _EVALUATED


@dataclasses.dataclass(frozen=True)
class Features:
    """The tensor whose pairs of features are rotated.

    Attributes:
      source: [·, ·, ·, H] or [·, ·, H], or with the pairs along a further axis: [·, ·, ·, H / 2, 2].
      dims: the dimensions [·, ·, ·, H] or [·, ·, H].
      interleaved: whether a pair is two neighbouring features, not one of each half.
    """

    source: ir.Value
    dims: tuple[LabelledDim, ...]
    interleaved: bool


def sources(value: ir.Value | None) -> Iterator[ir.Value]:
    """A value, and the tensors whose features it may be: each is read by the node that makes the one before."""
    for _ in range(_DEPTH):
        if value is None:
            return
        yield value
        node = value.producer()
        if node is None or node.domain or node.op_type not in _READ:
            return
        value = next((one for one in node.inputs if known(one, LARGEST_TABLE) is None), None)


def feature_numbers(value: ir.Value | None, source: ir.Value, count: int = 1) -> Array | None:
    """The numbers, from 1 on, of the features of a tensor along the last axis of a value, negative for the negatives of features.

    None where the value is something else, or where its other axes are not those of the tensor, axes of size 1 aside.

    Args:
      value: the value.
      source: the tensor.
      count: the number of its last axes along which features lie.
    """
    numbers, rows = _numbers(value, source, count, _DEPTH), _rows(dims_of(source), count)
    if numbers is None or numbers.size != numbers.shape[-1] or not same_dims(_rows(dims_of(value), 1), rows):
        return None
    return numbers.reshape(-1)


def _rows(dims: Sequence[LabelledDim] | None, count: int) -> list[LabelledDim] | None:
    """The dimensions but for the last ones and those that are 1."""
    return None if dims is None else [dim for dim in dims[: len(dims) - count] if dim != 1]


def _numbers(value: ir.Value | None, source: ir.Value, count: int, depth: int) -> Array | None:
    """The numbers of features in the shape of a value, but with the size 1 along axes of which the features are the same."""
    dims = dims_of(value)
    if value is None or not dims:
        return None
    if value is source:
        return _of_source(dims, count)
    node = value.producer()
    if node is None or node.domain or node.op_type not in _READ or not depth:
        return None
    of_features = _of_features(node)
    operands = [
        _numbers(one, source, count, depth - 1) if index in of_features else _constant(one)
        for index, one in enumerate(node.inputs if node.op_type in _EVALUATED else node.inputs[:1])
    ]
    known_operands = [one for one in operands if one is not None]
    found = _result(node, value, dims, known_operands) if len(known_operands) == len(operands) else None
    if found is None or found.ndim != len(dims):
        return None
    return found if all(size in (1, dim) for size, dim in zip(found.shape, dims, strict=True)) else None


def _of_source(dims: Sequence[LabelledDim], count: int) -> Array | None:
    sizes = [size for size in dims[-count:] if isinstance(size, int)]
    if len(dims) < count or len(sizes) < count:
        return None
    return np.arange(1, math.prod(sizes) + 1).reshape(*[1] * (len(dims) - count), *sizes)


def _of_features(node: ir.Node) -> Sequence[int]:
    """The places of the operands of which a node takes features; the others are constants, those of a product its signs."""
    match node.op_type:
        case "Concat":
            return range(len(node.inputs))
        case "Where":
            return (1, 2)
        case "Mul":
            return (1,) if _constant(node.inputs[0]) is not None else (0,)
    return (0,)


def _constant(value: ir.Value | None) -> Array | None:
    """A constant of integers or booleans, or of the floats -1 and 1 as integers."""
    array = known(value, LARGEST_TABLE)
    if array is None or array.dtype.kind in "iub":
        return array
    return array.astype(np.int64) if bool((abs(array) == 1).all()) else None


def _result(node: ir.Node, value: ir.Value, dims: Sequence[LabelledDim], operands: Sequence[Array]) -> Array | None:
    """The result of a node on numbers of features."""
    numbers, before = operands[0], dims_of(node.inputs[0]) or ()
    if node.op_type in _VIEWS:
        return _viewed(numbers, before, dims)
    match node.op_type:
        case "Transpose":
            order = permutation_of(node)
            rows = [axis for axis in order if numbers.shape[axis] == 1 != before[axis]]
            return numbers.transpose(order) if rows == sorted(rows) else None
        case "Split":
            return _part(node, value, numbers)
        case "Expand":
            return _expanded(numbers, before, dims)
        case "Tile":
            repeats = known(node.inputs[1])
            return None if repeats is None else np.tile(numbers, repeats)
        case "Slice" if _turns_rows_around(node, numbers, before):
            return None
    return evaluate(node, operands, most=LARGEST_TABLE)


def _turns_rows_around(node: ir.Node, numbers: Array, dims: Sequence[LabelledDim]) -> bool:
    """Whether a Slice takes rows, of which the numbers hold one, backwards; one that leaves rows out changes the shape."""
    steps, axes = known_operand(node, 4), named_axes(node, len(dims))
    if steps is None or axes is None:
        return False
    return any(step < 0 and numbers.shape[axis] == 1 != dims[axis] for axis, step in zip(axes, steps, strict=True))


def _viewed(numbers: Array, before: Sequence[LabelledDim], after: Sequence[LabelledDim]) -> Array | None:
    """The numbers in a view that keeps the axes without features, but for those of size 1."""
    places = [axis for axis, size in enumerate(numbers.shape) if size > 1] or [len(before) - 1]
    first, last = places[0], places[-1] + 1
    around = [_rows(before[:first], 0), _rows(before[last:], 0)]
    for start, end in itertools.combinations(range(len(after) + 1), 2):
        sizes = [dim for dim in after[start:end] if isinstance(dim, int)]
        if len(sizes) < end - start or math.prod(sizes) != numbers.size:
            continue
        if all(map(same_dims, around, (_rows(after[:start], 0), _rows(after[end:], 0)))):
            return numbers.reshape(*[1] * start, *sizes, *[1] * (len(after) - end))
    return None


def _part(node: ir.Node, value: ir.Value, numbers: Array) -> Array | None:
    axis, index = axis_of(node, numbers.ndim), value.index() or 0
    dims = [(dims_of(one) or (None,) * numbers.ndim)[axis] for one in node.outputs]
    sizes = [dim for dim in dims if isinstance(dim, int)]
    if len(sizes) < len(dims) or sum(sizes) != numbers.shape[axis]:
        return None
    return np.split(numbers, np.cumsum(sizes)[:-1], axis)[index]


def _expanded(numbers: Array, before: Sequence[LabelledDim], after: Sequence[LabelledDim]) -> Array | None:
    if len(before) != len(after):
        return None
    pairs = zip(before, after, numbers.shape, strict=True)
    sizes = [size if same_dim(one, other) else other for one, other, size in pairs]
    known_sizes = [size for size in sizes if isinstance(size, int)]
    return np.broadcast_to(numbers, known_sizes) if len(known_sizes) == len(sizes) else None
