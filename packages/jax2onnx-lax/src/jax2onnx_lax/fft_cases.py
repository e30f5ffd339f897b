"""Cases of `fft`: the f32 variant computes in complex64, the f64 variant in complex128."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case
from jax2onnx_core.plugins.cases import Precision

from jax2onnx_lax._case_helpers import Expect, Fn, at_most

__all__ = ["cases"]

_covers = ("fft",)
# `Case.atol`: the rounding of float32 is that of the largest numbers that are summed up.
_FORWARD: Mapping[Precision, float] = {"f32": 1e-4}
_BACK: Mapping[Precision, float] = {"f32": 1e-5}


def _complex(fn: Fn) -> Fn:
    return lambda x, y: fn(lax.complex(x, y))


def _lengths(n: int) -> list[Case]:
    """All four kinds at one length."""
    half = n // 2 + 1
    expect, real = _expected(n, 4), _expected(n, 1)
    return [
        Case(f"fft_{n}", _complex(jnp.fft.fft), [("B", n), ("B", n)], _covers, expect, atol=_FORWARD),
        Case(f"ifft_{n}", _complex(jnp.fft.ifft), [("B", n), ("B", n)], _covers, expect, atol=_BACK),
        Case(f"rfft_{n}", jnp.fft.rfft, [("B", n)], _covers, real if n > 1 else "Unsqueeze -> Pad", atol=_FORWARD),
        Case(
            f"irfft_{n}",
            _complex(lambda z: jnp.fft.irfft(z, n=n)),
            [(2, half), (2, half)],
            _covers,
            real if n > 1 else at_most(5, MatMul=1),
            atol=_BACK,
        ),
    ]


def _expected(n: int, parts: int) -> Expect:
    """One product with a matrix that is not large, one DFT if the length is a power of two, otherwise Bluestein's two."""
    if n == 1:
        return ["Unsqueeze -> Concat", "Unsqueeze -> Concat"]
    is_power = n & (n - 1) == 0
    if parts * n**2 <= (2**18 if is_power else 2**20):
        return at_most(10, MatMul=1)
    return at_most(10, DFT=1) if is_power else at_most(40, DFT=2)


def _convolved(x: jax.Array) -> jax.Array:
    """Along an axis that is padded to twice its length, so that nothing wraps around."""
    n = x.shape[0]
    product = jnp.fft.rfft(x, 2 * n, axis=0) * jnp.fft.rfft(jnp.cos(x), 2 * n, axis=0)
    return jnp.fft.irfft(product, 2 * n, axis=0)[:n]


cases = [
    *(case for n in (1, 2, 8, 17, 131, 512, 520, 1024, 1026) for case in _lengths(n)),
    Case("twice_a_symbolic_length", lambda x: jnp.fft.rfft(x, 2 * x.shape[1], norm="ortho"), [(3, "N")], ("fft", "jax.numpy.fft.transform"),
         at_most(50, MatMul=2), atol=_FORWARD),
    Case("long_convolution", _convolved, [("N", 2)], ("fft", "jax.numpy.fft.transform"), at_most(75, MatMul=6), atol=_FORWARD),
    Case("packed", jnp.fft.fft, [((3, 512), np.complex64)], _covers, "DFT", atol=_FORWARD),
    Case(
        "packed_17",
        jnp.fft.fft,
        [((3, 17), np.complex64)],
        _covers,
        "Reshape -> MatMul -> Reshape",
        atol=_BACK,
    ),
    Case(
        "rfft_crisp", jnp.fft.rfft, [("B", 100)], _covers, "MatMul -> Reshape", atol=_FORWARD
    ),
    Case("rfft2", jnp.fft.rfft2, [(2, 6, 8)], _covers, atol=_FORWARD,
         expect="MatMul -> Reshape -> Transpose -> Reshape -> MatMul -> Reshape -> Transpose"),
    Case("irfft2", lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 2), [(2, 6, 8)], _covers, atol=_BACK,
         expect=at_most(30, Gather=2, MatMul=4)),
    Case("fftn", lambda x: jnp.fft.fftn(x, axes=(0, 1, 2)), [(4, 3, 5)], _covers, atol=_FORWARD,
         expect=at_most(20, MatMul=3)),
    Case("ifftn", lambda x: jnp.fft.ifftn(x, axes=(0, 1, 2)), [(4, 3, 5)], _covers, atol=_BACK,
         expect=at_most(20, MatMul=3)),
    Case("fft_axis", lambda x: jnp.fft.fft(x, axis=1), [("B", 8, 3)], _covers, atol=_BACK,
         expect=at_most(20, Gather=2, MatMul=1)),
    Case("irfft_of_one_coefficient", lambda x: (jnp.fft.irfft(lax.complex(x, x)), jnp.fft.hfft(lax.complex(x, -x), axis=0)), [("M", "N")],
         _covers, atol=_BACK),
    Case("rfft_symbolic", jnp.fft.rfft, [(2, "N")], _covers, atol=_FORWARD, expect=at_most(40, Gather=3, MatMul=2)),
    Case("fft_symbolic", lambda x: jnp.fft.fft(x), [(2, "N")], _covers, atol=_FORWARD,
         expect=at_most(40, Gather=3, MatMul=2)),
    Case("fft_possibly_empty", lambda x: (jnp.fft.fft(x), jnp.fft.ifft(x)), [(2, "N - 1")], _covers, atol=_FORWARD,
         expect=at_most(50, Gather=3, MatMul=2)),
    Case("ifft_symbolic", lambda x: jnp.fft.ifft(x), [(2, "N")], _covers, atol=_BACK,
         expect=at_most(40, Gather=3, MatMul=2)),
    Case("irfft_of_one", lambda x, y: jnp.fft.irfft(lax.complex(x, y), n=1), [("B", 3), ("B", 3)], _covers,
         expect=["Gather -> Concat -> MatMul", "Gather -> Concat"]),
    Case("irfft2_of_one", lambda x: jnp.fft.irfft2(lax.complex(x, x), s=(3, 1)), [(2, 3, 2)], _covers,
         expect="Slice -> Concat -> Reshape -> MatMul -> Reshape -> MatMul"),
    Case("fft_possibly_empty_batch", lambda x: jnp.fft.ifft(x), [("B - 1", 2, "N")], _covers, atol=_BACK,
         expect=at_most(50, Gather=3, MatMul=2)),
    Case("fft_empty_batch", jnp.fft.rfft, [(0, 7)], _covers, expect="Identity"),
    Case(
        "spectrum_gradient",
        jax.grad(lambda x: (jnp.abs(jnp.fft.rfft(x)) ** 2).sum()),
        [(12,)],
        _covers,
        atol=_FORWARD,
        expect=at_most(200, Gather=2, MatMul=2),
    ),
    # At even lengths there is a coefficient more that is there once.
    Case("rfft_gradient_symbolic", jax.grad(lambda x: (jnp.abs(jnp.fft.rfft(x)) ** 2 * jnp.arange(x.shape[0] // 2 + 1)).sum()),
         [("N",)], ("fft", "jax.lax.fft_transpose"), atol=_FORWARD, expect=at_most(300, MatMul=4)),
    Case("irfft_gradient_symbolic", jax.grad(lambda x: (jnp.fft.irfft(lax.complex(x, x), n=2 * x.shape[0] - 2)[:3] ** 2).sum()),
         [("N + 1",)], ("fft", "jax.lax.fft_transpose"), atol=_FORWARD, expect=at_most(300, MatMul=4)),
    Case("irfft_gradient_odd_or_even", jax.grad(lambda x: (jnp.fft.irfft(jnp.fft.rfft(x) ** 2, n=x.shape[0])[:1] ** 2).sum()),
         [("N",)], _covers, atol=_FORWARD, expect=at_most(500)),
    Case("fft_opset_18", jnp.fft.fft, [((3, 512), np.complex64)], _covers, options={"opset": 18}, atol=_FORWARD,
         expect="DFT"),
]  # fmt: skip
