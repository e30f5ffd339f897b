from __future__ import annotations

import pytest
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.passes.fusion.experts.select_expert_terms import SelectExpertTerms
from jax2onnx_graph.passes.fusion.experts.select_experts import NOT_FINITE

X = "float[T,4] x, int64[T,1] i, float[4,3] u, float[3,4] d"
Y = "float[T,4] y"
NUMBERS = "none = Constant<value = float {0}>() " + " ".join(
    f"n{e} = Constant<value = int64 {{{e}}}>()" for e in range(4)
)


def experts(term: str, join: str) -> str:
    """Four experts; `join` combines each term with those before."""
    body = "s0 = Identity(x)"
    for e in range(4):
        body += f" c{e} = Equal(i, n{e}) h{e} = MatMul(x, u) r{e} = Relu(h{e}) m{e} = MatMul(r{e}, d) "
        body += term.format(e=e) + " " + join.format(e=e, last=e, next=e + 1)
    return f"{NUMBERS} {body} y = Neg(s4)"


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


@pytest.mark.parametrize("number", [0, 3])
def test_an_expert_with_two_terms_is_no_chain(declined, small, number):
    body = SELECTED.replace(f"Equal(i, n{number})", "Equal(i, n1)")
    assert declined(SelectExpertTerms(small), body, X, Y) == []


def test_gates_of_several_sources_are_no_chain(declined, small):
    body = SELECTED.replace("Equal(i, n2)", "Equal(j, n2)")
    assert declined(SelectExpertTerms(small), body, X + ", int64[T,1] j", Y) == []


#: Gates [T, T, 1] of the kind of a row, and of the kind of a column.
ROW = "u{e} = Unsqueeze(k{e}, one) c{e} = And(u{e}, mask)"
COLUMN = "u{e} = Unsqueeze(k{e}, zero) c{e} = And(u{e}, mask)"


def of_square_tokens(gates: list[str]) -> str:
    body = "zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>() " + SELECTED
    for e, gate in enumerate(gates):
        body = body.replace(f"c{e} = Equal(i, n{e})", f"k{e} = Equal(i, n{e}) " + gate.format(e=e))
    return body


SQUARE = X.replace("[T,4] x", "[T,T,4] x") + ", bool[T,T,1] mask"


def test_gates_of_rows_and_columns_do_not_exclude_each_other(declined, small):
    (reason,) = declined(SelectExpertTerms(small), of_square_tokens([ROW, COLUMN] * 2), SQUARE, "float[T,T,4] y")
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
