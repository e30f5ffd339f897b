"""Cosines and sines of angles that are there twice: once for each half of the features, or side by side."""

from __future__ import annotations

__all__ = ["Half", "Halves", "LookedUp", "Unrepeated"]

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dims
from jax2onnx_graph.passes.structural.merge_reshapes import view_of
from jax2onnx_graph.rewrite.patterns import operation, permutation_of

from jax2onnx_fusions.rotary._features import LARGEST_TABLE, feature_numbers, sources

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
      value: the features.
      view: the operator that makes a view of them with the axes of what is repeated, and its int64 operand.
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
        if maker.op_type in ("Split", "Slice") and (found := _looked_up(maker, value, last, pairs)) is not None:
            return found
        if _keeps_features(maker, last) and self.source(maker.inputs[0], pairs=pairs) is not None:
            return maker
        return _before_repetition(value, dims, pairs)


def _before_repetition(value: ir.Value, dims: Sequence[LabelledDim], pairs: bool) -> ir.Value | Unrepeated | None:
    """The features of which `value` repeats all, one after another, or (`pairs`) each."""
    for source, count in itertools.product(itertools.islice(sources(value), 1, None), (1, 2)):
        numbers = feature_numbers(value, source, count)
        half = None if numbers is None else _half_of(numbers, pairs)
        if half is None or not np.array_equal(half, np.arange(1, half.size + 1)):
            continue
        own, whole = dims_of(source) or (), (*dims[:-1], half.size)
        view = view_of(own, whole)
        if same_dims(own, whole):
            return source
        if view is not None:
            return Unrepeated(source, view)
    return None


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
    if gather is None or table is None or not dims:
        return None
    taken = feature_numbers(value, gather.outputs[0])
    if taken is None or not _keeps_features(gather, last) or table.shape[-1] != dims[-1]:
        return None
    half = _half_of(table[..., taken - 1], pairs)
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
