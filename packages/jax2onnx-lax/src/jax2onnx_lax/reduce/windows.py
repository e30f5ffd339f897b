"""`reduce_window*`: pooling operators where they are exact, else folds of shifted slices."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.errors import InconclusiveDimensionOperation
from jax2onnx_core import Rules

from jax2onnx_lax._compat import max_dim, open_jaxpr
from jax2onnx_lax.complex.arrays import on_arrays
from jax2onnx_lax.contract.im2col import windows
from jax2onnx_lax.indexing.index_analysis import definitely_le
from jax2onnx_lax.reduce.monoids import MONOIDS, Monoid, combiner, from_identity, recognise
from jax2onnx_lax.reduce.reductions import fold_axis

__all__ = ["Windows", "fold_windows", "rules"]

rules = Rules()

Array = Any  # a JAX array, traced or not
Combine = Callable[..., Sequence[Array]]

# Up to this size a window is folded element by element, beyond by doubling.
_SMALL = 6


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows over every axis of an operand; fields are those of `lax.reduce_window`."""

    window_dimensions: tuple[Any, ...]
    window_strides: tuple[int, ...]
    padding: tuple[tuple[Any, Any], ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]

    @classmethod
    def of(
        cls, *, window_dimensions: Any, window_strides: Any, padding: Any, base_dilation: Any = None,
        window_dilation: Any = None, **_: Any,
    ) -> Windows:  # fmt: skip
        """From the parameters of a primitive."""
        ones = (1,) * len(window_dimensions)
        pairs = tuple((low, high) for low, high in padding)
        return cls(tuple(window_dimensions), tuple(window_strides), pairs,
                   tuple(base_dilation or ones), tuple(window_dilation or ones))  # fmt: skip

    @property
    def active(self) -> list[int]:
        """The axes along which there is anything to do."""
        trivial = (1, 1, (0, 0), 1)
        fields = zip(self.window_dimensions, self.window_strides, self.padding, self.base_dilation, strict=True)
        return [axis for axis, entry in enumerate(fields) if entry != trivial]

    def padded(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """The shape of the operand with its dilation and padding."""
        return tuple(
            (0 if isinstance(n, int) and n == 0 else (n - 1) * dilation + 1) + low + high
            for n, (low, high), dilation in zip(shape, self.padding, self.base_dilation, strict=True)
        )

    def counts(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """The number of windows along each axis of an operand."""
        sizes = zip(self.padded(shape), self.window_dimensions, self.window_strides, self.window_dilation, strict=True)
        counts = [(n - ((size - 1) * dilation + 1)) // stride + 1 for n, size, stride, dilation in sizes]
        return tuple(max(c, 0) if isinstance(c, int) else c for c in counts)

    def pad(self, x: Array, value: Any) -> Array:
        """The operand with its dilation and padding filled with `value`."""
        config = [(low, high, d - 1) for (low, high), d in zip(self.padding, self.base_dilation, strict=True)]
        return lax.pad(x, jnp.asarray(value, x.dtype), config) if any(c != (0, 0, 0) for c in config) else x


# -- folds ----------------------------------------------------------------------------------


def fold_windows(
    xs: Sequence[Array], initial: Sequence[Any], combine: Combine, shape: Windows, *, neutral: bool, idempotent: bool
) -> Sequence[Array]:
    """Combine the elements of each window, axis after axis, and the initial value unless it is neutral.

    `combine(*left, *right)` is associative and commutative, as XLA demands of it.
    """
    counts = shape.counts(xs[0].shape)
    if any(isinstance(c, int) and c == 0 for c in counts):
        return [jnp.broadcast_to(jnp.asarray(value, x.dtype), counts) for value, x in zip(initial, xs, strict=True)]
    xs = [shape.pad(x, value) for x, value in zip(xs, initial, strict=True)]
    for axis in shape.active:
        stride, dilation = shape.window_strides[axis], shape.window_dilation[axis]
        fold = _Fold(axis, shape.window_dimensions[axis], stride, dilation, counts[axis])
        xs = fold.symbolic(xs, initial, combine) if not isinstance(fold.size, int) else (
            fold.by_doubling(xs, combine, idempotent) if fold.doubles(xs[0]) else fold.by_element(xs, combine)
        )  # fmt: skip
    if neutral:
        return xs
    return combine(*[jnp.broadcast_to(value, x.shape) for value, x in zip(initial, xs, strict=True)], *xs)


@dataclasses.dataclass(frozen=True)
class _Fold:
    """The windows along one axis."""

    axis: int
    size: Any
    stride: int
    dilation: int
    count: Any

    def elements(self, xs: Sequence[Array], place: int) -> list[Array]:
        """One element, or partial result, of every window: the one at `place`."""
        return [_elements(x, place * self.dilation, self.count, self.stride, self.axis) for x in xs]

    def doubles(self, x: Array) -> bool:
        """Whether the window is so large that doubling pays, and surely no larger than the axis."""
        return self.size > _SMALL and definitely_le((self.size - 1) * self.dilation, x.shape[self.axis])

    def by_element(self, xs: Sequence[Array], combine: Combine) -> Sequence[Array]:
        total: Sequence[Array] = self.elements(xs, 0)
        for place in range(1, self.size):
            total = combine(*total, *self.elements(xs, place))
        return total

    def by_doubling(self, xs: Sequence[Array], combine: Combine, idempotent: bool) -> Sequence[Array]:
        """Windows of 1, 2, 4, … elements; those of `size` are put together from them."""
        levels = [list(xs)]
        while 2 ** len(levels) <= self.size:
            shift = 2 ** (len(levels) - 1) * self.dilation
            low = [lax.slice_in_dim(x, 0, x.shape[self.axis] - shift, 1, self.axis) for x in levels[-1]]
            high = [lax.slice_in_dim(x, shift, x.shape[self.axis], 1, self.axis) for x in levels[-1]]
            levels.append(list(combine(*low, *high)))
        top = len(levels) - 1
        total: Sequence[Array] = self.elements(levels[top], 0)
        done = 2**top
        if idempotent and done < self.size:
            return combine(*total, *self.elements(levels[top], self.size - done))
        for bit in reversed(range(top)):
            if self.size >> bit & 1:
                total = combine(*total, *self.elements(levels[bit], done))
                done += 2**bit
        return total

    def symbolic(self, xs: Sequence[Array], initial: Sequence[Any], combine: Combine) -> Sequence[Array]:
        """A window of symbolic size: all windows side by side, folded along their elements."""
        rows = [
            jnp.moveaxis(windows(x, self.axis, self.size, self.stride, self.dilation), self.axis + 1, 0) for x in xs
        ]
        first = [row[0] for row in rows]
        rest = [row[1:] for row in rows]
        return fold_axis(rest, first, combine, neutral=False)


def _elements(x: Array, start: int, count: Any, stride: int, axis: int) -> Array:
    """`count` elements along an axis. Where JAX cannot prove that a symbolic limit is not negative, which a slice
    has to be, they are taken by their indices."""
    try:
        return lax.slice_in_dim(x, start, start + (count - 1) * stride + 1, stride, axis)
    except InconclusiveDimensionOperation:
        indices = start + stride * lax.iota(np.int32, max_dim(count, 0))
        return x.at[(*[slice(None)] * axis, indices)].get(mode="clip", indices_are_sorted=True)


def _fold(x: Array, monoid: Monoid, shape: Windows) -> Array:
    """The windows of one array, folded with a monoid from its identity."""
    axes = shape.active
    if (
        axes
        and all(shape.window_dimensions[a] == x.shape[a] and shape.padding[a] == (0, 0) for a in axes)
        and all(shape.base_dilation[a] == shape.window_dilation[a] == 1 for a in axes)
    ):
        return lax.expand_dims(monoid.reduce(x, tuple(axes)), axes)
    identity = monoid.identity(x.dtype)
    return fold_windows([x], [identity], lambda a, b: [monoid.combine(a, b)], shape, neutral=True,
                        idempotent=monoid.idempotent)[0]  # fmt: skip


def _wide(x: Array) -> Array:
    """Sums and products of half-precision windows are rounded once."""
    narrow = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4
    return x.astype(np.float32) if narrow else x


@rules.decompose("reduce_window_sum")
def window_sum(x: Array, **params: Any) -> Array:
    return _fold(_wide(x), MONOIDS["add"], Windows.of(**params)).astype(x.dtype)


@rules.decompose("reduce_window_max")
def window_max(x: Array, **params: Any) -> Array:
    return _fold(x, MONOIDS["max"], Windows.of(**params))


@rules.decompose("reduce_window_min")
def window_min(x: Array, **params: Any) -> Array:
    return _fold(x, MONOIDS["min"], Windows.of(**params))


_OF_MONOID = {"add": lax.reduce_window_sum_p, "max": lax.reduce_window_max_p, "min": lax.reduce_window_min_p}


def _window_of_monoid(x: Array, *, monoid: Monoid, **params: Any) -> Array:
    for name, primitive in _OF_MONOID.items():
        if monoid is MONOIDS[name]:
            return primitive.bind(x, **params)
    return _fold(_wide(x), monoid, Windows.of(**params)).astype(x.dtype)


@rules.lower("reduce_window")
def reduce_window(ctx: Any, *operands: Any, jaxpr: Any, consts: Any, **params: Any) -> Any:
    monoid = from_identity(ctx, jaxpr, consts, operands[-1])
    return ctx.jax(_window_of_monoid, operands[0], monoid=monoid, **params)


@rules.decompose("reduce_window")
def window_by_computation(*operands: Array, jaxpr: Any, consts: Any, **params: Any) -> Sequence[Array]:
    """Any number of operands, any associative and commutative computation, any initial values."""
    half = len(operands) // 2
    monoid = recognise(open_jaxpr(jaxpr, consts)[0])
    if monoid is None:
        combine = combiner(jaxpr, consts)
        shape = Windows.of(**params)
        return fold_windows(operands[:half], operands[half:], combine, shape, neutral=False, idempotent=False)
    # XLA's CPU backend leaves padding out, whatever the initial value is.
    folded = _window_of_monoid(operands[0], monoid=monoid, **params)
    return [monoid.combine(jnp.broadcast_to(operands[1], folded.shape), folded)]


rules.complex("reduce_window_max", on_arrays(window_max))
rules.complex("reduce_window_min", on_arrays(window_min))
rules.complex("reduce_window", on_arrays(window_by_computation))


# -- pooling --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Pool:
    """How an operand becomes what ONNX pools: two leading axes and one to three pooled ones."""

    shape: Windows
    axes: list[int]
    rest: list[int]
    dims: tuple[Any, ...]
    counts: tuple[Any, ...]
    same: bool

    @property
    def lead(self) -> tuple[Any, ...]:
        sizes = tuple(self.dims[i] for i in self.rest)
        return sizes if len(sizes) == 2 else (1, math.prod(sizes))

    @property
    def arranged(self) -> Windows:
        """The windows over the operand in ONNX's layout."""
        shape = self.shape

        def of_axes(field: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(field[i] for i in self.axes)

        return Windows(
            (1, 1, *of_axes(shape.window_dimensions)), (1, 1, *of_axes(shape.window_strides)),
            ((0, 0), (0, 0), *of_axes(shape.padding)), (1, 1, *of_axes(shape.base_dilation)),
            (1, 1, *of_axes(shape.window_dilation)),
        )  # fmt: skip

    def attributes(self) -> dict[str, Any]:
        strides = [self.shape.window_strides[i] for i in self.axes]
        pads = [self.shape.padding[i][side] for side in (0, 1) for i in self.axes]
        attributes = {"kernel_shape": [self.shape.window_dimensions[i] for i in self.axes],
                      "strides": strides if any(s != 1 for s in strides) else None}  # fmt: skip
        if self.same:
            return {**attributes, "auto_pad": "SAME_UPPER"}
        return {**attributes, "pads": pads if any(pads) else None}

    def run(self, ctx: Any, x: Any, pool: Callable[..., Any]) -> Any:
        """`pool(value, dims)` in ONNX's layout; the result in the operand's."""
        perm = [*self.rest, *self.axes]
        x = ctx.transpose(x, perm)
        x = ctx.reshape(x, (*self.lead, *(self.dims[i] for i in self.axes)))
        y = pool(x, (*self.lead, *(self.counts[i] for i in self.axes)))
        y = ctx.reshape(y, tuple(self.counts[i] for i in perm))
        return ctx.transpose(y, np.argsort(perm))


def _pool(ctx: Any, params: Any) -> _Pool:
    """The operand as ONNX pools it; declines what ONNX Runtime's kernels do not do."""
    shape, dims = Windows.of(**params), tuple(ctx.avals_in[0].shape)
    axes, counts = shape.active, tuple(ctx.avals_out[0].shape)
    if any(isinstance(d, int) and d == 0 for d in (*dims, *counts)):
        ctx.decline("nothing to pool")
    if not 1 <= len(axes) <= 3:
        ctx.decline("only one to three axes can be pooled")
    for axis in axes:
        if not isinstance(shape.window_dimensions[axis], int):
            ctx.decline("windows of symbolic size")
        if shape.base_dilation[axis] != 1 or shape.window_dilation[axis] != 1:
            ctx.decline("dilated windows")
    same = not all(isinstance(p, int) for axis in axes for p in shape.padding[axis])
    if same and not _is_same(shape, axes, dims):
        ctx.decline("padding that depends on symbolic dimensions")
    if not same and not all(0 <= p < shape.window_dimensions[axis] for axis in axes for p in shape.padding[axis]):
        ctx.decline("negative padding, or padding as wide as a window")
    if all(shape.padding[i] == (0, 0) and shape.window_dimensions[i] == dims[i] for i in axes):
        ctx.decline("a window over everything is a reduction")
    return _Pool(shape, axes, [i for i in range(len(dims)) if i not in axes], dims, counts, same)


def _is_same(shape: Windows, axes: Sequence[int], dims: Sequence[Any]) -> bool:
    """Whether the padding is what ONNX calls SAME_UPPER, for every size of the operand."""
    sizes, strides = [[field[i] for i in axes] for field in (shape.window_dimensions, shape.window_strides)]
    pads = lax.padtype_to_pads([dims[i] for i in axes], sizes, strides, "SAME")
    return [tuple(pair) for pair in pads] == [shape.padding[i] for i in axes]


@rules.lower("reduce_window_sum")
def pool_sum(ctx: Any, x: Any, **params: Any) -> Any:
    """AveragePool divides by the size of the whole window where padding counts."""
    dtype = np.dtype(ctx.dtype(x))
    if dtype not in _POOLED_FLOATS:
        ctx.decline("ONNX averages floats of single precision or less")
    pool = _pool(ctx, params)
    size = ctx.constant(math.prod(pool.attributes()["kernel_shape"]), dtype=np.float32)

    def average(value: Any, dims: Any) -> Any:
        mean = ctx.op.AveragePool(value, count_include_pad=1, dims=dims, **pool.attributes())
        return ctx.op.Mul(mean, size)

    return ctx.cast(pool.run(ctx, ctx.cast(x, np.float32), average), dtype)


_POOLED_FLOATS = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(jnp.bfloat16))


@rules.lower("reduce_window_max")
def pool_max(ctx: Any, x: Any, **params: Any) -> Any:
    pool, dtype = _pool(ctx, params), np.dtype(ctx.dtype(x))
    return ctx.cast(_max_pool(ctx, _poolable(ctx, x), pool), dtype)


@rules.lower("reduce_window_min")
def pool_min(ctx: Any, x: Any, **params: Any) -> Any:
    pool, dtype = _pool(ctx, params), np.dtype(ctx.dtype(x))
    if dtype not in (*_POOLED_FLOATS, np.dtype(np.float64)):
        ctx.decline("only floats can be negated without overflow")
    return ctx.cast(ctx.op.Neg(_max_pool(ctx, ctx.op.Neg(_poolable(ctx, x)), pool)), dtype)


def _poolable(ctx: Any, x: Any) -> Any:
    """`x` in a type for which MaxPool has a kernel."""
    dtype = np.dtype(ctx.dtype(x))
    wide = np.dtype(np.float32 if dtype in _POOLED_FLOATS else np.uint8 if dtype == np.bool_ else dtype)
    if not ctx.supports("MaxPool", wide):
        ctx.decline(f"{ctx.target} has no exact MaxPool of {dtype}")
    return ctx.cast(x, wide)


def _max_pool(ctx: Any, x: Any, pool: _Pool) -> Any:
    """MaxPool; where an operand is not finite, folds of slices.

    MaxPool of ONNX Runtime skips NaN and makes the lowest finite number of a window full of -inf. Both
    ways are in ONNX's layout, so that the transposes around them can meet those of their neighbours.
    """

    def maximum(value: Any, dims: Any) -> Any:
        pooled = ctx.op.MaxPool(value, dims=dims, **pool.attributes())
        if np.dtype(ctx.dtype(value)).kind != "f":
            return pooled
        finite = ctx.op.Less(ctx.op.ReduceL1(value, keepdims=0, dims=()), ctx.constant(np.inf, like=value))
        otherwise, same = ctx.subgraph("not_finite"), ctx.subgraph("finite")
        exact = otherwise.jax(lambda y: _fold(y, MONOIDS["max"], pool.arranged), value)
        branches = {"then_branch": same.graph([pooled]), "else_branch": otherwise.graph([exact])}
        return ctx.op("If", finite, dims=dims, **branches)

    return pool.run(ctx, x, maximum)
