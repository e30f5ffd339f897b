"""Cases of `erf`."""

from __future__ import annotations

import ml_dtypes
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import CLOSE, at_most

__all__ = ["cases"]

_X = ("N", 7)

cases = [
    Case("erf_special", lax.erf, [_X], covers=("erf",), values="special", expect="Erf"),
    Case("erf_of_small", lambda x: lax.erf(x * 1e-5), [_X], covers=("erf",), expect="Mul -> Erf"),
    Case("erfc", lax.erfc, [_X], covers=("erfc",), values="special", expect=at_most(70)),
    Case("erfc_tail", lambda x: lax.erfc(2 + 2 * x), [_X], covers=("erfc",), values="positive", rtol=CLOSE,
         expect=at_most(70)),
    Case("erfc_of_bfloat16", lax.erfc, [(_X, ml_dtypes.bfloat16)], covers=("erfc",), values="special",
         expect=at_most(70)),
    Case("erf_inv", lax.erf_inv, [_X], covers=("erf_inv",), values="unit", expect=at_most(60)),
    Case("erf_inv_special", lax.erf_inv, [_X], covers=("erf_inv",), values="special", expect=at_most(60)),
    Case("erf_inv_tail", lambda x: lax.erf_inv(1 - 1e-6 * x), [_X], covers=("erf_inv",), values="positive",
         expect=at_most(60)),
    Case("erf_inv_of_bfloat16", lax.erf_inv, [(_X, ml_dtypes.bfloat16)], covers=("erf_inv",), values="unit",
         expect=at_most(60)),
]  # fmt: skip
