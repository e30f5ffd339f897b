"""Reductions and products of integers in other operators: the same numbers, along any axes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from jax2onnx_graph.legalise.kernels import KernelTable
from jax2onnx_graph.legalise.legalisation import Legalisation
from jax2onnx_graph.legalise.legalise_pass import LegalisePass
from jax2onnx_graph.legalise.reductions import accumulated, reduced_extreme, summed_products
from jax2onnx_graph.targets import standard_target

REWRITES = {
    "ReduceMax": reduced_extreme("ArgMax"), "ReduceMin": reduced_extreme("ArgMin"), "ReduceSum": accumulated("add"),
    "ReduceProd": accumulated("mul"), "MatMul": summed_products,
}  # fmt: skip
PASS = LegalisePass(
    standard_target,
    Legalisation(
        KernelTable({operator: {"13": {"T": "f32"}} for operator in REWRITES}),
        {operator: (rewrite, [ir.DataType.INT64]) for operator, rewrite in REWRITES.items()},
        lambda key, magnitude: key == "MatMul" and magnitude.fits_byte,
    ),
)
RANDOM = np.random.default_rng(0)


def run(model: ir.Model, feeds: dict[str, np.ndarray]) -> np.ndarray:
    return ort.InferenceSession(ir.to_proto(model).SerializeToString()).run(None, feeds)[0]


def operators_and_numbers(inputs: str, body: str, *arrays: np.ndarray, known: str = "") -> list[str]:
    """The operators of the rewritten model, which gives the numbers of the model as it was."""
    text = f'<ir_version: 10, opset_import: ["" : 23]> g ({inputs}) => (int64 y) {known} {{ {body} }}'
    model = ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)))
    model.graph.outputs[0].shape = None
    feeds = {str(value.name): array for value, array in zip(model.graph.inputs, arrays, strict=True)}
    want = run(model, feeds)
    PASS(model)
    got = run(model, feeds)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    return [node.op_type for node in model.graph]


@pytest.mark.parametrize("operator", [name for name in REWRITES if name != "MatMul"])
@pytest.mark.parametrize(
    ("axes", "options"),
    [
        (None, ""), (None, "<keepdims = 0>"), (None, "<noop_with_empty_axes = 1>"), ([], ""), ([], "<keepdims = 0>"), ([0], ""), ([1], "<keepdims = 0>"), ([-1], ""), ([-3, 2], "<keepdims = 0>"), ([0, 1, 2], ""),
        ([], "<noop_with_empty_axes = 1>"), ([], "<noop_with_empty_axes = 1, keepdims = 0>"),
    ],
)  # fmt: skip
def test_a_reduction_gives_the_same_numbers(operator, axes, options):
    known = f"<int64[{len(axes)}] a = {{{', '.join(map(str, axes))}}}>" if axes is not None else ""
    body = f"y = {operator}{options}(x{', a' if axes is not None else ''})"
    assert operator not in operators_and_numbers("int64[2,3,4] x", body, RANDOM.integers(-9, 9, (2, 3, 4)), known=known)


@pytest.mark.parametrize("operator", [name for name in REWRITES if name != "MatMul"])
def test_a_reduction_along_axes_that_are_computed_stays(operator):
    x = RANDOM.integers(-9, 9, (2, 3))
    assert operator in operators_and_numbers("int64[2,3] x, int64[1] a", f"y = {operator}(x, a)", x, np.array([1]))


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 1, 3), (1, 3, 4)),
        ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)), ((1,), (1, 1)),
    ],
)  # fmt: skip
def test_a_matrix_product_gives_the_same_numbers(shapes):
    inputs = ", ".join(f"int64{list(shape)} {name}" for shape, name in zip(shapes, "xz", strict=True))
    operators = operators_and_numbers(inputs, "y = MatMul(x, z)", *(RANDOM.integers(-9, 9, shape) for shape in shapes))
    assert operators[:3] == ["Unsqueeze", "Unsqueeze", "Mul"]
    assert "ReduceSum" not in operators, "what is written is legalised, too"


@pytest.mark.parametrize(("largest", "stays"), [(255, True), (256, False)])
def test_a_product_of_numbers_that_are_small_enough_stays(largest, stays):
    known = f"<int64[2,2] c = {{1, 2, 3, {largest}}}>"
    operators = operators_and_numbers("int64[2,2] x", "y = MatMul(c, c)", RANDOM.integers(-9, 9, (2, 2)), known=known)
    assert (operators == ["MatMul"]) == stays
