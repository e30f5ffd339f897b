"""Which formulas are low-rank products, and which only resemble one."""

from __future__ import annotations

import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.adapters.finding import chosen_pairs, low_rank_pairs

from examples.low_rank_models import FOUND, NOT_FOUND, SCALES, SQUARES, make_model


@pytest.mark.parametrize("name", FOUND)
def test_a_low_rank_product_is_found(name: str) -> None:
    (pair,) = low_rank_pairs(make_model(FOUND[name]))
    assert (pair.rank, pair.products[0].scale) == (2, SCALES.get(name, 1.0))


@pytest.mark.parametrize(
    ("first", "second", "scale"),
    [
        ("p = Gemm<alpha = 0.5>(x, a)", "q = MatMul(p, b)", 0.5),
        ("p = MatMul(x, a)", "q = Gemm<alpha = 3.0>(p, b)", 3.0),
        ("p = Gemm<alpha = 0.5>(x, a)", "q = Gemm<alpha = 3.0>(p, b)", 1.5),
        ("p0 = MatMul(x, a) p = Div(p0, half)", "q = MatMul(p, b)", 2.0),
        ("p0 = MatMul(x, a) p = Mul(p0, half)", "q0 = MatMul(p, b) q = Mul(half, q0)", 0.25),
        ("p0 = MatMul(x, a) p = Mul(p0, half)", "q0 = MatMul(p, b) q = Div(q0, half)", 1.0),
        ("p0 = MatMul(x, a) p1 = Identity(p0) p = Mul(half, p1)", "q0 = MatMul(p, b) q = Identity(q0)", 0.5),
    ],
)
def test_the_scale_is_the_product_of_all_numbers_on_the_way(first: str, second: str, scale: float) -> None:
    (pair,) = low_rank_pairs(make_model(f"h = MatMul(x, w) {first} {second} y = Add(h, q)"))
    assert pair.products[0].scale == scale


THREE_AXES = ("float[N, 5, 6] y", "float[N, 5, 8] x")
FLAT = "f = Constant<value = int64[2] {-1, 2}>() t = Constant<value = int64[3] {-1, 5, 6}>() h = MatMul(x, w) p = MatMul(x, a) "


@pytest.mark.parametrize(
    ("nodes", "flattened"),
    [
        (FOUND["a sum"], 0),
        (FOUND["a bias before"], 0),
        (FOUND["scaled inside"], 0),
        (FLAT + "r = Reshape(p, f) q0 = MatMul(r, b) q = Reshape(q0, t) y = Add(h, q)", 1),
    ],
)
def test_activations_of_three_axes(nodes: str, flattened: int) -> None:
    (pair,) = low_rank_pairs(make_model(nodes, *THREE_AXES))
    assert len(pair.flattenings) == flattened


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{-1, 5, 6}", "{0, 5, 6}"),  # the size that the rows have
        ("{-1, 2}", "{-1, 1}"),
        ("q = Reshape(q0, t)", "q1 = Relu(q0) q = Reshape(q1, t)"),
        ("q0 = MatMul(r, b)", "r1 = Relu(r) q0 = MatMul(r1, b)"),
        ("{-1, 2}", "{2, -1}"),
        ("r = Reshape(p, f)", "r = Reshape(p, t2)"),
    ],
)
def test_rows_that_are_flattened_for_something_else_are_no_pair(old: str, new: str) -> None:
    nodes = FLAT + "r = Reshape(p, f) q0 = MatMul(r, b) q = Reshape(q0, t) y = Add(h, q)"
    given = "t2 = Constant<value = int64[3] {-1, 5, 2}>() "
    assert low_rank_pairs(make_model(given + nodes.replace(old, new), *THREE_AXES)) == []


def test_a_matrix_from_the_left_multiplies_two_axes() -> None:
    nodes = "p = MatMul(a_t, x) y = MatMul(b_t, p)"
    (pair,) = chosen_pairs(make_model(nodes, "float[6, N] y", "float[8, N] x"), ["a_t"])
    assert (pair.a_axis, pair.b_axis, pair.rank) == (0, 1, 2)
    with pytest.raises(OptionError, match="it is the left factor of a product"):
        chosen_pairs(make_model(nodes, "float[B, 6, N] y", "float[B, 8, N] x"), ["a_t"])


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


@pytest.mark.parametrize("name", SQUARES)
def test_what_resembles_one_of_a_square_activation_is_not(name: str) -> None:
    assert low_rank_pairs(make_model(SQUARES[name], "float[8, 8] y", "float[8, 8] x")) == []


@pytest.mark.parametrize(
    "nodes",
    [
        "h = MatMul(x, square) p = MatMul(x, a) q = MatMul(p, b8) y = Add(h, q)",
        "h = MatMul(x, square) p = Gemm<transA = 1, transB = 1>(a, x) q = Gemm<transA = 1>(p, b8) y = Add(h, q)",
        "h0 = MatMul(x, square) h = Cast<to = 10>(h0) p = MatMul(x, a) q0 = MatMul(p, b8) q = Cast<to = 10>(q0) s = Add(h, q) y = Cast<to = 1>(s)",
        "i = Cast<to = 11>(x) r = Cast<to = 1>(i) h = MatMul(r, square) p = MatMul(x, a) q = MatMul(p, b8) y = Add(h, q)",
    ],
)
def test_a_square_activation_has_adapters(nodes: str) -> None:
    assert len(low_rank_pairs(make_model(nodes, "float[8, 8] y", "float[8, 8] x"))) == 1


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
    with pytest.raises(OptionError, match=r"'lora_\*' of adapters fits no matrix of the model, which has none\."):
        chosen_pairs(make_model("y = Relu(x)"), ["lora_*"])


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
        ("p = Gemm(x, a, half) y = MatMul(p, b)", "it is read by Gemm"),
        (NOT_FOUND["a number for each of the rank"], "a result of it is read by Mul"),
        ("p = MatMul(x, a) q = Add(p, half) y = MatMul(q, b)", "a result of it is read by Add"),
    ],
)
def test_a_matrix_that_is_used_otherwise_is_an_error(nodes: str, reason: str) -> None:
    with pytest.raises(OptionError, match=f"a is no matrix of an adapter.*{reason}"):
        chosen_pairs(make_model(nodes), ["a"])
