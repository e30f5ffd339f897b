"""What is claimed of the integers of random programs, against the numbers that JAX computes at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax
from jax2onnx_core.jaxprs import open_jaxpr
from jax2onnx_core.symbols.symbols import evaluate_dim
from jax2onnx_lax.integers._domain import Integers
from jax2onnx_lax.integers._jaxprs import IntegersOfJaxpr

Program = Callable[[jax.Array], list[jax.Array]]


def _size(x: jax.Array) -> jax.Array:
    """The length of a vector in its dtype, where it wraps around."""
    return lax.convert_element_type(jnp.asarray(x.shape[0], np.int32), x.dtype)


def _places(x: jax.Array) -> jax.Array:
    return x.astype(np.int32)


# The last one is more than a byte holds.
SIZES = (1, 2, 3, 5, 300)

_UNARY: dict[str, Callable[[jax.Array], jax.Array]] = {
    "neg": lax.neg, "abs": jnp.abs, "sign": jnp.sign, "not": lax.bitwise_not, "square": lax.square, "rev": lambda x: lax.rev(x, (0,)),
    "sort": lax.sort, "cumsum": lax.cumsum, "cummax": lax.cummax, "clz": lax.clz, "population": lax.population_count,
    "bool": lambda x: (x != 0).astype(x.dtype), "wide": lambda x: x.astype(np.int32), "byte": lambda x: x.astype(np.int8),
    "unsigned": lambda x: x.astype(np.uint8), "column": lambda x: lax.reshape(lax.reshape(x, (x.shape[0], 1)), x.shape),
    "maximum": lambda x: jnp.full_like(x, jnp.max(x)), "minimum": lambda x: jnp.full_like(x, jnp.min(x)),
    "sum": lambda x: jnp.broadcast_to(jnp.sum(x, dtype=x.dtype), x.shape), "argmax": lambda x: jnp.full_like(x, jnp.argmax(x)),
    "argsort": lambda x: jnp.argsort(x).astype(x.dtype), "float": lambda x: (x.astype(np.float32) * 1.5).astype(x.dtype),
    "last of none": lambda x: jnp.full_like(x, jnp.max(x[1:], initial=-3)),
    "largest of none": lambda x: jnp.full_like(x, lax.reduce_max(x[1:], (0,))),
    "second half": lambda x: jnp.concatenate([x - 1, x])[x.shape[0] :], "shifted": lambda x: jnp.concatenate([x[1:], x[:1]]),
}  # fmt: skip
_BINARY: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "rem": lax.rem, "max": lax.max, "min": lax.min, "and": lax.bitwise_and,
    "or": lax.bitwise_or, "xor": lax.bitwise_xor, "left": lax.shift_left, "right": lax.shift_right_arithmetic,
    "logical": lax.shift_right_logical, "floor": lambda x, y: x // y, "modulo": lambda x, y: x % y,
    "floor of size": lambda x, _: x // _size(x), "modulo of size": lambda x, _: x % _size(x),
    "from the end": lambda x, _: _size(x) - 1 - x, "normal": lambda x, _: jnp.where(x < 0, x + _size(x), x),
    "less": lambda x, y: (x < y).astype(x.dtype), "take": lambda x, y: x.at[_places(y)].get(mode="clip"),
    "fill": lambda x, y: x.at[_places(y)].get(mode="fill"), "fill with": lambda x, y: x.at[_places(y)].get(mode="fill", fill_value=7),
    "put": lambda x, y: x.at[_places(y)].set(y, mode="drop"), "begin": lambda x, y: lax.dynamic_update_slice(x, y[:1], (_places(y)[0],)),
    "clamp": lambda x, y: lax.clamp(y, x, jnp.full_like(y, 2)), "clamp swapped": lambda x, y: lax.clamp(jnp.full_like(y, 2), x, y),
    "at most": lambda x, y: jnp.where(x > y, y, x), "where": lambda x, y: jnp.where((x > 0) & (y != 2), x - y, y),
    "add first": lambda x, y: lax.add(x[:1], y), "less than first": lambda x, y: lax.lt(x, y[:1]).astype(x.dtype),
    "min first": lambda x, y: lax.min(x[:1], y), "rem of first": lambda x, y: lax.rem(x[:1], y), "equal to first": lambda x, y: lax.eq(x, y[:1]).astype(x.dtype),
    "either": lambda x, y: jnp.where((x <= 0) | ~(x >= 5), x + 3, x - 3), "both": lambda x, y: jnp.where((x < 0) & (x != 0), x + 9, x),
}  # fmt: skip


def _leaves(x: jax.Array) -> list[jax.Array]:
    n = x.shape[0]
    byte = jnp.arange(n, dtype=np.int8)
    return [
        x, jnp.arange(n), jnp.arange(n)[::-1], byte, byte.astype(np.uint8), jnp.full(n, n, np.int32), jnp.full(n, 3, np.int32),
        jnp.full(n, -1, np.int32), jnp.full(n, 0, np.int32), jnp.arange(n) * 2 - 5, jnp.full(n, n - 1, np.int32) - jnp.arange(n),
    ]  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A function of a vector of integers, whose results are all that it computes on the way."""
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from([*_UNARY, *_BINARY]), st.integers(0, 99), st.integers(0, 99)),
            min_size=1,
            max_size=9,
        )
    )

    def program(x: jax.Array) -> list[jax.Array]:
        made = _leaves(x)
        for name, one, other in steps:
            a, b = made[one % len(made)], made[other % len(made)]
            made.append(_UNARY[name](a) if name in _UNARY else _BINARY[name](a, b.astype(a.dtype)))
        return made

    program.__name__ = repr(steps)
    return program


def claims(program: Program) -> list[Integers]:
    """What is claimed of the results, for all sizes."""
    (n,) = jax.export.symbolic_shape("n")
    jaxpr = jax.make_jaxpr(program)(jax.ShapeDtypeStruct((n,), np.int32))
    found = IntegersOfJaxpr(jaxpr, {})
    known = [found.integers(atom) for atom in open_jaxpr(jaxpr)[0].outvars]
    return [x for x in known if x is not None]


def check(claim: Integers, numbers: np.ndarray, n: int) -> None:
    """Fail where a claim does not hold of numbers that were computed at size n."""
    if not numbers.size:
        return
    wide = numbers.astype(np.int64)
    with jax.enable_x64(True):
        low, high = (evaluate_dim(dim, {"n": n}) for dim in (claim.low, claim.high))
    assert low <= wide.min(), (low, high, wide)
    assert wide.max() <= high, (low, high, wide)
    if claim.affine is not None:
        expected = np.full(wide.shape, evaluate_dim(claim.affine.offset, {"n": n}))
        for axis, step in enumerate(claim.affine.steps):
            places = np.arange(wide.shape[axis]).reshape([-1 if d == axis else 1 for d in range(wide.ndim)])
            expected = expected + step * places
        np.testing.assert_array_equal(wide, expected)
    if claim.is_distinct:
        assert np.unique(wide).size == wide.size
    for element, value in zip(claim.elements, wide.reshape(-1), strict=bool(claim.elements)):
        check(element, np.asarray(value), n)


def inputs(n: int) -> Sequence[np.ndarray]:
    rng = np.random.default_rng(n)
    limits = np.iinfo(np.int32)
    return [rng.integers(-4, 5, n, np.int32), rng.choice(np.array([limits.min, -1, 0, 1, n, limits.max], np.int32), n)]


@hypothesis.given(programs())
@hypothesis.settings(max_examples=60, deadline=None, phases=[hypothesis.Phase.generate])
def test_all_that_is_claimed_of_a_program_holds(program: Program) -> None:
    found = claims(program)
    for n in SIZES:
        for x in inputs(n):
            for claim, numbers in zip(found, program(jnp.asarray(x)), strict=True):
                check(claim, np.asarray(numbers), n)
