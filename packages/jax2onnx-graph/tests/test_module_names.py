"""The modules that the names of nodes tell."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.module_names import module_of


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("blocks.0.attn/Add_1", ("blocks.0", "attn")),
        ("blocks.0.1/Add", ("blocks.0.1",)),
        ("/model/layers.3/mlp/MatMul", ("model", "layers.3", "mlp")),
        ("0.dense/Add", ("0", "dense")),
        ("tanh.Tanh", ()),
        ("", ()),
        (None, ()),
    ],
)
def test_the_modules_of_a_node(name, modules):
    assert module_of(ir.Node("", "Add", [], name=name)) == modules
