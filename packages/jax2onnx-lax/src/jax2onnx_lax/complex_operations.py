"""Windows, convolution, sorting and scattering of complex arrays: what must see both components.

What is linear acts on each component (declared in `complex`). The order is lexicographic, as in
NumPy and JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax2onnx_core import Complex, Rules
from jax2onnx_lax.complex import maximum, minimum, mul, pack, unpack
from jax2onnx_lax.complex_arrays import multiply_pairs

__all__ = ["rules"]

rules = Rules()

Array = jax.Array
Combine = Callable[[Complex, Complex], Complex]


def _map(fn: Callable[[Array], Array], z: Complex) -> Complex:
    return Complex(fn(z.real), fn(z.imag))


# -- convolution ----------------------------------------------------------------------------------


def _conv_general_dilated(
    z: Complex, w: Complex, *, preferred_element_type: Any = None, out_sharding: Any = None, **params: Any
) -> Complex:
    """Four real convolutions: Gauss' three lose the smaller component to cancellation."""
    del out_sharding
    if preferred_element_type is not None:
        part = np.empty(0, preferred_element_type).real.dtype
        z, w = (_map(lambda x: lax.convert_element_type(x, part), operand) for operand in (z, w))
    return multiply_pairs(lambda x, y: lax.conv_general_dilated(x, y, **params), z, w)


# -- windows ------------------------------------------------------------------------------------------


def _window_extremum(combine: Combine, identity: float) -> Callable[..., Complex]:
    """As a window reduction by a computation that is not recognised as the primitive itself."""

    def windowed(z: Complex, **params: Any) -> Complex:
        init = np.asarray(identity, np.result_type(z.real.dtype, np.complex64))
        arrays = lax.reduce_window(pack(z), init, lambda x, y: pack(combine(unpack(x), unpack(y))), **params)
        return unpack(arrays)

    return windowed


# -- sorting ------------------------------------------------------------------------------------------


def _sort(*operands: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
    """A complex key is two keys, its real and its imaginary part."""
    parts = [tuple(x) if isinstance(x, Complex) else (x,) for x in operands]
    keys = sum(len(p) for p in parts[:num_keys])
    flat = [x for p in parts for x in p]
    ordered = iter(lax.sort(flat, dimension=dimension, is_stable=is_stable, num_keys=keys))
    return [Complex(next(ordered), next(ordered)) if len(p) == 2 else next(ordered) for p in parts]


# -- scattering ---------------------------------------------------------------------------------------


def _scatter(combine: Combine) -> Callable[..., Complex]:
    """Scatter one update after the other: gather what is there, combine, write back."""

    def scatter(
        operand: Complex, indices: Array, updates: Complex, *, dimension_numbers: Any, mode: Any,
        unique_indices: bool, **_: Any,
    ) -> Complex:  # fmt: skip
        operand_shape = operand.real.shape
        indices, numbers = _without_batching(indices, dimension_numbers)
        windows = _map(lambda x: _windows_last(x, numbers, indices.ndim - 1), updates)
        rows = indices.reshape(-1, indices.shape[-1])
        batch = indices.ndim - 1
        flat = _map(lambda x: x.reshape((rows.shape[0], *x.shape[batch:])), windows)
        apply = _update(combine, numbers, operand_shape, mode)
        if unique_indices:
            return apply(operand, rows, flat)
        return lax.fori_loop(
            0, rows.shape[0],
            lambda i, z: apply(z, lax.dynamic_slice_in_dim(rows, i, 1),
                               _map(lambda x: lax.dynamic_slice_in_dim(x, i, 1), flat)),
            operand,
        )  # fmt: skip

    return scatter


def _without_batching(indices: Array, numbers: Any) -> tuple[Array, lax.ScatterDimensionNumbers]:
    """Express batching dimensions as ordinary inserted dimensions with their own positions as index."""
    positions = [
        lax.broadcasted_iota(indices.dtype, (*indices.shape[:-1], 1), axis)
        for axis in numbers.scatter_indices_batching_dims
    ]
    return jnp.concatenate([indices, *positions], -1) if positions else indices, lax.ScatterDimensionNumbers(
        update_window_dims=numbers.update_window_dims,
        inserted_window_dims=tuple(sorted((*numbers.inserted_window_dims, *numbers.operand_batching_dims))),
        scatter_dims_to_operand_dims=(*numbers.scatter_dims_to_operand_dims, *numbers.operand_batching_dims),
    )


def _windows_last(updates: Array, numbers: lax.ScatterDimensionNumbers, batch: int) -> Array:
    window = tuple(numbers.update_window_dims)
    scattered = tuple(i for i in range(updates.ndim) if i not in window)
    assert len(scattered) == batch
    return lax.transpose(updates, (*scattered, *window))


def _update(
    combine: Combine, numbers: lax.ScatterDimensionNumbers, operand_shape: Sequence[Any], mode: Any
) -> Callable[[Complex, Array, Complex], Complex]:
    """`(operand, indices [n, k], updates [n, *window]) → operand`, for indices without repetition."""
    inserted = numbers.inserted_window_dims
    kept = [i for i in range(len(operand_shape)) if i not in inserted]
    offsets = tuple(range(1, 1 + len(kept)))
    gather_numbers = lax.GatherDimensionNumbers(offsets, inserted, numbers.scatter_dims_to_operand_dims)
    scatter_numbers = lax.ScatterDimensionNumbers(offsets, inserted, numbers.scatter_dims_to_operand_dims)

    def apply(operand: Complex, rows: Array, updates: Complex) -> Complex:
        window = dict(zip(kept, updates.real.shape[1:], strict=True))
        sizes = tuple(window.get(i, 1) for i in range(len(operand_shape)))
        there = _map(lambda x: lax.gather(x, rows, gather_numbers, sizes, mode=mode), operand)
        new = combine(there, updates)
        return Complex(*(
            lax.scatter(x, rows, u, scatter_numbers, mode=mode) for x, u in zip(operand, new, strict=True)
        ))  # fmt: skip

    return apply


rules.complex("conv_general_dilated", _conv_general_dilated)
rules.complex("reduce_window_max", _window_extremum(maximum, -np.inf))
rules.complex("reduce_window_min", _window_extremum(minimum, np.inf))
rules.complex("sort", _sort)
rules.complex("scatter-mul", _scatter(mul))
rules.complex("scatter-max", _scatter(maximum))
rules.complex("scatter-min", _scatter(minimum))
