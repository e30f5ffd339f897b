"""Models with low-rank products, as ONNX text around the formula, for the tests of adapters."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import ShapeInferencePass

MATRICES = {
    "w": (8, 6), "v": (8, 6), "a": (8, 2), "b": (2, 6), "a_t": (2, 8), "b_t": (6, 2), "a2": (8, 3), "b2": (3, 6), "bias": (6,), "half": (), "wide": (8, 9),
    "tall": (9, 6), "square": (8, 8), "b8": (2, 8), "b8_t": (8, 2),
}  # fmt: skip


#: Low-rank products with the matrices a and b, in all ways of writing them.
FOUND = {
    "a sum": "h = MatMul(x, w) p = MatMul(x, a) q = MatMul(p, b) y = Add(h, q)",
    "the other way round": "h = MatMul(x, w) p = MatMul(x, a) q = MatMul(p, b) y = Add(q, h)",
    "a bias before": "h0 = MatMul(x, w) h = Add(h0, bias) p = MatMul(x, a) q = MatMul(p, b) y = Add(h, q)",
    "scaled inside": "h = MatMul(x, w) p0 = MatMul(x, a) p = Mul(half, p0) q = MatMul(p, b) y = Add(h, q)",
    "divided outside": "h = MatMul(x, w) p = MatMul(x, a) q0 = MatMul(p, b) q = Div(q0, half) y = Add(h, q)",
    "scaled by an array of one number": "c = Constant<value = float[1, 1] {4}>() h = MatMul(x, w) p0 = MatMul(x, a) p = Mul(p0, c) q = MatMul(p, b) "
    "y = Add(h, q)",
    "scaled behind by equal numbers": "c = Constant<value = float[6] {4, 4, 4, 4, 4, 4}>() h = MatMul(x, w) p = MatMul(x, a) q0 = MatMul(p, b) "
    "q = Mul(q0, c) y = Add(h, q)",
    "transposed matrices": "h = MatMul(x, w) p = Gemm<transB=1>(x, a_t) q = Gemm<transB=1>(p, b_t) y = Add(h, q)",
    "from the left": "h = MatMul(x, w) p = Gemm<transA=1, transB=1>(a, x) q = Gemm<transA=1>(p, b) y = Add(h, q)",
    "a base with a bias inside": "h = Gemm(x, w, bias) p = MatMul(x, a) q = MatMul(p, b) y = Add(h, q)",
}

SCALES = {
    "scaled inside": 0.5,
    "scaled by an array of one number": 4.0,
    "scaled behind by equal numbers": 4.0,
    "divided outside": 2.0,
}


#: What only resembles one.
NOT_FOUND = {
    "a function between": "h = MatMul(x, w) p0 = MatMul(x, a) p = Relu(p0) q = MatMul(p, b) y = Add(h, q)",
    "a number for each of the rank": "c = Constant<value = float[2] {4, 4}>() h = MatMul(x, w) p0 = MatMul(x, a) p = Mul(p0, c) q = MatMul(p, b) "
    "y = Add(h, q)",
    "a divisor for each of the rank": "c = Constant<value = float[1, 2] {4, 4}>() h = MatMul(x, w) p0 = MatMul(x, a) p = Div(p0, c) "
    "q = MatMul(p, b) y = Add(h, q)",
    "divided by zero": "c = Constant<value = float {0}>() h = MatMul(x, w) p0 = MatMul(x, a) p = Div(p0, c) q = MatMul(p, b) y = Add(h, q)",
    "a number that is divided": "c = Constant<value = float {4}>() h = MatMul(x, w) p0 = MatMul(x, a) p = Div(c, p0) q = MatMul(p, b) y = Add(h, q)",
    "another activation": "z = Neg(x) h = MatMul(z, w) p = MatMul(x, a) q = MatMul(p, b) y = Add(h, q)",
    "no weight beside it": "p = MatMul(x, a) y = MatMul(p, b)",
    "a rank above the sizes": "h = MatMul(x, w) p = MatMul(x, wide) q = MatMul(p, tall) y = Add(h, q)",
    "a product that a sum repeats": "i = Constant<value = int64[1] {1}>() t = Constant<value = int64[3] {-1, 1, 6}>() h = MatMul(x, w) "
    "p = MatMul(x, a) q0 = MatMul(p, b) q = Reshape(q0, t) s = Add(h, q) y = ReduceSum<keepdims = 0>(s, i)",
    "a base that a sum repeats": "i = Constant<value = int64[1] {1}>() t = Constant<value = int64[3] {-1, 1, 6}>() h0 = MatMul(x, w) "
    "h = Reshape(h0, t) p = MatMul(x, a) q = MatMul(p, b) s = Add(h, q) y = ReduceSum<keepdims = 0>(s, i)",
    "integers between": "h0 = MatMul(x, w) h = Cast<to = 6>(h0) p = MatMul(x, a) q0 = MatMul(p, b) q = Cast<to = 6>(q0) s = Add(h, q) "
    "y = Cast<to = 1>(s)",
    "an activation that is rounded to integers": "i = Cast<to = 6>(x) r = Cast<to = 1>(i) h = MatMul(r, w) p = MatMul(x, a) q = MatMul(p, b) "
    "y = Add(h, q)",
    "a sum that is read twice": "h = MatMul(x, w) p = MatMul(x, a) q = MatMul(p, b) s = Add(h, q) y = Add(s, h)",
}


def matrix(name: str) -> np.ndarray:
    """The numbers of a matrix."""
    rng = np.random.default_rng(sum(map(ord, name)))
    return np.asarray(0.5, np.float32) if name == "half" else rng.normal(size=MATRICES[name]).astype(np.float32)


#: What only resembles one where the activation is as long as wide; each writes out [8, 8].
SQUARES = {
    "both from the left": "h = MatMul(x, square) p = MatMul(a_t, x) q = MatMul(b8_t, p) y = Add(h, q)",
    "a transposed activation": "h = MatMul(x, square) p = Gemm<transA = 1>(x, a) q = MatMul(p, b8) y = Add(h, q)",
    "a transposed result": "h = MatMul(x, square) p = MatMul(x, a) q = Gemm<transA = 1, transB = 1>(b8, p) y = Add(h, q)",
    "a transposed weight product": "h = Gemm<transA = 1>(x, square) p = MatMul(x, a) q = MatMul(p, b8) y = Add(h, q)",
}


def make_model(nodes: str, outputs: str = "float[N, 6] y", inputs: str = "float[N, 8] x") -> ir.Model:
    """`make_model("y = MatMul(x, w)")`: a model with the matrices that its nodes read."""
    model = ir.from_onnx_text(f'<ir_version: 9, opset_import: ["" : 20]> g ({inputs}) => ({outputs}) {{ {nodes} }}')
    for name in MATRICES:
        readers = [
            (node, i) for node in model.graph for i, v in enumerate(node.inputs) if v is not None and v.name == name
        ]
        if readers:
            tensor = ir.Tensor(matrix(name), name=name)
            value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
            for node, index in readers:
                node.replace_input_with(index, value)
            model.graph.register_initializer(value)
    ShapeInferencePass()(model)
    return model


#: Three rows of activations.
ROWS = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)


def run(model: ir.Model, **feeds: np.ndarray) -> np.ndarray:
    """The first output of a model for `ROWS`."""
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto)
    (first, *_) = ReferenceEvaluator(proto).run(None, {"x": ROWS, **feeds})
    return np.asarray(first)
