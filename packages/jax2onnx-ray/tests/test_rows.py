"""Rows through a program, and batches of columns, without a cluster."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_ray import calls, results
from jax2onnx_ray.predictor import Checker, Predictor
from jax2onnx_ray.rows import BatchedProgram, RowFailure, array_of, as_columns, groups_of, row_of, rows_of


def program():
    return to_onnx(
        lambda x, scale: {"y": jnp.tanh(x) * scale, "n": x.sum((1, 2))}, [("B", "T", 3), ()], input_names=["x", "scale"]
    )


def batched(**options):
    return BatchedProgram(program().portable(), {"scale": np.asarray(2, np.float32)}, **options)


def row(length, seed=0):
    return {"x": np.random.default_rng(seed).standard_normal((length, 3)).astype(np.float32)}


def columns(*lengths):
    """A batch with one row of each length."""
    rows = [row(length, seed) for seed, length in enumerate(lengths)]
    return {"id": np.arange(len(lengths)) + 10, **dict(as_columns(rows, ["x"]))}


def test_rows_of_several_shapes_are_run_and_come_back_in_order():
    given = [row(length, seed) for seed, length in enumerate((2, 5, 2, 1))]
    made = program()
    for one, outcome in zip(given, batched().outcomes(given), strict=True):
        want = made(one["x"][None], 2)
        np.testing.assert_allclose(outcome["y"], want["y"][0], rtol=1e-6)
        np.testing.assert_allclose(outcome["n"], want["n"][0], rtol=1e-5)


def test_rows_of_one_shape_are_one_batch(monkeypatch):
    sizes, batch = list[tuple[int, ...]](), BatchedProgram.batch

    def counted(self, arrays):
        sizes.append(arrays["x"].shape)
        return batch(self, arrays)

    monkeypatch.setattr(BatchedProgram, "batch", counted)
    batched().outcomes([row(2), row(5), row(2), row(2)])
    assert sizes == [(3, 2, 3), (1, 5, 3)]


def test_a_row_that_fails_keeps_no_other_from_running():
    wrong = {"x": np.zeros((2, 4), np.float32)}
    outcomes = batched().outcomes([row(2), wrong, {"z": np.zeros(3)}, row(2), wrong])
    assert [isinstance(outcome, RowFailure) for outcome in outcomes] == [False, True, True, False, True]
    assert "Input 'x' has size 4 on axis 2" in outcomes[1].error
    assert "the columns are x, but the row has z" in outcomes[2].error


def test_no_rows_have_no_outcomes():
    assert batched().outcomes([]) == []


def test_a_predictor_adds_the_outputs_as_columns():
    batch = columns(2, 4, 2)
    found = Predictor(batched(), {}, None)(batch)
    assert set(found) == {"id", "x", "y", "n"}
    assert found["y"].dtype == object
    assert [y.shape for y in found["y"]] == [(2, 3), (4, 3), (2, 3)]
    assert found["n"].shape == (3,)
    assert Predictor(batched(), {}, None)(columns(2, 2))["y"].shape == (2, 2, 3)


def test_columns_of_other_names_are_said():
    batch = {"vectors": columns(2)["x"]}
    assert Predictor(batched(), {"x": "vectors"}, None)(batch)["y"].shape == (1, 2, 3)
    with pytest.raises(RuntimeInputError, match=r"no column 'x' for 'x'; its columns are vectors.*inputs="):
        Predictor(batched(), {}, None)(batch)
    with pytest.raises(OptionError, match="no input 'z'; the inputs are x"):
        Predictor(batched(), {"z": "vectors"}, None)


def test_an_output_replaces_no_column():
    with pytest.raises(RuntimeInputError, match="a column 'n' already, which the output of that name would replace"):
        Predictor(batched(), {}, None)({**columns(2), "n": np.zeros(1)})


def test_a_key_is_a_column():
    with pytest.raises(RuntimeInputError, match="key: the data set has no column 'name'; its columns are id, x"):
        Predictor(batched(), {}, "name")(columns(2))


@pytest.mark.parametrize(("key", "name"), [(None, "the row 1 of its batch"), ("id", "the row id = 11")])
def test_errors_name_the_row(key, name):
    batch = columns(2, 2)
    batch["x"] = np.array([*batch["x"], None], object)[:2]
    batch["x"][1] = np.zeros((2, 4), np.float32)
    with pytest.raises(
        RuntimeInputError, match=rf"failed on {name} \(x float32\[2, 4\]\): RuntimeInputError: .*size 4"
    ):
        Predictor(batched(), {}, key)(batch)


def test_a_checker_tells_the_difference_of_each_row():
    batch = Predictor(batched(), {}, None)(columns(2, 4))
    batch["n"] = batch["n"] + np.array([0, 1], np.float32)
    found = Checker(batched(), {}, "id", {"n": "n"}, None, None)(batch)
    np.testing.assert_allclose(found["largest"], [0, 1], atol=1e-5)
    assert found["detail"][0] == ""
    assert "n at the row id = 11: 1 of 1 elements" in found["detail"][1]
    with pytest.raises(OptionError, match="expected says which column holds what an output should be"):
        Checker(batched(), {}, None, {}, None, None)
    with pytest.raises(OptionError, match="no output 'z'"):
        Checker(batched(), {}, None, {"z": "n"}, None, None)


@pytest.mark.parametrize(
    ("want", "largest"),
    [
        (np.array([1, 2]), 0),
        (np.array([1.0, 2.0]), 0),
        (np.array([1.5, 2.0]), 0.5),
        (np.array([1 + 2**32, 2]), 2**32),
        (np.array([True, True]), 1),
        (np.array([1, 2j]), abs(2 - 2j)),
    ],
)
def test_whole_numbers_are_compared_as_they_are_given(want, largest):
    made = to_onnx(lambda x: jnp.floor(x).astype(jnp.int32), [("B",)], output_names=["n"])
    checker = Checker(BatchedProgram(made.portable()), {}, None, {"n": "want"}, None, None)
    found = checker({"x": np.array([1, 2], np.float32), "want": want})
    np.testing.assert_allclose(found["largest"].max(), largest)
    assert any(found["detail"]) == bool(largest)


@pytest.mark.parametrize(("want", "is_close"), [(np.float64(1 / 3), True), (np.int64(0), False), (1 / 3 + 1j, False)])
def test_floats_are_compared_as_the_output_rounds(want, is_close):
    made = to_onnx(lambda x: x / 3, [("B",)], output_names=["third"])
    checker = Checker(BatchedProgram(made.portable()), {}, None, {"third": "want"}, None, None)
    found = checker({"x": np.ones(1, np.float32), "want": np.array([want])})
    assert (found["detail"][0] == "") == is_close


def test_batches_of_columns_verify_and_calibrate_a_program():
    made = program()
    batches = [Predictor(batched(), {}, None)(columns(2, 4, 2)), Predictor(batched(), {}, None)(columns(1))]
    constants = {"scale": np.asarray(2, np.float32)}
    assert made.verify(results=results(batches, made, {"y": "y", "n": "n"}, constants=constants)) < 1e-5
    shapes = [call["x"].shape for call in calls(batches, made, constants=constants)]
    assert shapes == [(2, 2, 3), (1, 4, 3), (1, 1, 3)]
    assert len(list(calls(batches, made, constants=constants, limit=2))) == 2
    assert list(calls(batches, made, constants=constants, limit=0)) == []
    with pytest.raises(OptionError, match="limit is a whole number from 0 on, not -1"):
        next(calls(batches, made, constants=constants, limit=-1))
    with pytest.raises(RuntimeInputError, match=r"no column 'w' for 'y'.*expected=\{'y'"):
        list(results(batches, made, {"y": "w", "n": "n"}, constants=constants))
    with pytest.raises(OptionError, match="expected has y; the outputs are"):
        list(results(batches, made, {"y": "y"}, constants=constants))


def test_a_batch_needs_a_symbolic_axis():
    fixed = to_onnx(lambda x: x * 2, [(4, 3)]).portable()
    with pytest.raises(OptionError, match="'x' has no symbolic first axis"):
        BatchedProgram(fixed)
    with pytest.raises(OptionError, match="constants: there is no input 'z'"):
        BatchedProgram(program().portable(), {"z": np.zeros(3)})


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: x.T, r"'output' has T on its first axis, and the rows of a batch are B\."),
        (lambda x: jnp.concatenate([x, x]), r"'output' has 2\*B on its first axis"),
        (lambda x: x.sum(), "'output' has no symbolic first axis"),
    ],
)
def test_results_have_the_rows_of_the_inputs(function, says):
    with pytest.raises(OptionError, match=says):
        BatchedProgram(to_onnx(function, [("B", "T")]).portable())


def test_inputs_with_rows_of_their_own_symbols_have_results_of_either():
    made = to_onnx(lambda x, y: (x * 2, y * 3), [("B",), ("C",)], output_names=["a", "b"])
    found = Predictor(BatchedProgram(made.portable()), {}, None)(
        {"x": np.ones(2, np.float32), "y": np.ones(2, np.float32)}
    )
    assert (found["a"].tolist(), found["b"].tolist()) == ([2, 2], [3, 3])


def test_some_inputs_are_no_constants():
    made = program().portable()
    with pytest.raises(OptionError, match="constants: there is no input left that each row has its own of"):
        BatchedProgram(made, {"x": np.zeros((1, 2, 3), np.float32), "scale": np.asarray(2, np.float32)})


def test_optional_inputs_are_no_columns():
    w, a, b = (np.ones(shape, np.float32) for shape in ((8, 8), (8, 2), (2, 8)))
    opened = to_onnx(lambda x: x @ w + x @ a @ b, [("B", 8)], output_names=["y"]).with_adapters()
    made = BatchedProgram(opened.portable())
    assert made.columns == ["x"]
    [found] = made.complete([{"x": np.ones(8, np.float32)}], [0])
    np.testing.assert_allclose(found["y"], np.full(8, 8.0))


def test_rows_of_one_shape_and_dtype_are_a_group():
    f32, f64 = np.zeros(2, np.float32), np.zeros(2)
    assert groups_of([[f32, f32], [f32, f64], [f32, f32], [f32[:1], f32]]) == [[0, 2], [1], [3]]
    column = np.empty(2, object)
    column[0], column[1] = f32, f64
    made = to_onnx(lambda x: x * 2, [("B", "T")])
    assert [call["x"].dtype for call in calls([{"x": column}], made)] == [np.float32, np.float64]


def test_columns_have_one_length():
    with pytest.raises(RuntimeInputError, match=r"different lengths: \[1, 2\]"):
        rows_of({"a": [1], "b": [1, 2]})
    assert rows_of({}) == []


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ([1, 2], "int32", [1, 2]),
        ([1, 2.5], "float16", [1, 2.5]),
        ([True, False], "bool", [True, False]),
        ([], "int32", []),
        ([[]], "bool", [[]]),
        ([255], "uint8", [255]),
        ([-8, 7], "int4", [-8, 7]),
        ([1e4, float("inf")], "float16", [1e4, np.inf]),
        ([2**70], "float32", [2.0**70]),
    ],
)
def test_lists_of_numbers_are_arrays_of_the_dtype(value, dtype, expected):
    array = array_of("x", value, np.dtype(dtype))
    assert (array.dtype, array.tolist()) == (dtype, expected)
    assert array_of("x", value, None).tolist() == expected


@pytest.mark.parametrize(
    ("value", "dtype"),
    [([1, 2.5], "int32"), ([2.0], "uint8"), ([True], "int32"), ([True], "float32"), ([0.5], "bool"), ([1], "bool"), ([256], "uint8"), ([-1], "uint8"),
     ([1, None], "float32"), (["1.5"], "float32"), ("1", "int32"), ([{}], "float32"), ([1e300], "float32"), ([7e4, 1], "float16"), ([2**70], "int32")],
)  # fmt: skip
def test_numbers_that_an_input_does_not_hold_are_refused(value, dtype):
    with pytest.raises(RuntimeInputError, match=f"The input 'x' is of {dtype}"):
        array_of("x", value, np.dtype(dtype))


def test_lists_that_make_no_rectangle_are_refused():
    with pytest.raises(RuntimeInputError, match="The input 'x' is no array of numbers"):
        array_of("x", [[1], [1, 2]], np.dtype("float32"))


def test_a_request_is_an_object():
    types = {"x": np.dtype("float32")}
    row = row_of({"x": [1, 2], "z": 3}, types)
    assert (row["x"].dtype, row["x"].tolist(), row["z"].tolist()) == ("float32", [1, 2], 3)
    for given in ([1, 2], "x", None):
        with pytest.raises(RuntimeInputError, match="A request is an object of lists by the names of inputs"):
            row_of(given, types)
