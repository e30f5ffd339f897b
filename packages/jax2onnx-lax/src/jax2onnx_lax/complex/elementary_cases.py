"""Cases of `elementary`: the f32 variant computes in complex64, the f64 variant in complex128."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import Expect, Fn, at_most

__all__ = ["cases"]

_pair = [("B", 5), ("B", 5)]


def _case(name: str, fn: Fn, expect: Expect) -> Case:
    return Case(name, lambda x, y: fn(lax.complex(x, y)), _pair, (name,), expect)


def _at(name: str, fn: Fn, points: Sequence[complex], expect: Expect) -> Case:
    """At fixed points, of the variant's dtype."""
    array = np.array(points, np.complex128)
    return Case(f"{name}_special", lambda x, y: fn(lax.complex(x, y)), [array.real, array.imag], (name,), expect)


_infinite = [complex(np.inf, 1), complex(-np.inf, -1), complex(1, np.inf), complex(np.inf, 0), complex(-np.inf, np.inf)]
_zeros = [0, complex(0, -0.0), complex(-0.0, 0), 1, -1, 1j, -1j]

cases = [
    _case("exp", jnp.exp, expect=at_most(20)),
    _case("exp2", lax.exp2, expect=at_most(30)),
    _case("expm1", jnp.expm1, expect=at_most(30)),
    _case("logistic", lax.logistic, expect=at_most(120)),
    _case("log", jnp.log, expect=at_most(110)),
    Case("log2", lambda x, y: jnp.log2(lax.complex(x, y)), _pair, ("log2", "log"), expect=at_most(110)),
    _case("log1p", jnp.log1p, expect=at_most(180)),
    _case("sqrt", jnp.sqrt, expect=at_most(40)),
    _case("rsqrt", lax.rsqrt, expect=at_most(50)),
    _case("sin", jnp.sin, expect=at_most(40)),
    _case("cos", jnp.cos, expect=at_most(40)),
    _case("tan", jnp.tan, expect=at_most(50)),
    _case("sinh", jnp.sinh, expect=at_most(40)),
    _case("cosh", jnp.cosh, expect=at_most(40)),
    _case("tanh", jnp.tanh, expect=at_most(50)),
    Case("pow", lambda x, y: lax.complex(x, y) ** lax.complex(y, x), _pair, ("pow",), expect=at_most(70)),
    Case("pow_real", lambda x, y: lax.complex(x, y) ** 1.5, _pair, ("pow",), expect=at_most(70)),
    _at("exp", jnp.exp, [88.9 + 1.5j, *_infinite, *_zeros], expect=at_most(20)),
    _at("log", jnp.log, [1e30 + 1e30j, 1e-30j, 0.6 + 0.8j, 1 + 1e-6j, *_infinite, *_zeros], expect=at_most(110)),
    _at("log1p", jnp.log1p, [1e-9 + 1e-5j, -1e-5 + 4e-3j, 1e30j, -2, *_infinite], expect=at_most(180)),
    _at("sqrt", jnp.sqrt, [1e38 + 1e38j, -1e-38, -4 + 1e-9j, *_infinite, *_zeros], expect=at_most(40)),
    _at("rsqrt", lax.rsqrt, [1e30 + 1e30j, 1e-30 + 1e-30j, *_infinite], expect=at_most(50)),
    _at("sin", jnp.sin, [1e-3 - 80j, 50 + 2j, *_zeros], expect=at_most(40)),
    _at("cosh", jnp.cosh, [80 + 1j, -80 + 1j, *_zeros], expect=at_most(40)),
    _at(
        "tanh",
        jnp.tanh,
        [complex(80, np.inf), complex(15, 3e38), complex(np.nan, 0), 50 + 1j, -50 + 1j, 1e-6 + 1j, *_zeros],
        expect=at_most(50),
    ),
]  # fmt: skip
