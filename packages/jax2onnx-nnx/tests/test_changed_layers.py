"""Layers that a user's subclass, object or patch has changed mean what they mean in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import to_onnx


class StdConv(nnx.Conv):
    """A convolution whose kernel is standardised while it is computed."""

    def __call__(self, x):  # type: ignore[override]
        raw = self.kernel[...]
        held, self.kernel = self.kernel, nnx.Param((raw - raw.mean()) / raw.std())
        y = super().__call__(x)
        self.kernel = held
        return y


class ScaledDense(nnx.LinearGeneral):
    """A linear layer whose attribute access scales the kernel."""

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        return nnx.Param(value[...] * 2) if name == "kernel" else value


class PlainLinear(nnx.LinearGeneral):
    """A linear layer with a ReLU behind it, which calls its base's method."""

    def __call__(self, x):  # type: ignore[override]
        return nnx.relu(super().__call__(x))


class ScaledLinear(nnx.Linear):
    """A linear layer whose result is doubled."""

    def __call__(self, x):  # type: ignore[override]
        return super().__call__(x) * 2


def _export(module, shape):
    x = jax.random.normal(jax.random.key(1), shape)
    program = to_onnx(module, [x])
    np.testing.assert_allclose(program(x), module(x), rtol=1e-4, atol=1e-5)
    return program


def test_a_standardised_convolution_equals_jax():
    _export(StdConv(3, 4, (3, 3), rngs=nnx.Rngs(0)), (2, 5, 5, 3))


def test_a_subclass_that_intercepts_attributes_is_traced():
    program = _export(ScaledDense(3, 4, rngs=nnx.Rngs(0)), (2, 3))
    assert (
        "nn.linear",
        "ScaledDense overrides __getattribute__, which LinearGeneral.__call__ uses",
    ) in program.log.reasons


def test_a_subclass_that_changes_nothing_is_claimed():
    assert ("nn.linear", "rule") in _export(PlainLinear(3, 4, rngs=nnx.Rngs(0)), (2, 3)).log.ways


def test_attention_with_a_projection_of_a_subclass_equals_jax():
    class Projection(nnx.LinearGeneral):
        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs) * 2

    layer = nnx.MultiHeadAttention(2, 8, decode=False, rngs=nnx.Rngs(0))
    layer.query = Projection(8, (2, 4), rngs=nnx.Rngs(1))
    _export(layer, (2, 5, 8))


@pytest.mark.parametrize("cell", [nnx.GRUCell, nnx.LSTMCell, nnx.OptimizedLSTMCell, nnx.SimpleCell])
def test_a_cell_with_a_layer_of_a_subclass_is_traced(cell):
    made = cell(3, 4, rngs=nnx.Rngs(0))
    name = "dense_i" if "dense_i" in vars(made) else "ii"
    old = vars(made)[name]
    setattr(made, name, ScaledLinear(old.in_features, old.out_features, use_bias=old.use_bias, rngs=nnx.Rngs(1)))
    _export(nnx.RNN(made), (2, 5, 3))


def test_a_patched_cell_is_traced(monkeypatch):
    original = nnx.GRUCell.__call__

    def patched(self, carry, x):
        carry, y = original(self, carry, x)
        return carry, y * 2

    monkeypatch.setattr(nnx.GRUCell, "__call__", patched)
    _export(nnx.RNN(nnx.GRUCell(3, 4, rngs=nnx.Rngs(0))), (2, 5, 3))


@pytest.mark.parametrize("variance", [-1.0, -1e-5])
def test_a_batch_norm_whose_variance_is_not_positive_is_traced(variance):
    module = nnx.BatchNorm(3, use_running_average=True, rngs=nnx.Rngs(0))
    module.var[...] = jnp.full(3, variance)
    x = jnp.array([[1.0, -2.0, 3.0]])
    program = to_onnx(module, [x])
    np.testing.assert_array_equal(program(x), module(x))
    assert ("nn.batch_norm", "rule") not in program.log.ways


# -- layers whose mode is an input of the model ------------------------------------------------------


class TwiceAttention(nnx.MultiHeadAttention):
    """Attention whose result is doubled."""

    def __call__(self, *args, **kwargs):
        return 2 * super().__call__(*args, **kwargs)


class TwiceDropout(nnx.Dropout):
    """A dropout whose result is doubled."""

    def __call__(self, *args, **kwargs):
        return 2 * super().__call__(*args, **kwargs)


class TwiceNorm(nnx.BatchNorm):
    """A batch norm whose result is doubled."""

    def __call__(self, *args, **kwargs):
        return 2 * super().__call__(*args, **kwargs)


_MODES = {
    "attention": (lambda: TwiceAttention(2, 8, dropout_rate=0.5, rngs=nnx.Rngs(0)), "deterministic"),
    "attention that drops nothing": (lambda: TwiceAttention(2, 8, decode=False, rngs=nnx.Rngs(0)), "deterministic"),
    "dropout": (lambda: TwiceDropout(0.5, rngs=nnx.Rngs(0)), "deterministic"),
    "batch norm": (lambda: TwiceNorm(8, rngs=nnx.Rngs(0)), "use_running_average"),
}


@pytest.mark.filterwarnings("ignore::jax2onnx_graph.errors.ExportWarning")  # the states that change
@pytest.mark.parametrize("name", _MODES)
@pytest.mark.parametrize("flag", [True, False])
def test_a_layer_with_a_flag_computes_what_its_subclass_does_once(name, flag):
    make, mode = _MODES[name]
    options = {"decode": False} if "attention" in name else {}
    x = jax.random.normal(jax.random.key(1), (2, 3, 8))
    layer = make()
    program = to_onnx(lambda x, flag: layer(x, **{mode: flag}, **options), [x, ((), "bool")])
    want = make()(x, **{mode: flag}, **options)
    np.testing.assert_allclose(program(x, np.bool_(flag)), want, rtol=1e-4, atol=1e-5)
