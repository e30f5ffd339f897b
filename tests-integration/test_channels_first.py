"""Models of images that take and give channels first: nothing is transposed in them."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import to_onnx
from jax2onnx_testing.checks import check_at_sizes

from examples import library_models
from examples.any_size_models import AnySizeResNet, AnySizeUNet
from examples.golden_models import Cnn
from examples.models import ResNet, UNet, as_trained

FIRST = "NHWC->NCHW"


def trained(model: Callable[..., nnx.Module], **options: Any) -> nnx.Module:
    return as_trained(model(**options, rngs=nnx.Rngs(0)), seed=0)


def check(model: Any, shape: tuple[Any, ...], image: tuple[int, ...], *, result_is_image: bool = False) -> Counter[str]:
    """The operators of a model that takes channels first and computes what the function does."""
    outputs = {0: FIRST} if result_is_image else None
    program = to_onnx(model, [shape], input_layouts={0: FIRST}, output_layouts=outputs)
    check_at_sizes(program)
    (feed,) = program.feeds(np.zeros(image, np.float32)).values()
    assert feed.shape == (image[0], image[3], image[1], image[2])
    return Counter(node.op_type for node in program.model.graph)


@pytest.mark.parametrize(
    ("model", "shape"),
    [(ResNet, ("B", 32, 32, 3)), (AnySizeResNet, ("B", "H", "W", 3)), (Cnn, ("B", 16, 16, 3))],
)
def test_nnx_classifiers(model: Callable[..., nnx.Module], shape: tuple[Any, ...]) -> None:
    assert not check(trained(model), shape, (2, 16, 16, 3) if model is Cnn else (2, 32, 32, 3))["Transpose"]


@pytest.mark.parametrize(("model", "shape"), [(UNet, ("B", 32, 32, 3)), (AnySizeUNet, ("B", "4*H", "4*W", 3))])
def test_nnx_images_to_images(model: Callable[..., nnx.Module], shape: tuple[Any, ...]) -> None:
    assert not check(trained(model), shape, (2, 32, 32, 3), result_is_image=True)["Transpose"]


class LinenCnn(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in (8, 16):
            y = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(width, (3, 3), use_bias=False)(x)))
            x = nn.max_pool(nn.relu(nn.Conv(width, (3, 3))(y) + y), (2, 2), (2, 2))
        return nn.Dense(10)(nn.relu(nn.Dense(32)(x.reshape(x.shape[0], -1))))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_linen_classifier_with_dense_layers(channels: int) -> None:
    model, image = LinenCnn(), jnp.zeros((1, 16, 16, channels))
    bound = model.bind(model.init(jax.random.key(0), image))
    operators = check(bound, ("B", 16, 16, channels), image.shape)
    assert not operators["Transpose"]
    assert (operators["Reshape"], operators["Flatten"]) in [(1, 0), (0, 1)]


def test_a_linen_unet_with_an_input_that_is_no_image() -> None:
    model, image, time = library_models.UNet(), jnp.zeros((1, 16, 16, 3)), jnp.zeros(1)
    bound = model.bind(model.init(jax.random.key(0), image, time))
    layouts: dict[str, Any] = {"input_layouts": {"x": FIRST}, "output_layouts": {0: FIRST}}
    program = to_onnx(bound, [("B", 16, 16, 3), ("B",)], **layouts)
    check_at_sizes(program)
    moved = [node for node in program.model.graph if node.op_type == "Transpose"]
    assert len(moved) == 2, "the attention in the middle has its features last"


class Decoder(nn.Module):
    """A vector → an image."""

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        x = nn.relu(nn.Dense(4 * 4 * 8)(z)).reshape(z.shape[0], 4, 4, 8)
        return nn.tanh(nn.Conv(3, (3, 3))(nn.relu(nn.ConvTranspose(8, (3, 3), (2, 2))(x))))


def test_a_decoder_of_vectors() -> None:
    model = Decoder()
    bound = model.bind(model.init(jax.random.key(0), jnp.zeros((1, 5))))
    program = to_onnx(bound, [("B", 5)], output_layouts={"output": "NCHW"})
    check_at_sizes(program)
    assert "Transpose" not in {node.op_type for node in program.model.graph}


def test_weights_that_are_absent(tmp_path: Path) -> None:
    model, image = LinenCnn(), jnp.zeros((1, 16, 16, 3))
    variables = model.init(jax.random.key(0), image)
    absent = jax.eval_shape(lambda: variables)
    layouts: dict[str, Any] = {"input_layouts": {0: FIRST}}
    whole = to_onnx(functools.partial(model.apply, variables), [("B", 16, 16, 3)], **layouts)
    program = to_onnx(functools.partial(model.apply, absent), [("B", 16, 16, 3)], **layouts)
    assert not any(node.op_type == "Transpose" for node in program.model.graph)
    given = {
        ".".join(key.key for key in path[1:]): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(variables)
    }
    files = [whole.save(tmp_path / "whole.onnx"), program.save(tmp_path / "absent.onnx", weights=given)]
    assert len({file.read_bytes() for file in files}) == 1
