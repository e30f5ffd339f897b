"""Products whose rows and columns, or the axes of these, are exchanged where that transposes less."""

from __future__ import annotations

import onnx_ir as ir
import onnx_ir.passes.common
import pytest
from jax2onnx_fusions.attention.order_products import OrderProducts
from jax2onnx_graph.forms import Threshold

HEADER = '<ir_version: 10, opset_import: ["" : 23]>\n'


@pytest.fixture
def everywhere(limited) -> OrderProducts:
    """The pass for a target on which it pays for small tensors, too."""
    return OrderProducts(limited(thresholds={Threshold.OPERATOR_CALL: 1}))


def test_a_transposed_product_is_the_product_of_the_transposes(rewrite, everywhere):
    text = f"""{HEADER} main (float[B,2,9,2] k, float[B,2,2,8] q) => (float[B,2,8,9] y) {{
        l = MatMul(k, q) y = Transpose<perm = [0,1,3,2]>(l) }}"""
    assert rewrite(everywhere, text, tolerance=1e-5) == [
        "MatMul(Transpose{[0, 1, 3, 2]}(q), Transpose{[0, 1, 3, 2]}(k))"
    ]


@pytest.mark.parametrize(
    ("inside", "outside", "count"),
    [
        ("y0 = Transpose<perm = [0,1,3,2]>(l)", "", 1),
        ("r = Transpose<perm = [0,1,3,2]>(l) y0 = Neg(r)", "", 1),
        ("y0 = Neg(t)", "t = Transpose<perm = [0,1,3,2]>(l)", 2),
    ],
)
def test_a_product_that_a_branch_transposes(rewrite, everywhere, inside, outside, count):
    """The Transposes of the operands are fewer elements, but the one in the branch cannot go."""
    branches = f"then_branch = f () => (float[B,2,8,9] y0) {{ {inside} }}, else_branch = g () => (float[B,2,8,9] y1) {{ y1 = Identity(z) }}"
    text = f"""{HEADER} main (float[B,2,9,2] k, float[B,2,2,8] q, float[B,2,8,9] z, bool p) => (float[B,2,8,9] y) {{
        l = MatMul(k, q) {outside} y = If(p) <{branches}> }}"""
    (found,) = rewrite(everywhere, text, tolerance=1e-5)
    assert found.count("Transpose") == count


GROUPED_LOGITS = """columns = Constant<value = int64[4] {0, 2, 4, -1}>() apart = Constant<value = int64[5] {0, 2, 9, 7, 3}>()
    kt = Transpose<perm = [0,2,1,3]>(k) qt = Transpose<perm = [0,2,4,1,3]>(q) q4 = Reshape(qt, columns)
    a = MatMul(kt, q4) l = Reshape(a, apart) y = Transpose<perm = [0,1,4,3,2]>(l)"""


@pytest.mark.parametrize("batch", ["B", "2", "1"])
def test_logits_of_grouped_heads_are_not_transposed(fused, everywhere, batch):
    inputs = f"float[{batch},9,2,4] k, float[{batch},7,2,3,4] q"
    operators = fused(everywhere, GROUPED_LOGITS, inputs, f"float[{batch},2,3,7,9] y")
    assert operators[operators.index("MatMul") :] == ["MatMul", "Reshape"]


def test_probabilities_of_grouped_heads_are_not_transposed(fused, everywhere):
    body = """columns = Constant<value = int64[4] {0, 2, 9, -1}>() apart = Constant<value = int64[5] {0, 2, 4, 3, 7}>()
        vt = Transpose<perm = [0,2,3,1]>(v) pt = Transpose<perm = [0,1,4,2,3]>(p) p4 = Reshape(pt, columns)
        a = MatMul(vt, p4) o = Reshape(a, apart) y = Transpose<perm = [0,4,1,3,2]>(o)"""
    operators = fused(everywhere, body, "float[B,9,2,4] v, float[B,2,3,7,9] p", "float[B,7,2,3,4] y")
    assert sorted(operators) == ["MatMul", "Reshape", "Reshape", "Transpose", "Transpose"]
    assert operators[-1] == "Transpose"


def test_keys_that_are_broadcast_to_the_query_heads(fused, everywhere):
    body = """one = Constant<value = int64[1] {1}>() u = Unsqueeze(k, one) l = MatMul(u, q)
        y = Transpose<perm = [0,1,3,2]>(l)"""
    operators = fused(everywhere, body, "float[2,9,3] k, float[2,6,3,8] q", "float[2,6,8,9] y")
    assert "Transpose" in operators
    assert operators[-1] == "MatMul"


def test_keys_that_are_repeated_along_a_batch_are_not_where_they_are_broadcast(fused, everywhere):
    body = """wide = Constant<value = int64[3] {6, 1, 1}>() e = Expand(k, wide) l = MatMul(e, q)
        y = Transpose<perm = [0,2,1]>(l)"""
    operators = fused(everywhere, body, "float[1,9,2] k, float[6,2,8] q", "float[6,8,9] y")
    assert "Expand" not in operators
    assert operators[-1] == "MatMul"


def test_keys_that_are_repeated_for_the_query_heads_of_each_stay_repeated(fused, everywhere):
    """[K, 1, S, H] as [K · G, S, H], which no broadcasting does."""
    body = """one = Constant<value = int64[1] {1}>() wide = Constant<value = int64[4] {1, 3, 1, 1}>() u = Unsqueeze(k, one)
        e = Expand(u, wide) heads = Constant<value = int64[3] {6, 9, 2}>() r = Reshape(e, heads) l = MatMul(r, q)
        y = Transpose<perm = [0,2,1]>(l)"""
    operators = fused(everywhere, body, "float[2,9,2] k, float[6,2,8] q", "float[6,8,9] y")
    assert "Expand" in operators
    assert operators[-1] == "MatMul"


def test_a_batch_along_which_both_are_repeated_stays(fused, everywhere):
    body = """wide = Constant<value = int64[3] {5, 1, 1}>() a = Expand(k, wide) b = Expand(q, wide) l = MatMul(a, b)
        y = Transpose<perm = [0,2,1]>(l)"""
    operators = fused(everywhere, body, "float[1,9,2] k, float[1,2,8] q", "float[5,8,9] y")
    assert operators.count("Expand") == 2
    assert operators[-1] == "MatMul"


LOGITS = "l = MatMul(k, q) y = Transpose<perm = [0,2,1]>(l)"


@pytest.mark.parametrize(
    ("inputs", "output"),
    [
        ("float[B,9,30] k, float[B,30,8] q", "float[B,8,9] y"),  # the operands are larger than the product
        ("float[B,9,3] k, float[B,3,1] q", "float[B,1,9] y"),  # a vector
    ],
)
def test_products_that_are_as_good_stay(fused, everywhere, inputs, output):
    assert fused(everywhere, LOGITS, inputs, output) == ["MatMul", "Transpose"]


def test_a_product_that_is_read_in_its_own_order_stays(fused, everywhere):
    body = "l = MatMul(k, q) y = Transpose<perm = [1,0]>(l) z = Neg(l)"
    operators = fused(everywhere, body, "float[9,2] k, float[2,8] q", "float[8,9] y, float[9,8] z")
    assert operators == ["MatMul", "Transpose", "Neg"]


def test_small_products_stay(fused):
    assert fused(OrderProducts(), LOGITS, "float[1,9,2] k, float[1,2,8] q", "float[1,8,9] y") == ["MatMul", "Transpose"]


@pytest.mark.parametrize(("sizes", "result", "count"), [("4, 3, 6", "6,3,4", 1), ("2, 4, 9", "9,4,2", 0)])
def test_a_transposed_view_that_mixes_axes_is_told(everywhere, sizes, result, count):
    text = f"""{HEADER} main (float[2,4,9] p, float[2,9,9] v) => (float[{result}] y) {{
        dims = Constant<value = int64[3] {{{sizes}}}>() a = MatMul(p, v) b = Reshape(a, dims) y = Transpose<perm = [2,1,0]>(b) }}"""
    everywhere(ir.passes.common.ShapeInferencePass()(ir.from_onnx_text(text)).model)
    assert [each.reason for each in everywhere.declined] == ["a reshape mixes axes"] * count
