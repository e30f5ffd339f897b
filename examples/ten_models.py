"""Ten ordinary models with arguments: in tables and tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from examples.cached_models import DecoderLayer, causal_mask
from examples.golden_models import Cnn, UNetStage, principal_axes, sample
from examples.models import BiLstm, Gpt, Mlp, ViT, as_trained

__all__ = ["MODELS", "Model"]


@dataclasses.dataclass(frozen=True)
class Model:
    """A function or a model object, how its inputs are specified, and arguments for it."""

    fn: Callable[..., Any]
    inputs: Sequence[Any]
    arguments: Sequence[Any]
    constraints: Sequence[str] = ()


def numbers(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(7).standard_normal(shape), jnp.float32)


def trained(make: Callable[[nnx.Rngs], nnx.Module]) -> nnx.Module:
    return as_trained(make(nnx.Rngs(0)), seed=0)


def mlp() -> Model:
    return Model(trained(lambda rngs: Mlp(16, 64, rngs=rngs)), [("B", 16)], [numbers(3, 16)])


def cnn() -> Model:
    return Model(trained(lambda rngs: Cnn(rngs=rngs)), [("B", 16, 16, 3)], [numbers(2, 16, 16, 3)])


def vit() -> Model:
    make = trained(lambda rngs: ViT(width=48, depth=2, rngs=rngs))
    return Model(make, [("B", 32, 32, 3)], [numbers(2, 32, 32, 3)])


def gpt() -> Model:
    tokens = jnp.arange(14, dtype=jnp.int32).reshape(2, 7)
    return Model(trained(lambda rngs: Gpt(depth=2, rngs=rngs)), [(("B", "T"), jnp.int32)], [tokens])


def lstm() -> Model:
    return Model(trained(lambda rngs: BiLstm(rngs=rngs)), [("B", "T", 12)], [numbers(2, 5, 12)])


def decoder_with_cache() -> Model:
    past = ("B", 4, "S", 4)
    arguments = [numbers(2, 3, 16), numbers(2, 4, 5, 4), numbers(2, 4, 5, 4), causal_mask(3, 8)]
    model = trained(lambda rngs: DecoderLayer(16, 4, rngs=rngs))
    return Model(model, [("B", "T", 16), past, past, (("T", "S + T"), bool)], arguments, ["S >= 0"])


def linalg() -> Model:
    def fn(x: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        variances, _ = principal_axes(x)
        covariance = x.T @ x
        return variances, jnp.linalg.solve(covariance, b), jnp.linalg.cholesky(covariance)

    return Model(fn, [("N", 3), (3, 2)], [numbers(9, 3), numbers(3, 2)])


def random() -> Model:
    return Model(sample, [jax.random.key(0), ("B", 5)], [jax.random.key(5), numbers(4, 5)])


def control_flow() -> Model:
    def fn(x: jax.Array, limit: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(mean: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array]:
            far = jnp.abs(value - mean).max() > 1.0
            mean = jax.lax.cond(far, lambda m, v: v, lambda m, v: 0.9 * m + 0.1 * v, mean, value)
            return mean, mean

        last, means = jax.lax.scan(step, jnp.zeros(3), x)
        doubled = jax.lax.while_loop(lambda y: jnp.abs(y).sum() < limit, lambda y: 2 * y, last)
        return means, doubled

    return Model(fn, [("T", 3), ()], [numbers(6, 3), jnp.float32(20)])


def dynamic_shapes() -> Model:
    model = trained(lambda rngs: UNetStage(16, rngs=rngs))
    return Model(model, [("B", "H", "W", 16)], [numbers(1, 7, 10, 16)])


MODELS: dict[str, Callable[[], Model]] = {
    "MLP": mlp,
    "CNN": cnn,
    "ViT": vit,
    "GPT": gpt,
    "LSTM": lstm,
    "decoder with cache": decoder_with_cache,
    "linalg": linalg,
    "random": random,
    "scan, while, cond": control_flow,
    "dynamic shapes": dynamic_shapes,
}
"""The makers of the models, by the names in `docs/targets.md`."""
