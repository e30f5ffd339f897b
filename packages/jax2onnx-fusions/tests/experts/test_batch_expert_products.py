from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from jax2onnx_fusions.experts.batch_expert_products import BatchExpertProducts

RUNS = range(4)
#: How many rows each of four runs has follows from an input.
LENGTHS = """
    four = Constant<value = int64 {4}>() numbers = Constant<value = int64[4] {0, 1, 2, 3}>()
    first = Constant<value = int64[1] {0}>() size = Abs(i) place = Mod(size, four) is = Equal(place, numbers)
    count = Cast<to = 7>(is) lengths = ReduceSum<keepdims = 0>(count, first)
    r0, r1, r2, r3 = Split<axis = 0>(x, lengths)
"""
RUN = "g{e} = MatMul(r{e}, wg{e}) u{e} = MatMul(r{e}, wu{e}) a{e} = Sigmoid(g{e}) m{e} = Mul(a{e}, u{e}) o{e} = MatMul(m{e}, wd{e}) "
JOIN = "y = Concat<axis = 0>(o0, o1, o2, o3)"


def _matrix(name: str, rows: int, columns: int, seed: int) -> str:
    numbers = np.random.default_rng(seed).normal(size=rows * columns).round(3)
    return f"float[{rows},{columns}] {name} = {{{', '.join(map(str, numbers))}}}"


VALUES = ", ".join(
    part
    for e in RUNS
    for part in (
        f"float[N{e},4] r{e}", _matrix(f"wg{e}", 4, 3, e), _matrix(f"wu{e}", 4, 3, 10 + e), _matrix(f"wd{e}", 3, 4, 20 + e),
        _matrix(f"b{e}", 1, 3, 30 + e),
    )
)  # fmt: skip


@pytest.fixture
def joined(fused):
    """The number of each operator after the pass."""

    def run(run: str = RUN, join: str = JOIN, y: str = "float[T,4] y", lead: str = "") -> Counter[str]:
        body = lead + LENGTHS + " ".join(run.format(e=e) for e in RUNS) + join
        return Counter(fused(BatchExpertProducts(), body, "float[T,4] x, int64[T,1] i", y, values=VALUES))

    return run


def test_two_products_of_a_run_are_one_and_the_rest_is_computed_of_all_rows(joined):
    found = joined()
    assert (found["MatMul"], found["Sigmoid"], found["Mul"]) == (8, 1, 1)


def test_a_bias_of_each_run_stays_with_it(joined):
    found = joined(RUN.replace("a{e} = Sigmoid(g{e})", "h{e} = Add(g{e}, b{e}) a{e} = Sigmoid(h{e})"))
    assert (found["Add"], found["Sigmoid"]) == (4, 1)


CONSTANTS = (
    "second = Constant<value = int64[1] {1}>() half = Constant<value = float {0.5}>() row = Constant<value = float[1,3] {1, 2, 3}>() "
    "rows = Constant<value = float[2,3] {1, 2, 3, 4, 5, 6}>() apart = Constant<value = int64[3] {-1, 3, 1}>() "
    "back = Constant<value = int64[2] {-1, 3}>() kept = Constant<value = int64[2] {0, 3}>() two = Constant<value = int64[2] {2, -1}>() "
)


@pytest.mark.parametrize(
    ("activation", "operators", "is_joined"),
    [
        ("a{e} = Mul(g{e}, half)", {"Mul": 2}, True),
        ("a{e} = Mul(row, g{e})", {"Mul": 2}, True),
        ("a{e} = Mul(g{e}, g{e})", {"Mul": 2}, True),
        ("a{e} = Clip(g{e}, , half)", {"Clip": 1}, True),
        ("s{e} = ReduceSum<keepdims = 1>(g{e}, second) a{e} = Sigmoid(s{e})", {"ReduceSum": 2, "Sigmoid": 1}, True),
        ("s{e} = ReduceSum<keepdims = 1>(g{e}, first) a{e} = Sigmoid(s{e})", {"ReduceSum": 5, "Sigmoid": 4}, False),
        ("s{e} = ReduceSum<keepdims = 1>(g{e}) a{e} = Sigmoid(s{e})", {"ReduceSum": 5, "Sigmoid": 4}, False),
        ("v{e} = Reshape(g{e}, apart) w{e} = Sigmoid(v{e}) a{e} = Reshape(w{e}, back)", {"Reshape": 2, "Sigmoid": 1}, True),
        ("v{e} = Reshape(g{e}, kept) a{e} = Sigmoid(v{e})", {"Reshape": 4, "Sigmoid": 4}, False),
        ("a{e} = Softmax<axis = 1>(g{e})", {"Softmax": 4}, False),
    ],
)  # fmt: skip
def test_what_keeps_rows_is_computed_of_all_of_them(joined, activation, operators, is_joined):
    found = joined(RUN.replace("a{e} = Sigmoid(g{e})", activation), lead=CONSTANTS)
    assert {name: found[name] for name in operators} == operators
    assert found["MatMul"] == (8 if is_joined else 12)


@pytest.mark.parametrize(("result", "products"), [("g0", 12), ("a2", 12), ("o3", 12), ("r1", 8)])
def test_a_run_that_is_a_result_stays(joined, result, products):
    dims = {"o": 4, "r": 4}.get(result[0], 3)
    assert joined(y=f"float[T,4] y, float[{'N1' if result == 'r1' else 'N'},{dims}] {result}")["MatMul"] == products


def test_a_matrix_that_something_else_reads_stays_alone(joined):
    found = joined(join=f"{JOIN} z = MatMul(x, wg0)", y="float[T,4] y, float[T,3] z")
    assert (found["MatMul"], found["Sigmoid"]) == (13, 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"join": "y = Concat<axis = 0>(o0, o2, o1, o3)"},
        {"join": f"{JOIN} z = Neg(a2)", "y": "float[T,4] y, float[N,3] z"},
    ],
    ids=["another order of runs", "a run that is read by itself"],
)
def test_runs_that_are_not_put_together_as_they_were_stay(joined, changed):
    found = joined(**changed)
    assert (found["MatMul"], found["Sigmoid"], found["Mul"]) == (12, 4, 4)


@pytest.mark.parametrize(
    ("activation", "old", "new"),
    [
        ("a{e} = Sigmoid(g{e})", "a2 = Sigmoid(g2)", "a2 = Tanh(g2)"),
        ("a{e} = Sigmoid(g{e})", "m2 = Mul(a2, u2)", "m2 = Mul(u2, a2)"),
        ("a{e} = Elu<alpha = 1.0>(g{e})", "a2 = Elu<alpha = 1.0>", "a2 = Elu<alpha = 2.0>"),
        ("a{e} = Clip(g{e}, , half)", "a2 = Clip(g2, , half)", "a2 = Clip(g2, half)"),
        ("s{e} = ReduceSum(g{e}, second) a{e} = Mul(s{e}, half)", "ReduceSum(g2, second)", "ReduceSum(g2, other)"),
        ("v{e} = Reshape(g{e}, apart) w{e} = Neg(v{e}) a{e} = Reshape(w{e}, back)", "Reshape(g2, apart)", "Reshape(g2, other3)"),
    ],
)  # fmt: skip
def test_another_operator_in_one_run_leaves_all(fused, activation, old, new):
    other = "other = Constant<value = int64[1] {-1}>() other3 = Constant<value = int64[3] {-1, 1, 3}>() "
    runs = " ".join(RUN.format(e=e) for e in RUNS)
    for e in RUNS:
        runs = runs.replace(f"a{e} = Sigmoid(g{e})", activation.format(e=e))
    assert old in runs
    body = CONSTANTS + other + LENGTHS + runs.replace(old, new) + JOIN
    found = Counter(fused(BatchExpertProducts(), body, "float[T,4] x, int64[T,1] i", "float[T,4] y", values=VALUES))
    assert (found["MatMul"], found["Mul"] >= len(RUNS)) == (12, True)


#: The lengths of five runs, the last of which is the rest: rows of something else are in its place, as of rows that no expert has.
REST = (
    LENGTHS.replace("int64 {4}", "int64 {5}")
    .replace("int64[4] {0, 1, 2, 3}", "int64[5] {0, 1, 2, 3, 4}")
    .replace("r3 =", "r3, r4 =")
)
PRODUCTS = " ".join(f"g{e} = MatMul(r{e}, wg{e}) u{e} = MatMul(r{e}, wu{e})" for e in RUNS)
JOINS = " n = MatMul(r4, wd) z = Sub(n, n) yg = Concat<axis = 0>(g0, g1, g2, g3, z) yu = Concat<axis = 0>(u0, u1, u2, u3, z)"


@pytest.mark.parametrize(
    ("nodes", "y", "products"),
    [
        (JOINS, "", 5),
        (JOINS + " yr = Concat<axis = 0>(r0, r1, r2, r3, r4)", ", float[T,4] yr", 9),
        (JOINS + " t = Relu(r4) yr = Concat<axis = 0>(r0, r1, r2, r3, t)", ", float[T,4] yr", 9),
        (JOINS.replace("u3, z", "u3"), "", 9),
        (JOINS.replace("u3, z", "u3, z, z"), "", 9),
        (" ".join(f"h{e} = Relu(g{e})" for e in RUNS) + JOINS.replace("g0, g1, g2, g3", "h0, h1, h2, h3"), "", 9),
    ],
    ids=[
        "a rest",
        "runs themselves",
        "runs and another rest",
        "a join without a rest",
        "more than a rest",
        "other operators",
    ],
)
def test_products_of_all_runs_but_the_rest(fused, nodes, y, products):
    lengths = REST.replace("Abs(i)", "Add(i, three)")  # of the rest and of the run before it
    body = f"three = Constant<value = int64 {{3}}>() {lengths} {PRODUCTS} {nodes}"
    values = f"{VALUES}, float[N4,4] r4, float[N4,3] n, float[N4,3] z, float[N4,4] t, {_matrix('wd', 4, 3, 40)}"
    inputs, outputs = "float[T,4] x, int64[T,1] i", f"float[T,3] yg, float[S,3] yu{y}"
    assert Counter(fused(BatchExpertProducts(), body, inputs, outputs, values=values))["MatMul"] == products
