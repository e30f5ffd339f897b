"""Random keys and random bits, the same bits as JAX's.

A typed key (`key<fry>`, `key<rbg>`, …) is carried as the uint32 words that `jax.random.key_data`
shows. What little is drawn from a key that is known at export is a constant of the model.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Rules

from jax2onnx_lax import _compat
from jax2onnx_lax.random.generators import rng_bit_generator, threefry2x32

__all__ = ["rules"]

rules = Rules()


@rules.lower("random_wrap", packed=True)
def random_wrap(ctx: Any, words: Any, *, impl: Any) -> Any:
    """Words and typed keys are carried alike."""
    return words


@rules.lower("random_unwrap", "random_clone", packed=True)
def random_unwrap(ctx: Any, words: Any) -> Any:
    """Words and typed keys are carried alike."""
    return words


@rules.lower("random_seed", packed=True)
def random_seed(ctx: Any, seeds: Any, *, impl: Any) -> Any:
    """Keys from integer seeds of any shape."""
    return ctx.jax(functools.partial(_compat.random_seed, ctx.avals_out[0].dtype), seeds)


@rules.lower("random_split", packed=True)
def random_split(ctx: Any, words: Any, *, shape: Any) -> Any:
    """`shape` new keys from each key."""
    keys = ctx.avals_in[0]
    return ctx.jax(lambda w: _compat.random_split(keys.dtype, w, keys.ndim, shape), words)


@rules.lower("random_fold_in", packed=True)
def random_fold_in(ctx: Any, words: Any, data: Any) -> Any:
    """A new key from each key and integer, broadcast together."""
    keys = ctx.avals_in[0]
    return ctx.jax(lambda w, d: _compat.random_fold_in(keys.dtype, w, d, keys.shape), words, data)


@rules.lower("random_bits", packed=True)
def random_bits(ctx: Any, words: Any, *, bit_width: int, shape: Any) -> Any:
    """Uniform unsigned integers of `shape` from each key."""
    keys = ctx.avals_in[0]
    return ctx.jax(lambda w: _compat.random_bits(keys.dtype, w, keys.ndim, bit_width, shape), words)


@rules.lower("random_gamma", packed=True)
def random_gamma(ctx: Any, words: Any, alpha: Any, *, log_space: bool) -> Any:
    """Gamma variates by Marsaglia and Tsang's rejection, one loop for all of them."""
    keys = ctx.avals_in[0]
    return ctx.jax(lambda w, a: _compat.random_gamma(keys.dtype, w, a, log_space), words, alpha)


@rules.lower("eq", "ne", packed=True)
def compare_keys(ctx: Any, x: Any, y: Any) -> Any:
    """Keys are equal if all their words are."""
    if not jnp.issubdtype(ctx.avals_in[0].dtype, jax.dtypes.prng_key):
        ctx.decline("not keys")
    equal = ctx.op.ReduceMin(ctx.cast(ctx.op.Equal(x, y), np.int32), ctx.ints([-1]), keepdims=0)
    return ctx.op.Equal(equal, ctx.constant(1 if ctx.primitive == "eq" else 0, np.int32))


# -- hashes ---------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _threefry_jaxpr(*shapes: tuple[Any, ...]) -> Any:
    return jax.make_jaxpr(threefry2x32)(*(jax.ShapeDtypeStruct(s, np.uint32) for s in shapes))


@rules.lower("threefry2x32")
def lower_threefry2x32(ctx: Any, *operands: Any) -> Any:
    """An ONNX function, shared by the calls of equal shapes."""
    jaxpr = _threefry_jaxpr(*(aval.shape for aval in ctx.avals_in))
    return ctx.function(jaxpr, *operands, name="threefry2x32", domain="jax2onnx.random")


@rules.fold("threefry2x32")
def fold_threefry2x32(*operands: Any) -> Any:
    """The same hash on NumPy arrays."""
    return threefry2x32(*operands)


@rules.fold("iota_2x32_shape")
def fold_iota_2x32_shape(*, shape: Any) -> Any:
    """The same counters as NumPy arrays."""
    counts = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    return (counts >> np.uint64(32)).astype(np.uint32), counts.astype(np.uint32)


rules.decompose("threefry4x32", _compat.threefry4x32)
rules.decompose("philox2x32", _compat.philox2x32)
rules.decompose("philox4x32", _compat.philox4x32)
rules.decompose("rng_bit_generator", rng_bit_generator)


@rules.lower("iota_2x32_shape")
def iota_2x32_shape(ctx: Any, *, shape: Any) -> Any:
    """0, 1, 2, … in row-major order as 64-bit numbers: high words, low words."""
    size = math.prod(shape)
    counts = ctx.op.Range(ctx.constant(0, np.int64), ctx.dim(size), ctx.constant(1, np.int64), dims=(size,))
    low = ctx.reshape(ctx.cast(counts, np.uint32), shape)
    if isinstance(size, int) and size <= 2**32:
        return ctx.broadcast(ctx.constant(np.zeros((), np.uint32)), shape), low
    high = ctx.cast(ctx.op.Div(counts, ctx.constant(2**32, np.int64)), np.uint32)
    return ctx.reshape(high, shape), low


rules.unsupported(
    "rng_uniform",
    "it draws from a hidden generator of the device, which a file cannot reproduce",
    "use jax.random.uniform with a key; the key may be an input of the model",
)
