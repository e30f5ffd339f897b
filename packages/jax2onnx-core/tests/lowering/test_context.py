"""`ctx` is a builder that knows the operation which is lowered; every member of it has a docstring."""

import inspect

import jax
import pytest
from jax2onnx_core import Context, Rules, hookimpl, to_onnx
from jax2onnx_graph.build.builder import GraphBuilder


def members(cls):
    return {name for base in cls.__mro__ for name, value in vars(base).items() if inspect.isfunction(value)}


@pytest.mark.parametrize("name", sorted(name for name in members(Context) if not name.startswith("_")))
def test_every_member_says_what_it_does(name):
    assert inspect.getdoc(inspect.getattr_static(Context, name))


def test_fresh_names_are_each_of_their_own():
    rules = Rules(overrides=True)
    names: list[str] = []

    @rules.lower("tanh")
    def tanh(ctx, x, **_):
        names.extend(ctx.fresh_name("sum") for _ in range(2))
        return ctx.op.Tanh(x)

    class Plugin:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.add(rules)

    to_onnx(jax.lax.tanh, [("B",)], plugins=[Plugin()])
    assert names == ["sum", "sum_1"]


def test_a_rule_can_hand_its_context_to_a_helper_of_builders():
    rules = Rules(overrides=True)

    def halved(builder, x):
        return builder.op.Mul(x, builder.constant(0.5, like=x))

    @rules.lower("tanh")
    def tanh(ctx, x, **_):
        assert isinstance(ctx, GraphBuilder)
        return ctx.op.Tanh(halved(ctx, ctx.op.Add(x, x)))

    class Plugin:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.add(rules)

    to_onnx(jax.lax.tanh, [("B",)], plugins=[Plugin()]).verify()
