from __future__ import annotations

import pytest
from jax2onnx_fusions.experts.select_expert_terms import SelectExpertTerms
from jax2onnx_fusions.experts.select_experts import NOT_FINITE
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.forms import Threshold

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
