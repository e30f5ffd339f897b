"""Functions of JAX that ask for the number behind a symbolic dimension, written so that they need none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
import jax.scipy.fft  # which jax.scipy loads where it is used first: too late to replace its functions
import jax.scipy.signal
import numpy as np
from jax2onnx_core import Composites, Dim, Replacement
from jax2onnx_core.frontend.sizes import is_number_from_data, size_of
from jax2onnx_core.jaxprs import is_static, is_symbolic_dim

from jax2onnx_lax._compat import max_dim

__all__ = ["composites"]

composites = Composites()

#: JAX sorts n elements ⌈3 ln(n) / ln(2³² - 1)⌉ times: one time more beyond each of these numbers.
_ONE_ROUND_MORE = (1, 1625, 2642245)


@composites.call("jax._src.lax.lax:_const", name="jax.lax.const", is_required=True, recovers=True)
def constant(example: jax.Array, val: object) -> Replacement | None:
    """A dimension among numbers, as in `take(mode="wrap")`."""
    return Replacement(jnp.asarray(val).astype(jnp.result_type(example))) if is_symbolic_dim(val) else None


@composites.call("jax.numpy:squeeze", name="jax.numpy.squeeze", is_required=True)
def squeeze(a: jax.Array, axis: int | tuple[int, ...] | None = None) -> Replacement | None:
    """Without the axes that are known to have one element: that the others have more is a constraint of the program."""
    dims = np.shape(a)
    if axis is not None or all(map(is_static, dims)):
        return None
    return Replacement(jnp.squeeze(a, _single_axes(dims)))


def _single_axes(dims: Sequence[Dim]) -> tuple[int, ...]:
    """The axes of one element; where that is not known, core records the question of this function by its name."""
    axes = []
    for axis, dim in enumerate(dims):  # a comprehension would be a function of its own
        if dim == 1:
            axes.append(axis)
    return tuple(axes)


@composites.call("jax.numpy:diagflat", name="jax.numpy.diagflat", is_required=True)
def diagflat(v: jax.Array, k: int = 0) -> Replacement | None:
    return None if all(map(is_static, np.shape(v))) else Replacement(jnp.diag(jnp.ravel(v), k))


@composites.call("jax.numpy:array_split", name="jax.numpy.array_split", is_required=True)
def array_split(ary: jax.Array, indices_or_sections: int | Sequence[int], axis: int = 0) -> Replacement | None:
    """Parts of which the first are larger by one element; how many these are depends on the size."""
    size, parts = np.shape(ary)[axis], indices_or_sections
    if is_static(size) or not isinstance(parts, int):
        return None
    sizes = [(size + parts - 1 - part) // parts for part in range(parts)]
    smallest, larger = jnp.divmod(jnp.asarray(size), parts)
    starts = [part * smallest + jnp.minimum(part, larger) for part in range(parts)]
    return Replacement([jax.lax.dynamic_slice_in_dim(ary, *where, axis) for where in zip(starts, sizes, strict=True)])


@composites.call("jax.numpy:polyadd", name="jax.numpy.polyadd", is_required=True)
def polyadd(a1: jax.Array, a2: jax.Array) -> Replacement | None:
    """The sum of two polynomials, either of which may be the longer one."""
    both = jnp.asarray(a1), jnp.asarray(a2)
    if any(x.ndim != 1 for x in both) or all(is_static(x.shape[0]) for x in both):
        return None
    size = max_dim(*(x.shape[0] for x in both))
    first, second = (jnp.pad(x, (size - x.shape[0], 0)) for x in both)
    return Replacement(first + second)


@composites.call("jax.numpy.linalg:matrix_rank", name="jax.numpy.linalg.matrix_rank", is_required=True)
def matrix_rank(
    M: jax.Array, rtol: jax.Array | None = None, *, hermitian: bool = False, tol: jax.Array | None = None  # noqa: N803
) -> Replacement | None:  # fmt: skip
    """With JAX's own tolerance, of which NumPy has the larger size."""
    dims = np.shape(M)[-2:]
    if rtol is not None or tol is not None or len(dims) < 2 or all(map(is_static, dims)):
        return None
    values = jnp.linalg.svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    limit = values.max(-1) * jnp.asarray(max_dim(*dims)).astype(values.dtype) * jnp.finfo(values.dtype).eps
    return Replacement((values > limit[..., None]).sum(-1))


@composites.call("jax.scipy.signal:detrend", name="jax.scipy.signal.detrend", is_required=True)
def detrend(
    data: jax.Array, axis: int = -1, type: str = "linear", bp: int | Sequence[int] = 0, overwrite_data: None = None  # noqa: A002
) -> Replacement | None:  # fmt: skip
    """JAX's own formula, in which NumPy has the ends of the parts."""
    size = np.shape(data)[axis]
    starts = sorted({0, *np.ravel(bp).tolist()})
    if type != "linear" or overwrite_data is not None or is_static(size) or starts[0] < 0 or not size > starts[-1]:
        return None
    x = jnp.moveaxis(jnp.asarray(data, jnp.result_type(data, 0.0)), axis, 0)
    rows = x.reshape(size, -1)
    parts = [_without_line(rows[start:stop]) for start, stop in pairwise([*starts, size])]
    return Replacement(jnp.moveaxis(jnp.concatenate(parts).reshape(x.shape), 0, axis))


def _without_line(rows: jax.Array) -> jax.Array:
    """Columns, less the line that fits each of them best."""
    count = rows.shape[0]
    places = jnp.arange(1, count + 1).astype(rows.dtype) / jnp.asarray(count).astype(rows.dtype)
    design = jnp.stack([jnp.ones_like(places), places], 1)
    return rows - jnp.matmul(design, jnp.linalg.lstsq(design, rows)[0], precision=jax.lax.Precision.HIGHEST)


@composites.call("jax._src.scipy.fft:_dct_interleave", name="jax.scipy.fft.dct_interleave", is_required=True)
def dct_interleave(x: jax.Array, axis: int) -> Replacement | None:
    """The elements in even places, and behind them those in odd ones from the last, of which the derivative has none where there are none."""
    size = x.shape[axis]
    if is_static(size):
        return None
    places = jnp.arange(size)
    order = jnp.where(places < (size + 1) // 2, 2 * places, 2 * (size - places) - 1)
    return Replacement(jnp.take(x, order, axis, mode="clip"))


@composites.call("jax._src.scipy.fft:_dct_deinterleave", name="jax.scipy.fft.dct_deinterleave", is_required=True)
def dct_deinterleave(x: jax.Array, axis: int) -> Replacement | None:
    """The elements of the first half in even places, those of the second in odd ones, from the last place."""
    size = x.shape[axis]
    if is_static(size):
        return None
    places = jnp.arange(size)
    return Replacement(jnp.take(x, jnp.where(places % 2 == 0, places // 2, size - 1 - places // 2), axis, mode="clip"))


@composites.call("jax._src.lax.lax:_reduce_prod_jvp_rule", name="jax.lax.reduce_prod_jvp", is_required=True)
def derivative_of_product(
    primals: Sequence[jax.Array], tangents: Sequence[jax.Array], *, axes: Sequence[int], **_: object
) -> Replacement | None:
    """Each tangent times the product of all elements before and all elements behind it."""
    (x,), (tangent,) = primals, tangents
    if all(map(is_static, x.shape)):
        return None
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    flat = x.transpose(*axes, *kept).reshape(-1, *(x.shape[axis] for axis in kept))
    moved = tangent.transpose(*axes, *kept).reshape(flat.shape)
    one, rest = jnp.ones((), x.dtype), [(0, 0, 0)] * len(kept)
    before = jax.lax.cumprod(jax.lax.pad(flat, one, [(1, -1, 0), *rest]))
    behind = jax.lax.cumprod(jax.lax.pad(flat, one, [(-1, 1, 0), *rest]), reverse=True)
    return Replacement((jnp.prod(flat, 0), (moved * before * behind).sum(0)))


@composites.call("jax.random:permutation", name="jax.random.permutation", is_required=True)
def permutation(
    key: jax.Array, x: jax.Array | Dim, axis: int = 0, independent: bool = False, **sharding: object
) -> Replacement | None:
    """The permutation that JAX draws for this number of elements."""
    x = size_of(x, "permutation") if is_number_from_data(x) else x
    array = jnp.arange(x) if is_symbolic_dim(x) else jnp.asarray(x)
    if is_static(array.size):
        return None
    if independent or array.ndim == 1:
        return Replacement(_shuffled(key, array, axis))
    if is_static(array.shape[axis]):
        return None
    return Replacement(jnp.take(array, _shuffled(key, jnp.arange(array.shape[axis]), 0), axis, mode="clip"))


def _shuffled(key: jax.Array, x: jax.Array, axis: int) -> jax.Array:
    """The elements in the order of random numbers, sorted as often as JAX does for so many of them."""

    def sorted_once(_: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        key, x = state
        key, drawn = jax.random.split(key)
        return key, jax.lax.sort_key_val(jax.random.bits(drawn, x.shape, np.uint32), x, axis)[1]

    rounds = (jnp.asarray(x.size) > jnp.asarray(_ONE_ROUND_MORE)).sum()
    return jax.lax.fori_loop(0, rounds, sorted_once, (key, x))[1]
