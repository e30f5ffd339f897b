from __future__ import annotations

import collections
import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import Target, hookimpl, to_onnx
from jax2onnx_functions import custom_op, onnx_function


@onnx_function
class Block(nnx.Module):
    """A transformer block."""

    def __init__(self, features, heads, rngs, activation):
        self.norm = nnx.LayerNorm(features, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(num_heads=heads, in_features=features, decode=False, rngs=rngs)
        self.up = nnx.Linear(features, 4 * features, rngs=rngs)
        self.down = nnx.Linear(4 * features, features, rngs=rngs)
        self.activation = activation

    def __call__(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(self.activation(self.up(x)))


class Network(nnx.Module):
    def __init__(self, *activations):
        rngs = nnx.Rngs(0)
        self.blocks = nnx.List([Block(16, 2, rngs, activation) for activation in activations])

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def _calls(program):
    return collections.Counter(node.op_type for node in program.model.graph if node.domain)


def _bodies(program):
    return sorted(function.name for function in program.model.functions.values())


def _agrees(program, fn, *inputs):
    for got, want in zip(jax.tree.leaves(program(*inputs)), jax.tree.leaves(fn(*inputs)), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-5)


def _x(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_twelve_equal_blocks_share_one_body():
    network = Network(*[jax.nn.gelu] * 12)
    program = to_onnx(network, [("B", "T", 16)])
    assert _calls(program) == {"Block": 12}
    assert _bodies(program) == ["Block"]
    _agrees(program, network, _x(2, 5, 16))


def test_weights_are_inputs_of_the_function_under_their_own_names():
    program = to_onnx(Network(jax.nn.gelu, jax.nn.gelu), [("B", "T", 16)])
    (function,) = program.model.functions.values()
    second = [node for node in program.model.graph if node.op_type == "Block"][1]
    assert len(function.inputs) == len(second.inputs)
    assert {value.name for value in second.inputs if value.const_value is not None} >= {
        "blocks.1.norm.scale",
        "blocks.1.attention.query.kernel",
        "blocks.1.down.bias",
    }


def test_blocks_of_different_configuration_have_bodies_of_their_own():
    network = Network(jax.nn.gelu, jax.nn.relu, jax.nn.gelu, jax.nn.relu)
    program = to_onnx(network, [("B", "T", 16)])
    assert _bodies(program) == ["Block", "Block_1"]
    assert _calls(program) == {"Block": 2, "Block_1": 2}
    _agrees(program, network, _x(2, 5, 16))


def test_calls_on_other_shapes_have_bodies_of_their_own():
    scale = onnx_function(name="Scale")(lambda x: 2 * x)
    program = to_onnx(lambda x, y: (scale(x), scale(y)), [("N", 3), ("N", 4)])
    assert _bodies(program) == ["Scale", "Scale_1"]


def test_name_and_domain_are_the_users_choice():
    named = onnx_function(name="Twice", domain="my.domain")(lambda x: 2 * x)
    program = to_onnx(lambda x: named(x), [("N", 3)])
    assert list(program.model.functions) == [("my.domain", "Twice", "")]
    assert "my.domain" in program.model.opset_imports


def test_a_number_is_not_that_of_another_function():
    one, other = onnx_function(name="Block")(jnp.sin), onnx_function(name="Block")(jnp.exp)
    third = onnx_function(name="Block_1")(jnp.tanh)
    program = to_onnx(lambda x: one(x) + 2 * other(x) + 3 * third(x), [("N", 3)])
    assert _bodies(program) == ["Block", "Block_1", "Block_1_1"]
    program.verify()


def test_nested_functions_are_functions_of_the_model():
    inner = onnx_function(name="Inner")(jnp.sin)
    outer = onnx_function(name="Outer")(lambda x: inner(x) + inner(x + 1))
    program = to_onnx(lambda x: outer(x), [("N", 3)])
    assert _bodies(program) == ["Inner", "Outer"]
    assert _calls(program) == {"Outer": 1}
    _agrees(program, outer, _x(4, 3))


def test_a_symbol_inside_is_an_input_of_the_function():
    rows = onnx_function(name="Rows")(lambda x: x + jnp.arange(x.shape[0], dtype=x.dtype)[:, None])
    program = to_onnx(lambda x: rows(x), [("N", 3)])
    _agrees(program, rows, _x(4, 3))
    _agrees(program, rows, _x(7, 3))


def test_a_function_without_an_export_is_just_the_callable():
    calls = []

    @onnx_function
    def counted(x):
        """Its own docstring."""
        calls.append(x)
        return x + 1

    assert counted(1) == 2
    assert calls == [1]
    assert counted.__name__ == "counted"
    assert counted.__doc__ == "Its own docstring."
    assert "jax2onnx" not in str(jax.make_jaxpr(counted)(1.0))


def test_a_decorated_class_stays_the_class():
    block = Block(16, 2, nnx.Rngs(0), jax.nn.gelu)
    assert type(block) is Block
    assert Block.__doc__ == "A transformer block."
    assert block(_x(1, 2, 16)).shape == (1, 2, 16)


def test_a_function_jitted_and_run_before_the_export_is_still_a_function():
    scale = onnx_function(name="Scale")(lambda x: 2 * x)
    jitted = jax.jit(lambda x: scale(x))
    jitted(_x(4, 3))
    assert _calls(to_onnx(jitted, [(4, 3)])) == {"Scale": 1}
    assert "jax2onnx" not in str(jax.make_jaxpr(jitted)(_x(4, 3)))


def test_other_threads_see_the_plain_callable_during_an_export():
    seen = []
    inner = onnx_function(name="Inner")(lambda x: x + 1)

    def exported(x):
        thread = threading.Thread(target=lambda: seen.append(str(jax.make_jaxpr(inner)(1.0))))
        thread.start()
        thread.join()
        return inner(x)

    assert _calls(to_onnx(exported, [(3,)])) == {"Inner": 1}
    assert "jax2onnx" not in seen[0]


@pytest.mark.parametrize("transform", [jax.vmap, lambda f: jax.vmap(jax.vmap(f))])
def test_a_vmapped_block_is_a_function_whose_weights_are_not_copied(transform):
    block = Block(16, 2, nnx.Rngs(0), jax.nn.gelu)
    batched = transform(lambda x: block(x))
    x = _x(2, 3, 5, 16)[:, :, None] if transform is not jax.vmap else _x(2, 3, 5, 16)
    program = to_onnx(batched, [x.shape])
    assert _calls(program) == {"Block": 1}
    assert np.sum([v.const_value.size for v in program.model.graph.initializers.values()]) < 4000
    _agrees(program, batched, x)


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize("make", [functools.partial(custom_op, "Relu"), functools.partial(onnx_function, name="Relu")])
def test_the_domain_of_the_standard_operators_is_refused(make, domain):
    with pytest.raises(ValueError, match=f"domain must not be '{domain}', which is that of the standard operators"):
        make(domain=domain)


@pytest.mark.parametrize("domain", ["com.microsoft", "com.microsoft.nchwc", "ai.onnx.ml", "org.pytorch.aten"])
def test_the_domain_of_a_runtime_is_refused_for_functions_alone(domain):
    with pytest.raises(
        ValueError, match=f"onnx_function: the domain must not be '{domain}', which is one of a runtime"
    ):
        onnx_function(name="Gelu", domain=domain)
    custom_op("Gelu", domain=domain)


def test_a_custom_operator_without_an_export_is_its_reference():
    double = custom_op("Double", domain="mine")(lambda x: 2 * x)
    assert double(3) == 6


def test_a_custom_operator_brings_its_domain_even_from_inside_a_function():
    double = custom_op("Double", domain="mine")(lambda x: 2 * x)
    outer = onnx_function(name="Outer")(lambda x: double(x) + 1)
    program = to_onnx(lambda x: outer(x), [("N", 3)])
    assert program.model.opset_imports["mine"] == 1


def test_only_callables_can_be_functions():
    with pytest.raises(TypeError, match="decorates functions, methods and classes"):
        onnx_function(name="x")(3)  # type: ignore[type-var]


def test_functions_whose_constants_differ_in_one_element_are_two():
    ones = np.ones(2000, np.float32)
    other = ones.copy()
    other[1000] = 2

    @onnx_function
    def scaled(x, factor):
        return custom_scale(x, factor=factor)

    @custom_op("Scale", domain="tests")
    def custom_scale(x, *, factor):
        return x * factor

    program = to_onnx(lambda x: (scaled(x, ones), scaled(x, other), scaled(x, ones.copy())), [(2000,)])
    assert len(program.model.functions) == 2


def test_a_function_of_zero_is_not_one_of_minus_zero():
    @onnx_function
    def scaled(x, factor):
        return x * factor

    program = to_onnx(lambda x: (scaled(x, 0.0), scaled(x, -0.0)), [(3,)])
    plus, minus = program(np.ones(3, np.float32))
    assert not np.signbit(plus).any()
    assert np.signbit(minus).all()


def test_custom_operators_of_different_attributes_stay_apart():
    @custom_op("Shift", domain="tests")
    def shift(x, *, by):
        return x + by

    program = to_onnx(lambda x: [shift(x, by=by) for by in (0.0, -0.0, 1, 1.0)], [(3,)])
    assert [node.op_type for node in program.model.graph] == ["Shift"] * 4


def test_functions_are_inlined_where_that_is_asked_for():
    network = Network(jax.nn.gelu, jax.nn.relu, jax.nn.gelu)
    program = to_onnx(network, [("B", "T", 16)], inline_functions=True)
    assert not program.model.functions
    assert not _calls(program)
    assert program.check_symbols() == []
    assert program.specialize(T=4).model.functions == {}
    _agrees(program, network, _x(2, 5, 16))


def test_inlined_functions_in_a_loop_and_with_symbolic_sizes_inside():
    @onnx_function
    def center(x):
        return x - x.sum(0, keepdims=True) / x.shape[0]

    def fn(x):
        return jax.lax.fori_loop(0, 3, lambda i, y: center(y) * (i + 1.0), x)

    program = to_onnx(fn, [("N", 4)], inline_functions=True)
    assert not program.model.functions
    program.verify()


def test_functions_are_inlined_for_a_target_that_needs_it():
    class Plain(Target):
        name = "plain"
        runs_functions = False

    class Plugin:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.target(Plain())

    @onnx_function
    def scale(x):
        return 2 * x

    program = to_onnx(scale, [("N",)], target="plain", plugins=[Plugin()])
    assert [node.op_type for node in program.model.graph] == ["Mul"]
    assert not program.model.functions


def test_random_numbers_need_no_function():
    key = jax.random.key(3)
    program = to_onnx(lambda key: jax.random.uniform(key, (7,)), [key], inline_functions=True)
    assert not program.model.functions
    np.testing.assert_array_equal(program(key), jax.random.uniform(key, (7,)))
