"""Products of transposed matrices: the model, and what ONNX Runtime makes of it."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_onnxruntime._fusions import TransposedProductsPass
from jax2onnx_onnxruntime.loading import load

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'


def _rewritten(text: str) -> ir.Model:
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(HEADER + text))
    model = TransposedProductsPass()(ir.from_proto(proto)).model
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
    assert _operators(model) == ["Transpose", "Reshape", "MatMul"]
    dtype = {"float": np.float32, "double": np.float64}[element]
    random = np.random.default_rng(0)
    x, w = random.standard_normal((size, 4, 5)).astype(dtype), random.standard_normal((4, 3)).astype(dtype)
    (got,) = load(model)({"x": x, "w": w})
    np.testing.assert_allclose(got, np.swapaxes(x, 1, 2) @ w, rtol=1e-5, atol=1e-5)


def test_a_batch_that_is_never_empty_is_left_as_it_is():
    text = BATCH.format(element="float", body="y = MatMul(t, w)").replace('"B - 1"', "B")
    assert _operators(_rewritten(text)) == ["Transpose", "MatMul"]


@pytest.mark.parametrize("permutation", [(1, 0, 2), (1, 2, 0), (0, 2, 1), (1, 2, 3, 0), (0, 2, 1, 3)])
def test_products_in_half_precision_can_be_loaded(permutation: tuple[int, ...]):
    rows = [2, 3, 4, 5][: len(permutation)]
    shape = [rows[permutation.index(axis)] for axis in range(len(rows))]
    dims, out = (",".join(map(str, d)) for d in (shape, (*rows[:-1], 1)))
    ones = ", ".join(["15360"] * rows[-1])  # the parser takes the bits
    text = f"""agraph (float16[{dims}] x) => (float16[{out}] y)
    <float16[{rows[-1]},1] w = {{{ones}}}> {{
        t = Transpose<perm = {list(permutation)}>(x)
        y = MatMul(t, w)
    }}"""
    x = np.random.default_rng(0).integers(-4, 4, shape).astype(np.float16)
    (result,) = load(_rewritten(text))({"x": x})
    np.testing.assert_array_equal(result, np.transpose(x, permutation).sum(axis=-1, keepdims=True))


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
