"""Functions of JAX that ask for the number behind a symbolic dimension, written so that they need none."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Composites, Dim, Replacement
from jax2onnx_core.jaxprs import is_static, is_symbolic_dim

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
