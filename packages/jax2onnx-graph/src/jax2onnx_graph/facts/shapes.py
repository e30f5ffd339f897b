"""Shapes of results that follow from the operands' shapes alone, for what rules emit between operands and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.schemas import BROADCASTING, broadcast_dims

__all__ = ["infer_dims"]

Dims = tuple[Any, ...]
# The operands' dimensions (None where unknown), the operands, the attributes.
_Rule = Callable[[Sequence[Dims], Sequence[Any], Mapping[str, Any]], Dims | None]


def infer_dims(
    op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any], known: Mapping[ir.Value, Dims]
) -> Dims | None:
    """The dimensions of the first result (of all, where an operator has several alike); None if unknown.

    Dimensions are those that the operands have: none is invented.
    """
    if op_type == "If":
        return _of_branches(attributes, known)
    if op_type in BROADCASTING:
        return broadcast_dims([known.get(v) for v in inputs if v is not None])
    rule = _RULES.get(op_type)
    shapes = [known.get(v) for v in inputs if v is not None]
    if rule is None or not shapes or shapes[0] is None:
        return None
    return (
        rule([s if s is not None else () for s in shapes], inputs, attributes) if _complete(op_type, shapes) else None
    )


def _complete(op_type: str, shapes: Sequence[Dims | None]) -> bool:
    """Whether every shape that counts is known: that of all operands, or of the first alone."""
    return op_type not in _OF_ALL or all(s is not None for s in shapes)


def _of_branches(attributes: Mapping[str, Any], known: Mapping[ir.Value, Dims]) -> Dims | None:
    shapes = [known.get(branch.outputs[0]) for branch in attributes.values() if isinstance(branch, ir.Graph)]
    return shapes[0] if shapes and all(shape == shapes[0] for shape in shapes) else None


def _constant(inputs: Sequence[Any], index: int) -> list[int] | None:
    value = inputs[index] if index < len(inputs) else None
    if value is None or value.const_value is None:
        return None
    return [int(i) for i in np.asarray(value.const_value.numpy()).reshape(-1)]


def _transpose(shapes: Sequence[Dims], _: Sequence[Any], attributes: Mapping[str, Any]) -> Dims:
    perm = attributes.get("perm") or range(len(shapes[0]))[::-1]
    return tuple(shapes[0][p] for p in perm)


def _gather(shapes: Sequence[Dims], _: Sequence[Any], attributes: Mapping[str, Any]) -> Dims:
    axis = (attributes.get("axis") or 0) % len(shapes[0])
    return (*shapes[0][:axis], *shapes[1], *shapes[0][axis + 1 :])


def _concat(shapes: Sequence[Dims], _: Sequence[Any], attributes: Mapping[str, Any]) -> Dims:
    axis = attributes["axis"] % len(shapes[0])
    return (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])


def _matmul(shapes: Sequence[Dims], _: Sequence[Any], __: Mapping[str, Any]) -> Dims | None:
    a, b = shapes[:2]
    batch = broadcast_dims([a[:-2], b[:-2]])
    return None if batch is None else (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _reduce(shapes: Sequence[Dims], inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Dims | None:
    axes = _constant(inputs, 1)
    if (axes is None and len(inputs) > 1) or attributes.get("noop_with_empty_axes"):
        return None
    gone = {a % len(shapes[0]) for a in axes} if axes else set(range(len(shapes[0])))
    if attributes.get("keepdims", 1):
        return tuple(1 if i in gone else d for i, d in enumerate(shapes[0]))
    return tuple(d for i, d in enumerate(shapes[0]) if i not in gone)


def _arg(shapes: Sequence[Dims], _: Sequence[Any], attributes: Mapping[str, Any]) -> Dims:
    axis = (attributes.get("axis") or 0) % len(shapes[0])
    return (*shapes[0][:axis], *((1,) if attributes.get("keepdims", 1) else ()), *shapes[0][axis + 1 :])


def _squeeze(shapes: Sequence[Dims], inputs: Sequence[Any], _: Mapping[str, Any]) -> Dims | None:
    axes = _constant(inputs, 1)
    if axes is None:
        return None
    gone = {a % len(shapes[0]) for a in axes}
    return tuple(d for i, d in enumerate(shapes[0]) if i not in gone)


def _unsqueeze(shapes: Sequence[Dims], inputs: Sequence[Any], _: Mapping[str, Any]) -> Dims | None:
    axes = _constant(inputs, 1)
    if axes is None:
        return None
    rank = len(shapes[0]) + len(axes)
    new, rest = {a % rank for a in axes}, iter(shapes[0])
    return tuple(1 if i in new else next(rest) for i in range(rank))


def _split(shapes: Sequence[Dims], inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Dims | None:
    axis, count = (attributes.get("axis") or 0) % len(shapes[0]), attributes.get("num_outputs")
    size = shapes[0][axis]
    if count is None or len(inputs) > 1 or size % count != 0:
        return None
    return (*shapes[0][:axis], size // count, *shapes[0][axis + 1 :])


def _indices(shapes: Sequence[Dims], _: Sequence[Any], __: Mapping[str, Any]) -> Dims:
    return shapes[1]


def _first(shapes: Sequence[Dims], _: Sequence[Any], __: Mapping[str, Any]) -> Dims:
    return shapes[0]


def _rank(shapes: Sequence[Dims], _: Sequence[Any], attributes: Mapping[str, Any]) -> Dims:
    return (len(range(len(shapes[0]))[attributes.get("start") : attributes.get("end")]),)


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_RULES: dict[str, _Rule] = {
    "Transpose": _transpose,
    "Gather": _gather,
    "GatherElements": _indices,
    "Concat": _concat,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Split": _split,
    "Shape": _rank,
    "ArgMax": _arg,
    "ArgMin": _arg,
    **dict.fromkeys((f"Reduce{name}" for name in _REDUCTIONS), _reduce),
    **dict.fromkeys(("ScatterElements", "ScatterND", "LayerNormalization", "RMSNormalization", "DequantizeLinear"), _first),
    **dict.fromkeys(("QuantizeLinear", "ReverseSequence", "InstanceNormalization", "EyeLike"), _first),
}  # fmt: skip
_OF_ALL = frozenset({"Gather", "GatherElements", "Concat", "MatMul", "MatMulInteger"})
