"""Verifying a program: sizes of symbols for running a model of symbolic shapes, arguments, progress."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_core.frontend.inputs import parse_inputs
from jax2onnx_core.plugins.errors import RuntimeInputError, SymbolError, VerificationError
from jax2onnx_graph.progress import progress_to
from jax2onnx_runtime.sizes import Ranges, choose_sizes, find_sizes


def parsed(specs, constraints=()):
    return parse_inputs(lambda *xs: xs, specs, {}, constraints)


def found(inputs, candidates, **options):
    return find_sizes(inputs.space(), candidates, **options)


def test_the_last_symbol_varies_fastest():
    assert found(parsed([("A", "B")], ["A + B >= 5"]), {"A": (1, 2), "B": (1, 3, 4)}) == {"A": 1, "B": 4}


def test_distinct_sizes_differ():
    inputs = parsed([("A", "B")])
    assert found(inputs, {"A": (3, 4), "B": (3, 4)}) == {"A": 3, "B": 3}
    assert found(inputs, {"A": (3, 4), "B": (3, 4)}, distinct=True) == {"A": 3, "B": 4}


def test_given_sizes_stay():
    assert found(parsed([("A", "B")], ["A >= B"]), {"A": (3, 4)}, given={"B": 4}) == {"A": 4, "B": 4}


def test_dimensions_are_not_negative():
    assert found(parsed([("A - 5",)], ["A >= 5"]), {"A": (3, 5)}) == {"A": 5}


def test_sizes_that_nobody_preferred_are_found_too():
    assert found(parsed([("A",)], ["A >= 900"]), {"A": (3, 4)}) == {"A": 900}


@pytest.mark.parametrize("constraints", [["A >= 100000"], ["A*A == 2*B*B", "B >= 1"]])
def test_where_no_sizes_are_found_the_user_gives_them(constraints):
    with pytest.raises(SymbolError, match=r"No sizes up to 8192 of A, B were found .* sizes=\[\{'A': …, 'B': …\}\]"):
        choose_sizes(parsed([("A", "B")], constraints).space())


def test_models_are_verified_at_small_and_at_different_sizes():
    assert choose_sizes(parsed([("A", "B")]).space()) == [{"A": 1, "B": 1}, {"A": 7, "B": 12}, {"A": 12, "B": 2}]


def test_a_symbol_that_may_be_zero_is_verified_at_zero():
    assert choose_sizes(parsed([("A",)], ["A >= 0"]).space())[0] == {"A": 0}


def test_fixed_shapes_are_verified_once():
    assert choose_sizes(parsed([(3,)]).space()) == [{}]


@pytest.mark.parametrize(
    ("dims", "constraints", "sizes"),
    [
        ("N", ["N >= 10"], [[10], [12], [11]]),
        ("N", ["N >= 20"], [[20], [21], [32]]),
        ("N", ["N >= 1000"], [[1000], [1001], [1502]]),
        ("N", ["N >= 3000", "N <= 3010"], [[3000], [3001], [3002]]),
        ("N", ["N != 1"], [[2], [7], [12]]),
        ("S", ["mod(S, 160) == 0"], [[160], [320], [640]]),
        ("HW", ["mod(H, 32) == 0", "mod(W, 32) == 0"], [[32, 32], [64, 96], [128, 160]]),
        ("AB", ["mod(A, B) == 0", "B >= 33", "A >= 2*B"], [[66, 33], [68, 34], [104, 52]]),
        ("AB", ["A*B >= 5000", "max(A, B) <= 100"], [[50, 100], [51, 99], [77, 65]]),
        ("ABC", ["A >= B + C", "B >= 100", "C >= 2*B"], [[300, 100, 200], [301, 100, 201], [453, 151, 302]]),
    ],
)
def test_the_smallest_sizes_that_the_constraints_allow_come_first_then_a_next_and_a_larger_one(
    dims, constraints, sizes
):
    found = choose_sizes(parsed([tuple(dims)], constraints).space())
    assert [list(one.values()) for one in found] == sizes


@pytest.mark.parametrize("constraint", ["N >= 50", "mod(N, 32) == 0"])
def test_programs_with_large_sizes_only_are_verified(constraint):
    to_onnx(lambda x: x.sum(0), [("N", 2)], constraints=[constraint]).verify()


def test_sizes_at_which_something_changes_come_last():
    sizes = choose_sizes(parsed([("A", "B")]).space(), {"A": [1, 2, 4, 3]})
    assert sizes[3:] == [{"A": 2, "B": 1}, {"A": 4, "B": 1}]


def test_indices_are_drawn_within_the_axis_that_they_index():
    table = jnp.arange(12.0).reshape(3, 4)
    to_onnx(lambda i: table[i], [((50,), "int32")]).verify()
    to_onnx(lambda x, i: x[:, i.reshape(-1)].sum(0), [(2, "N"), ((5, 10), "int8")]).verify()
    to_onnx(lambda i: jax.nn.one_hot(i, 3), [((50,), "int32")]).verify()


def drawn(program: OnnxProgram, ranges: Ranges) -> Any:
    """The positional arguments of the only run."""
    (run,) = program.random_calls(None, ranges, 0)
    return run.args


def test_indices_reach_all_of_the_axis():
    program = to_onnx(lambda x: jnp.arange(1000.0)[x], [((5000,), "int32")])
    (x,) = drawn(program, {})
    assert x.min() < 5
    assert x.max() > 994


def test_ranges_of_integers_and_floats():
    program = to_onnx(lambda x, n: x / n, [(100,), ((100,), "int32")])
    x, n = drawn(program, {"x": (2, 3), "n": (-5, -3)})
    assert x.min() >= 2
    assert x.max() < 3
    assert set(n) == {-5, -4}
    program.verify(ranges={"x": (2, 3), "n": (-5, -3)})


def test_given_arguments():
    program = to_onnx(lambda x, scale: x * scale, [("B",)], kwargs={"scale": ()})
    assert program.verify(inputs=[np.arange(3.0)], kwargs={"scale": 2.0}) == 0.0


def test_given_arguments_that_show_a_difference():
    model = to_onnx(lambda x: x, [(3,)]).model
    program = to_onnx(lambda x: jnp.where(x == 7, 8, x), [(3,)]).with_model(model)
    program.verify()
    with pytest.raises(
        VerificationError, match=r"Output 'output' differs from what it should be at the given inputs: 1 of 3"
    ):
        program.verify(inputs=[np.array([1.0, 7.0, 3.0])])


@pytest.mark.parametrize("shape", [(), (3,)])
def test_typed_keys_as_inputs_and_outputs(shape):
    keys = jax.random.split(jax.random.key(1), shape) if shape else jax.random.key(1)
    program = to_onnx(lambda k: jax.random.split(jax.random.fold_in(k, 3)) if not shape else k[::-1], [keys])
    program.verify()
    program.verify(inputs=[keys])


def test_nothing_is_written_but_a_listener_hears_of_each_run(capsys):
    program, heard = to_onnx(lambda x: x, [("B",)]), []
    with progress_to(lambda *stage: heard.append(stage)):
        program.verify(sizes=[{"B": 2}, {"B": 5}])
    assert heard == [("verify", 0, 2), ("verify", 1, 2), ("verify", 2, 2)]
    assert capsys.readouterr() == ("", "")


def test_the_exported_model_is_run_at_the_edge_of_a_window():
    program = to_onnx(
        lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3, 1), (1, 2, 1), "VALID"), [(2, "T", 1)]
    )
    sizes = [run.where for run in program.random_calls(None, {}, 0)]
    assert sizes == ["T = 1", "T = 7", "T = 12", "T = 2", "T = 3"]


def test_masks_of_sizes_from_data_select_nothing_and_all_too():
    def select(x, i, b):
        return x[x > 0], i[b]

    program = to_onnx(select, [("B",), (("B",), "int32"), (("B",), "bool")])
    runs = [*program.random_calls([{"B": 5}, {"B": 3}, {"B": 4}], {}, 0)]
    plain, extreme = runs[:3], runs[3:]
    assert [run.where for run in plain] == ["B = 5", "B = 3", "B = 4"]
    assert [run.where for run in extreme] == [
        f"B = {size}, the {kind} numbers" for kind in ("least", "largest") for size in (5, 3)
    ]
    assert [run.may_be_refused for run in runs] == [False] * 3 + [True] * 4
    for run in extreme:
        x, i, b = map(np.asarray, run.args)
        is_largest = "largest" in run.where
        assert ((x > 0) == is_largest).all()
        assert (i == i[0]).all()
        assert (b == is_largest).all()


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.ma.masked_array(np.ones((2, 3), np.float32), mask=True), "a masked array"),
        ("a text", "'output' has dtype <U6"),
        (np.full((2, 3), "2"), "'output' has dtype <U1"),
        (None, "The result is"),
    ],
    ids=["masked", "text", "texts", "none"],
)
def test_a_stored_result_that_is_no_array_is_refused(result, message):
    program = to_onnx(lambda x: x * 2, [("B", 3)])
    with pytest.raises(RuntimeInputError, match=rf"(?s)results\[0\]: .*{message}"):
        program.verify(results=[((np.ones((2, 3), np.float32),), result)])


@pytest.mark.parametrize("shape", [(2, 4), (3,), (1, 2, 3), ()])
def test_a_stored_result_of_another_shape_differs(shape):
    program = to_onnx(lambda x: x * 2, [("B", 3)])
    with pytest.raises(VerificationError, match="has shape"):
        program.verify(results=[((np.ones((2, 3), np.float32),), np.full(shape, 2, np.float32))])


def test_of_weights_that_are_nan_nothing_is_known():
    weight = np.full((3, 2), np.nan, np.float32)
    found = to_onnx(lambda x: x @ weight, [("B", 3)]).verify()
    assert np.isnan(found)
    assert "None of the 40 numbers of 'output' that were compared is finite" in str(found)


def test_an_output_without_finite_numbers_is_noted_beside_others():
    found = to_onnx(lambda x: (x, x * np.float32("inf")), [(3,)]).verify()
    assert found == 0.0
    assert [note.partition(" that")[0] for note in found.notes] == ["None of the 3 numbers of 'output_1'"]


def test_a_program_in_fewer_bits_has_a_tolerance_where_one_is_given():
    weight = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
    small = to_onnx(lambda x: x @ weight, [("B", 32)]).quantize("int4")
    assert small.verify() > 0.01
    assert small.verified == []
    with pytest.raises(VerificationError, match="Output 'output' differs"):
        small.verify(rtol=1e-5)
