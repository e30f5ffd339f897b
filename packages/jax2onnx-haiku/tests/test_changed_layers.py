"""Layers that a user's subclass, object or patch has changed mean what they mean in JAX."""

from __future__ import annotations

import sys

import haiku as hk
import jax
import numpy as np
from jax2onnx_core import to_onnx


def _export(make, shape):
    transformed = hk.without_apply_rng(hk.transform(lambda x: make()(x)))
    x = jax.random.normal(jax.random.key(1), shape)
    variables = transformed.init(jax.random.key(0), x)  # type: ignore[attr-defined]
    program = to_onnx(lambda x: transformed.apply(variables, x), [x])  # type: ignore[attr-defined]
    np.testing.assert_allclose(program(x), transformed.apply(variables, x), rtol=1e-4, atol=1e-5)  # type: ignore[attr-defined]
    return program


class Doubled(hk.MultiHeadAttention):
    """Attention whose projections are doubled."""

    def _linear_projection(self, *args, **kwargs):
        return super()._linear_projection(*args, **kwargs) * 2


class ScaledEmbed(hk.Embed):
    """An embedding whose table is doubled."""

    @property
    def embeddings(self):
        return super().embeddings * 2


class PlainNorm(hk.LayerNorm):
    """A layer norm that computes as its base does."""

    def __call__(self, *args, **kwargs):
        return jax.nn.relu(super().__call__(*args, **kwargs))


def test_attention_that_projects_otherwise_is_traced():
    def make():
        layer = Doubled(2, 4, w_init=hk.initializers.RandomNormal())
        return lambda x: layer(x, x, x)

    _export(make, (2, 5, 8))


def test_a_table_that_is_computed_otherwise_equals_jax():
    def make():
        layer = ScaledEmbed(7, 4)
        return lambda x: layer((abs(x) * 3).astype("int32"))

    _export(make, (2, 5))


def test_a_subclass_that_changes_nothing_is_claimed():
    assert ("nn.layer_norm", "rule") in _export(lambda: PlainNorm(-1, True, True), (2, 5, 3)).log.ways


def test_patched_parameters_are_traced(monkeypatch):
    original, held = hk.get_parameter, sys.modules["haiku._src.layer_norm"].hk
    monkeypatch.setattr(held, "get_parameter", lambda *args, **kwargs: original(*args, **kwargs) * 2)
    program = _export(lambda: hk.LayerNorm(-1, True, True), (2, 5, 3))
    assert ("nn.layer_norm", "rule") not in program.log.ways
