"""Other inputs and outputs for a finished model, on graphs given as text."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.metadata import (
    StatePair,
    SymbolInfo,
    read_constraints,
    read_states,
    read_symbols,
    write_states,
    write_symbols,
)
from jax2onnx_graph.targets import standard_target
from jax2onnx_runtime.boundary import Boundary
from jax2onnx_runtime.runtimes import reference_runtime

TEXT = """<ir_version: 10, opset_import: ["" : 20]>
g (float[B,4,3] x, float[B] scale) => (float[B,3,4] y, float[B] same) {
  t = Transpose <perm = [0, 2, 1]> (x)
  y = Abs(t)
  same = Identity(scale)
}"""


def model() -> ir.Model:
    made = ir.from_onnx_text(TEXT)
    write_symbols(made, {"B": SymbolInfo("B", 2, None, (("x", 0, "B"), ("scale", 0, "B")))}, ["B >= 2"])
    write_states(made, [StatePair("scale", "same")])
    return made


def turned() -> Boundary:
    """The model with its input `x` in another order of axes, under the name `z`, and its first output alone."""
    boundary = Boundary(model(), standard_target)
    z = boundary.new_input("z", np.dtype(np.float32), (ir.SymbolicDim("B"), 3, 4))
    boundary.replace_input("x", boundary.front().transpose(z, (0, 2, 1)))
    boundary.new_output("t", boundary.old_outputs["y"])
    return boundary


def test_a_transposed_input_and_the_models_own_transpose_cancel():
    made = turned().finish()
    assert [node.op_type for node in made.graph] == ["Abs"]


def test_two_inputs_or_outputs_of_one_name_are_refused():
    boundary = turned()
    with pytest.raises(OptionError, match="Two inputs of the model would be called 'z'"):
        boundary.new_input("z", np.dtype(np.float32), (2,))
    with pytest.raises(OptionError, match="Two outputs of the model would be called 't'"):
        boundary.new_output("t", boundary.old_outputs["same"])


def test_constants_that_nothing_reads_any_more_are_gone():
    text = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[2,3] x) => (float[6] y, float[2,3] z) <int64[1] shape = {6}> { y = Reshape(x, shape) z = Abs(x) }"""
    boundary = Boundary(ir.from_onnx_text(text), standard_target)
    boundary.replace_input("x", boundary.new_input("x", np.dtype(np.float32), (2, 3)))
    boundary.new_output("z", boundary.old_outputs["z"])
    assert [*boundary.finish().graph.initializers] == []


def test_the_model_computes_the_same_of_its_new_input():
    z = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    (t,) = reference_runtime.load(turned().finish())({"z": z})
    np.testing.assert_array_equal(t, np.abs(z))


def test_the_original_stays_as_it_is():
    original = model()
    before = ir.to_proto(original).SerializeToString()
    boundary = Boundary(original, standard_target)
    boundary.new_output("t", boundary.old_outputs["same"])
    boundary.replace_input("scale", boundary.new_input("s", np.dtype(np.float32), (ir.SymbolicDim("B"),)))
    boundary.finish()
    assert ir.to_proto(original).SerializeToString() == before


def test_an_input_that_nothing_reads_any_more_is_gone():
    assert [value.name for value in turned().finish().graph.inputs] == ["z"]


def test_an_input_that_is_read_but_was_not_replaced_is_an_error():
    boundary = turned()
    boundary.new_output("s", boundary.old_outputs["same"])
    with pytest.raises(OptionError, match="reads its input 'scale', which has no counterpart"):
        boundary.finish()


def test_an_input_that_is_an_output_is_copied():
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (float[2] y) { y = Abs(x) }"""
    boundary = Boundary(ir.from_onnx_text(text), standard_target)
    value = boundary.new_input("z", np.dtype(np.float32), (2,))
    boundary.replace_input("x", value)
    boundary.new_output("copy", value)
    made = boundary.finish()
    assert [(node.op_type, node.outputs[0].name) for node in made.graph] == [("Identity", "copy")]


def test_one_value_can_be_two_outputs():
    boundary = turned()
    boundary.new_output("u", boundary.old_outputs["y"])
    assert [value.name for value in boundary.finish().graph.outputs] == ["t", "u"]


def test_an_inner_value_with_the_name_of_a_new_input_gets_another():
    boundary = Boundary(model(), standard_target)
    boundary.replace_input("x", boundary.new_input("t", np.dtype(np.float32), (ir.SymbolicDim("B"), 4, 3)))
    boundary.new_output("y", boundary.old_outputs["y"])
    made = boundary.finish()
    assert [value.name for node in made.graph for value in node.outputs] == ["t_1", "y"]


def test_the_metadata_tells_symbols_of_the_new_inputs_and_no_states():
    made = turned().finish()
    assert read_symbols(made) == [SymbolInfo("B", 2, None, (("z", 0, "B"),))]
    assert read_constraints(made) == ["B >= 2"]
    assert read_states(made) == []


def test_symbols_get_other_names_in_labels_and_metadata():
    boundary = Boundary(model(), standard_target)
    boundary.rename_symbols({"B": "batch_size"})
    for name in ("x", "scale"):
        old = boundary.old_inputs[name]
        boundary.replace_input(name, boundary.new_input(name, np.dtype(np.float32), old.shape.dims))
    for name, value in boundary.old_outputs.items():
        boundary.new_output(name, value)
    made = boundary.finish()
    labels = {
        str(dim)
        for value in (*made.graph.inputs, *made.graph.outputs)
        for dim in value.shape
        if not isinstance(dim, int)
    }
    assert labels == {"batch_size"}
    assert [info.name for info in read_symbols(made)] == ["batch_size"]
    assert read_constraints(made) == ["batch_size >= 2"]


def test_a_symbol_becomes_a_number_in_labels_and_expressions():
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[A,B] x, int64[1] s) => (float[N] y) { y = Reshape(x, s) }"""
    made = ir.from_onnx_text(text)
    made.graph.outputs[0].shape = ir.Shape([ir.SymbolicDim("A + B")])
    write_symbols(made, {name: SymbolInfo(name, 1, None, (("x", i, name),)) for i, name in enumerate("AB")}, [])
    boundary = Boundary(made, standard_target)
    boundary.rename_symbols({"A": 3})
    assert [str(dim) for dim in boundary.old_inputs["x"].shape] == ["3", "B"]
    assert [str(dim) for dim in boundary.old_outputs["y"].shape] == ["3 + B"]
    for name, value in boundary.old_inputs.items():
        boundary.replace_input(name, boundary.new_input(name, value.dtype.numpy(), value.shape.dims))
    boundary.new_output("y", boundary.old_outputs["y"])
    assert [info.name for info in read_symbols(boundary.finish())] == ["B"]


def test_two_symbols_of_one_name_are_an_error():
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[A,B] x) => (float[A,B] y) { y = Abs(x) }"""
    made = ir.from_onnx_text(text)
    write_symbols(made, {name: SymbolInfo(name, 1, None, (("x", 0, name),)) for name in "AB"}, [])
    with pytest.raises(OptionError, match="Two symbols of the model would be called 'B'"):
        Boundary(made, standard_target).rename_symbols({"A": "B"})
