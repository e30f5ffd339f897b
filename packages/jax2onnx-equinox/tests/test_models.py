"""Whole models of Equinox: dynamic batch and length, equal to JAX, without loops."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx

KEY = jax.random.key(0)


def over_batch(model: Any, state: eqx.nn.State) -> Any:
    return lambda x: jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, state)[0]


class Residual(eqx.Module):
    convs: list[eqx.nn.Conv2d]
    norms: list[eqx.nn.BatchNorm]
    head: eqx.nn.Linear

    def __init__(self, dtype: Any) -> None:
        keys = jax.random.split(KEY, 3)
        sizes = [(3, 4), (4, 4)]
        self.convs = [
            eqx.nn.Conv2d(i, o, 3, padding=1, dtype=dtype, key=k) for (i, o), k in zip(sizes, keys, strict=False)
        ]
        self.norms = [eqx.nn.BatchNorm(4, "batch", mode="batch", dtype=dtype) for _ in sizes]
        self.head = eqx.nn.Linear(4, 5, dtype=dtype, key=keys[2])

    def __call__(self, x: jax.Array, state: eqx.nn.State) -> tuple[jax.Array, eqx.nn.State]:
        x, state = self.norms[0](self.convs[0](x), state)
        x = jax.nn.relu(x)
        y, state = self.norms[1](self.convs[1](x), state)
        x = eqx.nn.MaxPool2d(2, 2)(jax.nn.relu(x + y))
        return self.head(x.mean((1, 2))), state


class Block(eqx.Module):
    norms: list[eqx.nn.LayerNorm]
    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP

    def __init__(self, size: int, key: jax.Array, dtype: Any) -> None:
        first, second = jax.random.split(key)
        self.norms = [eqx.nn.LayerNorm(size, dtype=dtype) for _ in range(2)]
        self.attention = eqx.nn.MultiheadAttention(2, size, dtype=dtype, key=first)
        self.mlp = eqx.nn.MLP(size, size, 2 * size, 1, jax.nn.gelu, dtype=dtype, key=second)

    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        y = jax.vmap(self.norms[0])(x)
        x = x + self.attention(y, y, y, mask)
        return x + jax.vmap(self.mlp)(jax.vmap(self.norms[1])(x))


class Vit(eqx.Module):
    patches: eqx.nn.Conv2d
    blocks: list[Block]
    head: eqx.nn.Linear

    def __init__(self, dtype: Any) -> None:
        keys = jax.random.split(KEY, 3)
        self.patches = eqx.nn.Conv2d(3, 8, 4, stride=4, dtype=dtype, key=keys[0])
        self.blocks = [Block(8, keys[1], dtype)]
        self.head = eqx.nn.Linear(8, 5, dtype=dtype, key=keys[2])

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.patches(x).reshape(8, -1).T
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(0))


class Gpt(eqx.Module):
    table: eqx.nn.Embedding
    blocks: list[Block]
    head: eqx.nn.Linear

    def __init__(self, dtype: Any) -> None:
        keys = jax.random.split(KEY, 3)
        self.table = eqx.nn.Embedding(11, 8, dtype=dtype, key=keys[0])
        self.blocks = [Block(8, keys[1], dtype)]
        self.head = eqx.nn.Linear(8, 11, use_bias=False, dtype=dtype, key=keys[2])

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = jax.vmap(self.table)(tokens)
        mask = jnp.tril(jnp.ones(2 * tokens.shape, bool))
        for block in self.blocks:
            x = block(x, mask)
        return jax.vmap(self.head)(x)


class BiLstm(eqx.Module):
    cells: list[eqx.nn.LSTMCell]

    def __init__(self, dtype: Any) -> None:
        self.cells = [eqx.nn.LSTMCell(5, 4, dtype=dtype, key=key) for key in jax.random.split(KEY)]

    def __call__(self, x: jax.Array) -> jax.Array:
        def run(cell: eqx.nn.LSTMCell, x: jax.Array, reverse: bool) -> jax.Array:
            def step(carry: Any, x: jax.Array) -> Any:
                carry = cell(x, carry)
                return carry, carry[0]

            start = jnp.zeros(4, x.dtype)
            return jax.lax.scan(step, (start, start), x, reverse=reverse)[1]

        return jnp.concatenate([run(self.cells[0], x, False), run(self.cells[1], x, True)], -1)


def residual(dtype: Any) -> Any:
    model, state = eqx.nn.make_with_state(Residual)(dtype)
    return over_batch(eqx.nn.inference_mode(model), state)


MODELS = {
    "resnet": (residual, ("B", 3, 8, 8)),
    "vit": (lambda dtype: jax.vmap(Vit(dtype)), ("B", 3, 8, 8)),
    "gpt": (lambda dtype: jax.vmap(Gpt(dtype)), (("B", "T"), np.int32)),
    "bilstm": (lambda dtype: jax.vmap(BiLstm(dtype)), ("B", "T", 5)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("x64", [False, True], ids=["f32", "f64"])
@pytest.mark.parametrize("name", MODELS)
def test_a_whole_model(name, x64):
    build, shape = MODELS[name]
    with jax.enable_x64(x64):
        program = to_onnx(build(np.float64 if x64 else np.float32), [shape])
    program.verify()
    operators = {node.op_type for node in program.model.graph.all_nodes()}
    if x64:
        return  # in double precision ONNX Runtime has other operators for some layers
    # Where numbers are not finite, the LSTM is a Scan.
    assert operators & {"Scan", "Loop", "If"} == ({"Scan", "If"} if name == "bilstm" else set())
    assert {"resnet": {"Conv"}, "vit": {"Attention"}, "gpt": {"Attention"}, "bilstm": {"LSTM"}}[name] <= operators
