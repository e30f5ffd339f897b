"""The 2 × 2 blocks on the diagonal of a real Schur form: their standard form, eigenvalues, complex triangular form."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jax2onnx_lax.linalg._matrix import at, diagonal, machine_epsilon, positions

__all__ = ["quasi_eigenvalues", "standardize_blocks", "triangularize_blocks"]

_Pair = tuple[jax.Array, jax.Array]
_Numbers = tuple[jax.Array | int, jax.Array | int]


def _replace(x: jax.Array, k: jax.Array, first: jax.Array, second: jax.Array, axis: int) -> jax.Array:
    """`x` with its entries k and k + 1 along `axis` (-1 or -2) replaced."""
    here = positions(x.shape[axis])
    here = here[:, None] if axis == -2 else here
    x = jnp.where(here == k, jnp.expand_dims(first, axis), x)
    return jnp.where(here == k + 1, jnp.expand_dims(second, axis), x)


def _rotate(x: jax.Array, k: jax.Array, c: jax.Array, s: jax.Array, axis: int) -> jax.Array:
    """Rows (axis -2) or columns k, k + 1 become c x_k + s x_{k+1} and conj(c) x_{k+1} - conj(s) x_k."""
    first, second = at(x, k, axis), at(x, k + 1, axis)
    c, s = c[..., None], s[..., None]
    return _replace(x, k, c * first + s * second, jnp.conj(c) * second - jnp.conj(s) * first, axis)


def _block(t: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The entries a, b, c, d of the block [[a, b], [c, d]] in rows and columns k, k + 1; each `[...]`."""
    upper, lower = at(t, k, -2), at(t, k + 1, -2)
    return at(upper, k, -1), at(upper, k + 1, -1), at(lower, k, -1), at(lower, k + 1, -1)


def standardize_blocks(t: jax.Array, q: jax.Array) -> _Pair:
    """`(t, q)` with the blocks of `t` in standard form, by orthogonal similarity, as LAPACK's `lanv2` makes it.

    Blocks with real eigenvalues become triangular, the others get equal diagonal entries. `t` `[..., n, n]` is real
    and quasi-triangular, `q` `[..., n, n]`; q t qᵀ stays the same.
    """

    def step(k: jax.Array, state: _Pair) -> _Pair:
        t, q = state
        # After the first, a block of two nearly equal eigenvalues may turn out to have real ones.
        for rotation in (_first_rotation, _second_rotation):
            c, s = rotation(*_block(t, k))
            t, q = _rotate(_rotate(t, k, c, s, -2), k, c, s, -1), _rotate(q, k, c, s, -1)
        return _clean(t, k), q

    t, q = lax.fori_loop(0, t.shape[-1] - 1, step, (t, q))
    rows, columns = positions(t.shape[-1])[:, None], positions(t.shape[-1])[None, :]
    return jnp.where(rows > columns + 1, 0, t), q


def _first_rotation(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> _Pair:
    """Cosine and sine that make [[a, b], [c, d]] triangular if its eigenvalues are clearly real, else a and d equal."""
    half = (a - d) / 2
    larger, smaller = jnp.maximum(jnp.abs(b), jnp.abs(c)), jnp.minimum(jnp.abs(b), jnp.abs(c))
    smaller = smaller * jnp.sign(b) * jnp.sign(c)
    scale = jnp.maximum(jnp.abs(half), larger)
    scale = jnp.where(scale == 0, 1, scale)
    discriminant = half / scale * half + larger / scale * smaller
    real = discriminant >= 4 * machine_epsilon(a) * scale
    z = half + jnp.copysign(jnp.sqrt(scale) * jnp.sqrt(jnp.maximum(discriminant, 0)), half)
    splitting = _unit(z, c)
    total = b + c
    length = jnp.sqrt(total * total + 4 * half * half)
    length = jnp.where(length == 0, 1, length)
    cosine = jnp.sqrt((1 + jnp.abs(total) / length) / 2)
    sine = -half / (length * cosine) * jnp.copysign(1, total)
    nothing = (c == 0) | (~real & (half == 0))
    return _choose(nothing, (1, 0), _choose(real, splitting, (cosine, sine)))


def _second_rotation(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> _Pair:
    """The cosine and sine that, with a = d, make c zero if b and c have the same sign or b is zero; else 1 and 0."""
    open_block = (c != 0) & _equalised(a, b, c, d)
    rotation = _unit(jnp.sqrt(jnp.abs(b)), jnp.sqrt(jnp.abs(c)))
    cosine, sine = _choose(open_block & (jnp.sign(b) * jnp.sign(c) > 0), rotation, (1, 0))
    return _choose(open_block & (b == 0), (0, 1), (cosine, sine))


def _equalised(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> jax.Array:
    """Whether the first rotation made a and d equal; where it made c zero instead, they differ by more than this."""
    return jnp.abs(a - d) <= machine_epsilon(a) ** 0.5 * (jnp.abs(b) + jnp.abs(c))


def _unit(x: jax.Array, y: jax.Array) -> _Pair:
    """The vector (x, y) scaled to unit length, without overflow on the way; zero stays zero."""
    scale = jnp.maximum(jnp.abs(x), jnp.abs(y))
    scale = jnp.where(scale == 0, 1, scale)
    x, y = x / scale, y / scale
    length = jnp.sqrt(x * x + y * y)
    length = jnp.where(length == 0, 1, length)
    return x / length, y / length


def _choose(condition: jax.Array, yes: _Numbers, no: _Numbers) -> _Pair:
    """`where`, for pairs."""
    return jnp.where(condition, yes[0], no[0]), jnp.where(condition, yes[1], no[1])


def _clean(t: jax.Array, k: jax.Array) -> jax.Array:
    """Set entries that the rotations made up to rounding to exact values: a zero below the diagonal, or equal diagonal entries."""
    a, b, c, d = _block(t, k)
    pair = (c != 0) & (jnp.sign(b) * jnp.sign(c) < 0) & _equalised(a, b, c, d)
    mean = (a + d) / 2
    rows, columns = positions(t.shape[-1])[:, None], positions(t.shape[-1])[None, :]
    on_diagonal = (rows == columns) & ((rows == k) | (rows == k + 1))
    t = jnp.where(on_diagonal & pair[..., None, None], mean[..., None, None], t)
    return jnp.where((rows == k + 1) & (columns == k) & ~pair[..., None, None], 0, t)


def _neighbours(t: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The entries below and to the right of each diagonal entry, both `[..., n]`; zero for the last one."""
    rows, columns = positions(t.shape[-1])[:, None], positions(t.shape[-1])[None, :]
    below = jnp.where(rows == columns + 1, t, 0).sum(-2)
    return below, jnp.where(rows + 1 == columns, t, 0).sum(-1)


def quasi_eigenvalues(t: jax.Array) -> jax.Array:
    """The eigenvalues of standardised real quasi-triangular `t`, `[..., n]` complex, positive imaginary part first."""
    below, right = _neighbours(t)
    imaginary = jnp.where(below != 0, jnp.sqrt(jnp.abs(below)) * jnp.sqrt(jnp.abs(right)), 0)
    previous = jnp.concatenate([jnp.zeros_like(imaginary[..., :1]), imaginary[..., :-1]], axis=-1)
    return lax.complex(diagonal(t), imaginary - previous)


def triangularize_blocks(t: jax.Array, q: jax.Array) -> _Pair:
    """The complex Schur form `(t, q)`, t upper triangular, of a real one with blocks in standard form.

    There is one unitary rotation for each block. The block [[a, b], [c, a]] has the eigenvector (b, iω) for a + iω,
    ω = sqrt(-b c).
    """
    empty = jnp.zeros_like(t)
    start = (lax.complex(t, empty), lax.complex(q, empty))

    def step(k: jax.Array, state: _Pair) -> _Pair:
        t, q = state
        _, b, c, _ = _block(t, k)
        omega = jnp.sqrt(jnp.abs(b.real)) * jnp.sqrt(jnp.abs(c.real))
        x, y = _unit(b.real, omega)
        x, y = _choose(c == 0, (1, 0), (x, y))
        left = (lax.complex(x, 0 * x), lax.complex(0 * y, -y))
        t = _rotate(t, k, *left, -2)
        right = (jnp.conj(left[0]), jnp.conj(left[1]))
        return _rotate(t, k, *right, -1), _rotate(q, k, *right, -1)

    return lax.fori_loop(0, t.shape[-1] - 1, step, start)
