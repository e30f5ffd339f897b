"""`jax.image.resize` by whole factors as `Resize`.

Other ratios stay with JAX's products of weights: at a ratio that is not whole `Resize` rounds coordinates
otherwise, and shrinking takes JAX's antialiasing.
"""

from __future__ import annotations

__all__ = ["composites", "rules"]

from typing import Any

from jax2onnx_core import Call, Composites, Rules

from jax2onnx_lax.nn.activations import is_float, needs

composites = Composites()
rules = Rules()

_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "triangle": "linear"}
_LARGEST_FACTOR = 16


@composites.call("jax.image:resize", name="jax.image.resize")
def resize(image: Any, shape: Any, method: Any, antialias: bool = True, precision: Any = None) -> Call | None:
    mode = _MODES.get(method if isinstance(method, str) else method.name.lower())
    if not is_float(image) or image.ndim != 4 or len(shape) != 4 or mode is None:
        return None
    factors = [_factor(old, new) for old, new in zip(image.shape, shape, strict=True)]
    if None in factors or factors[0] != 1:
        return None
    return Call(image, factors=tuple(factors), mode=mode)


def _factor(old: Any, new: Any) -> int | None:
    """By which whole number an axis grows, if by any."""
    return next((factor for factor in range(1, _LARGEST_FACTOR + 1) if old * factor == new), None)


@rules.lower("jax.image.resize")
def lower_resize(ctx: Any, image: Any, *, factors: tuple[int, ...], mode: str) -> Any:
    """Images whose last two axes grow, or those before the last: ONNX Runtime has fast kernels for the former."""
    needs(ctx, "Resize", image)
    to, back = ((0, 1, 2, 3),) * 2 if factors[1] == 1 else ((0, 3, 1, 2), (0, 2, 3, 1))
    scales = [factors[axis] for axis in to]
    if scales[1] != 1:
        ctx.decline("three axes grow")
    x = ctx.transpose(image, to)
    grown = ctx.op(
        "Resize",
        x,
        None,
        ctx.constant(scales, "float32"),
        mode=mode,
        coordinate_transformation_mode="half_pixel",
        nearest_mode="round_prefer_ceil",
        dims=tuple(d * scale for d, scale in zip(ctx.dims(x), scales, strict=True)),
    )
    return ctx.transpose(grown, back)
