"""The same layers of five libraries have the same graphs, under the names of each library."""

from __future__ import annotations

import functools
import importlib
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from jax2onnx_core import to_onnx
from jax2onnx_report.summary import operators
from jax2onnx_testing.checks import check_at_sizes

os.environ.setdefault("KERAS_BACKEND", "jax")

LIBRARIES = ["linen", "equinox", "haiku", "keras"]

#: Operators that move data: other layouts of images and sequences need others.
LAYOUT = {"Transpose", "Reshape", "Squeeze", "Unsqueeze"}

_CLIPPED = ("an index beyond the table is clipped, where Flax gives NaN", {"Clip": 1, "Gather": 1})
#: (library, kind) → why the operators are not those of NNX, and which they are.
EXPLAINED: Mapping[tuple[str, str], tuple[str, Mapping[str, int]]] = {
    ("equinox", "embedding"): _CLIPPED,
    ("haiku", "embedding"): _CLIPPED,
}


@functools.cache
def layers_of(library: str) -> Mapping[str, tuple[Any, list[Any]]]:
    layers: Mapping[str, tuple[Any, list[Any]]] = importlib.import_module(f"frameworks.of_{library}").layers()
    return layers


@functools.cache
def graph_of(library: str, kind: str) -> tuple[Counter[str], set[str]]:
    fn, inputs = layers_of(library)[kind]
    program = to_onnx(fn, inputs)
    check_at_sizes(program)
    constants = program.model.graph.initializers.items()
    weights = {name for name, value in constants if value.dtype.is_floating_point() and value.shape.rank()}
    counted = operators(program.model)
    return Counter({op: count for op, count in counted.items() if op not in LAYOUT}), weights


KINDS = [
    "dense", "mlp", "conv", "conv transpose", "layer norm", "RMS norm", "group norm", "batch norm", "embedding",
    "attention", "LSTM", "max pool",
]  # fmt: skip


@pytest.mark.sampled(16)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_operators_are_those_of_nnx(library, kind):
    pytest.importorskip("flax.linen" if library == "linen" else library)
    found, weights = graph_of(library, kind)
    if (library, kind) in EXPLAINED:
        assert found == EXPLAINED[library, kind][1]
    else:
        assert found == graph_of("nnx", kind)[0]
    # Constants of a normalisation's form have no name in the library.
    assert kind == "group norm" or not {name for name in weights if name.startswith("const")}
