"""Whole models of which only the types of the weights are known: saved with weights, they are the models with arrays."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import to_onnx

from examples.ten_models import MODELS

OF_NNX = ["MLP", "CNN", "ViT", "GPT", "LSTM", "decoder with cache", "dynamic shapes"]


def types(tree: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype) if isinstance(x, jax.Array) else x, tree)


def check(whole: Any, absent: Any, inputs: Any, weights: Any, folder: Path, **options: Any) -> None:
    """The two models are exported to the same file, once the second has its weights."""
    expected, program = to_onnx(whole, inputs, **options), to_onnx(absent, inputs, **options)
    given = {name: weights[name] for name in program.weights}
    assert given, "the model has weights"
    paths = [
        expected.save(folder / "expected.onnx", external_data=False),
        program.save(folder / "found.onnx", external_data=False, weights=given),
    ]
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("name", OF_NNX)
def test_nnx(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    graph, state = nnx.split(model.fn)
    weights = {".".join(map(str, path)): leaf.get_value() for path, leaf in nnx.to_flat_state(state)}
    absent = nnx.merge(graph, types(state))
    check(model.fn, absent, model.inputs, weights, tmp_path, constraints=model.constraints)


def test_nnx_eval_shape(tmp_path: Path) -> None:
    absent = nnx.eval_shape(lambda: nnx.Linear(3, 4, rngs=nnx.Rngs(0)))
    weights = {"kernel": jnp.ones((3, 4)), "bias": jnp.ones(4)}
    whole = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    nnx.update(whole, weights)
    check(whole, absent, [("B", 3)], weights, tmp_path)


def test_a_recurrent_layer_of_several_weights() -> None:
    whole = nnx.RNN(nnx.LSTMCell(3, 4, rngs=nnx.Rngs(0)))
    graph, state = nnx.split(whole)
    weights = {".".join(map(str, path)): leaf.get_value() for path, leaf in nnx.to_flat_state(state)}
    program = to_onnx(nnx.merge(graph, types(state)), [("B", "T", 3)])
    assert "LSTM" in [node.op_type for node in program.model.graph.all_nodes()]
    program.with_weights({name: weights[name] for name in program.weights}).verify()


class Net(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(8, (3, 3))(x)
        x = nn.relu(nn.BatchNorm(use_running_average=True)(x))
        return nn.Dense(4)(x.mean((1, 2)))


def linen_forms() -> dict[str, Callable[[Any], Any]]:
    net = Net()
    return {
        "bound": net.bind,
        "pair": lambda variables: (net, variables),
        "partial": lambda variables: functools.partial(net.apply, variables),
        "closure": lambda variables: lambda x: net.apply(variables, x),
    }


@pytest.mark.parametrize("form", linen_forms())
def test_linen(form: str, tmp_path: Path) -> None:
    make = linen_forms()[form]
    variables = Net().init(jax.random.key(0), jnp.ones((1, 8, 8, 3)))
    flat = jax.tree_util.tree_flatten_with_path(variables)[0]
    weights = {jax.tree_util.keystr(path[1:], simple=True, separator="."): leaf for path, leaf in flat}
    check(make(variables), make(types(variables)), [("B", 8, 8, 3)], weights, tmp_path)


def test_equinox(tmp_path: Path) -> None:
    def make() -> Any:
        return eqx.nn.MLP(3, 4, 8, 2, key=jax.random.key(0))

    whole, absent = make(), eqx.filter_eval_shape(make)
    weights = {
        f"layers.{i}.{name}": vars(layer)[name] for i, layer in enumerate(whole.layers) for name in ("weight", "bias")
    }
    check(jax.vmap(whole), jax.vmap(absent), [("B", 3)], weights, tmp_path)


def test_equinox_types_that_are_one_object(tmp_path: Path) -> None:
    whole = eqx.nn.MLP(4, 4, 4, 2, key=jax.random.key(0))
    square = jax.ShapeDtypeStruct((4, 4), np.float32)
    absent = jax.tree.map(lambda x: square if isinstance(x, jax.Array) and x.ndim == 2 else x, whole)
    weights = {f"layers.{i}.weight": layer.weight for i, layer in enumerate(whole.layers)}
    check(whole, absent, [(4,)], weights, tmp_path)


def test_haiku(tmp_path: Path) -> None:
    transformed = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([6, 5])(x)))
    params = transformed.init(jax.random.key(0), jnp.ones((1, 4)))  # type: ignore[attr-defined]  # Haiku's annotation is a name of its own file
    weights = {f"{path}.{name}": array for path, arrays in params.items() for name, array in arrays.items()}
    check((transformed, params), (transformed, types(params)), [("B", 4)], weights, tmp_path)


SHARDED = """
import functools, sys
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np, orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jax2onnx_core import to_onnx

folder = Path(sys.argv[1])
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
layouts = {"up": P("x", "y"), "down": P(("x", "y"), None), "scale": P()}
shapes = {"up": (64, 128), "down": (128, 32), "scale": (32,)}
rng = np.random.default_rng(0)
arrays = {k: rng.standard_normal(shapes[k]).astype(jnp.bfloat16) for k in shapes}
placed = {k: jax.device_put(a, NamedSharding(mesh, layouts[k])) for k, a in arrays.items()}
with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(folder / "checkpoint", placed)

def apply(w, x):
    return (jnp.tanh(x @ w["up"]) @ w["down"] * w["scale"]).astype(jnp.float32)

types = {k: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=NamedSharding(mesh, layouts[k])) for k, a in arrays.items()}
program = to_onnx(functools.partial(apply, types), [(("B", 64), jnp.bfloat16)])
assert set(program.weights) == set(arrays)
whole = to_onnx(functools.partial(apply, arrays), [(("B", 64), jnp.bfloat16)])
a = program.save(folder / "a.onnx", weights=folder / "checkpoint")
b = whole.save(folder / "b.onnx")
assert a.read_bytes() == b.read_bytes()
"""


def test_a_checkpoint_of_sharded_arrays_and_types_with_shardings(tmp_path: Path) -> None:
    pytest.importorskip("orbax.checkpoint")
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    command = [sys.executable, "-W", "ignore", "-c", SHARDED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
