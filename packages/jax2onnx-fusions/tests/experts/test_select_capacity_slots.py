from __future__ import annotations

import pytest
from jax2onnx_fusions.experts.select_capacity_slots import SelectCapacitySlots
from jax2onnx_fusions.experts.select_experts import NOT_FINITE
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.forms import Threshold

X = "int64[2,1,1] i, int64[2,1,1] j, float[2,1,3] v, float[4,3,5] r, float[4,5,6] u, float[4,6,5] d"
Y = "float[2,5] y"
CONSTANTS = """e = Constant<value = int64[4,1] {0, 1, 2, 3}>() c = Constant<value = int64[3] {0, 1, 2}>() none = Constant<value = float {0}>()
    flat = Constant<value = int64[2] {2, 12}>() rows = Constant<value = int64[2] {12, 5}>() """
EXPERTS = "ie = Equal(i, e) ei = Cast<to = 1>(ie) "
PLACES = "jc = Equal(j, c) cj = Cast<to = 1>(jc) "
GATES = "p = Mul(ei, cj) g = Reshape(p, flat) "
MADE = "h = MatMul(r, u) a = Relu(h) o = MatMul(a, d) m = Reshape(o, rows) "
SUM = "y = MatMul(g, m)"
MIXTURE = CONSTANTS + EXPERTS + PLACES + GATES + MADE + SUM


@pytest.fixture
def small(limited):
    """A target for which choosing slots pays however small experts are, under the promise that all numbers are finite."""
    return limited(thresholds={Threshold.OPERATOR_CALL: 0}).assuming([Assumption.FINITE])


@pytest.mark.parametrize(
    "gates",
    [
        GATES,
        GATES.replace("p = Mul(ei, cj)", "q = Mul(ei, cj) w = Abs(q) p = Mul(w, v)"),
        GATES.replace("p = Mul(ei, cj)", "p = MatMul(ei, cj)"),
        GATES.replace("p = Mul(ei, cj)", "b = And(ie, jc) p = Cast<to = 1>(b)"),
        GATES.replace("p = Mul(ei, cj)", "q = Mul(ei, cj) b = Greater(q, none) p = Cast<to = 1>(b)"),
    ],
)
def test_products_of_a_one_hot_of_experts_and_one_of_slots(fused, small, gates):
    operators = fused(SelectCapacitySlots(small), CONSTANTS + EXPERTS + PLACES + gates + MADE + SUM, X, Y)
    assert operators.count("Split") == 2
    assert operators.count("TopK") == 3


def test_gates_of_numbers_need_the_promise(declined, limited):
    target = limited(thresholds={Threshold.OPERATOR_CALL: 0})
    assert declined(SelectCapacitySlots(target), MIXTURE, X, Y) == [NOT_FINITE]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("p = Mul(ei, cj)", "p = Add(ei, cj)"),
        ("p = Mul(ei, cj)", "q = Mul(ei, cj) p = Add(q, v)"),
        ("p = Mul(ei, cj)", "q = Mul(ei, cj) b = GreaterOrEqual(q, none) p = Cast<to = 1>(b)"),
        ("ei = Cast<to = 1>(ie)", "k = Cast<to = 1>(ie) ei = Cos(k)"),
    ],
)
def test_gates_of_which_many_may_be_other_than_zero(fused, small, old, new):
    assert "Split" not in fused(SelectCapacitySlots(small), MIXTURE.replace(old, new), X, Y)


@pytest.mark.parametrize(
    ("choices", "reduced", "is_taken"),
    [
        (2, "ReduceSum<keepdims = 0>(q, one)", True),
        (2, "ReduceMax<keepdims = 0>(q, one)", True),
        (2, "ReduceMean<keepdims = 0>(q, one)", False),
        (2, "ReduceSum<keepdims = 0>(z, one)", False),
        (6, "ReduceSum<keepdims = 0>(q, one)", False),
        ("K", "ReduceSum<keepdims = 0>(q, one)", False),
    ],
)
def test_gates_of_several_choices(fused, small, choices, reduced, is_taken):
    gates = f"q = Mul(ei, cj) z = Cos(q) one = Constant<value = int64[1] {{1}}>() p = {reduced} g = Reshape(p, flat) "
    inputs = X.replace("int64[2,1,1]", f"int64[2,{choices},1,1]")
    assert (
        "Split" in fused(SelectCapacitySlots(small), CONSTANTS + EXPERTS + PLACES + gates + MADE + SUM, inputs, Y)
    ) == is_taken


SCATTERED = (
    "zero = Constant<value = float {0}>() wide = Constant<value = int64[2] {2, 13}>() z = Expand(zero, wide) "
    + "".join(
        f"{name} = Constant<value = int64[1] {{{number}}}>() "
        for name, number in {"start": 0, "end": 12, "along": 1}.items()
    )
)


@pytest.mark.parametrize(("data", "most"), [("z", True), ("x", False)], ids=["zeros", "numbers"])
def test_gates_that_are_scattered_to_zeros_of_which_a_column_is_dropped(fused, small, data, most):
    body = (
        CONSTANTS
        + SCATTERED
        + f"s = ScatterElements<axis = 1>({data}, k, w) g = Slice(s, start, end, along) "
        + MADE
        + SUM
    )
    inputs = "int64[2,1] k, float[2,1] w, float[2,13] x, float[4,3,5] r, float[4,5,6] u, float[4,6,5] d"
    assert ("Split" in fused(SelectCapacitySlots(small), body, inputs, Y)) is most


@pytest.mark.parametrize(
    ("gather", "indices"),
    [("m = Reshape(o, rows) y = Gather(m, k)", "int64[2] k"), ("y = GatherND(o, k)", "int64[2,2] k"),
     ("m = Reshape(o, rows) y = Gather(m, k)", "int32[2] k")],
)  # fmt: skip
def test_slots_that_are_gathered_need_no_promise(fused, limited, gather, indices):
    target = limited(thresholds={Threshold.OPERATOR_CALL: 0})
    body = CONSTANTS + MADE.replace("m = Reshape(o, rows)", "") + gather
    operators = fused(
        SelectCapacitySlots(target), body, f"{indices}, float[4,3,5] r, float[4,5,6] u, float[4,6,5] d", Y
    )
    assert operators.count("Split") == 2


@pytest.mark.parametrize(
    ("indices", "gather", "output", "reason"),
    [
        ("int64[12] k", "y = Gather(m, k)", "float[12,5] y", "no more slots than tokens"),
        ("int64[T] k", "y = Gather(m, k)", "float[T,5] y", "is not known"),
        ("int64[2] k", "y = Gather<axis = 1>(m, k)", "float[12,2] y", None),
    ],
)
def test_slots_of_which_as_many_are_gathered_compute_all(declined, small, indices, gather, output, reason):
    body, inputs = CONSTANTS + MADE + gather, f"{indices}, float[4,3,5] r, float[4,5,6] u, float[4,6,5] d"
    found = declined(SelectCapacitySlots(small), body, inputs, output)
    assert [reason in one for one in found] == [True] if reason else found == []


@pytest.mark.parametrize(
    ("inputs", "gather", "output"),
    [
        ("int64[4,1,2] k", "y = GatherND<batch_dims = 1>(o, k)", "float[4,1] y"),
        ("int64[2,1] k", "y = GatherND(o, k)", "float[2,3,5] y"),
        ("int64[2,3] k", "y = GatherND(o, k)", "float[2] y"),
        ("int64[2] k", "w = Constant<value = int64[2] {6, 10}>() q = Reshape(o, w) y = Gather(q, k)", "float[2,10] y"),
        ("int64[2] k", "w = Constant<value = int64[3] {4, 3, 5}>() q = Reshape(o, w) y = Gather(q, k)", "float[2,3,5] y"),
        ("int64[2] k, int64[R] s", "q = Reshape(o, s) y = Gather(q, k)", "float[A,B] y"),
        ("int64[R] k", "y = Reshape(o, k)", "float[A,B] y"),
        ("int64[1,12] k", "w = Constant<value = int64[2] {1, 60}>() q = Reshape(o, w) y = GatherElements<axis = 1>(q, k)", "float[1,12] y"),
    ],
)  # fmt: skip
def test_other_gathers_are_not_of_slots(declined, small, inputs, gather, output):
    body = CONSTANTS + MADE + gather
    weights = "float[4,3,5] r, float[4,5,6] u, float[4,6,5] d"
    assert declined(SelectCapacitySlots(small), body, f"{inputs}, {weights}", output) == []


def test_slots_of_an_unknown_capacity_are_none(declined, small):
    body = CONSTANTS + MADE.replace(
        "m = Reshape(o, rows)", "v = Constant<value = int64[2] {-1, 5}>() m = Reshape(o, v)"
    )
    inputs = "int64[2] k, float[4,S,5] r, float[4,5,6] u, float[4,6,5] d"
    assert declined(SelectCapacitySlots(small), body + "y = Gather(m, k)", inputs, Y) == []


def test_gates_of_one_token_without_its_axis_are_none(declined, small):
    body = (
        MIXTURE.replace("{2, 12}", "{12}")
        .replace("int64[2] flat", "int64[1] flat")
        .replace("flat = Constant<value = int64[2]", "flat = Constant<value = int64[1]")
    )
    assert declined(SelectCapacitySlots(small), body, X.replace("[2,", "[1,"), "float[5] y") == []


#: The experts of two tokens, both of the first token.
BOTH_OF_ONE = """none0 = Constant<value = int64[2] {2, 4}>() z = Expand(none, none0) k = Constant<value = int64[2,2] {0, 1, 0, 3}>()
    last = Constant<value = int64[1] {2}>() one = Constant<value = float[2] {1, 1}>() s = ScatterND(z, k, one) ei = Unsqueeze(s, last) """


@pytest.mark.parametrize("product", ["Mul", "MatMul"])
def test_scattered_experts_may_all_belong_to_one_token(fused, small, product):
    body = CONSTANTS + BOTH_OF_ONE + PLACES + f"p = {product}(ei, cj) g = Reshape(p, flat) " + MADE + SUM
    inputs = X.replace("int64[2,1,1] i, ", "").replace("float[2,1,3] v, ", "")
    assert "Split" in fused(SelectCapacitySlots(small), body, inputs, Y)


def test_slots_that_read_each_other_are_no_mixture(declined, small):
    body = MIXTURE.replace("a = Relu(h)", "a = Softmax<axis = 1>(h)")
    assert declined(SelectCapacitySlots(small), body, X, Y) != []


def test_as_many_tokens_as_slots_compute_all(declined, small):
    body = MIXTURE.replace("{2, 12}", "{12, 12}")
    inputs, output = (text.replace("[2,", "[12,") for text in (X, Y))
    (reason,) = declined(SelectCapacitySlots(small), body, inputs, output)
    assert "no more slots than tokens" in reason


def test_small_experts_compute_all(declined, limited):
    (reason,) = declined(SelectCapacitySlots(limited().assuming([Assumption.FINITE])), MIXTURE, X, Y)
    assert "so small" in reason
