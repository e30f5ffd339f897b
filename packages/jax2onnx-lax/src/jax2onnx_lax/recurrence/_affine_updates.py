"""`AffineUpdate`: the new state of a step as an affine function of the old one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jax2onnx_core import Dim

from jax2onnx_lax.integers._domain import is_one
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._values import Factor, Label, State, Term, Value, new_labels

__all__ = ["AffineUpdate", "RankOne"]


@dataclasses.dataclass(frozen=True)
class RankOne:
    """A product `u[a'] (Σ w[a] S[a])` along one axis of the state.

    Attributes:
      term: all its factors.
      axis: the axis of the state.
      inside: the name of that axis before the step, over which the sum runs.
    """

    term: Term
    axis: int
    inside: Label


@dataclasses.dataclass(frozen=True)
class AffineUpdate:
    """`S' = decay * S + low + update`.

    Attributes:
      shape: the shape of the state.
      axes: the names of its axes in all terms.
      decay: the factors of the state, elementwise: terms whose product with the state are summed.
      low: the product of rank one that mixes the state along an axis; None if there is none.
      update: the terms that do not depend on the state.
    """

    shape: tuple[Dim, ...]
    axes: tuple[Label, ...]
    decay: tuple[Term, ...]
    low: RankOne | None
    update: tuple[Term, ...]

    @property
    def is_plain(self) -> bool:
        """Whether the factors and summands of a step have all axes of the state."""
        wide = {label for label, dim in zip(self.axes, self.shape, strict=True) if not is_one(dim)}
        terms = (*self.decay, *self.update)
        return all(any(wide <= set(factor.labels) for factor in term.factors) for term in terms if term.factors)

    @staticmethod
    def from_value(state: State, new: Value) -> AffineUpdate:
        """Read the state's value after a step as an affine function of the state.

        Raises:
          UnsuitableError: the value is affine in the state, but in another way.
        """
        axes = new_labels(len(new.shape))
        decay, low, update = [], [], []
        for term in new.terms:
            term = term.renamed(dict(zip(term.out, axes, strict=True)))
            if term.state is not state:
                update.append(_with_known_state(term, new))
                continue
            mixed = _mixed(term, axes, new.shape)
            if not mixed:
                decay.append(_diagonal(term, axes))
            elif len(mixed) == 1:
                low.append(_rank_one(term, axes, mixed[0]))
            else:
                raise UnsuitableError("a step mixes the elements of its state along several axes")
        if len(low) > 1:
            raise UnsuitableError("a step mixes the elements of its state in several ways")
        return AffineUpdate(new.shape, axes, tuple(decay), low[0] if low else None, tuple(update))


def _with_known_state(term: Term, new: Value) -> Term:
    """The term with the values of another carry as a factor like others."""
    other = term.state
    if other is None:
        return term
    whole = Term((), term.axes, state=other, when=term.when, axes=term.axes)
    leaf = Value(other.init.shape, new.dtype, lambda: other.read(whole))
    return Term((*term.factors, Factor(leaf, term.axes)), term.out, term.scale)


def _mixed(term: Term, axes: Sequence[Label], shape: Sequence[Dim]) -> list[int]:
    """The axes along which a term mixes the elements of the state."""
    others = [
        i for i, (own, label) in enumerate(zip(term.axes, axes, strict=True)) if own != label and not is_one(shape[i])
    ]
    if any(term.axes[i] in axes for i in others):
        raise UnsuitableError("a step exchanges the axes of its state")
    return others


def _diagonal(term: Term, axes: Sequence[Label]) -> Term:
    """The term with the state's axes named alike; those of size 1 may have had other names."""
    names = {own: label for own, label in zip(term.axes, axes, strict=True) if own != label}
    return term.renamed(names)


def _rank_one(term: Term, axes: Sequence[Label], axis: int) -> RankOne:
    inside = term.axes[axis]
    term = term.renamed({own: label for i, (own, label) in enumerate(zip(term.axes, axes, strict=True)) if i != axis})
    for factor in term.factors:
        if inside in factor.labels and axes[axis] in factor.labels:
            raise UnsuitableError("a step multiplies its state by a matrix")
    return RankOne(term, axis, inside)
