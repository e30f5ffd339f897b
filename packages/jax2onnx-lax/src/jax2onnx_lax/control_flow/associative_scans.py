"""`jax.lax.associative_scan` with fewer operators than JAX writes, and of symbolic length, which JAX refuses: its recursion needs the number."""

from __future__ import annotations

import contextvars
import dataclasses
import functools
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Composites, Dim, Replacement
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.jaxprs import definitely_le, is_positive, is_static

from jax2onnx_lax._compat import is_differentiated
from jax2onnx_lax.recurrence._values import size_of

__all__ = ["composites"]

composites = Composites()

_Arrays: TypeAlias = list[jax.Array]

#: Up to so many elements along the axis, and for a number in all, doubling and the recursion are faster than blocks.
_MOST_DOUBLED, _MOST_RECURSIVE = 64, 2**17
#: Elements of a block.
_BLOCK = 16

#: Operations of two numbers, and those of `jax.lax` that are their prefixes. Callables need not have a hash.
_CUMULATIVE: tuple[tuple[Callable[..., jax.Array], Callable[..., jax.Array]], ...] = (
    (jnp.add, lax.cumsum), (lax.add, lax.cumsum), (jnp.multiply, lax.cumprod), (lax.mul, lax.cumprod),
    (jnp.maximum, lax.cummax), (lax.max, lax.cummax), (jnp.minimum, lax.cummin), (lax.min, lax.cummin),
)  # fmt: skip

#: Whether one of these is being called: for its derivative, it calls `associative_scan`, which must not lead back to it.
_IN_CUMULATIVE = contextvars.ContextVar("_IN_CUMULATIVE", default=False)


@composites.call("jax.lax:associative_scan", name="jax.lax.associative_scan")
def associative_scan(
    fn: Callable[[PyTree, PyTree], PyTree], elems: PyTree, reverse: bool = False, axis: int = 0
) -> Replacement | None:
    """Sums, products and extrema of one array are those of `jax.lax`; anything else takes JAX's recursion, or over many elements blocks.

    A symbolic length is computed by doubling, over blocks if it is long.

    Whatever the form, `fn` is called with elements side by side along `axis`, as JAX does. Where there may be none, one more is computed.
    """
    arrays, tree = jax.tree_util.tree_flatten(elems)
    axis = axis % arrays[0].ndim if arrays and -arrays[0].ndim <= axis < arrays[0].ndim else axis
    if not arrays or not 0 <= axis < arrays[0].ndim or not callable(fn):
        return None
    length = arrays[0].shape[axis]
    same = all(axis < x.ndim and x.shape[axis] == length for x in arrays)
    if not same or (is_static(length) and length < 2):
        return None
    cumulative = next((prefixes for operation, prefixes in _CUMULATIVE if operation is fn), None)
    is_number = jax.tree_util.treedef_is_leaf(tree) and arrays[0].dtype != jnp.bool_
    if cumulative is not None and is_number and not _IN_CUMULATIVE.get():
        return Replacement(_cumulated(functools.partial(cumulative, axis=axis, reverse=reverse), arrays[0]))

    def combine(left: _Arrays, right: _Arrays) -> _Arrays:
        made = fn(jax.tree_util.tree_unflatten(tree, left), jax.tree_util.tree_unflatten(tree, right))
        return jax.tree_util.tree_leaves(made)

    given = [jnp.flip(x, axis) for x in arrays] if reverse else arrays
    scan = _AssociativeScan(combine, axis)
    if not is_positive(length):
        rows = [jnp.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype) for x in given]
        longer = [jnp.concatenate([x, row], axis) for x, row in zip(given, rows, strict=True)]
        found = [lax.slice_in_dim(y, 0, length, axis=axis) for y in scan.of_symbolic_length(longer, length + 1)]
    else:
        found = scan.scan(given, length) if is_static(length) else scan.of_symbolic_length(given, length)
    return Replacement(jax.tree_util.tree_unflatten(tree, [jnp.flip(y, axis) for y in found] if reverse else found))


def _cumulated(cumulative: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    token = _IN_CUMULATIVE.set(True)
    try:
        return cumulative(x)
    finally:
        _IN_CUMULATIVE.reset(token)


@dataclasses.dataclass(frozen=True)
class _AssociativeScan:
    """An associative scan; `combine` takes and returns arrays with any number of elements along `axis`."""

    combine: Callable[[_Arrays, _Arrays], _Arrays]
    axis: int

    def scan(self, arrays: _Arrays, length: Dim) -> _Arrays:
        """Compute the scan over this many elements."""
        size = max(size_of(x.shape) for x in arrays)
        if is_static(length) and (length <= _MOST_DOUBLED or size <= _MOST_RECURSIVE):
            return self.by_pairs(arrays, length)
        if definitely_le(length, _MOST_DOUBLED):
            return self.doubled(arrays, length)
        if definitely_le(_MOST_DOUBLED, length):
            return self.in_blocks(arrays, length)
        few = jnp.asarray(length) <= _MOST_DOUBLED
        doubled, in_blocks = (functools.partial(form, length=length) for form in (self.doubled, self.in_blocks))
        of_both: _Arrays = lax.cond(few, doubled, in_blocks, arrays)
        return of_both

    def by_pairs(self, arrays: _Arrays, length: int) -> _Arrays:
        """The recursion of JAX: the prefixes of pairs are every second one, and give the others. A copy interleaves them, not a sum."""
        if length < 2:
            return arrays
        take = functools.partial(lax.slice_in_dim, axis=self.axis)
        pairs = self.combine([take(x, 0, -1, 2) for x in arrays], [take(x, 1, length, 2) for x in arrays])
        odd = self.by_pairs(pairs, length // 2)
        even = [take(x, 0, 1) for x in arrays]
        if length > 2:
            before = [take(y, 0, (length - 1) // 2) for y in odd]
            later = self.combine(before, [take(x, 2, length, 2) for x in arrays])
            even = [jnp.concatenate([x, y], self.axis) for x, y in zip(even, later, strict=True)]
        return [self._interleaved(x, y) for x, y in zip(even, odd, strict=True)]

    def _interleaved(self, even: jax.Array, odd: jax.Array) -> jax.Array:
        """Elements in turns; the last one of `even` may have no partner."""
        axis, count = self.axis, odd.shape[self.axis]
        partners = lax.slice_in_dim(even, 0, count, axis=axis)
        joined = jnp.concatenate if axis + 1 < even.ndim else jnp.stack
        paired = joined([partners, odd], axis + 1).reshape(*even.shape[:axis], 2 * count, *even.shape[axis + 1 :])
        return jnp.concatenate([paired, lax.slice_in_dim(even, count, None, axis=axis)], axis)

    def of_symbolic_length(self, arrays: _Arrays, length: Dim) -> _Arrays:
        """The scan over a symbolic number of elements, with the derivative of one element after the other: doubling has none in reverse."""
        structs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
        traced = [x for x in jax.make_jaxpr(self.combine)(structs, structs).consts if isinstance(x, jax.core.Tracer)]
        if any(map(is_differentiated, traced)):  # around the operation, where no rule for a derivative sees them
            return self.one_by_one(*arrays)
        if traced:
            return self.scan(arrays, length)
        prefixes = jax.custom_jvp(lambda *xs: self.scan(list(xs), length))
        prefixes.defjvp(functools.partial(jax.jvp, self.one_by_one))
        found: _Arrays = prefixes(*arrays)
        return found

    def one_by_one(self, *arrays: jax.Array) -> _Arrays:
        """All prefixes, each from the one before it."""
        rows = [jnp.expand_dims(jnp.moveaxis(x, self.axis, 0), self.axis + 1) for x in arrays]
        first = [x[0] for x in rows]
        others = lax.scan(self._step, first, [x[1:] for x in rows])[1]
        whole = [jnp.concatenate([y[None], ys]) for y, ys in zip(first, others, strict=True)]
        return [jnp.moveaxis(jnp.squeeze(y, self.axis + 1), 0, self.axis) for y in whole]

    def doubled(self, arrays: _Arrays, length: Dim) -> _Arrays:
        """All prefixes, of 2, 4, 8, … elements at most.

        Hillis, Steele: Data parallel algorithms, Communications of the ACM 29, 1986.
        """
        places = jnp.arange(length)

        def double(state: tuple[jax.Array, _Arrays]) -> tuple[jax.Array, _Arrays]:
            distance, ends = state
            before = [jnp.take(y, jnp.maximum(places - distance, 0), self.axis, mode="clip") for y in ends]
            return 2 * distance, self._where(places >= distance, self.combine(before, ends), ends)

        return lax.while_loop(lambda state: state[0] < length, double, (jnp.ones((), places.dtype), arrays))[1]

    def in_blocks(self, arrays: _Arrays, length: Dim) -> _Arrays:
        """Scan blocks of consecutive elements side by side: first the reduction of each block, then the prefixes within the blocks.

        The last block is filled with copies of the last element, which no prefix that is kept contains.
        """
        count = (length + _BLOCK - 1) // _BLOCK
        blocks = jnp.arange(count)
        numbers = jnp.minimum(jnp.arange(_BLOCK)[:, None] + _BLOCK * blocks, length - 1)
        rows = [jnp.moveaxis(jnp.take(x, numbers, self.axis, mode="clip"), self.axis, 0) for x in arrays]
        first, rest = [x[0] for x in rows], [x[1:] for x in rows]

        ends = lax.scan(lambda state, row: (self.combine(state, row), None), first, rest)[0]
        whole = self.scan(ends, count) if is_static(count) else self.doubled(ends, count)
        before = [jnp.take(y, jnp.maximum(blocks - 1, 0), self.axis, mode="clip") for y in whole]
        first = self._where(blocks > 0, self.combine(before, first), first)
        others = lax.scan(self._step, first, rest)[1]
        return [self._in_order(jnp.concatenate([y[None], ys]), length) for y, ys in zip(first, others, strict=True)]

    def _step(self, state: _Arrays, row: _Arrays) -> tuple[_Arrays, _Arrays]:
        made = self.combine(state, row)
        return made, made

    def _in_order(self, rows: jax.Array, length: Dim) -> jax.Array:
        """[place in the block, …, block, …] as [..., element, ...]."""
        rows = jnp.moveaxis(rows, 0, self.axis + 1)
        dims = rows.shape
        merged = rows.reshape(*dims[: self.axis], -1, *dims[self.axis + 2 :])
        return lax.slice_in_dim(merged, 0, length, axis=self.axis)

    def _where(self, condition: jax.Array, chosen: _Arrays, other: _Arrays) -> _Arrays:
        """`chosen` at the elements along `axis` for which the condition is true."""
        return [
            jnp.where(jnp.expand_dims(condition, [i for i in range(y.ndim) if i != self.axis]), y, z)
            for y, z in zip(chosen, other, strict=True)
        ]
