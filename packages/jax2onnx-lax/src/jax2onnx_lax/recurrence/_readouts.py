"""`Readout`: the product of a matrix state with queries."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import is_static

from jax2onnx_lax.integers._domain import is_one
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._matrix import Matrices
from jax2onnx_lax.recurrence._values import BatchedArray, Factor, Label, Term, Value, product

__all__ = ["Readout"]


@dataclasses.dataclass(frozen=True)
class Readout:
    """A readout `y = Σ q[k] S[k, v]` of a state, times other factors.

    Attributes:
      term: the product, with the names of axes of the matrices.
      queries: the factors of the query.
      others: the other factors.
      extra: the axes that queries have and states do not.
    """

    term: Term
    queries: tuple[Factor, ...]
    others: tuple[Factor, ...]
    extra: tuple[Label, ...]

    @staticmethod
    def axis(term: Term, shape: Sequence[Dim]) -> int:
        """The axis of the state over which a read sums.

        Raises:
          UnsuitableError: there is not exactly one.
        """
        summed = [i for i, label in enumerate(term.axes) if label not in term.out]
        wide = [i for i in summed if not (is_one(shape[i]))] if len(summed) > 1 else summed
        if len(wide) != 1:
            raise UnsuitableError("its state is needed in all steps, not only products of it with queries")
        return wide[0]

    @staticmethod
    def from_term(term: Term, matrices: Matrices) -> Readout:
        """Read a term as the product of a state with queries."""
        term = term.renamed(dict(zip(term.axes, matrices.form.axes, strict=True)))
        queries = tuple(f for f in term.factors if matrices.keys in f.labels)
        others = tuple(f for f in term.factors if matrices.keys not in f.labels)
        inside = {*matrices.batch, matrices.keys}
        extra = tuple(dict.fromkeys(label for f in queries for label in f.labels if label not in inside))
        if any(label not in term.out for label in extra) or matrices.values in extra:
            raise UnsuitableError("its state is read by a product of several sums")
        return Readout(term, queries, others, extra)

    def query(self, m: Matrices) -> jax.Array:
        """[T, *batch, G, K]."""
        found = product(self.queries, [*m.batch, *self.extra, m.keys], dtype=m.init.dtype)
        sizes = self._sizes()
        dims = (*m.batch_dims, *sizes, m.key_size)
        array = found.array.astype(m.init.dtype)
        whole = jnp.broadcast_to(array if found.timed else array[None], (m.length, *dims))
        group = math.prod(sizes)
        return whole.reshape(m.length, *m.batch_dims, group, m.key_size)

    def _sizes(self) -> list[int]:
        sizes = {label: f.value.shape[axis] for f in self.queries for axis, label in enumerate(f.labels)}
        found = [dim for dim in (sizes[label] for label in self.extra) if is_static(dim)]
        if len(found) < len(self.extra):
            raise UnsuitableError("the number of queries of a state is symbolic")
        return found

    def result(self, y: jax.Array, m: Matrices) -> BatchedArray:
        """The term from the results [T, *batch, G, V] of the queries."""
        whole = y.reshape(m.length, *m.batch_dims, *self._sizes(), m.value_size)
        leaf = Value(whole.shape[1:], whole.dtype, lambda: BatchedArray(whole, True))
        read = Factor(leaf, (*m.batch, *self.extra, m.values))
        return product((*self.others, read), self.term.out, self.term.scale, dtype=y.dtype)
