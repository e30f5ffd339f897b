"""`axis_maps`: for each operator, from which axes of which operands each axis of a result comes.

As MLIR's `linalg.generic` says it: a node runs over iteration axes, and each axis of an operand or result is one of them, several
that are merged in row-major order, or none. An axis of a matrix that is multiplied, for example, is one of the left operand and of
the right one, and no axis of the result.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.axes import axis_of, known_operand, named_axes, rank_of
from jax2onnx_graph.facts.operators import Elementwise, Operands, facts_of
from jax2onnx_graph.facts.sizes import ONE, Size, size_of
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim

__all__ = ["Axes", "AxisMaps", "Iteration", "IterationAxis", "aligned", "axis_maps", "unmerged", "view_axes"]

_Dims = Sequence[LabelledDim]


class Iteration(enum.Enum):
    """The relation of the indices of an operand to those of a result along an axis.

    `SAME`: what a result has at an index is computed from what the operands have at this index alone.
    `SUMMED`: no result has the axis; all indices of the operands go into each element, in whatever order.
    `OTHER`: an element of a result may depend on any index of the operands, and on their order (Softmax, Slice, Concat, ArgMax).
    """

    SAME = enum.auto()
    SUMMED = enum.auto()
    OTHER = enum.auto()


@dataclasses.dataclass(frozen=True, eq=False)
class IterationAxis:
    """An axis along which a node computes; another object is another axis of the node."""

    size: Size
    iteration: Iteration = Iteration.SAME


#: For each axis of a tensor the iteration axes that are merged into it; none where it is of size 1 and the tensor is repeated.
Axes = tuple[tuple[IterationAxis, ...], ...]


@dataclasses.dataclass(frozen=True)
class AxisMaps:
    """The axes of a node.

    Attributes:
      operands: the axes of each operand; None for one that every element of the results depends on as a whole, such as a shape.
      results: the axes of each result.
    """

    operands: Sequence[Axes | None]
    results: Sequence[Axes]


def axis_maps(node: ir.Node) -> AxisMaps | None:
    """Find the axes of the operands and results of a node; None where nothing is known of them."""
    facts, dims = facts_of(node.op_type), dims_of(node.outputs[0])
    if node.domain or dims is None or facts.is_random:
        return None
    if facts.is_view:
        return _view(node, dims)
    if facts.elementwise is not None:
        return _elementwise(node, facts.elementwise, dims)
    if node.op_type in _RULES:
        return _RULES[node.op_type](node, dims)
    return None if facts.permutable is Operands.NONE else _by_position(node, dims)


def _first_only(node: ir.Node, operand: Axes, result: Axes) -> AxisMaps:
    """The maps of a node whose other operands count as a whole."""
    return AxisMaps([operand, *(None for _ in node.inputs[1:])], [result] * len(node.outputs))


def _new_axes(dims: _Dims, iteration: Iteration = Iteration.SAME) -> list[IterationAxis]:
    return [IterationAxis(size_of([dim]), iteration) for dim in dims]


def unmerged(axes: Sequence[IterationAxis]) -> Axes:
    """The axes of a tensor, none of which is merged with others."""
    return tuple((axis,) for axis in axes)


# -- elementwise --------------------------------------------------------------------------------------


def _elementwise(node: ir.Node, alignment: Elementwise, dims: _Dims) -> AxisMaps | None:
    if alignment is Elementwise.UNARY:
        axes = unmerged(_new_axes(dims))
        return _first_only(node, axes, axes)
    return _broadcast(node, node.inputs, dims)


def _broadcast(node: ir.Node, operands: Sequence[ir.Value | None], dims: _Dims) -> AxisMaps | None:
    """The maps of operands that are broadcast to the result."""
    found = [dims_of(value) for value in operands]
    if any(own is None and value is not None for own, value in zip(found, operands, strict=True)):
        return None
    axes = [
        IterationAxis(size_of([dim]), Iteration.SAME if _fits(found, axis - len(dims), dim) else Iteration.OTHER)
        for axis, dim in enumerate(dims)
    ]
    maps = [None if own is None else aligned(own, dims, axes) for own in found]
    return AxisMaps([*maps, *(None for _ in node.inputs[len(maps) :])], [unmerged(axes)] * len(node.outputs))


def _fits(operands: Sequence[_Dims | None], place: int, dim: LabelledDim) -> bool:
    """Whether all operands that have an axis, counted from the last one, have it with size 1 or that of the result."""
    own = [dims[place] for dims in operands if dims is not None and len(dims) >= -place]
    return all(size == 1 or same_dim(size, dim) for size in own)


def aligned(own: _Dims, dims: _Dims, axes: Sequence[IterationAxis]) -> Axes:
    """The axes of an operand that is broadcast to a result of the dimensions `dims` with these axes."""
    first = len(dims) - len(own)
    return tuple(
        () if size == 1 and dim != 1 else (axis,)
        for size, dim, axis in zip(own, dims[first:], axes[first:], strict=True)
    )


# -- views ----------------------------------------------------------------------------------------------


def _view(node: ir.Node, dims: _Dims) -> AxisMaps | None:
    source = dims_of(node.inputs[0])
    return None if source is None or 0 in source or 0 in dims else _first_only(node, *view_axes(source, dims))


def view_axes(source: _Dims, target: _Dims) -> tuple[Axes, Axes]:
    """The axes of a tensor and of its view in other dimensions: the largest ones of which the axes of both consist.

    Where an axis of one crosses axes of the other, such as in a view of [6, 4] as [8, 3], these are axes of their own.

    Args:
      source: the dimensions of the tensor, none of them 0.
      target: the dimensions of the view.
    """
    return _view_axes(tuple(map(_one_size, source)), tuple(map(_one_size, target)))


@functools.lru_cache(4096)  # equal layers have equal views, each of which many passes ask about
def _view_axes(source: tuple[Size, ...], target: tuple[Size, ...]) -> tuple[Axes, Axes]:
    view = _View(source, target)
    view.match(last=False)
    view.match(last=True)
    return view.finish()


def _one_size(dim: LabelledDim) -> Size:
    return size_of([dim])


class _View:
    """The axes of a tensor and of a view of it, found from both ends.

    Attributes:
      rest: for the tensor and for the view, the sizes of what is left of their axes, by axis.
    """

    def __init__(self, source: Sequence[Size], target: Sequence[Size]) -> None:
        self.rest = [dict(enumerate(source)), dict(enumerate(target))]
        self._heads: list[dict[int, list[IterationAxis]]] = [{i: [] for i in own} for own in self.rest]
        self._tails: list[dict[int, list[IterationAxis]]] = [{i: [] for i in own} for own in self.rest]

    def match(self, *, last: bool) -> None:
        """Take equal sizes, or a size that divides the other one, from the first axes on, or from the last ones."""
        while all(self.rest):
            source, target = ((max if last else min)(own) for own in self.rest)
            a, b = self.rest[0][source], self.rest[1][target]
            if (over := b.divided_by(a)) is not None:
                self._take(a, (source, target), (ONE, over), last=last)
            elif (over := a.divided_by(b)) is not None:
                self._take(b, (source, target), (over, ONE), last=last)
            else:
                return

    def _take(self, size: Size, places: tuple[int, int], left: tuple[Size, Size], *, last: bool) -> None:
        axis = IterationAxis(size)
        for side, (place, rest) in enumerate(zip(places, left, strict=True)):
            own = self._tails[side][place] if last else self._heads[side][place]
            own.insert(0, axis) if last else own.append(axis)
            if rest == ONE:
                del self.rest[side][place]
            else:
                self.rest[side][place] = rest

    def finish(self) -> tuple[Axes, Axes]:
        """The axes; what is left of the axes is a product if one side has one axis left, and crosses otherwise."""
        for own, other in ((0, 1), (1, 0)):
            if not self.rest[own]:
                self._append_ones(own, other)
        is_product = 1 in map(len, self.rest)
        one = 0 if len(self.rest[0]) == 1 else 1
        for place, size in self.rest[1 - one].items():
            axis = IterationAxis(size, Iteration.SAME if is_product else Iteration.OTHER)
            self._heads[1 - one][place].append(axis)
            for whole in self.rest[one] if is_product else ():
                self._heads[one][whole].append(axis)
        for place, size in () if is_product else self.rest[one].items():
            self._heads[one][place].append(IterationAxis(size, Iteration.OTHER))
        source, target = (
            tuple((*heads[i], *tails[i]) for i in heads) for heads, tails in zip(self._heads, self._tails, strict=True)
        )
        return source, target

    def _append_ones(self, own: int, other: int) -> None:
        """Let axes of size 1 at the end of one side be part of the last axis of the other one."""
        places = list(self._heads[own])
        for place, size in list(self.rest[other].items()):
            if size == ONE:
                axis = IterationAxis(size)
                self._heads[other][place].append(axis)
                if places:
                    self._heads[own][places[-1]].append(axis)
                del self.rest[other][place]


# -- axes that nodes name ---------------------------------------------------------------------------------


def _by_position(node: ir.Node, dims: _Dims) -> AxisMaps | None:
    """The maps of an operator that computes along the axes that it names, separately for each index of the others."""
    facts, first = facts_of(node.op_type), dims_of(node.inputs[0])
    if first is None:
        return None
    named = [axis_of(node, len(first))] if facts.axis is not None else named_axes(node, len(first))
    if named is None:
        return None
    iteration = Iteration.SUMMED if facts.reduces and not facts.count_outputs else Iteration.OTHER
    axes = _new_axes(first)
    for axis in named:
        axes[axis] = dataclasses.replace(axes[axis], iteration=iteration)
    result = unmerged(axes)
    if facts.reduces:
        kept = bool(node.attributes.get_int("keepdims", 1))
        result = tuple(() if i in named else group for i, group in enumerate(result) if kept or i not in named)
    if facts.permutable is Operands.FIRST:
        return _first_only(node, unmerged(axes), result)
    is_same = [_is_same_along(node, i, dims) for i in range(len(dims))]
    axes = [
        a if same else dataclasses.replace(a, iteration=Iteration.OTHER) for a, same in zip(axes, is_same, strict=True)
    ]
    return AxisMaps([unmerged(axes)] * len(node.inputs), [unmerged(axes)] * len(node.outputs))


def _is_same_along(node: ir.Node, axis: int, dims: _Dims) -> bool:
    """Whether all operands have the size of the result along an axis."""
    found = [dims_of(value) for value in node.inputs if value is not None]
    return all(own is not None and len(own) == len(dims) and same_dim(own[axis], dims[axis]) for own in found)


def _normalisation(node: ir.Node, dims: _Dims) -> AxisMaps | None:
    """An operator that normalises the axes from one on, and whose scale and bias have these axes."""
    first = axis_of(node, len(dims))
    ranks = [rank_of(value) for value in node.inputs[1:] if value is not None]
    if any(rank is None or rank > len(dims) - first for rank in ranks):
        return None
    axes = unmerged([*_new_axes(dims[:first]), *_new_axes(dims[first:], Iteration.OTHER)])
    statistics = tuple(group if i < first else () for i, group in enumerate(axes))
    operands = [axes, *(None if rank is None else axes[len(dims) - rank :] for rank in map(rank_of, node.inputs[1:]))]
    return AxisMaps(operands, [axes, *(statistics for _ in node.outputs[1:])])


def _transpose(node: ir.Node, dims: _Dims) -> AxisMaps:
    perm = node.attributes.get_ints("perm", None) or range(len(dims))[::-1]
    result = unmerged(_new_axes(dims))
    return AxisMaps([tuple(result[list(perm).index(axis)] for axis in range(len(dims)))], [result])


def _concat(node: ir.Node, dims: _Dims) -> AxisMaps | None:
    """A Concat of one value with itself repeats it along a new axis in front of the axis."""
    if len(set(node.inputs)) > 1:
        return _by_position(node, dims)
    axis, own = axis_of(node, len(dims)), dims_of(node.inputs[0])
    if own is None:
        return None
    axes = unmerged(_new_axes(own))
    repeated = (IterationAxis(size_of([len(node.inputs)])), *axes[axis])
    return AxisMaps([axes] * len(node.inputs), [(*axes[:axis], repeated, *axes[axis + 1 :])])


def _expand(node: ir.Node, dims: _Dims) -> AxisMaps | None:
    return _broadcast(node, node.inputs[:1], dims)


def _tile(node: ir.Node, dims: _Dims) -> AxisMaps | None:
    """Each axis with repeats has a new one in front of it."""
    repeats, own = known_operand(node, 1), dims_of(node.inputs[0])
    if repeats is None or own is None or 0 in repeats:
        return None
    axes = unmerged(_new_axes(own))
    new = [() if n == 1 else (IterationAxis(size_of([int(n)])),) for n in repeats]
    return _first_only(node, axes, tuple((*lead, *axis) for lead, axis in zip(new, axes, strict=True)))


def _pad(node: ir.Node, dims: _Dims) -> AxisMaps | None:
    own = dims_of(node.inputs[0])
    if own is None:
        return None
    pads, named = known_operand(node, 1), named_axes(node, len(dims))
    if named is None:
        named = [] if len(node.inputs) > 3 and node.inputs[3] is not None else [*range(len(dims))]
    kept = {a for i, a in enumerate(named) if pads is not None and not pads.reshape(2, -1)[:, i].any()}
    padded = {*named} - kept
    if not named:
        return None
    axes = [
        IterationAxis(size_of([dim]), Iteration.OTHER if axis in padded else Iteration.SAME)
        for axis, dim in enumerate(own)
    ]
    return _first_only(node, unmerged(axes), unmerged(axes))


# -- products and look-ups --------------------------------------------------------------------------------


def _matrix_product(node: ir.Node, dims: _Dims) -> AxisMaps | None:
    left, right = (dims_of(value) for value in node.inputs[:2])
    if not left or not right:
        return None
    summed = IterationAxis(size_of(left[-1:]), Iteration.SUMMED)
    rows, columns = (_new_axes(own) for own in (left[-2:-1], right[-1:] if len(right) > 1 else ()))
    batch = dims[: len(dims) - len(rows) - len(columns)]
    lead = [
        IterationAxis(size_of([dim]), _of_batch(left[:-2], right[:-2], i - len(batch), dim))
        for i, dim in enumerate(batch)
    ]
    return AxisMaps(
        [
            (*aligned(left[:-2], batch, lead), *unmerged(rows), (summed,)),
            (*aligned(right[:-2], batch, lead), (summed,), *unmerged(columns)),
        ],
        [unmerged([*lead, *rows, *columns])],
    )


def _of_batch(left: _Dims, right: _Dims, place: int, dim: LabelledDim) -> Iteration:
    return Iteration.SAME if _fits([left, right], place, dim) else Iteration.OTHER


def _gemm(node: ir.Node, dims: _Dims) -> AxisMaps | None:
    left = dims_of(node.inputs[0])
    flips = [node.attributes.get_int(name, 0) for name in ("transA", "transB")]
    summand = _broadcast(node, node.inputs[2:], dims)
    if left is None or summand is None:
        return None
    (rows, columns) = result = summand.results[0]
    summed = (IterationAxis(size_of([left[1 - flips[0]]]), Iteration.SUMMED),)
    factors = ((rows, summed), (summed, columns))
    operands = [axes[::-1] if flip else axes for axes, flip in zip(factors, flips, strict=True)]
    return AxisMaps([*operands, *summand.operands[: len(node.inputs) - 2]], [result])


def _einsum(node: ir.Node, dims: _Dims) -> AxisMaps | None:
    equation = node.attributes.get_string("equation", "").replace(" ", "")
    operands, arrow, result = equation.partition("->")
    terms, sizes = operands.split(","), [dims_of(value) for value in node.inputs]
    if not arrow or "." in operands or len(result) != len(dims) or len(terms) != len(sizes):
        return None
    found: dict[str, list[LabelledDim]] = {}
    for term, own in zip(terms, sizes, strict=True):
        if own is None or len(own) != len(term):
            return None
        for letter, size in zip(term, own, strict=True):
            found.setdefault(letter, []).append(size)
    axes = {
        letter: IterationAxis(size_of(own[:1]), _of_letter(letter, own, terms, result)) for letter, own in found.items()
    }
    return AxisMaps([unmerged([axes[a] for a in term]) for term in terms], [unmerged([axes[a] for a in result])])


def _of_letter(letter: str, sizes: _Dims, terms: Sequence[str], result: str) -> Iteration:
    if letter not in result:
        return Iteration.SUMMED
    is_same = all(term.count(letter) < 2 for term in terms) and all(same_dim(size, sizes[0]) for size in sizes)
    return Iteration.SAME if is_same else Iteration.OTHER


def _gather(node: ir.Node, dims: _Dims) -> AxisMaps | None:
    data, indices = dims_of(node.inputs[0]), dims_of(node.inputs[1])
    if data is None or indices is None:
        return None
    first = axis_of(node, len(data))
    before, taken, behind = _new_axes(data[:first]), _new_axes(indices), _new_axes(data[first + 1 :])
    searched = IterationAxis(size_of([data[first]]), Iteration.OTHER)
    return AxisMaps([unmerged([*before, searched, *behind]), unmerged(taken)], [unmerged([*before, *taken, *behind])])


_RULES: Mapping[str, Callable[[ir.Node, _Dims], AxisMaps | None]] = {
    "Concat": _concat,
    "Einsum": _einsum,
    "Expand": _expand,
    "Gather": _gather,
    "Gemm": _gemm,
    "LayerNormalization": _normalisation,
    "MatMul": _matrix_product,
    "Pad": _pad,
    "RMSNormalization": _normalisation,
    "Tile": _tile,
    "Transpose": _transpose,
}
