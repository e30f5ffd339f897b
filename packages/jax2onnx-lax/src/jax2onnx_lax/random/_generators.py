"""The counter-based generators behind `jax.random` and `lax.rng_bit_generator`, bit for bit.

Sources: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC '11 (Threefry-2x32 with 20 rounds, Philox-4x32 with 10); how counters are formed and
words arranged is what XLA does on its CPU backend. Only uint32 arithmetic, so that 64-bit types
need not be enabled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import is_static
from jax2onnx_graph.build.builder import Array as NumpyArray
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax import _compat

__all__ = ["rng_bit_generator", "threefry2x32"]

A = TypeVar("A", Array, NumpyArray)
Words = tuple[Array, Array]  # a 64-bit number: low word, high word

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def _rotate_left(x: A, distance: int) -> A:
    """uint32 words with their bits rotated to the left, by what runtimes have vectorised kernels for: a product and a sum."""
    return x * np.uint32(1 << distance) + (x >> np.uint32(32 - distance))


def threefry2x32(key0: A, key1: A, x0: A, x1: A) -> tuple[A, A]:
    """The Threefry hash of a counter of two words under a key of two words.

    All are uint32 arrays, of JAX or of NumPy, that broadcast together.

    Args:
      key0: the first word of the key.
      key1: the second word of the key.
      x0: the first word of the counter.
      x1: the second word of the counter.

    Returns:
      The two words of the hash.
    """
    keys = (key0, key1, key0 ^ key1 ^ _PARITY)
    x0, x1 = x0 + key0, x1 + key1
    for block in range(5):
        for distance in _ROTATIONS[block % 2]:
            x0 = x0 + x1
            x1 = x0 ^ _rotate_left(x1, distance)
        x0 = x0 + keys[(block + 1) % 3]
        x1 = x1 + (keys[(block + 2) % 3] + np.uint32(block + 1))
    return x0, x1


# -- 64-bit counters as two words -----------------------------------------------------------------


def _add(number: Words, summand: Words) -> tuple[Words, Array]:
    """The sum of 64-bit numbers modulo 2⁶⁴, and a bool array of where it overflowed."""
    low = number[0] + summand[0]
    carry = (low < number[0]).astype(np.uint32)
    partial = number[1] + summand[1]
    high = partial + carry
    return (low, high), (partial < number[1]) | (high < partial)


def _iota(size: Dim) -> Words:
    """0, 1, 2, … as 64-bit numbers; `size` is at most 2³²."""
    low = lax.iota(np.uint32, size)
    return low, lax.full_like(low, 0)


def _size_words(size: Dim) -> Words:
    """A number of elements as a 64-bit number; where it is symbolic, below 2³²."""
    if isinstance(size, int):
        return jnp.uint32(size & 0xFFFFFFFF), jnp.uint32(size >> 32)
    return jnp.asarray(size).astype(np.uint32), jnp.uint32(0)


# -- lax.rng_bit_generator -----------------------------------------------------------------------


def rng_bit_generator(
    key: Array, *, shape: Sequence[int], dtype: DtypeLike, algorithm: lax.RandomAlgorithm, **_: object
) -> tuple[Array, Array]:
    """`lax.rng_bit_generator`, as XLA's CPU backend computes it.

    Args:
      key: uint32[4] or uint64[2]: the key proper, then the counter.
      shape: the shape of the bits.
      dtype: the unsigned integer dtype of the bits.
      algorithm: `RNG_DEFAULT` is Philox.

    Returns:
      The new state, like `key`, and the random bits.
    """
    words = _words_of(key)
    bits_of = _threefry_bits if algorithm == lax.RandomAlgorithm.RNG_THREE_FRY else _philox_bits
    counter, bits = bits_of((words[0], words[1]), (words[2], words[3]), tuple(shape), np.dtype(dtype).itemsize == 8)
    state = jnp.stack([words[0], words[1], *counter])
    if key.dtype == np.uint64:
        state = _join((state[0::2], state[1::2]))
    return state, bits.astype(dtype)


def _words_of(key: Array) -> list[Array]:
    """The four uint32 words of a state, low words first."""
    if key.dtype == np.uint64:
        low, high = key.astype(np.uint32), (key >> np.uint64(32)).astype(np.uint32)
        return [low[0], high[0], low[1], high[1]]
    return [key[i] for i in range(4)]


def _join(words: Words) -> Array:
    """Low and high words as uint64."""
    low, high = (w.astype(np.uint64) for w in words)
    return (high << np.uint64(32)) | low


def _philox_bits(key: Words, counter: Words, shape: tuple[int, ...], wide: bool) -> tuple[Words, Array]:
    """The new counter and uint32 or, if `wide`, uint64 bits of `shape` by Philox-4x32.

    Each block of four words comes from one 128-bit counter, whose upper half starts as the key.
    """
    size = math.prod(shape)
    blocks = -(-size // (2 if wide else 4))
    low, overflow = _add(counter, _iota(blocks))
    high, _ = _add(key, (overflow.astype(np.uint32), jnp.uint32(0)))
    words = _compat.philox4x32(key[0], key[1], low[0], low[1], high[0], high[1])
    new_counter, _ = _add(counter, _size_words(blocks))
    columns = [_join((words[0], words[1])), _join((words[2], words[3]))] if wide else list(words)
    return new_counter, jnp.stack(columns, -1).reshape(-1)[:size].reshape(shape)


def _threefry_bits(key: Words, counter: Words, shape: tuple[int, ...], wide: bool) -> tuple[Words, Array]:
    """The new counter and uint32 or, if `wide`, uint64 bits of `shape` by Threefry-2x32.

    64-bit numbers are one hash each; of 32-bit ones, two halves of the array share a hash.
    """
    if wide:
        hashed, new_counter = _threefry_of_iota(key, counter, shape)
        return new_counter, _join(hashed)
    if not shape:
        hashed, new_counter = _threefry_of_iota(key, counter, (1,))
        return new_counter, hashed[0].reshape(())
    axis = _split_axis(shape)
    if axis is None:
        return _threefry_bits_of_any_parity(key, counter, shape)
    half = tuple(-(-d // 2) if i == axis else d for i, d in enumerate(shape))
    hashed, new_counter = _threefry_of_iota(key, counter, half)
    pairs = jnp.stack(hashed, axis + 1)
    doubled = pairs.reshape(tuple(2 * d if i == axis else d for i, d in enumerate(half)))
    return new_counter, lax.slice_in_dim(doubled, 0, shape[axis], axis=axis)


def _split_axis(shape: tuple[int, ...]) -> int | None:
    """The axis along which two halves share a hash: the first even one, else the first longest one.

    None where symbolic sizes leave it open.
    """
    long = [i for i, d in enumerate(shape) if d != 1]
    if len(long) < 2:
        return long[0] if long else 0
    for i in long:
        if is_static(shape[i] % 2) and shape[i] % 2 == 0:
            return i
        if not is_static(shape[i] % 2):
            return None
    return shape.index(max(shape)) if all(is_static(d) for d in shape) else None


def _threefry_bits_of_any_parity(key: Words, counter: Words, shape: tuple[int, ...]) -> tuple[Words, Array]:
    """The bits of `_threefry_bits` for a shape of which the axis to split is known when the model runs.

    Each element computes the hash that it shares.
    """
    sizes = jnp.stack([jnp.asarray(d).astype(np.int32) for d in shape])
    even = sizes % 2 == 0
    axis = jnp.where(even.any(), even.argmax(), sizes.argmax())
    numbers, second = jnp.zeros(shape, np.uint32), jnp.zeros(shape, bool)
    count = jnp.uint32(1)
    for i in reversed(range(len(shape))):
        position, is_split = lax.broadcasted_iota(np.uint32, shape, i), axis == i
        numbers = numbers + count * jnp.where(is_split, position // 2, position)
        second = jnp.where(is_split, position % 2 == 1, second)
        size = sizes[i].astype(np.uint32)
        count = count * jnp.where(is_split, (size + 1) // 2, size)
    low, high = _add(counter, (numbers, lax.full_like(numbers, 0)))[0]
    hashed = threefry2x32(key[0], key[1], low, high)
    return _add(counter, (count, jnp.uint32(0)))[0], jnp.where(second, hashed[1], hashed[0])


def _threefry_of_iota(key: Words, counter: Words, shape: tuple[int, ...]) -> tuple[Words, Words]:
    """The hashes of the counters from `counter` on, two words of `shape`, and the counter after them."""
    size = math.prod(shape)
    low, high = _add(counter, _iota(size))[0]
    hashed = threefry2x32(key[0], key[1], low.reshape(shape), high.reshape(shape))
    return hashed, _add(counter, _size_words(size))[0]
