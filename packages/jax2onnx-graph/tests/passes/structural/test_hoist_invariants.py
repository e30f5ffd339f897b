from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.passes.structural.hoist_invariants import HoistInvariants

HEAD = '<ir_version: 10, opset_import: ["" : 20, "other" : 1]>\n'
LOOP = """g (int64 n, float[3] x, int64[3] k, float[N] z, float[16] w) => (float[3] y) {{
    c = Constant<value = bool {{1}}>()
    m = Constant<value = int64 {{4}}>()
    o = Constant<value = int64[1] {{0}}>()
    y = Loop({count}, c, x)<body = b (int64 i, bool d, float[3] s) => (bool e, float[3] t) {{ e = Identity(d) {body} }}>
}}"""


def _split(body, count="n"):
    """The operators in front of the loop and in its body, the constants and the condition left out."""
    model = ir.from_onnx_text(HEAD + LOOP.format(body=body, count=count))
    HoistInvariants()(model)
    loop = next(node for node in model.graph if node.op_type == "Loop")
    before = [node.op_type for node in model.graph if node.op_type not in ("Constant", "Loop")]
    return before, [node.op_type for node in loop.attributes["body"].as_graph()][1:]


def test_what_reads_no_state_goes_in_front_of_the_loop_with_its_readers():
    assert _split("a = Sin(x) b = Neg(a) t = Add(b, s)") == (["Sin", "Neg"], ["Add"])


def test_what_reads_a_state_or_the_number_of_the_iteration_stays():
    body = "f = Cast<to = 1>(i) a = Mul(x, f) b = Sin(s) t = Add(a, b)"
    assert _split(body) == ([], ["Cast", "Mul", "Sin", "Add"])


@pytest.mark.parametrize(
    "body",
    [
        "a = RandomNormalLike(x) t = Add(a, s)",
        "a = other.F(x) t = Add(a, s)",
        "t = Sin(x)",
        "a = If(c)<then_branch = p () => (float[3] q) {q = Sin(x)}, else_branch = r () => (float[3] u) {u = Neg(x)}> t = Add(a, s)",
    ],
    ids=["random", "other domain", "output", "branches"],
)
def test_what_cannot_be_moved_stays(body):
    assert _split(body)[0] == []


@pytest.mark.parametrize(
    "body",
    [
        "a = Div(k, k) f = Cast<to = 1>(a) t = Add(f, s)",
        "a = Mod(k, k) f = Cast<to = 1>(a) t = Add(f, s)",
        "a = ReduceMax(z) t = Add(a, s)",
        "a = Gather(z, o) t = Add(a, s)",
        "a = ScatterElements(x, k, x) t = Add(a, s)",
    ],
    ids=["division", "remainder", "maximum", "gather", "scatter"],
)
def test_what_may_fail_stays_in_a_loop_that_may_not_run(body):
    may_fail = {"Div", "Mod", "ReduceMax", "Gather", "ScatterElements"}
    assert not may_fail & set(_split(body)[0])
    assert may_fail & set(_split(body, count="m")[0])


def test_integers_are_divided_in_front_of_the_loop_by_numbers_that_are_not_zero():
    assert _split("a = Div(k, m) f = Cast<to = 1>(a) t = Add(f, s)") == (["Div", "Cast"], ["Add"])


def test_large_broadcasts_stay():
    grown = (
        "h = Constant<value = int64[2] {524288, 16}>() a = Expand(w, h) b = ReduceSum<keepdims = 0>(a) t = Add(b, s)"
    )
    model = ir.from_onnx_text(HEAD + LOOP.format(body=grown, count="n"))
    body = next(node for node in model.graph if node.op_type == "Loop").attributes["body"].as_graph()
    expand = next(node for node in body if node.op_type == "Expand")
    expand.outputs[0].shape = ir.Shape([524288, 16])
    HoistInvariants()(model)
    assert expand.graph is body


def test_nested_loops_give_up_what_neither_changes():
    body = """u = Identity(d) t = Loop(m, c, s)<
        body = b2 (int64 j, bool d2, float[3] s2) => (bool e2, float[3] t2) {
            e2 = Identity(d2) a = Sin(x) b = Cos(s) v = Add(a, b) t2 = Add(v, s2) }>"""
    assert _split(body) == (["Sin"], ["Identity", "Cos", "Add", "Loop"])


@pytest.mark.parametrize(
    ("inputs", "axes", "moved"),
    [
        ("float[4,3] s", "", True),
        ("float[0,3] s", "", False),
        ("float[N,3] s", "", False),
        ("float[N,4] s", ", scan_input_axes = [1]", True),
        ("float[4,N] s", ", scan_input_axes = [1]", False),
    ],
)
def test_a_scan_over_known_many_steps_runs(inputs, axes, moved):
    text = f"""{HEAD} g (float[3] x, float[M] z, {inputs}) => (float[3] y) {{
        y = Scan<num_scan_inputs = 1{axes}, body = b (float[3] p, float[3] r) => (float[3] q) {{
            m = ReduceMax(z) q = Add(p, m) }}>(x, s) }}"""
    model = ir.from_onnx_text(text)
    HoistInvariants()(model)
    assert ("ReduceMax" in [node.op_type for node in model.graph]) is moved


@pytest.mark.parametrize(
    ("start", "moved"),
    [("m, c", True), ("n, c", False), ("none, c", False), ("m, f", False), ("m, d0", False), (", c", True), ("m, ", True)],
)  # fmt: skip
def test_a_loop_that_is_known_to_begin_runs(start, moved):
    text = f"""{HEAD} g (int64 n, bool d0, float[3] x, float[N] z) => (float[3] y) {{
        c = Constant<value = bool {{1}}>() f = Constant<value = bool {{0}}>()
        m = Constant<value = int64 {{1}}>() none = Constant<value = int64 {{0}}>()
        y = Loop({start}, x)<body = b (int64 i, bool d, float[3] s) => (bool e, float[3] t) {{
            e = Identity(d) a = ReduceMax(z) t = Add(a, s) }}> }}"""
    model = ir.from_onnx_text(text)
    HoistInvariants()(model)
    assert ("ReduceMax" in [node.op_type for node in model.graph]) is moved
