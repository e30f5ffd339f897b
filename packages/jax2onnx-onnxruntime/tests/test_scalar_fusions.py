"""Scalars next to operators that ONNX Runtime fuses: the model, and what every optimisation level makes of it."""

import itertools

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from jax2onnx_onnxruntime._neutral_constants import NeutralConstantsPass
from jax2onnx_onnxruntime._scalar_fusions import ScalarFusionsPass

LEVELS = [
    ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
]
HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'


def _model(text: str) -> ir.Model:
    return ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(HEADER + text)))


def _rewritten(text: str) -> ir.Model:
    model = ScalarFusionsPass()(NeutralConstantsPass()(_model(text)).model).model
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return model


def _operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def _results(model: ir.Model, x: np.ndarray) -> list[np.ndarray]:
    """The results of the model at each optimisation level."""
    results, content = [], ir.to_proto(model).SerializeToString()
    for level in LEVELS:
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        (result,) = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})
        results.append(result)
    return results


#: The body after `x`, and the same in NumPy.
FORMS = {
    "a = MatMul(x, x) y = Mul(a, c)": lambda x, c: (x @ x) * c,
    "a = MatMul(x, x) y = Mul(c, a)": lambda x, c: (x @ x) * c,
    "a = MatMul(x, x) y = Div(a, c)": lambda x, c: (x @ x) / c,
    "a = Mul(x, c) y = MatMul(a, x)": lambda x, c: (x * c) @ x,
    "a = Mul(c, x) y = MatMul(x, a)": lambda x, c: x @ (c * x),
    "a = Div(x, c) y = MatMul(a, x)": lambda x, c: (x / c) @ x,
    "a = Mul(x, c) b = Transpose(a) y = MatMul(x, b)": lambda x, c: x @ (x * c).T,
    "a = Mul(x, c) b = Transpose(a) d = Transpose(b) y = MatMul(d, x)": lambda x, c: (x * c) @ x,
    "a = Mul(x, c) b = MatMul(a, x) y = Add(a, b)": lambda x, c: x * c + (x * c) @ x,
    "a = Mul(x, c) b = Mul(a, h) y = MatMul(b, x)": lambda x, c: (x * c * 0.5) @ x,
    "a = MatMul(x, x) b = Mul(a, h) y = Mul(b, c)": lambda x, c: (x @ x) * 0.5 * c,
    "a = MatMul(x, x) b = Mul(a, c) y = MatMul(b, x)": lambda x, c: ((x @ x) * c) @ x,
    "a = Mul(x, c) b = Div(x, c) y = MatMul(a, b)": lambda x, c: (x * c) @ (x / c),
}
FACTORS = (1e-300, 1e-50, 1e-9, 0.1, 1 / 3, 1 + 1e-9, 1.0000000000000002, 3.0, -0.3, 1e19, 1e50, 1e300)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", ["[]", "[1]"])
def test_a_factor_of_doubles_keeps_its_precision(form: str, shape: str):
    x = np.random.default_rng(0).standard_normal((4, 4))
    for c in FACTORS:
        of_c = "double c" if shape == "[]" else "double[1] c"
        model = _rewritten(
            f"agraph (double[4,4] x) => (double[4,4] y) <{of_c} = {{{c!r}}}, double h = {{0.5}}> {{ {form} }}"
        )
        want = FORMS[form](x, c)
        for level, got in zip(LEVELS, _results(model, x), strict=True):
            np.testing.assert_allclose(
                got, want, rtol=1e-13, atol=1e-14 * np.abs(want).max(), err_msg=f"{c} at {level}"
            )


@pytest.mark.parametrize(
    ("body", "dims"), [("a = MatMul(x, x) y = Mul(a, c)", ""), ("a = Mul(x, c) y = MatMul(a, x)", "")]
)
def test_vectors_too(body: str, dims: str):
    x = np.random.default_rng(0).standard_normal(4)
    model = _rewritten(f"agraph (double[4] x) => (double{dims} y) <double c = {{0.1}}> {{ {body} }}")
    for got in _results(model, x):
        np.testing.assert_allclose(got, (x @ x) * 0.1, rtol=1e-14)


@pytest.mark.parametrize("c", [1e-30, 1e30])
def test_factors_of_float_that_meet_stay_in_range(c: float):
    text = f"agraph (float[4,4] x) => (float[4,4] y) <float c = {{{c!r}}}> {{ a = Mul(x, c) y = MatMul(a, a) }}"
    x = (np.random.default_rng(0).standard_normal((4, 4)) / np.float32(c)).astype(np.float32)
    for got in _results(_rewritten(text), x):
        np.testing.assert_allclose(got, (x * np.float32(c)) @ (x * np.float32(c)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("element", "c"), [("double", 0.125), ("double", 1024.0), ("double", -0.5), ("float", 0.1), ("float", 3e-5)]
)
def test_factors_that_fusions_keep_are_left_to_them(element: str, c: float):
    for body in ("a = MatMul(x, x) y = Mul(a, c)", "a = Mul(x, c) y = MatMul(a, x)"):
        model = _model(f"agraph ({element}[4,4] x) => ({element}[4,4] y) <{element} c = {{{c!r}}}> {{ {body} }}")
        assert not ScalarFusionsPass()(model).modified


#: Bodies in which the factor c meets itself: before one product, behind one, and by way of an operator that is looked through.
CHAINS = (
    "a = Mul(x, c) b = Mul(a, c) y = MatMul(b, x)",
    "a = MatMul(x, x) b = Mul(a, c) y = Mul(b, c)",
    "a = Div(x, c) b = Div(a, c) y = MatMul(b, x)",
    "a = Mul(x, c) b = Transpose(a) d = Mul(b, c) y = MatMul(d, x)",
    "a = Mul(x, c) b = Cast<to = 1>(a) d = Mul(b, c) y = MatMul(d, x)",
)


@pytest.mark.parametrize("body", CHAINS)
@pytest.mark.parametrize(
    ("c", "is_protected"), [(2.0**15, False), (2.0**16, True), (2.0**-17, False), (2.0**-18, True)]
)
def test_factors_that_meet_in_a_moderate_number_stay(body: str, c: float, is_protected: bool):
    model = _model(f"agraph (float[4,4] x) => (float[4,4] y) <float c = {{{c!r}}}> {{ {body} }}")
    assert ScalarFusionsPass()(model).modified == is_protected


@pytest.mark.parametrize("c", [3e9, 3e-9])
@pytest.mark.parametrize("before", [0, 1, 3, 5])
def test_five_factors_stay_in_range(before: int, c: float):
    calls = ["Mul(v, c)"] * before + ["MatMul(v, w)"] + ["Mul(v, c)"] * (5 - before)
    names = ["x", *(f"a{i}" for i in range(5)), "y"]
    body = " ".join(f"{names[i + 1]} = {call.replace('v', names[i])}" for i, call in enumerate(calls))
    x = (np.random.default_rng(0).random((4, 4)) + 0.5).astype(np.float32) / np.float32(c) ** 3
    eye = ", ".join(map(str, np.eye(4).reshape(-1)))
    text = f"agraph (float[4,4] x) => (float[4,4] y) <float c = {{{c!r}}}, float[4,4] w = {{{eye}}}> {{ {body} }}"
    for got in _results(_rewritten(text), x):
        np.testing.assert_allclose(got, x.astype(np.float64) * c**5, rtol=1e-4)


def test_a_factor_that_no_product_reads_stays():
    model = _model("agraph (double[4,4] x) => (double[4,4] y) <double c = {0.1}> { a = Mul(x, c) y = Exp(a) }")
    assert not ScalarFusionsPass()(model).modified


NORM = """q = Pow({0}, two) m = ReduceMean(q, last) e = Add(m, eps) s = Sqrt(e) o = Div({0}, s) y = Mul(o, w)"""
NORMS = {
    "rms": (NORM.format("x"), lambda x: x),
    "layer": ("n = ReduceMean(x, last) d = Sub(x, n) " + NORM.format("d"), lambda x: x - x.mean(1, keepdims=True)),
}


@pytest.mark.parametrize(("norm", "epsilon"), [*itertools.product(NORMS, (1e-3, 1e-5, 1e-8, 1e-12))])
def test_the_epsilon_of_a_norm_of_doubles_keeps_its_precision(norm: str, epsilon: float):
    body, centred = NORMS[norm]
    x = np.random.default_rng(0).standard_normal((4, 4)) * 1e-3
    constants = f"double eps = {{{epsilon!r}}}, double two = {{2}}, int64[1] last = {{1}}, double[4] w = {{1, 2, 3, 4}}"
    d = centred(x)
    want = d / np.sqrt((d * d).mean(1, keepdims=True) + epsilon) * np.array([1, 2, 3, 4])
    for got in _results(_rewritten(f"agraph (double[4,4] x) => (double[4,4] y) <{constants}> {{ {body} }}"), x):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(
    ("element", "low", "high"), [("double", "-1", "0.5"), ("double", "0.25", "0.5"), ("int8", "1", "3")]
)
def test_a_clip_after_a_relu_loads(element: str, low: str, high: str):
    constants = f"{element} low = {{{low}}}, {element} high = {{{high}}}"
    model = _rewritten(
        f"agraph ({element}[6] x) => ({element}[6] y) <{constants}> {{ a = Relu(x) y = Clip(a, low, high) }}"
    )
    assert _operators(model) == ["Clip"]
    dtype = np.dtype(np.float64 if element == "double" else np.int8)
    x = np.array([-2, -1, 0, 1, 2, 5]).astype(dtype)
    for got in _results(model, x):
        np.testing.assert_array_equal(got, np.clip(np.maximum(x, 0), dtype.type(float(low)), dtype.type(float(high))))


@pytest.mark.parametrize(
    "body", ["d = Div(c, x) y = Mul(x, d)", "d = Div(c, x) y = Mul(d, x)", "d = Div(c, x) y = Mul(d, d)"]
)
@pytest.mark.parametrize("added", [1, 2])
def test_a_reciprocal_keeps_the_axes_of_its_one(body: str, added: int):
    ones = ",".join("1" * (added + 1))
    text = f"agraph (float[3] x) => (float[{ones.removesuffix('1')}3] y) <float[{ones}] c = {{1}}> {{ {body} }}"
    x = np.array([1.0, 2.0, 4.0], np.float32)
    want = (1 / x * (1 / x if "d, d" in body else x)).reshape(*[1] * added, 3)
    for got in _results(_rewritten(text), x):
        np.testing.assert_array_equal(got, want, strict=True)


def test_a_quotient_outside_of_the_branch_of_its_product_is_left():
    branches = "then_branch = f () => (float[1,3] y0) { y0 = Mul(x, d) }, else_branch = g () => (float[1,3] y1) { y1 = Neg(d) }"
    model = _model(
        f"agraph (float[3] x) => (float[1,3] y) <float[1,1] c = {{1}}> {{ d = Div(c, x) s = ReduceMax<keepdims = 0>(x) p = IsNaN(s) "
        f"y = If(p) <{branches}> }}"
    )
    assert not ScalarFusionsPass()(model).modified


@pytest.mark.parametrize(("axes", "one", "result"), [("1", 1, "3"), ("1,1", 2, "1,3")])
def test_quotients_that_lose_no_axes_are_left(axes: str, one: int, result: str):
    model = _model(
        f"agraph (float[3] x) => (float[{result}] y) <float[{axes}] c = {{{one}}}> {{ d = Div(c, x) y = Mul(x, d) }}"
    )
    assert not ScalarFusionsPass()(model).modified
