"""`KernelSolution`: states of matrices by a kernel for linear attention."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import is_static

from jax2onnx_lax.recurrence._affine_updates import AffineUpdate
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._logarithms import logarithm
from jax2onnx_lax.recurrence._matrix import Delta, Matrices, MatrixSolution
from jax2onnx_lax.recurrence._readouts import Readout
from jax2onnx_lax.recurrence._values import BatchedArray, Factor, Term
from jax2onnx_lax.recurrence.linear_attention import linear_attention

__all__ = ["KernelSolution"]


class KernelSolution(MatrixSolution):
    """The states by linear attention, called once for each way in which they are read."""

    _last: jax.Array | None = None

    @staticmethod
    def takes(form: AffineUpdate, init: jax.Array, length: Dim) -> bool:
        """Whether the kernel has the rule by which the state is written."""
        return form.low is None or Matrices.from_form(form, init, length, None).delta() is not None

    @property
    def last(self) -> jax.Array:
        """The state after all steps."""
        if self._last is None:
            operands = _Operands.from_matrices(self.matrices(None), self.conditions)
            query = jnp.zeros_like(operands.key)
            self._last = operands.call(query)[1]
        return self._last

    def read(self, term: Term) -> BatchedArray:
        """See `Solution`."""
        key = Readout.axis(term, self.form.shape)
        matrices = self.matrices(key)
        read = Readout.from_term(term, matrices)
        operands = _Operands.from_matrices(matrices, self.conditions)
        query = read.query(matrices)
        if term.when == "before":
            shifted = jnp.concatenate([query[1:], jnp.zeros_like(query[:1])])
            y, self._last = operands.call(shifted)
            first = jnp.einsum("...gk,...kv->...gv", query[0], matrices.first())
            y = jnp.concatenate([first[None], y[:-1]])
        else:
            y, self._last = operands.call(query)
        return read.result(y, matrices)


@dataclasses.dataclass(frozen=True)
class _Operands:
    """The operands of linear attention, [T, *batch, ...]."""

    matrices: Matrices
    key: jax.Array
    value: jax.Array
    decay: jax.Array | None
    beta: jax.Array | None

    @staticmethod
    def from_matrices(matrices: Matrices, conditions: list[jax.Array]) -> _Operands:
        delta = matrices.delta()
        if matrices.form.low is not None and delta is None:
            raise UnsuitableError("its state is written by another rule than those of the kernel")
        key, value, scale = _written(matrices, delta)
        m = matrices
        beta = (
            None
            if delta is None
            else jnp.broadcast_to(m.stack(delta.beta, [], delta.beta_scale), (m.length, *m.batch_dims))
        )
        return _Operands(
            m, m.full(key, m.keys, m.key_size), m.full(value, m.values, m.value_size, scale),
            logarithm(m, conditions), beta,
        )  # fmt: skip

    def call(self, query: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The results [T, *batch, G, V] of queries [T, *batch, G, K], and the last state in its own order of axes."""
        m = self.matrices
        query = query if query.ndim == self.key.ndim + 1 else query[..., None, :]
        pack = _Packing.from_dims(m.batch_dims)
        group = query.shape[-2]
        keys, values = pack.steps(self.key, 1), pack.steps(self.value, 1)
        queries = pack.steps(query, 2)
        queries = queries.reshape(*queries.shape[:2], -1, queries.shape[-1])
        decay = None if self.decay is None else pack.steps(self.decay, 1)
        beta = None if self.beta is None else pack.steps(self.beta, 0)
        y, last = linear_attention(queries, keys, values, pack.state(m.first()), decay, beta)
        y = jnp.moveaxis(y, 1, 0).reshape(y.shape[1], *m.batch_dims, group, y.shape[-1])
        return y, m.restored(last.reshape(*m.batch_dims, *last.shape[-2:]))


@dataclasses.dataclass(frozen=True)
class _Packing:
    """The other axes of a state as a batch and heads.

    Attributes:
      batch: the size of the batch.
      heads: the number of heads.
    """

    batch: Dim
    heads: int

    @staticmethod
    def from_dims(dims: Sequence[Dim]) -> _Packing:
        """The batch is the first axis if there are several, or if its size is symbolic."""
        split = len(dims) > 1 or (len(dims) == 1 and not is_static(dims[0]))
        rest = [dim for dim in dims[split:] if is_static(dim)]
        if len(rest) < len(dims) - split:
            raise UnsuitableError("the number of its states is symbolic")
        return _Packing(dims[0] if split else 1, math.prod(rest))

    def steps(self, x: jax.Array, own: int) -> jax.Array:
        """[T, *batch, *own] as [B, T, H, *own]."""
        flat = x.reshape(x.shape[0], self.batch, self.heads, *x.shape[x.ndim - own :])
        return jnp.moveaxis(flat, 0, 1)

    def state(self, x: jax.Array) -> jax.Array:
        """[*batch, K, V] as [B, H, K, V]."""
        return x.reshape(self.batch, self.heads, *x.shape[-2:])


def _written(m: Matrices, delta: Delta | None) -> tuple[Sequence[Factor], Sequence[Factor], float]:
    """The factors of the key and of the value, and the scale of the value."""
    if delta is not None:
        return delta.key, delta.value, delta.value_scale
    update = m.update
    return (
        [f for f in update.factors if m.keys in f.labels],
        [f for f in update.factors if m.keys not in f.labels],
        update.scale,
    )
