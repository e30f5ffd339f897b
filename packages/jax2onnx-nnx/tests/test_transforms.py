"""Modules under NNX's own transformations, and layers that have no composite because their primitives are the best graph."""

from __future__ import annotations

import functools

import jax
import pytest
from flax import nnx
from jax2onnx_core import to_onnx
from jax2onnx_report.summary import operators


class Mlp(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up, self.down = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 8, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.down(nnx.relu(self.up(x)))


MLP = {"MatMul": 2, "Add": 2, "Relu": 1}
MLP_WEIGHTS = {"up.kernel", "up.bias", "down.kernel", "down.bias"}


class Stacked(nnx.Module):
    """Three layers whose weights are stacked, one after the other or side by side."""

    def __init__(self, rngs: nnx.Rngs, *, scanned: bool) -> None:
        self.scanned = scanned

        @nnx.split_rngs(splits=3)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def make(rngs: nnx.Rngs) -> Mlp:
            return Mlp(rngs)

        self.layers = make(rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        if self.scanned:
            return nnx.scan(_apply, in_axes=(0, nnx.Carry), out_axes=nnx.Carry)(self.layers, x)
        return nnx.vmap(_apply, in_axes=(0, None), out_axes=0)(self.layers, x)


def _apply(layer: Mlp, x: jax.Array) -> jax.Array:
    return layer(x)


def merged() -> object:
    graph, state = nnx.split(Mlp(nnx.Rngs(0)))
    return lambda x: nnx.merge(graph, state)(x)


def merged_from_an_argument() -> object:
    graph, state = nnx.split(Mlp(nnx.Rngs(0)))
    return functools.partial(lambda state, x: nnx.merge(graph, state)(x), state)


WAYS = {
    "jit of a module": lambda: nnx.jit(Mlp(nnx.Rngs(0))),
    "remat of a method": lambda: nnx.remat(Mlp(nnx.Rngs(0))),
    "split and merge": merged,
    "split and merge from an argument": merged_from_an_argument,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_graph_is_that_of_the_module(way):
    program = to_onnx(WAYS[way](), [("B", 8)])
    assert operators(program.model) == MLP
    assert set(program.model.graph.initializers) == MLP_WEIGHTS
    program.verify()


@pytest.mark.parametrize("scanned", [True, False])
def test_stacked_layers_keep_their_weights_stacked(scanned):
    program = to_onnx(Stacked(nnx.Rngs(0), scanned=scanned), [("B", 8)])
    assert operators(program.model)["Scan"] == scanned
    assert operators(program.model)["MatMul"] == 2
    assert program.model.graph.initializers["layers.down.kernel"].shape == (3, 16, 8)
    program.verify()


LAYERS = {
    "spectral norm": (lambda rngs: nnx.SpectralNorm(nnx.Linear(8, 4, rngs=rngs), rngs=rngs), {"MatMul": 1, "Add": 1}),
    "weight norm": (lambda rngs: nnx.WeightNorm(nnx.Linear(8, 4, rngs=rngs), rngs=rngs), {"MatMul": 1, "Add": 1}),
    "LoRA": (lambda rngs: nnx.LoRA(8, 2, 4, rngs=rngs), {"MatMul": 2}),
    "LoRA of a layer": (
        lambda rngs: nnx.LoRA(8, 2, 4, base_module=nnx.Linear(8, 4, rngs=rngs), rngs=rngs), {"MatMul": 3, "Add": 2}
    ),
    "LoRALinear": (lambda rngs: nnx.LoRALinear(8, 4, lora_rank=2, rngs=rngs), {"MatMul": 3, "Add": 2}),
    "sequential": (
        lambda rngs: nnx.Sequential(nnx.Linear(8, 4, rngs=rngs), nnx.relu, nnx.Linear(4, 2, rngs=rngs)), MLP
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::jax2onnx_core.plugins.errors.ExportWarning")  # norms of weights store them anew
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_without_a_composite(layer):
    make, expected = LAYERS[layer]
    program = to_onnx(make(nnx.Rngs(0)), [("B", 8)])
    assert operators(program.model) == expected
    assert not any(name.startswith("const") for name in program.model.graph.initializers)
    program.verify()
