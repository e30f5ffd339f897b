"""Constants and names that the editors of one root graph share."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.rewrite._root_graph import RootGraph

TEXT = """<ir_version: 10, opset_import: ["" : 23]>
g (float[N] x) => (float[N] y) <float[1] w = {1}> { y = Add(x, w) }"""


@pytest.fixture
def graph() -> ir.Graph:
    return ir.from_onnx_text(TEXT).graph


def test_equal_constants_are_stored_once(graph):
    root = RootGraph(graph, is_function=False)
    zero, negative = root.constant(np.array([0.0], np.float32)), root.constant(np.array([-0.0], np.float32))
    assert root.constant(np.array([0.0], np.float32)) is zero is not negative
    assert set(graph.initializers) == {"w", zero.name, negative.name}


def test_a_function_has_constant_nodes_in_front(graph):
    value = RootGraph(graph, is_function=True).constant(np.array([3]))
    assert [node.op_type for node in graph] == ["Constant", "Add"]
    assert graph[0].outputs[0] is value


def test_what_is_made_of_a_constant_is_named_after_it_and_stored_once(graph):
    root, w = RootGraph(graph, is_function=False), graph.initializers["w"]
    made = root.derived(w, ir.Tensor(np.float32(1)), "squeeze")
    assert (made.name, made.dtype, made.shape) == ("w.squeeze", ir.DataType.FLOAT, ir.Shape([]))
    assert root.derived(w, ir.Tensor(np.float32(1)), "squeeze") is made
    assert root.derived(w, ir.Tensor(np.float32(1)), "other") is not made
    assert root.own(ir.Tensor(np.float32(2)), [w]).name.startswith("w_")


@pytest.mark.parametrize("interface", ["inputs", "outputs"])
def test_constants_have_no_names_of_inputs_or_outputs(graph, interface):
    """A constant of the name of an input would be its default."""
    w = graph.initializers["w"]
    for taken, number in (("const_1", 1.0), ("w_1", 2.0), ("w.squeeze", 3.0)):
        getattr(graph, interface)[0].name = taken
        root = RootGraph(graph, is_function=False)
        tensor = ir.Tensor(np.float32(number))
        made = root.derived(w, tensor, "squeeze") if "." in taken else root.own(tensor, [w] if taken[0] == "w" else [])
        assert made.name != taken
        assert made is graph.initializers[made.name]
        del graph.initializers[made.name]


def test_names_of_values_are_free(graph):
    root = RootGraph(graph, is_function=False)
    assert [root.value_name(base) for base in ("x", "w", "new", "new")] == ["x_1", "w_1", "new", "new_1"]
