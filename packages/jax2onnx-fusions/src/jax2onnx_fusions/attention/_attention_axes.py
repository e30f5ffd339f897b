"""`AttentionAxes`: the batch, heads, sequences and features among the axes of an attention."""

from __future__ import annotations

__all__ = ["AttentionAxes", "attention_axes"]

import dataclasses
import math
from collections.abc import Sequence

from jax2onnx_fusions._reasons import UnreadableError
from jax2onnx_fusions.attention._axes import Axes, Axis, atoms, axes_in
from jax2onnx_fusions.attention._formula import AttentionFormula

Group = tuple[Axis, ...]


@dataclasses.dataclass(frozen=True)
class AttentionAxes:
    """The axes of an attention, each group in the order in which they form one axis of the operator.

    Attributes:
      batch: B, axes of query, key and value.
      heads: K, likewise, of known sizes.
      group: G, axes of the query alone, of known sizes: the query heads of each key head.
      queries: T, axes of the query alone.
      keys: S, axes of key and value.
      features: H, axes of query and key.
      width: the features of the value.
    """

    batch: Group
    heads: Group
    group: Group
    queries: Group
    keys: Group
    features: Group
    width: Group

    @property
    def key_heads(self) -> int:
        return _count(self.heads)

    @property
    def query_heads(self) -> int:
        return _count((*self.heads, *self.group))

    def operands(self, *, merged: bool) -> tuple[Axes, Axes, Axes]:
        """Query, key and value as `Attention` takes them: [B, ·, heads · H] if merged, else [B, heads, ·, H]."""
        inner = (*self.heads, *self.group)
        if merged:
            return (
                (self.batch, self.queries, (*inner, *self.features)),
                (self.batch, self.keys, (*self.heads, *self.features)),
                (self.batch, self.keys, (*self.heads, *self.width)),
            )
        return (
            (self.batch, inner, self.queries, self.features),
            (self.batch, self.heads, self.keys, self.features),
            (self.batch, self.heads, self.keys, self.width),
        )

    def result(self, *, merged: bool) -> Axes:
        """The result of the operator."""
        inner = (*self.heads, *self.group)
        if merged:
            return (self.batch, self.queries, (*inner, *self.width))
        return (self.batch, inner, self.queries, self.width)

    def split_result(self) -> Axes:
        """The result of the 3-D form with an axis of the heads: [B, T, heads, ·]."""
        return (self.batch, self.queries, (*self.heads, *self.group), self.width)


def _count(axes: Sequence[Axis]) -> int:
    return math.prod(axis.size for axis in axes if isinstance(axis.size, int))


def attention_axes(formula: AttentionFormula, sharing: int) -> AttentionAxes:
    """Find the batch, heads, sequences and features among the axes of a formula.

    Where several choices are right, that one is made which fits the order of the axes in query and key. An axis that is either the query
    heads of a key head, for one query, or the sequence of the queries is the former if it has fewer than `sharing` elements.

    Raises:
      UnreadableError: there are axes that have no role.
    """
    query, key, value = (operand.root() for operand in (formula.query, formula.key, formula.value))
    keys, features = atoms(formula.keys), atoms(formula.features)
    common = [axis for axis in key if axis in query and axis in value and axis not in features]
    batch, heads = _parted(common, key.index(keys[0]), key)
    alone = [axis for axis in query if axis not in key]
    group, queries = _queries(alone, heads, query, formula, sharing)
    width = tuple(axis for axis in value if axis not in common and axis not in keys)
    roles = AttentionAxes(batch, heads, group, queries, keys, features, width)
    everything = [*batch, *heads, *group, *queries]
    complete = (
        (query, [*everything, *features]),
        (key, [*common, *keys, *features]),
        (value, [*common, *keys, *width]),
        (axes_in(formula.result), [*everything, *width]),
    )
    if not all(len(axes) == len(wanted) and set(axes) == set(wanted) for axes, wanted in complete):
        raise UnreadableError("there are axes that are neither batch, heads, sequence nor features")
    if not all(isinstance(axis.size, int) for axis in (*heads, *group, *features, *width)):
        raise UnreadableError("the number of heads or of features is not known")
    return roles


def _parted(common: Sequence[Axis], position: int, key: Sequence[Axis]) -> tuple[Group, Group]:
    """Split common axes into batch and heads, at the sequence of the keys or before the last axis."""
    before = tuple(axis for axis in common if key.index(axis) < position)
    after = tuple(axis for axis in common if key.index(axis) > position)
    if not (before and after):
        is_last = len(before) > 1 or bool(after)
        both = (*before, *after)
        before, after = (both[:-1], both[-1:]) if is_last else (both, ())
    return (before, after) if _is_static(after) else ((*before, *after), ())


def _is_static(axes: Sequence[Axis]) -> bool:
    return all(isinstance(axis.size, int) for axis in axes)


def _queries(
    alone: Sequence[Axis], heads: Group, query: Sequence[Axis], formula: AttentionFormula, sharing: int
) -> tuple[Group, Group]:
    """The query heads of each key head, and the sequence of the queries, of the axes that the query has alone."""
    repeated = {axis for x in (formula.key, formula.value) for axis in axes_in(x.axes())}
    group = [axis for axis in alone if axis in repeated and isinstance(axis.size, int)]
    rest = [axis for axis in alone if axis not in group]
    varied = _varied(rest, formula)
    if varied is not None and _is_static([axis for axis in rest if axis not in varied]):
        queries = [axis for axis in rest if axis in varied]
    elif _is_static(rest) and _count(rest) < sharing and not _is_masked_by_row(rest, heads, formula):
        queries = []
    else:
        queries = _by_order(rest, heads, query, bool(group), formula)
    return (*group, *(axis for axis in rest if axis not in queries)), tuple(queries)


def _varied(alone: Sequence[Axis], formula: AttentionFormula) -> list[Axis] | None:
    """The axes along which some mask or bias varies, if it does not along all."""
    for addend in formula.addends:
        own = axes_in(addend.candidates[0].axes)
        varied = [axis for axis in alone if axis in own]
        if varied and len(varied) < len(alone):
            return varied
    return None


def _is_masked_by_row(alone: Sequence[Axis], heads: Group, formula: AttentionFormula) -> bool:
    """Whether some mask or bias varies along axes of the query alone, and is the same for all heads."""
    varied = (set(axes_in(addend.candidates[0].axes)) for addend in formula.addends)
    return any(not own.isdisjoint(alone) and not own.issuperset(heads) for own in varied)


def _by_order(
    alone: list[Axis], heads: Group, query: Sequence[Axis], has_group: bool, formula: AttentionFormula
) -> list[Axis]:
    """The sequence of the queries, by where the axes stand in the query."""
    symbolic = [axis for axis in alone if not isinstance(axis.size, int)]
    if symbolic or has_group:
        return symbolic if not has_group else alone
    first = query.index(heads[0]) if heads else 0
    before, after = ([axis for axis in alone if (query.index(axis) < first) is is_first] for is_first in (True, False))
    if before and after:
        return before
    if len(alone) < 2:
        key = formula.key.root()
        follows = bool(heads) and key.index(heads[0]) > key.index(atoms(formula.keys)[0]) and bool(after)
        return [] if follows else alone
    return alone[-1:] if heads else alone[:1]
