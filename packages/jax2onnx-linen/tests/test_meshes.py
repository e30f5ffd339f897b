"""Partitioned variables are exported as if there were one device."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen import spmd
from jax.sharding import AxisType
from jax2onnx_core import to_onnx


class Perceptron(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        init = nn.initializers.lecun_normal()
        x = nn.relu(nn.Dense(16, kernel_init=nn.with_partitioning(init, (None, "model")))(x))
        x = spmd.with_logical_constraint(x, ("batch", "hidden"))
        return nn.Dense(8, kernel_init=nn.with_logical_partitioning(init, ("hidden", "embed")))(x)


def test_partitioned_variables_and_logical_axes_leave_no_trace() -> None:
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    rules = [("batch", "data"), ("hidden", "model"), ("embed", None)]
    with jax.set_mesh(mesh), nn.logical_axis_rules(rules):
        model = Perceptron()
        program = to_onnx(model.bind(model.init(jax.random.key(0), jnp.ones((4, 8)))), [("2*b", 8)])
        program.verify()
    assert [node.op_type for node in program.model.graph] == ["MatMul", "Add", "Relu", "MatMul", "Add"]
    assert sorted(program.model.graph.initializers) == [
        "Dense_0.bias",
        "Dense_0.kernel",
        "Dense_1.bias",
        "Dense_1.kernel",
    ]
