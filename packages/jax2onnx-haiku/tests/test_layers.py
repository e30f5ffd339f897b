"""Layers in the surroundings of real programs: used twice, transformed, with parameters that are not what is stored."""

from __future__ import annotations

import functools

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx


def bound(f, *shapes):
    transformed = hk.without_apply_rng(hk.transform(f))
    # Haiku's annotation is a name of its own file.
    params = transformed.init(jax.random.key(0), *map(jnp.ones, shapes))  # type: ignore[attr-defined]
    return functools.partial(transformed.apply, params)  # type: ignore[attr-defined]


def operators(program):
    return [node.op_type for node in program.model.graph]


def test_a_layer_used_twice_stores_its_weights_once():
    def f(x: jax.Array) -> jax.Array:
        linear = hk.Linear(4)
        return linear(jax.nn.relu(linear(x)))

    program = to_onnx(bound(f, (2, 4)), [("B", 4)])
    assert set(program.model.graph.initializers) == {"linear.w", "linear.b"}
    program.verify()


def test_a_group_norm_used_twice():
    def f(x: jax.Array) -> jax.Array:
        norm = hk.GroupNorm(2)
        return norm(jax.nn.relu(norm(x)))

    program = to_onnx(bound(f, (2, 5, 8)), [("B", 5, 8)])
    assert operators(program).count("InstanceNormalization") == 2
    program.verify(rtol=1e-4)


def test_modules_after_an_attention_keep_their_names():
    def f(x: jax.Array) -> jax.Array:
        x = hk.MultiHeadAttention(2, 4, w_init=hk.initializers.Constant(0.1))(x, x, x)
        return hk.Linear(3)(hk.Linear(5)(x))

    program = to_onnx(bound(f, (2, 3, 8)), [("B", "T", 8)])
    assert {"multi_head_attention/linear.w", "linear.w", "linear_1.w"} <= set(program.model.graph.initializers)
    program.verify(rtol=1e-4)


def test_both_parts_of_the_kernel_of_an_lstm_have_its_name():
    def f(x: jax.Array) -> jax.Array:
        core = hk.LSTM(4)
        return hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))[0]

    program = to_onnx(bound(f, (5, 2, 3)), [("T", "B", 3)])
    names = set(program.model.graph.initializers)
    assert {"lstm/linear.w", "lstm/linear.b"} <= names
    assert sum(name.startswith("lstm/linear.w") for name in names) == 2


def test_vmap_of_an_apply_function():
    fn = bound(lambda x: hk.LayerNorm(-1, create_scale=True, create_offset=True)(hk.Linear(3)(x)), (4,))
    program = to_onnx(jax.vmap(fn), [("B", 4)])
    assert operators(program) == ["MatMul", "Add", "LayerNormalization"]
    program.verify(rtol=1e-4)


def test_a_gradient():
    fn = bound(lambda x: hk.avg_pool(jax.nn.gelu(hk.Conv2D(3, 3)(x)), (2, 2, 1), (2, 2, 1), "SAME"), (2, 6, 6, 2))
    to_onnx(jax.grad(lambda x: jnp.sin(fn(x)).sum()), [("B", 6, 6, 2)]).verify(rtol=1e-3, atol=1e-5)


def test_layers_inside_haikus_scan_over_any_number_of_steps():
    def f(x: jax.Array) -> jax.Array:
        linear = hk.Linear(4)
        return hk.scan(lambda carry, row: (jnp.tanh(linear(carry) + row), row), jnp.zeros((2, 4)), x)[0]

    to_onnx(bound(f, (5, 2, 4)), [("T", 2, 4)]).verify()


@pytest.mark.parametrize("layer", ["linear", "lstm"])
def test_parameters_that_a_getter_changes(layer):
    def doubled(next_getter, value, context):
        return 2 * next_getter(value)

    def f(x: jax.Array) -> jax.Array:
        with hk.custom_getter(doubled):
            if layer == "linear":
                return hk.Linear(4)(x)
            core = hk.LSTM(4)
            return hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))[0]

    fn = bound(f, (5, 2, 3))
    to_onnx(fn, [("T", 2, 3)]).verify()


def test_an_overridden_projection_of_an_attention_is_kept():
    class Shifted(hk.MultiHeadAttention):
        @hk.transparent
        def _linear_projection(self, x, head_size, name=None):
            return super()._linear_projection(x, head_size, name) + 1

    fn = bound(lambda x: Shifted(2, 4, w_init=hk.initializers.Constant(0.1))(x, x, x), (2, 3, 8))
    to_onnx(fn, [("B", "T", 8)]).verify(rtol=1e-4)


def test_init_is_a_function_too():
    transformed = hk.transform(lambda x: hk.nets.MLP([3, 2], w_init=hk.initializers.Constant(0.5))(x))
    program = to_onnx(functools.partial(transformed.init, None), [(2, 4)])
    assert {value.name for value in program.model.graph.outputs} >= {"mlp/~/linear_0.w", "mlp/~/linear_1.b"}
    assert np.all(np.asarray(program(np.ones((2, 4), np.float32))["mlp/~/linear_0"]["w"]) == 0.5)


@pytest.mark.parametrize("usage", [True, False])
def test_haikus_check_of_jax_transformations_does_not_see_the_export(usage):
    with hk.config.context(check_jax_usage=usage):
        assert operators(to_onnx(bound(lambda x: hk.Linear(3)(x), (2, 4)), [("B", 4)])) == ["MatMul", "Add"]
