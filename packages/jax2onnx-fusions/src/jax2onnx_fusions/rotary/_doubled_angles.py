"""Cosines and sines of angles that are there twice: once for each half of the features, or side by side."""

from __future__ import annotations

__all__ = ["LARGEST_TABLE", "Half", "Halves", "LookedUp", "Unrepeated"]

import dataclasses
from collections.abc import Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.values import dims_of, known, same_dim
from jax2onnx_graph.passes.structural.merge_reshapes import view_of
from jax2onnx_graph.rewrite.patterns import operation, permutation_of

from jax2onnx_fusions.rotary._features import taken_features, unpaired

#: The most elements of a constant that is compared or halved.
LARGEST_TABLE = 1 << 22
_POINTWISE = frozenset({"Cos", "Sin", "Cast", "Neg"})


@dataclasses.dataclass(frozen=True)
class LookedUp:
    """Rows of a constant table, of which some features are taken.

    Attributes:
      gather: the node that looks up the rows.
      table: the first half of these features of the table.
    """

    gather: ir.Node
    table: Array


@dataclasses.dataclass(frozen=True)
class Unrepeated:
    """A value before each of its features is repeated.

    Attributes:
      value: the features, with an axis of size 1 behind the last.
      view: the operator that makes a view without that axis of it, and its int64 operand.
    """

    value: ir.Value
    view: tuple[str, Sequence[int]]


#: Source of the first half of the features, or of the even ones: the value or the constant itself, the node to be repeated for half
#: an operand, rows of half a table, or the value before it is repeated.
Half = ir.Value | ir.Node | Array | LookedUp | Unrepeated


class Halves:
    """The halves of values whose two halves of features, or whose neighbours, are equal, remembered for one graph."""

    def __init__(self) -> None:
        self._found: dict[tuple[ir.Value, bool], Half | None] = {}

    def source(self, value: ir.Value | None, *, pairs: bool = False) -> Half | None:
        """Source of the first half of the features of `value`; None unless the second half is known to equal it.

        With `pairs`, source of the even features; None unless the odd ones are known to equal them.
        """
        if value is None:
            return None
        if (value, pairs) not in self._found:
            self._found[value, pairs] = self._half(value, pairs)
        return self._found[value, pairs]

    def _half(self, value: ir.Value, pairs: bool) -> Half | None:
        array = known(value, LARGEST_TABLE)
        if array is not None:
            return _half_of(array, pairs)
        maker, dims = value.producer(), dims_of(value)
        if maker is None or maker.domain or dims is None or not isinstance(dims[-1], int):
            return None
        last = len(dims) - 1
        if pairs:
            repeated = _unrepeated(value)
            if repeated is not None:
                return repeated
        elif maker.op_type == "Concat":
            is_doubled = len(maker.inputs) == 2 and maker.inputs[0] is maker.inputs[1]
            return maker.inputs[0] if is_doubled and maker.attributes["axis"].as_int() in (-1, last) else None
        elif maker.op_type == "Tile":
            repeats = known(maker.inputs[1])
            is_doubled = repeats is not None and repeats.tolist() == [*[1] * last, 2]
            return maker.inputs[0] if is_doubled else None
        if maker.op_type in ("Split", "Slice") and (found := _looked_up(maker, value, last, pairs)) is not None:
            return found
        return maker if _keeps_features(maker, last) and self.source(maker.inputs[0], pairs=pairs) is not None else None


def _unrepeated(value: ir.Value) -> Unrepeated | None:
    """The features of which each is repeated twice, one after another, in `value`."""
    pairs = unpaired(value)
    node, whole = operation(pairs, "Concat", "Expand", "Tile"), dims_of(value)
    before, after = dims_of(node.inputs[0] if node is not None else None), dims_of(pairs)
    if node is None or node.inputs[0] is None or not whole or not before or not after:
        return None
    if node.op_type == "Concat" and (len(node.inputs) != 2 or node.inputs[0] is not node.inputs[1]):
        return None
    if before[-1] != 1 or len(before) != len(after) or not all(map(same_dim, before[:-1], after[:-1])):
        return None
    view = view_of(before, (*whole[:-1], before[-2]))
    return None if view is None else Unrepeated(node.inputs[0], view)


def _half_of(array: Array, pairs: bool) -> Array | None:
    """The first half of an array along its last axis, or its even elements; None unless the others equal these."""
    if not array.ndim or array.shape[-1] % 2:
        return None
    middle = array.shape[-1] // 2
    one, other = (array[..., ::2], array[..., 1::2]) if pairs else (array[..., :middle], array[..., middle:])
    return np.ascontiguousarray(one) if np.array_equal(one, other) else None


def _looked_up(maker: ir.Node, value: ir.Value, last: int, pairs: bool) -> LookedUp | None:
    """The half of `value`, features that a Split or Slice takes of rows of a constant table."""
    gather, dims = operation(maker.inputs[0], "Gather"), dims_of(maker.inputs[0])
    table = None if gather is None else known(gather.inputs[0], LARGEST_TABLE)
    if gather is None or table is None or not dims or not isinstance(dims[-1], int):
        return None
    taken = taken_features(value, dims)
    if taken is None or not _keeps_features(gather, last) or table.shape[-1] != dims[-1]:
        return None
    half = _half_of(table[..., taken.start : taken.stop : taken.step], pairs)
    return None if half is None else LookedUp(gather, half)


def _keeps_features(node: ir.Node, last: int) -> bool:
    """Whether the last axis of the result is that of the operand, feature by feature."""
    if node.op_type in _POINTWISE:
        return True
    if node.op_type == "Unsqueeze":
        axes = known(node.inputs[1])
        return axes is not None and last not in axes and -1 not in axes
    rank = len(dims_of(node.inputs[0]) or ())
    if node.op_type == "Transpose":
        return permutation_of(node)[-1] == last and len(permutation_of(node)) == last + 1
    if node.op_type == "Gather":
        return node.attributes.get_int("axis", 0) not in (-1, rank - 1)
    if node.op_type == "Slice":
        axes = known(node.inputs[3]) if len(node.inputs) > 3 else None
        return axes is not None and not {-1, last} & set(axes.tolist())
    return False
