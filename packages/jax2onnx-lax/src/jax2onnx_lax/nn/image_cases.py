"""Cases of `image`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import CLOSE, at_most

__all__ = ["cases"]


def _grown(method: str, height: int, width: int) -> Callable[[jax.Array], jax.Array]:
    def resize(x: jax.Array) -> jax.Array:
        batch, h, w, channels = x.shape
        return jax.image.resize(x, (batch, height * h, width * w, channels), method)

    return resize


def _fixed(
    height: int, width: int, method: str | jax.image.ResizeMethod, antialias: bool = True
) -> Callable[[jax.Array], jax.Array]:
    return lambda x: jax.image.resize(x, (x.shape[0], height, width, 3), method, antialias)


def _preprocessed(images: jax.Array) -> jax.Array:
    """Images [B, H, W, 3] of bytes as a classifier takes them: resized, cropped, normalised."""
    resized = jax.image.resize(images.astype(jnp.float32), (images.shape[0], 8, 8, 3), "bilinear")[:, 1:7, 1:7]
    return (resized / 255 - jnp.array([0.485, 0.456, 0.406])) / jnp.array([0.229, 0.224, 0.225])


# The layout pass lets `Resize` work on the images as they lie.
_RESIZED = "Resize"
_MULTIPLIED = "Transpose -> MatMul -> MatMul -> Transpose"
_IMAGES = [("B", "H", "W", 3)]

_close = functools.partial(Case, rtol=CLOSE)

cases = [
    Case("resize_nearest", _grown("nearest", 2, 3), _IMAGES, covers=("jax.image.resize",), expect=_RESIZED),
    _close("resize_linear", _grown("bilinear", 2, 2), _IMAGES, expect=_RESIZED),
    _close(
        "resize_channels_first",
        lambda x: jax.image.resize(x, (*x.shape[:2], 8, 15), "linear"),
        [("B", 3, 4, 5)],
        expect="Resize",
    ),
    _close("resize_cubic", _fixed(7, 9, "cubic"), [("B", 4, 5, 3)], expect=_MULTIPLIED, atol=1e-5),
    _close("resize_smaller", _fixed(2, 3, "linear"), [("B", 4, 5, 3)], expect=_MULTIPLIED),
    _close(
        "resize_without_antialias", _fixed(2, 3, "lanczos3", False), [("B", 4, 5, 3)], expect=_MULTIPLIED, atol=1e-5
    ),
    _close("resize_pytorch", _fixed(7, 9, jax.image.ResizeMethod.CUBIC_PYTORCH, False), [(2, 4, 5, 3)], atol=1e-6),
    _close("resize_integers", _fixed(7, 5, "linear"), [(("B", 4, 5, 3), np.uint8)]),
    _close(
        "resize_one_axis",
        lambda x: jax.image.resize(x, (*x.shape[:2], 3), "linear"),
        [("B", "H", 5)],
        expect="MatMul",
        atol=1e-6,
    ),
    _close("resize_of_any_size", _fixed(4, 5, "linear"), _IMAGES, expect=at_most(44), atol=1e-6),
    _close(
        "resize_of_any_size_without_antialias", _fixed(4, 5, "linear", False), _IMAGES, expect=at_most(40), atol=1e-6
    ),
    _close("resize_of_any_height", _fixed(4, 6, "linear"), [("B", "H", 9, 3)], expect=at_most(24), atol=1e-6),
    _close(
        "resize_gradient",
        jax.grad(lambda x: jax.image.resize(x, (2, 7, 6, 3), "cubic").sum()),
        [(2, 4, 5, 3)],
        atol=1e-5,
    ),
    _close(
        "preprocessing",
        _preprocessed,
        [(("B", 12, 10, 3), np.uint8)],
        expect="Cast -> Transpose -> MatMul -> MatMul -> Slice -> Div -> Sub -> Div -> Transpose",
        atol=1e-5,
    ),
]
