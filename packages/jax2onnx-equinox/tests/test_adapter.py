"""Models as callables, in closures, partials and wrappers: their weights keep their paths, states stay the user's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx

NAMES = {"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"}


class Net(eqx.Module):
    layers: list[eqx.nn.Linear]
    activation: Callable[[jax.Array], jax.Array]
    slope: float = eqx.field(static=True)

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key)
        self.layers = [eqx.nn.Linear(4, 8, key=keys[0]), eqx.nn.Linear(8, 4, key=keys[1])]
        self.activation, self.slope = jax.nn.softplus, 2.0

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.layers[1](self.activation(self.layers[0](x)))

    def doubled(self, x: jax.Array) -> jax.Array:
        return self.slope * self(x)


class Stateful(eqx.Module):
    layer: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    dropout: eqx.nn.Dropout

    def __init__(self, key: jax.Array) -> None:
        self.layer = eqx.nn.Linear(4, 4, key=key)
        self.norm = eqx.nn.BatchNorm(4, "batch", mode="batch")
        self.dropout = eqx.nn.Dropout(0.5)

    def __call__(self, x: jax.Array, state: eqx.nn.State, key: jax.Array | None = None) -> Any:
        y, state = self.norm(self.layer(x), state)
        return self.dropout(y, key=key), state


model = Net(jax.random.key(0))


def over_batch(model: Any, **options: Any) -> Any:
    return jax.vmap(model, in_axes=(0, None), out_axes=(0, None), axis_name="batch", **options)


def names(program: Any) -> set[str]:
    return set(program.model.graph.initializers)


def operators(program: Any) -> list[str]:
    return [node.op_type for node in program.model.graph]


def plus_one(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: fn(x) + 1


def on_a_batch(x: jax.Array) -> jax.Array:
    return jax.vmap(model)(x)


def mapped(m: Net, x: jax.Array) -> jax.Array:
    return jax.vmap(m)(x)


def mapped_by_keyword(x: jax.Array, *, m: Net) -> jax.Array:
    return jax.vmap(m)(x)


def with_tanh() -> Any:
    return eqx.tree_at(lambda m: m.activation, model, jnp.tanh)


def combined() -> Any:
    params, static = eqx.partition(model, eqx.is_array)
    return lambda x: jax.vmap(eqx.combine(params, static))(x)


WAYS: dict[str, Callable[[], Callable[..., Any]]] = {
    "vmap": lambda: jax.vmap(model),
    "filter_vmap": lambda: eqx.filter_vmap(model),
    "jit": lambda: jax.jit(jax.vmap(model)),
    "filter_jit": lambda: eqx.filter_jit(eqx.filter_vmap(model)),
    "filter_jit of a function": lambda: eqx.filter_jit(on_a_batch),
    "filter_jit inside": lambda: jax.vmap(eqx.filter_jit(model)),
    "method": lambda: jax.vmap(model.doubled),
    "closure": lambda: lambda x: jax.vmap(model)(x) + 1,
    "partial": lambda: functools.partial(mapped, model),
    "eqx.Partial": lambda: eqx.Partial(mapped, model),
    "keyword": lambda: functools.partial(mapped_by_keyword, m=model),
    "combine": combined,
    "inference_mode": lambda: jax.vmap(eqx.nn.inference_mode(model)),
    "tree_at": lambda: jax.vmap(with_tanh()),
    "wrapper in a closure": lambda: plus_one(eqx.filter_jit(on_a_batch)),
    "jit in a closure": lambda: plus_one(jax.jit(on_a_batch)),
}


@pytest.mark.parametrize("way", WAYS)
def test_weights_keep_their_paths(way):
    fn = WAYS[way]()
    program = to_onnx(fn, [("B", 4)])
    assert {name.removeprefix("arg0.").removeprefix("m.") for name in names(program)} >= (
        NAMES if way != "combine" else set()
    )
    assert operators(program)[:4] in (["MatMul", "Add", "Softplus", "MatMul"], ["MatMul", "Add", "Tanh", "MatMul"])
    program.verify()


def test_a_model_of_single_examples():
    program = to_onnx(model, [(4,)])
    assert names(program) == NAMES
    program.verify()


def test_nodes_are_named_after_the_parts_of_the_model():
    program = to_onnx(jax.vmap(model), [("B", 4)])
    assert any("layers.0" in (node.name or "") for node in program.model.graph)


def test_a_model_used_twice_stores_its_weights_once():
    assert names(to_onnx(lambda x: jax.vmap(model)(jax.vmap(model)(x)), [("B", 4)])) == NAMES


def test_a_shared_layer_is_stored_once():
    class Tied(eqx.Module):
        shared: eqx.nn.Shared

        def __init__(self, key: jax.Array) -> None:
            pair = (eqx.nn.Linear(4, 4, key=key), eqx.nn.Linear(4, 4, key=key))
            self.shared = eqx.nn.Shared(pair, where=lambda p: p[1].weight, get=lambda p: p[0].weight)

        def __call__(self, x: jax.Array) -> jax.Array:
            first, second = self.shared()
            return second(first(x))

    program = to_onnx(jax.vmap(Tied(jax.random.key(0))), [("B", 4)])
    assert sum("weight" in name for name in names(program)) == 1
    program.verify()


def test_gradients_of_the_input():
    program = to_onnx(jax.vmap(jax.grad(lambda x: model(x).sum())), [("B", 4)])
    program.verify()


def test_gradients_of_the_parameters():
    program = to_onnx(lambda x: eqx.filter_grad(lambda m, x: (jax.vmap(m)(x) ** 2).mean())(model, x), [(3, 4)])
    program.verify()


def test_a_state_is_given_by_closure_argument_and_input():
    model, state = eqx.nn.make_with_state(Stateful)(jax.random.key(0))
    model = eqx.nn.inference_mode(model)
    expected = ["MatMul", "Add", "Mul", "Add"]
    closure = to_onnx(lambda x: over_batch(model)(x, state)[0], [("B", 4)])
    partial = to_onnx(functools.partial(lambda m, s, x: over_batch(m)(x, s)[0], model, state), [("B", 4)])
    assert operators(closure) == operators(partial) == expected
    given = to_onnx(lambda x, state: over_batch(model)(x, state), [("B", 4), state])
    assert len(given.model.graph.inputs) == 4
    for program in (closure, partial, given):
        program.verify()


def test_a_step_of_training_returns_the_state():
    model, state = eqx.nn.make_with_state(Stateful)(jax.random.key(0))
    model = eqx.tree_at(lambda m: m.dropout.p, model, 0)
    program = to_onnx(lambda x, state: over_batch(model)(x, state), [(5, 4), state])
    program.verify()


def test_a_state_stays_that_of_the_user():
    layer, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, "batch", mode="batch")

    counter = layer.batch_counter
    assert counter is not None

    def step(x: jax.Array) -> jax.Array:
        changed = state.set(counter, jnp.array(7))
        return x + changed.get(counter)

    to_onnx(step, [(4,)])
    assert int(state.get(counter)) == 0


def test_training_mode_is_a_warning():
    dropout = eqx.nn.Dropout(0.5)
    key = jax.random.key(0)
    with pytest.warns(UserWarning, match="draws random numbers from the constant key"):
        to_onnx(lambda x: dropout(x, key=key), [(4,)])


@pytest.mark.filterwarnings("ignore::jax2onnx_core.plugins.errors.ExportWarning")  # the key is a constant
@pytest.mark.parametrize("training", [False, True])
def test_a_flag_of_training_that_is_an_input(training):
    model, state = eqx.nn.make_with_state(Stateful)(jax.random.key(0))
    key = jax.random.key(1)

    def call(x: jax.Array, inference: jax.Array) -> jax.Array:
        flagged = eqx.nn.inference_mode(model, inference)  # type: ignore[arg-type]
        return over_batch(flagged)(x, state, key)[0]

    def over_batch(model: Any) -> Any:
        return jax.vmap(model, in_axes=(0, None, None), out_axes=(0, None), axis_name="batch")

    program = to_onnx(call, [(5, 4), ((), "bool")])
    x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    expected = over_batch(eqx.nn.inference_mode(model, not training))(x, state, key)[0]
    np.testing.assert_allclose(program(x, np.array(not training)), expected, rtol=1e-5, atol=1e-6)


def test_a_session_keeps_a_state():
    model, first = eqx.nn.make_with_state(Stateful)(jax.random.key(0))
    call = jax.vmap(eqx.Partial(model, key=jax.random.key(1)), in_axes=(0, None), out_axes=(0, None), axis_name="batch")
    inputs, state = np.random.default_rng(0).standard_normal((3, 5, 4)).astype(np.float32), first
    with pytest.warns(UserWarning, match="the constant key"):
        program = to_onnx(lambda x, s: call(x, s), [(5, 4), first], states={1: 1})
    session = program.session(initial={1: first})
    for x in inputs:
        expected, state = call(x, state)
        np.testing.assert_allclose(session.step(x), expected, rtol=1e-4, atol=1e-5)


class WithUnhashableFields(eqx.Module):
    kernel: jax.Array
    sizes: list[int] = eqx.field(static=True)
    shift: np.ndarray = eqx.field(static=True)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.kernel * len(self.sizes) + self.shift


@pytest.mark.parametrize(
    "wrap", [lambda m: m, jax.vmap, eqx.filter_jit, eqx.filter_vmap, lambda m: jax.jit(lambda x: m(x))]
)
def test_static_fields_may_be_unhashable(wrap):
    with pytest.warns(UserWarning, match="static"):
        unhashable = WithUnhashableFields(jnp.ones((3, 3)), [1, 2], np.ones(3, np.float32))
    to_onnx(wrap(unhashable), [("B", 3)]).verify()


class Dotted(eqx.Module):
    """Arrays whose paths are one text: `("d", "a.b")` and `("d", "a", "b")`."""

    d: dict[str, Any]

    def __call__(self, x: jax.Array) -> jax.Array:
        return x * self.d["a.b"] + 10.0 * jnp.asarray(self.d["a"]["b"])


def test_weights_whose_paths_are_one_text_are_apart():
    model = Dotted({"a.b": jnp.full(3, 2.0), "a": {"b": jnp.full(3, 5.0)}})
    assert {"d.a.b", "d.a.b_1"} <= set(to_onnx(model, [("B", 3)]).model.graph.initializers)
    types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), model)
    found = to_onnx(types, [("B", 3)]).with_weights({"d.a.b": jnp.full(3, 5.0), "d.a.b_1": jnp.full(3, 2.0)})
    assert found(jnp.ones((1, 3))).tolist() == [[52.0] * 3]
