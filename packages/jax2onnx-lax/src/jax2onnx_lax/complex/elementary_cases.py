"""Cases of `elementary`: the f32 variant computes in complex64, the f64 variant in complex128."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import Fn

__all__ = ["cases"]

_pair = [("B", 5), ("B", 5)]


def _case(name: str, fn: Fn) -> Case:
    return Case(name, lambda x, y: fn(lax.complex(x, y)), _pair, (name,))


def _at(name: str, fn: Fn, points: Sequence[complex]) -> Case:
    """At fixed points, of the variant's dtype."""
    array = np.array(points, np.complex128)
    return Case(f"{name}_special", lambda x, y: fn(lax.complex(x, y)), [array.real, array.imag], (name,))


_infinite = [complex(np.inf, 1), complex(-np.inf, -1), complex(1, np.inf), complex(np.inf, 0), complex(-np.inf, np.inf)]
_zeros = [0, complex(0, -0.0), complex(-0.0, 0), 1, -1, 1j, -1j]

cases = [
    _case("exp", jnp.exp),
    _case("exp2", lax.exp2),
    _case("expm1", jnp.expm1),
    _case("logistic", lax.logistic),
    _case("log", jnp.log),
    Case("log2", lambda x, y: jnp.log2(lax.complex(x, y)), _pair, ("log2", "log")),
    _case("log1p", jnp.log1p),
    _case("sqrt", jnp.sqrt),
    _case("rsqrt", lax.rsqrt),
    _case("sin", jnp.sin),
    _case("cos", jnp.cos),
    _case("tan", jnp.tan),
    _case("sinh", jnp.sinh),
    _case("cosh", jnp.cosh),
    _case("tanh", jnp.tanh),
    Case("pow", lambda x, y: lax.complex(x, y) ** lax.complex(y, x), _pair, ("pow",)),
    Case("pow_real", lambda x, y: lax.complex(x, y) ** 1.5, _pair, ("pow",)),
    _at("exp", jnp.exp, [88.9 + 1.5j, *_infinite, *_zeros]),
    _at("log", jnp.log, [1e30 + 1e30j, 1e-30j, 0.6 + 0.8j, 1 + 1e-6j, *_infinite, *_zeros]),
    _at("log1p", jnp.log1p, [1e-9 + 1e-5j, -1e-5 + 4e-3j, 1e30j, -2, *_infinite]),
    _at("sqrt", jnp.sqrt, [1e38 + 1e38j, -1e-38, -4 + 1e-9j, *_infinite, *_zeros]),
    _at("rsqrt", lax.rsqrt, [1e30 + 1e30j, 1e-30 + 1e-30j, *_infinite]),
    _at("sin", jnp.sin, [1e-3 - 80j, 50 + 2j, *_zeros]),
    _at("cosh", jnp.cosh, [80 + 1j, -80 + 1j, *_zeros]),
    _at(
        "tanh",
        jnp.tanh,
        [complex(80, np.inf), complex(15, 3e38), complex(np.nan, 0), 50 + 1j, -50 + 1j, 1e-6 + 1j, *_zeros],
    ),
]
