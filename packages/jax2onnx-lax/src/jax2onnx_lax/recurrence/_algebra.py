"""Equations that keep a value a sum of products of its operands' factors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from jax2onnx_core import Dim
from jax2onnx_core.jax_types import Equation
from jax2onnx_core.jaxprs import is_static

from jax2onnx_lax.recurrence._values import BatchedArray, Label, State, Term, Value, new_labels

__all__ = ["applied"]

#: More terms than any recurrence has that is worth the effort.
_MOST_TERMS = 12


def applied(eqn: Equation, operands: Sequence[Value]) -> Value | None:
    """The result of an equation as a sum of products; None where it is none, or better computed as it stands."""
    rule = _RULES.get(eqn.primitive.name)
    (aval,) = (v.aval for v in eqn.outvars) if len(eqn.outvars) == 1 else (None,)
    if rule is None or aval is None or any(x.dtype != aval.dtype for x in operands):
        return None
    terms = rule(eqn, operands)
    if terms is None or not 0 < len(terms) <= _MOST_TERMS:
        return None
    needs = frozenset[State]().union(*(x.needs for x in operands))
    timed = any(x.timed for x in operands)
    return Value(aval.shape, aval.dtype, terms=terms, needs=needs, timed=timed)


def _scaled(terms: Sequence[Term], scale: float) -> list[Term]:
    return [dataclasses.replace(term, scale=term.scale * scale) for term in terms]


def _is_small(*operands: Value) -> bool:
    """Whether the values are arrays of their own full shape, which one operation computes at once."""
    return all(x.is_plain or not x.shape for x in operands)


def _mul(eqn: Equation, operands: Sequence[Value]) -> list[Term] | None:
    x, y = operands
    if x.states and y.states:
        return None
    is_alone = _is_small(x, y) and len(x.shape) == len(y.shape) and not _is_number(x, y)
    if is_alone and not _is_broadcast_by_constant(x, y):
        return None
    shape = eqn.outvars[0].aval.shape
    return [_times(a, b) for a in _widened(x, shape) for b in _widened(y, shape)]


def _is_broadcast_by_constant(x: Value, y: Value) -> bool:
    """Whether a constant adds axes to a value that differs from step to step."""
    same_rank = len(x.shape) == len(y.shape) and x.is_plain and y.is_plain
    return same_rank and x.timed != y.timed and not all(map(_equal, x.shape, y.shape))


def _widened(x: Value, shape: Sequence[Dim]) -> list[Term]:
    """The terms of a value whose axes of size 1 are broadcast; those of a scalar have no axes."""
    if not x.shape:
        return list(x.terms)
    places = [axis if _equal(x.shape[axis], dim) else None for axis, dim in enumerate(shape)]
    return [_placed(term, places) for term in x.terms]


def _is_number(*operands: Value) -> bool:
    return any(not x.is_plain and not any(term.factors for term in x.terms) for x in operands)


def _div(eqn: Equation, operands: Sequence[Value]) -> list[Term] | None:
    x, y = operands
    if not x.states or y.states:
        return None
    shape = eqn.outvars[0].aval.shape
    return [_times(a, b) for a in _widened(x, shape) for b in _widened(_reciprocal(y), shape)]


def _reciprocal(y: Value) -> Value:
    def array() -> BatchedArray:
        found = y.array()
        return BatchedArray(1 / found.array, found.timed)

    return Value(y.shape, y.dtype, array, needs=y.needs, timed=y.timed, nonnegative=y.nonnegative)


def _times(a: Term, b: Term) -> Term:
    b = b.fresh()
    if a.out and b.out:
        b = b.renamed(dict(zip(b.out, a.out, strict=True)))
    carrier = a if a.state is not None else b
    return Term((*a.factors, *b.factors), a.out or b.out, a.scale * b.scale, carrier.state, carrier.when, carrier.axes)


def _add(eqn: Equation, operands: Sequence[Value], sign: float = 1.0) -> list[Term] | None:
    x, y = operands
    if (_is_small(x, y) and not (x.states or y.states)) or len(x.shape) != len(y.shape):
        return None
    shape = eqn.outvars[0].aval.shape
    return [*_widened(x, shape), *_scaled(_widened(y, shape), sign)]


def _sub(eqn: Equation, operands: Sequence[Value]) -> list[Term] | None:
    return _add(eqn, operands, -1.0)


def _neg(eqn: Equation, operands: Sequence[Value]) -> list[Term] | None:
    return None if operands[0].is_plain else _scaled(operands[0].terms, -1.0)


def _same(eqn: Equation, operands: Sequence[Value]) -> list[Term] | None:
    return list(operands[0].terms)


def _transpose(eqn: Equation, operands: Sequence[Value]) -> list[Term] | None:
    order = eqn.params["permutation"]
    return [dataclasses.replace(t, out=tuple(t.out[axis] for axis in order)) for t in operands[0].terms]


def _broadcast_in_dim(eqn: Equation, operands: Sequence[Value]) -> list[Term] | None:
    (x, *_), dims, shape = operands, eqn.params["broadcast_dimensions"], eqn.params["shape"]
    kept = {axis: place for place, axis in enumerate(dims) if _equal(x.shape[place], shape[axis])}
    return [_placed(term, [kept.get(axis) for axis in range(len(shape))]) for term in x.terms]


def _placed(term: Term, places: Sequence[int | None]) -> Term:
    """The term with its axes at other places: the old place of each new axis, None for one along which it is broadcast."""
    new = new_labels(len(places))
    return dataclasses.replace(
        term, out=tuple(new[i] if place is None else term.out[place] for i, place in enumerate(places))
    )


def _reshape(eqn: Equation, operands: Sequence[Value]) -> list[Term] | None:
    """Reshapes that add or remove axes of size 1."""
    (x, *_), shape = operands, eqn.outvars[0].aval.shape
    if eqn.params["dimensions"] is not None:
        return None
    wide = [axis for axis, dim in enumerate(x.shape) if not _equal(dim, 1)]
    places: list[int | None] = []
    for dim in shape:
        if _equal(dim, 1):
            places.append(None)
        elif wide and _equal(x.shape[wide[0]], dim):
            places.append(wide.pop(0))
        else:
            return None
    return None if wide else [_placed(term, places) for term in x.terms]


def _squeeze(eqn: Equation, operands: Sequence[Value]) -> list[Term] | None:
    gone = {axis % len(operands[0].shape) for axis in eqn.params["dimensions"]}
    return [_placed(t, [axis for axis in range(len(t.out)) if axis not in gone]) for t in operands[0].terms]


def _reduce_sum(eqn: Equation, operands: Sequence[Value]) -> list[Term] | None:
    (x,) = operands
    if not x.states:
        return None
    gone = [axis % len(x.shape) for axis in eqn.params["axes"]]
    return _summed([(t, [(t.out[axis], x.shape[axis]) for axis in gone]) for t in x.terms], lambda t: [
        label for axis, label in enumerate(t.out) if axis not in gone
    ])  # fmt: skip


def _summed(
    terms: Sequence[tuple[Term, Sequence[tuple[Label, Dim]]]], out: Callable[[Term], Sequence[Label]]
) -> list[Term] | None:
    """Terms summed over axes; along one that nothing has, the sum is a multiple."""
    results = []
    for term, gone in terms:
        scale = term.scale
        for label, dim in gone:
            if label in term.labels:
                continue
            if not is_static(dim):
                return None
            scale *= dim
        results.append(dataclasses.replace(term, out=tuple(out(term)), scale=scale))
    return results


def _dot_general(eqn: Equation, operands: Sequence[Value]) -> list[Term] | None:
    (x, y), ((cx, cy), (bx, by)) = operands, eqn.params["dimension_numbers"]
    if (x.states and y.states) or (cx and not x.states and not y.states):
        return None
    results: list[Term] = []
    for a in x.terms:
        for b in y.terms:
            term = _dotted(a, b, (cx, cy), (bx, by), [x.shape[axis] for axis in cx])
            if term is None:
                return None
            results.append(term)
    return results


def _dotted(
    a: Term, b: Term, contracted: tuple[Sequence[int], Sequence[int]], batch: tuple[Sequence[int], Sequence[int]],
    dims: Sequence[Dim],
) -> Term | None:  # fmt: skip
    b = b.fresh()
    pairs = [*zip(contracted[1], contracted[0], strict=True), *zip(batch[1], batch[0], strict=True)]
    names: Mapping[Label, Label] = {b.out[j]: a.out[i] for j, i in pairs}
    b = b.renamed(names)
    rest = [[t.out[i] for i in range(len(t.out)) if i not in (*c, *d)] for t, c, d in
            ((a, contracted[0], batch[0]), (b, contracted[1], batch[1]))]  # fmt: skip
    out = [*(a.out[i] for i in batch[0]), *rest[0], *rest[1]]
    gone = [(a.out[i], dim) for i, dim in zip(contracted[0], dims, strict=True)]
    carrier = a if a.state is not None else b
    whole = Term((*a.factors, *b.factors), (), a.scale * b.scale, carrier.state, carrier.when, carrier.axes)
    summed = _summed([(whole, gone)], lambda _: out)
    return None if summed is None else summed[0]


def _equal(a: Dim, b: Dim) -> bool:
    return a is b or bool(a == b)


_Rule = Callable[[Equation, Sequence[Value]], list[Term] | None]

_RULES: dict[str, _Rule] = {
    "mul": _mul, "div": _div, "add": _add, "add_any": _add, "sub": _sub, "neg": _neg, "copy": _same, "copy_p": _same,
    "convert_element_type": _same, "transpose": _transpose, "broadcast_in_dim": _broadcast_in_dim, "reshape": _reshape,
    "squeeze": _squeeze, "reduce_sum": _reduce_sum, "dot_general": _dot_general,
}  # fmt: skip
