"""`ExpertAxes`: the axes of tokens and of experts of a value in a mixture of experts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.axis_maps import axis_maps
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.sub_axes import SubAxis, operand_sub_axes
from jax2onnx_graph.facts.values import LabelledDim

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
    def missing(self) -> tuple[bool, ...]:
        """For each axis of tokens, and for that of experts, whether the value is the same along it."""
        return tuple(rows is None for rows in (*self.tokens, self.expert))

    @property
    def own_axes(self) -> tuple[int, ...] | None:
        """The axes of tokens and, last, of experts, if each has one of its own."""
        rows = (*self.tokens, self.expert)
        axes = tuple(one.axis for one in rows if one is not None and one.is_whole)
        return axes if len({*axes}) == len(rows) else None

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
        rest = (first.outer * size_of([own]) * first.inner).divided_by(size_of([size for _, size in here]))
        number = None if rest is None else rest.number
        return 0 if number == 1 else number


def operand_axes(node: ir.Node, roles: ExpertAxes) -> list[ExpertAxes] | None:
    """The axes of a node's operands, where those of its first result are `roles`; None where a row depends on other rows."""
    per_role, maps = [], None if roles.is_plain else axis_maps(node)
    for rows in (*roles.tokens, roles.expert):
        found: Sequence[SubAxis | None] | None = [None] * len(node.inputs)
        if rows is not None:
            found = None if maps is None else operand_sub_axes(node, rows, maps)
        if found is None or len(found) != len(node.inputs):
            return None
        per_role.append(found)
    return [ExpertAxes(tuple(one[:-1]), one[-1]) for one in zip(*per_role, strict=True)]


def token_count(tokens: tuple[LabelledDim, ...]) -> LabelledDim:
    """The number of tokens, the product of the sizes of their axes, as a label."""
    return size_of(tokens).dim
