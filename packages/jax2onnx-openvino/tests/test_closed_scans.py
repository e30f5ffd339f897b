"""Scans as OpenVINO takes them: the rules of the pass, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_core import errors, to_onnx
from jax2onnx_openvino._closed_scans import ClosedScansPass

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def parse(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}'))


def scan_of(model: ir.Model) -> tuple[ir.Node, ir.Graph]:
    (scan,) = (node for node in model.graph if node.op_type == "Scan")
    return scan, scan.attributes["body"].as_graph()


def test_what_a_body_captures_becomes_a_state():
    model = parse("""g (float[T, 2] x, float[2] s, float[2] k) => (float[2] e, float[T, 2] y) {
        e, y = Scan <num_scan_inputs = 1, body = b (float[2] c, float[2] v) => (float[2] d, float[2] w) {
            d = Add(c, v)
            w = Mul(d, k)
        }> (s, x)
    }""")
    ClosedScansPass()(model)
    scan, body = scan_of(model)
    assert [value.name for value in scan.inputs] == ["k", "s", "x"]
    assert body.inputs[0] is body.outputs[0]
    assert [value.name for value in model.graph.outputs] == ["e", "y"] == [value.name for value in scan.outputs[1:]]


def test_constants_stay_captured():
    model = parse("""g (float[T, 2] x, float[2] s) => (float[2] e, float[T, 2] y) <float[2] k = {1, 2}> {
        e, y = Scan <num_scan_inputs = 1, body = b (float[2] c, float[2] v) => (float[2] d, float[2] w) {
            d = Add(c, v)
            w = Mul(d, k)
        }> (s, x)
    }""")
    assert not ClosedScansPass()(model).modified


def test_states_that_change_places_are_computed():
    model = parse("""g (float[T, 2] x, float[2] s, float[2] k) => (float[2] e, float[2] f) {
        e, f = Scan <num_scan_inputs = 1, body = b (float[2] c, float[2] q, float[2] v) => (float[2] q, float[2] c) {
        }> (s, k, x)
    }""")
    ClosedScansPass()(model)
    _, body = scan_of(model)
    assert [node.op_type for node in body].count("Sub") == 3  # one reads the row
    assert not set(body.inputs) & set(body.outputs)


def test_copies_of_states_that_change_places_are_computed():
    model = parse("""g (float[T, 2] x, float[2] s, float[2] k) => (float[2] e, float[2] f, float[T, 2] y) {
        e, f, y = Scan <num_scan_inputs = 1, body = b (float[2] c, float[2] q, float[2] v) => (float[2] d, float[2] r, float[2] w) {
            d = Identity(q)
            r = Identity(c)
            w = Identity(r)
        }> (s, k, x)
    }""")
    ClosedScansPass()(model)
    _, body = scan_of(model)
    assert [output.producer().op_type for output in body.outputs] == [
        "Squeeze",
        "Sub",
        "Sub",
    ]  # the first reads the row


def test_loops_with_captured_and_exchanged_values_are_right():
    pytest.importorskip("openvino")

    def fn(x, k):
        def step(carry, row):
            a, b = carry
            return (b, a), (row * k + a, row)

        return jax.lax.scan(step, (jnp.zeros(2), k), x)

    to_onnx(fn, [("T", 2), (2,)], target="openvino").verify()


def test_a_scan_in_a_scan_is_refused_by_one_sentence():
    def fn(x):
        def outer(total, row):
            last, _ = jax.lax.scan(lambda c, v: (c * 0.5 + v, c), total, row)
            return last, last

        return jax.lax.scan(outer, jnp.float32(0), x)

    with pytest.raises(
        errors.ConversionError, match=r"^OpenVINO computes no right results for this model:\n  A Scan in a Scan"
    ):
        to_onnx(fn, [("T", "S")], target="openvino")


def test_an_output_without_elements_is_refused():
    with pytest.raises(errors.ConversionError, match="The output 'output_1' has no elements; leave it out"):
        to_onnx(lambda x: (x, x[:0]), [(3,)], target="openvino")


def test_all_that_is_refused_is_listed_with_the_lines_of_the_source():
    def fn(x, fill):
        return jnp.pad(x, 1, constant_values=fill), x[:0]

    with pytest.raises(errors.ConversionError, match=r"(?s)has no elements.*no constant \(.*test_closed_scans.py:\d+"):
        to_onnx(fn, [(3,), ()], target="openvino")


def test_a_body_that_reads_no_row_takes_all_steps():
    pytest.importorskip("openvino")

    def fn(x, k):
        def step(carry, _):
            return (carry[1], carry[0] * k), carry[0]

        return jax.lax.scan(step, (k + 1, k), x)

    to_onnx(fn, [("T", 2), (2,)], target="openvino").verify()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_body_that_reads_no_row_takes_the_steps_of_its_axis(axis):
    load = pytest.importorskip("jax2onnx_openvino.loading").load
    pytest.importorskip("openvino")
    model = parse(f"""g (float[2, 3] x, float[2] s) => (float[2] e, float[N, 2] y) {{
        e, y = Scan <num_scan_inputs = 1, scan_input_axes = [{axis}], body = b (float[2] c, float[{3 if axis == 0 else 2}] v) => (float[2] d, float[2] w) {{
            d = Add(c, c)
            w = Neg(c)
        }}> (s, x)
    }}""")
    ClosedScansPass()(model)
    start, steps = np.array([1, 2], np.float32), 2 if axis == 0 else 3
    end, rows = load(model)({"x": np.ones((2, 3), np.float32), "s": start})
    np.testing.assert_array_equal(end, start * 2**steps)
    np.testing.assert_array_equal(rows, [-start * 2**step for step in range(steps)])


#: What a step makes of the state c, the row v and a matrix m, and whether that may be in the memory of the row.
STEPS = {
    "d = Add(v, c)": True,
    "p = Mul(v, c) d = Add(p, v)": True,
    "p = Mul(v, v) q = Relu(p) d = Max(c, q)": True,
    "p = Identity(v) d = Add(p, c)": True,
    "d = Mul(c, c)": False,
    "p = MatMul(v, m) d = Tanh(p)": False,
}


@pytest.mark.parametrize("step", STEPS)
def test_a_state_in_the_memory_of_a_row_is_copied(step):
    model = parse(f"""g (float[T, 2] x, float[2] s) => (float[2] e, float[T, 2] y) <float[2, 2] m = {{1, 2, 3, 4}}> {{
        e, y = Scan <num_scan_inputs = 1, body = b (float[2] c, float[2] v) => (float[2] d, float[2] w) {{
            {step}
            w = Neg(v)
        }}> (s, x)
    }}""")
    ClosedScansPass()(model)
    _, body = scan_of(model)
    assert ("CumSum" in [node.op_type for node in body]) == STEPS[step]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "uint32", "float16", "float32"])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_states_that_are_computed_of_rows_are_right(dtype, shape):
    pytest.importorskip("openvino")

    def fn(x):
        def step(c, row):
            new = row ^ c if dtype == "bool" else jnp.maximum(row, c) * jnp.asarray(3, dtype)
            return new, new

        return jax.lax.scan(step, jnp.ones(shape, dtype), x)

    x = np.random.default_rng(0).integers(0, 2, (4, *shape)).astype(dtype)
    for got, want in zip(to_onnx(fn, [x], target="openvino")(x), fn(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_gated_sums_of_few_steps_are_right():
    pytest.importorskip("openvino")
    fn = lambda a, x: jax.lax.scan(lambda c, row: (row[0] * c + row[1],) * 2, jnp.zeros(5), (jax.nn.sigmoid(a), x))  # noqa: E731
    to_onnx(fn, [("T", 5), ("T", 5)], target="openvino").verify()
