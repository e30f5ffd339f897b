"""Rules for complex operands that are best written on complex arrays, whose equations then lower by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax2onnx_core import Complex
from jax2onnx_lax.complex import pack, unpack

__all__ = ["multiply_pairs", "on_arrays"]


def on_arrays(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A rule on `Complex` pairs from a function of complex arrays; what it returns may mix complex and real."""

    def on_pairs(*operands: Any, **params: Any) -> Any:
        result = fn(*[pack(x) if isinstance(x, Complex) else x for x in operands], **params)
        if isinstance(result, (list, tuple)):
            return [_pair(x) for x in result]
        return _pair(result)

    return on_pairs


def _pair(x: Any) -> Any:
    return unpack(x) if jnp.iscomplexobj(x) else x


def multiply_pairs(product: Callable[[Any, Any], Any], z: Any, w: Any) -> Complex:
    """A bilinear function of complex numbers, at least one of `z` and `w` a pair, from that of real ones."""
    if not isinstance(z, Complex):
        return Complex(product(z, w.real), product(z, w.imag))
    if not isinstance(w, Complex):
        return Complex(product(z.real, w), product(z.imag, w))
    real = product(z.real, w.real) - product(z.imag, w.imag)
    return Complex(real, product(z.real, w.imag) + product(z.imag, w.real))
