"""Axes of values as products of indivisible ones, followed through views and products, which tells which of them are the same.

An axis of a tensor is a sequence of indivisible axes in row-major order, none if its size is 1. An axis turns out to be
divisible where a reshape takes it apart, or where a product meets it with a finer one; then it consists of its parts
wherever it is mentioned.
"""

from __future__ import annotations

__all__ = [
    "Axes",
    "Axis",
    "atoms",
    "axes_in",
    "axes_of",
    "product_axes",
    "resolved",
    "size_of",
    "through",
    "unify",
]

import dataclasses
import functools
import math
from collections.abc import Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim
from jax2onnx_graph.rewrite.patterns import permutation_of

from jax2onnx_fusions._reasons import UnreadableError


@dataclasses.dataclass(eq=False)
class Axis:
    """An axis of this size.

    Attributes:
      parts: the axes that it consists of or is the same as; None while it is not known to be anything else.
    """

    size: LabelledDim
    parts: tuple[Axis, ...] | None = None


#: The axes of a tensor, each in indivisible ones.
Axes = tuple[tuple[Axis, ...], ...]


def atoms(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The indivisible axes of which these consist."""
    found: list[Axis] = []
    for axis in axes:
        found.extend([axis] if axis.parts is None else atoms(axis.parts))
    return tuple(found)


def resolved(axes: Axes) -> Axes:
    """The axes in terms of those that are indivisible by now."""
    return tuple(map(atoms, axes))


def axes_in(axes: Axes) -> tuple[Axis, ...]:
    """All indivisible axes of a tensor in row-major order."""
    return atoms([axis for group in axes for axis in group])


def axes_of(value: ir.Value | None) -> Axes:
    """New axes for a value.

    Raises:
      UnreadableError: its shape is not known.
    """
    return tuple(() if dim == 1 else (Axis(dim),) for dim in _dims(value))


def size_of(axes: Sequence[Axis]) -> LabelledDim:
    """The size of an axis that consists of these.

    Raises:
      UnreadableError: it is a product that has no label.
    """
    if len(axes) == 1:
        return axes[0].size
    numbers = [axis.size for axis in axes if isinstance(axis.size, int)]
    if len(numbers) < len(axes):
        raise UnreadableError("a size is a product of symbolic dimensions")
    return math.prod(numbers)


def unify(one: Sequence[Axis], other: Sequence[Axis]) -> None:
    """Let two sequences of axes be the same.

    Raises:
      UnreadableError: their sizes do not fit.
    """
    left, right = list(atoms(one)), list(atoms(other))
    while left and right:
        x, y = left[0], right[0]
        if x is not y and same_dim(x.size, y.size):
            y.parts = (x,)
        elif x is not y and not (_divide(x, y.size) or _divide(y, x.size)):
            raise UnreadableError("axes of different sizes meet")
        left, right = list(atoms(left)), list(atoms(right))
        if left[0] is right[0]:
            left, right = left[1:], right[1:]
    if left or right:
        raise UnreadableError("axes of different sizes meet")


def _divide(axis: Axis, outer: LabelledDim, *, last: bool = False) -> bool:
    """Split an axis into one of this size and the rest, or the rest and this; returns whether that can be done."""
    size = axis.size
    if not isinstance(size, int) or not isinstance(outer, int) or outer in (0, size) or size % outer:
        return False
    parts = (Axis(outer), Axis(size // outer))
    axis.parts = parts[::-1] if last else parts
    return True


def _dims(value: ir.Value | None) -> tuple[LabelledDim, ...]:
    dims = dims_of(value)
    if dims is None or 0 in dims:
        raise UnreadableError("a shape is not known, or a tensor is empty")
    return dims


# ---------------------------------------------------------------------------------------------- views


def through(node: ir.Node, axes: Axes) -> Axes:
    """The axes of the result of a node that moves, joins, splits or repeats the axes of its first operand.

    Raises:
      UnreadableError: the node is a view that mixes axes.
    """
    result = node.outputs[0]
    if node.op_type == "Transpose":
        return tuple(axes[axis] for axis in permutation_of(node))
    if node.op_type in ("Reshape", "Squeeze", "Unsqueeze", "Flatten"):
        return _regrouped(axes_in(axes), _dims(result))
    if node.op_type in ("Identity", "Cast"):
        return axes
    if node.op_type == "Expand":
        dims = _dims(result)
        wide: Axes = (*((),) * (len(dims) - len(axes)), *axes)
        return tuple(group or (() if dim == 1 else (Axis(dim),)) for group, dim in zip(wide, dims, strict=True))
    if node.op_type == "Concat" and len(set(node.inputs)) == 1:
        at = node.attributes["axis"].as_int() % len(axes)
        return (*axes[:at], (Axis(len(node.inputs)), *axes[at]), *axes[at + 1 :])
    raise ValueError(f"{node.op_type} does not move axes")


def _regrouped(flat: Sequence[Axis], dims: Sequence[LabelledDim]) -> Axes:
    """The axes, in row-major order, as those of a tensor of these dimensions."""
    rest, groups = list(flat), [tuple[Axis, ...]()] * len(dims)
    first, end = 0, len(dims)
    while first < end and (taken := _taken(rest, dims[first], last=False)) is not None:
        groups[first], rest, first = taken, list(atoms(rest))[len(taken) :], first + 1
    while first < end and (taken := _taken(rest, dims[end - 1], last=True)) is not None:
        rest = list(atoms(rest))
        groups[end - 1], rest, end = taken, rest[: len(rest) - len(taken)], end - 1
    if end - first == 1:  # the number of elements tells the one dimension
        groups[first], rest, first = tuple(rest), [], end
    if rest or first < end:
        raise UnreadableError("a reshape mixes axes")
    return tuple(groups)


def _taken(rest: Sequence[Axis], dim: LabelledDim, *, last: bool) -> tuple[Axis, ...] | None:
    """The axes at the beginning (or end) of `rest` whose product is `dim`, where that is certain."""
    if dim == 1:
        return ()
    taken: list[Axis] = []
    for axis in reversed(rest) if last else rest:
        taken = [axis, *taken] if last else [*taken, axis]
        if _is_product(dim, taken):
            return tuple(taken)
        inner = [other.size for other in taken if other is not axis]
        if isinstance(dim, int) and isinstance(axis.size, int):
            missing, beyond = divmod(dim, math.prod(size for size in inner if isinstance(size, int)))
            if not beyond and missing < axis.size:
                return tuple(_piece(taken, axis, missing, last=last)) if _divide(axis, missing, last=last) else None
    return None


def _piece(taken: Sequence[Axis], axis: Axis, size: int, *, last: bool) -> Sequence[Axis]:
    """`taken` with the divided `axis` replaced by its part at the outer (or, if `last`, inner) end."""
    assert axis.parts is not None
    part = axis.parts[-1 if last else 0]
    assert part.size == size
    return [part if other is axis else other for other in taken]


def _is_product(dim: LabelledDim, axes: Sequence[Axis]) -> bool:
    """Whether an axis of size `dim` certainly has the size of all of these."""
    if len(axes) == 1:
        return same_dim(dim, axes[0].size)
    if isinstance(dim, int):
        return all(isinstance(axis.size, int) for axis in axes) and size_of(axes) == dim
    parts = [_factors(axis.size) for axis in axes]
    whole = _factors(dim)
    if whole is None or None in parts:
        return False
    known = [part for part in parts if part is not None]
    return whole == (math.prod(number for number, _ in known), sorted(name for _, names in known for name in names))


def _factors(dim: LabelledDim) -> tuple[int, list[str]] | None:
    """A number and names whose product is the dimension; None where its label is no product."""
    if isinstance(dim, int):
        return dim, []
    factors = (dim.value or "").split("*")
    if not all(factor.isidentifier() or factor.isdigit() for factor in factors):
        return None
    number = math.prod(int(factor) for factor in factors if factor.isdigit())
    return number, sorted(factor for factor in factors if not factor.isdigit())


# -------------------------------------------------------------------------------------------- products


def product_axes(node: ir.Node, left: Axes, right: Axes) -> tuple[Axes, tuple[Axis, ...]]:
    """The axes of the result of a MatMul or Gemm of operands with these axes, and the axis that is contracted.

    Raises:
      UnreadableError: axes of other sizes meet.
    """
    if node.op_type == "Gemm":
        left = left[::-1] if node.attributes.get_int("transA", 0) else left
        right = right[::-1] if node.attributes.get_int("transB", 0) else right
    rows, columns = len(left) > 1, len(right) > 1
    contracted, other = left[-1], right[-2] if columns else right[-1]
    unify(contracted, other)
    batch = _joined(left[:-2], right[:-2])
    outer = [*([left[-2]] if rows else []), *([right[-1]] if columns else [])]
    return (*batch, *outer), contracted


def _joined(left: Axes, right: Axes) -> Axes:
    """Batch axes aligned at the right."""
    rank = max(len(left), len(right))
    pairs = zip(*((((),) * (rank - len(x)) + x) for x in (left, right)), strict=True)
    return tuple(functools.reduce(_met, pair) for pair in pairs)


def _met(one: tuple[Axis, ...], other: tuple[Axis, ...]) -> tuple[Axis, ...]:
    if one and other:
        unify(one, other)
    return one or other
