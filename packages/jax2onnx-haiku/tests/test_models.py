"""Small whole models as people write them in Haiku: every layer is its operator, and the sizes are dynamic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.typing import DTypeLike
from jax2onnx_core import to_onnx
from jax2onnx_report.summary import operators


def layer_norm(x: jax.Array) -> jax.Array:
    return hk.LayerNorm(-1, create_scale=True, create_offset=True)(x)


def block(x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    y = layer_norm(x)
    x = x + hk.MultiHeadAttention(2, 8, w_init=hk.initializers.VarianceScaling())(y, y, y, mask)
    return x + hk.nets.MLP([64, 16], activation=jax.nn.gelu)(layer_norm(x))


def resnet(images: jax.Array) -> jax.Array:
    net = hk.nets.ResNet(
        (1, 1, 1, 1), 10, bottleneck=False, channels_per_group=(4, 4, 8, 8), logits_config={"w_init": None}
    )
    return net(images, is_training=hk.running_init())


def vit(images: jax.Array) -> jax.Array:
    x = hk.Conv2D(16, 16, stride=16)(images)
    x = x.reshape(x.shape[0], -1, x.shape[-1])
    x = x + hk.get_parameter("positions", x.shape[1:], x.dtype, init=hk.initializers.RandomNormal())
    return hk.Linear(10)(layer_norm(block(block(x))).mean(1))


def decoder(tokens: jax.Array) -> jax.Array:
    embed, length = hk.Embed(20, 16), tokens.shape[1]
    x = (embed(tokens) + hk.Embed(12, 16, name="positions")(jnp.arange(length))).astype(float)
    mask = jnp.tril(jnp.ones((1, 1, length, length), bool))
    return layer_norm(block(block(x, mask), mask)) @ embed.embeddings.T


def bilstm(tokens: jax.Array) -> jax.Array:
    x = hk.Embed(20, 8)(tokens).astype(float)

    def unrolled(*, reverse: bool) -> jax.Array:
        core = hk.LSTM(8)
        return hk.dynamic_unroll(core, x, core.initial_state(x.shape[0]), time_major=False, reverse=reverse)[0]

    return hk.Linear(5)(jnp.concatenate([unrolled(reverse=False), unrolled(reverse=True)], -1))


IMAGES, TOKENS = [("B", 64, 64, 3)], [(("B", "T"), np.int32)]
MODELS: dict[str, tuple[Callable[[jax.Array], jax.Array], Any, dict[str, int], list[str]]] = {
    "resnet": (
        resnet, IMAGES, {"Conv": 13, "MaxPool": 1, "MatMul": 1, "Mul": 0, "Sub": 0},
        ["res_net/~/initial_conv.w", "res_net/~/logits.w"],
    ),
    "vit": (
        vit, IMAGES, {"Conv": 1, "LayerNormalization": 5, "Attention": 2, "Gelu": 2, "MatMul": 13},
        ["~.positions", "multi_head_attention/query.w", "mlp_1/~/linear_0.b"],
    ),
    "decoder": (
        decoder, TOKENS, {"LayerNormalization": 5, "Attention": 2, "Gelu": 2, "MatMul": 12, "Gemm": 1, "Gather": 2},
        ["embed.embeddings", "layer_norm_4.scale"],
    ),
    "bilstm": (bilstm, TOKENS, {"Gather": 1, "MatMul": 1, "If": 1, "LSTM": 1, "Loop": 0}, ["embed.embeddings", "linear.w"]),
}  # fmt: skip


def example(specs: Any, batch: int, length: int, dtype: DTypeLike) -> Any:
    rng = np.random.default_rng(batch)
    if specs is TOKENS:
        return rng.integers(0, 20, (batch, length)).astype(np.int32)
    return rng.standard_normal((batch, 64, 64, 3)).astype(dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, dtype: DTypeLike) -> None:
    fn, specs, counts, weights = MODELS[name]
    with jax.enable_x64(dtype == np.float64):
        transformed = hk.transform_with_state(fn)
        params, state = jax.jit(transformed.init)(jax.random.key(0), example(specs, 2, 5, dtype))
        model: Any = (transformed, params, jax.tree.map(lambda s: s + 0.5, state))
        program = to_onnx(model, specs, constraints=["T <= 12"] if name == "decoder" else [])
        x = example(specs, 3, 7, dtype)
        expected, _ = jax.jit(transformed.apply)(*model[1:], None, x)
        tolerance = 2e-4 if dtype == np.float32 else 1e-11
        np.testing.assert_allclose(program(x), expected, rtol=tolerance, atol=tolerance)
    if dtype == np.float32:
        found = operators(program.model)
        assert {op_type: found[op_type] for op_type in counts} == counts
        names = set(program.model.graph.initializers)
        assert set(weights) <= {name.removesuffix(suffix) for name in names for suffix in ("", "/transposed")}
