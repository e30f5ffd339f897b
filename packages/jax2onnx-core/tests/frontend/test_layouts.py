"""Inputs and outputs whose axes the model has in another order than the function."""

from __future__ import annotations

import functools
import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, errors, to_onnx
from jax2onnx_graph.metadata import read_layouts, read_states

KERNEL = jnp.asarray(np.random.default_rng(0).standard_normal((3, 3, 3, 4)), jnp.float32)


def convolve(x, kernel=KERNEL):
    return jax.nn.relu(
        jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    )


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def operators(program: OnnxProgram) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph)


def dims(program: OnnxProgram) -> dict[str, list[str]]:
    graph = program.model.graph
    return {value.name or "": [str(dim) for dim in value.shape] for value in (*graph.inputs, *graph.outputs)}


@pytest.fixture(scope="module")
def program() -> OnnxProgram:
    layouts: dict[str, Any] = {"input_layouts": {"x": "NHWC->NCHW"}, "output_layouts": {"output": "NHWC->NCHW"}}
    return to_onnx(convolve, [("B", "H", "W", 3)], **layouts)


def test_the_model_has_the_axes_in_that_order(program):
    assert dims(program) == {"x": ["B", "3", "H", "W"], "output": ["B", "4", "H", "W"]}
    assert operators(program) == {"Conv": 1, "Relu": 1}


def test_calls_take_and_return_what_the_function_does(program):
    x = numbers(2, 5, 7, 3)
    np.testing.assert_allclose(program(x), convolve(x), rtol=1e-4, atol=1e-4)


def test_the_runtime_is_given_what_the_model_takes(program):
    x = numbers(2, 5, 7, 3)
    (feeds,), (found,) = [program.feeds(x)], program.loaded(program.feeds(x))
    np.testing.assert_array_equal(feeds["x"], x.transpose(0, 3, 1, 2))
    np.testing.assert_allclose(found, convolve(x).transpose(0, 3, 1, 2), rtol=1e-4, atol=1e-4)


def test_it_is_verified(program):
    program.verify()
    program.verify(inputs=[numbers(2, 5, 7, 3)])
    assert program.bisect().first is None


def test_symbols_are_where_the_model_has_them(program):
    assert program.symbols["W"].origins == (("x", 3, "W"),)
    assert program.check_symbols() == []
    assert program.shape_profile(B=1, H=5, W=(1, 2, 7)).shapes == {"x": ((1, 3, 5, 1), (1, 3, 5, 2), (1, 3, 5, 7))}


def test_the_file_tells(program, tmp_path):
    assert read_layouts(program.model) == {"x": "NHWC->NCHW", "output": "NHWC->NCHW"}
    program.save(tmp_path / "model.onnx")


def test_a_specialization_has_the_layouts(program):
    fixed = program.specialize(H=4, W=6)
    assert dims(fixed) == {"x": ["B", "3", "4", "6"], "output": ["B", "4", "4", "6"]}
    fixed.verify()


def test_the_order_alone_is_for_functions_with_their_channels_last(program):
    assert dims(to_onnx(convolve, [("B", "H", "W", 3)], input_layouts={"x": "NCHW"}))["x"] == dims(program)["x"]


def test_other_letters_positions_and_names_of_the_user():
    program = to_onnx(
        lambda a, b: {"sum": a + b.T}, [(2, "N"), ("N", 2)], input_names=["left", "right"], input_layouts={1: "xy->yx"},
        output_names=["total"], output_layouts={0: "xy -> yx"},
    )  # fmt: skip
    assert dims(program) == {"left": ["2", "N"], "right": ["2", "N"], "total": ["N", "2"]}
    assert operators(program) == {"Add": 1, "Transpose": 1}
    program.verify()


def test_an_input_that_is_returned_as_it_is():
    program = to_onnx(lambda x: x, [("B", 4, 6, 3)], input_layouts={"x": "NCHW"}, output_layouts={0: "NCHW"})
    assert operators(program) == {"Identity": 1}
    program.verify()


def test_one_channel_is_a_view():
    program = to_onnx(
        lambda x: convolve(x, KERNEL[:, :, :1]),
        [("B", 8, 8, 1)],
        input_layouts={"x": "NCHW"},
        output_layouts={0: "NCHW"},
    )
    assert operators(program) == {"Conv": 1, "Relu": 1}
    program.verify()


def test_complex_numbers_keep_their_parts_behind():
    layouts: dict[str, Any] = {"input_layouts": {"x": "HWC->CHW"}, "output_layouts": {0: "HWC->CHW"}}
    program = to_onnx(lambda x: x * 2j, [(("H", 4, 3), "complex64")], **layouts)
    assert dims(program)["x"] == ["3", "H", "4", "2"]
    program.verify()


def test_dimensions_that_are_computed_from_the_sizes_of_an_input():
    program = to_onnx(lambda x: x.reshape(-1).sum() / x.shape[1], [("B", "2*T", 3)], input_layouts={"x": "NWC->NCW"})
    assert dims(program)["x"] == ["B", "3", "2*T"]
    program.verify()


def test_python_code_that_needs_numbers():
    def fn(x):
        return sum(x[:, i] for i in range(x.shape[1]))

    program = to_onnx(
        fn, [("B", "T", 3)], specialize={"T": 4}, input_layouts={"x": "NWC->NCW"}, output_layouts={0: "NC->CN"}
    )
    assert dims(program) == {"x": ["B", "3", "4"], "output": ["3", "B"]}
    program.verify()


def test_a_state_that_grows_along_another_axis_of_the_model():
    def step(cache, x):
        cache = jnp.concatenate([cache, x], axis=1)
        return cache.sum(axis=1), cache

    program = to_onnx(
        step, [("B", "T", 3), ("B", 1, 3)], constraints=["T >= 0"], states={0: 1},
        input_layouts={"cache": "NTC->NCT"}, output_layouts={1: "NTC->NCT"},
    )  # fmt: skip
    assert [pair.grows for pair in read_states(program.model)] == [2]
    session, steps = program.session(sizes={"B": 2}), [numbers(2, 1, 3) + i for i in range(3)]
    found = [session.step(x) for x in steps]
    np.testing.assert_allclose(found[-1], np.concatenate(steps, axis=1).sum(axis=1), rtol=1e-5)


def test_first_values_of_a_state_are_those_of_the_function():
    def step(total, x):
        return total + x, 2 * x

    layouts: dict[str, Any] = {"input_layouts": {"total": "HWC->CHW"}, "output_layouts": {0: "HWC->CHW"}}
    program = to_onnx(step, [(4, 5, 3), (4, 5, 3)], states={0: 0}, **layouts)
    session = program.session(initial={0: numbers(4, 5, 3)})
    session.step(np.ones((4, 5, 3), np.float32))
    np.testing.assert_allclose(session.state["total"], (numbers(4, 5, 3) + 1).transpose(2, 0, 1))


def test_a_state_comes_back_as_it_goes_in():
    program = to_onnx(lambda x: x + 1, [(4, 5, 3)], states={0: 0}, input_layouts={"x": "HWC->CHW"})
    assert operators(program) == {"Add": 1}
    assert [value.shape.numpy() for value in program.model.graph.outputs] == [(3, 4, 5)]
    program.verify()


def test_a_state_has_one_layout():
    layouts: dict[str, Any] = {"input_layouts": {"x": "HWC->CHW"}, "output_layouts": {0: "HWC->WHC"}}
    with pytest.raises(
        errors.OptionError, match="one layout, but its input 'x' has HWC->CHW and its output 'output' has HWC->WHC"
    ):
        to_onnx(lambda x: x + 1, [(4, 5, 3)], states={0: 0}, **layouts)


def test_one_layout_for_many_inputs():
    program = to_onnx(
        lambda images, scale: [2 * x for x in images] + [scale],
        [[("B", 8, 8, 3), ("B", 4, 4, 3)], (3,)],
        input_layouts={"images*": "NCHW"},
        output_layouts={"output_[01]": "NCHW"},
    )
    assert "Transpose" not in operators(program)
    program.verify()


def test_weights_that_are_given_later():
    absent = functools.partial(
        lambda params, x: convolve(x, params["kernel"]), {"kernel": jax.ShapeDtypeStruct(KERNEL.shape, jnp.float32)}
    )
    layouts: dict[str, Any] = {"input_layouts": {"x": "NCHW"}, "output_layouts": {0: "NCHW"}}
    program = to_onnx(absent, [("B", 8, 8, 3)], **layouts).with_weights({"kernel": KERNEL})
    assert operators(program) == {"Conv": 1, "Relu": 1}
    program.verify()


def test_programs_in_fewer_bits():
    weight = jnp.ones((64, 64))
    program = to_onnx(
        lambda x: x @ weight, [("B", "T", 64)], input_layouts={"x": "NTC->CNT"}, output_layouts={0: "NTC->CNT"}
    )
    calls = [(numbers(2, 3, 64),)]
    for mode in ("int8", "float16", "static_int8"):
        small = program.quantize(mode, calibration=calls if mode == "static_int8" else None)
        np.testing.assert_allclose(small(*calls[0]), program(*calls[0]), atol=0.5)
        small.accuracy(calls)


def test_errors_of_calls_are_about_the_arguments(program):
    with pytest.raises(errors.RuntimeInputError, match=re.escape("the program was exported for (B, H, W, 3)")):
        program(numbers(2, 5, 3))
    with pytest.raises(errors.RuntimeInputError, match=re.escape("size 5 on axis 3, but it should be 3")):
        program(numbers(2, 3, 4, 5))


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"y": "NCHW"}, "input_layouts: there is no input 'y'; the inputs are x."),
        ({1: "NCHW"}, "there is no input 1"),
        ({True: "NCHW"}, "there is no input True"),
        ({"x": "NCHW", 0: "NCHW"}, "'x' has two layouts, by 0 and by another key."),
        ({"x": "NDHWC->NCDHW"}, "'x' has 4 axes, the layout 'NDHWC->NCDHW' has 5."),
        ({"x": "NHWC->NCHH"}, "'NHWC->NCHH' is no layout. A layout has a letter for each axis, each once"),
        ({"x": "NHWC->NCH"}, "is no layout"),
        ({"x": "NHHC->NCHH"}, "is no layout"),
        ({"x": "NHWD"}, "is no layout"),
        ({"x": ""}, "is no layout"),
        ({"x": (0, 3, 1, 2)}, "(0, 3, 1, 2) is no layout"),
        ("NCHW", "input_layouts maps names or positions to layouts, {'x': 'NCHW'}; 'NCHW' does not."),
    ],
)
def test_layouts_that_cannot_be_used(layouts, message):
    with pytest.raises(errors.OptionError, match=re.escape(message)):
        to_onnx(convolve, [("B", "H", "W", 3)], input_layouts=layouts)


def test_an_output_that_does_not_exist():
    with pytest.raises(errors.OptionError, match="output_layouts: there is no output 'y'; the outputs are output"):
        to_onnx(convolve, [("B", "H", "W", 3)], output_layouts={"y": "NCHW"})
