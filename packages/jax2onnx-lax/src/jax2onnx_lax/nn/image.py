"""`jax.image.resize` by whole factors as `Resize`.

Other ratios stay with JAX's products of weights: at a ratio that is not whole `Resize` rounds coordinates
otherwise, and shrinking takes JAX's antialiasing. These products make NaN of whole rows and columns in which there is a NaN or an
infinity, which `Resize` mixes with their neighbours only.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax2onnx_core import Call, Composites, Context, Dim, Rules, Value
from jax2onnx_graph.forms import Form

from jax2onnx_lax.dtypes import is_float_array
from jax2onnx_lax.nn._operands import channels_first, channels_last

__all__ = ["composites", "rules"]

composites = Composites()
rules = Rules()

_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "triangle": "linear"}
_LARGEST_FACTOR = 16


@composites.call("jax.image:resize", name="jax.image.resize")
def resize(
    image: jax.Array, shape: Sequence[Dim], method: str | jax.image.ResizeMethod, antialias: bool = True,
    precision: jax.lax.PrecisionLike = None,
) -> Call | None:  # fmt: skip
    mode = _MODES.get(method if isinstance(method, str) else method.name.lower())
    if not is_float_array(image) or image.ndim != 4 or len(shape) != 4 or mode is None:
        return None
    factors = [_factor(old, new) for old, new in zip(image.shape, shape, strict=True)]
    if None in factors or factors[0] != 1:
        return None
    return Call(image, factors=tuple(factors), mode=mode)


def _factor(old: Dim, new: Dim) -> int | None:
    """The whole number by which an axis grows; None if it is none up to the largest."""
    return next((factor for factor in range(1, _LARGEST_FACTOR + 1) if old * factor == new), None)


@rules.lower("jax.image.resize")
def lower_resize(ctx: Context, image: Value, *, factors: tuple[int, int, int, int], mode: str) -> Value:
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
