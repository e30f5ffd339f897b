"""Solvers of Diffrax, Optimistix and Lineax, whose results are checked at run time: equal to JAX, without the checks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_testing.checks import check_at_sizes

diffrax: Any = pytest.importorskip("diffrax")
optimistix: Any = pytest.importorskip("optimistix")
lineax: Any = pytest.importorskip("lineax")


def assert_exports(fn: Any, inputs: Any, **options: Any) -> None:
    program = to_onnx(fn, inputs, **options)
    assert "a model cannot raise" in program.report()
    check_at_sizes(program)


@pytest.mark.parametrize(
    ("solver", "controller"),
    [
        (diffrax.Tsit5(), diffrax.PIDController(1e-3, 1e-6)),
        (diffrax.Euler(), diffrax.ConstantStepSize()),
    ],
    ids=["adaptive", "constant"],
)
def test_differential_equations(solver, controller):
    def solve(y0: jax.Array) -> jax.Array:
        term = diffrax.ODETerm(lambda t, y, args: -y * jnp.cos(t))
        return diffrax.diffeqsolve(term, solver, t0=0.0, t1=1.0, dt0=0.1, y0=y0, stepsize_controller=controller).ys

    assert_exports(solve, [(2,)])


@pytest.mark.parametrize(
    "solve",
    [
        lambda a: optimistix.root_find(lambda y, a: y**3 - a, optimistix.Newton(1e-5, 1e-5), a, args=a),
        lambda a: optimistix.minimise(lambda y, a: ((y - a) ** 2).sum(), optimistix.BFGS(1e-5, 1e-5), 0 * a, args=a),
        lambda a: optimistix.least_squares(
            lambda y, a: y - a, optimistix.LevenbergMarquardt(1e-5, 1e-5), 0 * a, args=a
        ),
    ],
    ids=["root", "minimum", "least_squares"],
)
def test_nonlinear_problems(solve):
    assert_exports(lambda a: solve(a).value, [np.array([1.0, 2.0, 3.0], np.float32)])


@pytest.mark.parametrize(
    ("solver", "x64"),
    [(lineax.CG(1e-6, 1e-6), False), (lineax.CG(1e-6, 1e-6), True), (lineax.LU(), False)],
    ids=["CG", "CG_in_double_precision", "LU"],
)
def test_linear_systems(solver, x64):
    matrix = np.array([[4, 1, 0], [1, 3, 1], [0, 1, 5]], np.float64 if x64 else np.float32)

    def solve(b: jax.Array) -> tuple[jax.Array, jax.Array]:
        operator = lineax.MatrixLinearOperator(jnp.asarray(matrix), lineax.positive_semidefinite_tag)
        solution = lineax.linear_solve(operator, b, solver)
        return solution.value, solution.stats.get("num_steps", jnp.array(0))

    assert_exports(solve, [(3,)], x64=x64)
