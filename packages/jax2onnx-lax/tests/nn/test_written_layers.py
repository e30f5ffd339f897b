"""Layers as the authors of models write them: what is found is counted, what is not has a reason, and the values are JAX's."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from written_layers import LAYERS, Layer

_SIZES = {"B": 2, "T": 5, "S": 4}


def _array(dims: tuple[str | int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Random numbers; a mask has rows that hide all keys, and rows that hide none, unless rows have to see one."""
    shape = tuple(dim if isinstance(dim, int) else _SIZES[dim] for dim in dims)
    if dtype == "bool":
        mask: np.ndarray[Any, Any] = rng.random(shape) < 0.5
        mask[..., 0, :], mask[..., 1, :] = False, True
        return mask
    return np.asarray(rng.integers(0, 2, shape) if dtype == "int32" else rng.normal(size=shape), dtype)


@pytest.mark.parametrize("layer", LAYERS, ids=[layer.name for layer in LAYERS])
def test_a_layer_as_it_is_written(layer: Layer) -> None:
    program = to_onnx(layer.fn, layer.inputs)
    found = Counter(node.op_type for node in program.model.graph.all_nodes())
    assert (found["Attention"], found["RotaryEmbedding"]) == (layer.attentions, layer.rotations)
    assert bool(re.search("(Attention|RotaryEmbedding) was not formed", str(program.report()))) == bool(layer.reason)
    assert layer.reason in program.report()
    rng = np.random.default_rng(0)
    arrays = [_array(*spec, rng) for spec in layer.inputs]
    tolerance = 5e-3 if arrays[0].dtype == np.float16 else 1e-5
    np.testing.assert_allclose(program(*arrays), jax.jit(layer.fn)(*arrays), tolerance, tolerance)


@pytest.mark.parametrize("name", ["a mask behind", "softmax of what a mask", "a mask of each head"])
def test_a_value_that_is_not_finite_spoils_what_it_spoils_in_jax(name: str) -> None:
    (layer,) = (layer for layer in LAYERS if layer.name.startswith(name))
    rng = np.random.default_rng(1)
    q, k, v, mask = (_array(*spec, rng) for spec in layer.inputs)
    v[0, 1, 2, 3], v[1, 2, 0, 0] = np.nan, -np.inf
    program = to_onnx(layer.fn, layer.inputs)
    for seen in (mask, np.zeros_like(mask), np.ones_like(mask)):
        np.testing.assert_allclose(program(q, k, v, seen), jax.jit(layer.fn)(q, k, v, seen), 1e-5, 1e-5)


@pytest.mark.parametrize("spread", [1e3, 1e-3])
def test_a_query_that_sees_one_key_of_a_large_or_small_logit(spread: float) -> None:
    (layer,) = (layer for layer in LAYERS if layer.name.startswith("a mask behind"))
    rng = np.random.default_rng(2)
    q, k, v, mask = (_array(*spec, rng) for spec in layer.inputs)
    q, mask = q * np.float32(spread), np.arange(4) == np.arange(5)[:, None] % 4 + 0 * mask
    program = to_onnx(layer.fn, layer.inputs)
    np.testing.assert_allclose(program(q, k, v, mask), jax.jit(layer.fn)(q, k, v, mask), 1e-5, 1e-5)
