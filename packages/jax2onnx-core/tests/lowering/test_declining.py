"""A rule that declines is as if it had never been tried."""

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import Call, Composites, Rules, hookimpl, to_onnx
from jax2onnx_core.frontend._composite import bind_composite

opaque = jax.extend.core.Primitive("library_opaque_to_all")
opaque.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))


def _split_and_join(ctx, z):
    return ctx.inline(jax.make_jaxpr(lambda z: jnp.exp(z) * z)(ctx.avals_in[0]), z)


def _subgraph(ctx, z):
    branches = [ctx.subgraph(name) for name in ("then", "else")]
    then, otherwise = (branch.graph([branch.op.Neg(z)]) for branch in branches)
    ctx.op.If(ctx.constant(True), then_branch=then, else_branch=otherwise)


def _unfinished_subgraph(ctx, z):
    ctx.subgraph("then").op.Neg(z)


def _function(ctx, z):
    ctx.function(jax.make_jaxpr(opaque.bind)(ctx.avals_in[0]), z, name="never")


def _unsupported(ctx, z):
    ctx.inline(jax.make_jaxpr(opaque.bind)(ctx.avals_in[0]), z)


def _dimensions(ctx, z):
    ctx.shape([ctx.avals_in[0].shape[0] * 3 + 1])


class _Plugin:
    def __init__(self, attempt):
        self.attempt = attempt

    @hookimpl
    def jax2onnx_register(self, registry):
        rules = Rules()

        @rules.lower("tests.exp", physical=True)
        def lower(ctx, z):
            if self.attempt is not None:
                self.attempt(ctx, z)
            ctx.decline("tried")

        registry.add(Composites(), rules)


def _fn(x):
    z = jax.lax.complex(x, x)
    first, second = (bind_composite("tests.exp", Call(z), lambda: jnp.exp(z)) for _ in range(2))
    return jnp.real(first * second), x + 1


@pytest.mark.parametrize(
    "attempt", [_split_and_join, _subgraph, _unfinished_subgraph, _function, _unsupported, _dimensions]
)
def test_nothing_is_left_of_a_rule_that_declined(attempt):
    plain, program = (to_onnx(_fn, [("N", 3)], plugins=[_Plugin(tried)]) for tried in (None, attempt))
    assert [node.op_type for node in program.model.graph] == [node.op_type for node in plain.model.graph]
    assert not program.model.functions
    assert program.report() == plain.report()
    x = np.array([[0.5, -1, 2]], np.float32)
    np.testing.assert_array_equal(program(x)[0], plain(x)[0])
