"""`jax.image.resize`: by whole factors as `Resize`, to other fixed sizes as products with constant matrices.

`Resize` does not compute what JAX does at other ratios: it rounds coordinates otherwise, and has another antialiasing. Sizes that are
known at run time only make the matrices of "linear" by a shorter formula of equal values; by other methods they stay with JAX's. The products make NaN of whole rows and columns in which there is a NaN or an infinity,
as in JAX; `Resize` mixes these with their neighbours only.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Context, Dim, Replacement, Rules, Value
from jax2onnx_core.jaxprs import is_positive, is_static
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.forms import Form

from jax2onnx_lax.dtypes import is_float_array
from jax2onnx_lax.nn._operands import channels_first, channels_last
from jax2onnx_lax.sizes.creation import dims_from_data, has_numbers_from_data

__all__ = ["Factors", "Products", "composites", "rules"]

composites = Composites()
rules = Rules()

_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "triangle": "linear"}
_LARGEST_FACTOR = 16
_LARGEST_MATRIX = 1 << 22  # elements
# Up to this size rounding brings no place of an element of the result to more than half an element outside of the axis.
_LARGEST_SIZE = 1 << 16


@dataclasses.dataclass(frozen=True)
class Factors:
    """An image whose axes grow by whole factors.

    Attributes:
      factors: the factor of each of the four axes; the first one is 1.
      mode: that of `Resize`.
    """

    factors: tuple[int, ...]
    mode: str


@dataclasses.dataclass(frozen=True)
class Products:
    """An image of which one or two axes get another size, which is fixed.

    Attributes:
      sizes: axis → its size after.
      method: that of JAX; one of linear interpolation where an axis is of unknown size.
      antialias: as in JAX.
    """

    sizes: tuple[tuple[int, int], ...]
    method: str | jax.image.ResizeMethod
    antialias: bool


@composites.call("jax.image:resize", name="jax.image.resize")
def resize(
    image: jax.Array, shape: Sequence[Dim], method: str | jax.image.ResizeMethod, antialias: bool = True,
    precision: jax.lax.PrecisionLike = None,
) -> Call | Replacement | None:  # fmt: skip
    if has_numbers_from_data(shape):
        return Replacement(jax.image.resize(image, dims_from_data(shape, "resize"), method, antialias, precision))
    if len(shape) != image.ndim:
        return None
    form = _factors(image, shape, _name(method)) or _products(image.shape, shape, method, antialias)
    if form is None:
        return None
    # As JAX's functions of real numbers promote integers.
    return Call(image.astype(jax.eval_shape(jnp.exp, image).dtype), form=form)


def _name(method: str | jax.image.ResizeMethod) -> str:
    return method.lower() if isinstance(method, str) else method.name.lower()


def _factors(image: jax.Array, shape: Sequence[Dim], method: str) -> Factors | None:
    """The form of an image of floating-point numbers with four axes that grow by whole factors."""
    mode = _MODES.get(method)
    if not is_float_array(image) or image.ndim != 4 or mode is None:
        return None
    found = [_factor(old, new) for old, new in zip(image.shape, shape, strict=True)]
    factors = tuple(factor for factor in found if factor is not None)
    return Factors(factors, mode) if len(factors) == 4 and factors[0] == 1 else None


def _factor(old: Dim, new: Dim) -> int | None:
    """The whole number by which an axis grows; None if it is none up to the largest."""
    return next((factor for factor in range(1, _LARGEST_FACTOR + 1) if old * factor == new), None)


def _products(
    before: Sequence[Dim], after: Sequence[Dim], method: str | jax.image.ResizeMethod, antialias: bool
) -> Products | None:
    """The form of an image of which one or two axes get another fixed size, by a method that weighs neighbours."""
    changed = [(axis, old, new) for axis, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    sizes = [
        (axis, int(new)) for axis, old, new in changed if is_static(new) and _has_weights(old, int(new), _name(method))
    ]
    fits = 0 < len(sizes) == len(changed) <= 2
    return Products(tuple(sizes), method, antialias) if fits else None


def _has_weights(old: Dim, new: int, method: str) -> bool:
    """Whether an axis is multiplied with a matrix: a constant, or one of linear interpolation if its size, surely not 0, is unknown."""
    if is_static(old):
        return method != "nearest" and 0 < int(old) * new <= _LARGEST_MATRIX
    return _MODES.get(method) == "linear" and is_positive(old) and 0 < new <= _LARGEST_SIZE


@rules.lower("jax.image.resize")
def lower_resize(ctx: Context, image: Value, *, form: Factors | Products) -> Value:
    """`image`, resized."""
    if isinstance(form, Factors):
        return _grown(ctx, image, form.factors, form.mode)
    return _multiplied(ctx, image, form)


def _linear_weights(image: jax.Array, *, axis: int, new: int, antialias: bool, transposed: bool) -> jax.Array:
    """The matrix [old, new] with which JAX multiplies an axis, by JAX's operations but for those that change nothing.

    Every place lies on the axis, at most half an element from one: the sum of the weights is at least 1/2, and none is to be cleared.

    Args:
      image: the image, of which only the shape is read.
      axis: the axis, which is not empty.
      new: its size after.
      antialias: as in JAX.
      transposed: whether the matrix is [new, old].
    """
    inverse = 1 / (new / jnp.asarray(image.shape[axis]))
    dtype = inverse.dtype
    places = (np.arange(new, dtype=dtype) + dtype.type(0.5)) * inverse - dtype.type(0.5)
    elements = jnp.arange(image.shape[axis], dtype=dtype)
    distances = places[:, None] - elements if transposed else places - elements[:, None]
    distances = jnp.abs(distances) / (jnp.maximum(inverse, 1) if antialias else 1)
    weights = jnp.maximum(1 - distances, 0)
    return weights / weights.sum(1 if transposed else 0, keepdims=True)


def _multiplied(ctx: Context, image: Value, form: Products) -> Value:
    """The products of an image with the weights of its axes, which are brought to the end, in the order of fewer multiplications if it is known."""
    before = ctx.known_dims(image)
    axes = [axis for axis, _ in form.sizes]
    order = [axis for axis in range(len(before)) if axis not in axes] + axes
    result, dims = ctx.transpose(image, order), [before[axis] for axis in order]
    steps = sorted(form.sizes, reverse=True)
    old = {axis: dim for axis in axes if is_static(dim := before[axis])}
    if len(old) == len(axes):
        steps = sorted(form.sizes, key=lambda size: 1 / old[size[0]] - 1 / size[1])
    for axis, new in steps:
        place = order.index(axis) - len(order)
        weights = _weights_of(ctx, image, axis, new, form, transposed=place == -2)
        dims[place] = new
        result = ctx.op.MatMul(*((result, weights) if place == -1 else (weights, result)), dims=dims)
    return ctx.transpose(result, [order.index(axis) for axis in range(len(order))])


def _weights_of(ctx: Context, image: Value, axis: int, new: int, form: Products, *, transposed: bool) -> Value:
    """The matrix [old, new] for an axis, a constant where its size is known; [new, old] if `transposed`."""
    old = ctx.known_dims(image)[axis]
    if is_static(old):
        weights = _weights(int(old), new, form.method, form.antialias, ctx.dtype(image))
        return ctx.constant(weights.T if transposed else weights)
    made = ctx.jax(_linear_weights, image, axis=axis, new=new, antialias=form.antialias, transposed=transposed)
    return ctx.cast(made, ctx.dtype(image))


@functools.lru_cache(maxsize=16)
def _weights(
    old: int, new: int, method: str | jax.image.ResizeMethod, antialias: bool, dtype: np.dtype[np.generic]
) -> Array:
    """The matrix [old, new] with which JAX multiplies an axis: an image of ones on the diagonal, resized."""
    return np.asarray(jax.image.resize(np.eye(old, dtype=dtype), (old, new), method, antialias))


def _grown(ctx: Context, image: Value, factors: Sequence[int], mode: str) -> Value:
    """`image`, of four axes, of which all but the first may grow by whole factors.

    Where the target resizes the last two axes faster than others, channels that lie last are brought before them.
    """
    ctx.require("Resize", image)
    if factors[1] == 1 or ctx.prefers(Form.RESIZE_ANY_AXES, Form.RESIZE_LAST_TWO_AXES) is Form.RESIZE_ANY_AXES:
        return _resized(ctx, image, factors, mode)
    if factors[3] != 1:
        ctx.decline("three axes grow")
    first, last = channels_first(2), channels_last(2)
    return ctx.transpose(_resized(ctx, ctx.transpose(image, first), [factors[axis] for axis in first], mode), last)


def _resized(ctx: Context, x: Value, factors: Sequence[int], mode: str) -> Value:
    dims = tuple(d * factor for d, factor in zip(ctx.known_dims(x), factors, strict=True))
    return ctx.op.Resize(
        x, None, ctx.constant(factors, np.float32), mode=mode, coordinate_transformation_mode="half_pixel",
        nearest_mode="round_prefer_ceil", dims=dims,
    )  # fmt: skip
