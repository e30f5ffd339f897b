"""`Body`: the values of the body of a scan, each for all steps at once, as far as that is possible before the carry is known."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Dim
from jax2onnx_core.jax_types import Atom, Aval, Equation, Jaxpr, PyTree, Var
from jax2onnx_core.jaxprs import bind_equation, is_drop_var, is_literal, open_jaxpr
from jax2onnx_graph.arrays import Dtype

from jax2onnx_lax._called import called_jaxpr, is_batchable, plain_call
from jax2onnx_lax.recurrence._algebra import applied
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._values import BatchedArray, State, Term, Value, new_labels

__all__ = ["Body", "state_value"]

_NONNEGATIVE = frozenset({"exp", "exp2", "logistic", "abs", "square"})


class Body:
    """The body of a scan as an interpreter of its jaxpr sees it.

    Attributes:
      results: the values of its results, the carry first.
      values: the values of the variables of its outermost jaxpr.
      updates: the carries after the step, as sums of products.
      reordered: products without a state that are summed in another order than the body does it.
    """

    def __init__(self, jaxpr: Jaxpr, operands: Sequence[Value], carry: Mapping[int, State]) -> None:
        """Args:
        jaxpr: the body.
        operands: the values of its operands.
        carry: the carries whose values after the step other values may be computed from, by their place in the results.
        """  # fmt: skip
        self.values: dict[Var, Value] = {}
        self.updates: dict[State, Value] = {}
        self.reordered: list[Term] = []
        inner, consts = open_jaxpr(jaxpr)
        self.values.update(zip(inner.constvars, map(_constant, consts), strict=True))
        marks = {inner.outvars[i]: state for i, state in carry.items() if not is_literal(inner.outvars[i])}
        self.results = self._run(inner, operands, self.values, marks)

    def _run(
        self,
        inner: jax.extend.core.Jaxpr,
        operands: Sequence[Value],
        values: dict[Var, Value],
        marks: Mapping[Var, State],
    ) -> list[Value]:
        values.update(zip(inner.invars, operands, strict=True))
        for eqn in inner.eqns:
            if eqn.effects:
                raise UnsuitableError("its body has effects")
            results = self._results(eqn, [_read(values, v) for v in eqn.invars], marks)
            for var, value in zip(eqn.outvars, results, strict=True):
                values[var] = self._marked(value, marks[var]) if var in marks else value
        return [_read(values, v) for v in inner.outvars]

    def _marked(self, value: Value, state: State) -> Value:
        """The carry after a step, from here on a state of its own instead of an expression."""
        if state in self.updates:
            return value
        self.updates[state] = value
        return state_value(state, value.shape, value.dtype, after=True)

    def _results(self, eqn: Equation, operands: list[Value], marks: Mapping[Var, State]) -> list[Value]:
        inner = called_jaxpr(eqn)
        if inner is not None and (plain_call(eqn) is not None or any(x.states for x in operands)):
            body, consts = open_jaxpr(inner)
            own = dict(zip(body.constvars, map(_constant, consts), strict=True))
            outside = {body.outvars[i]: marks[v] for i, v in enumerate(eqn.outvars) if v in marks and not is_literal(body.outvars[i])}  # fmt: skip
            return self._run(body, operands[len(operands) - len(body.invars) :], own, outside)
        if len(eqn.outvars) == 1 and np.issubdtype(eqn.outvars[0].aval.dtype, np.inexact):
            value = applied(eqn, operands)
            if value is not None:
                self.reordered += [] if not value.states else [t for t in value.terms if _is_reordered(t)]
                return [value]
        return _opaque(eqn, operands)


def _is_reordered(term: Term) -> bool:
    """Whether a product has factors that the body multiplies by each other before it sums."""
    summed = term.labels - set(term.out)
    return term.state is None and len(term.factors) > 2 and bool(summed)


def state_value(state: State, shape: Sequence[Dim], dtype: Dtype, *, after: bool) -> Value:
    """A carry before or after the step as a value that other values are sums of products of."""
    axes = new_labels(len(shape))
    return Value(shape, dtype, terms=[Term((), axes, state=state, when="after" if after else "before", axes=axes)])


def _read(values: Mapping[Var, Value], atom: Atom) -> Value:
    return _literal(atom.aval, atom.val) if is_literal(atom) else values[atom]


def _literal(aval: Aval, number: object) -> Value:
    array = np.asarray(number, aval.dtype)
    if array.shape or not np.issubdtype(array.dtype, np.floating):
        return _leaf(jnp.asarray(array), aval)
    return Value((), aval.dtype, terms=[Term((), (), float(array))], timed=False, nonnegative=bool(array >= 0))


def _leaf(array: jax.Array, aval: Aval) -> Value:
    return Value(aval.shape, aval.dtype, lambda: BatchedArray(array, False), timed=False)


def _constant(array: PyTree) -> Value:
    known = isinstance(array, np.ndarray | jax.Array) and not isinstance(array, jax.core.Tracer)
    nonnegative = known and np.issubdtype(array.dtype, np.floating) and bool(np.all(np.asarray(array) >= 0))
    return Value(
        array.shape, array.dtype, lambda: BatchedArray(jnp.asarray(array), False), timed=False, nonnegative=nonnegative
    )


def _opaque(eqn: Equation, operands: Sequence[Value]) -> list[Value]:
    """The results of an equation that is computed for all steps as it stands."""
    needs = frozenset[State]().union(*(x.all_states for x in operands))
    timed = any(x.timed for x in operands)

    @functools.cache
    def arrays() -> list[BatchedArray]:
        found = [x.array() for x in operands]
        if not any(x.timed for x in found):
            return [BatchedArray(y, False) for y in bind_equation(eqn, [x.array for x in found])]
        if not is_batchable(eqn):  # vmap computes all branches, of which one may never end where it is not taken
            raise UnsuitableError(
                f"its steps contain {eqn.primitive.name}, which is not computed for all of them at once"
            )
        stacked = jax.vmap(lambda *xs: bind_equation(eqn, xs), [0 if x.timed else None for x in found])
        return [BatchedArray(y, True) for y in stacked(*(x.array for x in found))]

    exponent = operands[0] if eqn.primitive.name == "exp" else None
    return [
        Value(v.aval.shape, v.aval.dtype, lambda i=i: arrays()[i], needs=needs, timed=timed, logarithm=exponent,  # type: ignore[misc]
              nonnegative=_is_nonnegative(eqn, operands, i), operands=operands, real=_real(eqn, operands))
        for i, v in enumerate(eqn.outvars)
    ]  # fmt: skip


def _real(eqn: Equation, operands: Sequence[Value]) -> Value | None:
    """The real value that an equation makes a complex one of."""
    if eqn.primitive.name != "convert_element_type" or not np.issubdtype(eqn.params["new_dtype"], np.complexfloating):
        return None
    return operands[0] if np.issubdtype(operands[0].dtype, np.floating) else None


def _is_nonnegative(eqn: Equation, operands: Sequence[Value], place: int) -> bool:
    """Whether the result of an equation at a place has no elements below zero; NaN may be among them."""
    name = eqn.primitive.name
    if name in ("pow", "sqrt", "integer_pow"):
        return operands[0].nonnegative
    if name in ("mul", "add"):
        return all(x.nonnegative for x in operands)
    if name in ("select_n", "max"):
        return all(x.nonnegative for x in operands[name == "select_n" :])
    inner = called_jaxpr(eqn)
    if inner is not None:
        body = open_jaxpr(inner)[0]
        made = {v: e for e in body.eqns for v in e.outvars if not is_drop_var(v)}
        result = body.outvars[place]
        last = None if is_literal(result) else made.get(result)
        return last is not None and last.primitive.name in _NONNEGATIVE
    return name in _NONNEGATIVE
