"""Small whole models as people write them in Linen: every layer is its operator, and the sizes are dynamic."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.typing import DTypeLike
from jax2onnx_core import to_onnx
from jax2onnx_linen._trained import trained_variables
from jax2onnx_report.summary import operators


class Residual(nn.Module):
    width: int
    stride: int = 1

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        def norm(y: jax.Array) -> jax.Array:
            return nn.BatchNorm(use_running_average=not train)(y)

        y = nn.relu(norm(nn.Conv(self.width, (3, 3), self.stride, use_bias=False)(x)))
        y = norm(nn.Conv(self.width, (3, 3), use_bias=False)(y))
        if x.shape != y.shape:
            x = norm(nn.Conv(self.width, (1, 1), self.stride, use_bias=False)(x))
        return nn.relu(x + y)


class ResNet(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(nn.Conv(8, (7, 7), 2, use_bias=False)(x)))
        x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        x = Residual(16, 2)(Residual(8)(x, train), train)
        return nn.Dense(10)(x.mean((1, 2)))


class Block(nn.Module):
    is_causal: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        mask = nn.make_causal_mask(x[..., 0]) if self.is_causal else None
        x = x + nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x), mask=mask)
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x))))


class ViT(nn.Module):
    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        x = nn.Conv(16, (4, 4), (4, 4))(images)
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        x = x + self.param("positions", nn.initializers.normal(), (1, *x.shape[1:]))
        return nn.Dense(10)(nn.LayerNorm()(Block()(Block()(x))).mean(1))


class Decoder(nn.Module):
    def setup(self) -> None:
        self.embed = nn.Embed(20, 16)
        self.positions = nn.Embed(12, 16)
        self.blocks = [Block(is_causal=True) for _ in range(2)]
        self.norm = nn.LayerNorm()

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens) + self.positions(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.embed.attend(self.norm(x))


class BiLSTM(nn.Module):
    param_dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        def rnn() -> nn.RNN:
            return nn.RNN(nn.OptimizedLSTMCell(8, param_dtype=self.param_dtype))

        x = nn.Bidirectional(rnn(), rnn())(nn.Embed(20, 8, param_dtype=self.param_dtype)(tokens))
        return nn.Dense(5)(x)


IMAGES, TOKENS = [("B", 16, 16, 3)], [(("B", "T"), np.int32)]
MODELS: dict[str, tuple[nn.Module, Any, dict[str, int], list[str]]] = {
    "resnet": (ResNet(), IMAGES, {"Conv": 6, "MaxPool": 1, "MatMul": 1, "Mul": 0, "Sub": 0}, ["Residual_0.Conv_0.kernel"]),
    "vit": (
        ViT(), IMAGES, {"Conv": 1, "LayerNormalization": 5, "Attention": 2, "Gelu": 2, "MatMul": 13},
        ["positions", "Block_0.MultiHeadDotProductAttention_0.query.kernel"],
    ),
    "decoder": (
        Decoder(), TOKENS, {"LayerNormalization": 5, "Attention": 2, "Gelu": 2, "MatMul": 12, "Gemm": 1, "Gather": 2},
        ["embed.embedding", "blocks_1.Dense_0.kernel"],
    ),
    "bilstm": (BiLSTM(), TOKENS, {"Gather": 1, "MatMul": 1, "If": 1, "LSTM": 1, "Loop": 0}, ["Embed_0.embedding", "Dense_0.kernel"]),
}  # fmt: skip


def example(specs: Any, batch: int, length: int, dtype: DTypeLike) -> Any:
    rng = np.random.default_rng(batch)
    if specs is TOKENS:
        return rng.integers(0, 20, (batch, length)).astype(np.int32)
    return rng.standard_normal((batch, 16, 16, 3)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, dtype: DTypeLike) -> None:
    model, specs, counts, weights = MODELS[name]
    with jax.enable_x64(dtype == np.float64):
        if name == "bilstm":
            model = model.copy(param_dtype=dtype)
        variables = trained_variables(model, example(specs, 2, 5, dtype), dtype=dtype)
        program = to_onnx((model, variables), specs, constraints=["T <= 12"] if name == "decoder" else [])
        x = example(specs, 3, 7, dtype)
        tolerance = 2e-5 if dtype == np.float32 else 1e-11
        np.testing.assert_allclose(program(x), jax.jit(model.apply)(variables, x), rtol=tolerance, atol=tolerance)
    if dtype == np.float32:
        found = operators(program.model)
        assert {op_type: found[op_type] for op_type in counts} == counts
        assert set(weights) <= {
            part for name in program.model.graph.initializers for part in (name, name.partition("/")[0])
        }
