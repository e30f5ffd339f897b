"""`Indices`: integers in the body of a loop that step with its counter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax.extend.core
import numpy as np
from jax2onnx_core import Dim
from jax2onnx_core.jax_types import Atom, Equation, Var
from jax2onnx_core.jaxprs import is_literal, is_static, open_jaxpr

from jax2onnx_lax._compat import inconclusive_dimension_error

__all__ = ["Counter", "Index", "Indices"]


class Counter(NamedTuple):
    """The values of a counter: `length` ones from `start` on."""

    start: int
    length: Dim


@dataclasses.dataclass(frozen=True)
class Index:
    """`sign · counter + offset`.

    Attributes:
      sign: 1 or -1; 0 for a number.
      offset: the summand.
      counter: the counter's values.
    """

    sign: int
    offset: Dim
    counter: Counter

    @property
    def least(self) -> Dim:
        """The least value."""
        start, length = self.counter
        return self.offset + (start if self.sign >= 0 else -(start + length - 1))

    @property
    def greatest(self) -> Dim:
        """The greatest value."""
        start, length = self.counter
        return self.offset + (start + length - 1 if self.sign > 0 else -start)

    def is_within(self, size: Dim) -> bool:
        """Whether all values are places of an axis of that size."""
        return _holds(lambda: self.least >= 0) and _holds(lambda: self.greatest < size)

    def covers(self, size: Dim) -> bool:
        """Whether the values are all places of an axis of that size."""
        return _holds(lambda: self.least == 0) and _holds(lambda: self.greatest == size - 1)


def _holds(comparison: Callable[[], object]) -> bool:
    """Whether a comparison of dimensions is known to hold."""
    try:
        return bool(comparison())
    except inconclusive_dimension_error:
        return False


#: The elements of a scalar or a vector, or a bool.
_Known = tuple[Index, ...] | bool


class Indices:
    """The integers of a body that step with a counter, or are numbers.

    Args:
      counter: the values of the counter.
    """

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._known: dict[Var, _Known] = {}

    @staticmethod
    def from_body(inner: jax.extend.core.Jaxpr, counters: Mapping[Var, Counter]) -> Indices:
        """Find the indices in a body with counters, all of which step alike."""
        (start, length), *_ = counters.values()
        found = Indices(Counter(start, length))
        for var, counter in counters.items():
            found._known[var] = (Index(1, counter.start - start, found._counter),)
        found._run(inner)
        return found

    def of_all(self, atoms: Sequence[Atom]) -> list[Index] | None:
        """The indices that scalars are; None if one is not known."""
        found = [self._vector(atom) for atom in atoms]
        return [x[0] for x in found if x is not None] if all(x is not None and len(x) == 1 for x in found) else None

    def along(self, atom: Atom, axes: Sequence[int] | None, rank: int) -> list[Index] | None:
        """The index along each of `rank` axes, of which a vector gives those for `axes`; it is zero along the others."""
        vector = self._vector(atom)
        if axes is None or vector is None or len(vector) != len(axes):
            return None
        given = dict(zip(axes, vector, strict=True))
        return [given.get(axis, self._number(0)) for axis in range(rank)]

    def _number(self, value: Dim) -> Index:
        return Index(0, value, self._counter)

    def _vector(self, atom: Atom) -> tuple[Index, ...] | None:
        known = self._value(atom)
        return known if isinstance(known, tuple) else None

    def _value(self, atom: Atom) -> _Known | None:
        if not is_literal(atom):
            return self._known.get(atom)
        array = np.asarray(atom.val)
        if array.dtype.kind == "b":
            return bool(array) if not array.shape else None
        return (
            tuple(self._number(int(x)) for x in array.reshape(-1))
            if array.dtype.kind in "iu" and array.ndim < 2
            else None
        )

    def _run(self, inner: jax.extend.core.Jaxpr) -> None:
        for eqn in inner.eqns:
            if len(eqn.outvars) == 1:
                found = self._result(eqn)
                if found is not None:
                    self._known[eqn.outvars[0]] = found

    def _result(self, eqn: Equation) -> _Known | None:
        name = eqn.primitive.name
        if name == "dim_as_value":
            return (self._number(eqn.params["dim"]),)
        operands = [self._value(v) for v in eqn.invars]
        if name in ("jit", "pjit"):
            return self._called(eqn, operands)
        rule = _RULES.get(name)
        if rule is None or any(x is None for x in operands) or len(eqn.outvars[0].aval.shape) > 1:
            return None
        found = rule(*operands)
        # A scalar that is repeated along an axis is one element no more.
        (size,) = eqn.outvars[0].aval.shape or (1,)
        return found if not isinstance(found, tuple) or (is_static(size) and len(found) == size) else None

    def _called(self, eqn: Equation, operands: Sequence[_Known | None]) -> _Known | None:
        inner = open_jaxpr(eqn.params["jaxpr"])[0]
        self._known.update({v: x for v, x in zip(inner.invars, operands, strict=True) if x is not None})
        self._run(inner)
        return self._value(inner.outvars[0])


def _add(x: _Known, y: _Known) -> _Known | None:
    if isinstance(x, bool) or isinstance(y, bool) or len(x) != 1 or len(y) != 1 or abs(x[0].sign + y[0].sign) > 1:
        return None
    return (Index(x[0].sign + y[0].sign, x[0].offset + y[0].offset, x[0].counter),)


def _neg(x: _Known) -> _Known | None:
    return None if isinstance(x, bool) else tuple(Index(-i.sign, -i.offset, i.counter) for i in x)


def _sub(x: _Known, y: _Known) -> _Known | None:
    negative = _neg(y)
    return None if negative is None else _add(x, negative)


def _lt(x: _Known, y: _Known) -> _Known | None:
    difference = _sub(x, y)
    if difference is None or isinstance(difference, bool):
        return None
    (index,) = difference
    if _holds(lambda: index.least >= 0):
        return False
    return True if _holds(lambda: index.greatest < 0) else None


def _select(which: _Known, *cases: _Known) -> _Known | None:
    return cases[int(which)] if isinstance(which, bool) else None


def _same(x: _Known, *_: _Known) -> _Known | None:
    return x


def _concatenate(*parts: _Known) -> _Known | None:
    return tuple(index for part in parts if not isinstance(part, bool) for index in part)


_RULES: Mapping[str, Callable[..., _Known | None]] = {
    "add": _add, "sub": _sub, "neg": _neg, "lt": _lt, "select_n": _select, "convert_element_type": _same,
    "broadcast_in_dim": _same, "reshape": _same, "squeeze": _same, "concatenate": _concatenate, "copy": _same,
}  # fmt: skip
