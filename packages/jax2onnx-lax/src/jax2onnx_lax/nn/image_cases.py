"""Cases of `image`."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import CLOSE, with_attributes

__all__ = ["cases"]


def _grown(method: str, height: int, width: int) -> Callable[[jax.Array], jax.Array]:
    def resize(x: jax.Array) -> jax.Array:
        batch, h, w, channels = x.shape
        return jax.image.resize(x, (batch, height * h, width * w, channels), method)

    return resize


# The layout pass lets `Resize` work on the images as they lie.
_RESIZED = "Resize"
_IMAGES = [("B", "H", "W", 3)]

cases = [
    Case(
        "resize_nearest",
        _grown("nearest", 2, 3),
        _IMAGES,
        covers=("jax.image.resize",),
        expect=_RESIZED,
        check=with_attributes("Resize", mode="nearest"),
    ),
    Case(
        "resize_linear",
        _grown("bilinear", 2, 2),
        _IMAGES,
        expect=_RESIZED,
        rtol=CLOSE,
        check=with_attributes("Resize", mode="linear"),
    ),
    Case(
        "resize_channels_first",
        lambda x: jax.image.resize(x, (*x.shape[:2], 8, 15), "linear"),
        [("B", 3, 4, 5)],
        expect="Resize",
        rtol=CLOSE,
    ),
    Case(
        "resize_cubic",
        lambda x: jax.image.resize(x, (2, 8, 10, 3), "cubic"),
        [(2, 4, 5, 3)],
        rtol=CLOSE,
        expect="Transpose -> Reshape -> MatMul -> Reshape -> Transpose -> MatMul -> Transpose",
    ),
    Case(
        "resize_smaller",
        lambda x: jax.image.resize(x, (2, 2, 3, 3), "linear"),
        [(2, 4, 5, 3)],
        rtol=CLOSE,
        expect="Transpose -> Reshape -> MatMul -> Reshape -> Transpose -> MatMul -> Transpose",
    ),
]
