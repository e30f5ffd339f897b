"""Sorting, scattering and angles of complex arrays, which must see both components of an element.

Operations that act on each component are declared in `complex.arithmetic`; reductions, contractions and
windows of complex arrays stand beside their real counterparts.
"""

from __future__ import annotations

from collections.abc import Sequence

from jax import Array, lax
from jax2onnx_core import Complex, Rules

from jax2onnx_lax.complex._arrays import on_arrays
from jax2onnx_lax.indexing._scatter_in_order import apply_in_order

__all__ = ["rules"]

rules = Rules()


@rules.complex("sort")
def sort(*operands: Complex | Array, dimension: int, is_stable: bool, num_keys: int) -> Sequence[Complex | Array]:
    """Lexicographic order: a complex key is two keys, its real and its imaginary part."""
    parts = [tuple(x) if isinstance(x, Complex) else (x,) for x in operands]
    keys = sum(len(p) for p in parts[:num_keys])
    flat = [x for p in parts for x in p]
    ordered = iter(lax.sort(flat, dimension=dimension, is_stable=is_stable, num_keys=keys))
    return [Complex(next(ordered), next(ordered)) if len(p) == 2 else next(ordered) for p in parts]


def _angle(y: Array, x: Array) -> Array:
    """`-i log((x + iy) / sqrt(x² + y²))`, as XLA has it."""
    w = lax.log((x + lax.complex(-lax.imag(y), lax.real(y))) / lax.sqrt(x * x + y * y))
    return lax.complex(lax.imag(w), -lax.real(w))


rules.complex("atan2", on_arrays(_angle))

# Sums are componentwise; products and extrema are not.
rules.complex("scatter-mul", "scatter-max", "scatter-min", on_arrays(apply_in_order))
