"""What is read as a sum over experts, by the arrangement of gates and results, and what is not."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_fusions.experts._mixtures import Mixture, mixtures_at

HEAD = """a0 = Constant<value = int64[1] {0}>() a1 = Constant<value = int64[1] {1}>() a2 = Constant<value = int64[1] {2}>()
    both = Constant<value = int64[2] {0, 1}>() none = Constant<value = float {0}>() half = Constant<value = float {0.5}>()
    n = Constant<value = int64[3] {0, 1, 2}>() e = Equal(i, n) g = Cast<to = 1>(e) rows = Constant<value = int64[2] {0, 12}>() ends = Constant<value = int64[2] {0, 2}>()
    row = Constant<value = int64[2] {1, 12}>() column = Constant<value = int64[2] {12, 1}>()
    between = Constant<value = int64[2] {1, 3}>() inner = Constant<value = int64[3] {0, 1, 12}>() after = Constant<value = int64[2] {1, 2}>()
    columns = Constant<value = int64[2] {12, 2}>() """
INPUTS = "int64[T,1] i, int64[1] j, float[12,5] u, float[5,12] z"


def mixtures(inputs: str, body: str) -> list[Mixture]:
    """The mixtures that y is; its inputs besides those in HEAD."""
    declared = ", ".join([INPUTS, *([inputs] if inputs else [])])
    text = f'<ir_version: 10, opset_import: ["" : 21]> m ({declared}) => (float y) {{ {HEAD} {body} }}'
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].ClearField("type")
    node = ir.from_proto(onnx.shape_inference.infer_shapes(proto)).graph.outputs[0].producer()
    assert node is not None
    return mixtures_at(node)


def told(mixture: Mixture) -> str:
    """Gates[tokens…, experts] made[tokens… | experts], the start of the sum, and where the gates are."""
    tokens = ",".join(str(rows and rows.axis) for rows in mixture.roles.tokens)
    roles = f"[{tokens}|{mixture.roles.expert and mixture.roles.expert.axis}]"
    ends = [
        "" if mixture.start is None else f" + {mixture.start.name}",
        " gated" * mixture.is_gated,
        " product" * bool(mixture.product),
    ]
    sizes = " x ".join(str(size) for size in (*mixture.sizes.tokens, mixture.sizes.experts))
    return f"{mixture.gates.name}{[*mixture.gate_axes]} {mixture.made.name}{roles} {sizes}{''.join(ends)}".replace(
        ", ", ","
    )


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("float[T,1,3] a, float[T,3,4] b", ["a[0,2] b[0|1] T x 3"]), ("float[T,4,3] a, float[T,3,1] b", ["b[0,1] a[0|2] T x 3"]),
        ("float[T,1,3] a, float[T,3,1] b", ["a[0,2] b[0|1] T x 3", "b[0,1] a[0|2] T x 3"]),
        ("float[T,S,1,3] a, float[T,S,3,4] b", ["a[0,1,3] b[0,1|2] T x S x 3"]),
        ("float[T,2,3] a, float[T,3,4] b", []), ("float[T,1,3] a, float[1,3,4] b", []), ("float[T,1,3] a, float[3,4] b", []),
        ("float[T,1,N] a, float[T,N,4] b", []), ("float[1,N] a, float[N,4] b", []), ("float[3] a, float[3,4] b", []),
        ("float[1,3] a, float[3,4] b", ["a[1] b[|0] 3"]), ("float[4,3] a, float[3,1] b", ["b[0] a[|1] 3"]),
        ("float[1,3] a, float[1,3,4] b", ["a[1] b[|1] 3"]), ("float[1,4,3] a, float[3,1] b", ["b[0] a[|2] 3"]),
        ("float[1,3] a, float[2,3,4] b", []), ("float[2,3] a, float[3,4] b", []), ("float[1,3] a, float[3] b", []),
    ],
)  # fmt: skip
def test_products(inputs, expected):
    assert [told(one) for one in mixtures(inputs, "y = MatMul(a, b)")] == expected


@pytest.mark.parametrize(
    ("inputs", "body", "expected"),
    [
        ("float[T,3] a, float[T,3] b", "m = Mul(a, b) y = ReduceSum(m, a1)", []),
        ("float[T,3,1] a, float[T,3,4] b", "m = Mul(a, b) y = ReduceSum(m, a1)", ["a[0,1] b[0|1] T x 3"]),
        ("float[T,3,1] a, float[T,3,4] b", "m = Mul(b, a) y = ReduceSum<keepdims = 0>(m, a1)", ["a[0,1] b[0|1] T x 3"]),
        ("float[3,T,1] a, float[3,T,4] b", "m = Mul(a, b) y = ReduceSum(m, a0)", ["a[1,0] b[1|0] T x 3"]),
        ("float[T,1] a, float[3,T,4] b", "m = Mul(a, b) y = ReduceSum(m, a0)", []),
        ("float[3,1] a, float[T,3,4] b", "m = Mul(a, b) y = ReduceSum(m, a1)", ["a[0] b[|1] 3"]),
        ("float[3,1,1] a, float[3,T,4] b", "m = Mul(a, b) y = ReduceSum(m, a0)", ["a[0] b[|0] 3"]),
        ("float[T,3,1] a, float[T,3,4] b", "m = Mul(a, b) y = ReduceSum(m, both)", []),
        ("float[T,3,1] a, float[T,3,4] b", "m = Mul(a, b) y = ReduceMax(m, a1)", ["a[0,1] b[0|1] T x 3"]),
        ("float[T,N,1] a, float[T,N,4] b", "m = Mul(a, b) y = ReduceSum(m, a1)", []),
        ("float[T,1,1] a, float[T,3,4] b", "m = Mul(a, b) y = ReduceSum(m, a1)", []),
        ("float[1,1,1] a, float[T,3,4] b", "m = Mul(a, b) y = ReduceSum(m, a1)", []),
        ("float[T,3,4] a, float[T,3,1] b", "m = Mul(a, b) y = ReduceSum(m, a1)", ["b[0,1] a[0|1] T x 3"]),
        ("float[3,1,4] a, float[3,T,4] b", "m = Mul(a, b) y = ReduceSum(m, a0)", []),
        ("float[1,T,3] a, float[4,T,3] b", "m = Mul(a, b) y = ReduceSum(m, a2)", []),
        ("float[S,T,3,1] a, float[S,T,3,4] b", "m = Mul(a, b) y = ReduceSum(m, a2)", ["a[0,1,2] b[0,1|2] S x T x 3"]),
        ("float[3,1] a, float[1,3,4] b", "m = Mul(a, b) y = ReduceSum(m, a1)", ["a[0] b[|1] 3"]),
        ("float[T,3,1] a, float[S,T,3,4] b", "m = Mul(a, b) y = ReduceSum(m, a2)", []),
        ("bool[T,3,1] a, float[T,3,4] b", "m = Where(a, b, none) y = ReduceSum(m, a1)", ["a[0,1] b[0|1] T x 3"]),
        ("bool[T,3,1] a, float[T,3,4] b", "m = Where(a, none, b) y = ReduceSum(m, a1)", []),
        ("bool[T,3,1] a, float[T,3,4] b", "m = Where(a, b, half) y = ReduceSum(m, a1)", []),
        ("bool[T,3,4] a, float[T,3,1] b", "m = Where(a, b, none) y = ReduceSum(m, a1)", []),
        ("float[T,3,1] a, float[T,3,4] b", "m = Add(a, b) y = ReduceSum(m, a1)", []),
        ("float[T,3,4] b", "p = Unsqueeze(g, a2) q = Mul(p, b) m = Neg(q) y = ReduceSum(m, a1)", ["p[0,1] m[0|1] T x 3 gated"]),
        ("float[T,3,4] b", "m = Neg(b) y = ReduceSum(m, a1)", []),
    ],
)  # fmt: skip
def test_sums(inputs, body, expected):
    assert [told(one) for one in mixtures(inputs, body)] == expected


#: m is [tokens, experts, features]: zero where the gates p are.
GATED = "p = Unsqueeze(g, a2) m = Mul(p, b) "
#: The same of one token.
ONE = "h = Equal(j, n) k = Cast<to = 1>(h) "


@pytest.mark.parametrize(
    ("inputs", "body", "expected"),
    [
        ("float[T,3,4] b", GATED + "r = Reshape(m, rows) y = MatMul(r, u)", ["p[0,1] y[0|None] T x 3 gated product"]),
        ("float[T,4,3] b", "p = Unsqueeze(g, a1) m = Mul(p, b) r = Reshape(m, rows) y = MatMul(r, u)", ["p[0,2] y[0|None] T x 3 gated product"]),
        ("float[T,3,4] b", GATED + "r = Flatten(m) y = MatMul(r, u)", ["p[0,1] y[0|None] T x 3 gated product"]),
        ("float[T,3,4] b", "r = Reshape(b, rows) y = MatMul(r, u)", []),
        ("float[T,3,4] b", GATED + "r = Reshape(m, rows) s = Neg(r) y = MatMul(s, u)", []),
        ("float[T,3,4] b", GATED + "r = Reshape(m, rows) s = Neg(u) y = MatMul(r, s)", []),
        ("float[T,3,4] b, float[1,12,5] v", GATED + "r = Reshape(m, rows) y = MatMul(r, v)", []),
        ("float[T,3,4] b, float[4,5] v", GATED + "y = MatMul(m, v)", []),
        ("float[3,4] b", ONE + "p = Unsqueeze(k, a1) m = Mul(p, b) r = Reshape(m, row) y = MatMul(r, u)", ["r[1] u[|0] 12"]),
        ("float[1,3,4] b", ONE + "p = Unsqueeze(k, ends) m = Mul(p, b) r = Reshape(m, row) y = MatMul(r, u)",
         ["r[1] u[|0] 12", "p[0,1] y[0|None] 1 x 3 gated product"]),
        ("float[3,4] b", ONE + "p = Unsqueeze(k, a1) m = Mul(p, b) r = Reshape(m, column) y = MatMul(z, r)",
         ["r[0] z[|1] 12", "p[0] y[|None] 3 gated product"]),
        ("float[3,4] b", ONE + "p = Unsqueeze(k, a1) m = Mul(p, b) r = Reshape(m, column) s = Exp(z) y = MatMul(s, r)", ["r[0] s[|1] 12"]),
        ("float[5,12] v, float[12,1] b", "y = MatMul(v, b)", ["b[0] v[|1] 12"]),
        ("float[T,1,3,4] b", "p = Unsqueeze(g, between) m = Mul(p, b) r = Reshape(m, inner) y = MatMul(r, u)", ["p[0,2] y[0|None] T x 3 gated product"]),
        ("float[3,4] b, float[2,5,12] v", ONE + "p = Unsqueeze(k, a1) m = Mul(p, b) r = Reshape(m, column) y = MatMul(v, r)", []),
        ("float[3,4,2] b", ONE + "p = Unsqueeze(k, after) m = Mul(p, b) r = Reshape(m, columns) y = MatMul(z, r)", []),
    ],
)  # fmt: skip
def test_contractions(inputs, body, expected):
    assert [told(one) for one in mixtures(inputs, body)] == expected


STEP = "(float[T,4] carry, float[T,4] term) => (float[T,4] sum)"


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        (f"<body = b {STEP} {{ sum = Add(carry, term) }}, num_scan_inputs = 1>", True),
        (f"<body = b {STEP} {{ sum = Add(term, carry) }}, num_scan_inputs = 1>", True),
        (f"<body = b {STEP} {{ sum = Sub(carry, term) }}, num_scan_inputs = 1>", False),
        (f"<body = b {STEP} {{ sum = Add(carry, carry) }}, num_scan_inputs = 1>", False),
        (f"<body = b {STEP} {{ twice = Add(term, term) sum = Add(carry, twice) }}, num_scan_inputs = 1>", False),
        (f"<body = b {STEP[:-1]}, float[T,4] all) {{ sum = Add(carry, term) all = Identity(sum) }}, num_scan_inputs = 1>", False),
        ("<body = b (float[T,4] carry, float[1,4] term) => (float[T,4] sum) { sum = Add(carry, term) }, num_scan_inputs = 1>", False),
    ],
)  # fmt: skip
def test_scans(body, is_found):
    inputs = "float[3,T,1] a, float[3,T,4] b, float[T,4] start"
    others = ", others" if "all" in body else ""
    found = [told(one) for one in mixtures(inputs, f"m = Mul(a, b) y{others} = Scan{body}(start, m)")]
    assert found == (["a[1,0] b[1|0] T x 3 + start"] if is_found else [])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("num_scan_inputs = 1", ["a[1,0] b[1|0] 3 x 3 + s"]), ("num_scan_inputs = 1, scan_input_axes = [1]", []),
        # Nothing is carried: each step adds a row of both.
        ("num_scan_inputs = 2", []),
    ],
)  # fmt: skip
def test_a_scan_sums_along_its_first_axis(attributes, expected):
    step = "(float[3,4] carry, float[3,4] term) => (float[3,4] sum) { sum = Add(carry, term) }"
    start = "m = Mul(a, b) s = Expand(start, three)" if "= 2" in attributes else "m = Mul(a, b) s = Identity(start)"
    inputs = "float[3,3,1] a, float[3,3,4] b, float[3,4] start, int64[3] three"
    found = mixtures(inputs, f"{start} y = Scan<body = b {step}, {attributes}>(s, m)")
    assert [told(one) for one in found] == expected
