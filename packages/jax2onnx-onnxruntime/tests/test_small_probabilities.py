"""Logarithms and reciprocals of small probabilities: the model, and what ONNX Runtime makes of it."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_onnxruntime._small_probabilities import SmallProbabilitiesPass

FORMULA = ["Neg", "Exp", "Add", "Reciprocal"]
X = np.array([-80, -40, -20, -18.5, -17, -16, -12, -9, -1, 0, 2, 12, np.nan, -np.inf, np.inf], np.float32)

#: What is made of `p = Sigmoid(x)`, as ONNX text, and whether the relative precision of `p` counts there.
READERS = {
    "y = Log(p)": True,
    "y = Reciprocal(p)": True,
    "y = Div(x, p)": True,
    "y = Div(p, x)": True,
    "y = Div(p, k)": False,
    "q = Div(p, k) y = Log(q)": True,
    "y = Mul(p, x)": False,
    "q = Mul(p, x) y = Log(q)": False,
    "q = Mul(p, c) y = Log(q)": True,
    "y = Sqrt(p)": True,
    "y = Pow(p, c)": True,
    "y = Pow(p, k)": False,
    "y = Pow(p, half)": True,
    "y = Pow(k, p)": False,
    "q = Pow(p, k) y = Log(q)": True,
    "y = ArgMax(p)": True,
    "y = ArgMin(p)": True,
    "y, i = TopK(p, one)": True,
    "q = ReduceSum(p) y = Div(p, q)": True,
    "q = CumSum(p, one) y = Log(q)": True,
    "y = Greater(p, x)": True,
    "y = Greater(p, k)": False,
    "y = Greater(p, small)": True,
    "y = LessOrEqual(small, p)": True,
    "y = LessOrEqual(k, p)": False,
    "y = Equal(p, x)": True,
    "q = Sub(c, p) y = Log(q)": True,
    "q = Clip(p, c) y = Log(q)": True,
    "q = Where(m, p, c) y = Log(q)": True,
    "q = Neg(p) r = Exp(q) y = Log(r)": False,
    "a = Neg(p) b = Neg(a) d = Neg(b) e = Neg(d) f = Neg(e) g = Neg(f) y = Log(g)": True,
    "a = Neg(p) b = Neg(a) d = Neg(b) e = Neg(d) f = Neg(e) g = Neg(f) h = Neg(g) y = Log(h)": False,
    "y = Add(p, x)": False,
}


def _operators(readers: str, dtype: str = "float") -> list[str]:
    number = "double" if dtype == "double" else "float"
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
    g ({dtype}[3] x, {dtype} c, bool m) => ({dtype}[3] y)
    <{number} k = {{1}}, {number} half = {{0.5}}, {number} small = {{0.00099}}, int64[1] one = {{1}}> {{ p = Sigmoid(x) {readers} }}"""
    model = ir.from_onnx_text(text)
    for node in model.graph:
        node.outputs[0].type = model.graph.inputs[0].type
    SmallProbabilitiesPass()(model)
    return [node.op_type for node in model.graph]


@pytest.mark.parametrize("readers", READERS)
def test_where_small_results_count_the_formula_stands(readers: str) -> None:
    assert (_operators(readers)[:4] == FORMULA) == READERS[readers]
    assert ("Sigmoid" in _operators(readers)) != READERS[readers]


@pytest.mark.parametrize(("dtype", "formula"), [("float", FORMULA), ("double", FORMULA), ("float16", ["Sigmoid"])])
def test_the_kernel_of_half_precision_is_exact(dtype: str, formula: list[str]) -> None:
    assert _operators("y = Log(p)", dtype) == [*formula, "Log"]


def test_logarithms_of_probabilities_in_double_precision() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.log(jax.nn.sigmoid(x))

    x = np.array([-700, -80, -38, -36, -20, -9, 0, 30], np.float64)
    with jax.enable_x64(True):
        np.testing.assert_allclose(to_onnx(fn, [x], x64=True)(x), jax.jit(fn)(x), rtol=1e-14)


def test_a_probability_that_a_branch_inverts() -> None:
    def inverted(x: jax.Array, flag: jax.Array) -> jax.Array:
        p = jax.nn.sigmoid(x)
        return jax.lax.cond(flag, lambda: jnp.log(p), lambda: p)

    program = to_onnx(inverted, [X, np.array(True)])
    np.testing.assert_allclose(program(X, np.array(True)), jnp.log(jax.nn.sigmoid(X)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.log(jax.nn.sigmoid(x)),
        lambda x: jnp.log(1 / (1 + jnp.exp(-x))),
        lambda x: jnp.log(jnp.clip(jax.nn.sigmoid(x), 1e-7, 1 - 1e-7)),
        lambda x: jnp.log(1 - jax.nn.sigmoid(-x)),
        lambda x: jax.nn.sigmoid(x[:5]) / jax.nn.sigmoid(x[:5]).sum(),
        lambda x: jax.nn.sigmoid(x[:5]) / jnp.linalg.norm(1 / (1 + jnp.exp(-x[:5]))),
        lambda x: jnp.argsort(jax.nn.sigmoid(x[1:5])),
        lambda x: jax.nn.sigmoid(x[:5]) > jax.nn.sigmoid(x[:5] - 0.5),
        jax.vmap(jax.grad(lambda x: jnp.log(jax.nn.sigmoid(x)))),
        jax.vmap(jax.value_and_grad(lambda x: jnp.log(jnp.maximum(jax.nn.sigmoid(x), 1e-30)))),
    ],
    ids=[
        "log",
        "own formula",
        "clipped",
        "complement",
        "part of the sum",
        "part of the norm",
        "order",
        "comparison",
        "gradient",
        "maximum",
    ],
)
def test_logarithms_of_probabilities_are_those_of_jax(fn: Callable[[jax.Array], jax.Array]) -> None:
    got, want = jax.tree.leaves(to_onnx(fn, [("N",)])(X)), jax.tree.leaves(jax.jit(fn)(X))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
