"""Functions of `jax.numpy` that count on fixed sizes: `searchsorted`, `packbits`, `ravel_multi_index`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Context, Dim, Replacement, Rules, Value
from jax2onnx_core.jaxprs import is_static
from jax2onnx_core.plugins.errors import ConversionError

from jax2onnx_lax.sizes.resized import resized

__all__ = ["composites", "rules"]

composites = Composites()
rules = Rules()

#: So many numbers are compared in less time than a loop of a search takes.
_FEW = 64


def _has_symbol(x: object, axis: int) -> bool:
    """Whether an axis of an array has a size that is no fixed number."""
    return isinstance(x, jax.core.Tracer) and -x.ndim <= axis < x.ndim and not is_static(x.shape[axis])


@composites.call("jax.numpy:searchsorted", name="jax.numpy.searchsorted", is_required=True, keep_under_vmap=(1,))
def searchsorted(
    a: jax.Array, v: jax.Array, side: str = "left", sorter: jax.Array | None = None, *, method: str = "scan"
) -> Call | Replacement | None:
    """By ranks among all numbers, less those among the searched ones: the steps of a search by halves are no fixed number.

    A search among few numbers may be one comparison.
    """
    kind = jnp.result_type(a, v)
    if sorter is None and a.ndim == 1 and is_static(a.shape[0]) and a.shape[0] <= _FEW:
        return Call(jnp.asarray(a, kind), jnp.asarray(v, kind), side=side)
    if not _has_symbol(a, 0):
        return None
    a, v = a if sorter is None else a[sorter], jnp.asarray(v)
    searched, points = v.reshape(-1).astype(kind), a.astype(kind)
    if side == "left":
        ranks = _ranks(jnp.concatenate([searched, points]))[: searched.shape[0]]
    else:
        ranks = _ranks(jnp.concatenate([points, searched]))[points.shape[0] :]
    return Replacement((ranks - _ranks(searched)).reshape(v.shape).astype(jnp.int32))


@rules.lower("jax.numpy.searchsorted")
def search_among_few(ctx: Context, a: Value, v: Value, *, side: str) -> Value:
    """The number of known numbers in order that come before another, behind all of which NaN is."""
    known = ctx.known(a)
    if known is None or not np.array_equal(known, np.sort(known)):
        ctx.pass_on("the numbers are not known at export, or not in order")

    def count(among: jax.Array, searched: jax.Array) -> jax.Array:
        is_behind = among >= searched[..., None] if side == "left" else among > searched[..., None]
        return jnp.sum(~is_behind, -1, dtype=ctx.avals_out[0].dtype)

    return ctx.jax(count, a, v)


def _ranks(x: jax.Array) -> jax.Array:
    return (
        jnp.zeros(x.shape[0], jnp.int32)
        .at[jnp.argsort(x)]
        .set(jnp.arange(x.shape[0], dtype=jnp.int32), unique_indices=True)
    )


@composites.call("jax.numpy:packbits", name="jax.numpy.packbits", is_required=True)
def packbits(a: jax.Array, axis: int | None = None, bitorder: str = "big") -> Replacement | None:
    """Eight bits each, the last ones with zeros, of which JAX asks whether there are any."""
    x = jnp.ravel(a) if axis is None else jnp.asarray(a)
    along = (0 if axis is None else axis) % max(x.ndim, 1)
    if not _has_symbol(x, along):
        return None
    count = -(-x.shape[along] // 8)
    rows = jnp.moveaxis(x, along, -1)
    padded = jnp.pad(rows != 0, [(0, 0)] * (x.ndim - 1) + [(0, 8 * count - x.shape[along])])
    bytes_ = jnp.packbits(resized(padded, (*padded.shape[:-1], count, 8)), axis=-1, bitorder=bitorder)
    return Replacement(jnp.moveaxis(bytes_[..., 0], -1, along))


_MODES = ("raise", "clip", "wrap", "ignore")


@composites.call("jax.numpy:ravel_multi_index", name="jax.numpy.ravel_multi_index", is_required=True)
def ravel_multi_index(
    multi_index: Sequence[jax.Array],
    dims: Sequence[Dim],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: jax.typing.DTypeLike | None = None,
) -> Replacement | None:
    """JAX's own formula, without the question whether the type holds the number of all elements."""
    if all(map(is_static, dims)) or mode not in _MODES or order not in ("C", "F") or len(multi_index) != len(dims):
        return None
    if mode == "raise":
        raise ConversionError(
            "jax.numpy.ravel_multi_index can raise outside of traces only: give mode='wrap' or mode='clip'."
        )
    kind = jnp.result_type(int, *multi_index) if dtype is None else jnp.dtype(dtype)
    sizes = list(dims) if order == "F" else list(dims)[::-1]
    strides = [math.prod(sizes[:i]) for i in range(len(sizes))]
    total = jnp.zeros((), kind)
    for index, size, stride in zip(multi_index, dims, strides if order == "F" else strides[::-1], strict=True):
        i = jnp.asarray(index)
        length = jnp.asarray(size)
        inside = jnp.clip(i, 0, length - 1) if mode == "clip" else i % length if mode == "wrap" else i
        total = total + inside.astype(kind) * jnp.asarray(stride).astype(kind)
    return Replacement(total)
