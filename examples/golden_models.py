"""The models whose graphs are kept as text: small, each telling of one part of the converter.

All are as after training: no parameter is zero or one, where a pass would drop it or take it for another. Parameters
have more than eight elements, so that their values are not in the texts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_functions import onnx_function

from examples.cached_models import DecoderLayer
from examples.models import BiLstm, Block, ConvNorm, Double, Mlp, as_trained
from examples.recurrent_models import FAMILIES, Sizes, decoding, writings

__all__ = ["EXPORTS"]


class Cnn(nnx.Module):
    """[B, 16, 16, 3] → [B, 10]: a strided convolution, batch norm, max pooling, a head."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.stem = ConvNorm(3, 16, 3, stride=2, rngs=rngs)
        self.conv = nnx.Conv(16, 16, (3, 3), rngs=rngs)
        self.head = nnx.Linear(4 * 4 * 16, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.stem(x))
        x = nnx.max_pool(nnx.relu(self.conv(x)), (2, 2), (2, 2))
        return self.head(x.reshape(x.shape[0], -1))


class UNetStage(nnx.Module):
    """[B, H, W, C] → [B, H, W, C] for any H and W: down, a deeper level, up again, cropped beside the skip."""

    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        self.down = Double(width, width, rngs=rngs)
        self.deeper = Double(width, 2 * width, rngs=rngs)
        self.up = nnx.ConvTranspose(2 * width, width, (2, 2), strides=(2, 2), rngs=rngs)
        self.merge = Double(2 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        skip = self.down(x)
        deep = self.deeper(nnx.avg_pool(skip, (2, 2), (2, 2), padding="SAME"))
        cropped = self.up(deep)[:, : skip.shape[1], : skip.shape[2]]
        return self.merge(jnp.concatenate([cropped, skip], axis=-1))


class MixtureOfExperts(nnx.Module):
    """[B, T, D] → [B, T, D]: each token goes through the two experts that the router gives the largest weights."""

    def __init__(self, width: int, experts: int, *, rngs: nnx.Rngs) -> None:
        self.router = nnx.Linear(width, experts, use_bias=False, rngs=rngs)
        self.up = nnx.Param(0.1 * jax.random.normal(rngs.params(), (experts, width, 2 * width)))
        self.down = nnx.Param(0.1 * jax.random.normal(rngs.params(), (experts, 2 * width, width)))

    def __call__(self, x: jax.Array) -> jax.Array:
        logits, chosen = jax.lax.top_k(self.router(x), 2)
        experts = self.router.out_features
        gates = jax.nn.softmax(logits, axis=-1)[..., None] * jax.nn.one_hot(chosen, experts)
        hidden = jax.nn.silu(jnp.einsum("btd,edh->bteh", x, self.up[...]))
        return jnp.einsum("bteh,ehd,bte->btd", hidden, self.down[...], gates.sum(axis=-2))


class Patches(nnx.Module):
    """[B, H, W, 3] → [B, (H/4)·(W/4), 16] for H and W divisible by 4: reshapes of unknown sizes, then a projection."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.project = nnx.Linear(4 * 4 * 3, 16, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        batch, height, width, channels = images.shape
        x = images.reshape(batch, height // 4, 4, width // 4, 4, channels).transpose(0, 1, 3, 2, 4, 5)
        x = self.project(x.reshape(batch, (height // 4) * (width // 4), 16 * channels))
        return x - x.mean(axis=1, keepdims=True)


class SharedBlocks(nnx.Module):
    """[B, T, 16] → [B, T, 16]: two layers of equal structure, which become one ONNX function called twice."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.layers = nnx.List([Mlp(16, 32, rngs=rngs) for _ in range(2)])

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in self.layers:
            x = x + feed_forward(layer, x)
        return x


@onnx_function
def feed_forward(layer: Mlp, x: jax.Array) -> jax.Array:
    return layer(x)


def moving_average(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[T, 3] → [T, 3] and [3]: an exponential moving average that a large step resets, and its last value."""

    def step(mean: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array]:
        far = jnp.abs(value - mean).max() > 4.0
        mean = jax.lax.cond(far, lambda m, v: v, lambda m, v: 0.9 * m + 0.1 * v, mean, value)
        return mean, mean

    last, means = jax.lax.scan(step, jnp.zeros(3), x)
    return means, last


def principal_axes(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[N, 3] → variances [3] and axes [3, 3] of a point cloud."""
    centred = x - x.mean(axis=0)
    return jnp.linalg.eigh(centred.T @ centred / x.shape[0])


def sample(key: jax.Array, logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A key and [B, 5] → the next key, and one token for each row, drawn with temperature 0.7."""
    key, now = jax.random.split(key)
    return key, jax.random.categorical(now, logits / 0.7)


def trained(make: Callable[[nnx.Rngs], nnx.Module]) -> nnx.Module:
    """The model with its parameters as after training."""
    return as_trained(make(nnx.Rngs(0)), seed=0)


def mlp() -> OnnxProgram:
    return to_onnx(trained(lambda rngs: Mlp(16, 64, rngs=rngs)), [("B", 16)])


def cnn() -> OnnxProgram:
    return to_onnx(trained(lambda rngs: Cnn(rngs=rngs)), [("B", 16, 16, 3)])


def vit_block() -> OnnxProgram:
    return to_onnx(trained(lambda rngs: Block(32, 4, dropout=0.1, rngs=rngs)), [("B", 17, 32)])


def gpt_block_cached() -> OnnxProgram:
    past = ("B", 4, "S", 4)
    inputs = [("B", "T", 16), past, past, (("T", "S + T"), bool)]
    model = trained(lambda rngs: DecoderLayer(16, 4, rngs=rngs))
    return to_onnx(model, inputs, constraints=["S >= 0"], output_names=["y", "k", "v"])


def lstm() -> OnnxProgram:
    return to_onnx(trained(lambda rngs: BiLstm(classes=10, rngs=rngs)), [("B", "T", 12)])


def unet_stage() -> OnnxProgram:
    return to_onnx(trained(lambda rngs: UNetStage(16, rngs=rngs)), [("B", "H", "W", 16)])


def moe() -> OnnxProgram:
    return to_onnx(trained(lambda rngs: MixtureOfExperts(16, 4, rngs=rngs)), [("B", "T", 16)])


def patches() -> OnnxProgram:
    divisible = ["mod(H, 4) == 0", "mod(W, 4) == 0"]
    return to_onnx(trained(lambda rngs: Patches(rngs=rngs)), [("B", "H", "W", 3)], constraints=divisible)


def shared_blocks() -> OnnxProgram:
    return to_onnx(trained(lambda rngs: SharedBlocks(rngs=rngs)), [("B", "T", 16)])


def scan() -> OnnxProgram:
    return to_onnx(moving_average, [("T", 3)])


def eigh() -> OnnxProgram:
    return to_onnx(principal_axes, [("N", 3)])


def random() -> OnnxProgram:
    return to_onnx(sample, [jax.random.key(0), ("B", 5)])


def recurrence(name: str, writing: str, length: int | str = 40) -> OnnxProgram:
    """A recurrence over time in a way of writing, with its state as input and result; matrices are large enough for a kernel."""
    family = FAMILIES[name](Sizes(heads=2, features=48, channels=32, states=4))
    function = decoding(family) if writing == "step" else writings(family)[writing]
    dtype = jnp.complex64 if family.complex else jnp.float32
    return to_onnx(
        function, [tuple((shape, dtype) for shape in family.state), tuple((length, *shape) for shape in family.rows)]
    )


def _text_name(family: str) -> str:
    return family.lower().replace(" ", "_").replace("-", "_")


EXPORTS: dict[str, Callable[[], OnnxProgram]] = {
    "mlp": mlp,
    "cnn": cnn,
    "vit_block": vit_block,
    "gpt_block_cached": gpt_block_cached,
    "lstm": lstm,
    "unet_stage": unet_stage,
    "moe": moe,
    "patches": patches,
    "onnx_function": shared_blocks,
    "scan": scan,
    "eigh": eigh,
    "random": random,
    **{
        f"recurrence_{_text_name(name)}": functools.partial(recurrence, name, "scan")
        for name in FAMILIES
        if name != "LRU"
    },
    "recurrence_of_any_length": functools.partial(recurrence, "Gated DeltaNet", "scan", "T"),
    "recurrence_step": functools.partial(recurrence, "Mamba 1", "step", 1),
    "recurrence_fori_loop": functools.partial(recurrence, "RetNet", "fori_loop"),
    "recurrence_associative_scan": functools.partial(recurrence, "HGRN", "associative_scan"),
    "recurrence_chunked": functools.partial(recurrence, "RetNet", "chunked", 64),
}
"""Exports by the name of their text."""
