"""Equations on sums of products of a carry and known factors: each gives what JAX computes in every step, or declines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core.jax_types import Equation
from jax2onnx_core.jaxprs import bind_equation, is_literal, open_jaxpr
from jax2onnx_lax.recurrence._algebra import applied
from jax2onnx_lax.recurrence._values import BatchedArray, Factor, Term, Value, new_labels, product, size_of

STEPS = 3
RNG = np.random.default_rng(0)
#: A carry [2, 4] in all steps, numbers that differ from step to step, and those that do not.
CARRY, TIMED, CONSTANT = RNG.normal(size=(STEPS, 2, 4)), RNG.normal(size=(STEPS, 2, 4)) + 4, RNG.normal(size=(2, 4))


class Carry:
    """A carry whose values are known."""

    init = jnp.asarray(CARRY[0])

    def read(self, term: Term) -> BatchedArray:
        whole = Factor(_plain(CARRY, timed=True), term.axes)
        return product((*term.factors, whole), term.out, term.scale, dtype=np.dtype(np.float64))


def _plain(array: np.ndarray, *, timed: bool) -> Value:
    shape = array.shape[1:] if timed else array.shape
    return Value(shape, np.dtype(np.float64), lambda: BatchedArray(jnp.asarray(array), timed), timed=timed)


def _carried(carry: Carry) -> Value:
    labels = new_labels(2)
    return Value((2, 4), np.dtype(np.float64), terms=[Term((), labels, state=carry, axes=labels)])


def _computed(eqn: Equation, arrays: Sequence[BatchedArray]) -> Value:
    """The result of an equation in all steps."""

    def in_a_step(*operands: jax.Array) -> jax.Array:
        return bind_equation(eqn, operands)[0]

    timed, given = any(one.timed for one in arrays), [one.array for one in arrays]
    axes = [0 if one.timed else None for one in arrays]
    return _plain(np.asarray(jax.vmap(in_a_step, axes)(*given) if timed else in_a_step(*given)), timed=timed)


def _evaluated(fn: Callable[..., jax.Array]) -> tuple[Value, list[str]]:
    """The result of a function of the carry, the numbers of a step and the constant, and the equations that decline."""
    inner, _ = open_jaxpr(jax.make_jaxpr(fn)(CARRY[0], TIMED[0], CONSTANT))
    values = [_carried(Carry()), _plain(TIMED, timed=True), _plain(CONSTANT, timed=False)]
    env = dict(zip(inner.invars, values, strict=True))
    declined = []
    for eqn in inner.eqns:
        operands = [_plain(np.asarray(v.val), timed=False) if is_literal(v) else env[v] for v in eqn.invars]
        result = applied(eqn, operands)
        if result is None:
            declined.append(eqn.primitive.name)
            result = _computed(eqn, [operand.array() for operand in operands])
        env[eqn.outvars[0]] = result
    (out,) = inner.outvars
    return env[out], declined


#: name → function, and what declines, since it is no sum of products, or one operation computes it at once.
FUNCTIONS: dict[str, tuple[Callable[..., jax.Array], list[str]]] = {
    "times numbers": (lambda s, t, c: s * t, []),
    "times the constant": (lambda s, t, c: c * s, []),
    "numbers by numbers": (lambda s, t, c: t * c, ["mul"]),
    "times both": (lambda s, t, c: s * (t * c), ["mul"]),
    "the carry by itself": (lambda s, t, c: s * s, ["mul"]),
    "twice": (lambda s, t, c: s * 2.0, []),
    "divided": (lambda s, t, c: s / t, []),
    "divided by the carry": (lambda s, t, c: t / s, ["div"]),
    "numbers divided": (lambda s, t, c: t / c, ["div"]),
    "a sum": (lambda s, t, c: s + t, []),
    "a sum of numbers": (lambda s, t, c: t + c, ["add"]),
    "a difference": (lambda s, t, c: s * c - t, []),
    "a difference the other way round": (lambda s, t, c: t - s, []),
    "negative": (lambda s, t, c: -s, []),
    "negative numbers": (lambda s, t, c: -t, ["neg"]),
    "negative twice": (lambda s, t, c: -(t - s), []),
    "a sum times numbers": (lambda s, t, c: (s + t) * c, []),
    "transposed": (lambda s, t, c: lax.transpose(s, (1, 0)) * t.T, []),
    "axes added": (lambda s, t, c: s[:, None, :] * t[:, :, None], []),
    "broadcast": (lambda s, t, c: lax.broadcast_in_dim(s, (3, 2, 4), (1, 2)) * lax.broadcast_in_dim(t, (3, 2, 4), (1, 2)), []),
    "an axis of size 1 broadcast": (lambda s, t, c: lax.broadcast_in_dim(s[:, None], (2, 3, 4), (0, 1, 2)), []),
    "reshaped by ones": (lambda s, t, c: lax.reshape(s * t, (2, 1, 4, 1)), []),
    "reshaped back": (lambda s, t, c: lax.reshape(lax.reshape(s, (1, 2, 4)), (2, 4)), []),
    "reshaped to one axis": (lambda s, t, c: lax.reshape(s, (8,)), ["reshape"]),
    "reshaped to other axes": (lambda s, t, c: lax.reshape(s, (4, 2)), ["reshape"]),
    "squeezed": (lambda s, t, c: lax.squeeze(s[:, None, :] * t[:, None, :], (1,)), []),
    "squeezed from behind": (lambda s, t, c: lax.squeeze(s[:, :, None], (-1,)) * t, []),
    "summed": (lambda s, t, c: (s * t).sum(1), []),
    "summed over both axes": (lambda s, t, c: (s * t + s).sum(), []),
    "a row of size 1 added, and summed": (lambda s, t, c: (s + t[:, :1]).sum(1), ["slice"]),
    "a row of size 1 minus the carry, and summed": (lambda s, t, c: (c[:1] - s).sum(0), ["slice"]),
    "a carry of size 1 added, and multiplied": (lambda s, t, c: (s.sum(1, keepdims=True) + t) @ c.T, []),
    "a row of size 1 times a broadcast sum": (lambda s, t, c: ((s + t[:, 0][:, None]) * t[:, :1]).sum(1), ["slice", "slice"]),
    "divided by a row of size 1": (lambda s, t, c: ((s + t[:, 0][:, None]) / t[:, :1]).sum(1), ["slice", "slice"]),
    "numbers summed": (lambda s, t, c: t.sum(0), ["reduce_sum"]),
    "summed over what repeats it": (lambda s, t, c: lax.broadcast_in_dim(s, (3, 2, 4), (1, 2)).sum(0), []),
    "a product of matrices": (lambda s, t, c: s @ c.T, []),
    "a product with numbers of the step": (lambda s, t, c: lax.dot_general(t, s, (((0,), (0,)), ((), ()))), []),
    "a product of the carry": (lambda s, t, c: s @ s.T, ["dot_general"]),
    "a product of numbers": (lambda s, t, c: t @ c.T, ["dot_general"]),
    "a product by rows": (lambda s, t, c: lax.dot_general(s, t, (((1,), (1,)), ((0,), (0,)))), []),
    "an outer product": (lambda s, t, c: lax.dot_general(t, c, (((), ()), ((0,), (0,)))), []),
    "an outer product with the carry": (lambda s, t, c: lax.dot_general(s, c, (((), ()), ((), ()))), []),
    "a sum in a product": (lambda s, t, c: (s * t - c) @ c.T, []),
    "another function": (lambda s, t, c: jnp.tanh(s), ["tanh"]),
    "an int": (lambda s, t, c: lax.convert_element_type(s, np.int32), ["convert_element_type"]),
    "the same type": (lambda s, t, c: lax.copy_p.bind(s) * t, []),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_equation_is_what_jax_computes(name: str) -> None:
    fn, expected = FUNCTIONS[name]
    with jax.enable_x64(True):
        value, declined = _evaluated(fn)
        wanted = jax.vmap(fn, (0, 0, None))(CARRY, TIMED, CONSTANT)
        found = value.array()
        array = found.array if found.timed else jnp.broadcast_to(found.array, wanted.shape)
        np.testing.assert_allclose(array, wanted, rtol=1e-12, atol=1e-12)
    assert declined == expected
    assert value.shape == wanted.shape[1:]


def test_more_terms_than_pay_are_none() -> None:
    def fn(s: jax.Array, t: jax.Array, c: jax.Array) -> jax.Array:
        total = s
        for _ in range(12):
            total = total + t
        return total

    with jax.enable_x64(True):
        _, declined = _evaluated(fn)
    assert declined == ["add"]


def test_elements_where_symbols_count_as_one() -> None:
    (n,) = jax.export.symbolic_shape("n")
    assert (size_of((2, 3)), size_of((2, n, 3)), size_of(())) == (6, 6, 1)
