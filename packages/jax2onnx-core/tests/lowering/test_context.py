"""The members of `ctx` stand in one file, each with its docstring."""

import inspect

import jax
import pytest
from jax2onnx_core import Context, Rules, hookimpl, to_onnx
from jax2onnx_graph.build.builder import GraphBuilder

# Members of builders that no rule needs: `ctx.builder` has them.
_OF_BUILDERS = {"empty_arrays", "make_node", "new_constant", "new_tensor"}


def members(cls):
    return {name for name, value in vars(cls).items() if not name.startswith("_") and inspect.isfunction(value)}


def test_a_rule_has_the_members_of_a_builder():
    assert members(GraphBuilder) - _OF_BUILDERS <= members(Context)


@pytest.mark.parametrize("name", sorted(members(Context)))
def test_every_member_says_what_it_does(name):
    assert vars(Context)[name].__doc__


@pytest.mark.parametrize("name", sorted(members(GraphBuilder) & members(Context)))
def test_a_member_takes_what_that_of_the_builder_takes(name):
    ours, theirs = (inspect.signature(vars(cls)[name]).parameters.values() for cls in (Context, GraphBuilder))
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]


def test_a_rule_can_hand_its_builder_on():
    rules, used = Rules(overrides=True), []

    @rules.lower("tanh")
    def tanh(ctx, x, **_):
        used.append(isinstance(ctx.builder, GraphBuilder))
        return ctx.builder.op.Tanh(x)

    class Plugin:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.add(rules)

    to_onnx(jax.lax.tanh, [("B",)], plugins=[Plugin()]).verify()
    assert used == [True]
