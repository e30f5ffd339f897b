"""The body of a scan in three parts: what runs before it, what stays, what runs behind it; together they are the scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core.jax_types import Jaxpr
from jax2onnx_core.jaxprs import eval_jaxpr, open_jaxpr
from jax2onnx_lax.control_flow._hoisting import Hoisted, hoist

STEPS = 3
RNG = np.random.default_rng(0)
W, V = RNG.normal(size=(4, 4)).astype(np.float32), RNG.normal(size=(4, 1)).astype(np.float32)
WIDE = RNG.normal(size=(4, 4096)).astype(np.float32)
TABLE = RNG.normal(size=(5, 64)).astype(np.float32)

Body = Callable[[jax.Array, jax.Array], tuple[jax.Array, object]]
Parts = tuple[list[str], list[str], list[str]]


def rows(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.integers(0, 5, (STEPS, *shape)).astype(dtype)


#: What computes; the rest moves elements, or finds places of rows.
WORK = {"add", "cos", "dot_general", "gather", "mul", "reduce_sum", "sin", "tanh"}


def names(jaxpr: Jaxpr) -> list[str]:
    """The operations of a jaxpr that compute, each once."""
    return list(dict.fromkeys(eqn.primitive.name for eqn in open_jaxpr(jaxpr)[0].eqns if eqn.primitive.name in WORK))


def parted(body: Body, carry: np.ndarray, xs: np.ndarray) -> tuple[Parts | None, Hoisted | None]:
    """The operations before, in and behind a scan; the whole is compared with JAX."""

    def flat(carry: jax.Array, x: jax.Array) -> Sequence[jax.Array]:
        new, out = body(carry, x)
        return [new, *jax.tree.leaves(out)]

    jaxpr = jax.make_jaxpr(flat)(carry, xs[0])
    avals = [jax.typeof(jnp.asarray(one)) for one in (carry, xs)]
    found = hoist(jaxpr, 0, 1, avals)
    if found is None:
        return None, None
    inputs = jnp.asarray(xs)
    made = eval_jaxpr(found.before, inputs)
    invariant, stacked = made[: found.num_invariant], made[found.num_invariant :]
    last = wanted_last = jnp.asarray(carry)
    crossing, wanted = list[Sequence[jax.Array]](), list[Sequence[jax.Array]]()
    for step in range(STEPS):
        kept = [inputs[step]] if found.kept else []
        last, *others = eval_jaxpr(found.body, *invariant, last, *kept, *(one[step] for one in stacked))
        crossing.append(others)
        wanted_last, *out = flat(wanted_last, inputs[step])
        wanted.append(out)
    results = eval_jaxpr(found.after, *invariant, *stacked, inputs, *map(jnp.stack, zip(*crossing, strict=True)))
    for one, other in zip([last, *results], [wanted_last, *map(jnp.stack, zip(*wanted, strict=True))], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    return (names(found.before), names(found.body), names(found.after)), found


def _of_one_sine(c: jax.Array, x: jax.Array) -> tuple[jax.Array, object]:
    y = jnp.sin(c)
    return y + x, y


C, X = np.ones(4, np.float32), rows(4)
#: name → body, its first carry, the rows of its inputs, and the operations before, in and behind it; None where all stays.
BODIES: dict[str, tuple[Body, np.ndarray, np.ndarray, Parts | None]] = {
    "a product": (lambda c, x: (c * 0.5 + x @ W, None), C, X, (["dot_general"], ["mul", "add"], [])),
    "a product of the carry": (lambda c, x: (c @ W + x, None), C, X, None),
    "a product of both": (lambda c, x: ((c * x) @ W, None), C, X, None),
    "an elementwise operation": (lambda c, x: (c + jnp.sin(x), None), C, X, (["sin"], ["add"], [])),
    "one of the carry": (lambda c, x: (jnp.sin(c) * x, None), C, X, None),
    "one of both": (lambda c, x: (jnp.sin(c * x), None), C, X, None),
    "rows of 2048 elements": (lambda c, x: (c + jnp.sin(x), None), np.ones(2048, np.float32), rows(2048), (["sin"], ["add"], [])),
    "larger rows": (lambda c, x: (c + jnp.sin(x), None), np.ones(2049, np.float32), rows(2049), None),
    "four times as many": (lambda c, x: (c + jnp.sin(jnp.tile(x, 4)), None), np.ones(16, np.float32), X, (["sin"], ["add"], [])),
    "five times as many": (lambda c, x: (c + jnp.sin(jnp.tile(x, 5)), None), np.ones(20, np.float32), X, None),
    "a repetition": (lambda c, x: (c + x, None), C, rows(1), None),
    "rows of a table": (
        lambda c, x: (c + lax.dynamic_slice(jnp.asarray(TABLE), (x, x * 0), (1, 64))[0], None), np.ones(64, np.float32), rows(dtype="uint32"),
        (["mul", "gather"], ["add"], []),
    ),
    "what follows a product": (lambda c, x: (c + jnp.tanh(x @ WIDE), None), np.ones(4096, np.float32), X, (["dot_general", "tanh"], ["add"], [])),
    "what follows a product into more": (lambda c, x: (c * jnp.tanh(x @ WIDE), None), np.ones(4096, np.float32), X, (["dot_general"], ["tanh", "mul"], [])),
    "constants alone": (lambda c, x: (c + x @ jnp.sin(jnp.asarray(W)), None), C, X, (["sin", "dot_general"], ["add"], [])),
    "a product behind it": (lambda c, x: (c + x, c @ W), C, X, ([], ["add"], ["dot_general"])),
    "an operation behind it": (lambda c, x: (c + x, jnp.sin(c)), C, X, ([], ["add"], ["sin"])),
    "an operation behind it that the carry needs": (_of_one_sine, C, X, None),
    "a sum behind it": (lambda c, x: (c + x, c.sum()), C, X, None),
    "a product to less behind it": (lambda c, x: (c + x, c @ V), C, X, ([], ["add"], ["dot_general"])),
    "a product to much less behind it": (lambda c, x: (c + x, c @ np.ones((8, 1), np.float32)), np.ones(8, np.float32), rows(8), None),
    "an input handed on": (lambda c, x: (c * 0.5, x), C, X, ([], ["mul"], [])),
    "an input handed on changed": (lambda c, x: (c + x, x * 2), C, X, (["mul"], ["add"], [])),
    "a loop": (lambda c, x: (c + lax.fori_loop(0, 2, lambda _, y: y * 2, x), None), C, X, None),
    "a product of a loop": (lambda c, x: (c + lax.fori_loop(0, 2, lambda _, y: y * 2, x) @ W, None), C, X, None),
    "a product of a loop of constants": (
        lambda c, x: (c + x @ lax.fori_loop(0, 2, lambda _, y: jnp.sin(y), jnp.asarray(W)), None), C, X, (["dot_general"], ["add"], []),
    ),
    "a product of a branch": (
        lambda c, x: (c + lax.cond(x[0] > 2, jnp.sin, jnp.cos, x) @ W, None), C, X, ([], ["dot_general", "add"], []),
    ),
    "complex numbers made": (lambda c, x: (c + lax.complex(x, x), None), np.ones(4, np.complex64), X, None),
    "the real part behind it": (lambda c, x: (c * x, c.real), np.ones(4, np.complex64), X, None),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_where_equations_run(name: str) -> None:
    body, carry, xs, expected = BODIES[name]
    found, _ = parted(body, carry, xs)
    assert found == expected


@pytest.mark.parametrize(
    ("body", "kept"),
    [(lambda c, x: (c + x, c @ W), [0]), (lambda c, x: (c + jnp.sin(x), None), []), (lambda c, x: (c * 0.5, x), [0])],
)
def test_inputs_that_are_still_read_or_tell_the_length_are_kept(body: Body, kept: list[int]) -> None:
    _, found = parted(body, C, X)
    assert found is not None
    assert found.kept == kept


def test_what_prints_stays() -> None:
    def body(c: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        jax.debug.print("{}", jnp.sin(x))
        return c + x, None

    jaxpr = jax.make_jaxpr(lambda c, x: body(c, x)[0])(C, X[0])
    found = hoist(jaxpr, 0, 1, [jax.typeof(jnp.asarray(one)) for one in (C, X)])
    assert found is not None
    assert not found.before.effects
    assert found.body.effects
