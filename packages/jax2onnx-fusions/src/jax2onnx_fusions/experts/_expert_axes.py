"""`ExpertAxes`: the axes of tokens and of experts of a value in a mixture of experts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import axis_of, named_axes, rank_of
from jax2onnx_graph.facts.sub_axes import SubAxis, operand_sub_axes, size_of
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim

__all__ = ["ExpertAxes", "Sizes", "operand_axes", "token_count"]

_Dims = tuple[LabelledDim, ...]


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of the axes of tokens, and the number of experts."""

    tokens: _Dims
    experts: int


@dataclasses.dataclass(frozen=True)
class ExpertAxes:
    """The axes of one value that are axes of tokens or of experts.

    Attributes:
      tokens: for each axis of tokens the rows of the value that are tokens; None where the value is the same for all of them.
      expert: the rows that are experts; None where the value is the same for all experts.
    """

    tokens: tuple[SubAxis | None, ...]
    expert: SubAxis | None

    @property
    def has_tokens(self) -> bool:
        """Whether the value differs by token."""
        return any(rows is not None for rows in self.tokens)

    @property
    def has_all_tokens(self) -> bool:
        """Whether all axes of tokens are axes of the value."""
        return None not in self.tokens

    @property
    def is_plain(self) -> bool:
        """Whether the value is the same for all tokens and experts."""
        return not self.has_tokens and self.expert is None

    def others(self, dims: _Dims, sizes: Sizes) -> dict[int, int] | None:
        """The axes of the value with the rest of their sizes without tokens and experts; None where that is unknown.

        An axis of which nothing is left is not among them.
        """
        found = {}
        for axis, dim in enumerate(dims):
            size = self._rest(axis, dim, sizes)
            if size is None:
                return None
            if size or not self._at(axis, sizes):
                found[axis] = size
        return found

    def _at(self, axis: int, sizes: Sizes) -> list[tuple[SubAxis, LabelledDim]]:
        """The tokens and experts along an axis, with their counts."""
        all_roles = [*zip(self.tokens, sizes.tokens, strict=True), (self.expert, sizes.experts)]
        return [(rows, size) for rows, size in all_roles if rows is not None and rows.axis == axis]

    def _rest(self, axis: int, dim: LabelledDim, sizes: Sizes) -> int | None:
        """The size of an axis without its tokens and experts, 0 if nothing is left; None where that is unknown."""
        here = self._at(axis, sizes)
        if not here:
            return dim if isinstance(dim, int) else None
        (first, own), *_ = here
        number, symbols = size_of((*first.outer, own, *first.inner))
        taken, taken_symbols = size_of([size for _, size in here])
        if number % taken or symbols != taken_symbols:
            return None
        return number // taken if number != taken else 0


def operand_axes(node: ir.Node, roles: ExpertAxes) -> list[ExpertAxes] | None:
    """The axes of a node's operands, where those of its first result are `roles`; None where a row depends on other rows."""
    per_role = []
    for rows in (*roles.tokens, roles.expert):
        found: Sequence[SubAxis | None] | None = [None] * len(node.inputs)
        if rows is not None:
            found = _rows_of_operands(node, rows)
        if found is None or len(found) != len(node.inputs):
            return None
        per_role.append(found)
    return [ExpertAxes(tuple(one[:-1]), one[-1]) for one in zip(*per_role, strict=True)]


def _rows_of_operands(node: ir.Node, rows: SubAxis) -> Sequence[SubAxis | None] | None:
    """`operand_sub_axes`, extended to columns of weights: each column of a product depends on one column of the weight."""
    dims = dims_of(node.outputs[0])
    if dims is None or node.domain:
        return None
    match node.op_type:
        case "MatMul" if rows.axis == len(dims) - 1:
            rank = rank_of(node.inputs[1])
            return None if rank is None or rank < 2 else [None, dataclasses.replace(rows, axis=rank - 1)]
        case "Gemm":
            return _gemm(node, rows, dims)
        case "Expand":
            found = _aligned(node.inputs[0], rows, dims)
            return None if found is None else [found[0], None]
        case "Split" | "Concat" if rows.axis == axis_of(node, len(dims)):
            return None
        case "Slice" if rows.axis in (named_axes(node, len(dims)) or (rows.axis,)):
            return None
    return operand_sub_axes(node, rows)


def _gemm(node: ir.Node, rows: SubAxis, dims: _Dims) -> Sequence[SubAxis | None] | None:
    flips = node.attributes.get_int("transA", 0), node.attributes.get_int("transB", 0)
    axis = flips[0] if rows.axis == 0 else 1 - flips[1]
    found: list[SubAxis | None] = [None, None]
    found[rows.axis] = dataclasses.replace(rows, axis=axis)
    for value in node.inputs[2:]:
        aligned = _aligned(value, rows, dims)
        if aligned is None:
            return None
        found += aligned
    return found


def _aligned(value: ir.Value | None, rows: SubAxis, dims: _Dims) -> list[SubAxis | None] | None:
    """The rows of a value that is broadcast to `dims`; None where that is unclear."""
    own = dims_of(value)
    if own is None:
        return None
    place = rows.axis - len(dims) + len(own)
    if place < 0 or (own[place] == 1 and dims[rows.axis] != 1):
        return [None]
    return [dataclasses.replace(rows, axis=place)] if same_dim(own[place], dims[rows.axis]) else None


def token_count(tokens: tuple[LabelledDim, ...]) -> LabelledDim:
    """The number of tokens, the product of the sizes of their axes, as a label."""
    if len(tokens) == 1:
        return tokens[0]
    number, symbols = size_of(tokens)
    names = sorted(name if name.isidentifier() else f"({name})" for name in symbols.elements())
    if not names:
        return number
    return ir.SymbolicDim("*".join([*([str(number)] if number != 1 else []), *names]))
