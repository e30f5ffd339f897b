"""Operators on integers and booleans, evaluated by NumPy as ONNX defines them."""

from __future__ import annotations

__all__ = ["EVALUATED", "MAX_ELEMENTS", "evaluate"]

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jax2onnx_graph._ir import ir

#: Larger results are not computed: what shape arithmetic needs, and small enough never to bloat a file.
MAX_ELEMENTS = 256


def evaluate(node: ir.Node, operands: Sequence[np.ndarray | None], *, most: int = MAX_ELEMENTS) -> np.ndarray | None:
    """The only result of a node of a standard operator on these operands (None for those left out), of at most so many elements.

    None where the operator is not evaluated here, where a number involved is not an integer or boolean (but for what a Cast
    makes of these), where ONNX leaves the result open (a division by zero, a reduction of nothing), and where it is too large.
    """
    evaluator = _EVALUATORS.get(node.op_type)
    if evaluator is None or not operands or operands[0] is None or operands[0].dtype.kind not in "iub":
        return None
    result = evaluator(node, *operands)
    kinds = "iubf" if node.op_type == "Cast" else "iub"
    if result is None or result.dtype.kind not in kinds or result.size > most:
        return None
    return result


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
    if not np.all(steps):
        return None
    index: list[slice] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 0 and start < -x.shape[axis]:  # the first element, which NumPy leaves out
            return None
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
    return np.broadcast_to(x, target).copy() if np.prod(target, dtype=np.int64) <= MAX_ELEMENTS else None


def _cast(node: ir.Node, x: np.ndarray) -> np.ndarray | None:
    dtype = ir.DataType(node.attributes["to"].as_int()).numpy()
    return np.asarray(x.astype(dtype)) if dtype.kind in "iubf" else None


def _reduce(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray | None]:
    def fold(node: ir.Node, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray | None:
        is_named = axes is not None and axes.size > 0
        if not x.size or (not is_named and node.attributes.get_int("noop_with_empty_axes", 0) == 1):
            return None
        picked = tuple(int(a) for a in axes) if axes is not None and is_named else None
        keepdims = bool(node.attributes.get_int("keepdims", 1))
        return np.asarray(fn(x, axis=picked, keepdims=keepdims)).astype(x.dtype)

    return fold


def _range(node: ir.Node, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray | None:
    if delta == 0 or (limit - start) / delta > MAX_ELEMENTS:
        return None
    return np.arange(int(start), int(limit), int(delta)).astype(start.dtype)


def _transpose(node: ir.Node, x: np.ndarray) -> np.ndarray:
    perm = node.attributes.get_ints("perm", None)
    return np.ascontiguousarray(np.transpose(x, perm))


_EVALUATORS: Mapping[str, Callable[..., np.ndarray | None]] = {
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

#: The operators that `evaluate` knows.
EVALUATED = frozenset(_EVALUATORS)
