"""Products of transposed matrices: the model, and what ONNX Runtime makes of it."""

from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_onnxruntime._fusions import TransposedProductsPass
from jax2onnx_onnxruntime.loading import load

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'


def _parsed(text: str) -> ir.Model:
    return ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(HEADER + text)))


def _rewritten(text: str) -> ir.Model:
    model = TransposedProductsPass()(_parsed(text)).model
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return model


def _operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


PLAIN = """agraph (float[4,5] x, float[4] v) => (float[5] y) {
    t = Transpose<perm = [1, 0]>(x)
    y = MatMul(t, v)
}"""


def test_a_transposed_matrix_loses_its_transposition():
    model = _rewritten(PLAIN)
    assert _operators(model) == ["MatMul"]
    assert [value.name for value in model.graph.node(0).inputs] == ["v", "x"]


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize(
    ("body", "shape", "permutation"),
    [
        ("y = MatMul(t, v)", (4, 4), (1, 0)),
        ("y = MatMul(t, v)", (3, 4, 4), (0, 2, 1)),
        ("y = MatMul(t, v)", (4, 4, 4), (2, 1, 0)),
        ("c = Cast<to = 1>(t)\n w = Cast<to = 1>(v)\n y = MatMul(c, w)", (4, 4), (1, 0)),
        ("y = MatMul(v, t)", (4, 4), (1, 0)),
    ],
)
def test_the_runtime_computes_the_product(
    element: str, body: str, shape: tuple[int, ...], permutation: tuple[int, ...]
):
    result = "float" if "Cast" in body else element
    dims = ",".join(map(str, shape))
    out = ",".join(map(str, shape[:-1]))
    body = f"t = Transpose<perm = {list(permutation)}>(x)\n {body}"
    text = f"agraph ({element}[{dims}] x, {element}[4] v) => ({result}[{out}] y) {{ {body} }}"
    model = _rewritten(text)
    dtype = {"float": np.float32, "double": np.float64}[element]
    random = np.random.default_rng(0)
    x, v = random.standard_normal(shape).astype(dtype), random.standard_normal(4).astype(dtype)
    transposed = np.transpose(x, permutation)
    expected = np.matmul(v, transposed) if "MatMul(v" in body else np.matmul(transposed, v)
    (got,) = load(model)({"x": x, "v": v})
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


BATCH = """agraph ({element}["B - 1",4,5] x, {element}[4,3] w) => ({element}["B - 1",5,3] y) {{
    t = Transpose<perm = [0, 2, 1]>(x)
    {body}
}}"""


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_batch_of_transposed_matrices_may_be_empty(element: str, size: int):
    model = _rewritten(BATCH.format(element=element, body="y = MatMul(t, w)"))
    assert _operators(model) == ["Transpose", "Unsqueeze", "Squeeze", "MatMul"]
    dtype = {"float": np.float32, "double": np.float64}[element]
    random = np.random.default_rng(0)
    x, w = random.standard_normal((size, 4, 5)).astype(dtype), random.standard_normal((4, 3)).astype(dtype)
    (got,) = load(model)({"x": x, "w": w})
    np.testing.assert_allclose(got, np.swapaxes(x, 1, 2) @ w, rtol=1e-5, atol=1e-5)


def test_a_batch_that_is_never_empty_is_left_as_it_is():
    text = BATCH.format(element="float", body="y = MatMul(t, w)").replace('"B - 1"', "B")
    assert _operators(_rewritten(text)) == ["Transpose", "MatMul"]


def _half_product(permutation: Sequence[int], other: int, body: str) -> tuple[str, list[int]]:
    """A product of a Transpose t with w, a tensor of ones of `other` axes on its right or left, and the shape of x."""
    rows = [2, 3, 4, 5][-len(permutation) :]
    shape = [rows[permutation.index(axis)] for axis in range(len(rows))]
    is_left = "w, t" in body
    batch = [*[1] * (other - len(rows)), *rows[:-2][max(len(rows) - other, 0) :]] if other > 2 else []
    ones = [*batch, *([6, rows[-2]] if is_left else [rows[-1], 6])] if other > 1 else [rows[-2 if is_left else -1]]
    return (
        f"agraph (float16{shape} x, float16{ones} w) => (float16[{','.join('abcd'[: max(len(rows), other) - (other == 1)])}] y) "
        f"{{ t = Transpose<perm = {list(permutation)}>(x) {body} }}"
    ), shape


@pytest.mark.parametrize(
    "body",
    [
        "y = MatMul(t, w)",
        "y = MatMul(w, t)",
        "a = Cast<to = 1>(t) b = Cast<to = 1>(w) c = MatMul(a, b) y = Cast<to = 10>(c)",
    ],
)
@pytest.mark.parametrize("other", [1, 2, 3, 4])
@pytest.mark.parametrize("permutation", [(1, 0, 2), (1, 2, 0), (0, 2, 1), (1, 2, 3, 0), (0, 2, 1, 3)])
def test_products_in_half_precision_can_be_loaded(permutation: tuple[int, ...], other: int, body: str):
    text, shape = _half_product(permutation, other, body)
    model = _rewritten(text)
    w = np.ones((model.graph.inputs[1].shape or ir.Shape([])).numpy(), np.float16)
    x = np.random.default_rng(0).integers(-4, 4, shape).astype(np.float16)
    (result,) = load(model)({"x": x, "w": w})
    t = np.transpose(x, permutation)
    np.testing.assert_array_equal(result, w @ t if "w, t" in body else t @ w, strict=True)


@pytest.mark.parametrize("rows", ["5", "B"])
@pytest.mark.parametrize("permutation", ["1, 0, 2", "1, 2, 0"])
def test_products_in_half_precision_with_a_weight_can_be_loaded(permutation: str, rows: str):
    model = _rewritten(f"""agraph (float16[4,{rows},4] x) => (float16[{rows},4,2] y) <float16[4,2] w = {{{",".join(["15360"] * 8)}}}> {{
        t = Transpose<perm = [{permutation}]>(x)
        y = MatMul(t, w)
    }}""")
    x = np.random.default_rng(0).integers(-4, 4, (4, 5, 4)).astype(np.float16)
    transposed = np.transpose(x, [int(axis) for axis in permutation.split(", ")])
    np.testing.assert_array_equal(load(model)({"x": x})[0], np.repeat(transposed.sum(-1, keepdims=True), 2, -1))


@pytest.mark.parametrize(("permutation", "other"), [((0, 2, 1), 4), ((0, 1, 3, 2), 3), ((0, 1, 3, 2), 2), ((1, 0), 3)])
def test_products_in_half_precision_whose_batch_stays_are_left(permutation: tuple[int, ...], other: int):
    text, _ = _half_product(permutation, other, "y = MatMul(t, w)")
    assert _operators(_rewritten(text)) == ["Transpose", "MatMul"]


def test_the_product_of_two_vectors_is_left():
    text = "agraph (float[4] x, float[4] v) => (float y) { t = Transpose<perm = [0]>(x) y = MatMul(t, v) }"
    model = _rewritten(text)
    assert [value.name for value in model.graph.node(1).inputs] == ["t", "v"]
    assert not TransposedProductsPass()(model).modified


def test_what_stands_apart_is_a_change():
    assert TransposedProductsPass()(_parsed(BATCH.format(element="float", body="y = MatMul(t, w)"))).modified


def test_products_in_half_precision_of_as_many_axes_are_left():
    text, _ = _half_product((1, 0, 2), 3, "y = MatMul(t, w)")
    assert _operators(_rewritten(text)) == ["Transpose", "MatMul"]


@pytest.mark.parametrize("scaled", ["Mul(t, c)", "Div(t, c)", "Mul(c, t)"])
def test_a_factor_between_the_transposition_and_the_product(scaled: str):
    model = _rewritten(f"""agraph (float[2,5,3] x, float[5] v) => (float[2,3] y) <float[1] c = {{2}}> {{
        t = Transpose<perm = [0, 2, 1]>(x)
        s = {scaled}
        y = MatMul(s, v)
    }}""")
    random = np.random.default_rng(0)
    x, v = random.standard_normal((2, 5, 3)).astype(np.float32), random.standard_normal(5).astype(np.float32)
    factor = 0.5 if "Div" in scaled else 2.0
    np.testing.assert_allclose(
        load(model)({"x": x, "v": v})[0], factor * np.swapaxes(x, 1, 2) @ v, rtol=1e-5, atol=1e-6
    )


def test_products_of_bfloat16_behind_a_cast_can_be_loaded():
    model = _rewritten("""agraph (float[3,2,5] x, float[3,4] w) => (float[2,5,4] y) {
        b = Cast<to = 16>(x)
        t = Transpose<perm = [1, 2, 0]>(b)
        c = Cast<to = 1>(t)
        y = MatMul(c, w)
    }""")
    x = np.random.default_rng(0).integers(-4, 4, (3, 2, 5)).astype(np.float32)
    (result,) = load(model)({"x": x, "w": np.ones((3, 4), np.float32)})
    np.testing.assert_array_equal(result, np.repeat(x.sum(0)[..., None], 4, -1))


def test_a_number_in_another_type_is_no_transposed_matrix():
    text = """agraph (float[1,4] x) => (float[1,4] y) <bfloat16[1,1] c = {2}> {
        m = Cast<to = 1>(c)
        y = MatMul(m, x)
    }"""
    assert _operators(_rewritten(text)) == ["Cast", "MatMul"]
