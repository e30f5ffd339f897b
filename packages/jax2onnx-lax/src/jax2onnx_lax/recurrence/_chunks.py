"""`ChunkSolution`: states of matrices by products of matrices over chunks of steps, and a short loop over the chunks.

With the products of decays `Γ[t]` since the beginning of a chunk, the state is `S[t] = Γ[t] (S[0] + Σ (u[s] z[s]ᵀ + k[s] v[s]ᵀ) / Γ[s])`,
where `z[s] = w[s]ᵀ S[s-1]` is what the steps read of their state; it solves a triangular system (Yang et al., Parallelizing Linear
Transformers with the Delta Rule over Sequence Length, 2024).
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import is_static

from jax2onnx_lax.recurrence._affine_updates import AffineUpdate
from jax2onnx_lax.recurrence._bounds import is_moderate
from jax2onnx_lax.recurrence._logarithms import logarithm
from jax2onnx_lax.recurrence._matrix import Matrices, MatrixSolution
from jax2onnx_lax.recurrence._readouts import Readout
from jax2onnx_lax.recurrence._sequential import sequential_scan
from jax2onnx_lax.recurrence._values import BatchedArray, Term

__all__ = ["ChunkSolution"]

#: Steps of a chunk, where each feature of the key decays by itself and where all do alike.
_FEATURES, _HEADS = 16, 32

#: Steps that are computed at once: the arrays of more leave the caches of a processor.
_SEGMENT = 256

#: How far the logarithms of products of decays may be from zero: their exponentials and the inverses of these are far from overflow.
_RANGE, _FINITE = 60.0, 1e4


class ChunkSolution(MatrixSolution):
    """The states by chunks of steps."""

    segment = _SEGMENT

    def __init__(self, form: AffineUpdate, init: jax.Array, length: Dim) -> None:
        super().__init__(form, init, length)
        self._solved: dict[tuple[int, int], _Chunks] = {}

    def _chunks(self, key: int | None) -> _Chunks:
        matrices = self.matrices(key)
        place = matrices.key, matrices.value
        if place not in self._solved:
            chunks = _Chunks.from_matrices(matrices, self.conditions)
            self._solved[place] = chunks
            self.conditions += [is_moderate(x) for x in chunks.parts]
            within = chunks.in_range()
            self.conditions += [] if within is None else [within]
        return self._solved[place]

    @property
    def last(self) -> jax.Array:
        """The state after all steps."""
        chunks = next(iter(self._solved.values()), None) or self._chunks(None)
        return chunks.matrices.restored(chunks.states[1])

    def read(self, term: Term) -> BatchedArray:
        """See `Solution`."""
        chunks = self._chunks(Readout.axis(term, self.form.shape))
        read = Readout.from_term(term, chunks.matrices)
        query = read.query(chunks.matrices)
        self.conditions.append(is_moderate(query))
        return read.result(chunks.read(query, before=term.when == "before"), chunks.matrices)


@dataclasses.dataclass(frozen=True)
class _Chunks:
    """The steps of a recurrence in chunks, [n, *batch, C, ...].

    Attributes:
      matrices: the recurrence.
      key, value: the factors of the update that is written to the state.
      write, seen: the factors `u` and `w` of the product that mixes the state; None if there is none.
      decay: the logarithm of the decay, whose last axis may be of size 1; None without decay.
      size: the number of steps C.
    """

    matrices: Matrices
    key: jax.Array
    value: jax.Array
    write: jax.Array | None
    seen: jax.Array | None
    decay: jax.Array | None
    size: int

    @staticmethod
    def from_matrices(m: Matrices, conditions: list[jax.Array]) -> _Chunks:
        logs, low, update = logarithm(m, conditions), m.form.low, m.update
        size = _HEADS if logs is None or logs.shape[-1] == 1 else _FEATURES
        key = m.full([f for f in update.factors if m.keys in f.labels], m.keys, m.key_size)
        value = m.full([f for f in update.factors if m.keys not in f.labels], m.values, m.value_size, update.scale)
        write = seen = None
        if low is not None:
            inside = [f.renamed({low.inside: m.keys}) for f in low.term.factors if low.inside in f.labels]
            seen = m.full(inside, m.keys, m.key_size)
            rest = [f for f in low.term.factors if low.inside not in f.labels]
            write = m.full(rest, m.keys, m.key_size, low.term.scale)
        write, seen, logs = (None if x is None else _chunked(x, size) for x in (write, seen, logs))
        return _Chunks(m, _chunked(key, size), _chunked(value, size), write, seen, logs, size)

    @property
    def parts(self) -> list[jax.Array]:
        """The arrays that have to be moderate, and arrays computed from them in which an overflow would remain."""
        return [x for x in (self.key, self.value, self.write, self.seen, *self.states[1:]) if x is not None]

    @functools.cached_property
    def _since(self) -> jax.Array | None:
        """The logarithms of the products of decays up to and with each step."""
        if self.decay is None:
            return None
        return jnp.einsum("ts,...sk->...tk", np.tril(np.ones((self.size, self.size), self.decay.dtype)), self.decay)

    @functools.cached_property
    def _until(self) -> jax.Array | None:
        """The same without each step itself."""
        if self.decay is None or self._since is None:
            return None
        return self._since - self.decay

    def in_range(self) -> jax.Array | None:
        """Whether the products of decays are in the range in which all is accurate; None without decay."""
        if self._since is None:
            return None
        limit = _FINITE if self._since.shape[-1] == 1 else _RANGE
        return jnp.all(jnp.logical_and(self._since > -limit, self._since < _RANGE))

    def _scores(self, x: jax.Array, y: jax.Array, *, strict: bool) -> jax.Array:
        """`Σ x[t] y[s] Γ[t] / Γ[s]`, [..., t, s], for s up to t; where `strict`, with the product before t, for s before t."""
        mask = np.tril(np.ones((self.size, self.size), bool), -1 if strict else 0)
        at, since = self._until if strict else self._since, self._since
        if at is None or since is None:
            return jnp.where(mask, _times_transposed(x, y), 0)
        if at.shape[-1] > 1:
            return jnp.where(mask, _times_transposed(x * jnp.exp(at), y * jnp.exp(-since)), 0)
        ratio = jnp.exp(jnp.where(mask, at - jnp.swapaxes(since, -1, -2), -jnp.inf))
        return _times_transposed(x, y) * ratio

    def _decayed(self, x: jax.Array, *, strict: bool) -> jax.Array:
        """`x[t]` times the product of decays up to t, where `strict`, without that of t."""
        at = self._until if strict else self._since
        return x if at is None else x * jnp.exp(at)

    def _remaining(self, x: jax.Array) -> jax.Array:
        """`x[s]` times the product of the decays after s, transposed."""
        if self._since is not None:
            x = x * jnp.exp(self._since[..., -1:, :] - self._since)
        return jnp.swapaxes(x, -1, -2)

    @functools.cached_property
    def states(self) -> tuple[jax.Array, jax.Array, jax.Array | None]:
        """The states before each chunk and after the last one, and the readouts of the steps."""
        written = self._remaining(self.key)
        rows = [written, self.value]
        whole = None if self._since is None else jnp.swapaxes(jnp.exp(self._since[..., -1:, :]), -1, -2)
        if self.write is not None and self.seen is not None:
            inverse = _inverse(self._scores(self.seen, self.write, strict=True), self.size)
            own = inverse @ (self._scores(self.seen, self.key, strict=True) @ self.value)
            rows += [inverse @ self._decayed(self.seen, strict=True), own, self._remaining(self.write)]

        def step(state: jax.Array, row: list[jax.Array]) -> tuple[jax.Array, tuple[jax.Array, ...]]:
            new = state if whole is None else state * row[-1]
            new = new + row[0] @ row[1]
            if self.write is None:
                return new, (state,)
            read = row[2] @ state + row[3]
            return new + row[4] @ read, (state, read)

        last, (before, *read) = sequential_scan(step, self.matrices.first(), rows if whole is None else [*rows, whole])
        return before, last, read[0] if read else None

    def read(self, query: jax.Array, *, before: bool) -> jax.Array:
        """The results [T, *batch, G, V] of queries [T, *batch, G, K], on the states before or after the steps."""
        columns = [self._read(_chunked(query[..., g, :], self.size), before) for g in range(query.shape[-2])]
        return jnp.stack(columns, -2)

    def _read(self, query: jax.Array, before: bool) -> jax.Array:
        states, _, seen = self.states
        result = (
            self._decayed(query, strict=before) @ states + self._scores(query, self.key, strict=before) @ self.value
        )
        if self.write is not None and seen is not None:
            result = result + self._scores(query, self.write, strict=before) @ seen
        return _unchunked(result, self.matrices.length)


def _times_transposed(x: jax.Array, y: jax.Array) -> jax.Array:
    return x @ jnp.swapaxes(y, -1, -2)


def _inverse(lower: jax.Array, size: int) -> jax.Array:
    """The inverse of `I - lower` for strictly lower triangles, by blocks that double: as stable as substitution."""
    place = np.arange(size)
    inverse: jax.Array = jnp.eye(size, dtype=lower.dtype)
    block = 1
    while block < size:
        pair = place // block
        mask = (pair[:, None] == pair[None, :] + 1) & (pair[:, None] % 2 == 1)
        below = jnp.where(mask, lower, 0)
        inverse = inverse + (below if block == 1 else inverse @ below @ inverse)
        block *= 2
    return inverse


def _chunked(x: jax.Array, size: int) -> jax.Array:
    """[T, *batch, K], filled up with zeros, as [n, *batch, C, K]."""
    count = -(-x.shape[0] // size)
    missing = count * size - x.shape[0]
    if not (is_static(missing) and missing == 0):
        x = jnp.pad(x, [(0, missing), *((0, 0) for _ in x.shape[1:])])
    return jnp.moveaxis(x.reshape(count, size, *x.shape[1:]), 1, -2)


def _unchunked(x: jax.Array, length: Dim) -> jax.Array:
    """[n, *batch, C, V] as [T, *batch, V]."""
    rows = jnp.moveaxis(x, -2, 1)
    return rows.reshape(rows.shape[0] * rows.shape[1], *rows.shape[2:])[:length]
