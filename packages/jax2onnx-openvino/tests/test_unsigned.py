"""uint32 written as int32: in OpenVINO, compared with NumPy, for all pairs of extreme and of random numbers."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.traversal import all_nodes
from jax2onnx_openvino import OpenVino
from jax2onnx_openvino._unsigned import UnsignedPass
from jax2onnx_openvino.runtime import OpenVinoRuntime

TARGET, RUNTIME = OpenVino(), OpenVinoRuntime()
RANDOM = np.random.default_rng(0)
EXTREME = [
    0,
    1,
    2,
    7,
    2**16 - 1,
    2**16,
    2**24 - 1,
    2**24 + 1,
    2**31 - 1,
    2**31,
    2**31 + 1,
    2**31 + 128,
    2**32 - 2,
    2**32 - 1,
]
NUMBERS = np.concatenate([EXTREME, RANDOM.integers(0, 2**32, 30)]).astype(np.uint32)
X, Y = (grid.reshape(-1) for grid in np.meshgrid(NUMBERS, NUMBERS))
DIVISORS, AMOUNTS = np.maximum(Y, 1), Y % np.uint32(32)
MANY = np.concatenate([NUMBERS, RANDOM.integers(0, 2**32, 50_000).astype(np.uint32)])


def parsed(body: str) -> ir.Model:
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{body}')
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def run(body: str, **feeds: np.ndarray) -> np.ndarray:
    """The result of a graph, after the passes of the target."""
    pytest.importorskip("openvino")
    model = parsed(body)
    for factory in TARGET.passes():
        factory(TARGET)(model)
    (result,) = RUNTIME.load(model)(feeds)
    return result


def elementwise(call: str, dtype: str = "uint32", **feeds: np.ndarray) -> np.ndarray:
    """The result of a call of x and y, which are computed, as operators compute otherwise next to others."""
    body = f"g (uint32[N] a, uint32[N] y, uint32[1] k) => ({dtype}[N] z) {{ x = BitwiseXor(a, k) z = {call} }}"
    key = np.array([0x9E3779B9], np.uint32)
    return run(body, a=feeds["x"] ^ key, y=feeds["y"], k=key)


@pytest.mark.parametrize(
    ("call", "want", "y"),
    [
        ("Add(x, y)", X + Y, Y),
        ("Sub(x, y)", X - Y, Y),
        ("Mul(x, y)", X * Y, Y),
        ("Div(x, y)", X // DIVISORS, DIVISORS),
        ("Mod(x, y)", X % DIVISORS, DIVISORS),
        ("Max(x, y)", np.maximum(X, Y), Y),
        ("Min(x, y)", np.minimum(X, Y), Y),
        ("BitwiseAnd(x, y)", X & Y, Y),
        ("BitwiseNot(x)", ~X, Y),
        ('BitShift <direction = "LEFT"> (x, y)', X << AMOUNTS, AMOUNTS),
        ('BitShift <direction = "RIGHT"> (x, y)', X >> AMOUNTS, AMOUNTS),
        ("Sign(x)", np.sign(X), Y),
        ("Abs(x)", X, Y),
    ],
)
def test_arithmetic_is_that_of_unsigned_numbers(call, want, y):
    np.testing.assert_array_equal(elementwise(call, x=X, y=y), want)


@pytest.mark.parametrize(
    ("op_type", "want"),
    [("Less", X < Y), ("LessOrEqual", X <= Y), ("Greater", X > Y), ("GreaterOrEqual", X >= Y), ("Equal", X == Y)],
)
def test_comparisons_are_those_of_unsigned_numbers(op_type, want):
    np.testing.assert_array_equal(elementwise(f"{op_type}(x, y)", "bool", x=X, y=Y), want)


@pytest.mark.parametrize("amount", [0, 1, 7, 8, 15, 16, 17, 24, 31])
def test_known_shifts(amount):
    body = "g (uint32[N] x) => (uint32[N] z) {{ k = Constant <value = uint32 {{{}}}> () z = BitShift <direction = {}> (x, k) }}"
    for direction, want in (("RIGHT", MANY >> np.uint32(amount)), ("LEFT", MANY << np.uint32(amount))):
        np.testing.assert_array_equal(run(body.format(amount, f'"{direction}"'), x=MANY), want)


@pytest.mark.parametrize("divisor", [1, 3, 2**16 + 1, 2**31 - 1, 2**31, 2**32 - 1])
def test_known_divisors(divisor):
    body = "g (uint32[N] x) => (uint32[N] z) {{ k = Constant <value = uint32 {{{}}}> () z = {}(x, k) }}"
    np.testing.assert_array_equal(run(body.format(divisor, "Div"), x=MANY), MANY // np.uint32(divisor))
    np.testing.assert_array_equal(run(body.format(divisor, "Mod"), x=MANY), MANY % np.uint32(divisor))


@pytest.mark.parametrize(("low", "high"), [(7, 2**31 + 7), (2**31 + 1, 2**32 - 2), (0, 5)])
def test_known_bounds(low, high):
    constants = f"a = Constant <value = uint32 {{{low}}}> () b = Constant <value = uint32 {{{high}}}> ()"
    got = run(f"g (uint32[N] x) => (uint32[N] z) {{ {constants} z = Clip(x, a, b) }}", x=MANY)
    np.testing.assert_array_equal(got, np.clip(MANY, low, high))


@pytest.mark.parametrize(("name", "number"), [("float", 1), ("float16", 10)])
def test_conversion_to_a_float_rounds_once(name, number):
    got = run(f"g (uint32[N] x) => ({name}[N] z) {{ y = BitwiseNot(x) z = Cast <to = {number}> (y) }}", x=MANY)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, (~MANY).astype(got.dtype))


def test_conversion_from_a_float():
    x = np.array([0, 0.5, 1.9, 65535.9, 65536, 2**24 + 2, 2**31 - 128, 2**31, 2**31 + 256, 2**32 - 256], np.float32)
    np.testing.assert_array_equal(
        run("g (float[N] x) => (uint32[N] z) { z = Cast <to = 12> (x) }", x=x), x.astype(np.uint32)
    )


@pytest.mark.parametrize(
    ("name", "number", "dtype"),
    [
        ("bool", 9, np.bool_),
        ("int8", 3, np.int8),
        ("uint8", 2, np.uint8),
        ("uint16", 4, np.uint16),
        ("int32", 6, np.int32),
    ],
)
def test_conversion_between_integers_keeps_the_low_bits(name, number, dtype):
    narrow = run(f"g (uint32[N] x) => ({name}[N] z) {{ y = Add(x, x) z = Cast <to = {number}> (y) }}", x=MANY)
    np.testing.assert_array_equal(narrow, (MANY + MANY).astype(dtype))
    wide = run(f"g ({name}[N] x) => (uint32[N] z) {{ y = Cast <to = 12> (x) z = Add(y, y) }}", x=narrow)
    np.testing.assert_array_equal(wide, narrow.astype(np.uint32) + narrow.astype(np.uint32))


@pytest.mark.parametrize(("op_type", "function"), [("ReduceMax", np.max), ("ReduceMin", np.min), ("ReduceSum", np.sum)])
def test_reductions(op_type, function):
    x = NUMBERS.reshape(4, 11)
    got = run(
        f"g (uint32[4, 11] x) => (uint32[4, 1] z) {{ a = Constant <value = int64[1] {{1}}> () z = {op_type}(x, a) }}",
        x=x,
    )
    np.testing.assert_array_equal(got, function(x, axis=1, keepdims=True).astype(np.uint32))


def test_loops_carry_the_bits():
    body = """g (uint32[N] x) => (uint32[N] y) {
        n = Constant <value = int64 {3}> ()
        c = Constant <value = bool {1}> ()
        y = Loop(n, c, x) <body = b (int64 i, bool go, uint32[N] s) => (bool go_on, uint32[N] t) {
            go_on = Identity(go)
            k = Constant <value = uint32 {3}> ()
            h = BitShift <direction = "RIGHT"> (s, k)
            m = Max(h, s)
            t = Add(m, h)
        }>
    }"""
    want = MANY
    for _ in range(3):
        want = np.maximum(want, want >> np.uint32(3)) + (want >> np.uint32(3))
    np.testing.assert_array_equal(run(body, x=MANY), want)


def test_inputs_and_outputs_stay_unsigned_and_nothing_else():
    model = parsed("g (uint32[N] x) => (uint32[N] y) <uint32 w = {3000000000}> { a = Mul(x, w) y = Add(a, x) }")
    assert UnsignedPass(TARGET)(model).modified
    assert [value.dtype for value in (*model.graph.inputs, *model.graph.outputs)] == [ir.DataType.UINT32] * 2
    assert [node.op_type for node in model.graph] == ["Cast", "Mul", "Add", "Cast"]
    inner = [value.dtype for node in all_nodes(model) for value in node.outputs[:1]][:-1]
    assert set(inner) == {ir.DataType.INT32}
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_an_output_may_be_a_constant_or_an_input():
    model = parsed("g (uint32[2] x) => (uint32[2] x, uint32[2] w) <uint32[2] w = {1, 4294967295}> { }")
    UnsignedPass(TARGET)(model)
    onnx.checker.check_model(ir.to_proto(model))
    assert [value.name for value in model.graph.outputs] == ["x", "w"]


def test_models_without_them_are_left_alone():
    assert not UnsignedPass(TARGET)(parsed("g (int32[N] x) => (int32[N] y) { y = Add(x, x) }")).modified
