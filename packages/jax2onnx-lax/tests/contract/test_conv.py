"""`conv_general_dilated` against JAX over random valid parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexing_strategies import assert_equals_jax
from jax import lax
from jax2onnx_core import to_onnx

small = st.integers(1, 3)


def _whole(shape, dtype, seed):
    """Small whole numbers: sums of their products are exact in every type."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@st.composite
def convolutions(draw):
    """The operands' shapes and the parameters of a convolution whose result is not empty."""
    rank = draw(st.integers(0, 3))
    feature_groups, batch_groups = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2)]))
    entries = [draw(_axis()) for _ in range(rank)]
    batch, channels, features = batch_groups * draw(small), draw(small), feature_groups * batch_groups * draw(small)
    lhs = (batch, channels * feature_groups, *(e["size"] for e in entries))
    rhs = (features, channels, *(e["kernel"] for e in entries))
    specs = [draw(st.permutations(range(rank + 2))) for _ in range(3)]
    params = {
        "window_strides": [e["stride"] for e in entries], "padding": [e["padding"] for e in entries],
        "lhs_dilation": [e["lhs"] for e in entries], "rhs_dilation": [e["rhs"] for e in entries],
        "dimension_numbers": lax.ConvDimensionNumbers(*map(tuple, specs)),
        "feature_group_count": feature_groups, "batch_group_count": batch_groups,
    }  # fmt: skip
    return _laid_out(lhs, specs[0]), _laid_out(rhs, specs[1]), params


def _laid_out(shape, spec):
    result = [0] * len(shape)
    for size, axis in zip(shape, spec, strict=True):
        result[axis] = size
    return tuple(result)


@st.composite
def _axis(draw):
    size, kernel, stride, lhs, rhs = (draw(st.integers(1, n)) for n in (6, 3, 3, 3, 2))
    extent, dilated = (kernel - 1) * rhs + 1, (size - 1) * lhs + 1
    low = draw(st.integers(-2, 4))
    high = draw(st.integers(max(-2, extent - dilated - low), max(4, extent - dilated - low)))
    if dilated + low <= 0 or dilated + high <= 0 or dilated + low + high < extent:
        low, high = extent, extent
    return {"size": size, "kernel": kernel, "stride": stride, "lhs": lhs, "rhs": rhs, "padding": (low, high)}


@st.composite
def symbolic_convolutions(draw):
    """The kernel's size and the parameters of a convolution along an axis that may be smaller than the kernel."""
    kernel, stride = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    lhs, rhs = (draw(st.sampled_from([1, 1, 2])) for _ in range(2))
    padding = draw(st.sampled_from(["VALID", "VALID", "SAME", [(0, 1)], [(1, 1)], [(kernel - 1, 0)], [(-1, 1)]]))
    spread = {} if isinstance(padding, str) else {"lhs_dilation": (lhs,)}  # JAX has no string for a spread operand
    return kernel, {"window_strides": (stride,), "padding": padding, "rhs_dilation": (rhs,), **spread}


@given(symbolic_convolutions(), st.sampled_from([np.float32, np.float32, np.float64, np.int8]))
def test_kernels_may_be_larger_than_a_symbolic_axis(convolution, dtype):
    kernel, params = convolution
    with jax.enable_x64(dtype == np.float64):
        weights = _whole((3, 2, kernel), dtype, 0)
        fn = jax.jit(lambda x, w: lax.conv_general_dilated(x, w, **params))
        program = to_onnx(lambda x: fn(x, weights), [(("B", 2, "T"), dtype)])
        # In float32, XLA reads beyond an operand whose padding is negative.
        exact = np.int32 if dtype == np.float32 else dtype
        for size in range(1, kernel * 2 + 3):
            x = _whole((2, 2, size), dtype, size)
            got, want = program(x), fn(x.astype(exact), weights.astype(exact))
            assert got.shape == want.shape
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("inputs", "constraints"), [([("B", 2, "T + 2")], ()), ([("B", 2, "T")], ("T >= 3",))])
def test_a_kernel_that_surely_fits_is_one_conv(inputs, constraints):
    weights = np.ones((3, 2, 3), np.float32)
    program = to_onnx(lambda x: lax.conv_general_dilated(x, weights, (1,), "VALID"), inputs, constraints=constraints)
    assert [node.op_type for node in program.model.graph] == ["Conv"]


@given(convolutions(), st.sampled_from([np.float32, np.float32, np.float64, np.int8, np.int32]), st.booleans())
def test_conv_equals_jax_for_any_parameters(convolution, dtype, constant):
    lhs_shape, rhs_shape, params = convolution
    lhs, rhs = _whole(lhs_shape, dtype, 0), _whole(rhs_shape, dtype, 1)

    def fn(x, w=rhs):
        return lax.conv_general_dilated(x, w, **params)

    with jax.enable_x64(True):
        assert_equals_jax(fn, lhs) if constant else assert_equals_jax(fn, lhs, rhs)


@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
def test_same_padding_of_symbolic_space_is_right_at_every_size(strides, dilation):
    kernel = _whole((3, 2, 2, 4), np.float32, 1)

    def fn(x):
        return lax.conv_general_dilated(
            x, kernel, strides, "SAME", rhs_dilation=dilation, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    program = to_onnx(fn, [("B", "H", "W", 2)])
    for height, width in [(1, 1), (2, 5), (7, 4), (8, 9)]:
        x = _whole((2, height, width, 2), np.float32, height)
        np.testing.assert_array_equal(program(x), fn(x))


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 2)]])
@pytest.mark.parametrize("dilation", [1, 2])
def test_derivatives_along_a_symbolic_axis_are_right_at_every_size(padding, dilation):
    @jax.vmap
    def fn(x, w):
        convolved = lax.conv_general_dilated(x, w, (2,), padding, rhs_dilation=(dilation,), feature_group_count=2)
        return (convolved**2).sum()

    slopes = jax.grad(lambda x, w: fn(x, w).sum(), (0, 1))
    program = to_onnx(slopes, [(2, 1, 2, "N + 4"), (2, 4, 1, 3)])
    w = _whole((2, 4, 1, 3), np.float32, 1)
    for size in (1, 2, 5):
        x = _whole((2, 1, 2, size + 4), np.float32, size)
        for got, want in zip(program(x, w), slopes(x, w), strict=True):
            np.testing.assert_array_equal(got, want)


def test_what_is_padded_by_a_symbolic_length():
    program = to_onnx(jax.scipy.signal.convolve, [("N", 3), ("N", 2)])
    x, y = _whole((4, 3), np.float32, 0), _whole((4, 2), np.float32, 1)
    np.testing.assert_array_equal(program(x, y), jax.scipy.signal.convolve(x, y))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_conv_with_symbolic_batch_is_conv_transpose(padding):
    kernel = _whole((3, 3, 2, 4), np.float32, 1)

    def fn(x):
        return lax.conv_transpose(x, kernel, (2, 2), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    program = to_onnx(fn, [("B", 5, 6, 2)])
    assert [node.op_type for node in program.model.graph].count("ConvTranspose") == 1
    x = _whole((3, 5, 6, 2), np.float32, 0)
    np.testing.assert_array_equal(program(x), fn(x))


def test_float16_accumulates_in_float32():
    x, w = np.ones((1, 4096, 1), np.float16), np.ones((1, 4096, 1), np.float16)
    program = to_onnx(lambda x, w: lax.conv_general_dilated(x, w, (1,), "VALID"), [x, w])
    assert float(np.asarray(program(x, w))[0, 0, 0]) == 4096.0


def test_double_precision_is_not_rounded_to_single():
    with jax.enable_x64(True):
        x = np.full((1, 1, 4), 1 + 2.0**-40)
        w = np.ones((1, 1, 2))
        program = to_onnx(lambda x, w: lax.conv_general_dilated(x, w, (1,), "VALID"), [x, w])
        np.testing.assert_array_equal(program(x, w), np.full((1, 1, 3), 2 + 2.0**-39))


@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
def test_gradients_of_conv_equal_jax(strides):
    x, w = _whole((2, 2, 6, 7), np.float32, 0), _whole((3, 2, 3, 2), np.float32, 1)

    def loss(x, w):
        return (lax.conv_general_dilated(x, w, strides, "SAME") ** 2).sum()

    assert_equals_jax(jax.grad(loss, (0, 1)), x, w)


def test_vmap_over_both_operands_equals_jax():
    x, w = _whole((3, 2, 2, 6), np.float32, 0), _whole((3, 4, 2, 2), np.float32, 1)
    assert_equals_jax(jax.vmap(lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME")), x, w)


def test_bfloat16_result_is_bfloat16():
    x = jnp.ones((1, 2, 4), jnp.bfloat16)
    program = to_onnx(lambda x: lax.conv_general_dilated(x, x[:, :, :2], (1,), "VALID"), [x])
    assert np.asarray(program(np.asarray(x))).dtype == jnp.bfloat16


@pytest.mark.parametrize("opset", [18, 22, 23, 26])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_convolution_without_space(dtype, opset):
    def fn(x, kernel):
        return lax.conv_general_dilated(x, kernel, (), [])

    x, kernel = np.arange(6).reshape(2, 3).astype(dtype), np.arange(12).reshape(4, 3).astype(dtype)
    for shape in ((2, 3), ("N", 3)):
        program = to_onnx(fn, [(shape, dtype), ((4, 3), dtype)], opset=opset)
        np.testing.assert_array_equal(program(x, kernel), fn(x, kernel))
