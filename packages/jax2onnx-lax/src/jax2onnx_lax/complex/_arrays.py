"""Rules for complex operands that are best written on complex arrays, whose equations then lower by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import Primitive
from jax2onnx_core import Complex
from jax2onnx_core.jax_types import PyTree
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax.complex.arithmetic import pack, unpack
from jax2onnx_lax.dtypes import real_dtype

__all__ = ["joined", "multiply_in_parts", "on_arrays", "parts"]

Operand = Complex | Array


def parts(tree: PyTree) -> PyTree:
    """A tree with a pair of real arrays in place of each complex one, which a loop carries apart."""
    return jax.tree.map(lambda x: unpack(x) if jnp.iscomplexobj(x) else x, tree)


def joined(tree: PyTree) -> PyTree:
    """The tree of these `parts`."""
    return jax.tree.map(
        lambda x: pack(x) if isinstance(x, Complex) else x, tree, is_leaf=lambda x: isinstance(x, Complex)
    )


def on_arrays(fn: Callable[..., Array | Sequence[Array]]) -> Callable[..., Operand | Sequence[Operand]]:
    """A rule for `Complex` pairs made from a function of complex arrays; its results may be complex or real."""

    def on_pairs(*operands: Operand, **params: object) -> Operand | Sequence[Operand]:
        pairs: Operand | Sequence[Operand] = parts(fn(*joined(operands), **params))
        return pairs

    return on_pairs


def multiply_in_parts(
    primitive: Primitive, z: Operand, w: Operand, *, preferred_element_type: DtypeLike | None = None, **params: object
) -> Complex:
    """Apply a bilinear primitive (a contraction, a convolution) to the real and imaginary parts of its operands.

    Args:
      primitive: the primitive, of two real operands.
      z: the first operand.
      w: the second operand; at least one of them is a complex pair.
      preferred_element_type: the dtype of the result, complex or None; the parts are converted to its float dtype.
      params: the other parameters of the primitive.
    """
    result = jax.eval_shape(
        lambda *xs: primitive.bind(*xs, preferred_element_type=preferred_element_type, **params),
        *[jax.eval_shape(lambda x: pack(x) if isinstance(x, Complex) else x, x) for x in (z, w)],
    ).dtype
    dtype = real_dtype(result)

    def product(x: Array, y: Array) -> Array:
        return primitive.bind(x.astype(dtype), y.astype(dtype), preferred_element_type=None, **params)

    if not isinstance(z, Complex):
        return Complex(product(z, w.real), product(z, w.imag))
    if not isinstance(w, Complex):
        return Complex(product(z.real, w), product(z.imag, w))
    real = product(z.real, w.real) - product(z.imag, w.imag)
    return Complex(real, product(z.real, w.imag) + product(z.imag, w.real))
