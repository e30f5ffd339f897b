"""Models that know their inputs and outputs."""

from __future__ import annotations

import keras
import pytest
from jax2onnx_core import errors, to_onnx
from jax2onnx_keras import signature
from keras import layers

LEFT, RIGHT = keras.Input((4,), name="left"), keras.Input((None, 3), name="right", dtype="int32")
HIDDEN = layers.Dense(3, name="hidden")(LEFT)
TOTAL = layers.Concatenate(name="total")([HIDDEN, keras.ops.cast(keras.ops.sum(RIGHT, 1), "float32")])


def test_lists_of_inputs_and_outputs():
    options = signature(keras.Model([LEFT, RIGHT], [TOTAL, HIDDEN]))
    assert options == {
        "inputs": [[(("B", 4), "float32"), (("B", None, 3), "int32")]],
        "input_names": ["left", "right"],
        "output_names": ["total", "hidden"],
    }


def test_dicts_of_inputs_and_outputs():
    model = keras.Model({"right": RIGHT, "left": LEFT}, {"y": TOTAL, "x": HIDDEN})
    program = to_onnx(model, **signature(model, batch="N"))
    assert (program.input_names, program.output_names) == (["left", "right"], ["x", "y"])
    shape = program.model.graph.inputs[1].shape
    assert shape is not None
    assert shape[0] == "N"
    program.verify()


def test_a_sequential_model():
    model = keras.Sequential(
        [keras.Input((8, 8, 1), name="image"), layers.Conv2D(2, 3), layers.Flatten(name="features")]
    )
    program = to_onnx(model, **signature(model))
    assert (program.input_names, program.output_names) == (["image"], ["features"])
    program.verify()


def test_outputs_of_one_layer_have_different_names():
    assert signature(keras.Model(LEFT, [HIDDEN, HIDDEN]))["output_names"] == ["hidden", "hidden_1"]


@pytest.mark.parametrize("model", [keras.Sequential([layers.Dense(3)], name="unbuilt"), keras.Model(name="subclassed")])
def test_a_model_that_does_not_know_its_inputs(model):
    with pytest.raises(errors.OptionError, match=r"(Sequential|Model) '\w+' does not know its inputs"):
        signature(model)
