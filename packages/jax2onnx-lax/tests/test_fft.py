"""Transforms of what is not finite."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import to_onnx

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
