"""Convolutions are one operator, with the weights under their names, however often they are mapped."""

from __future__ import annotations

import equinox as eqx
import jax
import pytest
from jax2onnx_core import to_onnx

CONV = {"stride": 2, "padding": "SAME_LOWER", "groups": 2}
SPREAD = {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}


@pytest.mark.parametrize(
    ("kind", "options", "operator"),
    [(eqx.nn.Conv2d, CONV, "Conv"), (eqx.nn.ConvTranspose2d, SPREAD, "ConvTranspose")],
    ids=["conv", "transposed"],
)
@pytest.mark.parametrize("maps", [0, 1, 2])
def test_one_operator(kind, options, operator, maps):
    fn = kind(4, 6, 3, key=jax.random.key(0), **options)
    around = [("Unsqueeze", "Squeeze"), (), ("Reshape", "Reshape")][maps]
    for _ in range(maps):
        fn = jax.vmap(fn)
    program = to_onnx(fn, [(*(2, 3)[:maps], 4, 8, 7)])
    assert [node.op_type for node in program.model.graph] == [*around[:1], operator, *around[1:]]
    assert {"weight", "bias"} <= set(program.model.graph.initializers)
    program.verify()
