"""Modules whose weights have shardings are exported as if there were one device."""

from __future__ import annotations

import jax
import pytest
from flax import nnx
from jax.sharding import AxisType
from jax2onnx_core import to_onnx


class Perceptron(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        init = nnx.initializers.lecun_normal()
        self.up = nnx.Linear(8, 16, kernel_init=nnx.with_partitioning(init, (None, "model")), rngs=rngs)
        self.down = nnx.Linear(16, 8, kernel_init=nnx.with_partitioning(init, ("model", None)), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        hidden = nnx.relu(self.up(x))
        is_explicit = not jax.typeof(hidden).sharding.mesh.are_all_axes_auto
        return self.down(jax.reshard(hidden, jax.P(None, None)) if is_explicit else hidden)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_partitioned_weights_keep_their_names(kind: AxisType) -> None:
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(kind,) * 2)
    with jax.set_mesh(mesh):
        program = to_onnx(Perceptron(nnx.Rngs(0)), [("B", 8)])
        program.verify()
    assert sorted(program.model.graph.initializers) == ["down.bias", "down.kernel", "up.bias", "up.kernel"]


def test_a_module_over_a_divided_batch_is_the_graph_for_one_device() -> None:
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    rngs = nnx.Rngs(0)
    model = nnx.Sequential(nnx.Linear(8, 16, rngs=rngs), nnx.gelu, nnx.LayerNorm(16, rngs=rngs))
    over = jax.shard_map(lambda x: model(x), mesh=mesh, in_specs=jax.P("data"), out_specs=jax.P("data"))
    program = to_onnx(over, [("8*b", 8)])
    program.verify()
    assert [node.op_type for node in program.model.graph] == [n.op_type for n in to_onnx(model, [("B", 8)]).model.graph]
