"""Cases of `gamma`."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import Array, lax
from jax2onnx_core import Case
from jax2onnx_core.plugins.cases import ExpectGraph

from jax2onnx_lax._case_helpers import Fn, at_most

__all__ = ["cases"]

_X = ("N", 7)

_SPECIAL = np.array([0.0, -0.0, 1.0, 2.0, 2.5, -1.0, -1.5, np.nan, np.inf, 5.0])
_FIRST, _SECOND = (a.ravel() for a in np.meshgrid(_SPECIAL, _SPECIAL, indexing="ij"))


def _special(name: str, fn: Fn, expect: ExpectGraph) -> Case:
    """All pairs of special values."""
    return Case(
        f"{name}_special",
        fn,
        [_FIRST, _SECOND],
        covers=(name,),
        expect=expect,
        atol={"f32": 1e-6},
        doc="All pairs of zeros, ones, poles, ordinary numbers, infinities and NaN.",
    )


def _order(x: Array) -> Array:
    """Integers, negative ones too, from small random numbers."""
    return jnp.floor(2 * x)


cases = [
    Case("lgamma", lax.lgamma, [_X], covers=("lgamma",), values="special", expect=at_most(80)),
    Case("lgamma_of_positive", lambda x: lax.lgamma(5 * x), [_X], covers=("lgamma",), values="positive",
         expect=at_most(80)),
    Case("lgamma_of_bfloat16", lax.lgamma, [(_X, ml_dtypes.bfloat16)], covers=("lgamma",), values="positive",
         expect=at_most(80)),
    Case("digamma", lax.digamma, [_X], covers=("digamma",), values="special", expect=at_most(80)),
    Case("digamma_of_positive", lambda x: lax.digamma(5 * x), [_X], covers=("digamma",), values="positive",
         expect=at_most(80)),
    Case("zeta", lambda x, q: lax.zeta(x + 1, q), [_X, _X], covers=("zeta",), values="positive", expect=at_most(180)),
    _special("zeta", lax.zeta, at_most(170)),
    _special("polygamma", lax.polygamma, at_most(330)),
    _special("igamma", lax.igamma, at_most(140, Loop=2)),
    _special("igammac", lax.igammac, at_most(140, Loop=2)),
    _special("igamma_grad_a", lax.igamma_grad_a, at_most(280, Loop=2)),
    Case("polygamma", lambda m, x: lax.polygamma(_order(m), x), [_X, _X], covers=("polygamma",), values="positive",
         expect=at_most(330)),
    Case("igamma", lax.igamma, [_X, _X], covers=("igamma",), values="positive", expect=at_most(140, Loop=2)),
    Case("igammac", lax.igammac, [_X, _X], covers=("igammac",), values="positive", expect=at_most(140, Loop=2)),
    Case("igamma_grad_a", lax.igamma_grad_a, [_X, _X], covers=("igamma_grad_a",), values="positive",
         expect=at_most(280, Loop=2)),
    Case("random_gamma_grad", lax.random_gamma_grad, [_X, _X], covers=("lgamma",), values="positive",
         expect=at_most(280, Loop=2)),
    Case("betainc", lambda a, b, x: lax.betainc(a, b, x / 3), [_X, _X, _X], covers=("regularized_incomplete_beta",),
         values="positive", expect=at_most(330, Loop=1)),
    Case("betainc_of_bfloat16", lambda a, b, x: lax.betainc(a, b, x / 4), [(_X, ml_dtypes.bfloat16)] * 3,
         covers=("regularized_incomplete_beta",), values="positive", expect=at_most(340, Loop=1)),
]  # fmt: skip
