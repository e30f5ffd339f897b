"""Cases of `fft`: the f32 variant computes in complex64, the f64 variant in complex128."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import Fn

__all__ = ["cases"]

_covers = ("fft",)


def _complex(fn: Fn) -> Fn:
    return lambda x, y: fn(lax.complex(x, y))


def _lengths(n: int) -> list[Case]:
    """All four kinds at one length."""
    half = n // 2 + 1
    return [
        Case(f"fft_{n}", _complex(jnp.fft.fft), [("B", n), ("B", n)], _covers, atol=1e-4),
        Case(f"ifft_{n}", _complex(jnp.fft.ifft), [("B", n), ("B", n)], _covers, atol=1e-5),
        Case(f"rfft_{n}", jnp.fft.rfft, [("B", n)], _covers, atol=1e-4),
        Case(f"irfft_{n}", _complex(lambda z: jnp.fft.irfft(z, n=n)), [(2, half), (2, half)], _covers, atol=1e-5),
    ]


cases = [
    *(case for n in (1, 2, 8, 17, 30, 131, 200, 256) for case in _lengths(n)),
    Case("packed", jnp.fft.fft, [((3, 256), np.complex64)], _covers, expect_graph("DFT", match="exact"), atol=1e-4),
    Case(
        "packed_17",
        jnp.fft.fft,
        [((3, 17), np.complex64)],
        _covers,
        expect_graph("Reshape -> MatMul -> Reshape", match="exact"),
        atol=1e-5,
    ),
    Case(
        "rfft_crisp", jnp.fft.rfft, [("B", 100)], _covers, expect_graph("MatMul -> Reshape", match="exact"), atol=1e-4
    ),
    Case("rfft2", jnp.fft.rfft2, [(2, 6, 8)], _covers, atol=1e-4),
    Case("irfft2", lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 2), [(2, 6, 8)], _covers, atol=1e-5),
    Case("fftn", lambda x: jnp.fft.fftn(x, axes=(0, 1, 2)), [(4, 3, 5)], _covers, atol=1e-4),
    Case("ifftn", lambda x: jnp.fft.ifftn(x, axes=(0, 1, 2)), [(4, 3, 5)], _covers, atol=1e-5),
    Case("fft_axis", lambda x: jnp.fft.fft(x, axis=1), [("B", 8, 3)], _covers, atol=1e-5),
    Case("rfft_symbolic", jnp.fft.rfft, [(2, "N")], _covers, atol=1e-4),
    Case("fft_symbolic", lambda x: jnp.fft.fft(x), [(2, "N")], _covers, atol=1e-4),
    Case("fft_possibly_empty", lambda x: (jnp.fft.fft(x), jnp.fft.ifft(x)), [(2, "N - 1")], _covers, atol=1e-4),
    Case("ifft_symbolic", lambda x: jnp.fft.ifft(x), [(2, "N")], _covers, atol=1e-5),
    Case("irfft_of_one", lambda x, y: jnp.fft.irfft(lax.complex(x, y), n=1), [("B", 3), ("B", 3)], _covers),
    Case("irfft2_of_one", lambda x: jnp.fft.irfft2(lax.complex(x, x), s=(3, 1)), [(2, 3, 2)], _covers),
    Case("fft_possibly_empty_batch", lambda x: jnp.fft.ifft(x), [("B - 1", 2, "N")], _covers, atol=1e-5),
    Case("fft_empty_batch", jnp.fft.rfft, [(0, 7)], _covers),
    Case(
        "spectrum_gradient",
        jax.grad(lambda x: (jnp.abs(jnp.fft.rfft(x)) ** 2).sum()),
        [(12,)],
        _covers,
        rtol=1e-4,
        atol=1e-4,
    ),
    Case("fft_opset_18", jnp.fft.fft, [((3, 256), np.complex64)], _covers, options={"opset": 18}, atol=1e-4),
]
