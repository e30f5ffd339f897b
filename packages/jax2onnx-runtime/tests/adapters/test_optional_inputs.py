"""Models that take the matrices of adapters as optional inputs of any rank."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.adapters.optional_inputs import with_optional_adapters
from jax2onnx_runtime.adapters.pairs import ADAPTERS_KEY, AdapterPair, read_adapters

from examples.low_rank_models import FOUND, ROWS, SCALES, make_model, matrix, run


@pytest.mark.parametrize("name", FOUND)
def test_the_exported_matrices_give_what_the_model_computed(name: str) -> None:
    model = make_model(FOUND[name])
    opened = with_optional_adapters(model, [])
    given = {n: matrix(n) for pair in read_adapters(opened) for n in (pair.a, pair.b)}
    np.testing.assert_allclose(run(opened, **given), run(model), rtol=1e-5)


@pytest.mark.parametrize("name", FOUND)
def test_any_rank_can_be_given(name: str) -> None:
    opened = with_optional_adapters(make_model(FOUND[name]), [])
    (pair,) = read_adapters(opened)
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(8, 5)).astype(np.float32), rng.normal(size=(5, 6)).astype(np.float32)
    given = {pair.a: first if pair.a_axis == 1 else first.T, pair.b: second if pair.b_axis == 0 else second.T}
    scale = SCALES.get(name, 1.0)
    np.testing.assert_allclose(
        run(opened, **given), run(opened) + scale * (ROWS @ first @ second), rtol=1e-4, atol=1e-5
    )


def test_without_an_adapter_the_base_is_computed_exactly() -> None:
    opened = with_optional_adapters(make_model(FOUND["a sum"]), [])
    np.testing.assert_array_equal(run(opened), ROWS @ matrix("w"))
    (pair,) = read_adapters(opened)
    defaults = [opened.graph.initializers[name].const_value for name in (pair.a, pair.b)]
    assert [tuple(default.shape.numpy()) for default in defaults] == [(8, 0), (0, 6)]


def test_the_rank_is_a_symbol_that_is_new() -> None:
    opened = with_optional_adapters(make_model(FOUND["a sum"], "float[R, 6] y", "float[R, 8] x"), [])
    assert [str(value.shape) for value in opened.graph.inputs] == ["[R,8]", "[8,R0]", "[R0,6]"]


def test_each_pair_has_a_symbol_of_its_own() -> None:
    nodes = "h = MatMul(x, w) p = MatMul(x, a) q = MatMul(p, b) s = Add(h, q) p2 = MatMul(x, a2) q2 = MatMul(p2, b2) y = Add(s, q2)"
    assert [pair.rank for pair in read_adapters(with_optional_adapters(make_model(nodes), []))] == ["R0", "R1"]


def test_the_metadata_names_pairs_and_ranks() -> None:
    opened = with_optional_adapters(make_model(FOUND["transposed matrices"]), [])
    read = ir.from_proto(ir.to_proto(opened))
    assert read_adapters(read) == [AdapterPair("a_t", "b_t", "R", a_axis=0, b_axis=1, exported=2)]


def test_a_flattening_between_the_products_names_no_rank_any_more() -> None:
    nodes = """rows = Constant<value=int64[2] {-1, 2}>() whole = Constant<value=int64[4] {3, 4, 2, 3}>() p = MatMul(x, a)
               flat = Reshape(p, rows) q = MatMul(flat, b) y = Reshape(q, whole)"""
    model = make_model(nodes, "float[3, 4, 2, 3] y", "float[3, 4, 8] x")
    opened = with_optional_adapters(model, ["a"])
    assert [node.op_type for node in opened.graph if node.op_type == "Reshape"] == ["Reshape"]


def test_a_reshape_that_copies_sizes_stays_in_the_way() -> None:
    nodes = """rows = Constant<value=int64[2] {-1, 2}>() whole = Constant<value=int64[3] {0, 2, 3}>() p = MatMul(x, a)
               flat = Reshape(p, rows) q = MatMul(flat, b) y = Reshape(q, whole)"""
    with pytest.raises(OptionError, match="read by Reshape"):
        with_optional_adapters(make_model(nodes, "float[12, 2, 3] y", "float[3, 4, 8] x"), ["a"])


def test_a_model_without_adapters_is_an_error() -> None:
    with pytest.raises(OptionError, match="no adapter that shows by itself"):
        with_optional_adapters(make_model("y = MatMul(x, w)"), [])


def test_metadata_of_other_inputs_are_refused() -> None:
    model = make_model("y = MatMul(x, w)")
    model.metadata_props[ADAPTERS_KEY] = '[{"a": "p", "b": "q", "rank": "R", "a_axis": 1, "b_axis": 0, "exported": 2}]'
    with pytest.raises(OSError, match="the model has no input 'p'"):
        read_adapters(model)
