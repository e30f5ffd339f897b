"""Calls of a program and runs of its model: element types, axes, names and containers, there and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_graph.metadata import StatePair, write_states
from jax2onnx_runtime.call_interface import CallInterface, LeafType, TemplateForm, named_interface, remembered
from jax2onnx_runtime.sizes import Sizes

F32, F64, I32, I64, C64 = (np.dtype(name) for name in ("float32", "float64", "int32", "int64", "complex64"))
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("leaf", "given", "shape"),
    [
        (LeafType("x", F32), X, (2, 3, 4)), (LeafType("x", F32, (0, 2, 1)), X, (2, 4, 3)), (LeafType("x", F32, (1, 0)), X, (3, 2, 4)),
        (LeafType("x", C64), (X + 1j * X[::-1]).astype(C64), (2, 3, 4, 2)),
        (LeafType("x", C64, (2, 0, 1)), (X + 1j * X[::-1]).astype(C64), (4, 2, 3, 2)),
    ],
)  # fmt: skip
def test_an_array_of_a_call_comes_back_from_the_model(leaf, given, shape):
    array = leaf.given(given, narrows=False)
    assert array.shape == shape
    assert array.dtype == F32
    back = leaf.returned(array)
    assert back.dtype == leaf.dtype
    np.testing.assert_array_equal(back, given)


def test_axes_are_those_of_a_transpose():
    leaf = LeafType("x", F32, (2, 0, 1))
    np.testing.assert_array_equal(leaf.given(X, narrows=False), X.transpose(2, 0, 1))
    assert leaf.given(X[0], narrows=False).shape == (3, 4), "other ranks are refused by their shapes"


def test_complex_numbers_are_pairs_of_real_and_imaginary_parts():
    pairs = LeafType("x", C64).given(np.array([1 + 2j], C64), narrows=False)
    assert pairs.tolist() == [[1.0, 2.0]]


def test_arguments_become_the_element_type_that_the_model_takes():
    leaf = LeafType("x", F32, element_type=np.dtype("float16"))
    assert leaf.given(X, narrows=False).dtype == np.float16
    assert LeafType("x", F32).given(X, narrows=False) is X


@pytest.mark.parametrize(
    ("dtype", "given", "narrows", "is_taken"),
    [
        (F32, np.zeros(2), True, True), (F32, np.zeros(2), False, False), (I32, np.zeros(2, np.int64), True, True),
        (I64, np.zeros(2, np.int32), True, False), (F32, np.zeros(2, np.float16), True, False), (F32, np.zeros(2, np.int64), True, False),
        (C64, np.zeros(2, np.complex128), True, True), (F32, [1.0, 2.0], True, True), (F32, 1.5, False, True), (I32, 7, False, True),
        (I32, np.float64(1), True, False), (F32, np.float64(1), True, True),
    ],
)  # fmt: skip
def test_64_bits_become_32_where_jax_would_make_them(dtype, given, narrows, is_taken):
    leaf = LeafType("x", dtype)
    if is_taken:
        assert leaf.given(given, narrows=narrows).dtype == np.empty(0, dtype).real.dtype
        return
    with pytest.raises(RuntimeInputError, match=rf"Input 'x' has dtype {np.asarray(given).dtype}, but .* for {dtype}"):
        leaf.given(given, narrows=narrows)


def test_large_numbers_become_infinite_as_in_jax():
    assert LeafType("x", F32).given(np.array([1e300]), narrows=True).tolist() == [np.inf]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ma.array([1.0], mask=[True]), "Output 'x' is a masked array"),
        ([[1.0], [1.0, 2.0]], "Output 'x' is no array of numbers"),
        (2**40, "Output 'x': "),
    ],
)
def test_what_is_no_array_is_refused_by_its_name(given, message):
    with pytest.raises(RuntimeInputError, match=message):
        LeafType("x", I32).given(given, narrows=True, kind="Output")


# -- names ----------------------------------------------------------------------------------

LEAVES = [LeafType("x", F32), LeafType("s", F32, (1, 0))]


def interface(**options: object) -> CallInterface:
    form = TemplateForm(((0,), {"state": 1}), {"y": 0, "s": 1}, [0, 1])
    step = TemplateForm(((0,), {}), 0, [0])
    return CallInterface(LEAVES, [LeafType("out", F32), LeafType("new", F32, (1, 0))], form, step, **options)  # type: ignore[arg-type]


ONE, TWO = np.ones(3, np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((ONE,), {"state": TWO}), ((), {"x": ONE, "s": TWO}), ((ONE,), {"s": TWO}), ((ONE, TWO), {})]
)
def test_arguments_may_have_the_names_of_inputs(args, kwargs):
    feeds = interface().feeds(args, kwargs)
    assert list(feeds) == ["x", "s"]
    assert feeds["x"].shape == (3,)
    np.testing.assert_array_equal(feeds["s"], TWO.T)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((ONE,), {}),
        ((ONE,), {"t": TWO}),
        ((ONE, TWO), {"s": TWO}),
        ((ONE,), {"x": ONE, "s": TWO}),
        (((ONE,),), {"s": TWO}),
        ((None,), {"s": TWO}),
    ],
)
def test_other_arguments_are_refused(args, kwargs):
    with pytest.raises(RuntimeInputError) as caught:
        interface().feeds(args, kwargs)
    assert ("The model's inputs are x, s." in str(caught.value)) == bool(kwargs)


def test_a_step_takes_what_is_no_state():
    one = interface()
    assert list(one.step_feeds(one.step, (ONE,), {}, {"s"})) == ["x"]
    assert list(one.step_feeds(one.step, (), {"x": ONE}, {"s"})) == ["x"]


def test_arrays_are_given_by_the_names_of_inputs():
    feeds = interface().named({"s": TWO, "x": ONE})
    assert list(feeds) == ["x", "s"]
    assert feeds["s"].shape == (3, 2)
    args, kwargs = interface().arguments({"s": TWO, "x": ONE})
    assert args[0] is ONE
    assert kwargs["state"] is TWO


@pytest.mark.parametrize(
    ("arrays", "given"),
    [({"x": ONE}, "x"), ({}, "none"), ([ONE], r"\[array"), ({"x": ONE, "s": TWO, "t": TWO}, "x, s, t")],
)
def test_other_names_are_refused(arrays, given):
    with pytest.raises(RuntimeInputError, match=f"The inputs are x, s, but arrays were given for {given}"):
        interface().named(arrays)


def test_results_have_their_containers_or_the_names_of_outputs():
    one = interface()
    result = one.results([ONE, TWO.T])
    assert result["y"] is ONE
    np.testing.assert_array_equal(result["s"], TWO)
    named = one.named_results([ONE, TWO.T])
    assert list(named) == ["out", "new"]
    for outputs in (one.outputs_of(result), one.outputs_of(named)):
        assert [array.shape for array in outputs] == [(3,), (3, 2)]


@pytest.mark.parametrize(("outputs", "given"), [([ONE], "1 arrays"), (ONE, r"array\("), ([ONE, TWO, TWO], "3 arrays")])
def test_another_number_of_outputs_is_refused(outputs, given):
    with pytest.raises(RuntimeInputError, match=f"The outputs are out, new, but {given}"):
        interface().results(outputs)


def test_first_states_are_given_by_the_names_of_inputs():
    assert interface().first_states({"s": TWO})["s"].shape == (3, 2)
    with pytest.raises(OptionError, match="there is no input 'y'; the inputs are x, s"):
        interface().first_states({"y": TWO})


def test_results_of_64_bits_are_narrowed_only_without_them():
    wide = {"out": ONE.astype(F64), "new": TWO}
    assert interface().outputs_of(wide)[0].dtype == F32
    with pytest.raises(RuntimeInputError, match="Output 'out' has dtype float64"):
        interface(x64=True).outputs_of(wide)


MODEL = '<ir_version: 10, opset_import: ["" : 18]> g (float16[N] x, float[B,C] s) => (float16[N] y, float[B,C] t) { y = Neg(x) t = Neg(s) }'


def test_an_interface_follows_the_element_types_of_another_model():
    made = interface(variables={"x": ONE}).with_element_types(ir.from_onnx_text(MODEL))
    assert made.feeds((ONE,), {"state": TWO})["x"].dtype == np.float16
    assert made.held_states()["x"].dtype == np.float16


def test_a_step_of_any_model_takes_what_is_no_state():
    model = ir.from_onnx_text(MODEL)
    write_states(model, [StatePair("s", "t")])
    one = named_interface(model)
    assert list(one.feeds(({"x": ONE.astype(np.float16), "s": TWO},), {})) == ["x", "s"]
    assert list(one.step_feeds(one.step, ({"x": ONE.astype(np.float16)},), {}, {"s"})) == ["x"]
    assert list(one.step.outputs) == [0]
    assert one.x64, "arrays of 64 bits are never narrowed"


def test_calls_without_some_inputs_keep_the_others():
    form = TemplateForm(((0, {"a": 1, "b": 2}, (3,)), {"k": 4, "l": 5}), 0, [0]).without({0, 2, 3, 4})
    assert form.leaves(({"a": ONE},), {"l": TWO}).keys() == {1, 5}


def test_any_model_is_called_with_arrays_by_name():
    one = named_interface(ir.from_onnx_text(MODEL))
    half = ONE.astype(np.float16)
    assert list(one.feeds(({"x": half, "s": TWO},), {})) == ["x", "s"]
    assert list(one.results([half, TWO])) == ["y", "t"]


def test_shapes_that_passed_are_not_checked_again():
    asked: list[Mapping[str, tuple[int, ...]]] = []

    def sizes(shapes: Mapping[str, tuple[int, ...]]) -> Sizes:
        asked.append(shapes)
        return {"B": 2}

    check = remembered(sizes)
    assert check({"x": (2, 3)}) == check({"x": (2, 3)}) == {"B": 2}
    check({"x": (2, 4)})
    assert asked == [{"x": (2, 3)}, {"x": (2, 4)}]
