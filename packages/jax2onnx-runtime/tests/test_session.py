"""Sessions on models given as text: steps, states, windows, limits, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_graph.metadata import StatePair, write_states
from jax2onnx_runtime.adapters.program_adapters import AdapterInputs
from jax2onnx_runtime.runtimes import reference_runtime
from jax2onnx_runtime.session import ModelSession, open_session
from jax2onnx_runtime.sizes import SymbolSpace
from jax2onnx_runtime.state_values import StateSizes
from jax2onnx_runtime.states import RuntimeOptions

Open = Callable[..., ModelSession]

# The sum of the steps so far, for each entry of a batch.
SUM = """
<ir_version: 8, opset_import: ["": 18]>
agraph (float[B] x, float[B] total) => (float[B] y, float[B] new_total) {
  new_total = Add(total, x)
  y = Neg(new_total)
}
"""
# A cache that grows by one column in each step.
CACHE = """
<ir_version: 8, opset_import: ["": 18]>
agraph (float[B,1] x, float[B,S] cache) => (float[B] y, float[B,M] new_cache) {
  new_cache = Concat<axis = 1>(cache, x)
  one = Constant<value = int64[1] {1}>()
  y = ReduceSum<keepdims = 0>(new_cache, one)
}
"""


class OneInput:
    """A step takes `x` and returns `y`; symbols are read from the shapes."""

    def feeds(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], states: Mapping[str, tuple[int, ...]]
    ) -> tuple[dict[str, np.ndarray], Mapping[str, int]]:
        (x,) = args
        sizes = {"B": len(x)}
        if "cache" in states:
            sizes["S"] = states["cache"][1]
        return {"x": np.asarray(x, np.float32)}, sizes

    def result(self, outputs: Sequence[np.ndarray]) -> Any:
        (y,) = outputs
        return y.tolist()


def opened(
    text: str, pair: StatePair, space: SymbolSpace, initial: Mapping[str, Any], sizes: StateSizes
) -> ModelSession:
    model = ir.from_onnx_text(text)
    for value in model.graph.outputs:  # the text format has no expressions
        if str(value.shape) == "[B,M]":
            value.shape = ir.Shape(["B", "S + 1"])
    write_states(model, [pair])
    return open_session(
        model, lambda pairs: reference_runtime.open(model, pairs, RuntimeOptions()), OneInput(), space,
        initial=initial, sizes=sizes, adapters=AdapterInputs(model, reference_runtime),
    )  # fmt: skip


@pytest.fixture
def sums(space_of) -> Open:
    """`sums(B=2)`: a session of `SUM` on a batch of this size."""

    def open_it(initial: Mapping[str, Any] | None = None, **sizes: int) -> ModelSession:
        space = space_of(["B"], ["B"], names=("B",))
        return opened(SUM, StatePair("total", "new_total"), space, initial or {}, StateSizes(sizes))

    return open_it


@pytest.fixture
def caches(space_of) -> Open:
    """`caches(window=…, limits=…)`: a session of `CACHE` on a batch of two."""

    def open_it(*, text: str = CACHE, least: int = 0, **sizes: Mapping[str, int]) -> ModelSession:
        space = space_of(["B", 1], ["B", "S"], names=("B", "S"), minimum={"S": least})
        options = StateSizes(**{"sizes": {"B": 2}, **sizes})
        return opened(text, StatePair("cache", "new_cache", 1), space, {}, options)

    return open_it


# -- steps ----------------------------------------------------------------------------------


def test_the_state_begins_with_zeros_and_moves_on(sums):
    session = sums(B=2)
    assert session.step([1, 2]) == [-1, -2]
    assert session.step([1, 2]) == [-2, -4]
    np.testing.assert_array_equal(session.state["total"], [2, 4])


def test_the_state_begins_with_a_given_value(sums):
    assert sums({"total": np.array([5, 6], np.float32)}).step([1, 1]) == [-6, -7]


def test_the_given_value_is_kept_as_it_was(sums):
    given = np.array([1, 2], np.float32)
    session = sums({"total": given})
    given += 5
    session.reset()
    assert session.step([1, 1]) == [-2, -3]


def test_a_state_grows_from_nothing(caches):
    session = caches()
    assert session.state["cache"].shape == (2, 0)
    assert [session.step([[n], [1]]) for n in (1, 2, 3)] == [[1, 1], [3, 2], [6, 3]]
    np.testing.assert_array_equal(session.state["cache"], [[1, 2, 3], [1, 1, 1]])


def test_a_window_keeps_the_last_entries(caches):
    session = caches(window={"S": 2})
    for n in range(5):
        session.step([[n], [n]])
    np.testing.assert_array_equal(session.state["cache"], [[3, 4], [3, 4]])


# -- states ---------------------------------------------------------------------------------


def test_states_are_shown_by_type_and_shape(caches):
    assert repr(caches().state) == "States(cache: float32[2, 0])"
    assert list(caches().state) == ["cache"]
    assert len(caches().state) == 1


def test_a_state_is_set(sums):
    session = sums(B=2)
    session.state["total"] = np.array([10, 20], np.float32)
    assert session.step([1, 1]) == [-11, -21]


def test_a_state_that_is_set_is_cut_to_its_window(caches):
    session = caches(window={"S": 2})
    session.state["cache"] = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(session.state["cache"], [[1, 2], [4, 5]])


def test_a_state_cannot_be_deleted(sums):
    with pytest.raises(TypeError, match="A model has all of its states"):
        del sums(B=1).state["total"]


def test_there_is_no_other_state(sums):
    with pytest.raises(KeyError, match="There is no state 'sum'; the states are total"):
        sums(B=1).state["sum"]


@pytest.mark.parametrize("array", [np.zeros(2), np.zeros((2, 2), np.float32)])
def test_a_state_of_another_type_or_rank_is_refused(sums, array):
    shown = f"{array.dtype}{list(array.shape)}"
    with pytest.raises(RuntimeInputError, match=re.escape(f"The state 'total', float32[B] cannot be {shown}.")):
        sums(B=2).state["total"] = array


def test_several_states_are_set_all_or_none(sums):
    session = sums(B=2)
    session.step([1, 2])
    before = session.state.changes
    with pytest.raises(KeyError, match="There is no state 'sum'"):
        session.state.update({"total": np.full(2, 9, np.float32), "sum": np.zeros(2, np.float32)})
    assert (session.state["total"].tolist(), session.state.changes) == ([1, 2], before)
    session.state.update([("total", np.full(2, 9, np.float32))])
    session.state.update(total=session.state["total"] + 1)
    assert session.state["total"].tolist() == [10, 10]


def test_states_are_saved_and_loaded(sums, tmp_path):
    session, other = sums(B=2), sums(B=2)
    session.step([1, 2])
    assert session.state.save(tmp_path / "s.npz") == tmp_path / "s.npz"
    other.state.load(tmp_path / "s.npz")
    assert other.step([1, 1]) == [-2, -3]
    assert [path.name for path in tmp_path.iterdir()] == ["s.npz"]


def test_states_of_types_that_numpy_lacks_are_saved_and_loaded(space_of, tmp_path):
    text = SUM.replace("float[", "bfloat16[")
    # It is not run: the state alone is of this type.
    session = opened(text, StatePair("total", "new_total"), space_of(["B"]), {}, StateSizes({"B": 2}))
    value = np.array([1.5, -2], ml_dtypes.bfloat16)
    session.state["total"] = value
    session.state.save(tmp_path / "s.npz")
    session.reset()
    session.state.load(tmp_path / "s.npz")
    assert session.state["total"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(session.state["total"], value)


def test_states_of_another_model_are_refused_and_those_here_stay(sums, caches, tmp_path):
    caches().state.save(tmp_path / "s.npz")
    session = sums({"total": np.ones(2, np.float32)})
    with pytest.raises(RuntimeInputError, match="holds the states cache, but those of the model are total"):
        session.state.load(tmp_path / "s.npz")
    np.testing.assert_array_equal(session.state["total"], [1, 1])


# -- reset and resize -----------------------------------------------------------------------


def test_a_reset_begins_again(sums):
    session = sums(B=2)
    session.step([1, 2])
    session.reset()
    assert session.step([1, 2]) == [-1, -2]


def test_a_reset_of_slots_leaves_the_others(sums):
    session = sums({"total": np.array([5, 5, 5], np.float32)})
    session.step([1, 1, 1])
    session.reset(B=[0, 2])
    np.testing.assert_array_equal(session.state["total"], [5, 6, 5])


def test_slots_of_a_state_that_grew_cannot_be_reset(caches):
    session = caches()
    session.step([[1], [1]])
    with pytest.raises(OptionError, match=r"The state 'cache', float32\[B, S\] has another size than at first"):
        session.reset(B=[0])


@pytest.mark.parametrize("slots", [[2], [0, -3]])
def test_slots_that_there_are_not_are_refused_and_the_state_stays(sums, slots):
    session = sums(B=2)
    session.step([1, 2])
    with pytest.raises(OptionError, match=re.escape(f"reset: B={slots} are no entries along an axis of 2")):
        session.reset(B=slots)
    np.testing.assert_array_equal(session.state["total"], [1, 2])


@pytest.mark.parametrize("slots", [1, None, np.int64(1), [[0], [1]], "0"])
def test_slots_are_a_list(sums, slots):
    session = sums(B=2)
    session.step([1, 2])
    with pytest.raises(OptionError, match=re.escape(f"reset: B={slots!r}, but it is a list of entries")):
        session.reset(B=slots)
    session.reset(B=np.array([1]))
    np.testing.assert_array_equal(session.state["total"], [1, 0])


def test_a_reset_of_slots_that_one_state_lacks_changes_none(space_of):
    text = """<ir_version: 8, opset_import: ["": 18]>
    agraph (float[B,1] x, float[B] total, float[B,S] cache) => (float[B] y, float[B] new_total, float[B,M] new_cache) {
      new_cache = Concat<axis = 1>(cache, x) one = Constant<value = int64[1] {1}>() y = ReduceSum<keepdims = 0>(x, one) new_total = Add(total, y)
    }"""
    model = ir.from_onnx_text(text)
    model.graph.outputs[2].shape = ir.Shape(["B", "S + 1"])
    write_states(model, [StatePair("total", "new_total"), StatePair("cache", "new_cache", 1)])
    session = open_session(
        model, lambda pairs: reference_runtime.open(model, pairs, RuntimeOptions()), OneInput(), space_of(["B", 1], ["B"], ["B", "S"], names=("B", "S"), minimum={"S": 0}),
        initial={}, sizes=StateSizes({"B": 2}), adapters=AdapterInputs(model, reference_runtime),
    )  # fmt: skip
    session.step([[1], [1]])
    with pytest.raises(OptionError, match="has another size than at first"):
        session.reset(B=[0])
    np.testing.assert_array_equal(session.state["total"], [1, 1])


def test_slots_along_an_axis_that_no_state_has_are_refused(sums):
    with pytest.raises(OptionError, match="reset: no axis of a state that it can be about is 'T'; there are: B"):
        sums(B=2).reset(T=[0])


@pytest.mark.parametrize(("size", "expected"), [(1, [5]), (3, [5, 6, 0])])
def test_a_resize_cuts_or_fills_with_zeros(sums, size, expected):
    session = sums({"total": np.array([5, 6], np.float32)})
    session.resize(B=size)
    np.testing.assert_array_equal(session.state["total"], expected)


@pytest.mark.parametrize("size", [-1, True, 1.5])
def test_a_size_that_is_none_is_refused(sums, size):
    with pytest.raises(OptionError, match=re.escape(f"resize: B = {size!r}, but a size is a whole number from 0 on.")):
        sums(B=2).resize(B=size)


# -- limits and options ---------------------------------------------------------------------


def test_a_state_that_is_full_refuses_the_step_and_stays(caches):
    session = caches(limits={"S": 2})
    for _ in range(2):
        session.step([[1], [1]])
    with pytest.raises(
        RuntimeInputError, match=r"is full: axis 1 would have 3 entries after this step, more than the limit S = 2"
    ):
        session.step([[1], [1]])
    assert session.state["cache"].shape == (2, 2)
    session.reset()
    assert session.step([[1], [1]]) == [1, 1]


def test_a_state_that_is_no_state_has_no_first_value(sums):
    with pytest.raises(OptionError, match="initial: there is no state 'sum'; the states are total"):
        sums({"sum": np.zeros(2, np.float32)}, B=2)


@pytest.mark.parametrize("option", ["window", "limits"])
def test_an_axis_that_does_not_grow_has_no_window_and_no_limit(caches, option):
    with pytest.raises(OptionError, match=f"{option}: no axis of a state that it can be about is 'B'; there are: S"):
        caches(**{option: {"B": 2}})


@pytest.mark.parametrize("option", ["sizes", "window", "limits"])
def test_sizes_are_a_mapping(option):
    options: dict[str, Any] = {option: 5}
    with pytest.raises(OptionError, match=f"{option} maps symbols to numbers, .*; 5 does not"):
        StateSizes(**options)


def test_a_first_value_that_does_not_follow_is_asked_for(sums):
    with pytest.raises(OptionError, match=r"'total', float32\[B\] has no first value: the size of axis 0 is not known"):
        sums()


def test_a_state_that_cannot_be_empty_needs_a_first_value(caches):
    with pytest.raises(OptionError, match=r"it cannot be empty; to_onnx\(…, constraints=\['S >= 0'\]\) would allow it"):
        caches(least=1)


def test_a_state_of_fixed_size_that_comes_back_longer_needs_a_window(caches):
    fixed = CACHE.replace("float[B,S]", "float[B,3]").replace("float[B,M]", "float[B,4]")
    with pytest.raises(OptionError, match=r"window=\{'3': 3\} keeps the last 3 of them"):
        caches(text=fixed)
    session = caches(text=fixed, window={"3": 3})
    session.step([[1], [2]])
    np.testing.assert_array_equal(session.state["cache"], [[0, 0, 1], [0, 0, 2]])


def test_a_run_moves_the_states_on_and_counts_as_a_change(sums):
    session = sums(B=2)
    before = session.state.changes
    session.run({"x": np.array([1, 2], np.float32)})
    assert (session.state.changes - before, session.state.are_first) == (1, False)
    np.testing.assert_array_equal(session.state["total"], [1, 2])


def test_a_state_that_is_refused_counts_as_no_change(sums):
    def fail(array: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError

    session = sums(B=2)
    changes = session.state.changes
    with pytest.raises(RuntimeInputError, match="cannot be int64"):
        session.state["total"] = np.array([1, 2])
    with pytest.raises(ZeroDivisionError):
        session.state.change("total", fail)
    assert (session.state.changes, session.state.are_first) == (changes, True)


def test_states_that_were_reset_are_the_first_again(sums):
    session = sums(B=2)
    session.step(np.ones(2, np.float32))
    session.reset()
    assert session.state.are_first


def test_a_state_is_replaced_by_what_a_function_makes_of_it(sums):
    session = sums(B=2)
    session.state.change("total", lambda array: array + 3)
    np.testing.assert_array_equal(session.state["total"], [3, 3])
    assert session.state.shape("total") == (2,)
