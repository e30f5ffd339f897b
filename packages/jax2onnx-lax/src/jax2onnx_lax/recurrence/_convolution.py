"""`ConvolutionSolution`: states with constant decays, of which steps read products with constants: a convolution over time, in chunks.

For `h' = a h + b x` and `y = Σ c h`, where only `x` differs from step to step, `y` is the convolution of `x` with `Σ c a^t b`. Within a
chunk of steps that is a product with a Toeplitz matrix; only the states at the beginnings of the chunks are computed at all. No logarithm
and no quotient is taken. Complex numbers are pairs of real columns, and inputs that are real stay real.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import is_static

from jax2onnx_lax.recurrence._affine_updates import AffineUpdate
from jax2onnx_lax.recurrence._bounds import is_moderate
from jax2onnx_lax.recurrence._carries import Solution
from jax2onnx_lax.recurrence._elementwise import states_before
from jax2onnx_lax.recurrence._values import BatchedArray, Factor, Label, Term, Value, product, size_of

__all__ = ["Convolution", "ConvolutionSolution"]

#: Steps of a chunk.
_CHUNK = 64


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A form whose decays are the same in all steps, and whose update is a constant `b` times inputs that lack axes of the state.

    Attributes:
      form: the update of the state in a step.
      into: the factors of `b`.
      given: the factors of the inputs.
      inner: the axes that the inputs lack.
    """

    form: AffineUpdate
    into: tuple[Factor, ...]
    given: tuple[Factor, ...]
    inner: tuple[int, ...]

    @staticmethod
    def from_form(form: AffineUpdate) -> Convolution | None:
        """Read an update as a convolution; None where it is none."""
        decays = [factor for term in form.decay for factor in term.factors]
        if form.low is not None or not form.decay or len(form.update) != 1 or any(f.value.timed for f in decays):
            return None
        factors = form.update[0].factors
        timed = {label for f in factors if f.value.timed for label in f.labels}
        inner = tuple(i for i, label in enumerate(form.axes) if label not in timed and form.shape[i] != 1)
        if not inner or not all(is_static(form.shape[i]) for i in inner):
            return None
        parted = _parted(factors, {form.axes[i] for i in inner}, set(form.axes))
        return None if parted is None else Convolution(form, *parted, inner)

    @property
    def outer(self) -> list[int]:
        """The other axes."""
        return [i for i in range(len(self.form.shape)) if i not in self.inner]

    @property
    def size(self) -> int:
        """The number of elements along the inner axes."""
        return size_of([self.form.shape[i] for i in self.inner])

    @property
    def dims(self) -> list[Dim]:
        """The sizes of the outer axes."""
        return [self.form.shape[i] for i in self.outer]

    def query(self, term: Term) -> tuple[Sequence[Factor], Sequence[Factor]] | None:
        """The factors of `c` in a read, and the other ones; None where it is not one of constants, or several for each state."""
        names = {self.form.axes[i] for i in self.inner}
        if names & set(term.out):
            return None
        own = set(self.form.axes)
        parted = _parted(term.factors, names, own)
        if parted is None or any(f.value.timed or (set(f.labels) - own).intersection(term.out) for f in parted[0]):
            return None
        return parted

    def constant(self, factors: Sequence[Factor], scale: float, dtype: np.dtype) -> jax.Array:
        """A product of constants as [*outer, N], of size 1 along outer axes that no factor has."""
        found = product(factors, self.form.axes, scale, dtype=dtype).array.astype(dtype)
        return self.flat(found)

    def flat(self, x: jax.Array) -> jax.Array:
        """An array of the state's axes as [*outer, N]."""
        whole = jnp.transpose(x, [*self.outer, *self.inner])
        dims = whole.shape[: len(self.outer)]
        whole = jnp.broadcast_to(whole, (*dims, *(self.form.shape[i] for i in self.inner)))
        return whole.reshape(*dims, self.size)

    def restored(self, x: jax.Array) -> jax.Array:
        """A state [*outer, N] with its axes in their own order."""
        order = [*self.outer, *self.inner]
        whole = x.reshape(*self.dims, *(self.form.shape[i] for i in self.inner))
        return jnp.transpose(whole, [order.index(axis) for axis in range(len(order))])


def _parted(
    factors: Sequence[Factor], inner: set[Label], axes: set[Label]
) -> tuple[tuple[Factor, ...], tuple[Factor, ...]] | None:
    """The factors with one of the inner axes, and the others; None where a sum runs over both."""
    first = tuple(f for f in factors if inner & set(f.labels))
    rest = tuple(f for f in factors if not inner & set(f.labels))
    labels = {label for f in first for label in f.labels} - axes
    return None if labels & {label for f in rest for label in f.labels} else (first, rest)


class _Whole(Solution, Protocol):
    """A solution that knows the states in all steps."""

    @property
    def segment(self) -> int | None: ...

    @property
    def conditions(self) -> Sequence[jax.Array]: ...


class ConvolutionSolution:
    """The states by a convolution over time, as far as they are read so; by `otherwise` where they are not.

    Args:
      convolution: the form.
      init: the first state.
      length: the number of steps.
      otherwise: makes another solution.
    """

    def __init__(self, convolution: Convolution, init: jax.Array, length: Dim, otherwise: Callable[[], _Whole]) -> None:
        self._make, self._length = otherwise, length
        self._chunks = _Chunks(convolution, init, length)
        self._other: _Whole | None = None
        self._bounds: list[jax.Array] = []

    def _whole(self) -> _Whole:
        if self._other is None:
            self._other = self._make()
        return self._other

    @property
    def segment(self) -> int | None:
        """The number of steps to compute at once: all of them, unless the states are needed in all steps."""
        return None if self._other is None else self._other.segment

    @property
    def conditions(self) -> list[jax.Array]:
        """Whether the results are those of the loop, which sums of infinite and products of huge numbers need not be."""
        others: Sequence[jax.Array] = [] if self._other is None else self._other.conditions
        return [*others, *map(is_moderate, self._bounds)]

    @property
    def last(self) -> jax.Array:
        """The state after all steps."""
        if self._other is not None:
            return self._other.last
        self._bound(self._chunks.bounds)
        return self._chunks.last

    def read(self, term: Term) -> BatchedArray:
        """See `Solution`."""
        form = self._chunks.convolution.form
        term = term.renamed(dict(zip(term.axes, form.axes, strict=True)))
        parted = self._chunks.convolution.query(term)
        if parted is None:
            return self._whole().read(term)
        query, others = parted
        rows, bounds = self._chunks.read(query, lag=int(term.when == "before"))
        self._bound([*self._chunks.bounds, *bounds])
        leaf = Value(rows.shape[1:], rows.dtype, lambda: BatchedArray(rows, True))
        labels = tuple(form.axes[i] for i in self._chunks.convolution.outer)
        return product((*others, Factor(leaf, labels)), term.out, term.scale, dtype=rows.dtype)

    def _bound(self, arrays: Sequence[jax.Array]) -> None:
        self._bounds += [x for x in arrays if not any(x is y for y in self._bounds)]


class _Chunks:
    """A convolution over time in chunks.

    Attributes:
      convolution: the form.
      size: the number of steps of a chunk.
      count: the number of chunks.
    """

    def __init__(self, convolution: Convolution, init: jax.Array, length: Dim) -> None:
        self.convolution, self._length = convolution, length
        self._dtype = np.dtype(init.dtype)
        self._init = convolution.flat(init)
        self.size = min(_CHUNK, int(length)) if is_static(length) else _CHUNK
        self.count = -(-length // self.size)

    @functools.cached_property
    def _powers(self) -> jax.Array:
        """The powers of the decay from 0 to the size of a chunk, [*outer, C + 1, N]."""
        form, parts = self.convolution.form, self.convolution
        decay = functools.reduce(jnp.add, [parts.constant(t.factors, t.scale, self._dtype) for t in form.decay])
        powers, base = jnp.ones_like(decay)[..., None, :], decay[..., None, :]
        while powers.shape[-2] <= self.size:
            powers, base = jnp.concatenate([powers, powers * base], -2), base * base
        return powers[..., : self.size + 1, :]

    @functools.cached_property
    def _into(self) -> jax.Array:
        update = self.convolution.form.update[0]
        return self.convolution.constant(self.convolution.into, update.scale, self._dtype)[..., None, :]

    @functools.cached_property
    def _inputs(self) -> jax.Array:
        """The inputs, [*outer, n, p C], filled up with zeros; p is 2 if they are complex, first the real parts."""
        parts = self.convolution
        real = [f.value.real for f in parts.given]
        given = [Factor(r or f.value, f.labels) for f, r in zip(parts.given, real, strict=True)]
        is_real = all(r is not None for r in real)
        dtype = np.zeros((), self._dtype).real.dtype if is_real else self._dtype
        found = product(given, [parts.form.axes[i] for i in parts.outer], dtype=dtype)
        rows = jnp.broadcast_to(
            (found.array if found.timed else found.array[None]).astype(dtype), (self._length, *parts.dims)
        )
        missing = self.count * self.size - self._length
        if not (is_static(missing) and missing == 0):
            rows = jnp.pad(rows, [(0, missing), *((0, 0) for _ in parts.dims)])
        chunks = jnp.moveaxis(rows.reshape(self.count, self.size, *parts.dims), (0, 1), (-2, -1))
        return jnp.concatenate([chunks.real, chunks.imag], -1) if jnp.iscomplexobj(chunks) else chunks

    @property
    def _is_real(self) -> bool:
        return self._inputs.shape[-1] == self.size

    def _applied(self, x: jax.Array, matrix: jax.Array, *, real: bool) -> jax.Array:
        """`x @ matrix` in real products, where the columns of `x` are real parts and, unless `real`, then imaginary parts."""
        if not jnp.iscomplexobj(matrix):
            return x @ matrix
        first, second = (matrix.real, matrix.imag) if real else (
            jnp.concatenate([matrix.real, -matrix.imag], -2), jnp.concatenate([matrix.imag, matrix.real], -2))  # fmt: skip
        return jax.lax.complex(x @ first, x @ second)

    @functools.cached_property
    def _written(self) -> jax.Array:
        """The update of the state by each chunk, [n, *outer, N]."""
        matrix = self._into * jnp.flip(self._powers[..., : self.size, :], -2)
        return jnp.moveaxis(self._applied(self._inputs, matrix, real=self._is_real), -2, 0)

    @functools.cached_property
    def _starts(self) -> jax.Array:
        """The states before each chunk, [n, *outer, N]."""
        whole = self._powers[..., -1, :]
        decay = jnp.broadcast_to(whole, (self.count, *whole.shape))
        return states_before(decay, self._written, self._init)

    @functools.cached_property
    def bounds(self) -> list[jax.Array]:
        """The arrays that have to be moderate for all results."""
        return [self._inputs, self._powers, self._into, self._written, self._starts]

    @functools.cached_property
    def last(self) -> jax.Array:
        """The state after all steps: the decayed state before the last chunk, and the update of its steps."""
        steps = self._length - (self.count - 1) * self.size
        later = jnp.asarray(steps) - 1 - np.arange(self.size)
        left = jnp.take(self._powers, later[0] + 1, -2)
        matrix = self._into * jnp.take(self._powers, jnp.maximum(later, 0), -2)
        added = self._applied(self._inputs[..., -1:, :], matrix, real=self._is_real)[..., 0, :]
        return self.convolution.restored(self._starts[-1] * left + added)

    def read(self, query: Sequence[Factor], *, lag: int) -> tuple[jax.Array, list[jax.Array]]:
        """The products of a query with the states after the steps, before them if `lag` is 1, [T, *outer], and their bounds."""
        factors = self.convolution.constant(query, 1.0, self._dtype)[..., None, :]
        kernel = (factors * self._into * self._powers[..., : self.size, :]).sum(-1)
        place = np.arange(self.size)
        since = place[None, :] - place[:, None] - lag
        toeplitz = jnp.where(since >= 0, jnp.take(kernel, np.maximum(since, 0), -1), 0)
        remains = jnp.swapaxes(factors * self._powers[..., 1 - lag : self.size + 1 - lag, :], -1, -2)
        starts = jnp.moveaxis(self._starts, 0, -2)
        if jnp.iscomplexobj(starts):
            starts = jnp.concatenate([starts.real, starts.imag], -1)
        rows = self._applied(self._inputs, toeplitz, real=self._is_real) + self._applied(starts, remains, real=False)
        rows = jnp.moveaxis(rows, (-2, -1), (0, 1))
        rows = rows.reshape(self.count * self.size, *rows.shape[2:])[: self._length]
        return rows, [toeplitz, factors]
