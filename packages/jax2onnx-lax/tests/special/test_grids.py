"""Functions that are formulas of ours equal JAX's on dense grids, to a few units in the last place: each coefficient counts."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import to_onnx

#: name → function, the ends of its grid.
FUNCTIONS: dict[str, tuple[Callable[..., jax.Array], float, float]] = {
    "acos": (lax.acos, -1, 1),
    "acosh": (lax.acosh, 1, 50),
    "asin": (lax.asin, -1, 1),
    "asinh": (lax.asinh, -50, 50),
    "atan": (lax.atan, -8, 8),
    "atan2": (lambda x: lax.atan2(jnp.sin(x), jnp.cos(x)), -3, 3),
    "atanh": (lax.atanh, -1, 1),
    "bessel_i0e": (lax.bessel_i0e, -20, 20),
    "bessel_i1e": (lax.bessel_i1e, -20, 20),
    "cbrt": (lax.cbrt, -30, 30),
    "cosh": (lax.cosh, -9, 9),
    "digamma": (lax.digamma, -6, 12),
    "erf": (lax.erf, -6, 6),
    "erf_inv": (lax.erf_inv, -1, 1),
    "erfc": (lax.erfc, -5, 9),
    "expm1": (lax.expm1, -3, 3),
    "lgamma": (lax.lgamma, -6, 12),
    "log1p": (lax.log1p, -0.9, 3),
    "log2": (jnp.log2, 0.01, 9),
    "polygamma": (lambda x: lax.polygamma(jnp.full_like(x, 2), x), 0.1, 9),
    "sinh": (lax.sinh, -9, 9),
    "tan": (lax.tan, -9, 9),
    "zeta": (lambda x: lax.zeta(jnp.full_like(x, 2.5), x), 0.1, 20),
}


#: Functions whose zeros are no numbers of the grid, and so are compared by the size of the others.
WITH_ZEROS = {"digamma", "lgamma"}
#: Functions that have no operator in single precision either.
ALWAYS_FORMULAS = ("bessel_i1e", "cbrt", "digamma", "erf_inv", "erfc", "expm1", "lgamma", "log1p", "log2", "zeta")


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float64") for name in FUNCTIONS), *((name, "float32") for name in ALWAYS_FORMULAS)]
)
def test_a_formula_on_a_grid(name: str, dtype: str) -> None:
    function, low, high = FUNCTIONS[name]
    with jax.enable_x64(dtype == "float64"):
        x = np.linspace(low, high, 1999, dtype=dtype)
        close = 256 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(
            to_onnx(function, [x])(x), jax.jit(function)(x), rtol=close, atol=4 * close if name in WITH_ZEROS else 0
        )
