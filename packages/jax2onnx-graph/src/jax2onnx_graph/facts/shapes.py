"""Shapes of results that follow from the operands' shapes alone, in terms of dimensions that may be symbolic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dims import Dim, Dims, are_plain, is_static
from jax2onnx_graph.facts.operators import Elementwise, facts_of
from jax2onnx_graph.facts.values import LabelledDim, known, same_dim

__all__ = ["broadcast_dims", "infer_dims"]

_Inputs = Sequence[ir.Value | None]
_Attributes = Mapping[str, object]
_AnyDim = TypeVar("_AnyDim", Dim, LabelledDim)


def broadcast_dims(shapes: Sequence[Sequence[_AnyDim] | None]) -> tuple[_AnyDim, ...] | None:
    """The shape to which `shapes` broadcast as in NumPy; None where one is unknown or dimensions may differ.

    >>> broadcast_dims([(2, 1), (3,)])
    (2, 3)
    """
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    if known and all(shape == known[0] and are_plain(shape) for shape in known):
        return tuple(known[0])
    rank = max(map(len, known), default=0)
    result: list[_AnyDim] = [1] * rank
    for shape in known:
        for axis, dim in enumerate(shape, rank - len(shape)):
            if _is_one(result[axis]):
                result[axis] = dim
            elif not _is_one(dim) and not same_dim(result[axis], dim):
                return None
    return tuple(result)


def _is_one(dim: Dim | LabelledDim) -> bool:
    return isinstance(dim, (int, np.integer)) and dim == 1


def infer_dims(op_type: str, inputs: _Inputs, attributes: _Attributes, known: Mapping[ir.Value, Dims]) -> Dims | None:
    """The dimensions of the first result of a standard operator (of all results of Split); None if unknown.

    Args:
      op_type: the operator.
      inputs: its operands, None for those left out.
      attributes: its attributes as plain values, those left out absent or None.
      known: the dimensions of values; results have the same ones, or sums and quotients of them.
    """
    if op_type == "If":
        return _of_branches(attributes, known)
    facts = facts_of(op_type)
    shapes = [known.get(v) for v in inputs if v is not None]
    if facts.elementwise is Elementwise.BROADCAST:
        return broadcast_dims(shapes)
    first = shapes[0] if shapes else None
    if first is None:
        return None
    if facts.has_shape_of_first:
        return first
    if facts.reduces:
        return _reduce(first, inputs, attributes, facts.axis, facts.axes_input)
    if op_type in _FROM_FIRST:
        return _FROM_FIRST[op_type](first, inputs, attributes)
    all_known = [shape for shape in shapes if shape is not None]
    return _FROM_ALL[op_type](all_known, attributes) if op_type in _FROM_ALL and len(all_known) == len(shapes) else None


def _of_branches(attributes: _Attributes, known: Mapping[ir.Value, Dims]) -> Dims | None:
    shapes = [known.get(branch.outputs[0]) for branch in attributes.values() if isinstance(branch, ir.Graph)]
    return shapes[0] if shapes and all(shape == shapes[0] for shape in shapes) else None


def _int(attributes: _Attributes, name: str, default: int) -> int:
    value = attributes.get(name)
    if value is None:
        return default
    if not isinstance(value, (int, np.integer)):
        raise TypeError(f"The attribute {name} is a number, not {value!r}.")
    return int(value)


def _constant(inputs: _Inputs, index: int) -> list[int] | None:
    array = known(inputs[index], limit=None) if index < len(inputs) else None
    return None if array is None else [int(i) for i in array.reshape(-1)]


def _reduce(
    dims: Dims, inputs: _Inputs, attributes: _Attributes, default_axis: int | None, axes_input: int | None
) -> Dims | None:
    if axes_input is None:
        axes: list[int] | None = [_int(attributes, "axis", default_axis or 0)]
    else:
        axes = _constant(inputs, axes_input)
        if (axes is None and len(inputs) > axes_input) or _int(attributes, "noop_with_empty_axes", 0):
            return None
    gone = {a % len(dims) for a in axes} if axes else set(range(len(dims)))
    if _int(attributes, "keepdims", 1):
        return tuple(1 if i in gone else d for i, d in enumerate(dims))
    return tuple(d for i, d in enumerate(dims) if i not in gone)


def _transpose(dims: Dims, _: _Inputs, attributes: _Attributes) -> Dims:
    perm = attributes.get("perm")
    order = [int(p) for p in perm] if isinstance(perm, (list, tuple, np.ndarray)) else range(len(dims))[::-1]
    return tuple(dims[p] for p in order)


def _squeeze(dims: Dims, inputs: _Inputs, _: _Attributes) -> Dims | None:
    axes = _constant(inputs, 1)
    if axes is None:
        return None
    gone = {a % len(dims) for a in axes}
    return tuple(d for i, d in enumerate(dims) if i not in gone)


def _unsqueeze(dims: Dims, inputs: _Inputs, _: _Attributes) -> Dims | None:
    axes = _constant(inputs, 1)
    if axes is None:
        return None
    rank = len(dims) + len(axes)
    new, rest = {a % rank for a in axes}, iter(dims)
    return tuple(1 if i in new else next(rest) for i in range(rank))


def _split(dims: Dims, inputs: _Inputs, attributes: _Attributes) -> Dims | None:
    axis, count = _int(attributes, "axis", 0) % len(dims), _int(attributes, "num_outputs", 0)
    size = dims[axis]
    if not count or len(inputs) > 1 or size % count != 0:
        return None
    return (*dims[:axis], size // count, *dims[axis + 1 :])


def _reshape(dims: Dims, inputs: _Inputs, attributes: _Attributes) -> Dims | None:
    """The target where it is constant, and the size that it leaves open follows from numbers; else None."""
    target = _constant(inputs, 1)
    if target is None or (0 in target and _int(attributes, "allowzero", 0)):
        return None if target is None else tuple(target)
    if any(d == 0 and i >= len(dims) for i, d in enumerate(target)):
        return None
    wanted: list[Dim] = [dims[i] if d == 0 else d for i, d in enumerate(target)]
    if -1 not in target:
        return tuple(wanted)
    sizes = [d for d in (*dims, *wanted) if is_static(d) and d > 0]
    if len(sizes) < len(dims) + len(wanted) - 1:
        return None
    rest = math.prod(sizes[: len(dims)]) // math.prod(sizes[len(dims) :])
    return tuple(rest if d == -1 else d for d in wanted)


def _rank(dims: Dims, _: _Inputs, attributes: _Attributes) -> Dims:
    rank = len(dims)
    return (len(range(rank)[_int(attributes, "start", 0) : _int(attributes, "end", rank)]),)


def _gather(shapes: Sequence[Dims], attributes: _Attributes) -> Dims:
    dims, indices = shapes
    axis = _int(attributes, "axis", 0) % len(dims)
    return (*dims[:axis], *indices, *dims[axis + 1 :])


def _gather_elements(shapes: Sequence[Dims], _: _Attributes) -> Dims:
    return shapes[1]


def _concat(shapes: Sequence[Dims], attributes: _Attributes) -> Dims:
    dims = shapes[0]
    axis = _int(attributes, "axis", 0) % len(dims)
    return (*dims[:axis], sum(shape[axis] for shape in shapes), *dims[axis + 1 :])


def _matmul(shapes: Sequence[Dims], _: _Attributes) -> Dims | None:
    a, b = shapes[:2]
    batch = broadcast_dims([a[:-2], b[:-2]])
    return None if batch is None else (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


# By the shape of the first operand, and by those of all operands; elementwise operators and reductions need no rule.
_FROM_FIRST: Mapping[str, Callable[[Dims, _Inputs, _Attributes], Dims | None]] = {
    "Reshape": _reshape,
    "Shape": _rank,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
_FROM_ALL: Mapping[str, Callable[[Sequence[Dims], _Attributes], Dims | None]] = {
    "Concat": _concat,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
}
