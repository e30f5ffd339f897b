"""Features that are rotated, read from the values that hold the one and the other half of them."""

from __future__ import annotations

__all__ = ["Features", "halves_of", "pairs_along", "taken_features", "unpaired"]

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dim
from jax2onnx_graph.rewrite.patterns import operation, permutation_of
from jax2onnx_graph.rewrite.permutations import moves_only_ones


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


def halves_of(first: ir.Value, second: ir.Value) -> Features | None:
    """The tensor of which `first` and `second` are the halves, or the even and the odd features."""
    elements = (_element(first), _element(second))
    if elements[0] is not None and elements[1] is not None:
        (pairs, axis, index), next_element = elements[0], (elements[0][0], elements[0][1], 1)
        return pairs_along(pairs, axis) if index == 0 and elements[1] == next_element else None
    one, other = first.producer(), second.producer()
    if one is None or other is None or one.domain or one.op_type != other.op_type:
        return None
    source = one.inputs[0]
    dims = dims_of(source)
    if source is None or source is not other.inputs[0] or not dims or not isinstance(dims[-1], int):
        return None
    extent = dims[-1]
    if extent % 2:
        return None
    halves, alternate = (range(extent // 2), range(extent // 2, extent)), (range(0, extent, 2), range(1, extent, 2))
    taken = (taken_features(first, dims), taken_features(second, dims))
    return Features(source, dims, taken != halves) if taken in (halves, alternate) else None


def pairs_along(source: ir.Value, axis: int) -> Features | None:
    """The features that are viewed in `source` as pairs along `axis`: [..., 2, H / 2] or [..., H / 2, 2]."""
    dims = dims_of(source) or ()
    if axis not in (len(dims) - 1, len(dims) - 2) or dims[axis] != 2 or len(dims) < 3:
        return None
    pairs = dims[-2] if axis == len(dims) - 1 else dims[-1]
    return Features(source, (*dims[:-2], 2 * pairs), axis == len(dims) - 1) if isinstance(pairs, int) else None


def _element(value: ir.Value) -> tuple[ir.Value, int, int] | None:
    """(x, axis, index) where `value` is the element of this constant number along this axis of x, which an axis is moved from."""
    node = operation(value, "Gather", "Squeeze", "Reshape")
    if node is None or node.inputs[0] is None:
        return None
    found = _gathered(node) if node.op_type == "Gather" else _sliced(node)
    if found is None:
        return None
    source, axis, index = found
    move = operation(source, "Transpose")
    if move is None or move.inputs[0] is None:
        return found
    order = list(permutation_of(move))
    origin = order.pop(axis)
    return (move.inputs[0], origin, index) if order == sorted(order) else None


def _gathered(node: ir.Node) -> tuple[ir.Value, int, int] | None:
    """The element that a Gather takes by one constant number."""
    index, source = known(node.inputs[1]), node.inputs[0]
    if index is None or index.ndim or source is None:
        return None
    return source, node.attributes.get_int("axis", 0) % len(dims_of(source) or (1,)), int(index)


def _sliced(node: ir.Node) -> tuple[ir.Value, int, int] | None:
    """The element that a Slice of one number takes, from which the Squeeze or Reshape `node` removes its axis."""
    part = operation(node.inputs[0], "Slice")
    source, before = (None, None) if part is None else (part.inputs[0], dims_of(part.outputs[0]))
    dims, after = dims_of(source), dims_of(node.outputs[0])
    arrays = [] if part is None else [known(each) for each in part.inputs[1:]]
    if source is None or not dims or not before or after is None or len(arrays) < 3:
        return None
    if any(array is None or array.size != 1 for array in arrays):
        return None
    start, end, axis, *step = (int(array.flat[0]) for array in arrays if array is not None)
    axis %= len(dims)
    rest, extent = [*before[:axis], *before[axis + 1 :]], dims[axis]
    is_removed = before[axis] == 1 and len(after) == len(rest) and all(map(same_dim, rest, after))
    if not is_removed or not isinstance(extent, int):
        return None
    return source, axis, range(*slice(start, end, *step).indices(extent))[0]


def taken_features(value: ir.Value, dims: Sequence[LabelledDim]) -> range | None:
    """The numbers of the features that `value` takes, by Split or Slice, along the last axis of a tensor of these dimensions."""
    node, last, extent = value.producer(), len(dims) - 1, dims[-1]
    assert node is not None and isinstance(extent, int)
    if node.op_type == "Split":
        count = (dims_of(value) or (None,))[-1]
        is_split = node.attributes.get_int("axis", 0) in (last, -1) and len(node.outputs) == 2
        if not is_split or not isinstance(count, int):
            return None
        return range(count) if value is node.outputs[0] else range(extent - count, extent)
    if node.op_type != "Slice":
        return None
    arrays = [known(x) for x in node.inputs[1:]]
    if len(arrays) < 3 or any(array is None or array.size != 1 for array in arrays):
        return None
    start, end, axis, *step = (int(array.flat[0]) for array in arrays if array is not None)
    return range(*slice(start, end, *step).indices(extent)) if axis in (last, -1) else None


def unpaired(value: ir.Value | None) -> ir.Value | None:
    """x [..., k, 2] of which `value` is the view with features [..., 2 · k], axes of size 1 aside."""
    after, inner = dims_of(value), value
    while after and (node := operation(inner, "Reshape", "Unsqueeze", "Squeeze", "Transpose")) is not None:
        if node.op_type == "Transpose" and not moves_only_ones(dims_of(node.inputs[0]) or (), permutation_of(node)):
            return None
        inner = node.inputs[0]
        before = dims_of(inner) or ()
        if len(before) > 1 and before[-1] == 2 and isinstance(before[-2], int) and after[-1] == 2 * before[-2]:
            return inner if _same_rows(before[:-2], after[:-1]) else None
    return None


def _same_rows(before: Sequence[LabelledDim], after: Sequence[LabelledDim]) -> bool:
    """Whether these are the same dimensions, those that are 1 aside."""
    one, other = ([dim for dim in dims if dim != 1] for dims in (before, after))
    return len(one) == len(other) and all(map(same_dim, one, other))
