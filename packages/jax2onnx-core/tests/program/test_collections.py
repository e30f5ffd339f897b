"""Python looks for no cyclic garbage while a graph is made; afterwards it does as before."""

from __future__ import annotations

import gc

import jax
import jax.numpy as jnp
import pytest
from jax2onnx_core import Rules, errors, hookimpl, to_onnx


class Noting:
    """A plugin whose rule notes whether garbage is looked for."""

    JAX2ONNX_API = 1

    def __init__(self):
        self.looked = []

    @hookimpl
    def jax2onnx_register(self, registry):
        rules = Rules(overrides=True)
        rules.lower("tanh")(self.tanh)
        registry.add(rules)

    def tanh(self, ctx, x, **_):
        self.looked.append(gc.isenabled())
        return ctx.op.Tanh(x)


@pytest.fixture(params=[True, False], ids=["enabled", "disabled"])
def enabled(request):
    (gc.enable if request.param else gc.disable)()
    yield request.param
    gc.enable()


def _callback(x):
    return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((3,), "float32"), x)


def test_an_export_leaves_the_setting_as_it_was(enabled):
    to_onnx(jnp.tanh, [(3,)])
    assert gc.isenabled() is enabled


def test_an_export_that_fails_does_too(enabled):
    with pytest.raises(errors.UnsupportedError):
        to_onnx(_callback, [(3,)])
    assert gc.isenabled() is enabled


def test_rules_run_without():
    plugin = Noting()
    to_onnx(jnp.tanh, [(3,)], plugins=[plugin])
    assert plugin.looked == [False]
