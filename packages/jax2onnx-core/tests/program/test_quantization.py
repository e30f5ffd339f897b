"""`OnnxProgram.quantize`: what it takes, what it gives, what it refuses."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_core.plugins.errors import OptionError, RuntimeInputError, TargetError
from jax2onnx_graph.progress import progress_to

rng = np.random.default_rng(0)
WEIGHT, HEAD = (jnp.asarray(rng.normal(size=(32, 32)), np.float32) for _ in range(2))


def model(x):
    return jnp.tanh(x @ WEIGHT) @ HEAD


def scaled(x):
    return x * 2


@pytest.fixture(scope="module")
def program():
    return to_onnx(model, [("B", 32)])


@pytest.fixture
def x():
    return rng.normal(size=(3, 32)).astype(np.float32)


def test_a_quantised_program_is_called_like_the_function(program, x):
    assert np.abs(program.quantize("int8")(x) - program(x)).max() < 1


def test_its_accuracy_is_that_on_the_given_calls(program, x):
    found = program.quantize("int4", block_size=16).accuracy([(x,), {"x": x}])
    assert found.runs == 2
    assert found.outputs[0].name == "output"
    assert 10 < found.worst.snr < 40


def test_its_accuracy_is_that_on_random_arguments_otherwise(program):
    assert program.quantize("float16").accuracy(sizes=[{"B": 2}, {"B": 5}]).runs == 2


def test_a_specialization_is_quantised_likewise(program):
    fixed = program.quantize("int8").specialize(B=2)
    assert "MatMulNBits" in {node.op_type for node in fixed.model.graph}
    assert fixed.model.graph.inputs[0].shape[0] == 2


def test_inputs_and_outputs_are_half_precision_where_that_is_asked_for(program, x):
    quantised = program.quantize("float16", keep_io_types=False)
    assert quantised.model.graph.inputs[0].dtype.name == "FLOAT16"
    assert quantised(x).dtype == np.float16


def test_progress_of_an_export_and_of_calibration_is_told(x):
    last = {}
    with progress_to(lambda stage, done, total: last.update({stage: (done, total)})):
        to_onnx(lambda x: x @ jnp.ones((32, 8)), [("B", 32)]).quantize("static_int8", calibration=[(x,), (x,), (x,)])
    assert list(last) == ["lower", "optimise", "calibrate"]
    assert last["calibrate"] == (3, 3)
    assert all(done == total for done, total in last.values())


def test_calibration_data_are_tuples_or_mappings_of_names(program, x):
    quantised = program.quantize("static_int8", calibration=[(x,), {"x": x}])
    assert "QuantizeLinear" in {node.op_type for node in quantised.model.graph}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "reads the ranges of activations from examples"),
        ([(np.zeros((3, 31), np.float32),)], "do not fit"),
        ([(np.zeros((3, 32), np.int32),)], "has dtype int32"),
        ([(np.zeros((3, 32), np.float32), 1)], "not those that the program was exported for"),
        ([{"y": np.zeros((3, 32), np.float32)}], "The inputs are x, but arrays were given for y"),
    ],
)
def test_calibration_data_that_do_not_fit_are_refused(program, given, message):
    with pytest.raises((OptionError, RuntimeInputError), match=message):
        program.quantize("static_int8", calibration=given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "int3"}, "no mode 'int3' of quantisation; the modes are int4"),
        ({"mode": "int4", "block_size": 33}, "block_size is one of 16, 32"),
        ({"mode": "float16", "block_size": 32}, "block_size is for weights in blocks"),
        ({"mode": "static_int8"}, "there are none"),
        ({"mode": "int4", "calibration": [()]}, "calibration is for static_int8"),
        ({"mode": "int4", "keep_io_types": False}, "keep_io_types is for float16"),
        ({"mode": "int4", "exclude": "head"}, "write exclude=\\['head'\\]"),
        ({"mode": "int4", "exclude": ["tail*"]}, "'tail\\*' of exclude matches no node.*HEAD"),
        ({"mode": "int4", "exclude": ["*"]}, "exclude leaves out all"),
    ],
)
def test_options_that_make_no_sense_are_refused(program, options, message):
    if options.get("calibration"):
        options = {**options, "calibration": [(np.zeros((1, 32), np.float32),)]}
    with pytest.raises(OptionError, match=message):
        program.quantize(**options)


def test_excluded_weights_stay_as_they_are(program):
    quantised = program.quantize("int8", exclude=["HEAD"])
    found = [node.op_type for node in quantised.model.graph]
    assert found.count("MatMulNBits") == found.count("MatMul") == 1


@pytest.mark.parametrize("mode", ["int4", "dynamic_int8", "float16"])
def test_a_model_without_weights_is_refused(mode):
    with pytest.raises(OptionError, match="There is nothing to quantise"):
        to_onnx(scaled, [(3,)]).quantize(mode)


def test_a_target_without_a_quantizer_is_refused():
    with pytest.raises(TargetError, match=r"onnx\.reference has no quantizer"):
        to_onnx(model, [("B", 32)], target="onnx").quantize("int4")


@pytest.mark.parametrize("mode", ["int8", "float16"])
def test_states_stay_in_a_session_of_a_quantised_program(mode, x):
    def step(state, x):
        state = jnp.tanh(x @ WEIGHT + state)
        return state, state @ HEAD

    quantised = to_onnx(step, [(3, 32), (3, 32)], states={0: 0}).quantize(mode)
    session, state = quantised.session(), np.zeros((3, 32), np.float32)
    for _ in range(3):
        state, expected = quantised(state, x)
        np.testing.assert_allclose(session.step(x), expected, rtol=1e-6)


def test_there_is_nothing_to_say_of_no_calls(program):
    with pytest.raises(OptionError, match="nothing to compare"):
        program.quantize("int8").accuracy([])


def test_a_tolerance_is_held_on_random_calls_where_none_are_given(program):
    found = program.quantize("int4", tolerance=0.05).bits
    assert found.noise <= 0.05 < found.uniform_noise


def test_a_tolerance_is_held_on_the_given_calls(program, x):
    quantised = program.quantize("int4", tolerance=0.05, calibration=[(x,)])
    assert 10 ** (-quantised.accuracy([(x,)]).worst.snr / 20) <= 0.05


def test_the_report_names_the_weights_with_more_bits(program):
    assert "WEIGHT: 8 bits" in program.quantize("int4", tolerance=0.05).report()


def test_a_specialization_has_the_same_bits(program):
    quantised = program.quantize("int4", tolerance=0.05)
    weights = quantised.specialize(B=2).model.graph.initializers
    assert set(quantised.model.graph.initializers) <= set(weights)


def test_a_program_without_its_function_is_quantised_with_a_tolerance(program, x):
    found = program.portable().quantize("int4", tolerance=0.05, calibration=[(x,)]).bits
    assert found.noise <= 0.05


@pytest.mark.parametrize("tolerance", [0, 1, -0.1, 2, True, "0.1"])
def test_a_tolerance_is_a_share(program, x, tolerance):
    with pytest.raises(OptionError, match="share of noise that an output may have"):
        program.quantize("int4", tolerance=tolerance, calibration=[(x,)])


@pytest.mark.parametrize("mode", ["dynamic_int8", "float16"])
def test_a_tolerance_is_for_modes_with_a_choice(program, x, mode):
    with pytest.raises(OptionError, match=f"tolerance is for int4, int8 and static_int8, not for {mode}"):
        program.quantize(mode, tolerance=0.1, calibration=[(x,)])


def test_a_program_without_its_function_needs_calls_for_a_tolerance(program):
    with pytest.raises(OptionError, match="measured on examples, and there are none"):
        program.portable().quantize("int4", tolerance=0.1)
