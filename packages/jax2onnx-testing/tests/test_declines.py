"""Rules that decline after they have emitted nodes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import pytest
from jax2onnx_core import Case, Context, Registry, Rules, Value, hookimpl, to_onnx
from jax2onnx_testing._declines import DecliningRules, check_declining
from jax2onnx_testing.collection import CollectedCase
from jax2onnx_testing.errors import CheckFailedError
from jax2onnx_testing.variants import Variant


class _Tanh:
    """A plugin whose rule for tanh emits these operators in turn, and whose decomposition is a multiple of it."""

    def __init__(self, operators: Sequence[str], factor: float) -> None:
        self._operators, self._factor = itertools.cycle(operators), factor

    @hookimpl
    def jax2onnx_register(self, registry: Registry) -> None:
        rules = Rules(overrides=True)
        rules.decompose("tanh", self._decomposition)
        rules.lower("tanh")(self._rule)
        registry.add(rules)

    def _rule(self, ctx: Context, x: Value, **_: object) -> Value:
        return (ctx.op.Sin if next(self._operators) == "Sin" else ctx.op.Tanh)(x)

    def _decomposition(self, x: jax.Array, **_: object) -> jax.Array:
        return self._factor * (1 - 2 / (jnp.exp(2 * x) + 1))


@pytest.mark.parametrize(
    ("operators", "factor", "error"),
    [
        (["Tanh"], 1.0, None),
        (["Tanh", "Sin"], 1.0, None),
        (["Tanh", "Sin", "Sin"], 1.0, r"left Counter.*Sin.*took away Counter.*Tanh"),
        (["Tanh"], 1.5, "differ"),
    ],
    ids=["right", "not as it was tried", "not as it was", "wrong without it"],
)
def test_declining_is_checked(operators: Sequence[str], factor: float, error: str | None) -> None:
    case = Case("tanh", jnp.tanh, [(3,)], options={"plugins": [_Tanh(operators, factor)]})
    variant = Variant(CollectedCase("jax2onnx-demo", "demo.layers", case), "f32", symbolic=False)
    with contextlib.nullcontext() if error is None else pytest.raises(CheckFailedError, match=error):
        check_declining(variant)


def test_bodies_in_bodies_are_lowered_in_vain_once_for_each_depth() -> None:
    calls: list[str] = []

    class Noted(_Tanh):
        def _rule(self, ctx: Context, x: Value, **_: object) -> Value:
            calls.append("tanh")
            return ctx.op.Tanh(x)

    def nested(x: jax.Array) -> jax.Array:
        return jax.lax.map(lambda row: jax.lax.map(jnp.tanh, row), x)

    to_onnx(nested, [(2, 3, 4)], plugins=[Noted([], 1.0), DecliningRules()])
    assert len(calls) == 4
