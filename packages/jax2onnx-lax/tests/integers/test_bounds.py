"""What bounds must claim of integers, and what they must not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core.jaxprs import open_jaxpr
from jax2onnx_core.symbols.symbols import evaluate_dim
from jax2onnx_lax.integers._domain import Affine, Integers, affine, fitted, limits
from jax2onnx_lax.integers._jaxprs import IntegersOfJaxpr

INT32 = limits(np.int32)


def known_of(fn: Callable[..., jax.Array], *, counts: bool = False) -> Integers:
    """What is known of the result of a function of unknown int32 numbers [n]; its first argument may be a counter from 0 to n - 1."""
    (n,) = jax.export.symbolic_shape("n")
    numbers, counter = jax.ShapeDtypeStruct((n,), np.int32), jax.ShapeDtypeStruct((), np.int32)
    jaxpr = jax.make_jaxpr(lambda *xs: fn(*xs))(*([counter, numbers] if counts else [numbers]))
    inner, _ = open_jaxpr(jaxpr)
    found = IntegersOfJaxpr(jaxpr, {inner.invars[0]: affine(Affine(0, (), 1, n), ())} if counts else {})
    known = found.integers(inner.outvars[0])
    assert known is not None
    return known


def at(known: Integers, n: int) -> tuple[int, int]:
    """The bounds where the size is n."""
    return evaluate_dim(known.low, {"n": n}), evaluate_dim(known.high, {"n": n})


def _iota(x: jax.Array, dtype: type = np.int32) -> jax.Array:
    return jnp.arange(x.shape[0], dtype=dtype)


def _small(x: jax.Array) -> jax.Array:
    """Numbers from -3 to 5."""
    return jnp.clip(x, -3, 5)


def _at_most_three(x: jax.Array) -> jax.Array:
    return jnp.where(x > 3, 3, x)


def _from_zero(index: jax.Array) -> jax.Array:
    """Negative indices into an axis of ten counted from its beginning."""
    return jnp.where(index < 0, index + 10, index)


def _unsigned_shift(x: jax.Array, greatest: int) -> jax.Array:
    """Bytes up to `greatest` shifted by one bit."""
    u = jnp.minimum(x.astype(np.uint8), np.uint8(greatest))
    return lax.shift_right_arithmetic(u, jnp.full_like(u, 1)).astype(np.int32)


#: The function, and the bounds that are known of its results at size 10.
BOUNDS: dict[str, tuple[Callable[[jax.Array], jax.Array], tuple[int, int]]] = {
    "a remainder has the sign of the dividend": (lambda x: lax.rem(_small(x) * 5, jnp.full_like(x, 7)), (-6, 6)),
    "a remainder is no farther from 0 than the dividend": (lambda x: lax.rem(_small(x), jnp.full_like(x, 7)), (-3, 5)),
    "a remainder by what may be 0 is the dividend": (lambda x: lax.rem(_iota(x) + 20, x), (0, 29)),
    "Python's remainder has the sign of the divisor": (lambda x: x % 7, (0, 6)),
    "a remainder by a size": (lambda x: x % x.shape[0], (0, 9)),
    "a remainder by a negative number": (lambda x: _iota(x) % -4, (-3, 5)),
    "a truncated quotient": (lambda x: lax.div(_small(x), jnp.full_like(x, 2)), (-1, 2)),
    "a floored quotient": (lambda x: _small(x) // 2, (-2, 2)),
    "a floored quotient of what is not negative": (lambda x: _iota(x) // 4, (0, 2)),
    "a quotient by what may be 0": (lambda x: lax.div(_iota(x), _small(x)), INT32),
    "a quotient by what may be -1": (lambda x: lax.div(x, jnp.full_like(x, -1)), INT32),
    "a sum that leaves the dtype": (lambda x: x + 1, INT32),
    "the square of a counter": (lambda x: _iota(x) * _iota(x), INT32),
    "a negation of the least number": (lambda x: -x, INT32),
    "the magnitude of the least number": (jnp.abs, INT32),
    "a byte that counts a symbolic axis": (lambda x: _iota(x, np.int8).astype(np.int32), (-128, 127)),
    "unsigned numbers below 0": (lambda x: (_iota(x).astype(np.uint32) - 1).astype(np.int32), INT32),
    "what a narrower dtype has no room for": (lambda x: (_iota(x) + 200).astype(np.int8).astype(np.int32), (-128, 127)),
    "what a narrower dtype has room for": (lambda x: (x & 63).astype(np.int8).astype(np.int32), (0, 63)),
    "a mask of a negative number": (lambda x: x & _small(x), INT32),
    "an alternative of bits": (lambda x: (x & 4) | (x & 9), (0, 15)),
    "bits that differ": (lambda x: x ^ 1, INT32),
    "a shift by more than the width": (lambda x: lax.shift_right_logical(x & 63, x), (0, 63)),
    "a shift that leaves the dtype": (lambda x: x << 3, INT32),
    "a shift of a negative number": (lambda x: lax.shift_right_logical(x, jnp.full_like(x, 3)), INT32),
    "an arithmetic shift of unsigned numbers": (lambda x: _unsigned_shift(x, 127), (0, 63)),
    "an arithmetic shift of an unsigned number whose highest bit may be set": (lambda x: _unsigned_shift(x, 128), (0, 255)),
    "an arithmetic shift of a number that is not negative": (lambda x: (x & 63) >> 1, (0, 31)),
    "limits that are swapped": (lambda x: lax.clamp(jnp.full_like(x, 9), x, jnp.full_like(x, 2)), (2, 2)),
    "limits that may be swapped": (lambda x: lax.clamp(_iota(x), x, jnp.full_like(x, 4)), (0, 4)),
    "a branch that is not known": (lambda x: jnp.where(x > 0, 7, -2), (-2, 7)),
    "a branch that is chosen by the number itself": (lambda x: jnp.where(_small(x) > 3, 3, jnp.where(x < 1, 1, x)), (1, INT32[1])),
    "a branch that bounds the number itself": (lambda x: _at_most_three(_small(x)), (-3, 3)),
    "a branch that is chosen by another number": (lambda x: jnp.where(x > 3, 3, -x), INT32),
    "a negative index": (lambda x: _from_zero(jnp.clip(x, -10, 9)), (0, 9)),
    "a gather that fills": (lambda x: _iota(x).at[x].get(mode="fill"), (INT32[0], 9)),
    "a gather that fills with a number": (lambda x: _iota(x).at[x].get(mode="fill", fill_value=-5), (-5, 9)),
    "a gather that clips": (lambda x: _iota(x).at[x].get(mode="clip"), (0, 9)),
    "a scatter": (lambda x: _iota(x).at[x].set(20, mode="drop"), (0, 20)),
    "a scatter that adds": (lambda x: _iota(x).at[x].add(1), INT32),
    "a maximum": (lambda x: jnp.max(_iota(x)), (0, 9)),
    "a maximum of nothing": (lambda x: lax.reduce_max(_iota(x)[1:], (0,)), INT32),
    "a minimum of nothing": (lambda x: lax.reduce_min(_iota(x)[1:], (0,)), INT32),
    "the place of a maximum": (jnp.argmax, (0, 9)),
    "a sum of an axis": (lambda x: jnp.sum(x & 1), (0, 10)),
    "running sums": (lambda x: jnp.cumsum(_small(x)), (-30, 50)),
    "a conversion of floats": (lambda x: (_small(x) * 0.5).astype(np.int32), INT32),
    "a conversion to floats and back": (lambda x: _iota(x).astype(np.float32).astype(np.int32), INT32),
    "a conversion to booleans": (lambda x: _small(x).astype(bool).astype(np.int32), (0, 1)),
    "padding": (lambda x: jnp.pad(_iota(x), 1, constant_values=-4), (-4, 9)),
    "a concatenation": (lambda x: jnp.concatenate([_iota(x), jnp.full_like(x, 30)]), (0, 30)),
    "an even power": (lambda x: _small(x) ** 2, (0, 25)),
    "a power of a negative number": (lambda x: _small(x) ** 4, INT32),
    "a power that leaves the dtype": (lambda x: (x & 63) ** 6, INT32),
    "a power of a size": (lambda x: _iota(x) ** 3, INT32),
    "a product of what is not negative": (lambda x: _iota(x) * (_iota(x) + 1), INT32),
    "a quotient by a size": (lambda x: lax.div(_iota(x) * 3, jnp.full_like(x, x.shape[0])), (0, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_the_bounds_are(name: str) -> None:
    fn, expected = BOUNDS[name]
    assert at(known_of(fn), 10) == expected


RANGES = [(-3, 5), (0, 7), (2, 6), (-4, 0), (1, 1)]
#: The function, and the same of Python's numbers.
UNARY: dict[str, tuple[Callable[[jax.Array], jax.Array], Callable[[int], int]]] = {
    "abs": (lax.abs, abs),
    "neg": (lax.neg, lambda x: -x),
    "sign": (lax.sign, lambda x: (x > 0) - (x < 0)),
    "square": (lax.square, lambda x: x * x),
    "not": (lax.bitwise_not, lambda x: ~x),
    "cube of the magnitude": (lambda x: abs(x) ** 3, lambda x: abs(x) ** 3),
}
BINARY: dict[str, tuple[Callable[[jax.Array, jax.Array], jax.Array], Callable[[int, int], int]]] = {
    "add": (lax.add, lambda x, y: x + y),
    "sub": (lax.sub, lambda x, y: x - y),
    "mul": (lax.mul, lambda x, y: x * y),
    "max": (lax.max, max),
    "min": (lax.min, min),
    "div": (lax.div, lambda x, y: int(x / y)),
    "rem": (lax.rem, lambda x, y: int(math.fmod(x, y))),
}


def _hull(values: Iterable[int]) -> tuple[int, int]:
    found = list(values)
    return min(found), max(found)


@pytest.mark.parametrize("x", RANGES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_bounds_of_a_function_of_a_range_are_the_tightest(name: str, x: tuple[int, int]) -> None:
    fn, number = UNARY[name]
    assert at(known_of(lambda a: fn(jnp.clip(a, *x))), 10) == _hull(number(v) for v in range(x[0], x[1] + 1))


@pytest.mark.parametrize("x", RANGES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_bounds_of_a_function_of_two_ranges_are_the_tightest(name: str, x: tuple[int, int]) -> None:
    fn, number = BINARY[name]
    for y in [(2, 6), (1, 1)] if name in ("div", "rem") else [(-3, 5), (2, 6), (-4, 0)]:
        known = known_of(lambda a, y=y: fn(jnp.clip(a, *x), jnp.clip(a[::-1], *y)))
        values = itertools.product(range(x[0], x[1] + 1), range(y[0], y[1] + 1))
        assert at(known, 10) == _hull(number(*both) for both in values)


#: The function of a counter c of n iterations, and what it is in iteration c.
COUNTERS: dict[str, tuple[Callable[..., jax.Array], Callable[[int, int], int]]] = {
    "from the end": (lambda c, x: x.shape[0] - 1 - c, lambda c, n: n - 1 - c),
    "negative": (lambda c, x: -c, lambda c, n: -c),
    "twice": (lambda c, x: c + c, lambda c, n: 2 * c),
    "twice less once": (lambda c, x: 2 * c - c, lambda c, n: c),
    "less itself": (lambda c, x: c - c, lambda c, n: 0),
    "remainder": (lambda c, x: c % x.shape[0], lambda c, n: c),
    "quotient": (lambda c, x: c // x.shape[0], lambda c, n: 0),
    "with the length where negative": (lambda c, x: _from_end(c, x.shape[0]), lambda c, n: c),
    "clipped": (lambda c, x: jnp.clip(c, 0, x.shape[0] - 1), lambda c, n: c),
    "in a call": (lambda c, x: jax.jit(lambda a: a + 3)(c), lambda c, n: c + 3),
}


def _from_end(c: jax.Array, n: int) -> jax.Array:
    """The place that is as far from the end as place c from the beginning, written as a negative one."""
    return jnp.where(c - n < 0, c - n + n, c - n)


@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_is_followed(name: str) -> None:
    fn, expected = COUNTERS[name]
    known = known_of(fn, counts=True)
    assert known.affine is not None
    offset = evaluate_dim(known.affine.offset, {"n": 10})
    values = [offset + known.affine.factor * c for c in range(10)]
    assert values == [expected(c, 10) for c in range(10)]
    assert at(known, 10) == (min(values), max(values))


#: A function of a counter that does not step with it alike in all iterations, and the bounds that are known at size 10.
OTHERS: dict[str, tuple[Callable[..., jax.Array], tuple[int, int]]] = {
    "its square": (lambda c, x: c * c, INT32),
    "a remainder by less than the length": (lambda c, x: c % 3, (0, 2)),
    "a remainder of more than the length": (lambda c, x: (c + 3) % x.shape[0], (0, 9)),
    "a half": (lambda c, x: c // 2, (0, 4)),
    "the lesser of two": (lambda c, x: jnp.minimum(c, 4), (0, 4)),
    "a branch": (lambda c, x: jnp.where(c > 4, c, 4 - c), (-5, 9)),
    "an element": (lambda c, x: x[c], INT32),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not_step_with_a_counter_is_not_said_to(name: str) -> None:
    fn, expected = OTHERS[name]
    known = known_of(fn, counts=True)
    assert known.affine is None
    assert at(known, 10) == expected


def test_random_keys_are_no_integers() -> None:
    def draw(x: jax.Array) -> jax.Array:
        keys = jax.random.split(jax.random.key(3), 2)
        return jax.random.randint(jax.random.fold_in(keys[0], 1), (3,), 0, 9)

    assert at(known_of(draw), 10)[0] <= 0


def test_an_element_that_arithmetic_repeats_has_no_step() -> None:
    def first(x: jax.Array) -> jax.Array:
        return lax.slice_in_dim(_iota(x), 0, 1)

    assert known_of(lambda x: lax.add(first(x), jnp.full_like(x, 3))).number == 3
    assert not known_of(lambda x: lax.min(first(x), jnp.full_like(x, 9))).is_distinct
    assert at(known_of(lambda x: lax.eq(first(x), _iota(x)).astype(np.int32)), 10) == (0, 1)


def test_a_scalar_that_arithmetic_repeats_is_not_distinct() -> None:
    def distinct(x: jax.Array) -> jax.Array:
        return jnp.asarray([3, 1, 7], np.int32) + x.shape[0]  # not affine

    def scalar(x: jax.Array) -> jax.Array:
        return lax.squeeze(lax.slice_in_dim(distinct(x), 1, 2), (0,))

    three = jnp.full(3, 3, np.int32)
    assert known_of(scalar).is_distinct
    assert not known_of(lambda x: scalar(x) + three).is_distinct
    assert not known_of(lambda x: three - scalar(x)).is_distinct
    assert known_of(lambda x: scalar(x) + 3).is_distinct
    assert known_of(lambda x: distinct(x) + 3).is_distinct
    assert known_of(lambda x: 3 - distinct(x)).is_distinct
    assert known_of(lambda x: -distinct(x)).is_distinct
    assert not known_of(lambda x: distinct(x) + np.array([0, 2, 5], np.int32)).is_distinct


@pytest.mark.parametrize(
    ("size", "is_kept"),
    [
        (" + ".join(f"{chr(97 + i)}" for i in range(16)), True),
        (" + ".join(f"{chr(97 + i)}" for i in range(17)), False),
        ("floordiv(floordiv(floordiv(n, 2) + 1, 2) + 1, 2)", True),
        ("floordiv(floordiv(floordiv(floordiv(n, 2) + 1, 2) + 1, 2) + 1, 2)", False),
        ("floordiv(n, 2)*mod(n, 16384)", True),
        ("floordiv(n, 2)*mod(n, 32768)", False),
    ],
)
def test_expressions_that_are_long_or_leave_the_dtype_are_not_kept(size, is_kept):
    (dim,) = jax.export.symbolic_shape(size)
    found = fitted(affine(Affine(dim, ()), ()), jax.core.ShapedArray((), np.int32))
    assert (found.low, found.high) == ((dim, dim) if is_kept else INT32)
