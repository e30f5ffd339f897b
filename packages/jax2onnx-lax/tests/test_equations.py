"""Lists of equations: what depends on variables, what results need, and their values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core.jax_types import Var
from jax2onnx_core.jaxprs import open_jaxpr
from jax2onnx_lax._equations import dependents, evaluate, jaxpr_of, needed, read_by, variables


def _function(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array, float]:
    a = jnp.sin(x)
    b = y * 2.0
    c = a + b
    return jnp.cos(b), jnp.exp(c), 3.0


JAXPR, _ = open_jaxpr(jax.make_jaxpr(_function)(1.0, 2.0))
EQUATIONS = JAXPR.eqns
(X, Y), (COS, EXP, NUMBER) = JAXPR.invars, JAXPR.outvars
A, B, C = (next(e for e in EQUATIONS if e.primitive.name == name).outvars[0] for name in ("sin", "mul", "add"))


def _primitives(results: list[Var], given: tuple[Var, ...] = ()) -> list[str]:
    return [eqn.primitive.name for eqn in needed(EQUATIONS, results, given)]


def test_what_is_computed_from_variables():
    assert dependents(EQUATIONS, [X]) == {X, A, C, EXP}
    assert dependents(EQUATIONS, [Y]) == {Y, B, C, COS, EXP}
    assert dependents(EQUATIONS, [C]) == {C, EXP}
    assert dependents(EQUATIONS, []) == set()


def test_the_equations_that_results_need():
    assert _primitives([COS]) == ["mul", "cos"]
    assert _primitives([EXP]) == ["sin", "mul", "add", "exp"]
    assert _primitives([COS, NUMBER]) == ["mul", "cos"]
    assert _primitives([EXP], (C,)) == ["exp"]
    assert _primitives([EXP], (A,)) == ["mul", "add", "exp"]
    assert _primitives([EXP], (EXP,)) == []
    assert _primitives([X]) == []


def test_the_variables_that_are_read():
    assert read_by(EQUATIONS, JAXPR.outvars) == [
        *dict.fromkeys(v for e in EQUATIONS for v in variables(e.invars)),
        COS,
        EXP,
    ]
    assert read_by([], [X, X, NUMBER]) == [X]


def test_values_of_equations():
    values = evaluate(EQUATIONS, {X: jnp.float32(1), Y: jnp.float32(2)})
    np.testing.assert_allclose([values[v] for v in (B, COS, EXP)], [4, np.cos(4), np.exp(np.sin(1) + 4)], rtol=1e-5)


def test_a_jaxpr_of_some_of_the_equations():
    made = jaxpr_of(needed(EQUATIONS, [EXP], [A]), [A], [EXP, NUMBER], {Y: jnp.float32(2)})
    found = jax.core.eval_jaxpr(made.jaxpr, made.consts, jnp.float32(0.5))
    np.testing.assert_allclose(found, [np.exp(4.5), 3], rtol=1e-5)
