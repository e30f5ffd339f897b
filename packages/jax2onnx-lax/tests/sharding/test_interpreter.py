"""Results of rules are checked against the layouts that they are said to have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax2onnx_core import Dim
from jax2onnx_core.jax_types import Equation
from jax2onnx_graph.errors import RuleError
from jax2onnx_lax.sharding.interpreter import Interpreter, ShardedValue, Unreduced
from jax2onnx_lax.sharding.sharded_arrays import Layout, ShardedArray

(BATCH,) = jax.export.symbolic_shape("b")


def _applied(rows: Dim, change: Callable[[ShardedArray], ShardedArray]) -> ShardedValue:
    """The tangent by a rule, whose result is changed, on rows that are divided among eight devices, four of which are in a group."""
    jaxpr = jax.make_jaxpr(lambda x: lax.tan(x))(jax.ShapeDtypeStruct((rows, 3), jnp.float32))
    array = jax.ShapeDtypeStruct((4, 2 * rows, 3), jnp.float32)
    x = ShardedArray(array, (rows, 3), Layout(("x",), (("y",), ())))

    def rule(run: Interpreter, eqn: Equation, operand: ShardedArray) -> list[ShardedValue]:
        return [change(operand)]

    return Interpreter({"x": 4, "y": 2, "z": 1}, {"tan": rule}).apply(jaxpr.eqns[0], [x])[0]


def _of_shape(*shape: Dim) -> Callable[[ShardedArray], ShardedArray]:
    return lambda x: dataclasses.replace(x, array=jax.ShapeDtypeStruct(shape, jnp.float32))


def _of_layout(stacked: tuple[str, ...], *tiled: tuple[str, ...]) -> Callable[[ShardedArray], ShardedArray]:
    return lambda x: dataclasses.replace(x, layout=Layout(stacked, tiled))


@pytest.mark.parametrize("rows", [2, BATCH])
@pytest.mark.parametrize("change", [lambda x: x, _of_shape(4, 4, 1)])
def test_a_result_that_fits_is_kept(rows: Dim, change: Callable[[ShardedArray], ShardedArray]) -> None:
    assert _applied(rows, change).axes == {"x", "y"}


@pytest.mark.parametrize("rows", [2, BATCH])
@pytest.mark.parametrize("change", [
    _of_shape(4, 5 * BATCH, 3), _of_shape(4, 3), _of_shape(4, 5, 3, 1), _of_shape(1, 4, 3), _of_shape(4, 1, 3), _of_shape(4, 4, 2),
    _of_layout(("x",), ("y",)), _of_layout(("x",), (), ()), _of_layout(("y",), ("x",), ()), _of_layout((), ("x",), ("y",), ()),
    lambda x: dataclasses.replace(x, shape=x.shape[1:]),
])  # fmt: skip
def test_a_result_that_does_not_fit_is_an_error_with_the_line(
    rows: Dim, change: Callable[[ShardedArray], ShardedArray]
) -> None:
    with pytest.raises(
        RuleError, match=r"'tan' failed: On all devices .* at .*test_interpreter\.py:\d+ \(.*<lambda>\)"
    ):
        _applied(rows, change)


def test_a_total_that_does_not_fit_is_an_error() -> None:
    jaxpr = jax.make_jaxpr(lambda x: lax.tan(x))(jnp.ones((2, 3)))
    total = ShardedArray(jnp.ones((4, 3)), (2, 3), Layout((), ((), ())))

    def rule(run: Interpreter, eqn: Equation, operand: ShardedArray) -> list[ShardedValue]:
        return [Unreduced("sum", frozenset({"x"}), total, lambda: total)]

    operand = ShardedArray(jnp.ones((4, 2, 3)), (2, 3), Layout(("x",), ((), ())))
    with pytest.raises(RuleError, match="please report it"):
        Interpreter({"x": 4}, {"tan": rule}).apply(jaxpr.eqns[0], [operand])
