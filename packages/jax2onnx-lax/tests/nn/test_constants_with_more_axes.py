"""Numbers of formulas that are arrays, whose axes the result has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jax2onnx_core import to_onnx

_Formula = Callable[[Array, Callable[[float], Array]], Array]


def _standard(x: Array, k: Callable[[float], Array]) -> Array:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + k(1e-5)) * k(2.0) + k(1.0)


_FORMULAS: Mapping[str, _Formula] = {
    "gelu": lambda x, k: k(0.5) * x * (k(1.0) + lax.erf(x / k(2**0.5))),
    "gelu by tanh": lambda x, k: k(0.5) * x * (k(1.0) + jnp.tanh(k(0.79788456) * (x + k(0.044715) * x**3))),
    "silu": lambda x, k: x / (k(1.0) + jnp.exp(-x)),
    "sigmoid": lambda x, k: k(1.0) / (k(1.0) + jnp.exp(-x)),
    "softplus": lambda x, k: jnp.log(k(1.0) + jnp.exp(x)),
    "relu": lambda x, k: jnp.maximum(x, k(0.0)),
    "clip": lambda x, k: jnp.minimum(jnp.maximum(x, k(-1.0)), k(1.0)),
    "leaky relu": lambda x, k: jnp.where(x > k(0.0), x, x * k(0.1)),
    "layer norm": _standard,
    "rms norm": lambda x, k: x * lax.rsqrt((x**2).mean(-1, keepdims=True) + k(1e-6)) * k(3.0),
    "softmax": lambda x, k: jax.nn.softmax(x * k(2.0), -1),
    "attention": lambda x, k: jax.nn.softmax((x @ x.T) * k(0.5), -1) @ x,
    "quotient": lambda x, k: x * (k(1.0) / (x * x + 3.0)),
    "power": lambda x, k: x ** k(2.0),
    "identity": lambda x, k: (x * k(1.0) + k(0.0)) / k(1.0),
}


@pytest.mark.parametrize("axes", [(1, 1, 1), (3, 1, 1), (3, 2, 4), (2, 1)], ids=str)
@pytest.mark.parametrize("name", _FORMULAS)
def test_a_result_has_the_axes_of_the_numbers_in_its_formula(name, axes):
    if name == "attention" and axes[0] == 3:
        pytest.skip("A product of matrices takes no two numbers of them.")
    for rows in (2, "N", 1):
        if rows == "N" and 2 in axes:
            continue

        def fn(x: Array) -> Array:
            return _FORMULAS[name](x, lambda number: jnp.full(axes, number, jnp.float32))

        x = np.linspace(-2, 2, 4 if rows == 1 else 8, dtype=np.float32).reshape(-1, 4)
        try:
            want = fn(jnp.asarray(x))
        except (TypeError, ValueError):  # JAX finds that they do not fit
            continue
        np.testing.assert_allclose(to_onnx(fn, [(rows, 4)])(x), want, rtol=1e-5, atol=1e-6)
