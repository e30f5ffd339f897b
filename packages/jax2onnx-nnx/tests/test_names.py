"""Tests of the names in a model: nodes under the paths of modules, weights under the paths of parameters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax2onnx_core import to_onnx


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.attn = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.attn(self.norm(x))


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(3, 8, (3, 3), rngs=rngs)
        self.bn = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.blocks = nnx.List([Block(rngs), Block(rngs)])
        self.rnn = nnx.RNN(nnx.LSTMCell(8, 4, rngs=rngs))

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.bn(self.conv(x))).reshape(x.shape[0], -1, 8)
        for block in self.blocks:
            x = block(x)
        return jnp.einsum("bto->bo", self.rnn(x) ** 3)


@pytest.fixture(scope="module")
def program():
    return to_onnx(Net(nnx.Rngs(0)), [("B", 4, 4, 3)])


def test_nodes_carry_the_path_of_their_module(program):
    names = {node.name for node in program.model.graph}
    attention = {f"blocks.{i}.attn/Attention" for i in range(2)}
    assert names >= attention | {"conv/Conv", "blocks.1.attn.out/MatMul", "blocks.0/Add", "rnn/LSTM"}
    assert not any("->" in name for name in names)


def test_the_graph_has_the_name_of_the_class(program):
    assert program.model.graph.name == "Net"


def test_values_are_named_after_their_nodes(program):
    assert not any(value.name.startswith("val_") for node in program.model.graph for value in node.outputs)


def test_transformed_weights_keep_their_names(program):
    floats = {
        name for name, v in program.model.graph.initializers.items() if v.dtype.is_floating_point() and v.shape.rank()
    }
    parts = ("query", "key", "value", "out")
    attention = {f"attn.{part}.{kind}" for part in parts for kind in ("kernel", "bias")}
    blocks = {f"blocks.{i}.{name}" for i in range(2) for name in attention | {"norm.scale", "norm.bias"}}
    recurrent = {"rnn.cell.kernel", "rnn.cell.kernel_1", "rnn.cell.bias"}
    assert floats == blocks | {"conv.kernel", "conv.bias"} | recurrent


def test_a_module_used_twice_is_named_twice():
    net = nnx.Linear(8, 8, rngs=nnx.Rngs(0))
    nodes = [node.name for node in to_onnx(lambda x: net(net(x)), [("B", 8)]).model.graph]
    assert nodes == ["dot_general.MatMul", "add.Add", "dot_general.MatMul_1", "add.Add_1"]


def test_every_call_of_a_part_has_its_path():
    class Twice(nnx.Module):
        def __init__(self) -> None:
            self.dense = nnx.Linear(8, 8, rngs=nnx.Rngs(0))

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.dense(jax.jit(self.dense)(x))

    nodes = [node.name for node in to_onnx(Twice(), [("B", 8)]).model.graph]
    assert nodes == ["dense/MatMul", "dense/Add", "dense/MatMul_1", "dense/Add_1"]


class Dotted(nnx.Module):
    """Variables whose paths are one text: `("d", "a.b")` and `("d", "a", "b")`."""

    def __init__(self, kind: type[nnx.Variable[jax.Array]] = nnx.Param) -> None:
        self.d: Any = nnx.Dict({"a.b": kind(jnp.full(3, 2.0)), "a": nnx.Dict({"b": kind(jnp.full(3, 5.0))})})

    def __call__(self, x: jax.Array) -> jax.Array:
        return x * self.d["a.b"] + 10 * self.d["a"]["b"]


class Counting(Dotted):
    def __call__(self, x: jax.Array) -> jax.Array:
        self.d["a.b"][...] += 1
        self.d["a"]["b"][...] += 2
        return super().__call__(x)


def test_weights_whose_paths_are_one_text_are_apart():
    graph, state = nnx.split(Dotted())
    for model in (Dotted(), lambda x: nnx.merge(graph, state, copy=True)(x)):
        assert {"d.a.b", "d.a.b_1"} <= set(to_onnx(model, [("B", 3)]).model.graph.initializers)
    absent = to_onnx(nnx.eval_shape(Dotted), [("B", 3)])
    given = {"d.a.b": jnp.full(3, 5.0), "d.a.b_1": jnp.full(3, 2.0)}
    assert absent.with_weights(given)(jnp.ones((1, 3))).tolist() == [[52.0] * 3]


def test_states_whose_paths_are_one_text_are_apart():
    model, x = Counting(nnx.BatchStat), jnp.ones((1, 3))
    session = to_onnx(model, [("B", 3)], states=nnx.BatchStat).session()
    assert len(session.state) == 2
    for _ in range(2):
        assert session.step(x).tolist() == model(x).tolist()
