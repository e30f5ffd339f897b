"""Legalised graphs in OpenVINO, compared with NumPy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_openvino import OpenVino
from jax2onnx_openvino._repairs import RepairsPass
from jax2onnx_openvino.runtime import OpenVinoRuntime

pytest.importorskip("openvino")

TARGET, RUNTIME = OpenVino(), OpenVinoRuntime()
LARGE = [-(2**31), -(2**31) + 1, -(2**24) - 1, -7, -1, 1, 3, 2**24 + 1, 2**30 + 1, 2**31 - 2, 2**31 - 1]
X, Y = (grid.reshape(-1).astype(np.int32) for grid in np.meshgrid(LARGE, LARGE))
AXES = np.array([1], np.int64)


def run(body: str, opset: int = 20, **feeds: np.ndarray) -> np.ndarray:
    """The result of a graph, after the passes of the target."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{body}')
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    for factory in TARGET.passes():
        factory(TARGET)(model)
    (result,) = RUNTIME.load(model)(feeds)
    return result


@pytest.mark.parametrize(
    ("op_type", "function"),
    [("Less", np.less), ("Greater", np.greater), ("LessOrEqual", np.less_equal), ("GreaterOrEqual", np.greater_equal),
     ("Equal", np.equal), ("Max", np.maximum), ("Min", np.minimum), ("Add", np.add), ("Mul", np.multiply)],
)  # fmt: skip
def test_large_integers_are_exact(op_type, function):
    want = function(X, Y)
    dtype = "bool" if want.dtype == np.bool_ else "int32"
    got = run(f"g (int32[N] x, int32[N] y) => ({dtype}[N] z) {{ z = {op_type}(x, y) }}", x=X, y=Y)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "call", ["Max(w, c)", "Min(c, w)", "Max(w, c, d)", "Clip(w, d, c)", "Pad(w, p, c)", "Cast<to = 6>(b)"]
)
def test_large_constants_are_exact(call):
    large = {"c": 2**31 - 2, "d": -(2**24) - 1}
    constants = " ".join(f"{name} = Constant <value = int32 {{{number}}}> ()" for name, number in large.items())
    body = (
        f"{constants} p = Constant <value = int64[2] {{1, 2}}> () w = BitwiseXor(x, d) b = Cast<to = 9>(w) z = {call}"
    )
    c, d, w = np.int32(large["c"]), np.int32(large["d"]), X ^ np.int32(large["d"])
    want = {"Max(w, c)": np.maximum(w, c), "Min(c, w)": np.minimum(w, c), "Max(w, c, d)": np.maximum(w, c),
            "Clip(w, d, c)": np.clip(w, d, c), "Pad(w, p, c)": np.pad(w, (1, 2), constant_values=c),
            "Cast<to = 6>(b)": (w != 0).astype(np.int32)}  # fmt: skip
    np.testing.assert_array_equal(run(f"g (int32[N] x) => (int32[M] z) {{ {body} }}", x=X), want[call])


def test_large_integers_are_divided_exactly():
    x, y = X[Y != -1], Y[Y != -1]
    body = "g (int32[N] x, int32[N] y) => (int32[N] z) { z = %s }"
    a, b = x.astype(np.int64), y.astype(np.int64)
    quotient = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
    np.testing.assert_array_equal(run(body % "Div(x, y)", x=x, y=y), quotient)
    np.testing.assert_array_equal(run(body % "Mod(x, y)", x=x, y=y), np.mod(a, b))
    np.testing.assert_array_equal(run(body % "Mod<fmod = 1>(x, y)", x=x, y=y), np.fmod(a, b))


def test_large_integers_are_chosen_after_a_comparison():
    body = "g (float[N] f, int32[N] x, int32[N] y) => (int32[N] z) { c = IsNaN(f) z = Where(c, x, y) }"
    condition = np.arange(len(X)) % 3 == 0
    got = run(body, f=np.where(condition, np.nan, 0).astype(np.float32), x=X, y=Y)
    np.testing.assert_array_equal(got, np.where(condition, X, Y))


@pytest.mark.parametrize(("left", "right"), [((6, 10), (10, 6)), ((10,), (10, 6)), ((6, 10), (10,)), ((60,), (60,))])
def test_large_integers_are_multiplied_exactly(left, right):
    x, y = X[:60], Y[1:61]
    x, y = x[: math.prod(left)].reshape(left), y[: math.prod(right)].reshape(right)
    got = run(
        f"g (int32{list(left)} x, int32{list(right)} y) => (int32{list((x @ y).shape)} z) {{ z = MatMul(x, y) }}",
        x=x,
        y=y,
    )
    np.testing.assert_array_equal(got, x @ y)


@pytest.mark.parametrize(
    ("op_type", "operands"),
    [("Relu", "x"), ("Celu", "x"), ("Exp", "x"), ("Max", "x, c"), ("Min", "c, x"), ("Clip", "x, d, c")],
)
def test_nan_stays(op_type, operands):
    x = np.array([np.nan, 1, -2] * 8, np.float32)
    constants = "c = Constant<value = float {0.5}>() d = Constant<value = float {-0.5}>()"
    got = run(f"g (float[N] x) => (float[N] y) {{ {constants} y = {op_type}({operands}) }}", x=x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))


@pytest.mark.parametrize(
    ("op_type", "function"), [("Less", np.less), ("LessOrEqual", np.less_equal), ("Greater", np.greater),
                              ("GreaterOrEqual", np.greater_equal), ("Equal", np.equal)],
)  # fmt: skip
def test_comparisons_with_nan_are_false(op_type, function):
    x = np.array([np.nan, 1, -1, np.inf, -np.inf, 0] * 4, np.float32)
    y = np.roll(x, 1)
    got = run(f"g (float[N] x, float[N] y) => (bool[N] z) {{ z = {op_type}(x, y) }}", x=x, y=y)
    np.testing.assert_array_equal(got, function(x, y))


def test_nan_is_true():
    x = np.array([np.nan, 1, 0, -0.0, np.inf] * 5, np.float32)
    np.testing.assert_array_equal(run("g (float[N] x) => (bool[N] y) { y = Cast<to = 9>(x) }", x=x), x != 0)


def test_bytes_wrap_around():
    x = np.array([-128, 127, 100, -7, 3], np.int8)
    got = run("g (int8[N] x) => (int8[N] y) { a = Abs(x) b = Add(a, x) y = Neg(b) }", x=x)
    np.testing.assert_array_equal(got, -(np.abs(x) + x))


@pytest.mark.parametrize(("number", "dtype"), [(5, np.int16), (4, np.uint16)])
def test_casts_to_16_bits_wrap_around(number, dtype):
    got = run(f"g (int32[N] x) => (int32[N] y) {{ w = Neg(x) n = Cast<to = {number}>(w) y = Cast<to = 6>(n) }}", x=X)
    np.testing.assert_array_equal(got, (-X).astype(dtype).astype(np.int32))


@pytest.mark.parametrize(("name", "dtype"), [("uint8", np.uint8), ("uint16", np.uint16)])
@pytest.mark.parametrize(("direction", "function"), [("LEFT", np.left_shift), ("RIGHT", np.right_shift)])
def test_narrow_shifts(name, dtype, direction, function):
    x, n = X.astype(dtype), (Y % 8).astype(dtype)
    body = f'g ({name}[N] x, {name}[N] n) => ({name}[N] y) {{ w = Add(x, x) y = BitShift <direction = "{direction}"> (w, n) }}'
    np.testing.assert_array_equal(run(body, x=x, n=n), function(x + x, n))


@pytest.mark.parametrize(
    ("name", "dtype"), [("int8", np.int8), ("uint8", np.uint8), ("int16", np.int16), ("uint16", np.uint16)]
)
def test_narrow_integers_are_divided_exactly(name, dtype):
    x, y = X.astype(dtype), (Y % 100 + 1).astype(dtype)
    body = f"g ({name}[N] x, {name}[N] y) => ({name}[N] z) {{{{ w = Add(x, x) z = {{}} }}}}"
    a, b = (x + x).astype(np.int32), y.astype(np.int32)
    quotient = (np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)).astype(dtype)
    np.testing.assert_array_equal(run(body.format("Div(w, y)"), x=x, y=y), quotient)
    np.testing.assert_array_equal(run(body.format("Mod(w, y)"), x=x, y=y), np.mod(a, b).astype(dtype))


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_casts_to_bfloat16_round_to_nearest(scale):
    random = np.random.default_rng(0).standard_normal(2000)
    ties = np.arange(0x3F80, 0x4080, dtype=np.uint32) << 16 | 0x8000
    x = np.concatenate([random * scale, ties.view(np.float32), [np.inf, -np.inf, np.nan, 0, -0.0]]).astype(np.float32)
    got = run("g (float[N] x) => (float[N] y) { w = Neg(x) b = Cast<to = 16>(w) y = Cast<to = 1>(b) }", x=x)
    np.testing.assert_array_equal(got, (-x).astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize("scale", [1e-7, 1e-5, 1.0, 1e4])
def test_casts_to_float16_and_back_round_to_nearest(scale):
    random = np.random.default_rng(0).standard_normal(2000) * scale
    numbers = np.arange(0, 0x7C00, 7, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (numbers[1:] + numbers[:-1]) / 2
    x = np.concatenate([random, numbers, -ties, [65519, 65520, -65520, 3e38, np.inf, -np.inf, np.nan, 0, -0.0]]).astype(
        np.float32
    )
    got = run("g (float[N] x) => (float[N] y) { w = Neg(x) h = Cast<to = 10>(w) y = Cast<to = 1>(h) }", x=x)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, (-x).astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("count", [1, 3, 20, 50])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("name", "dtype"), [("float", np.float32), ("int32", np.int32)])
def test_of_equal_elements_the_first_comes_first(count, largest, name, dtype):
    x = np.random.default_rng(0).integers(-4, 4, (50, 4)).astype(dtype) * dtype(2**25)
    inputs = f"{name}[N, 4] x" if count == 20 else f"{name}[50, 4] x"
    constants = f"k = Constant <value = int64[1] {{{count}}}> () m = Identity(x)"
    body = f"{constants} v, i = TopK <axis = 0, largest = {largest}> (m, k) z = GatherElements <axis = 0> (x, i) d = Sub(v, z)"
    got = run(
        f"g ({inputs}) => (int32[{count}, 4] y) {{ {body} w = Cast <to = 6> (d) j = Cast <to = 6> (i) y = Add(w, j) }}",
        x=x,
    )
    np.testing.assert_array_equal(got, np.argsort(-x if largest else x, axis=0, kind="stable")[:count])


@pytest.mark.parametrize("length", [1, 46340, 46341, 100_000])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("largest", [0, 1])
def test_of_equal_elements_of_long_axes_the_first_comes_first(length, is_known, largest):
    x = np.random.default_rng(0).integers(0, length // 50 + 2, length).astype(np.int32)
    body = f"m = Identity(x) k = Shape(x) v, i = TopK <largest = {largest}> (m, k) y = Cast <to = 6> (i)"
    got = run(f"g (int32[{length if is_known else 'N'}] x) => (int32[M] y) {{ {body} }}", x=x)
    np.testing.assert_array_equal(got, np.argsort(-x if largest else x, kind="stable"))


def test_long_axes_beyond_that_are_sorted():
    x = np.random.default_rng(0).permutation(1_664_511).astype(np.int32)
    body = "m = Identity(x) k = Shape(x) v, i = TopK <largest = 0> (m, k) y = Cast <to = 6> (i)"
    np.testing.assert_array_equal(run(f"g (int32[N] x) => (int32[M] y) {{ {body} }}", x=x), np.argsort(x))


def test_small_results_of_erf_are_accurate():
    x = np.concatenate([np.geomspace(1e-20, 3, 200), -np.geomspace(1e-20, 3, 200), [0, np.inf]]).astype(np.float32)
    got = run("g (float[N] x) => (float[N] y) { y = Erf(x) }", x=x)
    np.testing.assert_allclose(got, [math.erf(value) for value in x], rtol=2e-6)


def test_remainders_by_infinity_are_the_dividend():
    dividends, divisors = np.array([0, -2.5, 3, np.inf, np.nan], np.float32), np.array([np.inf, -np.inf, 2], np.float32)
    x, y = (grid.reshape(-1) for grid in np.meshgrid(dividends, divisors))
    with np.errstate(invalid="ignore"):
        want = np.fmod(x, y)
    np.testing.assert_array_equal(
        run("g (float[N] x, float[N] y) => (float[N] z) { z = Mod <fmod = 1> (x, y) }", x=x, y=y), want
    )


def transform(opset: int, axis: int | None, **attributes: int) -> str:
    """A call of DFT of x along an axis, or along that of the standard."""
    if axis is not None and opset < 20:
        attributes["axis"] = axis
    shown = ", ".join(f"{name} = {number}" for name, number in attributes.items())
    operands = "x, , a" if axis is not None and opset >= 20 else "x"
    constant = f"a = Constant <value = int64 {{{axis}}}> () " if "a" in operands else ""
    return f"{constant}y = DFT {f'<{shown}> ' if shown else ''}({operands})"


@pytest.mark.parametrize("opset", [18, 20, 23])
@pytest.mark.parametrize("axis", [0, 1, 2, -2, -3, -4, None])
@pytest.mark.parametrize("one_sided", [False, True])
def test_transforms_go_along_any_axis(opset, axis, one_sided):
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 1)).astype(np.float32)
    taken = axis if axis is not None else 1 if opset < 20 else -2
    want = (np.fft.rfft if one_sided else np.fft.fft)(x[..., 0], axis=taken % 4)
    shape = ",".join(map(str, want.shape))
    call = transform(opset, axis, **({"onesided": 1} if one_sided else {}))
    got = run(f"g (float[2,3,5,1] x) => (float[{shape},2] y) {{ {call} }}", opset=opset, x=x)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], want, atol=1e-5)


@pytest.mark.parametrize("opset", [18, 20])
@pytest.mark.parametrize(("length", "shape"), [(256, "B, 256, 1"), (7, "B, T, 1"), (8, "B, T, 1"), (1, "B, T, 1")])
def test_the_transform_of_one_side_is_the_half_of_both(opset, length, shape):
    x = np.random.default_rng(0).standard_normal((2, length, 1)).astype(np.float32)
    result = f"B, {length // 2 + 1 if '256' in shape else 'K'}, 2"
    got = run(f"g (float[{shape}] x) => (float[{result}] y) {{ {transform(opset, 1, onesided=1)} }}", opset=opset, x=x)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], np.fft.rfft(x[..., 0]), atol=1e-4)


@pytest.mark.parametrize("axis", [0, -2])
def test_a_signal_by_itself_is_transformed(axis):
    x = np.random.default_rng(0).standard_normal((7, 2)).astype(np.float32)
    got = run(f"g (float[7,2] x) => (float[7,2] y) {{ {transform(20, axis)} }}", x=x)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], np.fft.fft(x[:, 0] + 1j * x[:, 1]), atol=1e-5)


@pytest.mark.parametrize(
    ("operands", "axis", "shape"),
    [("x", 1, (4, 7, 3, 2)), ("x, l", 1, (4, 5, 3, 2)), ("x", 0, (4, 7, 3, 2)), ("x", 2, (4, 7, 3, 2)), ("x, l", 2, (4, 7, 5, 2))],
)  # fmt: skip
def test_both_sides_have_the_length_of_the_signal(operands, axis, shape):
    length = 5 if "l" in operands else (4, 7, 3)[axis]
    half = ",".join(str(length // 2 + 1 if i == axis else size) for i, size in enumerate((4, 7, 3, 2)))
    body = f"l = Constant <value = int64 {{5}}> () y = DFT <onesided = 1, axis = {axis}> ({operands})"
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 18]> g (float[4,7,3,1] x) => (float[{half}] y) {{ {body} }}'
    )
    model = ir.from_proto(proto)
    RepairsPass(TARGET)(model)
    (node,) = (node for node in model.graph if node.op_type == "DFT")
    assert node.outputs[0].shape == shape


def test_booleans_are_sorted():
    x = np.random.default_rng(0).random(9) < 0.5
    body = "k = Constant <value = int64[1] {9}> () b = Cast <to = 2> (x) v, i = TopK <largest = 0> (b, k) y = Cast <to = 9> (v)"
    np.testing.assert_array_equal(run(f"g (bool[9] x) => (bool[9] y) {{ {body} }}", x=x), np.sort(x))
