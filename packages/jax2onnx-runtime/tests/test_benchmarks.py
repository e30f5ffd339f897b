"""Benchmarks: right results are measured in turns, wrong ones are not; the clock of most tests is made up."""

import itertools

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError, SymbolError, TargetError
from jax2onnx_graph.metadata import SymbolInfo, write_symbols
from jax2onnx_runtime.benchmarks import (
    Contender,
    PreparedRun,
    benchmark,
    benchmark_model,
    time_in_turns,
    usual_sizes,
)
from jax2onnx_runtime.feeds import symbol_space
from jax2onnx_runtime.runtimes import Runtime, reference_runtime

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
agraph (float[B] x) => (float[B] y) { y = Add(x, x) }
"""


class Time:
    """A clock that only `pass_` moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def pass_(self, seconds):
        self.now += seconds


def contender(name, time, seconds, offset=0.0):
    """Doubles its run in so many seconds each time, the last ones again and again."""
    durations = itertools.chain(seconds, itertools.repeat(seconds[-1]))

    def prepare(x):
        return PreparedRun(lambda: time.pass_(next(durations)), lambda: [2 * x + np.float32(offset)])

    return Contender(name, "1", prepare)


def measured(*contenders, time, **options):
    return benchmark(contenders, {"B = 2": np.ones(2, np.float32)}, ["y"], clock=time, seconds=0, **options)


def test_median_quartiles_and_ratio_of_long_runs():
    time = Time()
    found = measured(contender("slow", time, [1, 2, 3, 4, 5, 6, 7, 8, 9]), contender("fast", time, [1]), time=time)
    slow, fast = found.measurements
    assert (slow.runs, slow.median, slow.least, slow.quartiles) == (9, 5.0, 1.0, (3.0, 7.0))
    assert (found.ratio(slow), found.ratio(fast)) == (1.0, 5.0)
    assert [line.split()[-1] for line in str(found).splitlines()[1:3]] == ["s", "5×"]
    assert found.is_right


def test_of_short_runs_the_first_of_each_round_is_not_counted():
    time = Time()
    calls = iter([0.04, 0.001, 0.001, 0.001] * 3)
    assert time_in_turns([lambda: time.pass_(next(calls))], 0, time) == [pytest.approx([0.001] * 9)]


def test_calls_take_turns_in_changing_order():
    time, made = Time(), []

    def call(name):
        made.append(name)
        time.pass_(1)

    time_in_turns([lambda: call("a"), lambda: call("b")], 0, time)
    assert "".join(made) == "aaabbb" + "bbbaaa" + "aaabbb"


def test_rounds_go_on_for_the_given_time():
    time = Time()
    assert len(time_in_turns([lambda: time.pass_(1)], 30, time)[0]) == 30
    assert time_in_turns([], 30, time) == []


def test_a_wrong_result_is_named_and_not_measured():
    time = Time()
    wrong = contender("wrong", time, [1], offset=0.5)
    found = measured(contender("first", time, [1]), wrong, time=time)
    assert not found.is_right
    assert found.measurements[1].runs == 0
    assert found.measurements[1].difference == 0.5
    assert "output 'y' is wrong in 2 of 2 elements" in str(found)
    assert found.ratio(found.measurements[1]) is None
    assert measured(contender("first", time, [1]), wrong, time=time, atol=1.0).is_right


def test_a_result_of_another_shape_is_wrong():
    time = Time()
    short: Contender[np.ndarray] = Contender("short", "1", lambda x: PreparedRun(lambda: None, lambda: [x[:1]]))
    found = measured(contender("first", time, [1]), short, time=time)
    assert "has shape (1,) instead of (2,)" in found.measurements[1].problem


def test_another_number_of_results_is_wrong():
    time = Time()
    both: Contender[np.ndarray] = Contender("both", "1", lambda x: PreparedRun(lambda: None, lambda: [2 * x, x]))
    found = measured(contender("first", time, [1]), both, time=time)
    assert (found.measurements[1].problem, found.is_right) == ("not measured: there are 2 outputs instead of 1", False)


def test_a_runtime_that_refuses_the_model_is_named_and_no_failure():
    def refuse(_):
        raise TargetError("no kernel for Add")

    time = Time()
    found = measured(contender("first", time, [1]), Contender("other", "1", refuse), time=time)
    assert found.measurements[1].problem == "not measured: no kernel for Add"
    assert found.is_right


def test_a_kernel_that_fails_stops_no_other_contender():
    def fail():
        raise RuntimeError("out of registers\nat line 7")

    time = Time()
    broken: Contender[np.ndarray] = Contender("broken", "1", lambda _: PreparedRun(fail, fail))
    found = measured(contender("first", time, [1]), broken, contender("last", time, [1]), time=time)
    assert [one.runs for one in found.measurements] == [9, 0, 9]
    assert "not measured: RuntimeError: out of registers\n" in f"{found}\n"
    with pytest.raises(RuntimeError, match="out of registers"):
        measured(broken, time=time)


def test_where_the_first_has_a_problem_the_others_are_compared_with_each_other():
    def refuse(_):
        raise TargetError("no kernel for Add")

    time = Time()
    found = measured(Contender("first", "1", refuse), contender("other", time, [1]), time=time)
    assert [one.runs for one in found.measurements] == [0, 9]
    assert found.ratio(found.measurements[1]) is None


def test_the_outcome_as_data_and_as_a_table_of_a_notebook():
    time = Time()
    found = measured(contender("<a>", time, [1]), time=time, notes=["no other is installed"])
    (row,) = found.as_dict()["measurements"]
    assert (row["contender"], row["where"], row["median"], row["ratio"]) == ("<a>", "B = 2", 1.0, 1.0)
    assert "&lt;a&gt;" in found._repr_html_()
    assert "no other is installed" in found._repr_html_()
    assert "compared" not in str(found)  # with itself


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"seconds": -1}, "seconds=-1"),
        ({"seconds": True}, "seconds=True"),
        ({"threads": 0}, "threads is a whole number"),
    ],
)
def test_impossible_options(options, why):
    with pytest.raises(OptionError, match=why):
        benchmark_model(ir.from_onnx_text(MODEL), [reference_runtime], **options)


def test_nothing_to_measure_and_names_that_are_not_unique():
    with pytest.raises(OptionError, match="there are no contenders"):
        benchmark([], {"B = 2": 0}, ["y"])
    with pytest.raises(OptionError, match="there are no runs"):
        benchmark([contender("a", Time(), [1])], {}, ["y"])
    with pytest.raises(OptionError, match="Two contenders are called 'a'"):
        measured(contender("a", Time(), [1]), contender("a", Time(), [1]), time=Time())


def test_a_model_is_measured_in_runtimes_at_the_sizes():
    class Other(Runtime):
        name = "other"

    found = benchmark_model(
        ir.from_onnx_text(MODEL), [reference_runtime, Other()], sizes=[{"B": 0}, {"B": 3}], seconds=0
    )
    assert [(one.contender, one.where) for one in found.measurements] == [
        (name, where) for where in ("B = 0", "B = 3") for name in (reference_runtime.title, "other")
    ]
    assert all(one.runs >= 9 and one.least > 0 for one in found.measurements)


def test_a_runtime_without_the_option_of_threads_says_so():
    found = benchmark_model(ir.from_onnx_text(MODEL), [reference_runtime], sizes=[{"B": 1}], seconds=0, threads=1)
    assert "has no threads" in found.measurements[0].problem


def test_a_symbol_that_the_model_does_not_have():
    with pytest.raises(SymbolError, match="no symbol 'T'"):
        benchmark_model(ir.from_onnx_text(MODEL), [reference_runtime], sizes=[{"T": 1}])


def test_usual_sizes_are_those_that_the_constraints_allow():
    model = ir.from_onnx_text(MODEL)
    assert usual_sizes(symbol_space(model)) == [{"B": 1}, {"B": 8}, {"B": 64}]
    write_symbols(model, {"B": SymbolInfo("B", 1, None, ())}, ["B <= 9"])
    assert usual_sizes(symbol_space(model)) == [{"B": 1}, {"B": 8}]
    write_symbols(model, {"B": SymbolInfo("B", 1, None, ())}, ["mod(B, 16) == 0"])
    assert usual_sizes(symbol_space(model)) == [{"B": 16}, {"B": 64}]
    write_symbols(model, {"B": SymbolInfo("B", 200, None, ())}, [])
    assert usual_sizes(symbol_space(model)) == [{"B": 200}]


@pytest.mark.parametrize("sizes", [[], {"B": 1}, [3], 3])
def test_sizes_are_a_mapping_for_each_row(sizes):
    with pytest.raises(OptionError, match="sizes needs a mapping from symbols to numbers for each run"):
        benchmark_model(ir.from_onnx_text(MODEL), [reference_runtime], sizes=sizes)
