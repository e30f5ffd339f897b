"""Operators whose integer kernels are wrong for some numbers, written with operators whose kernels are right.

ONNX Runtime compares 64-bit integers by halves in its vectorised Max, Min, Clip, Sign, ReduceMax and ReduceMin
(wrong where the upper halves are equal and the lower ones differ in their sign bit), and sums integers in
float64, saturating at the end (ReduceSum). Numbers that fit the kernels' limits stay with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import onnx_ir as ir

from jax2onnx_onnxruntime.magnitudes import Magnitude

__all__ = ["Emitter", "find_rewrite", "is_small_enough"]

T = ir.DataType
_INTEGERS = (T.INT8, T.UINT8, T.INT16, T.UINT16, T.INT32, T.UINT32, T.INT64, T.UINT64)


class Emitter(Protocol):
    """What a rewrite builds its nodes with."""

    def op(
        self, op_type: str, *inputs: ir.Value | None, dtype: ir.DataType, like: ir.Value | None = None,
        final: bool = False, **attributes: Any,
    ) -> ir.Value:  # fmt: skip
        """Emit a node whose result has the shape of `like`; `final` if it is meant for the kernel as it is."""
        ...

    def constant(self, value: Any, dtype: ir.DataType) -> ir.Value:
        """A constant."""
        ...


Rewrite = Callable[[Emitter, ir.Node, ir.DataType], ir.Value]


def find_rewrite(key: str, dtype: ir.DataType) -> Rewrite | None:
    """The rewrite for an operator on an element type, or None."""
    rewrite, dtypes = _REWRITES.get(key, (None, ()))
    return rewrite if dtype in dtypes else None


def is_small_enough(key: str, magnitude: Magnitude) -> bool:
    """Whether the kernel is right for operands of this magnitude."""
    if key in ("ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1"):
        return bool(magnitude & (Magnitude.SIZE if key == "ReduceProd" else Magnitude.SIZE | Magnitude.BYTE))
    return bool(magnitude & Magnitude.INT32)


def _operands(node: ir.Node) -> list[ir.Value]:
    return [value for value in node.inputs if value is not None]


def _pick(b: Emitter, a: ir.Value, c: ir.Value, dtype: ir.DataType, like: ir.Value, *, larger: bool) -> ir.Value:
    below = b.op("Less", *((a, c) if larger else (c, a)), dtype=T.BOOL, like=like)
    return b.op("Where", below, c, a, dtype=dtype, like=like)


def _extreme(larger: bool) -> Rewrite:
    def rewrite(b: Emitter, node: ir.Node, dtype: ir.DataType) -> ir.Value:
        first, *others = _operands(node)
        if not others:
            return b.op("Identity", first, dtype=dtype)
        for other in others:
            # What several operands of different shapes broadcast to is the shape of the result only at the end.
            like = node.outputs[0] if len(others) == 1 else ir.Value()
            first = _pick(b, first, other, dtype, like, larger=larger)
        return first

    return rewrite


def _clip(b: Emitter, node: ir.Node, dtype: ir.DataType) -> ir.Value:
    bounds: Sequence[ir.Value | None] = [*node.inputs[1:], None, None]
    value = node.inputs[0]
    assert value is not None
    for bound, larger in ((bounds[0], True), (bounds[1], False)):
        if bound is not None:
            value = _pick(b, value, bound, dtype, value, larger=larger)
    return value if value is not node.inputs[0] else b.op("Identity", value, dtype=dtype)


def _sign(b: Emitter, node: ir.Node, dtype: ir.DataType) -> ir.Value:
    (x,), zero = _operands(node), b.constant(0, dtype)
    above = b.op("Cast", b.op("Less", zero, x, dtype=T.BOOL, like=x), dtype=dtype, like=x, to=int(dtype))
    below = b.op("Cast", b.op("Less", x, zero, dtype=T.BOOL, like=x), dtype=dtype, like=x, to=int(dtype))
    return b.op("Sub", above, below, dtype=dtype, like=x)


def _reduced_extreme(position: str) -> Rewrite:
    """One axis after the other: the element at the position of the extreme."""

    def rewrite(b: Emitter, node: ir.Node, dtype: ir.DataType) -> ir.Value:
        value, axes = node.inputs[0], _axes(node)
        assert value is not None
        for axis in axes:
            kept = _with_one(value, axis)
            index = b.op(position, value, dtype=T.INT64, like=kept, axis=axis, keepdims=1)
            value = b.op("GatherElements", value, index, dtype=dtype, like=kept, axis=axis)
        if not node.attributes.get_int("keepdims", 1) and axes:
            value = b.op("Squeeze", value, b.constant(axes, T.INT64), dtype=dtype)
        return value if value is not node.inputs[0] else b.op("Identity", value, dtype=dtype)

    return rewrite


def _with_one(value: ir.Value, axis: int) -> ir.Value:
    """A value of the shape that `value` has when one place along `axis` is left."""
    if value.shape is None:
        return ir.Value()
    dims = list(value.shape.dims)
    dims[axis] = 1
    return ir.Value(shape=ir.Shape(dims))


def _axes(node: ir.Node) -> list[int]:
    """The constant axes of a reduction; raises `NotImplementedError` where they are not known."""
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    if axes is None:
        if node.attributes.get_int("noop_with_empty_axes", 0):
            return []
        operand = node.inputs[0]
        if operand is None or operand.shape is None:
            raise NotImplementedError
        return list(range(operand.shape.rank()))
    tensor = axes.const_value
    producer = axes.producer()
    if tensor is None and producer is not None and producer.op_type == "Constant" and "value" in producer.attributes:
        tensor = producer.attributes["value"].as_tensor()
    if tensor is None:
        raise NotImplementedError
    return [int(axis) for axis in tensor.numpy().reshape(-1)]


def _sum(b: Emitter, node: ir.Node, dtype: ir.DataType) -> ir.Value:
    """Exact for up to 2²¹ summands of 32 bits each, as the kernel sums in float64.

    64-bit numbers are summed as two halves.
    """
    attributes = {name: node.attributes.get_int(name, 0) for name in ("keepdims", "noop_with_empty_axes")}
    attributes["keepdims"] = node.attributes.get_int("keepdims", 1)
    x, axes, out = node.inputs[0], node.inputs[1:], node.outputs[0]

    def total(value: ir.Value) -> ir.Value:
        return b.op("ReduceSum", value, *axes, dtype=T.INT64, like=out, final=True, **attributes)

    assert x is not None
    if dtype != T.INT64:
        x = b.op("Cast", x, dtype=T.INT64, like=x, to=int(T.INT64))
    if dtype not in (T.INT64, T.UINT64):
        return b.op("Cast", total(x), dtype=dtype, like=out, to=int(dtype))
    lower = b.op("BitwiseAnd", x, b.constant(0xFFFFFFFF, T.INT64), dtype=T.INT64, like=x)
    half = b.constant(1 << 32, T.INT64)
    upper = b.op("Div", b.op("Sub", x, lower, dtype=T.INT64, like=x), half, dtype=T.INT64, like=x)
    shifted = b.op("Mul", total(upper), half, dtype=T.INT64, like=out)
    result = b.op("Add", shifted, total(lower), dtype=T.INT64, like=out)
    return result if dtype == T.INT64 else b.op("Cast", result, dtype=dtype, like=out, to=int(dtype))


def _product(b: Emitter, node: ir.Node, dtype: ir.DataType) -> ir.Value:
    """One axis after the other: all elements multiplied into one position."""
    value, axes = node.inputs[0], _axes(node)
    assert value is not None
    if value.shape is None:
        raise NotImplementedError
    rank = value.shape.rank()
    for axis in axes:
        shape = b.op("Shape", value, dtype=T.INT64)
        here = b.constant([i == axis % rank for i in range(rank)], T.BOOL)
        reduced = b.op("Where", here, b.constant(1, T.INT64), shape, dtype=T.INT64)
        ones = b.op("Expand", b.constant(1, dtype), reduced, dtype=dtype)
        zeros = b.op("Expand", b.constant(0, T.INT64), shape, dtype=T.INT64)
        value = b.op("ScatterElements", ones, zeros, value, dtype=dtype, axis=axis, reduction="mul")
    if not node.attributes.get_int("keepdims", 1) and axes:
        value = b.op("Squeeze", value, b.constant(axes, T.INT64), dtype=dtype)
    return value if value is not node.inputs[0] else b.op("Identity", value, dtype=dtype)


_REWRITES: dict[str, tuple[Rewrite, tuple[ir.DataType, ...]]] = {
    "Max": (_extreme(larger=True), (T.INT64,)),
    "Min": (_extreme(larger=False), (T.INT64,)),
    "Clip": (_clip, (T.INT64,)),
    "Sign": (_sign, (T.INT64,)),
    "ReduceMax": (_reduced_extreme("ArgMax"), (T.INT64, T.UINT64)),
    "ReduceMin": (_reduced_extreme("ArgMin"), (T.INT64, T.UINT64)),
    "ReduceSum": (_sum, _INTEGERS),
    "ReduceProd": (_product, _INTEGERS),
}
