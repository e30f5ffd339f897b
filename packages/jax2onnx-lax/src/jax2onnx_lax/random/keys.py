"""Random keys and random bits, the same bits as JAX's.

The physical form of a typed key (`key<fry>`, `key<rbg>`, …) are the uint32 words that `jax.random.key_data`
shows. What is drawn from keys that are known at export is a constant of the model, unless it is very large.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import jax
import numpy as np
from jax2onnx_core import Context, Dim, Jaxpr, Rules, Value
from jax2onnx_core.jaxprs import Dims, is_static
from jax2onnx_core.lowering.physical import static_type
from jax2onnx_graph.build.builder import Array

from jax2onnx_lax import _compat
from jax2onnx_lax.random._generators import rng_bit_generator, threefry2x32

__all__ = ["rules"]

rules = Rules()

_MOST_STORED = 1 << 24  # elements: drawing one takes a hundred operations at each run


@rules.lower("random_wrap", physical=True)
def random_wrap(ctx: Context, words: Value, **_: object) -> Value:
    """Typed keys of words, which are their physical form."""
    return words


@rules.lower("random_unwrap", "random_clone", physical=True)
def random_unwrap(ctx: Context, words: Value) -> Value:
    """The words of typed keys, or the keys themselves."""
    return words


@rules.lower("random_seed", physical=True)
def random_seed(ctx: Context, seeds: Value, **_: object) -> Value:
    """Keys from integer seeds of any shape."""
    return ctx.jax(functools.partial(_compat.random_seed, ctx.avals_out[0].dtype), seeds)


@rules.lower("random_split", physical=True)
def random_split(ctx: Context, words: Value, *, shape: Sequence[Dim]) -> Value:
    """`shape` new keys from each key."""
    keys = ctx.avals_in[0]
    return _drawn(ctx, lambda w: _compat.random_split(keys.dtype, w, len(keys.shape), shape), words)


@rules.lower("random_fold_in", physical=True)
def random_fold_in(ctx: Context, words: Value, data: Value) -> Value:
    """A new key from each key and integer, broadcast together."""
    keys = ctx.avals_in[0]
    return ctx.jax(lambda w, d: _compat.random_fold_in(keys.dtype, w, d, keys.shape), words, data)


@rules.lower("random_bits", physical=True)
def random_bits(ctx: Context, words: Value, *, bit_width: int, shape: Sequence[Dim]) -> Value:
    """Uniform unsigned integers of `shape` from each key."""
    keys = ctx.avals_in[0]
    return _drawn(ctx, lambda w: _compat.random_bits(keys.dtype, w, len(keys.shape), bit_width, shape), words)


@rules.lower("random_gamma", physical=True)
def random_gamma(ctx: Context, words: Value, alpha: Value, *, log_space: bool) -> Value:
    """Gamma variates, or their logarithms, by Marsaglia and Tsang's rejection, one loop for all of them."""
    keys = ctx.avals_in[0]
    return _drawn(ctx, lambda w, a: _compat.random_gamma(keys.dtype, w, a, log_space), words, alpha)


def _drawn(ctx: Context, draw: _compat.ArrayFn, *operands: Value) -> Value:
    """The words or numbers that `draw` gives: a constant where its operands are known, however small these are beside it."""
    dtype, dims = static_type(ctx.avals_out[0])
    if all(map(is_static, ctx.avals_out[0].shape)) and math.prod(dims) <= _MOST_STORED:
        stored = ctx.fold(lambda *arrays: _at_export(draw, *arrays), *operands, dims=dims, dtype=dtype)
        if stored is not None:
            return stored
    return ctx.jax(draw, *operands)


def _at_export(draw: _compat.ArrayFn, *operands: Array) -> Array:
    with jax.ensure_compile_time_eval():
        return np.asarray(draw(*operands))


# -- hashes ---------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _threefry_jaxpr(*shapes: Dims) -> Jaxpr:
    """The hash of operands of these shapes."""
    return jax.make_jaxpr(threefry2x32)(*(jax.ShapeDtypeStruct(s, np.uint32) for s in shapes))


@rules.lower("threefry2x32")
def lower_threefry2x32(ctx: Context, *operands: Value) -> Sequence[Value]:
    """A call of an ONNX function, which the calls of equal shapes share."""
    jaxpr = _threefry_jaxpr(*(aval.shape for aval in ctx.avals_in))
    return ctx.function(jaxpr, *operands, name="threefry2x32", domain="jax2onnx.random")


@rules.numpy_evaluator("threefry2x32")
def evaluate_threefry2x32(key0: Array, key1: Array, x0: Array, x1: Array) -> Sequence[Array]:
    """The Threefry hash of NumPy arrays."""
    return threefry2x32(key0, key1, x0, x1)


@rules.numpy_evaluator("iota_2x32_shape")
def evaluate_iota_2x32_shape(*, shape: Sequence[int]) -> Sequence[Array]:
    """The counters of `iota_2x32_shape` as NumPy arrays."""
    counts = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    return (counts >> np.uint64(32)).astype(np.uint32), counts.astype(np.uint32)


rules.decompose("threefry4x32", _compat.threefry4x32)
rules.decompose("philox2x32", _compat.philox2x32)
rules.decompose("philox4x32", _compat.philox4x32)
rules.decompose("rng_bit_generator", rng_bit_generator)


@rules.lower("iota_2x32_shape")
def iota_2x32_shape(ctx: Context, *, shape: Sequence[Dim]) -> Sequence[Value]:
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
