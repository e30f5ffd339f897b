"""Tests of the names in a model: nodes under the paths of modules, weights under the paths of parameters."""

from __future__ import annotations

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
