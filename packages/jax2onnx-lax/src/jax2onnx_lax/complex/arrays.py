"""Rules for complex operands that are best written on complex arrays, whose equations then lower by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Complex

from jax2onnx_lax.complex.arithmetic import pack, unpack

__all__ = ["multiply_in_parts", "on_arrays"]


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


def multiply_in_parts(primitive: Any, z: Any, w: Any, *, preferred_element_type: Any = None, **params: Any) -> Complex:
    """A contraction of complex operands, at least one of them a pair, by the same contraction of their parts."""
    result = jax.eval_shape(
        lambda *xs: primitive.bind(*xs, preferred_element_type=preferred_element_type, **params),
        *[jax.eval_shape(lambda x: pack(x) if isinstance(x, Complex) else x, x) for x in (z, w)],
    ).dtype
    dtype = np.zeros((), result).real.dtype

    def product(x: Any, y: Any) -> Any:
        return primitive.bind(x.astype(dtype), y.astype(dtype), preferred_element_type=None, **params)

    if not isinstance(z, Complex):
        return Complex(product(z, w.real), product(z, w.imag))
    if not isinstance(w, Complex):
        return Complex(product(z.real, w), product(z.imag, w))
    real = product(z.real, w.real) - product(z.imag, w.imag)
    return Complex(real, product(z.real, w.imag) + product(z.imag, w.real))
