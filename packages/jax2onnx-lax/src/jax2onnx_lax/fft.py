"""Discrete Fourier transforms of any length, over any number of axes.

Complex arrays are in their physical form here: float `[..., 2]`. Where the target's DFT is not accurate, a short
transform is a product with the DFT matrix, which also takes less time. A long one is a DFT if its length is a power of two, of which kernels
make least mistakes, and else Bluestein's convolution on powers of two (L. I. Bluestein, "A linear filtering approach to the
computation of discrete Fourier transform", IEEE Transactions on Audio and Electroacoustics 18, 1970). For a symbolic
length the model computes the matrix. A target without DFT gets a matrix too, and for a long axis transforms of the factors of its length
(J. W. Cooley, J. W. Tukey, "An algorithm for the machine calculation of complex Fourier series", Mathematics of Computation 19, 1965).

Angles are reduced exactly in integers, and the roots of unity at quarter turns have parts that are exactly 0: the first
and the last coefficient of a real array are real in JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeGuard, cast

import jax.numpy as jnp
import numpy as np
from jax import Array as JaxArray
from jax import lax
from jax.typing import ArrayLike
from jax2onnx_core import Composites, Context, Dim, Replacement, Rules, Value
from jax2onnx_core.jaxprs import is_static
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.build.builder import Array

from jax2onnx_lax._compat import max_dim

__all__ = ["composites", "rules"]

composites = Composites()
rules = Rules()

#: Transforms the last but one axis of a physical complex array: `(ctx, x, length, inverse)`.
Method = Callable[[Context, Value, Dim, bool], Value]

# The most numbers of a DFT matrix in the file: 4n² for complex arrays, about n² for real ones. On one core Bluestein's convolution took
# 14 to 30 times as long (n from 129 to 1,000), and the DFT of a power of two 1.1 to 4 times.
_LARGEST_MATRIX, _LARGEST_OF_POWER_OF_TWO = 2**20, 2**18
# The same for a target without DFT: 64 MB of float32.
_LARGEST_WITHOUT_DFT = 2**24
_COMPLEX, _REAL = 4, 1


@composites.call("jax._src.numpy.fft:_fft_core", name="jax.numpy.fft.transform", is_required=True)
def of_symbolic_lengths(
    func_name: str, fft_type: lax.FftType, a: ArrayLike, s: Sequence[Dim] | None, axes: Sequence[int] | None,
    norm: str | None,
) -> Replacement | None:  # fmt: skip
    """JAX takes numbers only as the lengths that arrays are cut or padded to."""
    x = jnp.asarray(a)
    if s is None or all(map(is_static, s)) or len(s) > 3 or len(s) != len(s if axes is None else axes):
        return None
    last = tuple(range(x.ndim - len(s), x.ndim))
    order = last if axes is None else tuple(axes)
    x = jnp.moveaxis(x, order, last)
    lengths = (*s[:-1], s[-1] // 2 + 1) if fft_type == lax.FftType.IRFFT else tuple(s)
    x = x[(..., *(slice(length) for length in lengths))]
    missing = [(0, length - x.shape[axis]) for axis, length in zip(last, lengths, strict=True)]
    x = jnp.pad(x, [(0, 0)] * (x.ndim - len(s)) + missing)
    result = lax.fft(x, fft_type, cast("Sequence[int]", tuple(s)))  # JAX takes symbolic lengths here
    if norm in ("ortho", "forward"):
        number = _number_of_elements(result, s)
        factor = jnp.sqrt(number) if norm == "ortho" else number
        result = result * (factor if func_name.startswith("i") else 1 / factor)
    elif norm not in (None, "backward"):
        return None
    return Replacement(jnp.moveaxis(result, last, order))


@composites.call("jax._src.lax.fft:_fft_transpose_rule", name="jax.lax.fft_transpose", is_required=True)
def transpose_of_symbolic_length(
    t: JaxArray, operand: object, fft_type: lax.FftType, fft_lengths: Sequence[Dim]
) -> Replacement | None:
    """JAX takes a symbolic length for an odd one here."""
    is_forward = fft_type == lax.FftType.RFFT
    if not (is_forward or fft_type == lax.FftType.IRFFT) or is_static(fft_lengths[-1]):
        return None
    lengths = cast("Sequence[int]", tuple(fft_lengths))
    x = t if is_forward else lax.fft(t, lax.FftType.RFFT, lengths)
    number, weights = _number_and_weights(x, fft_lengths)
    if is_forward:
        return Replacement((number * lax.fft(jnp.conj(x) / weights, lax.FftType.IRFFT, lengths),))
    return Replacement((jnp.conj(weights / number * x),))


def _number_and_weights(half: JaxArray, lengths: Sequence[Dim]) -> tuple[JaxArray, JaxArray]:
    """The number of elements of a real array, and how often each coefficient along the last axis of its transform is in the whole one."""
    places = jnp.arange(half.shape[-1])
    is_single = (places == 0) | (2 * places == jnp.asarray(lengths[-1]))
    return _number_of_elements(half, lengths), jnp.where(is_single, 1, 2).astype(half.real.dtype)


def _number_of_elements(like: JaxArray, lengths: Sequence[Dim]) -> JaxArray:
    """The product of lengths, of the real dtype of `like`."""
    dtype = like.real.dtype
    return math.prod((jnp.asarray(length).astype(dtype) for length in lengths), start=jnp.ones((), dtype))


@rules.lower("fft", physical=True)
def fft(ctx: Context, x: Value, *, fft_type: lax.FftType, fft_lengths: Sequence[Dim]) -> Value:
    """FFT, IFFT, RFFT, IRFFT over the last `len(fft_lengths)` axes, scaled as NumPy's."""
    rank = len(ctx.avals_in[0].shape)
    axes = list(range(rank - len(fft_lengths), rank))
    if fft_type == lax.FftType.RFFT:
        x = _real_to_half(ctx, x, fft_lengths[-1])
        return _transform(ctx, x, axes[:-1], fft_lengths[:-1], inverse=False)
    if fft_type == lax.FftType.IRFFT:
        x = _transform(ctx, x, axes[:-1], fft_lengths[:-1], inverse=True)
        return _half_to_real(ctx, x, fft_lengths[-1])
    return _transform(ctx, x, axes, fft_lengths, inverse=fft_type == lax.FftType.IFFT)


def _transform(ctx: Context, x: Value, axes: Sequence[int], lengths: Sequence[Dim], *, inverse: bool) -> Value:
    """The complex transforms along several axes, the last one first."""
    for axis, length in zip(reversed(axes), reversed(lengths), strict=True):
        x = _along(ctx, x, axis, length, inverse)
    return x


def _along(ctx: Context, x: Value, axis: int, length: Dim, inverse: bool) -> Value:
    """The complex transform along one axis; of one element, the element itself."""
    dims = ctx.known_dims(x)
    if length == 1:
        return x
    if _is_operator(ctx, x, length, _COMPLEX):
        return _dft(ctx, x, axis, dims, inverse=inverse)
    rank = len(dims)
    swap = [i for i in range(rank) if i not in (axis, rank - 1)]
    to_end = [*swap, axis, rank - 1]
    back = [to_end.index(i) for i in range(rank)]
    moved = ctx.transpose(x, to_end)
    return ctx.transpose(_method(ctx, x, length)(ctx, moved, length, inverse), back)


def _method(ctx: Context, x: Value, length: Dim) -> Method:
    """The way to transform an axis of this length without ONNX's DFT of that length."""
    if not isinstance(length, int):
        return _by_model_matrix
    if _is_product(length, ctx, x, _COMPLEX):
        return _by_matrix
    return _by_chirp if _has_dft(ctx, x) or _factor(length) == 1 else _by_factors


def _is_product(length: Dim, ctx: Context, x: Value, parts: int) -> TypeGuard[int]:
    """Whether the transform is a product with a constant matrix, of `parts` times n² numbers."""
    if not isinstance(length, int) or _has_accurate_dft(ctx, x):
        return False
    most = _LARGEST_OF_POWER_OF_TWO if _is_power_of_two(length) else _LARGEST_MATRIX
    return parts * length**2 <= (most if _has_dft(ctx, x) else _LARGEST_WITHOUT_DFT)


def _has_dft(ctx: Context, x: Value) -> bool:
    return ctx.supports("DFT", ctx.dtype(x))


def _factor(length: int) -> int:
    """The largest factor of a length that is not above its root."""
    return next(factor for factor in range(math.isqrt(length), 0, -1) if length % factor == 0)


def _is_power_of_two(length: int) -> bool:
    return length & (length - 1) == 0


def _is_operator(ctx: Context, x: Value, length: Dim, parts: int) -> bool:
    """Whether the transform is ONNX's DFT: where the target's is accurate, or of a long power of two."""
    is_long_power = isinstance(length, int) and _is_power_of_two(length) and not _is_product(length, ctx, x, parts)
    return (is_long_power and _has_dft(ctx, x)) or _has_accurate_dft(ctx, x)


def _has_accurate_dft(ctx: Context, x: Value) -> bool:
    return _has_dft(ctx, x) and ctx.guarantees("DFT", ctx.dtype(x), "accurate")


def _dft(
    ctx: Context, x: Value, axis: int, dims: Sequence[Dim], *, inverse: bool = False, onesided: bool = False,
    length: Value | None = None,
) -> Value:  # fmt: skip
    """ONNX's DFT, which pads with zeros up to `length`; `dims` is the result's shape.

    The axis became an operand with opset 20.
    """
    if ctx.opset < 20:
        return ctx.op.DFT(x, length, axis=axis, dims=dims, inverse=int(inverse), onesided=int(onesided))
    place = ctx.constant(np.int64(axis))
    return ctx.op.DFT(x, length, place, dims=dims, inverse=int(inverse), onesided=int(onesided))


# -- real arrays and half spectra -------------------------------------------------------------------


def _real_to_half(ctx: Context, x: Value, length: Dim) -> Value:
    """Real `[..., n]` to complex `[..., n // 2 + 1]`."""
    *batch, _ = ctx.known_dims(x)
    half = length // 2 + 1
    if length == 1:
        return _with_zeros(ctx, x)
    if _is_product(length, ctx, x, _REAL):
        matrix = _matrix(length, inverse=False)[::2, : 2 * (length // 2 + 1)]
        flat = ctx.op.MatMul(x, ctx.constant(matrix, like=x), dims=(*batch, 2 * half))
        return ctx.reshape(flat, (*batch, half, 2))
    if _is_operator(ctx, x, length, _REAL):
        spectrum = _dft(ctx, ctx.unsqueeze(x, [-1]), len(batch), (*batch, half, 2), onesided=True)
    else:
        full = _method(ctx, x, length)(ctx, _with_zeros(ctx, x), length, False)
        spectrum = ctx.slice(full, [0], [half], [-2], dims=(*batch, half, 2))
    if not isinstance(length, int) or _has_accurate_dft(ctx, x):
        return spectrum
    return ctx.op.Where(ctx.constant(_zero_parts(length)), ctx.constant(0, like=x), spectrum)


def _zero_parts(length: int) -> Array:
    """A mask of the parts of a real array's coefficients that are 0: the imaginary ones of the first and, for even n, the last."""
    imaginary = np.zeros((length // 2 + 1, 2), np.bool_)
    imaginary[0, 1] = True
    imaginary[-1, 1] = length % 2 == 0
    return imaginary


def _with_zeros(ctx: Context, x: Value) -> Value:
    """Real numbers as complex ones."""
    dims = ctx.known_dims(x)
    amounts = [0] * (2 * len(dims) + 1) + [1]
    return ctx.op.Pad(ctx.unsqueeze(x, [-1]), ctx.ints(amounts), dims=(*dims, 2))


def _half_to_real(ctx: Context, x: Value, length: Dim) -> Value:
    """Complex `[..., n // 2 + 1]` to real `[..., n]`.

    The imaginary parts of the first and, for even n, the last coefficient do not matter; their product with zero would, were it NaN.
    """
    *batch, _, _ = ctx.known_dims(x)
    if isinstance(length, int) and not ctx.assumes(Assumption.FINITE):
        x = ctx.op.Where(ctx.constant(_zero_parts(length)), ctx.constant(0, like=x), x)
    if _is_product(length, ctx, x, _REAL):
        flat = ctx.reshape(x, (*batch, 2 * (length // 2 + 1)))
        return ctx.op.MatMul(flat, ctx.constant(_half_matrix(length), like=x), dims=(*batch, length))
    others = max_dim((length + 1) // 2 - 1, 0)
    mirrored = ctx.slice(x, [(length + 1) // 2 - 1], [0], [len(batch)], [-1], dims=(*batch, others, 2))
    conjugate = ctx.op.Mul(mirrored, ctx.constant(np.array([1, -1]), like=x))
    spectrum = ctx.concat([x, conjugate], len(batch))
    if ctx.is_positive(length):
        spectrum = ctx.with_dims(spectrum, (*batch, length, 2))
    else:  # one coefficient is half of none
        spectrum = ctx.slice(spectrum, [0], [length], [len(batch)], dims=(*batch, length, 2))
    full = _along(ctx, spectrum, len(batch), length, inverse=True)
    return ctx.op.Gather(full, ctx.constant(np.int64(0)), axis=-1, dims=(*batch, length))


# -- short transforms ----------------------------------------------------------------------------------


def _turned(numerators: Array, length: int, inverse: bool) -> Array:
    """exp(∓2πi m / n) for all numerators m, exact at quarter turns."""
    quarters, rest = np.divmod(4 * (numerators % length), length)
    roots = np.exp(0.5j * np.pi * rest / length) * np.array([1, 1j, -1, -1j])[quarters]
    return roots if inverse else roots.conj()


def _matrix(length: int, inverse: bool) -> Array:
    """The DFT matrix for rows (j, real|imag) and columns (k, real|imag), `[2n, 2n]`."""
    index = np.arange(length)
    roots = _turned(np.outer(index, index), length, inverse) / (length if inverse else 1)
    blocks = np.array([[roots.real, roots.imag], [-roots.imag, roots.real]])
    return blocks.transpose(2, 0, 3, 1).reshape(2 * length, 2 * length)


def _half_matrix(length: int) -> Array:
    """The inverse DFT matrix for half spectra with conjugate symmetry, `[2 (n // 2 + 1), n]`."""
    half = length // 2 + 1
    weights = np.full(half, 2.0)
    weights[0] = 1
    if length % 2 == 0:
        weights[-1] = 1
    return _matrix(length, inverse=True)[: 2 * half, ::2] * np.repeat(weights, 2)[:, None]


def _by_matrix(ctx: Context, x: Value, length: Dim, inverse: bool) -> Value:
    """Along the last but one axis: the product with the DFT matrix."""
    assert isinstance(length, int)
    *batch, _, _ = dims = ctx.known_dims(x)
    flat = ctx.reshape(x, (*batch, 2 * length))
    product = ctx.op.MatMul(flat, ctx.constant(_matrix(length, inverse), like=x), dims=(*batch, 2 * length))
    return ctx.reshape(product, dims)


# -- long transforms -----------------------------------------------------------------------------------


def _by_chirp(ctx: Context, x: Value, length: Dim, inverse: bool) -> Value:
    """Bluestein's algorithm along the last but one axis.

    X[k] = w[k] · Σ (x[j] w[j]) / w[k - j] with w[k] = exp(∓πi k² / n) is a convolution in a power of two of at
    least 2n - 1 points.
    """
    assert isinstance(length, int)
    *batch, _, _ = dims = ctx.known_dims(x)
    axis, padded = len(batch), 1 << (2 * length - 2).bit_length()
    padded_dims = (*batch, padded, 2)
    chirp, spectrum = (_physical(ctx, z, x) for z in _chirp(length, padded, inverse))
    turned = _times(ctx, x, chirp)
    if _has_dft(ctx, x):
        turned = _dft(ctx, turned, axis, padded_dims, length=ctx.constant(np.int64(padded)))
        convolved = _dft(ctx, _times(ctx, turned, spectrum), axis, padded_dims, inverse=True)
    else:
        amounts = [*[0] * (2 * axis + 2), padded - length, 0]
        filled = ctx.op.Pad(turned, ctx.ints(amounts), dims=padded_dims)
        product = _times(ctx, _along(ctx, filled, axis, padded, inverse=False), spectrum)
        convolved = _along(ctx, product, axis, padded, inverse=True)
    first = ctx.slice(convolved, [0], [length], [axis], dims=dims)
    result = _times(ctx, first, chirp)
    return ctx.op.Div(result, ctx.constant(length, like=x)) if inverse else result


def _by_factors(ctx: Context, x: Value, length: Dim, inverse: bool) -> Value:
    """Cooley and Tukey's algorithm along the last but one axis, of a length that is a product.

    With n = a b, X[k + a l] = Σ (w[j k] Σ x[b i + j] v[i k]) u[j l]: transforms of lengths a and b, whose roots are v and u, with the
    roots w of length n between them.
    """
    assert isinstance(length, int)
    *batch, _, _ = dims = ctx.known_dims(x)
    axis, factor = len(batch), _factor(length)
    other = length // factor
    inner = _along(ctx, ctx.reshape(x, (*batch, factor, other, 2)), axis, factor, inverse)
    roots = _turned(np.outer(np.arange(factor), np.arange(other)), length, inverse)
    outer = _along(ctx, _times(ctx, inner, _physical(ctx, roots, x)), axis + 1, other, inverse)
    return ctx.reshape(ctx.transpose(outer, [*range(axis), axis + 1, axis, axis + 2]), dims)


def _times(ctx: Context, x: Value, factor: Value) -> Value:
    """The complex product x · re + (i x) · im, `factor` of shape [..., 2]."""
    dims = (*ctx.known_dims(factor)[:-1], 1)
    real = ctx.op.Gather(factor, ctx.ints([0]), axis=-1, dims=dims)
    imag = ctx.op.Gather(factor, ctx.ints([1]), axis=-1, dims=dims)
    swapped = ctx.op.Gather(x, ctx.ints([1, 0]), axis=-1, dims=ctx.dims(x))
    turned = ctx.op.Mul(swapped, ctx.op.Mul(imag, ctx.constant(np.array([-1, 1]), like=x)))
    return ctx.op.Add(ctx.op.Mul(x, real), turned)


def _physical(ctx: Context, z: Array, like: Value) -> Value:
    """A complex array as a constant in its physical form, of the element type of `like`."""
    return ctx.constant(np.stack([z.real, z.imag], -1), like=like)


def _chirp(length: int, padded: int, inverse: bool) -> tuple[Array, Array]:
    """The chirp w, complex [length], and the transform of its reciprocal on both sides of zero, complex [padded]."""
    index = np.arange(length)
    chirp = _turned(index * index, 2 * length, inverse)
    kernel = np.zeros(padded, np.complex128)
    kernel[:length] = chirp.conj()
    kernel[padded - length + 1 :] = chirp.conj()[:0:-1]
    return chirp, np.fft.fft(kernel)


# -- symbolic lengths ------------------------------------------------------------------------------------


def _by_model_matrix(ctx: Context, x: Value, length: Dim, inverse: bool) -> Value:
    """Along the last but one axis: the product with the DFT matrix, whose roots the model computes in float64."""
    *batch, _, _ = dims = ctx.known_dims(x)
    size = ctx.dim(length)
    index = ctx.op.Range(ctx.constant(np.int64(0)), size, ctx.constant(np.int64(1)), dims=(length,))
    divisor = size if ctx.is_positive(length) else ctx.op.Max(size, ctx.constant(1, like=size))
    product = ctx.op.Mod(ctx.op.Mul(ctx.unsqueeze(index, [1]), index), divisor)
    turns = ctx.op.Div(ctx.cast(index, np.float64), ctx.cast(size, np.float64))
    angles = ctx.op.Mul(turns, ctx.constant(np.float64(2 * np.pi)))
    rows = ctx.transpose(x, [*range(len(batch)), len(batch) + 1, len(batch)])
    even, odd = (
        ctx.op.MatMul(rows, ctx.op.Gather(ctx.cast(_exact(ctx, wave), ctx.dtype(x)), product), dims=ctx.dims(rows))
        for wave in (ctx.op.Cos(angles), ctx.op.Sin(angles))
    )
    swapped = ctx.op.Gather(odd, ctx.ints([1, 0]), axis=-2, dims=ctx.dims(rows))
    signs = ctx.constant(np.array([[-1], [1]] if inverse else [[1], [-1]]), like=x)
    result = ctx.op.Add(even, ctx.op.Mul(swapped, signs))
    if inverse:
        result = ctx.op.Div(result, ctx.cast(size, ctx.dtype(x)))
    return ctx.with_dims(ctx.transpose(result, [*range(len(batch)), len(batch) + 1, len(batch)]), dims)


def _exact(ctx: Context, wave: Value) -> Value:
    """Sines or cosines of fractions of a turn, 0 where only rounding keeps them from it."""
    is_zero = ctx.op.Less(ctx.op.Abs(wave), ctx.constant(1e-12, like=wave))
    return ctx.op.Where(is_zero, ctx.constant(0, like=wave), wave)
