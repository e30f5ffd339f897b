"""Operators on every element type, legalised and run, against NumPy on the same type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_onnxruntime import LegalisePass, load

BOOL = [np.bool_]
SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
FLOAT8 = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz]
INT4 = [ml_dtypes.int4, ml_dtypes.uint4]
INTEGERS = [*SIGNED, *UNSIGNED]
NUMBERS = [*INTEGERS, *FLOATS]
ALL = [*BOOL, *NUMBERS, *FLOAT8, *INT4]


def operand(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    """Values over the whole range of the type, its extremes, and NaN and infinities where it has them."""
    dtype, random = np.dtype(dtype), np.random.default_rng(seed)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        values = random.integers(info.min, info.max, shape, dtype, endpoint=True)
        values.flat[:2] = info.min, info.max
        return values
    if dtype in INT4:
        narrow = ml_dtypes.iinfo(dtype)
        return random.integers(int(narrow.min), int(narrow.max) + 1, shape).astype(dtype)
    values = random.standard_normal(shape).astype(dtype)
    values.flat[:3] = np.array([np.nan, -0.0, np.inf]).astype(dtype)
    return values


def run(node: str, inputs: dict[str, np.ndarray], dtype: Any, output: Any = None, opset: int = 23) -> np.ndarray:
    """One node given as text (`"y = Add(a, b)"`) on the inputs, legalised. The input `x` is a constant: axes."""
    inputs = dict(inputs)
    axes = inputs.pop("x", None)
    constant = "" if axes is None else f"<int64[{axes.size}] x = {{{','.join(map(str, axes))}}}>"
    names = {n: ir.DataType.from_numpy(a.dtype).name.lower() for n, a in inputs.items()}
    formal = ", ".join(f"{names[n]}[{','.join(map(str, a.shape))}] {n}" for n, a in inputs.items())
    result = ir.DataType.from_numpy(np.dtype(output or dtype)).name.lower()
    text = f'<ir_version: 10, opset_import: ["" : {opset}]> g ({formal}) => ({result} y) {constant} {{ {node} }}'
    model = ir.from_onnx_text(text)
    model.graph.outputs[0].shape = None
    if "topk" in node.lower():
        model.graph[0].outputs[1].type = ir.TensorType(ir.DataType.INT64)
    return load(LegalisePass()(model).model)(inputs)[0]


def assert_same(got: np.ndarray, want: np.ndarray, ulps: int = 0) -> None:
    assert got.dtype == want.dtype
    if ulps == 0:
        wide = np.float64 if want.dtype.kind in "fV" else want.dtype
        np.testing.assert_array_equal(got.astype(wide), want.astype(wide))
    else:
        eps = float(ml_dtypes.finfo(want.dtype).eps)
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=ulps * eps, atol=ulps * eps)


def wide(array: np.ndarray) -> np.ndarray:
    """In a type that NumPy moves around reliably."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


BINARY: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "Add": (np.add, NUMBERS),
    "Sub": (np.subtract, NUMBERS),
    "Mul": (np.multiply, NUMBERS),
    "Max": (np.maximum, [*NUMBERS, *BOOL, *FLOAT8]),
    "Min": (np.minimum, [*NUMBERS, *BOOL, *FLOAT8]),
    "BitwiseAnd": (np.bitwise_and, INTEGERS),
    "BitwiseXor": (np.bitwise_xor, INTEGERS),
}
COMPARISONS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "Less": (np.less, [*NUMBERS, *FLOAT8]),
    "GreaterOrEqual": (np.greater_equal, [*NUMBERS, *FLOAT8]),
    "Equal": (np.equal, [*NUMBERS, *BOOL, *FLOAT8]),
}
UNARY: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "Neg": (np.negative, NUMBERS),
    "Abs": (np.abs, NUMBERS),
    "Sign": (np.sign, NUMBERS),
    "Floor": (np.floor, FLOATS),
    "Sqrt": (np.sqrt, FLOATS),
    "Identity": (np.copy, ALL),
}


@pytest.mark.parametrize("dtype", [*NUMBERS, *BOOL, *FLOAT8], ids=lambda d: np.dtype(d).name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_binary_operators(dtype):
    a, b = operand((4, 5), dtype, 1), operand((4, 5), dtype, 2)[::-1].copy()
    for name, (function, dtypes) in BINARY.items():
        if dtype in dtypes:
            got, want = run(f"y = {name}(a, b)", {"a": a, "b": b}, dtype), function(a, b)
            assert_same(got, want.astype(dtype), ulps=0)


@pytest.mark.parametrize("dtype", [*NUMBERS, *BOOL, *FLOAT8], ids=lambda d: np.dtype(d).name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_comparisons(dtype):
    a, b = operand((4, 5), dtype, 1), operand((4, 5), dtype, 2)
    for name, (function, dtypes) in COMPARISONS.items():
        if dtype in dtypes:
            assert_same(run(f"y = {name}(a, b)", {"a": a, "b": b}, dtype, np.bool_), function(a, b))


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: np.dtype(d).name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_unary_operators(dtype):
    a = operand((4, 5), dtype, 1)
    for name, (function, dtypes) in UNARY.items():
        if dtype in dtypes:
            assert_same(run(f"y = {name}(a)", {"a": a}, dtype), np.asarray(function(a)).astype(dtype))


@pytest.mark.parametrize("dtype", [*INTEGERS], ids=lambda d: np.dtype(d).name)
def test_integer_division_and_shifts(dtype):
    a = operand((20,), dtype, 1)
    b = np.where(operand((20,), dtype, 2) == 0, 1, operand((20,), dtype, 2))
    b[b == np.array(-1).astype(dtype)] = 3
    quotient = _truncated(a, b)
    assert_same(run("y = Div(a, b)", {"a": a, "b": b}, dtype), quotient)
    if dtype in UNSIGNED:
        shift = (np.arange(20) % (8 * a.itemsize)).astype(dtype)
        assert_same(run('y = BitShift<direction="LEFT">(a, b)', {"a": a, "b": shift}, dtype), a << shift)
        assert_same(run('y = BitShift<direction="RIGHT">(a, b)', {"a": a, "b": shift}, dtype), a >> shift)


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    exact = [
        abs(int(x)) // abs(int(y)) * (1 if (int(x) < 0) == (int(y) < 0) else -1) for x, y in zip(a, b, strict=True)
    ]
    return np.array(exact).astype(a.dtype)


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: np.dtype(d).name)
def test_movement(dtype):
    a, b = operand((4, 5), dtype, 1), operand((4, 5), dtype, 2)
    p = operand((4, 5), np.bool_, 3)
    index = np.array([3, 0, 3])
    shape, pads = np.array([2, 4, 5]), np.array([1, 0, 0, 2])
    fill = operand((5,), dtype, 4)[4].reshape(())

    def check(node: str, want: np.ndarray, **inputs: np.ndarray) -> None:
        assert_same(run(node, inputs, dtype), want.astype(dtype))

    check("y = Where(p, a, b)", np.where(p, wide(a), wide(b)), p=p, a=a, b=b)
    check("y = Gather(a, i)", a[index], a=a, i=index)
    check("y = Expand(a, s)", np.broadcast_to(a, (2, 4, 5)), a=a, s=shape)
    check("y = Pad(a, p, f)", np.pad(wide(a), ((1, 0), (0, 2)), constant_values=wide(fill)), a=a, p=pads, f=fill)
    check("y = Transpose(a)", wide(a).T, a=a)
    check("y = Concat<axis=0>(a, b)", np.concatenate([wide(a), wide(b)]), a=a, b=b)
    check("y = Trilu<upper=0>(a)", np.tril(wide(a)), a=a)
    check("y = Tile(a, r)", np.tile(wide(a), (2, 1)), a=a, r=np.array([2, 1]))
    check("y = GatherElements(a, i)", wide(a)[:1], a=a, i=np.zeros((1, 5), np.int64))
    check("y = ScatterND(a, i, u)", np.concatenate([wide(b)[:1], wide(a)[1:]]), a=a, i=np.array([[0]]), u=b[:1])
    check("y = Slice(a, s, e)", wide(a)[1:3], a=a, s=np.array([1]), e=np.array([3]))
    check("y = Reshape(a, s)", wide(a).reshape(5, 4), a=a, s=np.array([5, 4]))


@pytest.mark.parametrize("dtype", [*NUMBERS, *BOOL], ids=lambda d: np.dtype(d).name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_extremes(dtype):
    a, axes = operand((4, 5), dtype, 1), np.array([1])
    if dtype in FLOATS:
        a = np.nan_to_num(a.astype(np.float32), posinf=3).astype(dtype)
    check = {"ReduceMax<keepdims=0>(a, x)": wide(a).max(1), "ReduceMin<keepdims=0>(a, x)": wide(a).min(1)}
    for node, want in check.items():
        assert_same(run(f"y = {node}", {"a": a, "x": axes}, dtype), want.astype(dtype))
    if dtype in NUMBERS:
        assert_same(run("y = ArgMax<axis=1,keepdims=0>(a)", {"a": a}, dtype, np.int64), wide(a).argmax(1))
        largest = run("y, i = TopK(a, k)", {"a": a, "k": np.array([2])}, dtype)
        assert_same(largest, np.sort(wide(a))[:, :-3:-1].astype(dtype))
        low, high = np.sort(wide(a).reshape(-1))[[5, 14]].astype(dtype)
        clipped = run("y = Clip(a, l, h)", {"a": a, "l": np.array(low), "h": np.array(high)}, dtype)
        assert_same(clipped, np.clip(wide(a), wide(np.array(low)), wide(np.array(high))).astype(dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: np.dtype(d).name)
def test_integer_sums_wrap_around(dtype):
    a, b = operand((4, 5), dtype, 1), operand((5, 3), dtype, 2)
    axes = np.array([1])
    assert_same(run("y = ReduceSum<keepdims=0>(a, x)", {"a": a, "x": axes}, dtype), a.sum(1, dtype=dtype))
    assert_same(run("y = ReduceProd<keepdims=0>(a, x)", {"a": a, "x": axes}, dtype), a.prod(1, dtype=dtype))
    assert_same(run("y = CumSum(a, c)", {"a": a, "c": np.array(1)}, dtype), a.cumsum(1, dtype=dtype))
    assert_same(run("y = MatMul(a, b)", {"a": a, "b": b}, dtype), a @ b)
    index, updates = np.array([[0], [0]]), b.T[:2].copy()
    want = a.copy()
    np.add.at(want, [0, 0], updates)
    node = 'y = ScatterND<reduction="add">(a, i, u)'
    assert_same(run(node, {"a": a, "i": index, "u": updates}, dtype), want)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_float_functions(dtype):
    a = np.random.default_rng(0).uniform(0.1, 2, (4, 5)).astype(dtype)
    b = np.random.default_rng(1).uniform(-1, 1, (5, 3)).astype(dtype)
    x = a.astype(np.float64)
    assert_same(run("y = Exp(a)", {"a": a}, dtype), np.exp(x).astype(dtype), ulps=4)
    assert_same(run("y = Log(a)", {"a": a}, dtype), np.log(x).astype(dtype), ulps=4)
    assert_same(run("y = MatMul(a, b)", {"a": a, "b": b}, dtype), (x @ b.astype(np.float64)).astype(dtype), ulps=8)
    soft = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    assert_same(run("y = Softmax(a)", {"a": a}, dtype), soft.astype(dtype), ulps=4)
    assert_same(run("y = Div(a, b)", {"a": a, "b": a.T.reshape(4, 5)}, dtype), (x / x.T.reshape(4, 5)).astype(dtype))
    axes = np.array([1])
    assert_same(run("y = ReduceMean<keepdims=0>(a, x)", {"a": a, "x": axes}, dtype), x.mean(1).astype(dtype), ulps=4)


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(("axes", "expected"), [("", [2, 3]), ("<start=1>", [3]), ("<start=-2,end=1>", [2])])
def test_the_shape_of_an_input(dtype, axes, expected):
    a = np.zeros((2, 3), dtype)
    text = f"g ({ir.DataType.from_numpy(a.dtype).name.lower()}[M,N] a) => (int64[K] y) {{ y = Shape{axes}(a) }}"
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 23]> {text}')
    np.testing.assert_array_equal(load(LegalisePass()(model).model)({"a": a})[0], expected)


@pytest.mark.parametrize("dtype", [*NUMBERS, *BOOL, *FLOAT8], ids=lambda d: np.dtype(d).name)
def test_nonzero(dtype):
    a = np.array([0, 1, 0, 1, 1]).astype(dtype)
    if dtype in [*FLOATS, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]:
        a[0] = np.array(-0.0).astype(dtype)
    assert_same(run("y = NonZero(a)", {"a": a}, dtype, np.int64), np.array([[1, 3, 4]]))


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: np.dtype(d).name)
def test_a_chain_of_operators_on_a_constant_fill(dtype):
    shape = np.array([2, 3])
    element = ir.DataType.from_numpy(np.dtype(dtype))
    model = ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : 23]> g (int64[2] s) => ({element.name.lower()}[2,3] y) '
        "{ y = ConstantOfShape(s) }"
    )
    fill = ir.tensor(np.array([1]).astype(dtype))
    model.graph[0].attributes["value"] = ir.AttrTensor("value", fill)
    (got,) = load(LegalisePass()(model).model)({"s": shape})
    assert_same(got, np.ones((2, 3)).astype(dtype))
