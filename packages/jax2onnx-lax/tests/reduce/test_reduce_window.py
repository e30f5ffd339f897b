"""`reduce_window*`, reductions, scans along an axis and the derivatives of pooling, against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexing_strategies import assert_equals_jax, of_each
from jax import lax
from jax2onnx_core import to_onnx

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1, -1, 2, np.finfo(np.float32).min])
COMPUTATIONS = {"add": (lax.add, 0), "max": (lax.max, None), "min": (lax.min, None), "mul": (lax.mul, 1)}


def _values(shape, dtype, seed, *, special=False):
    generator = np.random.default_rng(seed)
    if special and np.issubdtype(dtype, np.floating):
        return generator.choice(SPECIAL, shape).astype(dtype)
    return generator.integers(0, 4, shape).astype(dtype)


def _random(shape, dtype):
    return np.random.default_rng(shape).uniform(-1, 1, shape).astype(dtype)


def _initial(name, dtype):
    if COMPUTATIONS[name][1] is not None:
        return np.asarray(COMPUTATIONS[name][1], dtype)
    if np.issubdtype(dtype, np.floating):
        return np.asarray(-np.inf if name == "max" else np.inf, dtype)
    info = np.iinfo(dtype)
    return np.asarray(info.min if name == "max" else info.max, dtype)


@st.composite
def windows(draw, dilated=True):
    """The shape of an operand and windows over it, whose padding is at most a window wide."""
    rank = draw(st.integers(1, 4))
    shape, entries = [], []
    for _ in range(rank):
        size, stride = draw(st.sampled_from([1, 1, 2, 3, 7, 9])), draw(st.integers(1, 3))
        base, window = (draw(st.sampled_from([1, 1, 2])) if dilated else 1 for _ in range(2))
        padding = draw(st.sampled_from([(0, 0), (0, 1), (1, 1), (size - 1, 0)]))
        extent = (size - 1) * window + 1
        shape.append(draw(st.integers(extent, extent + 3)) if rank < 4 else extent + 1)
        entries.append((size, stride, padding, base, window))
    sizes, strides, padding, base, window = zip(*entries, strict=True)
    return tuple(shape), {"window_dimensions": sizes, "window_strides": strides, "padding": padding,
                          "base_dilation": base, "window_dilation": window}  # fmt: skip


@given(windows(), st.sampled_from(sorted(COMPUTATIONS)), st.sampled_from([np.float32, np.float64, np.int8, np.int32]))
def test_reduce_window_equals_jax_for_any_window(window, name, dtype):
    shape, params = window
    x = _values(shape, dtype, 0, special=name in ("max", "min"))
    if name == "mul" and np.issubdtype(dtype, np.floating):
        x = np.where(x == 0, 1, x % 2).astype(dtype)
    with jax.enable_x64(True):
        assert_equals_jax(lambda x: lax.reduce_window(x, _initial(name, dtype), COMPUTATIONS[name][0], **params), x)


@given(windows(dilated=False), st.booleans())
def test_gradient_of_pooling_equals_jax(window, least):
    shape, params = window
    name = "min" if least else "max"
    x = np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)
    del params["base_dilation"], params["window_dilation"]

    def loss(x):
        pooled = lax.reduce_window(x, _initial(name, np.float32), COMPUTATIONS[name][0], **params)
        return (pooled * jnp.arange(pooled.size, dtype=x.dtype).reshape(pooled.shape)).sum()

    assert_equals_jax(jax.grad(loss), x)
    assert_equals_jax(lambda x: jax.jvp(loss, (x,), (x,))[1], x)


def _affine(a, b):
    """An associative and commutative operation that has an identity, 0, but is none that is recognised."""
    return a + b + a * b


@st.composite
def symbolic_windows(draw):
    """Windows over an axis of any size, which they may be larger than."""
    size, stride = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    base, window = (draw(st.sampled_from([1, 1, 1, 2])) for _ in range(2))
    padding = draw(st.sampled_from(["VALID", "VALID", "SAME", (0, 1), (1, 1), (size - 1, 0), (-1, 1)]))
    pairs = padding if isinstance(padding, str) else [(0, 0), padding]
    params = {"base_dilation": (1, base), "window_dilation": (1, window)} if (base, window) != (1, 1) else {}
    return {"window_dimensions": (1, size), "window_strides": (1, stride), "padding": pairs, **params}


@given(
    symbolic_windows(), st.sampled_from([*sorted(COMPUTATIONS), "affine"]), st.sampled_from([np.float32, np.float64])
)
def test_windows_may_be_larger_than_a_symbolic_axis(params, name, dtype):
    with jax.enable_x64(dtype == np.float64):
        computation, initial = (
            (_affine, dtype(0.5)) if name == "affine" else (COMPUTATIONS[name][0], _initial(name, dtype))
        )
        fn = jax.jit(lambda x: lax.reduce_window(x, initial, computation, **params))
        program = to_onnx(fn, [(("B", "T"), dtype)])
        inputs = [_random((2, size), dtype) for size in range(1, params["window_dimensions"][1] * 2 + 3)]
        for x, want in zip(inputs, of_each(fn, inputs), strict=True):
            got = program(x)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("name", ["add", "max", "min"])
def test_gradient_of_windows_that_may_be_larger_than_a_symbolic_axis(name, stride):
    def loss(x):
        return (
            lax.reduce_window(x, _initial(name, np.float32), COMPUTATIONS[name][0], (1, 4), (1, stride), "VALID") ** 2
        ).sum()

    fn = jax.jit(jax.grad(loss))
    program = to_onnx(fn, [("B", "T")])
    inputs = [_random((2, size), np.float32) for size in range(1, 9)]
    for x, want in zip(inputs, of_each(fn, inputs), strict=True):
        np.testing.assert_allclose(program(x), want, rtol=1e-6)


@pytest.mark.parametrize("name", [*sorted(COMPUTATIONS), "affine"])
def test_windows_of_symbolic_size_may_be_larger_than_the_axis(name):
    computation, initial = (
        (_affine, np.float32(0.5)) if name == "affine" else (COMPUTATIONS[name][0], _initial(name, np.float32))
    )
    fn = jax.jit(lambda x: lax.reduce_window(x, initial, computation, (1, x.shape[0]), (1, 2), "VALID"))
    program = to_onnx(fn, [("b", 8)])
    inputs = [_random((size, 8), np.float32) for size in (1, 3, 7, 8, 9, 12)]
    for x, want in zip(inputs, of_each(fn, inputs), strict=True):
        got = program(x)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "operator"), [("add", "AveragePool"), ("max", "MaxPool")])
def test_windows_that_surely_fit_are_one_pooling_operator(name, operator):
    def fn(x):
        return lax.reduce_window(x, _initial(name, np.float32), COMPUTATIONS[name][0], (1, 1, 3), (1, 1, 2), "VALID")

    for inputs, constraints in [([("B", 2, "T + 2")], ()), ([("B", 2, "T")], ("T >= 3",))]:
        program = to_onnx(fn, inputs, constraints=constraints)
        operators = [node.op_type for node in program.model.graph]
        assert operators.count(operator) == 1
        assert "Slice" not in operators


@given(windows(), st.sampled_from([np.float32, np.int32]))
def test_padding_is_left_out_of_any_computation(window, dtype):
    shape, params = window
    # Of 0 and -2 the operation makes 0 and -2, which no order of evaluation rounds.
    x = _values(shape, dtype, 0) % 2 * np.asarray(-2).astype(dtype)
    assert_equals_jax(jax.jit(lambda x: lax.reduce_window(x, np.asarray(2, dtype), _affine, **params)), x)


@pytest.mark.parametrize("padding", ["SAME", [(4, 4)], [(-1, 3)]])
def test_derivative_of_a_product_of_padded_windows_equals_jax(padding):
    x = np.array([1.5, 2, 3, 0.5, -1], np.float32)

    def tangents(x):
        return jax.jvp(lambda x: lax.reduce_window(x, 2.0, lax.mul, (2,), (1,), padding), (x,), (x + 1,))

    assert_equals_jax(tangents, x)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_pooling_over_symbolic_space_equals_jax(padding, special):
    def fn(x):
        return lax.reduce_window(x, -np.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), padding)

    program = to_onnx(fn, [("B", "H + 2", "W + 1", 2)])
    for height, width in [(3, 2), (4, 7), (9, 4)]:
        x = _values((2, height, width, 2), np.float32, height, special=special)
        np.testing.assert_array_equal(program(x), fn(x))


def test_average_of_symbolic_space_equals_jax():
    def fn(x):
        counts = lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / counts

    program = to_onnx(fn, [("B", "H", "W", 2)])
    for height, width in [(1, 1), (4, 7), (9, 4)]:
        x = _values((2, height, width, 2), np.float32, height)
        np.testing.assert_allclose(program(x), fn(x), rtol=1e-6)


def test_graph_does_not_grow_with_the_window():
    sizes = {}
    for window in (16, 4096):
        program = to_onnx(lambda x, w=window: lax.reduce_window(x, 0, lax.add, (w,), (1,), "VALID"),
                          [jax.ShapeDtypeStruct((5000,), np.int32)])  # fmt: skip
        sizes[window] = len(program.model.graph)
    assert sizes[4096] < 5 * sizes[16]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, jnp.bfloat16])
@pytest.mark.parametrize("reduction", [lax.reduce_max, lax.reduce_min])
def test_extremum_propagates_nan_from_any_place(reduction, dtype):
    with jax.enable_x64(True):
        x = np.where(np.eye(9, 8), np.nan, np.arange(8)).astype(dtype)
        x[8, 3], x[8, 4] = np.inf, -np.inf
        program = to_onnx(lambda x: reduction(x, (1,)), [x])
        got = np.asarray(program(x)).astype(np.float64)
        np.testing.assert_array_equal(got, np.asarray(reduction(jnp.asarray(x), (1,))).astype(np.float64))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("reduction", [lax.reduce_sum, lax.reduce_prod, lax.reduce_max, lax.reduce_min,
                                       lax.reduce_and, lax.reduce_or, lax.reduce_xor])  # fmt: skip
def test_integer_reductions_are_exact(reduction, dtype):
    with jax.enable_x64(True):
        info = np.iinfo(dtype)
        x = np.random.default_rng(0).integers(info.min, info.max, (3, 7, 2), dtype, endpoint=True)
        for axes in [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)]:
            assert_equals_jax(lambda x, axes=axes: reduction(x, axes), x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, jnp.bfloat16])
@pytest.mark.parametrize("fn", [lax.argmax, lax.argmin])
def test_first_nan_wins_argmax_and_argmin(fn, dtype):
    with jax.enable_x64(True):
        x = np.random.default_rng(0).choice(SPECIAL[:-1], (40, 6)).astype(dtype)
        assert_equals_jax(lambda x: fn(x, 1, np.int32), x)


@pytest.mark.parametrize("fn", [lax.cumsum, lax.cumprod, lax.cummax, lax.cummin])
@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.uint32, np.uint64])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_along_an_axis_equal_jax(fn, dtype, reverse):
    with jax.enable_x64(True):
        x = _values((3, 11, 2), dtype, 0)
        assert_equals_jax(lambda x: fn(x, 1, reverse=reverse), x)


def test_scans_are_right_at_every_symbolic_length():
    def fn(x):
        return lax.cumsum(x, 1), lax.cumprod(x, 1), lax.cummax(x, 1, reverse=True), lax.cumlogsumexp(x, 1)

    program = to_onnx(fn, [("B", "N")])
    for length in (1, 2, 9):
        x = _values((2, length), np.float32, length)
        for got, want in zip(program(x), fn(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(("shape", "reverse"), [((20_000, 2), False), (("N", 2), True)])
def test_long_cumulative_sums_are_as_exact_as_those_of_jax(shape, reverse):
    x = np.random.default_rng(0).uniform(0.1, 0.11, (20_000, 2)).astype(np.float32)
    exact = np.cumsum(x[::-1] if reverse else x, 0, np.float64)
    program = to_onnx(lambda x: lax.cumsum(x, 0, reverse=reverse), [shape])
    np.testing.assert_allclose(program(x)[::-1] if reverse else program(x), exact, rtol=2e-7)


def test_gradient_of_pooling_over_windows_of_symbolic_size_equals_jax():
    def loss(x):
        return (lax.reduce_window(x, -np.inf, lax.max, (1, x.shape[1] - 1), (1, 1), "VALID") ** 2).sum()

    program = to_onnx(jax.grad(loss), [("B", "N + 2")])
    for length in (3, 6):
        x = np.random.default_rng(length).standard_normal((2, length)).astype(np.float32)
        np.testing.assert_allclose(program(x), jax.grad(loss)(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("fn", "dtype", "operators"),
    [
        (lambda x: lax.reduce_max(x, (1,)), np.float32, ["ReduceMax"]),
        (lambda x: lax.reduce_sum(x, (1,)), np.int32, ["ReduceSum"]),
        (lambda x: lax.reduce_prod(x, (1,)), np.int64, ["ReduceProd"]),
        (lambda x: lax.reduce_or(x, (1,)), np.bool_, ["Cast", "ReduceMax", "Cast"]),
        (lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 1), "VALID"), np.float32,
         ["Unsqueeze", "MaxPool", "Squeeze"]),
    ],
)  # fmt: skip
def test_target_that_keeps_the_meaning_of_operators_gets_them_plain(fn, dtype, operators):
    with jax.enable_x64(True):
        program = to_onnx(fn, [((3, 5), dtype)], target="onnx")
    assert [node.op_type for node in program.model.graph] == operators
