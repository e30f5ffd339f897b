"""Attention in all spellings, and its layouts."""

from __future__ import annotations

import re

import numpy as np
import pytest
from jax2onnx_fusions.attention.fuse_attention import FuseAttention

QKV = """
    s = Constant<value = float {0.35}>() low = Constant<value = float {-1000000000.0}>()
    one = Constant<value = float {1}>() big = Constant<value = float {2}>()
    q = Mul(x, x) v = Add(x, x) qt = Transpose<perm = [0,2,1,3]>(q) kt = Transpose<perm = [0,2,3,1]>(x)
"""
PLAIN_END = (
    "p = Softmax<axis = -1>(l) vt = Transpose<perm = [0,2,1,3]>(v) o = MatMul(p, vt) y = Transpose<perm = [0,2,1,3]>(o)"
)
EINSUM_END = """p = Softmax<axis = -1>(l) vt = Transpose<perm = [0,2,3,1]>(v) pt = Transpose<perm = [0,1,3,2]>(p)
    o = MatMul(vt, pt) y = Transpose<perm = [0,3,1,2]>(o)"""
HEADS = ("float[B,T,2,4] x", "float[B,T,2,4] y")
MASK_OF_SUMS = """
    last = Constant<value = int64[1] {-1}>() m2 = Constant<value = int64[1] {-2}>() heads = Constant<value = int64[1] {1}>()
    h = Constant<value = int64[2] {2, 3}>() r = ReduceSum<keepdims = 0>(x, h)
    rows = Unsqueeze(r, last) cols = Unsqueeze(r, m2) g = Greater(rows, cols) f = Unsqueeze(g, heads)
"""


@pytest.mark.parametrize("end", [PLAIN_END, EINSUM_END])
@pytest.mark.parametrize("logits", ["a = MatMul(qt, kt) l = Mul(a, s)", "qs = Mul(s, qt) l = MatMul(qs, kt)"])
def test_attention(fused, logits, end):
    operators = fused(FuseAttention(), QKV + logits + end, *HEADS)
    assert operators == ["Mul", "Add", "Reshape", "Reshape", "Reshape", "Attention", "Reshape"]


@pytest.mark.parametrize(
    ("number", "is_given"),
    [("0.5", False), ("0.5000004", False), ("0.4999996", False), ("0.5000008", True), ("0.4999992", True), ("1", True)],
)
def test_the_scale_is_given_where_it_is_not_the_default(rewrite, number, is_given):
    body = f"{QKV.replace('0.35', number)} a = MatMul(qt, kt) l = Mul(a, s) {PLAIN_END}"
    text = f'<ir_version: 10, opset_import: ["" : 23]> g (float[B,T,2,4] x) => (float[B,T,2,4] y) {{ {body} }}'
    (found,) = rewrite(FuseAttention(), text, tolerance=2e-5)
    (attributes,) = re.findall(r"Attention\{(.*?)\}", found)
    numbers = [float(number) for number in attributes.split(", ")]
    assert numbers[:2] == [2, 2]
    assert numbers[2:] == pytest.approx([float(number)] if is_given else [], rel=1e-7)


@pytest.mark.parametrize(
    ("query", "key", "value", "is_merged"),
    [
        ("B,T,2,4", "B,T,2,4", "B,T,2,4", True),
        ("B,2,T,4", "B,T,2,4", "B,T,2,4", True),
        ("B,T,2,4", "B,2,T,4", "B,2,T,4", False),
        ("B,2,T,4", "B,2,T,4", "B,2,T,4", False),
        ("B,2,T,4", "B,T,2,4", "B,2,T,4", False),
        ("B,T,2,4", "B,T,2,4", "B,2,T,4", False),
    ],
)
def test_keys_and_values_weigh_more_than_queries(fused, query, key, value, is_merged):
    """The form that transposes fewer of them, then fewer queries, then the 3-D one."""
    order = {"B,T,2,4": "0,2,1,3", "B,2,T,4": "0,1,2,3"}
    body = f"""q = Transpose<perm = [{order[query]}]>(x) k0 = Transpose<perm = [{order[key]}]>(k) v0 = Transpose<perm = [{order[value]}]>(v)
        kt = Transpose<perm = [0,1,3,2]>(k0) l = MatMul(q, kt) p = Softmax<axis = -1>(l) o = MatMul(p, v0) y = Neg(o)"""
    operators = fused(FuseAttention(), body, f"float[{query}] x, float[{key}] k, float[{value}] v", "float[B,2,T,4] y")
    assert ("Reshape" in operators) is is_merged


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the numbers overflow
@pytest.mark.parametrize(
    ("op_type", "number", "is_scale"),
    [("Div", "2", True), ("Div", "inf", False), ("Div", "1e-39", False), ("Div", "0", False), ("Mul", "inf", False), ("Mul", "nan", False)],
)  # fmt: skip
@pytest.mark.parametrize("scaled", ["query", "value"])
def test_operands_times_a_number_that_is_no_scale(fused, op_type, number, is_scale, scaled):
    """The operator reads the product, which is computed as before."""
    end = f"t = {op_type}(qt, s) l = MatMul(t, kt) w = Neg(v)"
    if scaled == "value":
        end = f"l = MatMul(qt, kt) w = {op_type}(v, s)"
    body = QKV.replace("q = Mul(x, x)", "q = Abs(x)").replace("0.35", f"{float(number):.50f}")
    operators = fused(FuseAttention(), body + end + PLAIN_END.replace("(v)", "(w)"), *HEADS)
    assert ("Attention" in operators, op_type in operators) == (True, not is_scale or scaled == "value")


HEADS_FIRST = """s = Constant<value = float {0.35}>() q = Mul(x, x) v = Add(x, x)
    kt = Transpose<perm = [0,1,3,2]>(x) a = MatMul(q, kt) l = Mul(a, s) p = Softmax<axis = -1>(l)"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("y = MatMul(p, v)", ["Attention"]),
        ("o = MatMul(p, v) y = Neg(o)", ["Attention", "Neg"]),
        (
            """vt = Transpose<perm = [0,1,3,2]>(v) pt = Transpose<perm = [0,1,3,2]>(p) o = MatMul(vt, pt)
            y = Transpose<perm = [0,1,3,2]>(o)""",
            ["Attention"],
        ),
    ],
)
def test_attention_on_keys_and_values_with_heads_first(fused, end, expected):
    """Caches of [B, N, S, H] are not transposed."""
    operators = fused(FuseAttention(), HEADS_FIRST + end, "float[B,2,T,4] x", "float[B,2,T,4] y")
    assert operators == ["Mul", "Add", *expected]


def test_attention_of_one_query_whose_transposes_are_reshapes(fused):
    body = """shape = Constant<value = int64[4] {0, 2, 1, 4}>() column = Constant<value = int64[4] {0, 2, 5, 1}>()
        back = Constant<value = int64[4] {0, 1, 2, 4}>() one = Constant<value = int64[1] {1}>()
        first = Constant<value = int64[1] {0}>() s = Constant<value = float {0.35}>()
        x1 = Slice(x, first, one, one) q = Reshape(x1, shape) k = Transpose<perm = [0,2,3,1]>(x) a = MatMul(q, k)
        l = Mul(a, s) p = Softmax<axis = -1>(l) pt = Reshape(p, column) vt = Transpose<perm = [0,2,3,1]>(x)
        o = MatMul(vt, pt) y = Reshape(o, back)"""
    operators = fused(FuseAttention(), body, "float[B,5,2,4] x", "float[B,1,2,4] y")
    assert "Attention" in operators
    assert "MatMul" not in operators


@pytest.mark.parametrize("where", ["l = Where(f, b, low)", "n = Not(f) l = Where(n, low, b)"])
def test_attention_with_a_mask_that_hides_whole_rows(fused, where):
    """The query with the least sum sees no key."""
    body = QKV + MASK_OF_SUMS + "a = MatMul(qt, kt) b = Mul(a, s) " + where + " " + PLAIN_END
    operators = fused(FuseAttention(), body, *HEADS)
    assert "Attention" in operators
    assert "Softmax" not in operators


def test_attention_with_a_bias_of_keys(fused):
    bias = """
        axes = Constant<value = int64[2] {2, 3}>() last = Constant<value = int64[1] {-1}>()
        c = ReduceSum<keepdims = 0>(x, axes) middle = Constant<value = int64[2] {1, 2}>() b = Unsqueeze(c, middle)
    """
    body = QKV + bias + "a = MatMul(qt, kt) as = Mul(a, s) l = Add(as, b) " + PLAIN_END
    operators = fused(FuseAttention(), body, *HEADS)
    assert "Attention" in operators
    assert "Expand" in operators


GROUPED = """shape = Constant<value = int64[5] {0, 0, 2, 2, 4}>() rows = Constant<value = int64[4] {0, 2, -1, 4}>()
    apart = Constant<value = int64[5] {0, 2, 2, 5, 5}>() heads = Constant<value = int64[4] {0, 2, 2, 4}>()
    q5 = Reshape(x, shape) qt = Transpose<perm = [0,2,3,1,4]>(q5) q = Reshape(qt, rows)
    first = Constant<value = int64[1] {0}>() two = Constant<value = int64[1] {2}>() axis = Constant<value = int64[1] {2}>()
    k = Slice(x, first, two, axis)"""


def test_attention_of_grouped_heads(fused):
    """The query heads of a group are rows of one product, as `einsum` has them."""
    body = f"""{GROUPED} kt = Transpose<perm = [0,2,3,1]>(k) a = MatMul(q, kt) l = Reshape(a, apart) p = Softmax<axis = -1>(l)
        together = Constant<value = int64[4] {{0, 2, 10, 5}}>() pr = Reshape(p, together) kv = Transpose<perm = [0,2,1,3]>(k)
        o = MatMul(pr, kv) out = Constant<value = int64[5] {{0, 2, 2, 5, 4}}>() o5 = Reshape(o, out)
        ot = Transpose<perm = [0,3,1,2,4]>(o5) back = Constant<value = int64[4] {{0, 5, 4, 4}}>() y = Reshape(ot, back)"""
    operators = fused(FuseAttention(), body, "float[B,5,4,4] x", "float[B,5,4,4] y")
    assert operators == ["Slice", "Reshape", "Reshape", "Reshape", "Attention", "Reshape"]


@pytest.mark.parametrize("shape", ["2,2,1,5", "2,1,1,5", "2,1,5", "1,2,1,5", "2,1,5,5", "2,2,5,5", "5,5", "1,1,1,5"])
def test_attention_of_grouped_heads_with_a_bias_for_some_of_them(fused, shape):
    """A bias of key heads, or of the query heads within each, is repeated along the others."""
    numbers = np.random.default_rng(0).normal(size=[int(size) for size in shape.split(",")]).ravel().round(3)
    bias = f"b = Constant<value = float[{shape}] {{{', '.join(map(str, numbers))}}}>()"
    body = f"""{GROUPED} {bias} kt = Transpose<perm = [0,2,3,1]>(k) a = MatMul(q, kt) l = Reshape(a, apart) lb = Add(l, b)
        p = Softmax<axis = -1>(lb) together = Constant<value = int64[4] {{0, 2, 10, 5}}>() pr = Reshape(p, together)
        kv = Transpose<perm = [0,2,1,3]>(k) o = MatMul(pr, kv) out = Constant<value = int64[5] {{0, 2, 2, 5, 4}}>()
        o5 = Reshape(o, out) ot = Transpose<perm = [0,3,1,2,4]>(o5) back = Constant<value = int64[4] {{0, 5, 4, 4}}>() y = Reshape(ot, back)"""
    operators = fused(FuseAttention(), body, "float[B,5,4,4] x", "float[B,5,4,4] y")
    assert "Attention" in operators


ROWS = "float[3,7,4] x, float[4,5] k, float[5,4] v"
GROUPS = "float[B,2,3,7,4] x, float[B,2,1,4,5] k, float[B,2,1,5,4] v"
BATCHES = "float[2,N,7,4] x, float[2,N,4,5] k, float[2,N,5,4] v"


@pytest.mark.parametrize(
    ("inputs", "logits", "query"),
    [
        # Of two axes of the query alone, the sequence is the one along which a mask varies, else the order of axes tells.
        (f"{ROWS}, float[7,5] m", "Add(a, m)", "Attention{1.0}(Unsqueeze(x, [0])"),
        (f"{ROWS}, float[3,1,5] m", "Add(a, m)", "Attention{7, 1, 1.0}(Reshape(x, [1, 3, 28])"),
        (f"{ROWS}, float[3,7,5] m", "Add(a, m)", "Attention{7, 1, 1.0}(Reshape(x, [1, 3, 28])"),
        (ROWS, "Identity(a)", "Attention{7, 1, 1.0}(Reshape(x, [1, 3, 28])"),
        (f"{ROWS.replace('3,7,4', 'T,7,4')}, float[7,5] m", "Add(a, m)", "Attention{7, 1, 1.0}(Reshape(x, [1, -1, 28])"),
        (GROUPS, "Identity(a)", "Attention{1.0}(Reshape(x, [0, 6, 7, 4])"),
        (f"{GROUPS}, float[3,1,5] m", "Add(a, m)", "Attention{1.0}(Reshape(Transpose{[0, 1, 3, 2, 4]}(x), [0, 14, 3, 4])"),
        (BATCHES, "Identity(a)", "Attention{1, 1, 1.0}(Reshape(x, [-1, 7, 4])"),
        (f"{BATCHES}, float[N,7,5] m", "Add(a, m)", "Softmax"),  # which would have to be repeated for a batch of both
    ],
)  # fmt: skip
def test_the_sequence_among_axes_of_the_query(rewrite, inputs, logits, query):
    y = inputs.partition(" ")[0]
    text = f"""<ir_version: 10, opset_import: ["" : 23]> main ({inputs}) => ({y} y) {{
        a = MatMul(x, k) l = {logits} p = Softmax<axis = -1>(l) y = MatMul(p, v) }}"""
    (result,) = rewrite(FuseAttention(), text, tolerance=2e-5)
    assert query in result


def test_an_operand_whose_axes_a_view_mixes_is_attended_as_it_is_behind_the_view(fused):
    body = """mixed = Constant<value = int64[2] {4, 6}>() s = Constant<value = float {0.5}>() xs = Mul(x, s) q = Reshape(xs, mixed)
        l = MatMul(q, k) p = Softmax<axis = -1>(l) y = MatMul(p, v)"""
    operators = fused(FuseAttention(), body, "float[2,3,4] x, float[6,5] k, float[5,7] v", "float[4,7] y")
    assert "Attention" in operators


@pytest.mark.parametrize(("group", "rows"), [(2, 1), (3, 1), (4, 4)])
def test_rows_of_a_key_head_that_may_be_query_heads_are_heads_where_they_are_few(rewrite, group, rows):
    """[B, K, G, H] is K · G heads of one query as well as K heads of G queries."""
    text = f"""<ir_version: 10, opset_import: ["" : 23]>
        main (float[B,2,{group},4] q, float[B,2,5,4] k) => (float[B,2,{group},4] y) {{
            kt = Transpose<perm = [0,1,3,2]>(k) l = MatMul(q, kt) p = Softmax<axis = -1>(l) y = MatMul(p, k) }}"""
    (result,) = rewrite(FuseAttention(), text, tolerance=2e-5)
    own = "q" if rows > 1 else f"Reshape(q, [0, {2 * group}, 1, 4])"
    assert f"({own}, k, k)" in result


REPEATED = """axis = Constant<value = int64[1] {2}>() wide = Constant<value = int64[5] {1, 1, 3, 1, 1}>() u = Unsqueeze(x, axis)
    e = Expand(u, wide) heads = Constant<value = int64[4] {0, 6, 5, 4}>() k = Reshape(e, heads) q = Neg(k)"""


def test_attention_on_keys_and_values_that_are_repeated_for_the_query_heads(fused):
    body = (
        f"{REPEATED} kt = Transpose<perm = [0,1,3,2]>(k) l = MatMul(q, kt) p = Softmax<axis = -1>(l) y = MatMul(p, k)"
    )
    operators = fused(FuseAttention(), body, "float[B,2,5,4] x", "float[B,6,5,4] y")
    assert operators == ["Unsqueeze", "Expand", "Reshape", "Neg", "Attention"]  # what is repeated is the query's


@pytest.mark.parametrize(
    "softmax",
    [
        "p = Softmax<axis = 2>(l)",
        """axes = Constant<value = int64[1] {2}>()
    m = ReduceMax<keepdims = 1>(l, axes) d = Sub(l, m) e = Exp(d) t = ReduceSum<keepdims = 1>(e, axes) p = Div(e, t)""",
    ],
)
def test_attention_whose_softmax_goes_over_another_axis_than_the_last(fused, softmax):
    body = f"""{QKV} qc = Transpose<perm = [0,1,3,2]>(qt) k = Transpose<perm = [0,2,1,3]>(x) l = MatMul(k, qc) {softmax}
        vt = Transpose<perm = [0,2,3,1]>(v) o = MatMul(vt, p) y = Transpose<perm = [0,3,1,2]>(o)"""
    operators = fused(FuseAttention(), body, *HEADS)
    assert operators[-2:] == ["Attention", "Reshape"]


def test_attention_with_a_soft_cap(fused):
    cap = "c = Constant<value = float {2}>() b = Div(a, c) t = Tanh(b) l = Mul(t, c) "
    operators = fused(FuseAttention(), QKV + "a = MatMul(qt, kt) " + cap + PLAIN_END, *HEADS)
    assert "Attention" in operators
    assert "Tanh" not in operators


def test_attention_with_a_soft_cap_and_a_mask_where_the_target_masks_before_the_cap(fused, limited):
    mask = """h = Constant<value = int64[2] {2, 3}>() r = ReduceSum<keepdims = 0>(x, h)
        axes = Constant<value = int64[2] {1, 2}>() b = Unsqueeze(r, axes) """
    body = QKV + mask + "a = MatMul(qt, kt) t = Tanh(a) l = Add(t, b) " + PLAIN_END
    assert "Attention" in fused(FuseAttention(), body, *HEADS)
    target = limited(lost=[("Attention", "softcap_mask")])
    assert "Attention" not in fused(FuseAttention(target), body, *HEADS)


def test_attention_in_half_precision_is_computed_in_single(fused):
    body = """x16 = Cast<to = 10>(x) k = Transpose<perm = [0,2,3,1]>(x16) q = Transpose<perm = [0,2,1,3]>(x16) l = MatMul(q, k)
        l32 = Cast<to = 1>(l) p32 = Softmax<axis = -1>(l32) p = Cast<to = 10>(p32) o = MatMul(p, q)
        o32 = Cast<to = 1>(o) y = Transpose<perm = [0,2,1,3]>(o32)"""
    operators = fused(FuseAttention(), body, *HEADS, tolerance=5e-3)
    assert "Attention" in operators
    assert "MatMul" not in operators


def test_attention_whose_logits_are_read_stays(fused):
    end = PLAIN_END.replace("y = Transpose", "z = Transpose")
    more = " all = Constant<value = int64[2] {2,3}>() k = ReduceSum(l, all) kk = Transpose<perm = [0,2,1,3]>(k) y = Add(z, kk)"
    assert "Attention" not in fused(FuseAttention(), QKV + "l = MatMul(qt, kt) " + end + more, *HEADS)


def test_attention_with_a_negative_scale_stays(fused):
    body = QKV + "c = Constant<value = float {-0.5}>() a = MatMul(qt, kt) l = Mul(a, c) " + PLAIN_END
    assert "Attention" not in fused(FuseAttention(), body, *HEADS)


def test_attention_whose_weights_are_read_stays(fused):
    body = (
        QKV
        + "l = MatMul(qt, kt) "
        + PLAIN_END.replace("y = Transpose", "z = Transpose")
        + (
            " all = Constant<value = int64[2] {2,3}>() k = ReduceSum(p, all) kk = Transpose<perm = [0,2,1,3]>(k) y = Add(z, kk)"
        )
    )
    assert "Attention" not in fused(FuseAttention(), body, *HEADS)


def test_a_target_of_opset_18_gets_no_attention(fused, limited):
    body = QKV + "a = MatMul(qt, kt) l = Mul(a, s)" + PLAIN_END
    assert "Attention" not in fused(FuseAttention(limited(opset=18)), body, *HEADS)


def test_a_target_that_attends_in_half_precision_alone_gets_no_attention_in_single(fused, limited):
    body = QKV + "a = MatMul(qt, kt) l = Mul(a, s)" + PLAIN_END
    assert "Attention" not in fused(FuseAttention(limited(dtypes=[np.float16])), body, *HEADS)


LOGITS = "a = MatMul(qt, kt) l = Mul(a, s) "
READ_OF = "all = Constant<value = int64[2] {{2, 3}}>() r = ReduceSum({}, all) rt = Transpose<perm = [0,2,1,3]>(r) y = Add(z, rt)"
READ = PLAIN_END.replace("y = Transpose", "z = Transpose")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (LOGITS + READ + READ_OF.format("p"), "the probabilities have a second reader"),
        (LOGITS + READ + READ_OF.format("l"), "the logits have a second reader"),
        (LOGITS + READ + READ_OF.format("a"), "the logits have a second reader"),
        (
            "c = Constant<value = float {-0.5}>() a = MatMul(qt, kt) l = Mul(a, c) " + PLAIN_END,
            "the scale is not positive",
        ),
        (
            LOGITS + PLAIN_END.replace("axis = -1", "axis = 2"),
            "the softmax does not go over the axis that the values are summed over",
        ),
    ],
)
def test_reasons(declined, body, reason):
    assert declined(FuseAttention(), QKV + body, *HEADS) == [reason]


def test_scores_of_weights_that_are_read_again_are_a_routing(declined):
    body = (
        "w = Constant<value = float[4,2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}>() l = MatMul(x, w) "
        "v = Constant<value = float[2,2] {1.0, 2.0, 3.0, 4.0}>() p = Softmax<axis = -1>(l) z = MatMul(p, v) y = Add(z, l)"
    )
    assert declined(FuseAttention(), body, "float[5,4] x", "float[5,2] y") == []


BIAS = "b = Constant<value = float[1,1,5,5] {" + ", ".join(["0.5"] * 12 + ["0.25"] * 13) + "}>() "


LESS = "z = Constant<value = float {0.3}>() m = Less(b, z) "


def test_attention_whose_logits_are_scaled_behind_mask_and_bias(fused):
    logits = "a = MatMul(qt, kt) f = Add(a, b) g = Where(m, f, low) l = Mul(g, big) "
    operators = fused(FuseAttention(), QKV + BIAS + LESS + logits + PLAIN_END, "float[B,5,2,4] x", "float[B,5,2,4] y")
    assert "Attention" in operators
    assert "Softmax" not in operators


MASKED_PROBABILITIES = PLAIN_END.replace(
    "p = Softmax<axis = -1>(l)", "o0 = Constant<value = float {0}>() w = Softmax<axis = -1>(l)"
)
SELECTED, INVERTED, MULTIPLIED = (
    "p = Where(f, w, o0)",
    "n = Not(f) p = Where(n, o0, w)",
    "c = Cast<to = 1>(f) p = Mul(c, w)",
)
VIEWED = "d = Cast<to = 1>(g) c = Unsqueeze(d, heads) p = Mul(w, c)"


def _masked_twice(masking: str, number: str = "-1000000000.0", bias: str = "") -> str:
    logits = (
        f"hide = Constant<value = float {{{number}}}>() a = MatMul(qt, kt) as = Mul(a, s) {bias or 'b = Mul(as, one)'}"
    )
    return (
        f"{QKV}{MASK_OF_SUMS}{logits} l = Where(f, b, hide) {MASKED_PROBABILITIES.replace('vt =', masking + ' vt =')}"
    )


@pytest.mark.filterwarnings("ignore:invalid value")  # the softmax of rows of minus infinity
@pytest.mark.parametrize("number", ["-1000000000.0", "-inf", "-3.4e38"])
@pytest.mark.parametrize("masking", [SELECTED, INVERTED, MULTIPLIED, VIEWED])
def test_attention_whose_mask_is_applied_again_behind_the_softmax(fused, declined, masking, number):
    """The query with the least sum sees no key, and gets 0."""
    if masking in (MULTIPLIED, VIEWED) and number == "-inf":
        reasons = declined(FuseAttention(), _masked_twice(masking, number), *HEADS)
        assert reasons == ["the probabilities of a row without a key that is seen are NaN, times 0"]
        return
    operators = fused(FuseAttention(), _masked_twice(masking, number), *HEADS)
    assert "Attention" in operators
    assert "Softmax" not in operators


def test_attention_whose_mask_of_each_head_is_applied_again(fused):
    body = _masked_twice(SELECTED).replace(
        MASK_OF_SUMS, "zero = Constant<value = float {0}>() f0 = MatMul(qt, kt) f = Greater(f0, zero) "
    )
    assert "Attention" in fused(FuseAttention(), body, *HEADS)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            _masked_twice("n = Not(f) p = Where(n, w, o0)"),
            "the mask that is applied to the probabilities is not the one of the logits",
        ),
        (
            _masked_twice(f"{SELECTED.replace('p =', 'p1 =')} p = Where(f, p1, o0)"),
            "two masks are applied to the probabilities",
        ),
        (
            _masked_twice(SELECTED).replace("l = Where(f, b, hide)", "l = Mul(b, one)"),
            "a mask is applied to the probabilities, and none to the logits",
        ),
        (
            _masked_twice(SELECTED).replace(
                "l = Where(f, b, hide)", "n = Not(f) l1 = Where(n, b, hide) l = Where(f, l1, hide)"
            ),
            "one mask is applied to the probabilities, and several to the logits",
        ),
        (
            _masked_twice(SELECTED, bias="fz = Constant<value = float {0}>() z = Where(f, fz, low) b = Add(as, z)"),
            "a bias that hides keys is added to the logits, and a mask is applied to the probabilities",
        ),
        (
            _masked_twice(SELECTED, "-inf", bias="z = Unsqueeze(rows, heads) b = Add(as, z)"),
            "a bias that may be as large as the number of masked keys stands before a mask of the probabilities",
        ),
        (
            _masked_twice("p1 = Neg(w) p = Where(f, p1, o0)"),
            "Neg stands between the softmax and the product with the values",
        ),
    ],
)
def test_reasons_of_a_mask_behind_the_softmax(declined, body, reason):
    assert declined(FuseAttention(), body, *HEADS) == [reason]


@pytest.mark.parametrize(
    ("logits", "reason"),
    [
        ("a = MatMul(qt, kt) f = Add(a, b) l = Tanh(f) ", "the logits are capped after a mask or bias"),
        (
            "n = Constant<value = float {-2}>() a = MatMul(qt, kt) f = Add(a, b) l = Mul(f, n) ",
            "the logits are scaled by a number that is not positive, after a mask or bias",
        ),
        (
            f"{LESS}t = Constant<value = float {{0.01}}>() a = MatMul(qt, kt) f = Where(m, a, low) l = Mul(f, t) ",
            "masked logits are scaled to -1e+07",
        ),
        (
            f"{LESS}t = Constant<value = float {{-100000}}>() a = MatMul(qt, kt) l = Where(m, a, t) ",
            "masked logits become -100000, which leaves a key some weight beside large negative logits",
        ),
        ("a = MatMul(qt, kt) l = Mul(a, b) ", "the logits are multiplied by a tensor, not by a number"),
        ("a = MatMul(qt, kt) l = Sigmoid(a) ", "Sigmoid stands between the product of query and key and the softmax"),
        ("a = MatMul(qt, kt) f = Tanh(a) l = Tanh(f) ", "the logits are capped twice"),
        (
            "n = Constant<value = float {-2}>() a = MatMul(qt, kt) f = Tanh(a) l = Mul(f, n) ",
            "the soft cap is negative",
        ),
    ],
)
def test_reasons_in_the_logits(declined, logits, reason):
    signature = ("float[B,5,2,4] x", "float[B,5,2,4] y")
    assert declined(FuseAttention(), QKV + BIAS + logits + PLAIN_END, *signature) == [reason]


GEMM = "l = Gemm<transB = 1>(x, k) p = Softmax<axis = -1>(l) y = Gemm(p, v) "


@pytest.mark.parametrize(
    ("body", "inputs", "output", "reason"),
    [
        (
            GEMM.replace("(x, k)", "(x, k, c)"),
            "float[3,4] x, float[5,4] k, float[5,4] v, float[5] c",
            "float[3,4] y",
            "a product has a summand",
        ),
        (
            GEMM.replace("Gemm(p", "Gemm<alpha = 2.0>(p"),
            "float[3,4] x, float[5,4] k, float[5,4] v",
            "float[3,4] y",
            "the last product has a factor",
        ),
        (
            "l = MatMul(x, k) p = Softmax<axis = -1>(l) y = MatMul(p, v)",
            "float[3,4] x, float[4,1] k, float[1,4] v",
            "float[3,4] y",
            "there is only one key",
        ),
        (
            "l = MatMul(x, k) f = Add(l, m) p = Softmax<axis = -1>(f) y = MatMul(p, v)",
            "float[1,4] x, float[4,5] k, float[3,5] m, float[5,4] v",
            "float[3,4] y",
            "the logits are broadcast to the shape of a mask or bias",
        ),
        (
            "l = MatMul(x, k) f = Add(l, m) p = Softmax<axis = -1>(f) y = MatMul(p, v)",
            "float[3,4] x, float[4,5] k, float[2,3,5] m, float[5,4] v",
            "float[2,3,4] y",
            "the logits are broadcast to the shape of a mask or bias",
        ),
        (
            "l = MatMul(x, k) f = Add(l, m) p = Softmax<axis = -1>(f) y = MatMul(p, v)",
            "float[3,4] x, float[4,S] k, float[3,R] m, float[S,4] v",
            "float[3,4] y",
            "the mask has another size than the logits",
        ),
        (
            "l = MatMul(x, k) p = Softmax<axis = -1>(l) y = MatMul(p, v)",
            "float[3,H] x, float[H,5] k, float[5,4] v",
            "float[3,4] y",
            "the number of heads or of features is not known",
        ),
        (
            "l = MatMul(x, k) p = Softmax<axis = -1>(l) y = MatMul(p, v)",
            "float[3,4] x, float[2,4,5] k, float[5,4] v",
            "float[2,3,4] y",
            "there are axes that are neither batch, heads, sequence nor features",
        ),
        (
            "l = MatMul(x, k) t = Transpose<perm = [1, 2, 0]>(l) p = Softmax<axis = -1>(t) y = MatMul(p, v)",
            "float[5,1,4] x, float[5,4,1] k, float[5,4] v",
            "float[1,1,4] y",
            "the axis of the softmax is not one of key and value alone",
        ),
        (
            "l = MatMul(x, k) p = Softmax<axis = -1>(l) y = MatMul(p, v)",
            "float[0,4] x, float[4,5] k, float[5,4] v",
            "float[0,4] y",
            "a shape is not known, or a tensor is empty",
        ),
        (
            "l = MatMul(x, k) p = Softmax<axis = -1>(l) y = MatMul(p, v)",
            "float[3,4] x, float[4,S] k, float[R,4] v",
            "float[3,4] y",
            "axes of different sizes meet",
        ),
        (
            """shape = Constant<value = int64[2] {2, 9}>() l = MatMul(x, k) r = Reshape(l, shape) p = Softmax<axis = -1>(r)
            y = MatMul(p, v)""",
            "float[3,4] x, float[4,6] k, float[9,4] v",
            "float[2,4] y",
            "a reshape mixes axes",
        ),
        (
            "l = MatMul(x, k) p = Softmax<axis = -1>(l) y = MatMul(p, v)",
            "double[3,4] x, double[4,5] k, double[5,4] v",
            "double[3,4] y",
            "it would be computed in float32, not in float64",
        ),
    ],
)
def test_reasons_of_plain_products(declined, body, inputs, output, reason):
    assert declined(FuseAttention(), body, inputs, output) == [reason]


def test_the_sizes_of_several_symbolic_axes_are_read_from_an_operand(fused):
    """Two axes of queries are one of the operator, and the result has both again."""
    body = "l = MatMul(x, k) p = Softmax<axis = -1>(l) y = MatMul(p, v)"
    operators = fused(FuseAttention(), body, "float[T,U,4] x, float[4,5] k, float[5,4] v", "float[T,U,4] y")
    assert "Attention" in operators
    assert operators[-4:] == ["Shape", "Shape", "Concat", "Reshape"]


def test_logits_from_outside_of_a_branch_are_declined(declined):
    body = """l = MatMul(x, k) y = If<
        then_branch = one () => (float[3,4] t) { p = Softmax<axis = -1>(l) t = MatMul(p, v) },
        else_branch = other () => (float[3,4] e) { e = MatMul(x, v4) }>(c)"""
    inputs = "float[3,4] x, float[4,5] k, float[5,4] v, float[4,4] v4, bool c"
    reasons = declined(FuseAttention(), body, inputs, "float[3,4] y")
    assert reasons == ["the logits are computed outside of the loop or branch"]


def test_a_cap_and_a_mask_are_declined_where_the_target_masks_before_the_cap(declined, limited):
    body = QKV + BIAS + "a = MatMul(qt, kt) t = Tanh(a) l = Add(t, b) " + PLAIN_END
    target = limited(lost=[("Attention", "softcap_mask")])
    reasons = declined(FuseAttention(target), body, "float[B,5,2,4] x", "float[B,5,2,4] y")
    assert reasons == ["the target gives masked keys a weight where the logits are capped"]


@pytest.mark.parametrize("body", ["y = Softmax<axis = -1>(x)", "p = Softmax<axis = -1>(x) y = MatMul(p, w)"])
def test_without_two_products_there_is_no_reason(declined, body):
    assert declined(FuseAttention(), body, "float[B,5,8] x, float[8,8] w") == []
