"""Scatter that combines elements by any function: `x.at[i].apply(f)`, products of complex numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from jax2onnx_core import Jaxpr
from jax2onnx_core.jaxprs import eval_jaxpr

from jax2onnx_lax.padding import at_least_one

__all__ = ["apply_in_order"]

_Combine = Callable[[jax.Array, jax.Array], jax.Array]


def apply_in_order(
    x: jax.Array, indices: jax.Array, updates: jax.Array, *, update_jaxpr: Jaxpr | None,
    update_consts: Sequence[jax.Array] = (), dimension_numbers: ScatterDimensionNumbers, mode: GatherScatterMode,
    unique_indices: bool = False, **_: object,
) -> jax.Array:  # fmt: skip
    """Compute `x[i] = f(x[i], update)` for one update after another, as XLA defines scatter.

    All at once where no element can be met twice, else in a loop over the batch. The operands and parameters are those of the
    scatter primitives; `update_jaxpr` is f, of two scalars.
    """
    combine = _elementwise(update_jaxpr, update_consts)
    indices, numbers = _without_batching(indices, dimension_numbers)
    batch = indices.shape[:-1]
    if unique_indices or all(size == 1 for size in batch):
        return _apply_at(x, indices, updates, combine, numbers, mode)
    window = numbers.update_window_dims
    order = [d for d in range(updates.ndim) if d not in window] + list(window)
    count = math.prod(batch)
    updates = lax.transpose(updates, order)
    updates = updates.reshape(count, *updates.shape[len(batch) :])
    indices = indices.reshape(count, indices.shape[-1])
    one = numbers._replace(update_window_dims=tuple(range(len(window))))

    def step(state: jax.Array, element: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        return _apply_at(state, *element, combine, one, mode), None

    return lax.scan(step, x, (indices, updates))[0]


def _elementwise(jaxpr: Jaxpr | None, consts: Sequence[jax.Array]) -> _Combine:
    """The jaxpr of a function of two scalars as a function of two arrays of one shape; without one, the update."""
    if jaxpr is None:
        return lambda _, update: update

    def combine(current: jax.Array, update: jax.Array) -> jax.Array:
        of_scalars = jax.vmap(lambda a, b: eval_jaxpr(jaxpr, a, b, consts=consts)[0])
        return of_scalars(current.ravel(), update.ravel()).reshape(current.shape)

    return combine


def _apply_at(
    x: jax.Array, indices: jax.Array, updates: jax.Array, combine: _Combine, numbers: ScatterDimensionNumbers,
    mode: GatherScatterMode,
) -> jax.Array:  # fmt: skip
    """`x` with windows combined with the updates; no place may be in two windows."""
    take = GatherDimensionNumbers(
        offset_dims=numbers.update_window_dims,
        collapsed_slice_dims=numbers.inserted_window_dims,
        start_index_map=numbers.scatter_dims_to_operand_dims,
    )
    sizes = iter(updates.shape[d] for d in numbers.update_window_dims)
    window = [1 if d in numbers.inserted_window_dims else next(sizes) for d in range(x.ndim)]
    source = functools.reduce(at_least_one, numbers.inserted_window_dims, x)
    current = lax.gather(source, indices, take, window, mode=GatherScatterMode.CLIP)
    return lax.scatter(x, indices, combine(current, updates), numbers, mode=mode, unique_indices=True)


def _without_batching(
    indices: jax.Array, numbers: ScatterDimensionNumbers
) -> tuple[jax.Array, ScatterDimensionNumbers]:
    """Indices and numbers without batching dimensions: positions along these become further indices."""
    if not numbers.operand_batching_dims:
        return indices, numbers
    if indices.dtype.itemsize < 4:  # a batch may have more elements than the type has numbers
        indices = lax.convert_element_type(indices, np.int32)
    shape = (*indices.shape[:-1], 1)
    positions = [lax.broadcasted_iota(indices.dtype, shape, d) for d in numbers.scatter_indices_batching_dims]
    batched = tuple(numbers.operand_batching_dims)
    return jnp.concatenate([*positions, indices], -1), ScatterDimensionNumbers(
        update_window_dims=numbers.update_window_dims,
        inserted_window_dims=tuple(sorted((*numbers.inserted_window_dims, *batched))),
        scatter_dims_to_operand_dims=(*batched, *numbers.scatter_dims_to_operand_dims),
    )
