"""Rows through a program, and batches of columns, without a cluster."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_ray import calls, results
from jax2onnx_ray.predictor import Checker, Predictor
from jax2onnx_ray.rows import BatchedProgram, RowFailure, array_of, as_columns, rows_of


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
    with pytest.raises(OptionError, match="no output 'z'"):
        Checker(batched(), {}, None, {"z": "n"}, None, None)


def test_batches_of_columns_verify_and_calibrate_a_program():
    made = program()
    batches = [Predictor(batched(), {}, None)(columns(2, 4, 2)), Predictor(batched(), {}, None)(columns(1))]
    constants = {"scale": np.asarray(2, np.float32)}
    assert made.verify(results=results(batches, made, {"y": "y", "n": "n"}, constants=constants)) < 1e-5
    shapes = [call["x"].shape for call in calls(batches, made, constants=constants)]
    assert shapes == [(2, 2, 3), (1, 4, 3), (1, 1, 3)]
    assert len(list(calls(batches, made, constants=constants, limit=2))) == 2
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
    ],
)
def test_lists_of_numbers_are_arrays_of_the_dtype(value, dtype, expected):
    array = array_of("x", value, np.dtype(dtype))
    assert (array.dtype, array.tolist()) == (dtype, expected)
    assert array_of("x", value, None).tolist() == expected


@pytest.mark.parametrize(
    ("value", "dtype"),
    [([1, 2.5], "int32"), ([2.0], "uint8"), ([True], "int32"), ([True], "float32"), ([0.5], "bool"), ([1], "bool"), ([256], "uint8"), ([-1], "uint8")],
)  # fmt: skip
def test_numbers_that_an_input_does_not_hold_are_refused(value, dtype):
    with pytest.raises(RuntimeInputError, match=f"The input 'x' is of {dtype}"):
        array_of("x", value, np.dtype(dtype))
