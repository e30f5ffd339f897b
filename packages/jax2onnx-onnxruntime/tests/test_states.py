"""States in ONNX Runtime: buffers that are updated in place or in turn, and the options of a session."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from jax2onnx_graph.errors import OptionError, RuntimeInputError, TargetError
from jax2onnx_graph.metadata import StatePair
from jax2onnx_onnxruntime._denormals import _library
from jax2onnx_onnxruntime._states import OrtStates, _fixed_buffer, is_updated_in_place, session_options
from jax2onnx_onnxruntime.runtime import OrtRuntime
from jax2onnx_runtime.states import RuntimeOptions

HEAD = '<ir_version: 11, opset_import: ["" : 24, "com.microsoft": 1]> g '
KEYS = StatePair("keys", "new_keys")

# Models whose states are written at a position, `at`; what they return besides is computed from the new state.
UPDATES = {
    "ScatterElements": """(float[2,64,4] keys, int64[2,1,4] at, float[2,1,4] x) => (float[2,64,4] new_keys, float[2,4] y) {
        new_keys = ScatterElements<axis=1>(keys, at, x)
        axes = Constant<value_ints=[1]>()
        y = ReduceSum<keepdims=0>(new_keys, axes) }""",
    "ScatterND": """(float[64,4] keys, int64[1,1] at, float[1,4] x) => (float[64,4] new_keys, float[4] y) {
        new_keys = ScatterND(keys, at, x)
        axes = Constant<value_ints=[0]>()
        y = ReduceSum<keepdims=0>(new_keys, axes) }""",
    "TensorScatter": """(float[2,3,64,4] keys, float[2,3,1,4] x, int64[2] at) => (float[2,3,64,4] new_keys, float[2,3,4] y) {
        new_keys = TensorScatter<axis=2>(keys, x, at)
        axes = Constant<value_ints=[2]>()
        y = ReduceSum<keepdims=0>(new_keys, axes) }""",
    "ScatterElements of what was there": """(float[2,64,4] keys, int64[2,1,4] at, float[2,1,4] x, bool[2,1,4] mask)
        => (float[2,64,4] new_keys, float[2,4] y) {
        old = GatherElements<axis=1>(keys, at)
        row = Where(mask, x, old)
        new_keys = ScatterElements<axis=1>(keys, at, row)
        axes = Constant<value_ints=[1]>()
        y = ReduceSum<keepdims=0>(new_keys, axes) }""",
    "GroupQueryAttention": """(float[2,1,32] x, float[2,1,16] k, float[2,1,16] v, float[2,2,64,8] keys, float[2,2,64,8] values,
        int32[2] at, int32 total) => (float[2,1,32] y, float[2,2,64,8] new_keys, float[2,2,64,8] new_values) {
        y, new_keys, new_values = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2>(x, k, v, keys, values, at, total) }""",
}


def model_of(text: str) -> ir.Model:
    return ir.from_onnx_text(HEAD + text)


def states_of(model: ir.Model) -> list[StatePair]:
    names = [value.name for value in model.graph.inputs]
    return [StatePair(name, f"new_{name}") for name in ("keys", "values") if name in names]


def types_of(model: ir.Model) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    return {str(value.name): (tuple(value.shape.numpy()), value.dtype.numpy()) for value in model.graph.inputs}


def steps(model: ir.Model, count: int) -> tuple[list[list[np.ndarray]], list[np.ndarray]]:
    """The results of so many steps, and the states after them."""
    loaded, rng = OrtStates(model, states_of(model), RuntimeOptions(threads=1)), np.random.default_rng(0)
    types, states = types_of(model), [pair.input for pair in states_of(model)]
    for name in states:
        loaded.write(name, np.zeros(*types[name]))
    results = []
    for position in range(count):
        numbers = {"at": position, "total": position + 1}
        feeds = {
            name: np.full(shape, numbers[name], dtype) if name in numbers else rng.standard_normal(shape).astype(dtype)
            for name, (shape, dtype) in types.items()
            if name not in states
        }
        results.append(loaded.run(feeds))
    return results, [loaded.read(name) for name in states]


@pytest.mark.parametrize("operator", UPDATES)
def test_one_buffer_gives_what_two_give(operator, monkeypatch):
    model = model_of(UPDATES[operator])
    assert all(is_updated_in_place(model, pair) for pair in states_of(model))
    results, states = steps(model, 60)
    monkeypatch.setattr("jax2onnx_onnxruntime._states._IN_PLACE", {})
    assert not any(is_updated_in_place(model, pair) for pair in states_of(model))
    expected, expected_states = steps(model, 60)
    assert all(
        np.array_equal(a, b)
        for got, want in zip(results, expected, strict=True)
        for a, b in zip(got, want, strict=True)
    )
    assert all(np.array_equal(a, b) for a, b in zip(states, expected_states, strict=True))


@pytest.mark.parametrize(
    "body",
    [
        # The old value is read elsewhere, perhaps after the new one was written.
        "new_keys = ScatterElements(keys, at, x)  y = Neg(keys)",
        "row = GatherElements(keys, at)  new_keys = ScatterElements(keys, at, x)  y = Neg(row)",
        # What it is read for shares its memory.
        "flat = Identity(keys)  row = Neg(flat)  new_keys = ScatterElements(keys, at, row)  y = Neg(flat)",
        # It is an output as well.
        "new_keys = ScatterElements(keys, at, x)  y = Identity(keys)",
        # The operator that reads it is not the one that writes.
        "old = Neg(keys)  new_keys = ScatterElements(old, at, x)  y = Neg(x)",
        # It is what is written, not where.
        "new_keys = ScatterElements(x, at, keys)  y = Neg(x)",
        "new_keys = Add(keys, x)  y = Neg(x)",
    ],
)
def test_what_is_not_updated_in_place(body):
    model = model_of(
        f"(float[3,4] keys, int64[3,4] at, float[3,4] x) => (float[3,4] new_keys, float[3,4] y) {{ {body} }}"
    )
    assert not is_updated_in_place(model, KEYS)


def test_a_shape_that_is_read_does_not_matter():
    model = model_of(
        "(float[C,4] keys, int64[3,4] at, float[3,4] x) => (float[C,4] new_keys, int64[2] y) "
        "{ new_keys = ScatterElements(keys, at, x)  y = Shape(keys) }"
    )
    assert is_updated_in_place(model, KEYS)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.int8, np.bool_])
def test_states_of_every_type(dtype):
    element = ir.DataType.from_numpy(np.dtype(dtype)).name.lower()
    model = model_of(f"({element}[3] keys, {element}[3] x) => ({element}[3] new_keys, {element}[3] y) "
                     "{ new_keys = Identity(x)  y = Identity(keys) }")  # fmt: skip
    loaded = OrtStates(model, [KEYS], RuntimeOptions())
    loaded.write("keys", np.array([1, 0, 1]).astype(dtype))
    first, second = np.array([0, 1, 1]).astype(dtype), np.array([1, 1, 0]).astype(dtype)
    assert loaded.run({"x": first})[0].tolist() == [1, 0, 1]
    assert loaded.run({"x": second})[0].tolist() == first.tolist()
    assert loaded.read("keys").dtype == dtype
    assert loaded.read("keys").tolist() == second.tolist()


def test_empty_and_growing_states():
    model = model_of("(float[N,2] keys, float[1,2] x) => (float[M,2] new_keys, float[1,2] y) "
                     "{ new_keys = Concat<axis=0>(keys, x)  y = Neg(x) }")  # fmt: skip
    loaded = OrtStates(model, [StatePair("keys", "new_keys", 0)], RuntimeOptions())
    loaded.write("keys", np.zeros((0, 2), np.float32))
    for i in range(3):
        loaded.run({"x": np.full((1, 2), i, np.float32)})
    assert loaded.read("keys").tolist() == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.bool_, np.int8])
def test_the_last_entries_of_a_state(dtype):
    element = ir.DataType.from_numpy(np.dtype(dtype)).name.lower()
    model = model_of(f"({element}[2,N,3] keys) => ({element}[2,N,3] new_keys) {{ new_keys = Identity(keys) }}")
    loaded = OrtStates(model, [StatePair("keys", "new_keys", 1)], RuntimeOptions())
    array = np.random.default_rng(0).integers(0, 2, (2, 5, 3)).astype(dtype)
    loaded.write("keys", array)
    loaded.keep_last("keys", 1, 2)
    assert loaded.read("keys").tolist() == array[:, 3:].tolist()
    loaded.keep_last("keys", 1, 0)
    assert loaded.shape("keys") == (2, 0, 3)


# -- what stays bound -----------------------------------------------------------------------

SUM = "(float[N] keys, float[N] x) => (float[N] new_keys, float[N] y) { new_keys = Add(keys, x)  y = Sub(keys, x) }"


def summing(size: int) -> OrtStates:
    loaded = OrtStates(model_of(SUM), [KEYS], RuntimeOptions())
    loaded.write("keys", np.zeros(size, np.float32))
    return loaded


@pytest.mark.parametrize("size", [0, 1, 4, 2**15])  # the last is not copied
def test_an_array_may_be_changed_between_runs(size):
    loaded, x = summing(size), np.ones(size, np.float32)
    results = []
    for _ in range(4):
        results += loaded.run({"x": x})
        x *= 2
    for before, given, result in zip((0, 1, 3, 7), (1, 2, 4, 8), results, strict=True):
        np.testing.assert_array_equal(result, np.full(size, before - given))
    np.testing.assert_array_equal(loaded.read("keys"), np.full(size, 15))


def test_inputs_and_states_of_other_sizes():
    loaded = summing(3)
    for size in (3, 3, 3, 2, 5, 5, 5, 0, 3):
        if loaded.shape("keys") != (size,):
            loaded.change("keys", functools.partial(np.resize, new_shape=size))
        before, x = loaded.read("keys"), np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(loaded.run({"x": x})[0], before - x)
        np.testing.assert_array_equal(loaded.read("keys"), before + x)


def test_a_result_that_is_an_input_is_not_overwritten_by_the_next_run():
    model = model_of("(float[2] keys, float[2] x) => (float[2] new_keys, float[2] x) { new_keys = Add(keys, x) }")
    loaded = OrtStates(model, [KEYS], RuntimeOptions())
    loaded.write("keys", np.zeros(2, np.float32))
    found = [loaded.run({"x": np.full(2, i, np.float32)})[0] for i in range(4)]
    assert [array.tolist() for array in found] == [[i, i] for i in range(4)]


def test_an_optional_input_that_is_left_out_again_has_its_default():
    model = model_of(SUM)
    x = model.graph.inputs[1]
    x.const_value = ir.tensor(np.full(2, 10, np.float32), name="x")
    x.shape = ir.Shape([2])
    model.graph.register_initializer(x)
    loaded = OrtStates(model, [KEYS], RuntimeOptions())
    loaded.write("keys", np.zeros(2, np.float32))
    for given in ({}, {"x": np.ones(2, np.float32)}, {"x": np.ones(2, np.float32)}, {"x": np.ones(2, np.float32)}, {}):
        loaded.run(given)
    assert loaded.read("keys").tolist() == [23, 23]


def test_a_run_that_fails_leaves_a_usable_session():
    loaded = summing(3)
    for _ in range(3):
        loaded.run({"x": np.ones(3, np.float32)})
        with pytest.raises(Exception, match="x"):  # ONNX Runtime's own; sessions check before
            loaded.run({"x": np.ones(2, np.float32)})
    assert loaded.read("keys").tolist() == [3, 3, 3]


# -- options --------------------------------------------------------------------------------


def opened(**options: Any) -> OrtStates:
    loaded = OrtRuntime().open(
        model_of("(float[2] keys) => (float[2] new_keys) { new_keys = Neg(keys) }"), [KEYS], RuntimeOptions(**options)
    )
    assert isinstance(loaded, OrtStates)
    return loaded


@pytest.mark.parametrize(
    ("dtype", "shape", "stays"),
    [
        (ir.DataType.FLOAT, [2, 3], True),
        (ir.DataType.FLOAT, [], True),
        (ir.DataType.BOOL, [5], True),
        (ir.DataType.FLOAT, [1 << 14], True),
        (ir.DataType.FLOAT, [(1 << 14) + 1], False),
        (ir.DataType.DOUBLE, [1 << 14], False),
        (ir.DataType.FLOAT, [0, 3], False),
        (ir.DataType.FLOAT, ["N", 3], False),
        (ir.DataType.FLOAT, None, False),
        (ir.DataType.INT4, [2], False),
        (ir.DataType.STRING, [2], False),
    ],
)
def test_small_results_of_one_shape_stay_bound_to_one_buffer(dtype, shape, stays):
    """What is larger would be kept between runs, and copied; it is the runtime's."""
    value = ir.Value(name="y", type=ir.TensorType(dtype), shape=None if shape is None else ir.Shape(shape))
    assert (_fixed_buffer(value) is not None) is stays


def test_options_of_a_session():
    given = onnxruntime.SessionOptions()
    given.log_severity_level = 4
    loaded = opened(
        threads=1, session_options=given, graph_optimization_level="basic", providers=["CPUExecutionProvider"]
    )
    loaded.write("keys", np.ones(2, np.float32))
    assert loaded.run({}) == []
    assert loaded.read("keys").tolist() == [-1, -1]
    assert given.intra_op_num_threads == 1
    assert given.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads=0: it is a number of threads, from 1 on"),
        ({"threads": True}, "threads=True"),
        (
            {"providers": ["NoExecutionProvider"]},
            "there is no 'NoExecutionProvider' in this build of ONNX Runtime; it has",
        ),
        (
            {"session_options": {"threads": 3}},
            "session_options needs an onnxruntime.SessionOptions, not {'threads': 3}",
        ),
        (
            {"graph_optimization_level": "O3"},
            "graph_optimization_level='O3'; there are 'all', 'extended', 'basic', 'disabled'",
        ),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(OptionError) as raised:
        opened(**options)
    assert message in str(raised.value)


def test_a_model_that_cannot_be_loaded():
    model = model_of("(float[2] keys) => (float[2] new_keys) { new_keys = com.microsoft.Unheard(keys) }")
    with pytest.raises(TargetError, match="ONNX Runtime cannot load the model"):
        OrtRuntime().open(model, [KEYS], RuntimeOptions())


GROWING = "(float[2,S] keys, float[2,T] x) => (float[2,N] new_keys) { new_keys = Concat<axis=1>(keys, x) }"


@pytest.mark.parametrize("dtype", ["float", "bfloat16", "int32"])
def test_the_window_of_a_state_that_grows_is_right_in_memory_that_is_used_again(dtype):
    model = model_of(GROWING.replace("float", dtype))
    numbers = np.arange(40).reshape(2, 20).astype(model.graph.inputs[0].dtype.numpy())
    loaded = OrtStates(model, [StatePair("keys", "new_keys", 1)], RuntimeOptions())
    loaded.write("keys", numbers[:, :0])
    for begin, end in ((0, 5), (5, 6), (6, 7), (7, 9), (9, 10)):
        loaded.run({"x": numbers[:, begin:end]})
        if loaded.shape("keys")[1] > 4:
            loaded.keep_last("keys", 1, 4)
        np.testing.assert_array_equal(loaded.read("keys"), numbers[:, end - 4 : end])


def test_the_window_of_a_state_that_grows_needs_no_new_memory():
    loaded = OrtStates(model_of(GROWING), [StatePair("keys", "new_keys", 1)], RuntimeOptions())
    loaded.write("keys", np.zeros((2, 4), np.float32))
    places = set()
    for _ in range(6):
        loaded.run({"x": np.ones((2, 1), np.float32)})
        loaded.keep_last("keys", 1, 4)
        places.add(loaded.values["keys"].value.data_ptr())
    assert len(places) <= 2


def test_the_window_stays_where_it_is_if_it_is_one_piece_of_memory():
    graph = "(float[1,S,3] keys, float[1,T,3] x) => (float[1,N,3] new_keys) { new_keys = Concat<axis=1>(keys, x) }"
    loaded = OrtStates(model_of(graph), [StatePair("keys", "new_keys", 1)], RuntimeOptions())
    numbers = np.arange(60, dtype=np.float32).reshape(1, 20, 3)
    loaded.write("keys", numbers[:, :6])
    for end in (8, 10, 12):
        loaded.run({"x": numbers[:, end - 2 : end]})
        place = loaded.values["keys"].value.data_ptr()
        loaded.keep_last("keys", 1, 6)
        assert loaded.values["keys"].value.data_ptr() == place + 2 * 3 * 4
        np.testing.assert_array_equal(loaded.read("keys"), numbers[:, end - 6 : end])


def test_a_small_part_of_a_state_does_not_keep_the_rest_in_memory():
    loaded = OrtStates(model_of(GROWING.replace("[2,", "[1,")), [StatePair("keys", "new_keys", 1)], RuntimeOptions())
    loaded.write("keys", np.zeros((1, 20), np.float32))
    place = loaded.values["keys"].value.data_ptr()
    loaded.keep_last("keys", 1, 4)
    assert not place <= loaded.values["keys"].value.data_ptr() < place + 80


def test_sessions_beside_each_other_have_one_state_of_a_name():
    model = model_of("(float[2] keys, float[2] x) => (float[2] new_keys) { new_keys = Add(keys, x) }")
    first = OrtStates(model, [KEYS], RuntimeOptions())
    other = OrtStates(model, [KEYS], RuntimeOptions(), first)
    first.write("keys", np.zeros(2, np.float32))
    for loaded in (first, other, other, first):
        loaded.run({"x": np.ones(2, np.float32)})
    assert first.read("keys").tolist() == other.read("keys").tolist() == [4, 4]


@pytest.mark.parametrize("ran", ["the other one", "itself"])
def test_a_run_is_taken_back_where_no_other_session_has_changed_its_states_since(ran):
    model = model_of("(float[2] keys, float[2] x) => (float[2] new_keys) { new_keys = Add(keys, x) }")
    first = OrtStates(model, [KEYS], RuntimeOptions())
    other = OrtStates(model, [KEYS], RuntimeOptions(), first)
    first.write("keys", np.zeros(2, np.float32))
    latest, earlier = (first, other) if ran == "itself" else (other, first)
    for loaded in (first, other, latest):
        loaded.run({"x": np.ones(2, np.float32)})
    with pytest.raises(RuntimeInputError, match="The last run cannot be taken back: the state 'keys'"):
        earlier.undo()
    assert first.read("keys").tolist() == [3, 3]
    latest.undo()
    assert first.read("keys").tolist() == [2, 2]
    with pytest.raises(RuntimeInputError, match="There was no run, it was taken back"):
        earlier.undo()
    assert first.read("keys").tolist() == [2, 2]


def test_a_run_in_the_memory_of_a_state_is_not_taken_back_to_a_buffer_of_another_session():
    model = model_of("(float[2] keys, float[2] x) => (float[2] new_keys) { new_keys = Add(keys, x) }")
    scatter = "(float[2] keys, float[2] x) => (float[2] new_keys) { p = Constant<value = int64[2] {0, 1}>() new_keys = ScatterElements(keys, p, x) }"
    other = OrtStates(model, [KEYS], RuntimeOptions())
    first = OrtStates(model_of(scatter), [KEYS], RuntimeOptions(), other)
    other.write("keys", np.zeros(2, np.float32))
    other.run({"x": np.ones(2, np.float32)})
    first.run({"x": np.full(2, 7, np.float32)})
    for loaded in (first, other):
        with pytest.raises(RuntimeInputError, match="The last run cannot be taken back: the state 'keys'"):
            loaded.undo()
    assert first.read("keys").tolist() == [7, 7]


def test_an_input_without_an_array_is_the_state_of_another_session():
    model = model_of("(float[2] keys, float[2] x) => (float[2] new_keys) { new_keys = Add(keys, x) }")
    first = OrtStates(model, [KEYS], RuntimeOptions())
    reading = OrtStates(
        model_of("(float[2] keys, float[2] y) => (float[2] out) { out = Mul(keys, y) }"), [], RuntimeOptions(), first
    )
    first.write("keys", np.zeros(2, np.float32))
    for count in (1, 2, 3):
        first.run({"x": np.ones(2, np.float32)})
        assert reading.run({"y": np.ones(2, np.float32)})[0].tolist() == [count, count]


def test_a_run_is_taken_back():
    loaded = OrtStates(
        model_of("(float[2] keys, float[2] x) => (float[2] new_keys) { new_keys = Add(keys, x) }"),
        [KEYS],
        RuntimeOptions(),
    )
    loaded.write("keys", np.zeros(2, np.float32))
    with pytest.raises(
        RuntimeInputError, match="The last run cannot be taken back: the state 'keys' has no value of before"
    ):
        loaded.undo()
    for _ in range(3):
        loaded.run({"x": np.ones(2, np.float32)})
    loaded.undo()
    assert loaded.read("keys").tolist() == [2, 2]
    with pytest.raises(RuntimeInputError, match="There was no run, it was taken back"):
        loaded.undo()
    assert loaded.read("keys").tolist() == [2, 2]
    loaded.run({"x": np.ones(2, np.float32)})
    assert loaded.read("keys").tolist() == [3, 3]


def test_shared_weights_are_not_rearranged():
    options = session_options(RuntimeOptions(share_weights=True))
    assert options.get_session_config_entry("session.disable_prepacking") == "1"


@pytest.mark.parametrize("arena", [None, True, False])
def test_memory_stays_with_a_session_unless_it_is_told_otherwise(arena):
    assert session_options(RuntimeOptions(arena=arena)).enable_cpu_mem_arena is (arena is not False)


needs_x86 = pytest.mark.skipif(_library() is None, reason="nothing is done about denormal numbers on this machine")


@needs_x86
@pytest.mark.parametrize("flush", [True, False])
def test_denormal_numbers_are_zeros_in_a_run_that_is_told_so_and_nowhere_else(flush):
    given = onnxruntime.SessionOptions()
    given.log_severity_level = 3
    options = RuntimeOptions(flush_denormals=flush, session_options=given, threads=2)
    model = model_of(
        "(float[N] keys) => (float[N] new_keys, bool[N] y) { two = Constant<value_float=2.0>() new_keys = Mul(keys, two) "
        "zero = Constant<value_float=0.0>() y = Greater(keys, zero) }"
    )
    tiny = np.full(100_000, 1e-40, np.float32)
    for _ in range(2):
        loaded = OrtStates(model, [KEYS], options)
        assert (tiny * 2 != 0).all()
        loaded.write("keys", tiny)
        (positive,) = loaded.run({})
        assert (tiny * 2 != 0).all()
        assert (loaded.read("keys") == (0 if flush else 2 * tiny)).all()
        assert (positive != flush).all()


@needs_x86
def test_a_run_that_fails_leaves_denormal_numbers_to_the_thread():
    loaded = OrtStates(model_of(SUM), [KEYS], RuntimeOptions(flush_denormals=True))
    loaded.write("keys", np.zeros(3, np.float32))
    with pytest.raises(Exception, match="broadcast"):
        loaded.run({"x": np.ones(2, np.float32)})
    assert np.full(3, 1e-40, np.float32).sum() > 0


@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16"])
@pytest.mark.parametrize("shape", ["", "3", "N", "0"])
def test_results_are_those_of_their_own_runs(dtype, shape):
    kind = {"float32": "float"}.get(dtype, dtype)
    model = model_of(
        f"({kind}[{shape}] keys, {kind}[{shape}] x) => ({kind}[{shape}] new_keys, {kind}[{shape}] y) "
        "{ new_keys = Identity(x) y = Identity(keys) }"
    )
    loaded, sizes = OrtStates(model, [KEYS], RuntimeOptions()), {"": (), "3": (3,), "N": (3,), "0": (0,)}[shape]
    given = [np.full(sizes, n).astype(dtype) for n in (0, 1, 0, 1)]
    loaded.write("keys", given[-1])
    results = [loaded.run({"x": array})[0] for array in given]
    for result, expected in zip(results, [given[-1], *given], strict=False):
        np.testing.assert_array_equal(result, expected)
        assert result.dtype == expected.dtype


def test_a_session_is_opened_on_a_file(tmp_path):
    ir.save(model_of("(float[2] keys) => (float[2] new_keys) { new_keys = Neg(keys) }"), tmp_path / "m.onnx")
    loaded = OrtRuntime().open(tmp_path / "m.onnx", [KEYS], RuntimeOptions())
    loaded.write("keys", np.ones(2, np.float32))
    loaded.run({})
    assert loaded.read("keys").tolist() == [-1, -1]
