"""Models of images that take and give channels first: nothing is transposed in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from any_size_models import AnySizeResNet, AnySizeUNet
from flax import nnx
from jax2onnx_core import to_onnx
from models import ResNet, UNet, as_trained

FIRST = "NHWC->NCHW"


def trained(model: Callable[..., nnx.Module], **options: Any) -> nnx.Module:
    return as_trained(model(**options, rngs=nnx.Rngs(0)), seed=0)


def check(model: Any, shape: tuple[Any, ...], image: tuple[int, ...], *, result_is_image: bool = False) -> Counter[str]:
    """The operators of a model that takes channels first and computes what the function does."""
    outputs = {0: FIRST} if result_is_image else None
    program = to_onnx(model, [shape], input_layouts={0: FIRST}, output_layouts=outputs)
    program.verify()
    (feed,) = program.feeds(np.zeros(image, np.float32)).values()
    assert feed.shape == (image[0], image[3], image[1], image[2])
    return Counter(node.op_type for node in program.model.graph)


@pytest.mark.parametrize(
    ("model", "shape"),
    [(ResNet, ("B", 32, 32, 3)), (AnySizeResNet, ("B", "H", "W", 3))],
)
def test_nnx_classifiers(model: Callable[..., nnx.Module], shape: tuple[Any, ...]) -> None:
    assert not check(trained(model), shape, (2, 32, 32, 3))["Transpose"]


@pytest.mark.parametrize(("model", "shape"), [(UNet, ("B", 32, 32, 3)), (AnySizeUNet, ("B", "4*H", "4*W", 3))])
def test_nnx_images_to_images(model: Callable[..., nnx.Module], shape: tuple[Any, ...]) -> None:
    assert not check(trained(model), shape, (2, 32, 32, 3), result_is_image=True)["Transpose"]
