from __future__ import annotations

import pytest
from jax2onnx_fusions.experts.select_expert_terms import SelectExpertTerms
from jax2onnx_fusions.experts.select_experts import NOT_FINITE
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.forms import Threshold

X = "float[T,4] x, int64[T,1] i, float[4,3] u, float[3,4] d"
Y = "float[T,4] y"
NUMBERS = "none = Constant<value = float {0}>() " + " ".join(
    f"n{e} = Constant<value = int64 {{{e}}}>()" for e in range(6)
)


def experts(term: str, join: str, count: int = 4) -> str:
    """Several experts; `join` combines each term with those before."""
    body = "s0 = Identity(x)"
    for e in range(count):
        body += f" c{e} = Equal(i, n{e}) h{e} = MatMul(x, u) r{e} = Relu(h{e}) m{e} = MatMul(r{e}, d) "
        body += term.format(e=e) + " " + join.format(e=e, last=e, next=e + 1)
    return f"{NUMBERS} {body} y = Neg(s{count})"


WEIGHTED = experts("g{e} = Cast<to = 1>(c{e}) t{e} = Mul(g{e}, m{e})", "s{next} = Add(s{last}, t{e})")
SELECTED = experts("t{e} = Where(c{e}, m{e}, none)", "s{next} = Add(s{last}, t{e})")
REPLACED = experts("", "s{next} = Where(c{e}, m{e}, s{last})")


@pytest.fixture
def small(limited):
    """A target for which choosing experts pays however small they are."""
    return limited(thresholds={Threshold.OPERATOR_CALL: 0})


@pytest.mark.parametrize("body", [SELECTED, REPLACED])
def test_booleans_that_select(fused, small, body):
    operators = fused(SelectExpertTerms(small), body, X, Y)
    assert operators.count("Split") == 1
    assert operators.count("Where") == 1


@pytest.mark.parametrize(
    ("term", "join", "is_taken"),
    [
        ("", "s{next} = Where(c{e}, m{e}, s{last})", True),
        ("t{e} = Where(c{e}, m{e}, none)", "s{next} = Add(s{last}, t{e})", True),
        ("t{e} = Where(c{e}, m{e}, none)", "s{next} = Add(t{e}, s{last})", True),
        ("d{e} = Not(c{e})", "s{next} = Where(d{e}, s{last}, m{e})", False),
        ("", "s{next} = Where(c{e}, s{last}, m{e})", False),
        ("t{e} = Where(c{e}, none, m{e})", "s{next} = Add(s{last}, t{e})", False),
        ("t{e} = Where(c{e}, m{e}, none)", "s{next} = Sub(s{last}, t{e})", False),
        ("t{e} = Where(c{e}, m{e}, none)", "s{next} = Mul(s{last}, t{e})", False),
        ("t{e} = Where(c{e}, m{e}, x)", "s{next} = Add(s{last}, t{e})", False),
    ],
)
def test_ways_to_join_six_experts(fused, small, term, join, is_taken):
    operators = fused(SelectExpertTerms(small), experts(term, join, 6), X, Y)
    assert ("Split" in operators) == is_taken
    assert operators.count("Where") == (1 if is_taken else 6 if "Where" in term + join else 0)


@pytest.mark.parametrize("split", [0, 2, 4, 6])
@pytest.mark.parametrize(
    ("term", "join"),
    [("t{e} = Where(c{e}, m{e}, none)", "s{next} = Add(s{last}, t{e})"), ("", "s{next} = Where(c{e}, m{e}, s{last})")],
)
def test_terms_of_which_the_last_are_in_a_branch(fused, small, term, join, split):
    """Those outside of it have been computed for all tokens already."""
    body = experts(term, join, 6).rpartition("y = ")[0]
    outside, mark, inside = body.partition(f" c{split} =")
    branches = f"then_branch = f () => (float[T,4] y0) {{ {mark + inside} y0 = Neg(s6) }}, else_branch = g () => (float[T,4] y1) {{ y1 = Neg(x) }}"
    operators = fused(SelectExpertTerms(small), f"{outside} y = If(choice) <{branches}>", f"{X}, bool choice", Y)
    assert operators.count("MatMul") == 2 * split


#: `lax.switch` under `vmap`: the first expert where `i` is at most 0, else the second where it is at most 1, …
SWITCH = " ".join(
    [f"c{e} = LessOrEqual(i, n{e}) h{e} = MatMul(x, u) r{e} = Relu(h{e}) m{e} = MatMul(r{e}, d)" for e in range(6)]
    + [f"s{e} = Where(c{e}, m{e}, s{e + 1})" for e in range(3, -1, -1)]
).replace("s3 = Where(c3, m3, s4)", "s3 = Where(c3, m3, m4)")


@pytest.mark.parametrize(
    ("old", "new", "is_taken"),
    [
        ("", "", True),
        ("c1 = LessOrEqual(i, n1)", "z = Expand(i, ones) c1 = LessOrEqual(z, n1)", True),
        ("c1 = LessOrEqual(i, n1)", "c1 = LessOrEqual(j, n1)", False),
        ("c1 = LessOrEqual(i, n1)", "c1 = LessOrEqual(i, n2)", False),
        ("c0 = LessOrEqual(i, n0)", "c0 = LessOrEqual(i, n1)", False),
        ("c3 = LessOrEqual(i, n3)", "c3 = LessOrEqual(i, n4)", False),
        ("c1 = LessOrEqual(i, n1)", "c1 = Less(i, n1)", False),
        ("c1 = LessOrEqual(i, n1)", "c1 = LessOrEqual(n1, i)", False),
        ("Where(c1, m1, s2)", "Where(c1, s2, m1)", False),
        ("s0 = Where(c0, m0, s1)", "s0 = Identity(s1)", False),
        ("Where(c3, m3, m4)", "Where(c3, m3, none)", False),
        ("Where(c1, m1, s2)", "Where(c1, none, s2)", False),
    ],
)
def test_a_switch(fused, small, old, new, is_taken):
    assert old in SWITCH
    body = f"ones = Constant<value = int64[2] {{1, 1}}>() {NUMBERS} {SWITCH.replace(old, new, 1)} y = Neg(s0)"
    operators = fused(SelectExpertTerms(small), body, X + ", int64[T,1] j", Y)
    assert ("Split" in operators) == is_taken


#: The results of four experts, stacked along axis 1 or another one, times their gates, and summed up.
STACKED = (
    "numbers = Constant<value = int64[4] {0, 1, 2, 3}>() c = Equal(i, numbers) w = Cast<to = 1>(c) gate = Unsqueeze(w, two) "
    + " ".join(
        f"h{e} = MatMul(x, u) r{e} = Relu(h{e}) m{e} = MatMul(r{e}, d) v{e} = Unsqueeze(m{e}, one)" for e in range(4)
    )
    + " stack = Concat<axis = 1>(v0, v1, v2, v3) p = Mul(gate, stack) s = ReduceSum<keepdims = 0>(p, one) y = Neg(s)"
)
AXES = " ".join(f"{name} = Constant<value = int64[1] {{{n}}}>()" for n, name in enumerate(("zero", "one", "two")))
BY_EXPERT = (("v{e} = Unsqueeze(m{e}, one)", "v{e} = Unsqueeze(m{e}, zero)"), ("<axis = 1>(v0", "<axis = 0>(v0"))


@pytest.mark.parametrize(
    ("changes", "is_taken"),
    [
        ([], True),
        ([("Mul(gate, stack)", "Mul(stack, gate)")], True),
        ([*BY_EXPERT, ("p = ", "moved = Transpose<perm = [1, 0, 2]>(stack) p = "), ("gate, stack", "gate, moved")], True),
        ([*BY_EXPERT, ("gate = Unsqueeze(w, two)", "turned = Transpose<perm = [1, 0]>(w) gate = Unsqueeze(turned, two)"),
          ("ReduceSum<keepdims = 0>(p, one)", "ReduceSum<keepdims = 0>(p, zero)")], True),
        ([("c = Equal(i, numbers)", "c = Less(i, numbers)")], False),
        ([("Mul(gate, stack)", "Add(gate, stack)")], False),
        ([("(v0, v1, v2, v3)", "(v0, v1, v2, v2)")], False),
        ([("ReduceSum<", "ReduceMean<")], False),
        ([("y = Neg(s)", "other = ReduceMax<keepdims = 0>(stack, one) y = Add(s, other)")], False),
        ([("y = Neg(s)", "other = ReduceMax<keepdims = 0>(v1, one) y = Add(s, other)")], False),
        ([("y = Neg(s)", "y = Add(s, m1)")], False),
        ([("r2 = Relu(h2)", "r2 = Softmax<axis = 0>(h2)")], False),
        ([("v1 = Unsqueeze(m1, one)", "v1 = Unsqueeze(x, one)")], False),
        ([("v1 = Unsqueeze(m1, one)", "e1 = Unsqueeze(x, one) v1 = Relu(e1)")], False),
    ],
)  # fmt: skip
def test_experts_that_are_stacked(fused, declined, small, changes, is_taken):
    body = STACKED
    for before, after in changes:
        for old, new in dict.fromkeys((before.format(e=e), after.format(e=e)) for e in range(4)):
            assert old in body
            body = body.replace(old, new)
    promised = small.assuming([Assumption.FINITE])
    assert ("Split" in fused(SelectExpertTerms(promised), f"{AXES} {body}", X, Y)) == is_taken
    if is_taken:
        assert declined(SelectExpertTerms(small), f"{AXES} {body}", X, Y) == [NOT_FINITE]


def test_gates_of_numbers_need_the_promise(fused, declined, small):
    assert declined(SelectExpertTerms(small), WEIGHTED, X, Y) == [NOT_FINITE]
    assert fused(SelectExpertTerms(small.assuming([Assumption.FINITE])), WEIGHTED, X, Y).count("Split") == 1


def test_experts_that_do_not_exclude_each_other_do_not_replace_each_other(declined, small):
    body = REPLACED
    for e in range(4):
        body = body.replace(
            f"c{e} = Equal(i, n{e})",
            f"q{e} = Equal(i, n{e}) w{e} = Cast<to = 6>(q{e}) k{e} = ReduceMax(w{e}, one) c{e} = Cast<to = 9>(k{e})",
        )
    body = "one = Constant<value = int64[1] {1}>() " + body
    (reason,) = declined(SelectExpertTerms(small), body, X.replace("[T,1]", "[T,2]"), Y)
    assert "exclude each other" in reason


@pytest.mark.parametrize(
    ("gated", "is_zero"),
    [
        ("w{e} = Mul(x, g{e}) h{e} = MatMul(w{e}, u) r{e} = Relu(h{e}) m{e} = MatMul(r{e}, d)", True),
        ("w{e} = Mul(g{e}, x) h{e} = MatMul(w{e}, u) r{e} = Neg(h{e}) m{e} = MatMul(r{e}, d)", True),
        ("h{e} = MatMul(x, u) r{e} = Relu(h{e}) w{e} = Mul(r{e}, g{e}) m{e} = MatMul(w{e}, d)", True),
        ("w{e} = Mul(x, g{e}) h{e} = MatMul(w{e}, u) r{e} = Sigmoid(h{e}) m{e} = MatMul(r{e}, d)", False),
        ("w{e} = Mul(x, g{e}) h{e} = MatMul(w{e}, u) r{e} = Add(h{e}, b) m{e} = MatMul(r{e}, d)", False),
        ("w{e} = Add(x, g{e}) h{e} = MatMul(w{e}, u) r{e} = Relu(h{e}) m{e} = MatMul(r{e}, d)", False),
        ("w{e} = Div(x, g{e}) h{e} = MatMul(w{e}, u) r{e} = Relu(h{e}) m{e} = MatMul(r{e}, d)", False),
    ],
)
def test_gates_of_what_experts_read(fused, declined, small, gated, is_zero):
    """A gate that is a factor makes the result of an expert zero only where all that follows keeps zeros."""
    body, numbers = "s0 = Identity(x)", "b = Constant<value = float[3] {1, 2, 3}>()"
    for e in range(4):
        body += f" c{e} = Equal(i, n{e}) g{e} = Cast<to = 1>(c{e}) {gated.format(e=e)} s{e + 1} = Add(s{e}, m{e})"
    text = f"{NUMBERS} {numbers} {body} y = Neg(s4)"
    if "Div" not in gated:
        operators = fused(SelectExpertTerms(small.assuming([Assumption.FINITE])), text, X, Y)
        assert ("Split" in operators) == is_zero
    assert declined(SelectExpertTerms(small), text, X, Y) == ([NOT_FINITE] if is_zero else [])


@pytest.mark.parametrize("number", [0, 3])
def test_an_expert_with_two_terms_is_no_chain(declined, small, number):
    body = SELECTED.replace(f"Equal(i, n{number})", "Equal(i, n1)")
    assert declined(SelectExpertTerms(small), body, X, Y) == []


def test_gates_of_several_sources_are_no_chain(declined, small):
    body = SELECTED.replace("Equal(i, n2)", "Equal(j, n2)")
    assert declined(SelectExpertTerms(small), body, X + ", int64[T,1] j", Y) == []


@pytest.mark.parametrize("others", [1, 2])
def test_terms_of_another_source_are_added_to_the_chain(fused, small, others):
    body = experts("t{e} = Where(c{e}, m{e}, none)", "s{next} = Add(s{last}, t{e})", 6)
    for number in range(others):
        body = body.replace(f"Equal(i, n{number})", f"Equal(j, n{number})")
    assert fused(SelectExpertTerms(small), body, X + ", int64[T,1] j", Y).count("Split") == 1


#: Gates [T, T, 1] of the kind of a row, and of the kind of a column.
ROW = "u{e} = Unsqueeze(k{e}, one) c{e} = And(u{e}, mask)"
COLUMN = "u{e} = Unsqueeze(k{e}, zero) c{e} = And(u{e}, mask)"


def of_square_tokens(gates: list[str], body: str = SELECTED) -> str:
    body = "zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>() " + body
    for e, gate in enumerate(gates):
        body = body.replace(f"c{e} = Equal(i, n{e})", f"k{e} = Equal(i, n{e}) " + gate.format(e=e))
    return body


SQUARE = X.replace("[T,4] x", "[T,T,4] x") + ", bool[T,T,1] mask"


@pytest.mark.parametrize("body", [SELECTED, REPLACED])
def test_gates_of_rows_and_columns_do_not_exclude_each_other(declined, small, body):
    text = of_square_tokens([ROW, COLUMN] * 2, body)
    (reason,) = declined(SelectExpertTerms(small), text, SQUARE, "float[T,T,4] y")
    assert reason == "the gates of several experts are not known to belong to the same token"


@pytest.mark.parametrize("gate", [ROW, COLUMN])
def test_gates_of_rows_alone_select(fused, small, gate):
    assert fused(SelectExpertTerms(small), of_square_tokens([gate] * 4), SQUARE, "float[T,T,4] y").count("Split") == 1


def test_experts_of_tokens_in_other_arrangements_are_no_chain(declined, small):
    body = of_square_tokens([ROW] * 4).replace(
        "h2 = MatMul(x, u)", "x2 = Transpose<perm = [1, 0, 2]>(x) h2 = MatMul(x2, u)"
    )
    (reason,) = declined(SelectExpertTerms(small), body, SQUARE, "float[T,T,4] y")
    assert reason == "several experts read the tokens in different arrangements"


#: The results of four experts, stacked along an axis of their own, and their gates.
STACK = (
    "a0 = Constant<value = int64[1] {0}>() a1 = Constant<value = int64[1] {1}>() a2 = Constant<value = int64[1] {2}>() "
    "n = Constant<value = int64[4] {0, 1, 2, 3}>() split = Constant<value = int64[3] {0, 1, 4}>() parts = Constant<value = int64[3] {0, 2, 2}>() "
    "whole = Constant<value = int64[2] {0, 4}>() none = Constant<value = float {0}>() "
    + " ".join(f"h{e} = MatMul(x, u) r{e} = Relu(h{e}) m{e} = MatMul(r{e}, d)" for e in range(4))
    + " eq = Equal(i, n) g = Cast<to = 1>(eq) gu = Unsqueeze(g, a2) "
)
IN_STACK = " ".join(f"q{e} = Unsqueeze(m{e}, a1)" for e in range(4)) + " st = Concat<axis = 1>(q0, q1, q2, q3) "
SUMMED = "w = Mul(gu, st) y = ReduceSum<keepdims = 0>(w, a1)"
IN_FRONT = IN_STACK.replace("a1", "a0").replace("axis = 1", "axis = 0").replace("st =", "sf =")
SQUARES = (
    " ".join(f"f{e} = Reshape(m{e}, parts) q{e} = Unsqueeze(f{e}, a1)" for e in range(4))
    + " st = Concat<axis = 1>(q0, q1, q2, q3) "
)


@pytest.mark.parametrize(
    ("body", "is_taken"),
    [
        (IN_STACK + SUMMED, True),
        (IN_STACK.replace("axis = 1", "axis = -2") + SUMMED, True),
        (IN_STACK.replace("Unsqueeze(m1, a1)", "Reshape(m1, split)") + SUMMED, True),
        (IN_FRONT + "st = Transpose<perm = [1, 0, 2]>(sf) " + SUMMED, True),
        (IN_STACK + "g1 = Unsqueeze(g, a1) w = MatMul(g1, st) y = Squeeze(w, a1)", True),
        (IN_STACK + "eu = Unsqueeze(eq, a2) w = Where(eu, st, none) y = ReduceSum<keepdims = 0>(w, a1)", True),
        (SQUARES + "g3 = Unsqueeze(gu, a3) w = Mul(g3, st) s = ReduceSum<keepdims = 0>(w, a1) y = Reshape(s, whole)", True),
        (SQUARES.replace("st =", "sq =") + "st = Transpose<perm = [0, 1, 3, 2]>(sq) g3 = Unsqueeze(gu, a3) w = Mul(g3, st) "
         "s = ReduceSum<keepdims = 0>(w, a1) y = Reshape(s, whole)", False),
        # Two experts in one value, a value that has the axis, one that is read by itself, and a stack that is.
        (IN_STACK.replace("(q0, q1, q2, q3)", "(q0, q1, q23)").replace("st =", "q23 = Concat<axis = 1>(q2, q3) st =") + SUMMED, False),
        (IN_STACK.replace("Unsqueeze(m1, a1)", "Relu(l)") + SUMMED, False),
        (IN_STACK + SUMMED.replace("y =", "s =") + " y = Add(s, m1)", False),
        (IN_STACK + SUMMED.replace("y =", "s =") + " k = ReduceMax<keepdims = 0>(st, a1) y = Add(s, k)", False),
        # Gates of which all may count, none of the numbers of experts, and a stack along another axis.
        (IN_STACK + SUMMED.replace("gu", "dense"), False),
        (IN_STACK + "w = Add(gu, st) y = ReduceSum<keepdims = 0>(w, a1)", False),
        (IN_STACK + "w = Mul(gu, st) t = ReduceSum<keepdims = 0>(w, a2) y = MatMul(t, whole_weight)", False),
        (IN_FRONT + "st = Transpose<perm = [1, 0, 2]>(sf) gt = Transpose<perm = [0, 2, 1]>(gu) w = Mul(gt, st) y = ReduceSum<keepdims = 0>(w, a1)", False),
    ],
)  # fmt: skip
def test_stacked_experts(fused, small, body, is_taken):
    inputs = X + ", float[T,1,4] l, float[T,4,1] dense, float[4,4] whole_weight"
    given = STACK + "a3 = Constant<value = int64[1] {3}>() "
    operators = fused(SelectExpertTerms(small.assuming([Assumption.FINITE])), given + body, inputs, Y)
    assert ("Split" in operators) == is_taken


def test_three_stacked_experts_are_computed_whole(fused, small):
    body = (
        (STACK + IN_STACK + SUMMED)
        .replace("{0, 1, 2, 3}", "{0, 1, 2}")
        .replace("int64[4] {0, 1, 2}", "int64[3] {0, 1, 2}")
    )
    body = body.replace("(q0, q1, q2, q3)", "(q0, q1, q2)")
    assert "Split" not in fused(SelectExpertTerms(small.assuming([Assumption.FINITE])), body, X, Y)
