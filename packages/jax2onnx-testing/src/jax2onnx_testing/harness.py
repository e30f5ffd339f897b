"""Comparing the results of JAX's primitive harness; factorisations by the matrices that their factors give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import jax
import numpy as np
from jax2onnx_core.jax_types import PyTree
from jax2onnx_graph.arrays import Array
from jax2onnx_runtime.comparison import compare, tolerance

__all__ = ["Harness", "compare_harness"]


class Harness(Protocol):
    """The part of JAX's `Harness` that a comparison reads."""

    @property
    def group_name(self) -> str: ...
    @property
    def params(self) -> Mapping[str, object]: ...


Results = list[Array]

#: Compares factorisations: `reconstruct(harness, arguments, wanted results, results)`.
Reconstruction = Callable[[Harness, Results, Results, Results], str | None]


def compare_harness(harness: Harness, args: Sequence[PyTree], expected: PyTree, actual: PyTree) -> str | None:
    """A phrase that says where the results of a harness differ; None if they agree.

    Signs, order and phases of factorisations are free, so that products of their factors are compared.

    Args:
      harness: one of JAX's harnesses.
      args: the arguments of its function.
      expected: the results of JAX.
      actual: the results to compare with them.
    """
    want, got = ([_plain(x) for x in jax.tree_util.tree_leaves(results)] for results in (expected, actual))
    if len(want) != len(got):
        return f"{len(got)} results instead of {len(want)}"
    for i, (w, g) in enumerate(zip(want, got, strict=True)):
        if w.shape != g.shape or w.dtype != g.dtype:
            return f"result {i} is {g.dtype}{g.shape} instead of {w.dtype}{w.shape}"
    reconstruct = _RECONSTRUCTIONS.get(harness.group_name)
    if reconstruct is not None:
        return reconstruct(harness, [_plain(a) for a in args if not isinstance(a, (str, bool))], want, got)
    for i, (w, g) in enumerate(zip(want, got, strict=True)):
        problem = _difference(w, g)
        if problem:
            return f"result {i}: {problem}"
    return None


def _plain(x: PyTree) -> Array:
    """A leaf as a NumPy array, typed keys as their words."""
    if isinstance(x, jax.Array) and jax.numpy.issubdtype(x.dtype, jax.dtypes.extended):
        x = jax.random.key_data(x)
    return np.asarray(x)


def _difference(want: Array, got: Array, loosen: float = 1.0) -> str | None:
    """Difference of `got` beyond `loosen` times the tolerance of its dtype, in words; None if there is none."""
    wide = np.complex128 if np.issubdtype(want.dtype, np.complexfloating) else np.float64
    magnitudes = np.abs(want.astype(wide))
    largest = float(magnitudes.max(initial=0.0, where=np.isfinite(magnitudes)))
    found = compare(got, want, rtol=tolerance(want.dtype) * loosen, scale=0.1 * largest)
    return None if found.is_close else found.detail


def _adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def _eigenvalues(_: Harness, args: Results, want: Results, got: Results) -> str | None:
    """Compare eigenvalues in any order, then the left or right eigenvectors by what they satisfy."""
    matrix, values = args[0], got[0]
    if not np.isfinite(want[0]).all():
        return None if not np.isfinite(values).all() else "finite where JAX is not"
    want_sorted, got_sorted = (np.sort_complex(x.astype(np.complex128).ravel()) for x in (want[0], values))
    dtype = np.result_type(want[0].dtype, np.complex64)
    problem = _difference(want_sorted.astype(dtype), got_sorted.astype(dtype), 100.0)
    if problem:
        return f"eigenvalues: {problem}"
    return _eigenvectors(matrix, values, [v for v in got[1:] if v.shape == matrix.shape])


def _eigenvectors(matrix: Array, values: Array, candidates: Results) -> str | None:
    """Check that the columns of each of the matrices are left or right eigenvectors."""
    eps = 1e4 * np.finfo(values.dtype).eps * max(1.0, float(np.abs(matrix).max(initial=0.0)))
    for v in candidates:
        right = np.allclose(matrix @ v, v * values[..., None, :], atol=eps)
        left = np.allclose(_adjoint(v) @ matrix, values[..., :, None] * _adjoint(v), atol=eps)
        if not right and not left:
            return "the eigenvectors satisfy neither A v = v λ nor vᴴ A = λ vᴴ"
    return None


def _eigh(harness: Harness, args: Results, want: Results, got: Results) -> str | None:
    """Compare eigenvectors, which must be orthonormal, then eigenvalues: the reverse order of `eig`."""
    vectors = got[0]
    eps = 1e4 * np.finfo(vectors.dtype).eps
    if np.isfinite(want[0]).all() and not np.allclose(_adjoint(vectors) @ vectors, np.eye(vectors.shape[-1]), atol=eps):
        return "the eigenvectors are not orthonormal"
    return _eigenvalues(harness, args, want[::-1], got[::-1])


def _svd(_: Harness, args: Results, want: Results, got: Results) -> str | None:
    """Compare the singular values, then U and Vᴴ, where they were asked for, by their product."""
    if len(want) == 1:
        return _difference(want[0], got[0], 10.0)
    s, u, v = got[0], got[1], got[2]
    problem = _difference(want[0], s, 10.0)
    if problem:
        return f"singular values: {problem}"
    k = s.shape[-1]
    if k == 0:
        return None
    return _difference(args[0].astype(u.dtype), ((u[..., :k] * s[..., None, :]) @ v[..., :k, :]).astype(u.dtype), 100.0)


def _qr(_: Harness, args: Results, want: Results, got: Results) -> str | None:
    """Compare Q and R by their product, then the pivots where there are any."""
    q, r = got[0], got[1]
    if len(got) == 3:
        problem = _difference(want[2], got[2])
        if problem:
            return f"pivots: {problem}"
    return _difference((want[0] @ want[1]).astype(q.dtype), (q @ r).astype(q.dtype), 10.0)


def _sort(harness: Harness, _: Results, want: Results, got: Results) -> str | None:
    """Compare sorted rows; those with equal keys may come in any order from a sort that is not stable."""
    if not harness.params["is_stable"]:
        want, got = _rows_in_order(want), _rows_in_order(got)
    problems = (_difference(w, g) for w, g in zip(want, got, strict=True))
    return next((problem for problem in problems if problem), None)


def _rows_in_order(arrays: Results) -> Results:
    """The arrays sorted by all of them, the first one first."""
    if len(arrays) == 1:
        return arrays
    order = np.lexsort(arrays[::-1], axis=-1)
    return [np.take_along_axis(array, order, -1) for array in arrays]


_RECONSTRUCTIONS: dict[str, Reconstruction] = {
    "sort": _sort,
    "eig": _eigenvalues,
    "eigh": _eigh,
    "svd": _svd,
    "qr": _qr,
}
