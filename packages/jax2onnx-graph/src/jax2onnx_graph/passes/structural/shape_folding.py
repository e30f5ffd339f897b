"""Evaluate small integer arithmetic on shapes at export."""

from __future__ import annotations

__all__ = ["FoldConstants"]

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

_LIMIT = 256  # elements: what shape arithmetic needs, and small enough never to bloat a file


class FoldConstants(GraphPass):
    """Replace integer and boolean nodes whose results are known by constants.

    1. `Shape(x)` and `Size(x)` where the dimensions asked for are static.
    2. `Gather(Shape(x), constant)` and `Slice(Shape(x), constants)` where those dimensions are static.
    3. Every operator of `_FOLDS` on constants of at most 256 elements, to an integer or boolean result.
    """

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or len(node.outputs) != 1:
                continue
            result = _of_shape(node) if node.op_type in _OF_SHAPE else _of_constants(node)
            if result is not None and result.size <= _LIMIT:
                editor.replace(node, editor.constant(result))


_OF_SHAPE = frozenset({"Shape", "Size", "Gather", "Slice"})


def _of_shape(node: ir.Node) -> np.ndarray | None:
    if node.op_type in ("Shape", "Size"):
        numbers = _static(_shape_slice(node))
        if numbers is None or node.op_type == "Shape":
            return numbers
        return np.array(np.prod(numbers, dtype=np.int64))
    if not node.inputs or any(value is not None and known(value, _LIMIT) is None for value in node.inputs[1:]):
        return None
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    if source is None or source.domain or source.op_type != "Shape":
        return _of_constants(node)
    dims = _shape_slice(source)
    if dims is None:
        return None
    positions = _FOLDS[node.op_type](node, np.arange(len(dims)), *(known(v) for v in node.inputs[1:]))
    if positions is None:
        return None
    picked = [dims[int(i)] for i in positions.reshape(-1)]
    values = _static(picked)
    return None if values is None else values.reshape(positions.shape)


def _shape_slice(node: ir.Node) -> tuple[LabelledDim, ...] | None:
    dims = dims_of(node.inputs[0])
    if dims is None:
        return None
    end = node.attributes.get_int("end", len(dims))
    return dims[node.attributes.get_int("start", 0) : end]


def _static(dims: Sequence[LabelledDim] | None) -> np.ndarray | None:
    if dims is None or not all(isinstance(dim, int) for dim in dims):
        return None
    return np.array(dims, np.int64)


def _of_constants(node: ir.Node) -> np.ndarray | None:
    fold = _FOLDS.get(node.op_type)
    if fold is None:
        return None
    operands: list[np.ndarray | None] = []
    for value in node.inputs:
        array = known(value, _LIMIT)
        if array is None and value is not None:
            return None
        operands.append(array)
    if not operands or operands[0] is None or operands[0].dtype.kind not in "iub":
        return None
    result = fold(node, *operands)
    return None if result is None or result.dtype.kind not in "iub" else result


def _binary(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray | None]:
    return lambda node, x, y: np.asarray(fn(x, y))


def _unary(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray | None]:
    return lambda node, x: np.asarray(fn(x))


def _divide(node: ir.Node, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """ONNX's integer division, which truncates."""
    if not np.all(y):
        return None
    quotient: np.ndarray = (x - np.fmod(x, y)) // y
    return quotient


def _modulo(node: ir.Node, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    if not np.all(y):
        return None
    return np.asarray(np.fmod(x, y) if node.attributes.get_int("fmod", 0) else np.mod(x, y))


def _concat(node: ir.Node, *operands: np.ndarray) -> np.ndarray:
    return np.concatenate(operands, node.attributes.get_int("axis", 0))


def _gather(node: ir.Node, x: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    axis = node.attributes.get_int("axis", 0)
    size = x.shape[axis]
    if np.any(indices < -size) or np.any(indices >= size):
        return None
    return np.take(x, indices, axis)


def _slice(
    node: ir.Node,
    x: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    axes: np.ndarray | None = None,
    steps: np.ndarray | None = None,
) -> np.ndarray | None:
    axes = np.arange(len(starts)) if axes is None else axes
    steps = np.ones_like(starts) if steps is None else steps
    if np.any(steps < 1):
        return None
    index: list[slice] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[int(axis)] = slice(int(start), int(end), int(step))
    return x[tuple(index)]


def _squeeze(node: ir.Node, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    return np.squeeze(x, None if axes is None else tuple(int(a) for a in axes.reshape(-1)))


def _unsqueeze(node: ir.Node, x: np.ndarray, axes: np.ndarray) -> np.ndarray:
    return np.expand_dims(x, tuple(int(a) for a in axes.reshape(-1)))


def _reshape(node: ir.Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray | None:
    if 0 in shape:
        return None
    return x.reshape([int(dim) for dim in shape])


def _expand(node: ir.Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray | None:
    target = np.broadcast_shapes(x.shape, tuple(int(dim) for dim in shape))
    return np.broadcast_to(x, target).copy() if np.prod(target) <= _LIMIT else None


def _cast(node: ir.Node, x: np.ndarray) -> np.ndarray | None:
    dtype = ir.DataType(node.attributes["to"].as_int()).numpy()
    return np.asarray(x.astype(dtype)) if dtype.kind in "iub" else None


def _reduce(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray | None]:
    def fold(node: ir.Node, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray | None:
        if axes is None and int(node.attributes.get_int("noop_with_empty_axes", 0)) == 1:
            return None
        picked = None if axes is None or not axes.size else tuple(int(a) for a in axes)
        keepdims = bool(node.attributes.get_int("keepdims", 1))
        return np.asarray(fn(x, axis=picked, keepdims=keepdims)).astype(x.dtype)

    return fold


def _range(node: ir.Node, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray | None:
    if delta == 0 or (limit - start) / delta > _LIMIT:
        return None
    return np.arange(int(start), int(limit), int(delta)).astype(start.dtype)


def _transpose(node: ir.Node, x: np.ndarray) -> np.ndarray:
    perm = node.attributes.get_ints("perm", None)
    return np.ascontiguousarray(np.transpose(x, perm))


_FOLDS: Mapping[str, Callable[..., np.ndarray | None]] = {
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "Div": _divide,
    "Mod": _modulo,
    "Max": lambda node, *xs: np.asarray(np.maximum.reduce(np.broadcast_arrays(*xs))),
    "Min": lambda node, *xs: np.asarray(np.minimum.reduce(np.broadcast_arrays(*xs))),
    "Neg": _unary(np.negative),
    "Abs": _unary(np.abs),
    "Equal": _binary(np.equal),
    "Less": _binary(np.less),
    "LessOrEqual": _binary(np.less_equal),
    "Greater": _binary(np.greater),
    "GreaterOrEqual": _binary(np.greater_equal),
    "And": _binary(np.logical_and),
    "Or": _binary(np.logical_or),
    "Not": _unary(np.logical_not),
    "Where": lambda node, c, x, y: np.asarray(np.where(c, x, y)),
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Expand": _expand,
    "Cast": _cast,
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "Range": _range,
    "Transpose": _transpose,
    "Identity": lambda node, x: x,
}
