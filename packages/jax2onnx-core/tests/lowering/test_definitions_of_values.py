"""`ctx.definition`: which equation gives a value, through whatever is inlined, and never in a circle."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax2onnx_core import Context, Rules, Value, hookimpl, to_onnx
from jax2onnx_core.lowering.definitions import Definition


def seen_by_tanh(fn: Callable[[jax.Array], jax.Array]) -> list[str]:
    """The primitives from the operand of `tanh` back to the input of an exported function."""
    rules, names = Rules(overrides=True), list[str]()

    @rules.lower("tanh")
    def tanh(ctx: Context, x: Value, **_: object) -> Value:
        value = x
        while (definition := ctx.definition(value)) is not None:
            names.append(definition.primitive)
            assert definition.aval.shape == ctx.dims(value)
            value = definition.operands[0]
        return ctx.op.Tanh(x)

    class Plugin:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.add(rules)

    to_onnx(fn, [("n", 3)], plugins=[Plugin()]).verify()
    return names


def test_a_value_is_defined_by_its_equation():
    assert seen_by_tanh(lambda x: jnp.tanh(jnp.sin(x.T))) == ["sin", "transpose"]


def test_a_call_is_looked_into():
    assert seen_by_tanh(lambda x: jnp.tanh(jax.jit(lambda a: jnp.sin(a.T))(x))) == ["sin", "transpose"]


def test_what_a_rule_gives_back_is_defined_as_before():
    assert seen_by_tanh(lambda x: jnp.tanh(jnp.sin(x)[::-1][::-1])) == ["sin"]
    assert seen_by_tanh(lambda x: jnp.tanh(x[::-1][::-1])) == []


def test_inside_of_a_body_values_from_outside_are_defined():
    def branches(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)
        return jax.lax.cond(x[0, 0] > 0, lambda: jnp.tanh(y), lambda: x)

    assert seen_by_tanh(branches) == ["sin"]


def test_a_rule_says_what_its_own_values_are():
    rules, found = Rules(overrides=True), list[Definition | None]()

    @rules.lower("tanh")
    def tanh(ctx: Context, x: Value, **_: object) -> Value:
        flat = ctx.define(ctx.reshape(x, (6,)), "reshape", x, new_sizes=(6,))
        found.extend([ctx.definition(flat), ctx.definition(ctx.define(flat, "neg", x))])
        return ctx.op.Tanh(x)

    class Plugin:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.add(rules)

    to_onnx(jnp.tanh, [(2, 3)], plugins=[Plugin()])
    first, second = found
    assert first is not None
    assert (first.primitive, first.avals_in[0].shape, first.aval.shape) == ("reshape", (2, 3), (6,))
    assert second is first
