"""Results of If in OpenVINO: which are copied, and that they are right beside larger values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax import lax, nn
from jax2onnx_core import to_onnx
from jax2onnx_openvino._branch_results import BranchResultsPass

SHAPE = (2, 8, 8, 3)
SYMBOLIC = ("B", 8, 8, 3)


def parse(text: str) -> ir.Model:
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def operators_of(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def pool(x, monoid, size=3):
    start, window = (-jnp.inf, lax.max) if monoid == "max" else (0.0, lax.add)
    return lax.reduce_window(x, start, window, (1, size, size, 1), (1, 1, 1, 1), "SAME")


def beside(function):
    """What a function gives, read by another operator, beside larger values of the same operand."""
    return lambda x: (
        jax.tree.map(lambda y: y * 2, function(x)), pool(x, "sum"), jnp.sin(jnp.concatenate([x] * 6, -1)) * 2
    )  # fmt: skip


def chosen(then, otherwise):
    """A branch, which the runs of these tests take."""
    return lambda x: lax.cond(jnp.abs(x[0, 0, 0, 0]) < 1e3, then, otherwise, x)


def inception(x):
    return jnp.concatenate([pool(x, "max"), pool(x, "sum") / 9, pool(x, "sum", 5) / 25, x], -1)


def by_steps(function):
    """A recurrent layer over the rows of pictures."""
    return lambda x: function(jnp.moveaxis(x.mean(2), 1, 0))


def lstm(x):
    kernel, recurrent = jnp.cos(jnp.arange(48.0)).reshape(3, 16), jnp.sin(jnp.arange(64.0)).reshape(4, 16)

    def step(state, row):
        h, c = state
        i, g, f, o = jnp.split(row @ kernel + h @ recurrent, 4, -1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[1], 4))
    return lax.scan(step, (zeros, zeros), x)


def gru(x):
    kernel, recurrent = jnp.cos(jnp.arange(36.0)).reshape(3, 12), jnp.sin(jnp.arange(48.0)).reshape(4, 12)

    def step(h, row):
        (z, r, n), (u, v, w) = jnp.split(row @ kernel, 3, -1), jnp.split(h @ recurrent, 3, -1)
        z, r = nn.sigmoid(z + u), nn.sigmoid(r + v)
        h = (1 - z) * jnp.tanh(n + r * w) + z * h
        return h, h

    return lax.scan(step, jnp.zeros((x.shape[1], 4)), x)


FUNCTIONS = {
    "a maximum beside a sum of windows": inception,
    "a maximum of windows": beside(lambda x: pool(x, "max")),
    "two maxima of windows": beside(lambda x: (pool(x, "max"), pool(x, "max", 2))),
    "three maxima of windows": beside(lambda x: [pool(x, "max", size) for size in (2, 3, 5)]),
    "argmax": beside(lambda x: x.argmax(-1)),
    "argmin": beside(lambda x: x.argmin(1)),
    "sort": beside(lambda x: jnp.sort(x, 1)),
    "argsort": beside(lambda x: jnp.argsort(x, 2)),
    "top_k": beside(lambda x: lax.top_k(x, 2)),
    "cummax": beside(lambda x: lax.cummax(x, 1)),
    "lstm": beside(by_steps(lstm)),
    "gru": beside(by_steps(gru)),
    "a branch": beside(chosen(jnp.tanh, jnp.negative)),
    "a branch in a branch": beside(chosen(lambda x: inception(chosen(jnp.sin, jnp.cos)(x)), lambda x: jnp.tile(x, 4))),
    "a result for another branch": beside(lambda x: chosen(jnp.sin, jnp.cos)(chosen(jnp.tanh, jnp.exp)(x))),
    "a result of unknown size": beside(
        chosen(lambda x: lax.dynamic_slice_in_dim(x, jnp.int32(x[0, 0, 0, 0] > 0), 5, 1), lambda x: -x[:, :5])
    ),
}  # fmt: skip


def values(run: int, batch: int, *, with_nan: bool) -> np.ndarray:
    x = np.random.default_rng(run).standard_normal((batch, *SHAPE[1:])).astype(np.float32)
    if with_nan:
        x[0, 3, 4, 1] = np.nan
    return x


@pytest.mark.parametrize("shape", [SHAPE, SYMBOLIC], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_beside_larger_values_are_right_in_each_run(name, shape):
    pytest.importorskip("openvino")
    program = to_onnx(FUNCTIONS[name], [shape], target="openvino")
    for run, with_nan in enumerate((False, False, True, False, True)):
        x = values(run, 2 + (run > 2 and shape is SYMBOLIC), with_nan=with_nan)
        for got, want in zip(jax.tree.leaves(program(x)), jax.tree.leaves(FUNCTIONS[name](x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int32", "bool"])
def test_copies_have_all_bits_of_results(dtype):
    pytest.importorskip("openvino")
    info = None if dtype == "bool" else np.iinfo(dtype) if np.issubdtype(dtype, np.integer) else np.finfo(dtype)
    special = [0, 1] if info is None else [info.min, info.max, 0, 1]
    x = np.array(
        special if dtype == "bool" or isinstance(info, np.iinfo) else [*special, -0.0, np.nan, np.inf, -np.inf]
    )
    x = np.tile(x.astype(dtype), (3, 1))

    def fn(p, x, large):
        y = lax.cond(p, lambda: jnp.flip(x, 1), lambda: x)
        return jnp.flip(y, 0), pool(large, "sum")

    program = to_onnx(fn, [((), bool), (("B", x.shape[1]), dtype), SYMBOLIC], target="openvino")
    got = np.asarray(program(np.array(True), x, values(0, 3, with_nan=False))[0])
    want = x[::-1, ::-1]
    np.testing.assert_array_equal(got, want)
    if dtype.startswith("float"):
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_results_that_are_read_are_copied():
    model = parse("""g (bool c, float[B, 2] x) => (float[B, 2] y, float[B, 2] b) {
        a, b = If (c) <
            then_branch = t () => (float[B, 2] d, float[B, 2] e) { d = Exp(x) e = Neg(x) },
            else_branch = f () => (float[B, 2] h, float[B, 2] i) { h = Neg(x) i = Exp(x) }
        >
        y = Log(a)
    }""")
    BranchResultsPass()(model)
    assert operators_of(model) == ["If", "Shape", "Expand", "Log"]  # b, which the graph gives, is not


def test_scalars_are_not_copied():
    model = parse("""g (bool c, float x) => (float y) {
        a = If (c) <
            then_branch = t () => (float d) { d = Exp(x) },
            else_branch = f () => (float h) { h = Neg(x) }
        >
        y = Log(a)
    }""")
    assert not BranchResultsPass()(model).modified


def test_results_are_copied_once():
    model = parse("""g (bool c, float[B, 2] x) => (float[B, 2] y) {
        a = If (c) <
            then_branch = t () => (float[B, 2] d) { d = Exp(x) },
            else_branch = f () => (float[B, 2] h) { h = Neg(x) }
        >
        y = Log(a)
    }""")
    BranchResultsPass()(model)
    assert not BranchResultsPass()(model).modified
