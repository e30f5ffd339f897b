"""`operand_sub_axes`: the axes of a node's operands that correspond, index by index, to an axis of its results.

A sub-axis is an axis of a tensor, or one of the axes that were merged into it. A row is the slice at one index of a sub-axis.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.axes import axis_of, named_axes, rank_of
from jax2onnx_graph.facts.operators import Elementwise, Operands, OperatorFacts, facts_of
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim

__all__ = ["SubAxis", "operand_sub_axes", "size_of"]

_Inputs = Sequence[ir.Value | None]
_Dims = tuple[LabelledDim, ...]

#: The axis of each operand of a node whose rows are taken; None for an operand that every row of the result depends on as a whole.
_RowAxes = Sequence[int | None]


@dataclasses.dataclass(frozen=True)
class SubAxis:
    """An axis of a tensor, or one of the axes that were merged into it.

    Attributes:
      axis: the axis.
      outer: the dimensions in front of it that were merged with it.
      inner: the dimensions behind it that were merged with it.
    """

    axis: int
    outer: _Dims = ()
    inner: _Dims = ()

    @property
    def is_whole(self) -> bool:
        """Whether no other dimension was merged into the axis."""
        return not self.outer and not self.inner

    def before(self, dims: _Dims) -> _Dims:
        """The dimensions in front of the sub-axis, for a tensor of these dimensions."""
        return (*dims[: self.axis], *self.outer)

    def behind(self, dims: _Dims) -> _Dims:
        """The dimensions behind the sub-axis, for a tensor of these dimensions."""
        return (*self.inner, *dims[self.axis + 1 :])


def operand_sub_axes(node: ir.Node, rows: SubAxis) -> Sequence[SubAxis | None] | None:
    """Find the sub-axes of operands whose rows a node computes the rows of its results from, one from one.

    Row i of a result then depends on rows i of these operands, and on the others as a whole; so the node computes of
    some rows, in any order, what it computes of them among all.

    Returns:
      One entry for each operand, None for those that every row depends on; None where a row depends on other rows, or
      nothing is known.
    """
    dims = dims_of(node.outputs[0])
    if node.domain or dims is None or not 0 <= rows.axis < len(dims):
        return None
    if facts_of(node.op_type).is_view:
        found = _before_view(dims_of(node.inputs[0]), dims, rows)
        return None if found is None else [found, *(None for _ in node.inputs[1:])]
    axes = _row_axes(node, dims, rows.axis)
    return None if axes is None else [None if a is None else dataclasses.replace(rows, axis=a) for a in axes]


def _row_axes(node: ir.Node, dims: _Dims, axis: int) -> _RowAxes | None:
    facts = facts_of(node.op_type)
    if facts.is_random:
        return None
    if facts.elementwise is not None:
        return _elementwise(node.inputs, facts.elementwise, dims, axis)
    if node.op_type in _RULES:
        return _RULES[node.op_type](node, dims, axis)
    if facts.permutable is Operands.NONE or facts.per_axis_inputs:
        return None
    return _along_others(node, facts, axis)


def _alone(axis: int | None, node: ir.Node) -> _RowAxes | None:
    """The axis `axis` of the first operand, and none of the others."""
    return None if axis is None else [axis, *(None for _ in node.inputs[1:])]


def _elementwise(inputs: _Inputs, alignment: Elementwise, dims: _Dims, axis: int) -> _RowAxes | None:
    if alignment is Elementwise.UNARY:
        return [axis, *(None for _ in inputs[1:])]
    return _broadcast(inputs, dims, axis)


def _broadcast(inputs: _Inputs, dims: _Dims, axis: int) -> _RowAxes | None:
    """The axis in the operands that have it; None for operands that are broadcast along it."""
    axes: list[int | None] = []
    for value in inputs:
        own = dims_of(value)
        if value is not None and own is None:
            return None
        place = axis - len(dims) + len(own or ())
        if own is None or place < 0 or (own[place] == 1 and dims[axis] != 1):
            axes.append(None)
        elif same_dim(own[place], dims[axis]):
            axes.append(place)
        else:
            return None
    return axes


def _before_view(source: _Dims | None, target: _Dims, rows: SubAxis) -> SubAxis | None:
    """The sub-axis of a tensor of the dimensions `source` that becomes `rows` of its view as `target`; None where that is not clear.

    >>> _before_view((2, 3, 4, 5), (6, 4, 5), SubAxis(1))
    SubAxis(axis=2, outer=(), inner=())
    >>> _before_view((6, 4), (2, 3, 4), SubAxis(1))
    SubAxis(axis=0, outer=(2,), inner=())
    """
    if source is None or 0 in source:
        return None
    before, behind, found = rows.before(target), rows.behind(target), []
    for axis in range(len(source)):
        outer = [before[i:] for i in range(len(before) + 1) if _same_size(before[:i], source[:axis])]
        inner = [behind[:i] for i in range(len(behind) + 1) if _same_size(behind[i:], source[axis + 1 :])]
        if outer and inner:
            found.append(SubAxis(axis, _without_ones(outer[0]), _without_ones(inner[0])))
    return found[0] if len(found) == 1 else next((one for one in found if one.is_whole), None)


def _without_ones(dims: _Dims) -> _Dims:
    return tuple(dim for dim in dims if dim != 1)


def _same_size(a: Sequence[LabelledDim], b: Sequence[LabelledDim]) -> bool:
    """Whether the products of dimensions are equal whatever the symbols are."""
    return size_of(a) == size_of(b)


def size_of(dims: Sequence[LabelledDim]) -> tuple[int, Counter[str]]:
    """The product of dimensions: a number, and how often it is multiplied by each symbol.

    >>> size_of((2, ir.SymbolicDim("3*B*T")))
    (6, Counter({'B': 1, 'T': 1}))
    """
    factors = [factor for dim in dims for factor in _factors(dim)]
    return math.prod(f for f in factors if isinstance(f, int)), Counter(f for f in factors if isinstance(f, str))


def _factors(dim: LabelledDim) -> list[int | str]:
    """The numbers and symbols whose product a dimension is; one that is no such product counts as a symbol."""
    if isinstance(dim, int):
        return [dim]
    if dim.value is None:
        return [f"?{id(dim)}"]
    parts = str(dim.value).split("*")
    if not all(part.isidentifier() or part.isdecimal() for part in parts):
        return [str(dim.value)]
    return [int(part) if part.isdecimal() else part for part in parts]


def _along_others(node: ir.Node, facts: OperatorFacts, axis: int) -> _RowAxes | None:
    """The axis in an operator that computes along the axes that it names, separately for each index of the others."""
    rank = rank_of(node.inputs[0])
    if rank is None:
        return None
    named = [axis_of(node, rank)] if facts.axis is not None else named_axes(node, rank)
    if named is None:
        return None
    if facts.reduces and not node.attributes.get_int("keepdims", 1):
        axis = [place for place in range(rank) if place not in named][axis]
    if axis in named:
        return None
    return [axis] * len(node.inputs) if facts.permutable is Operands.ALL else _alone(axis, node)


def _normalisation(node: ir.Node, dims: _Dims, axis: int) -> _RowAxes | None:
    """The axis in an operator that normalises the axes from one on, and whose scale and bias have these axes."""
    first = axis_of(node, len(dims))
    ranks = [rank_of(value) for value in node.inputs[1:] if value is not None]
    if axis >= first or any(rank is None or rank > len(dims) - first for rank in ranks):
        return None
    return _alone(axis, node)


def _matrix_product(node: ir.Node, dims: _Dims, axis: int) -> _RowAxes | None:
    left, right = (dims_of(value) for value in node.inputs)
    if left is None or right is None or len(left) < 2 or len(right) < 2 or axis == len(dims) - 1:
        return None
    if axis == len(dims) - 2:
        return [len(left) - 2, None]
    return _broadcast(node.inputs, dims, axis)


def _gemm(node: ir.Node, dims: _Dims, axis: int) -> _RowAxes | None:
    if axis != 0:
        return None
    summand = _broadcast(node.inputs[2:], dims, axis)
    return None if summand is None else [node.attributes.get_int("transA", 0), None, *summand]


def _transpose(node: ir.Node, dims: _Dims, axis: int) -> _RowAxes:
    perm = node.attributes.get_ints("perm", None)
    return [len(dims) - 1 - axis if perm is None else perm[axis]]


def _gather(node: ir.Node, dims: _Dims, axis: int) -> _RowAxes | None:
    rank, indices = rank_of(node.inputs[0]), rank_of(node.inputs[1])
    if rank is None or indices is None:
        return None
    first = axis_of(node, rank)
    if axis < first:
        return [axis, None]
    return [None, axis - first] if axis < first + indices else [axis - indices + 1, None]


def _einsum(node: ir.Node, dims: _Dims, axis: int) -> _RowAxes | None:
    operands, arrow, result = node.attributes.get_string("equation", "").replace(" ", "").partition("->")
    terms = operands.split(",")
    if not arrow or "." in operands or len(result) != len(dims) or len(terms) != len(node.inputs):
        return None
    letter = result[axis]
    sizes = [
        own[term.index(letter)]
        for term, v in zip(terms, node.inputs, strict=True)
        if (own := dims_of(v)) and letter in term
    ]
    if any(term.count(letter) > 1 for term in terms) or not all(same_dim(size, dims[axis]) for size in sizes):
        return None
    return [term.index(letter) if letter in term else None for term in terms]


_RULES: Mapping[str, Callable[[ir.Node, _Dims, int], _RowAxes | None]] = {
    "Einsum": _einsum,
    "Gather": _gather,
    "Gemm": _gemm,
    "LayerNormalization": _normalisation,
    "MatMul": _matrix_product,
    "RMSNormalization": _normalisation,
    "Transpose": _transpose,
}
