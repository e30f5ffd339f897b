"""`NumpyStates` keeps the states of a model that a function runs; `RuntimeOptions` tells which options are given."""

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import RuntimeInputError
from jax2onnx_graph.metadata import StatePair
from jax2onnx_runtime.runtimes import reference_runtime
from jax2onnx_runtime.states import NumpyStates, RuntimeOptions, last

COUNTER = """
<ir_version: 8, opset_import: ["": 18]>
agraph (float[2] x, float[2] total) => (float[2] doubled, float[2] new_total, float[2] negative) {
  new_total = Add(total, x)
  doubled = Add(x, x)
  negative = Neg(new_total)
}
"""
ONES, ZEROS = np.ones(2, np.float32), np.zeros(2, np.float32)


@pytest.fixture
def counter() -> NumpyStates:
    model = ir.from_onnx_text(COUNTER)
    states = NumpyStates(model, [StatePair("total", "new_total")], reference_runtime.load(model))
    states.write("total", ZEROS)
    return states


def test_a_run_returns_the_outputs_that_are_no_states_in_order(counter):
    doubled, negative = counter.run({"x": ONES})
    np.testing.assert_array_equal(doubled, [2, 2])
    np.testing.assert_array_equal(negative, [-1, -1])


def test_the_next_run_begins_with_the_new_state(counter):
    for _ in range(3):
        counter.run({"x": ONES})
    np.testing.assert_array_equal(counter.read("total"), [3, 3])


def test_what_is_read_is_a_copy(counter):
    counter.read("total")[:] = 7
    np.testing.assert_array_equal(counter.read("total"), [0, 0])


def test_what_is_written_is_a_copy(counter):
    array = np.full(2, 5, np.float32)
    counter.write("total", array)
    array[:] = 7
    np.testing.assert_array_equal(counter.read("total"), [5, 5])


def test_the_last_entries_of_a_state_are_kept(counter):
    counter.write("total", np.arange(6, dtype=np.float32).reshape(2, 3))
    counter.keep_last("total", 1, 2)
    assert counter.shape("total") == (2, 2)
    np.testing.assert_array_equal(counter.read("total"), [[1, 2], [4, 5]])


@pytest.mark.parametrize(("count", "expected"), [(0, []), (1, [2]), (3, [0, 1, 2])])
def test_the_last_entries_of_an_array(count, expected):
    assert last(np.arange(3), 0, count).tolist() == expected


def test_options_that_are_left_to_the_runtime_are_not_given():
    assert RuntimeOptions().given() == []
    assert RuntimeOptions(threads=1, graph_optimization_level="basic").given() == [
        "threads",
        "graph_optimization_level",
    ]


def test_states_of_one_name_are_one_state(counter):
    model = ir.from_onnx_text(COUNTER.replace("Add(x, x)", "Identity(total)"))
    other = NumpyStates(model, [StatePair("total", "new_total")], reference_runtime.load(model), counter)
    counter.run({"x": ONES})
    before, _ = other.run({"x": ONES})
    np.testing.assert_array_equal(before, [1, 1])
    np.testing.assert_array_equal(counter.read("total"), [2, 2])


def test_a_model_does_not_take_states_of_another_one(counter):
    model = ir.from_onnx_text(COUNTER.replace("total", "sum"))
    other = NumpyStates(model, [StatePair("sum", "new_sum")], reference_runtime.load(model), counter)
    other.write("sum", ONES)
    other.run({"x": ONES})
    np.testing.assert_array_equal(counter.read("total"), [0, 0])


def test_an_input_without_an_array_is_the_state_of_another_model(counter):
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["": 18]>
reads (float[2] total, float[2] y) => (float[2] out) { out = Mul(total, y) }""")
    reading = NumpyStates(model, [], reference_runtime.load(model), counter)
    counter.run({"x": ONES})
    np.testing.assert_array_equal(reading.run({"y": 3 * ONES})[0], [3, 3])
    np.testing.assert_array_equal(reading.run({"y": ONES, "total": 5 * ONES})[0], [5, 5])
    np.testing.assert_array_equal(counter.read("total"), [1, 1])


def test_a_run_is_taken_back(counter):
    counter.run({"x": ONES})
    counter.run({"x": ONES})
    counter.undo()
    np.testing.assert_array_equal(counter.read("total"), [1, 1])


@pytest.mark.parametrize("since", ["nothing ran", "taken back", "set", "changed"])
def test_no_run_is_taken_back_twice_or_from_what_was_set(counter, since):
    if since != "nothing ran":
        counter.run({"x": ONES})
    if since == "taken back":
        counter.undo()
    elif since == "set":
        counter.write("total", 5 * ONES)
    elif since == "changed":
        counter.change("total", lambda array: 5 * array)
    before = counter.read("total")
    with pytest.raises(RuntimeInputError, match="The last run cannot be taken back: the state 'total'"):
        counter.undo()
    np.testing.assert_array_equal(counter.read("total"), before)


@pytest.mark.parametrize("last", ["the other one", "itself"])
def test_a_run_is_taken_back_where_no_other_model_has_changed_its_states_since(counter, last):
    model = ir.from_onnx_text(COUNTER)
    other = NumpyStates(model, [StatePair("total", "new_total")], reference_runtime.load(model), counter)
    counter.run({"x": ONES})
    other.run({"x": ONES})
    if last == "itself":
        counter.run({"x": ONES})
    before = counter.read("total")
    first, second = (counter, other) if last == "itself" else (other, counter)
    with pytest.raises(RuntimeInputError, match="The last run cannot be taken back: the state 'total'"):
        second.undo()
    np.testing.assert_array_equal(counter.read("total"), before)
    first.undo()
    np.testing.assert_array_equal(counter.read("total"), before - 1)
    with pytest.raises(RuntimeInputError, match="There was no run, it was taken back"):
        second.undo()


def test_a_model_is_opened_from_its_file(tmp_path):
    ir.save(ir.from_onnx_text(COUNTER), tmp_path / "m.onnx")
    opened = reference_runtime.open(tmp_path / "m.onnx", [StatePair("total", "new_total")], RuntimeOptions())
    opened.write("total", ZEROS)
    opened.run({"x": ONES})
    np.testing.assert_array_equal(opened.read("total"), [1, 1])
