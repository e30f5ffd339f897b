"""Comparing the results of JAX's primitive harness; factorisations by what they reconstruct."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_core.program.verification import tolerance

__all__ = ["compare_harness"]


def compare_harness(harness: Any, args: Sequence[Any], expected: Any, actual: Any) -> str | None:
    """None if the results agree, else a sentence that says where they do not.

    Signs, order and phases of factorisations are free, so those are compared by their product.
    """
    want = [_plain(x) for x in jax.tree_util.tree_leaves(expected)]
    got = [_plain(x) for x in jax.tree_util.tree_leaves(actual)]
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


def _plain(x: Any) -> np.ndarray[Any, Any]:
    if isinstance(x, jax.Array) and jax.numpy.issubdtype(x.dtype, jax.dtypes.extended):
        x = jax.random.key_data(x)
    return np.asarray(x)


def _difference(want: np.ndarray[Any, Any], got: np.ndarray[Any, Any], loosen: float = 1.0) -> str | None:
    is_complex = np.issubdtype(want.dtype, np.complexfloating)
    wide = np.complex128 if is_complex else np.float64
    if want.dtype.kind in "biu":
        wrong = want != got
        return f"{int(wrong.sum())} of {wrong.size} integers differ" if wrong.any() else None
    w, g = want.astype(wide), got.astype(wide)
    rtol = tolerance(want.dtype) * loosen
    finite = np.abs(w[np.isfinite(w)])
    atol = rtol * max(1e-30, float(finite.max(initial=0.0)) * 0.1)
    close = np.isclose(g, w, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    index = tuple(int(i) for i in np.argwhere(~close)[0])
    return (
        f"{int((~close).sum())} of {close.size} differ, the first at {index}: {got[index]!r} instead of {want[index]!r}"
    )


Reconstruction = Callable[
    [Any, list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]], str | None
]


def _adjoint(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.conj(np.swapaxes(x, -1, -2))


def _eigenvalues(_: Any, args: list[Any], want: list[Any], got: list[Any]) -> str | None:
    matrix, values = args[0], got[0]
    if not np.isfinite(want[0]).all():
        return None if not np.isfinite(values).all() else "finite where JAX is not"
    want_sorted, got_sorted = (np.sort_complex(x.astype(np.complex128).ravel()) for x in (want[0], values))
    dtype = np.result_type(want[0].dtype, np.complex64)
    problem = _difference(want_sorted.astype(dtype), got_sorted.astype(dtype), 100.0)
    if problem:
        return f"eigenvalues: {problem}"
    vectors = [v for v in got[1:] if v.shape == matrix.shape]
    eps = 1e4 * np.finfo(values.dtype).eps * max(1.0, float(np.abs(matrix).max(initial=0.0)))
    for v in vectors:
        right = np.allclose(matrix @ v, v * values[..., None, :], atol=eps)
        left = np.allclose(_adjoint(v) @ matrix, values[..., :, None] * _adjoint(v), atol=eps)
        if not right and not left:
            return "the eigenvectors satisfy neither A v = v λ nor vᴴ A = λ vᴴ"
    return None


def _eigh(harness: Any, args: list[Any], want: list[Any], got: list[Any]) -> str | None:
    """Vectors come first, and are orthonormal."""
    vectors = got[0]
    eps = 1e4 * np.finfo(vectors.dtype).eps
    if np.isfinite(want[0]).all() and not np.allclose(_adjoint(vectors) @ vectors, np.eye(vectors.shape[-1]), atol=eps):
        return "the eigenvectors are not orthonormal"
    return _eigenvalues(harness, args, want[::-1], got[::-1])


def _svd(_: Any, args: list[Any], want: list[Any], got: list[Any]) -> str | None:
    if len(want) == 1:
        return _difference(want[0], got[0], 10.0)
    s, u, v = got[0], got[1], got[2]
    problem = _difference(want[0], s, 10.0)
    if problem:
        return f"singular values: {problem}"
    if s.shape[-1] == 0:
        return None
    k = s.shape[-1]
    return _difference(args[0].astype(u.dtype), ((u[..., :k] * s[..., None, :]) @ v[..., :k, :]).astype(u.dtype), 100.0)


def _qr(_: Any, args: list[Any], want: list[Any], got: list[Any]) -> str | None:
    q, r = got[0], got[1]
    if len(got) == 3:
        same = _difference(want[2], got[2])
        if same:
            return f"pivots: {same}"
    return _difference((want[0] @ want[1]).astype(q.dtype), (q @ r).astype(q.dtype), 10.0)


def _sort(harness: Any, _: list[Any], want: list[Any], got: list[Any]) -> str | None:
    """Rows with equal keys may come in any order from a sort that is not stable."""
    if not harness.params["is_stable"]:
        want, got = _rows_in_order(want), _rows_in_order(got)
    problems = (_difference(w, g) for w, g in zip(want, got, strict=True))
    return next((problem for problem in problems if problem), None)


def _rows_in_order(arrays: list[Any]) -> list[Any]:
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
