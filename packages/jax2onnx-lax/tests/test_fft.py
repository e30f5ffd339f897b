"""Transforms of what is not finite, and what is exact in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import Registry, Target, hookimpl, to_onnx
from jax2onnx_runtime.runtimes import reference_runtime

_TRANSFORMS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "fft": jnp.fft.fft,
    "fft_of_complex": lambda x: jnp.fft.fft(lax.complex(x, 0 * x + 1)),
    "ifft": jnp.fft.ifft,
    "rfft": jnp.fft.rfft,
}


@pytest.mark.parametrize("length", [1, 2, 3, 8, 17, 131])
@pytest.mark.parametrize("name", _TRANSFORMS)
def test_an_element_is_finite_where_it_is_in_jax(name: str, length: int) -> None:
    fn = _TRANSFORMS[name]
    program = to_onnx(fn, [(3, length)])
    for value in (np.inf, -np.inf, np.nan):
        for place in {0, length // 2, length - 1}:
            x = np.ones((3, length), np.float32)
            x[1, place] = value
            np.testing.assert_array_equal(np.isfinite(program(x)), np.isfinite(jax.jit(fn)(x)))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_transform_of_one_element_is_that_element(value: float) -> None:
    x = np.array([[value]], np.float32)
    for fn in (jnp.fft.fft, jnp.fft.ifft, jnp.fft.rfft):
        result = to_onnx(fn, [(1, 1)])(x)
        np.testing.assert_array_equal(np.stack([result.real, result.imag]), [[[value]], [[0]]])


def _spectrum_is_real(x: jax.Array) -> jax.Array:
    return jnp.isreal(jnp.fft.rfft(x))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 17, 30, 131, 200, 256])
def test_the_first_and_the_last_coefficient_of_real_numbers_are_real(length: int) -> None:
    x = np.random.default_rng(length).standard_normal((3, length)).astype(np.float32)
    np.testing.assert_array_equal(to_onnx(_spectrum_is_real, [x.shape])(x), _spectrum_is_real(jnp.asarray(x)))


def test_they_are_real_at_every_symbolic_length() -> None:
    program = to_onnx(_spectrum_is_real, [(3, "N")])
    for length in (1, 2, 3, 4, 6, 30, 131):
        x = np.random.default_rng(length).standard_normal((3, length)).astype(np.float32)
        np.testing.assert_array_equal(program(x), _spectrum_is_real(jnp.asarray(x)))


@pytest.mark.parametrize("length", [2, 4])
def test_transforms_whose_roots_are_quarter_turns_multiply_exactly(length: int) -> None:
    def inverse(x: jax.Array) -> jax.Array:
        return jnp.fft.irfft(x, length)

    x = np.array([4, 2.0**31], np.complex64)
    np.testing.assert_array_equal(to_onnx(inverse, [x])(x), inverse(jnp.asarray(x)))


class _WithoutDft(Target):
    """A target that lacks DFT."""

    name = "without_dft"

    def supports(self, op_type: str, dtype: Any, opset: int) -> bool:
        return op_type != "DFT" and super().supports(op_type, dtype, opset)


class _Plugin:
    JAX2ONNX_API = 1

    @hookimpl
    def jax2onnx_register(self, registry: Registry) -> None:
        registry.target(_WithoutDft())


@pytest.mark.parametrize(("name", "length"), [("fft_of_complex", 2050), ("ifft", 2053), ("rfft", 4410)])
def test_long_transforms_without_the_operator_need_no_large_matrix(name: str, length: int) -> None:
    fn = _TRANSFORMS[name]
    model = to_onnx(fn, [(2, length)], target="without_dft", plugins=[_Plugin()]).model
    constants = [value.const_value for value in model.graph.initializers.values()]
    assert max(tensor.size for tensor in constants if tensor is not None) < 40 * length
    x = np.random.default_rng(length).standard_normal((2, length)).astype(np.float32)
    want = np.asarray(fn(jnp.asarray(x)))
    (got,) = reference_runtime.load(model)({str(model.graph.inputs[0].name): x})
    atol = 2e-6 * float(np.abs(want).max())
    np.testing.assert_allclose(got, np.stack([want.real, want.imag], -1), rtol=1e-4, atol=atol)


@pytest.mark.parametrize(("name", "more"), [("rfft", -1), ("fft", 2), ("irfft", 3), ("ihfft", 1)])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_an_axis_is_cut_or_padded_to_a_symbolic_length(name: str, more: int, norm: str | None) -> None:
    def fn(x: jax.Array) -> jax.Array:
        transformed: jax.Array = getattr(jnp.fft, name)(x, x.shape[0] + more, axis=0, norm=norm)
        return transformed

    program = to_onnx(fn, [("N + 1", 3)])
    for size in (2, 5, 8):
        x = np.cos(np.arange(size * 3, dtype=np.float32)).reshape(size, 3)
        got, want = program(x), fn(jnp.asarray(x))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
