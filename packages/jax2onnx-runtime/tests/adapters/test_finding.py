"""Which formulas are low-rank products, and which only resemble one."""

from __future__ import annotations

import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.adapters.finding import chosen_pairs, low_rank_pairs

from examples.low_rank_models import FOUND, NOT_FOUND, SCALES, make_model


@pytest.mark.parametrize("name", FOUND)
def test_a_low_rank_product_is_found(name: str) -> None:
    (pair,) = low_rank_pairs(make_model(FOUND[name]))
    assert (pair.rank, pair.products[0].scale) == (2, SCALES.get(name, 1.0))


def test_two_adapters_of_one_weight_are_two_pairs() -> None:
    nodes = "h = MatMul(x, w) p = MatMul(x, a) q = MatMul(p, b) s = Add(h, q) p2 = MatMul(x, a2) q2 = MatMul(p2, b2) y = Add(s, q2)"
    assert [(pair.a.name, pair.b.name) for pair in low_rank_pairs(make_model(nodes))] == [("a", "b"), ("a2", "b2")]


def test_a_pair_that_is_used_twice_is_one() -> None:
    nodes = """h = MatMul(x, w) p = MatMul(x, a) q = MatMul(p, b) s = Add(h, q)
               z = Neg(x) k = MatMul(z, w) r = MatMul(z, a) t = MatMul(r, b) u = Add(k, t) y = Mul(s, u)"""
    (pair,) = low_rank_pairs(make_model(nodes))
    assert len(pair.products) == 2


@pytest.mark.parametrize("name", NOT_FOUND)
def test_what_resembles_one_is_not(name: str) -> None:
    assert low_rank_pairs(make_model(NOT_FOUND[name])) == []


def test_a_product_that_is_returned_is_not() -> None:
    nodes = "h = MatMul(x, w) p = MatMul(x, a) q = MatMul(p, b) y = Add(h, q)"
    assert low_rank_pairs(make_model(nodes, "float[N, 6] y, float[N, 2] p")) == []


def test_a_name_chooses_what_is_added_to_nothing() -> None:
    (pair,) = chosen_pairs(make_model(NOT_FOUND["no weight beside it"]), ["a*"])
    assert pair.b.name == "b"


def test_the_second_matrix_chooses_its_pair() -> None:
    (pair,) = chosen_pairs(make_model(FOUND["a sum"]), ["b"])
    assert pair.a.name == "a"


def test_a_pattern_that_fits_nothing_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"'lora_\*' of adapters fits no matrix of the model; it has a, …"):
        chosen_pairs(make_model(FOUND["a sum"]), ["lora_*"])


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (NOT_FOUND["a function between"], "a result of it is read by Relu"),
        (
            "p = MatMul(x, a) q = MatMul(p, b) h = MatMul(a, b) s = MatMul(x, h) y = Add(q, s)",
            "multiplied by another constant",
        ),
        ("p = MatMul(x, a) r = MatMul(x, v) s = MatMul(p, b) m = Transpose(b) y = Add(r, s)", "something else reads b"),
        ("n = Neg(a) p = MatMul(x, n) y = MatMul(p, b)", "it is read by Neg"),
    ],
)
def test_a_matrix_that_is_used_otherwise_is_an_error(nodes: str, reason: str) -> None:
    with pytest.raises(OptionError, match=f"a is no matrix of an adapter.*{reason}"):
        chosen_pairs(make_model(nodes), ["a"])
