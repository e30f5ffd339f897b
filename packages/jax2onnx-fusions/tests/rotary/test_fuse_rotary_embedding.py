"""Rotary embeddings in all spellings."""

from __future__ import annotations

import re

import numpy as np
import pytest
from jax2onnx_fusions.rotary.fuse_rotary_embedding import FuseRotaryEmbedding

TOKENS = ("float[B,T,2,4] x", "float[B,T,2,4] y")
CONSTANTS = """
    nought = Constant<value = int64 {0}>() first = Constant<value = int64[1] {0}>() two = Constant<value = int64[1] {2}>()
    four = Constant<value = int64[1] {4}>() last = Constant<value = int64[1] {3}>() heads = Constant<value = int64[1] {2}>()
    h = Constant<value = int64[2] {2, 2}>() one = Constant<value = int64[1] {1}>() step = Constant<value = int64[1] {2}>()
"""
# Angles that depend on x, of [1, T, 2]: c and s vary with tokens and features, not with heads.
ROTATION = """
    x0 = ReduceSum(x, first) a1 = Gather<axis = 2>(x0, nought) a = Slice(a1, first, two, two)
    c3 = Cos(a) s3 = Sin(a) c = Unsqueeze(c3, heads) s = Unsqueeze(s3, heads)
"""
ANGLES = CONSTANTS + ROTATION
PRODUCTS = "p = Mul(x1, c) q = Mul(x2, s) u = Sub(p, q) r = Mul(c, x2) t = Mul(x1, s) v = Add(r, t)"
SPLIT = "x1, x2 = Split<axis = 3>(x, h)"
SLICES = "x1 = Slice(x, first, two, last) x2 = Slice(x, two, four, last)"
ALTERNATE = "x1 = Slice(x, first, four, last, step) x2 = Slice(x, one, four, last, step)"
PAIRS = """pairs = Constant<value = int64[5] {0, 0, 2, 2, 2}>() i1 = Constant<value = int64 {1}>()
    x5 = Reshape(x, pairs) x1 = Gather<axis = 4>(x5, nought) x2 = Gather<axis = 4>(x5, i1)"""
STACK = """end = Constant<value = int64[1] {4}>() flat = Constant<value = int64[4] {0, 0, 2, 4}>()
    u5 = Unsqueeze(u, end) v5 = Unsqueeze(v, end) w = Concat<axis = 4>(u5, v5) y = Reshape(w, flat)"""
SIDE_BY_SIDE = "y = Concat<axis = 3>(u, v)"


SQUEEZED = """pairs = Constant<value = int64[5] {0, 0, 2, 2, 2}>() inner = Constant<value = int64[1] {4}>()
    x5 = Reshape(x, pairs) e = Slice(x5, first, one, inner) o = Slice(x5, one, two, inner)
    x1 = Squeeze(e, inner) x2 = Squeeze(o, inner)"""
MOVED = """pairs = Constant<value = int64[5] {0, 0, 2, 2, 2}>() i1 = Constant<value = int64 {1}>()
    x5 = Reshape(x, pairs) m = Transpose<perm = [4, 0, 1, 2, 3]>(x5) x1 = Gather<axis = 0>(m, nought) x2 = Gather<axis = 0>(m, i1)"""
MOVED_HALVES = MOVED.replace("[4, 0, 1, 2, 3]", "[3, 0, 1, 2, 4]")
MOVED_BACK = """flat = Constant<value = int64[4] {0, 0, 2, 4}>() u5 = Unsqueeze(u, first) v5 = Unsqueeze(v, first)
    w0 = Concat<axis = 0>(u5, v5) w = Transpose<perm = [1, 2, 3, 4, 0]>(w0) y = Reshape(w, flat)"""


@pytest.mark.parametrize(
    ("parts", "end"),
    [
        (SPLIT, SIDE_BY_SIDE), (SLICES, SIDE_BY_SIDE), (ALTERNATE, STACK), (PAIRS, STACK), (SQUEEZED, STACK), (MOVED, STACK),
        (MOVED, MOVED_BACK), (MOVED_HALVES, SIDE_BY_SIDE),
    ],
)  # fmt: skip
def test_products_of_pairs(fused, parts, end):
    operators = fused(FuseRotaryEmbedding(), ANGLES + parts + PRODUCTS + end, *TOKENS)
    assert "RotaryEmbedding" in operators
    assert "Mul" not in operators


LOOKED_UP = """
    ids = Constant<value = int64[2] {1, 0}>() both = Constant<value = int64[2] {4, 4}>() turns = Constant<value = int64[1] {1}>()
    table = Constant<value = float[2,8] {0.1, 0.2, 0.1, 0.2, 0.3, 0.4, 0.3, LAST, 0.5, 0.6, 0.5, 0.6, 0.7, 0.8, 0.7, 0.8}>()
    rows = Gather(table, ids) sines, cosines = Split<axis = 1>(rows, both) cc = Unsqueeze(cosines, turns) ss = Unsqueeze(sines, turns)
    n = Neg(x2) r = Concat<axis = 3>(n, x1) p = Mul(x, cc) q = Mul(ss, r) y = Add(p, q)
"""


@pytest.mark.parametrize(("last", "is_formed"), [("0.4", True), ("0.5", False)])
def test_sines_and_cosines_that_are_looked_up_in_one_table(fused, last, is_formed):
    tokens = ("float[B,2,2,4] x", "float[B,2,2,4] y")
    operators = fused(FuseRotaryEmbedding(), CONSTANTS + SLICES + LOOKED_UP.replace("LAST", last), *tokens)
    assert ("RotaryEmbedding" in operators) is is_formed


def test_no_rotary_embedding_before_opset_23(fused):
    assert "RotaryEmbedding" not in fused(
        FuseRotaryEmbedding(), ANGLES + SPLIT + PRODUCTS + SIDE_BY_SIDE, *TOKENS, opset=22
    )


TURNED = """n = Neg(x2) end = Constant<value = int64[1] {4}>() flat = Constant<value = int64[4] {0, 0, 2, 4}>()
    n5 = Unsqueeze(n, end) e5 = Unsqueeze(x1, end) w = Concat<axis = 4>(n5, e5) r = Reshape(w, flat) """
PAIRED = "p = Mul(x, cc) q = Mul(r, cc) y = Add(p, q)"


@pytest.mark.parametrize("parts", [ALTERNATE, PAIRS])
@pytest.mark.parametrize("repeat", ["stacked", "expanded", "angles"])
def test_neighbours_with_angles_that_are_repeated(fused, parts, repeat):
    body = {
        "stacked": "c5 = Unsqueeze(c, end) s5 = Unsqueeze(s, end) cw = Concat<axis = 4>(c5, c5) sw = Concat<axis = 4>(s5, s5)",
        "expanded": """wide = Constant<value = int64[5] {1, 1, 1, 1, 2}>() c5 = Unsqueeze(c, end) s5 = Unsqueeze(s, end)
            cw = Expand(c5, wide) sw = Expand(s5, wide)""",
        "angles": "a4 = Unsqueeze(a, heads) a5 = Unsqueeze(a4, end) aw = Concat<axis = 4>(a5, a5)",
    }[repeat]
    one = " both = Constant<value = int64[4] {0, 0, 1, 4}>() cc = Reshape(cw, both) ss = Reshape(sw, both) "
    if repeat == "angles":
        one = " both = Constant<value = int64[4] {0, 0, 1, 4}>() ar = Reshape(aw, both) cc = Cos(ar) ss = Sin(ar) "
    end = "p = Mul(x, cc) q = Mul(ss, r) y = Add(p, q)"
    operators = fused(FuseRotaryEmbedding(), ANGLES + parts + TURNED + body + one + end, *TOKENS)
    assert "RotaryEmbedding" in operators
    assert "Neg" not in operators


@pytest.mark.parametrize("order", ["u = Add(p, q)", "u = Add(q, p)"])
@pytest.mark.parametrize("minus", ["q = Mul(n, s)", "q1 = Mul(x2, s) q = Neg(q1)"])
def test_a_difference_that_is_a_sum(fused, order, minus):
    products = f"n = Neg(x2) p = Mul(x1, c) {minus} {order} r = Mul(c, x2) t = Mul(x1, s) v = Add(r, t) "
    operators = fused(FuseRotaryEmbedding(), ANGLES + SPLIT + products + SIDE_BY_SIDE, *TOKENS)
    assert "RotaryEmbedding" in operators
    assert "Mul" not in operators


@pytest.mark.parametrize(("size", "heads"), [("B,T,4", ""), ("T,2,4", "heads")])
def test_one_head_or_one_example(fused, size, heads):
    angles = f"""all = Constant<value = int64[1] {{0}}>() h = Constant<value = int64[2] {{2, 2}}>()
        first = Constant<value = int64[1] {{1}}>()
        x0 = ReduceSum(x, {'first' if heads else 'all'}) c0, s0 = Split<axis = 2>(x0, h) c = Cos(c0) s = Sin(c0)
        x1, x2 = Split<axis = 2>(x, h) """
    body = angles + PRODUCTS + " y = Concat<axis = 2>(u, v)"
    operators = fused(FuseRotaryEmbedding(), body, f"float[{size}] x", f"float[{size}] y")
    assert "RotaryEmbedding" in operators
    assert "Mul" not in operators


@pytest.mark.parametrize(
    ("x", "angles", "y", "is_formed"),
    [
        ("B,T,2,4", "B,T,1,2", "B,T,2,4", True),
        ("B,T,2,4", "1,T,1,2", "B,T,2,4", True),
        ("B,T,2,4", "T,1,2", "B,T,2,4", True),
        ("B,2,T,4", "B,1,T,2", "B,2,T,4", True),
        ("B,2,T,4", "T,2", "B,2,T,4", True),
        ("B,2,T,4", "1,T,2", "B,2,T,4", True),
        ("B,T,2,4", "B,T,2,2", "B,T,2,4", False),
        ("B,5,2,4", "B,1,1,2", "B,5,2,4", False),
        ("B,5,2,4", "2", "B,5,2,4", False),
        ("B,T,N,4", "B,T,1,2", "B,T,N,4", False),
        ("1,5,2,4", "3,5,1,2", "3,5,2,4", False),
        ("1,1,5,2,4", "5,1,2", "1,1,5,2,4", False),
        ("B,T,4", "B,T,2", "B,T,4", True),
        ("B,T,4", "T,2", "B,T,4", True),
        ("5,2,4", "5,1,2", "5,2,4", True),
        ("5,2,4", "1,5,1,2", "1,5,2,4", False),
        ("5,1,4", "1,5,1,2", "1,5,1,4", False),
        ("B,T,4", "1,T,2", "B,T,4", True),
        ("B,5,4", "B,1,2", "B,5,4", True),  # five heads of a batch of one
        ("1,5,4", "3,5,2", "3,5,4", False),
        ("B,5,4", "2", "B,5,4", False),
    ],
)
def test_angles_by_batch_sequence_and_heads(fused, x, angles, y, is_formed):
    body = f"""h = Constant<value = int64[2] {{2, 2}}>() c = Cos(a) s = Sin(a) x1, x2 = Split<axis = {x.count(",")}>(x, h) {PRODUCTS}
        y = Concat<axis = {y.count(",")}>(u, v)"""
    operators = fused(FuseRotaryEmbedding(), body, f"float[{x}] x, float[{angles}] a", f"float[{y}] y")
    assert ("RotaryEmbedding" in operators) is is_formed


@pytest.mark.parametrize("where", ["angles", "cosines", "behind an axis"])
def test_a_rotated_half_with_doubled_angles(fused, where):
    double = {
        "angles": "aa = Concat<axis = 2>(a, a) cc3 = Cos(aa) ss3 = Sin(aa) cc = Unsqueeze(cc3, heads) ss = Unsqueeze(ss3, heads)",
        "cosines": "cc3 = Concat<axis = 2>(c3, c3) ss3 = Concat<axis = 2>(s3, s3) cc = Unsqueeze(cc3, heads) "
        "ss = Unsqueeze(ss3, heads)",
        "behind an axis": "cc = Concat<axis = 3>(c, c) ss = Concat<axis = 3>(s, s)",
    }[where]
    rest = "n = Neg(x2) r = Concat<axis = 3>(n, x1) p = Mul(x, cc) q = Mul(ss, r) y = Add(p, q)"
    operators = fused(FuseRotaryEmbedding(), ANGLES + SLICES + double + rest, *TOKENS)
    assert "RotaryEmbedding" in operators
    assert "Neg" not in operators


JOINED = "w = Concat<axis = 3>(x2, x1)"
BACKWARDS = """down = Constant<value = int64[1] {-1}>() far = Constant<value = int64[1] {-9}>() flat = Constant<value = int64[4] {0, 0, 2, 4}>()
    halves = Constant<value = int64[5] {0, 0, 2, 2, 2}>() x5 = Reshape(x, halves) w5 = Slice(x5, down, far, last, down)"""
SIGNS = "signs = Constant<value = float[4] {-1, -1, 1, 1}>()"
COLUMN = "signs = Constant<value = float[2,1] {-1, 1}>()"
MASK = "mask = Constant<value = bool[4] {1, 1, 0, 0}>() n = Neg(w)"
DOUBLED = " cc = Concat<axis = 3>(c, c) ss = Concat<axis = 3>(s, s) p = Mul(x, cc) "
SIGNED = {
    "rolled": JOINED + SIGNS + DOUBLED + "r = Mul(w, signs) q = Mul(r, ss) y = Add(p, q)",
    "signs of the sines": JOINED + SIGNS + DOUBLED + "r = Mul(signs, ss) q = Mul(w, r) y = Add(p, q)",
    "signs at the end": JOINED + SIGNS + DOUBLED + "r = Mul(w, ss) q = Mul(r, signs) y = Add(q, p)",
    "a mask": JOINED + MASK + DOUBLED + "r = Where(mask, n, w) q = Mul(r, ss) y = Add(p, q)",
    "backwards": BACKWARDS + SIGNS + DOUBLED + "w = Reshape(w5, flat) r = Mul(w, signs) q = Mul(r, ss) y = Add(p, q)",
    "signs of pairs": BACKWARDS
    + COLUMN
    + DOUBLED
    + "r5 = Mul(w5, signs) r = Reshape(r5, flat) q = Mul(r, ss) y = Add(p, q)",
}


@pytest.mark.parametrize("form", SIGNED)
def test_swapped_halves_with_signs(fused, form):
    operators = fused(FuseRotaryEmbedding(), ANGLES + SLICES + SIGNED[form], *TOKENS)
    assert "RotaryEmbedding" in operators
    assert "Mul" not in operators


@pytest.mark.parametrize(
    ("form", "change"),
    [
        ("rolled", ("{-1, -1, 1, 1}", "{1, 1, -1, -1}")),  # the rotation backwards
        ("signs of the sines", ("{-1, -1, 1, 1}", "{-1, 1, -1, 1}")),
        ("rolled", ("(x2, x1)", "(x1, x2)")),
        ("a mask", ("{1, 1, 0, 0}", "{1, 0, 1, 0}")),
        ("a mask", ("Neg(w)", "Neg(x)")),
        ("backwards", ("Slice(x5, down, far, last, down)", "Slice(x5, down, far, four, down)")),
        ("signs of pairs", ("float[2,1] {-1, 1}", "float[2] {-1, 1}")),
        ("rolled", ("float[4] {-1, -1, 1, 1}", "float {-1}")),  # one sign for all features
        ("rolled", ("float[4] {-1, -1, 1, 1}", "float[2,4] {-1, -1, 1, 1, -1, -1, 1, 1}")),  # the signs of two heads
        ("rolled", ("{-1, -1, 1, 1}", "{-1, -1, 1, 2}")),
    ],
)
def test_swapped_halves_with_other_signs_stay(fused, form, change):
    assert change[0] in SIGNED[form]
    operators = fused(FuseRotaryEmbedding(), ANGLES + SLICES + SIGNED[form].replace(*change), *TOKENS)
    assert "RotaryEmbedding" not in operators


ROWS = "down = Constant<value = int64[1] {-1}>() far = Constant<value = int64[1] {-9}>()"
TURNED_HALVES = "n = Neg(x2) w = Concat<axis = 3>(n, x1)"


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("parts", "end"),
    [
        (
            SLICES.replace("x1 =", "x3 =").replace("x2 =", "x4 ="),
            f"x1 = MOVE(x3) x2 = MOVE(x4) {PRODUCTS} {SIDE_BY_SIDE}",
        ),
        (SLICES, f"{TURNED_HALVES}{DOUBLED} r = MOVE(w) q = Mul(r, ss) y = Add(p, q)"),
    ],
    ids=["halves", "turned"],
)
def test_rows_of_features_in_another_order_stay(fused, parts, end, axis):
    """Backwards along the batch, the sequence, the heads or the features."""
    numbers = f"axis = Constant<value = int64[1] {{{axis}}}>()"
    end = re.sub(r"MOVE\((.*?)\)", r"Slice(\1, down, far, axis, down)", end)
    operators = fused(
        FuseRotaryEmbedding(), ANGLES + ROWS + numbers + parts + end, "float[3,3,2,4] x", "float[3,3,2,4] y"
    )
    assert "RotaryEmbedding" not in operators


@pytest.mark.parametrize(("start", "is_formed"), [("0, 0", True), ("-1, 0", False)])
def test_rows_of_a_table_of_angles_in_another_order(fused, start, is_formed):
    step, end = ("1, 1", "9, 4") if is_formed else ("-1, 1", "-9, 4")
    rows = f"""axes = Constant<value = int64[2] {{0, 1}}>() begin = Constant<value = int64[2] {{{start}}}>()
        stop = Constant<value = int64[2] {{{end}}}>() steps = Constant<value = int64[2] {{{step}}}>()
        sines = Slice(rows, begin, stop, axes, steps) cosines = Slice(rows, begin, stop, axes, steps)"""
    body = LOOKED_UP.replace("LAST", "0.4").replace("sines, cosines = Split<axis = 1>(rows, both)", rows)
    tokens = ("float[B,2,2,4] x", "float[B,2,2,4] y")
    operators = fused(FuseRotaryEmbedding(), CONSTANTS + SLICES + body, *tokens)
    assert ("RotaryEmbedding" in operators) is is_formed


@pytest.mark.parametrize(("repeats", "is_formed"), [("1, 1, 1, 2", True), ("1, 1, 2, 1", False)])
def test_angles_that_are_repeated(fused, repeats, is_formed):
    body = f"""times = Constant<value = int64[4] {{{repeats}}}>() d = Concat<axis = 3>(s, c) cc = Tile(c, times) ss = Tile(s, times)
        n = Neg(x2) r = Concat<axis = 3>(n, x1) p = Mul(x, cc) q = Mul(ss, r) y = Add(p, q)"""
    if not is_formed:
        body = body.replace("Tile(c,", "Tile(d,").replace("Tile(s,", "Tile(d,")
    operators = fused(FuseRotaryEmbedding(), ANGLES + SLICES + body, "float[B,3,2,4] x", "float[B,3,2,4] y")
    assert ("RotaryEmbedding" in operators) is is_formed


@pytest.mark.parametrize(
    ("places", "is_formed"),
    [("0, 1, 0, 1", True), ("1, 0, 1, 0", False), ("0, 0, 1, 1", False), ("0, 1, 1, 0", False), ("0, 0, 0, 0", False)],
)
def test_angles_that_are_gathered(fused, places, is_formed):
    body = f"""places = Constant<value = int64[4] {{{places}}}>() cc = Gather<axis = 3>(c, places) ss = Gather<axis = 3>(s, places)
        n = Neg(x2) r = Concat<axis = 3>(n, x1) p = Mul(x, cc) q = Mul(ss, r) y = Add(p, q)"""
    assert ("RotaryEmbedding" in fused(FuseRotaryEmbedding(), ANGLES + SLICES + body, *TOKENS)) is is_formed


def test_doubled_angles_in_a_table(fused):
    """One token of each of three positions, rows of [cos a, cos b, cos a, cos b]."""
    body = """cc = Constant<value = float[1,3,1,4] {0.5, 0.25, 0.5, 0.25, 0.1, 0.2, 0.1, 0.2, 0.3, 0.4, 0.3, 0.4}>()
        n = Neg(x2) r = Concat<axis = 3>(n, x1) p = Mul(x, cc) q = Mul(r, cc) y = Add(q, p)"""
    signature = ("float[B,3,2,4] x", "float[B,3,2,4] y")
    operators = fused(FuseRotaryEmbedding(), CONSTANTS + SLICES + body, *signature)
    assert "RotaryEmbedding" in operators
    other = body.replace("0.3, 0.4}", "0.3, 0.5}")
    operators = fused(FuseRotaryEmbedding(), CONSTANTS + SLICES + other, *signature)
    assert "RotaryEmbedding" not in operators


def test_heads_first_is_the_4d_form(fused):
    angles = ANGLES.replace("a1 = Gather<axis = 2>", "a1 = Gather<axis = 1>")
    angles = angles.replace("heads = Constant<value = int64[1] {2}>()", "heads = Constant<value = int64[1] {1}>()")
    operators = fused(
        FuseRotaryEmbedding(), angles + SPLIT + PRODUCTS + SIDE_BY_SIDE, "float[B,2,T,4] x", "float[B,2,T,4] y"
    )
    assert operators.count("RotaryEmbedding") == 1
    assert "Transpose" not in operators


@pytest.mark.parametrize(
    "change",
    [
        ("u = Sub(p, q)", "u = Sub(q, p)"),  # the rotation backwards
        ("t = Mul(x1, s)", "t = Mul(x1, c)"),
        ("y = Concat<axis = 3>(u, v)", "y = Concat<axis = 3>(v, u)"),
        (
            "c = Unsqueeze(c3, heads)",
            "cu = Unsqueeze(c3, heads) cx = Slice(x, first, two, last) c = Add(cu, cx)",
        ),  # angles that vary with the heads
    ],
)
def test_something_like_a_rotation_stays(fused, change):
    body = ANGLES + SPLIT + PRODUCTS + SIDE_BY_SIDE
    assert change[0] in body
    operators = fused(FuseRotaryEmbedding(), body.replace(*change), *TOKENS)
    assert "RotaryEmbedding" not in operators


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_rotation_in_half_precision_keeps_its_roundings(declined, dtype):
    body = ANGLES + SPLIT + PRODUCTS + SIDE_BY_SIDE
    reasons = declined(FuseRotaryEmbedding(), body, f"{dtype}[B,T,2,4] x", f"{dtype}[B,T,2,4] y")
    assert reasons == ["in half precision, the formula rounds the products, and the operator may not"]


def test_a_target_of_opset_18_gets_no_rotary_embedding(fused, limited):
    body = ANGLES + SPLIT + PRODUCTS + SIDE_BY_SIDE
    assert "RotaryEmbedding" not in fused(FuseRotaryEmbedding(limited(opset=18)), body, *TOKENS)


def test_a_target_that_rotates_in_half_precision_alone_gets_no_rotary_embedding_in_single(fused, limited):
    body = ANGLES + SPLIT + PRODUCTS + SIDE_BY_SIDE
    target = limited(dtypes=[np.float16])
    assert "RotaryEmbedding" not in fused(FuseRotaryEmbedding(target), body, *TOKENS)


WHOLE = ANGLES + SPLIT + PRODUCTS + SIDE_BY_SIDE
BY_HEADS = (
    "c = Unsqueeze(c3, heads)",
    "cu = Unsqueeze(c3, heads) cx = Slice(x, first, two, last) c = Add(cu, cx)",
)
THREE_AXES = """c = Constant<value = float[2] {0.5, 0.25}>() h = Constant<value = int64[2] {2, 2}>()
    x1, x2 = Split<axis = 2>(x, h) p = Mul(x1, c) q = Mul(x2, c) u = Sub(p, q) r = Mul(c, x2) t = Mul(x1, c)
    v = Add(r, t) y = Concat<axis = 2>(u, v)"""
TABLE = """cc = Constant<value = float[4] {0.5, 0.25, 0.5, 0.125}>() n = Neg(x2) r = Concat<axis = 3>(n, x1)
    p = Mul(x, cc) q = Mul(r, cc) y = Add(q, p)"""


@pytest.mark.parametrize(
    ("body", "signature", "reason"),
    [
        (
            ANGLES + ALTERNATE + PRODUCTS + SIDE_BY_SIDE,
            TOKENS,
            "the rotated features are put together in another order than they were taken apart",
        ),
        (
            WHOLE.replace(*BY_HEADS),
            TOKENS,
            "the cosines and sines vary along the heads, or the number of heads is not known",
        ),
        (
            WHOLE,
            ("float[B,T,N,4] x", "float[B,T,N,4] y"),
            "the cosines and sines vary along the heads, or the number of heads is not known",
        ),
        (
            THREE_AXES,
            ("float[B,T,4] x", "float[B,T,4] y"),
            "the cosines and sines vary along the heads, or the number of heads is not known",
        ),
        (
            THREE_AXES.replace("axis = 2", "axis = 1"),
            ("float[T,4] x", "float[T,4] y"),
            "the rotated tensor has 2 axes, not batch, sequence, heads and features",
        ),
        (
            THREE_AXES.replace("float[2] {0.5, 0.25}", "float[1,5,1,2] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}").replace(
                "y = Concat<axis = 2>", "y = Concat<axis = 3>"
            ),
            ("float[5,2,4] x", "float[1,5,2,4] y"),
            "the cosines and sines have more axes than the rotated tensor",
        ),
        (
            CONSTANTS + ALTERNATE + TURNED + TABLE.partition("n = ")[0] + PAIRED,
            ("float[B,1,2,4] x", "float[B,1,2,4] y"),
            "the neighbouring elements of the cosines or sines are not known to be equal",
        ),
        (
            WHOLE.replace("t = Mul(x1, s)", "t = Mul(x2, s)"),
            TOKENS,
            "what the sines multiply is not known to be the other element of each pair that the cosines multiply",
        ),
        (
            CONSTANTS + SLICES + TABLE,
            ("float[B,1,2,4] x", "float[B,1,2,4] y"),
            "the two halves of the cosines or sines are not known to be equal",
        ),
    ],
)
def test_reasons(declined, body, signature, reason):
    assert declined(FuseRotaryEmbedding(), body, *signature) == [reason]


def test_a_target_without_the_element_type_is_a_reason(declined, limited):
    reasons = declined(FuseRotaryEmbedding(limited(dtypes=[np.float16])), WHOLE, *TOKENS)
    assert reasons == ["the target has no RotaryEmbedding for float32"]


def test_other_sums_and_concatenations_have_no_reason(declined):
    assert declined(FuseRotaryEmbedding(), "n = Neg(x) y = Concat<axis = 2>(x, n)", y="float[B,5,16] y") == []
