"""Cases of `unknown`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax2onnx_core import Case

__all__ = ["cases"]


def _permutations(x: jax.Array) -> list[jax.Array]:
    key, size = jax.random.key(3), x.shape[0]
    one, other = jnp.arange(size), jnp.arange(2 * size).reshape(2, size)
    of_axes = [jax.random.permutation(key, other, axis=1, independent=alone) for alone in (False, True)]
    return [
        jax.random.permutation(key, one),
        jax.random.permutation(key, size),
        jax.random.permutation(key, x),
        *of_axes,
    ]


def _polynomials(x: jax.Array, y: jax.Array) -> list[jax.Array]:
    twice = [jnp.polyder(x, 2), jnp.polyint(x, 2, jnp.array([1, 2], x.dtype))]
    return [jnp.polyadd(x, y), jnp.polysub(x, y), jnp.polymul(x, y), jnp.polyder(x), jnp.polyint(x), *twice]


def _fitted(x: jax.Array) -> list[object]:
    places = jnp.linspace(-1, 1, x.shape[0]).astype(x.dtype)
    return [jnp.polyfit(places, x, 1), jnp.polyfit(places, x, 2, w=2 + places), jnp.polyfit(places, x, 1, cov=True)]


def _trends(x: jax.Array) -> list[jax.Array]:
    return [jax.scipy.signal.detrend(x), jax.scipy.signal.detrend(x, axis=0, bp=2)]


def _spectra(x: jax.Array) -> tuple[jax.Array, ...]:
    spectrum = jax.scipy.signal.stft(x, nperseg=4)
    densities = [jax.scipy.signal.welch(x, nperseg=4, average=by)[1] for by in ("mean", "median")]
    return *spectrum, *densities, jax.scipy.signal.csd(x, x[::-1], nperseg=4, noverlap=1)[1]


def _slope_of_pinv(x: jax.Array) -> jax.Array:
    return jax.grad(lambda x: (jnp.linalg.pinv(x + 3 * jnp.eye(*x.shape)) ** 2).sum())(x)


cases = [
    Case("take_wrapped", lambda x, i: [jnp.take(x, i, axis=axis, mode="wrap") for axis in (0, None)], [("B", 2), (("N",), "int32")],
         covers=("jax.lax.const",)),
    Case("squeeze", lambda x: (jnp.squeeze(x), x[..., :2].squeeze()), [("B", 1, 3)], options={"constraints": ["B >= 2"]},
         covers=("jax.numpy.squeeze",)),
    Case("covariances", lambda x: (jnp.cov(x), jnp.corrcoef(x)), [("B", 5)], options={"constraints": ["B >= 2"]},
         covers=("jax.numpy.squeeze",)),
    Case("derivatives_of_products", lambda x: [jax.grad(lambda x, axis=axis: (jnp.prod(x, axis) ** 2).sum())(x) for axis in (0, 1, (2, 0), None)],
         [("B", 3, 2)], values="unit", covers=("jax.lax.reduce_prod_jvp",)),
    Case("diagflat", lambda x: [jnp.diagflat(x, k) for k in (0, 1, -2)], [("B", 2)], covers=("jax.numpy.diagflat",)),
    Case("parts_of_nearly_one_size", lambda x: (jnp.array_split(x, 3), jnp.array_split(x, 4, axis=-1), jnp.array_split(x, [1], axis=1)),
         [("B", "N")], covers=("jax.numpy.array_split",)),
    Case("inverse_cosine_transforms", lambda x: [jax.scipy.fft.idct(x, axis=axis, norm="ortho") for axis in (0, 1)], [("B", "N")],
         covers=("jax.scipy.fft.dct_deinterleave",)),
    Case("derivative_of_cosine_transform", jax.grad(lambda x: (jax.scipy.fft.dct(x, axis=0) ** 3).sum()), [("N", 2)], values="unit",
         covers=("jax.scipy.fft.dct_interleave",)),
    Case("permutations", _permutations, [("B", 2)], covers=("jax.random.permutation",)),
    Case("choice_without_replacement", lambda x: jax.random.choice(jax.random.key(1), x, (2,), replace=False), [("B", 2)],
         options={"constraints": ["B >= 2"]}, covers=("jax.random.permutation",)),
    Case("polynomials", _polynomials, [("N",), ("M",)], covers=("jax.numpy.polyadd",)),
    Case("polynomials_that_fit", _fitted, [("N",)], values="unit", options={"constraints": ["N >= 4"]}, covers=("jax.lax.shape",)),
    Case("ranks", lambda x: (jnp.linalg.matrix_rank(x), jnp.linalg.matrix_rank(x[:, :1] * x[:1])), [("M", "N")],
         covers=("jax.numpy.linalg.matrix_rank",)),
    Case("pseudo_inverses", lambda x: (jnp.linalg.pinv(x), jnp.linalg.lstsq(x, x[:, 0])[2:]), [("M", "N")], covers=("svd",)),
    Case("derivative_of_pseudo_inverse", _slope_of_pinv, [("M", 2)], options={"constraints": ["M >= 2"]}, covers=("svd",)),
    Case("spectra", _spectra, [("B", "N")], options={"constraints": ["N >= 4"]}, covers=("jax.numpy.arange",)),
    Case("detrended", _trends, [("M", "N")], options={"constraints": ["M >= 5", "N >= 3"]}, covers=("jax.scipy.signal.detrend",)),
]  # fmt: skip
