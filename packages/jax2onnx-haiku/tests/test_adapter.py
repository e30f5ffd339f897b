"""Transformed functions with their parameters, in every form in which they are given: names, state, errors."""

from __future__ import annotations

import functools
import re
import warnings
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
WEIGHTS = {"mlp/~/linear_0.w", "mlp/~/linear_0.b", "mlp/~/linear_1.w", "mlp/~/linear_1.b"}


def mlp(x: jax.Array) -> jax.Array:
    return hk.nets.MLP([6, 5])(x)


def normalised(x: jax.Array, is_training: bool) -> jax.Array:
    norm = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9)
    return norm(hk.Linear(3)(x), is_training or hk.running_init())


PLAIN = hk.transform(mlp)
PARAMS = PLAIN.init(jax.random.key(0), X)
INFERENCE = hk.transform_with_state(functools.partial(normalised, is_training=False))
TRAINING = hk.transform_with_state(functools.partial(normalised, is_training=True))
NORM_PARAMS, NORM_STATE = INFERENCE.init(jax.random.key(0), X)

PAIR: Any = (PLAIN, PARAMS)
WITH_STATE: Any = (INFERENCE, NORM_PARAMS, NORM_STATE)
IN_TRAINING: Any = (TRAINING, NORM_PARAMS, NORM_STATE)

WITHOUT_KEY = hk.without_apply_rng(PLAIN)
WAYS: dict[str, Any] = {
    "pair": PAIR,
    "pair without a key": (WITHOUT_KEY, PARAMS),
    "pair of an empty state": (hk.with_empty_state(PLAIN), PARAMS, {}),
    "partial": functools.partial(PLAIN.apply, PARAMS, None),
    "partial without a key": functools.partial(WITHOUT_KEY.apply, PARAMS),  # type: ignore[attr-defined]  # Haiku's annotation is a name of its own file
    "partial of jit": functools.partial(jax.jit(PLAIN.apply), PARAMS, None),
    "arrays of numpy": (PLAIN, jax.tree.map(np.asarray, PARAMS)),
    "multi_transform": functools.partial(hk.multi_transform(lambda: (mlp, (mlp, mlp))).apply[0], PARAMS, None),
}


@pytest.mark.parametrize("way", WAYS)
def test_weights_have_the_paths_of_their_modules(way):
    program = to_onnx(WAYS[way], [("B", 4)])
    assert set(program.model.graph.initializers) == WEIGHTS
    assert [node.name for node in program.model.graph][:2] == ["mlp.linear_0/MatMul", "mlp.linear_0/Add"]
    np.testing.assert_allclose(program(X), PLAIN.apply(PARAMS, None, X), rtol=1e-5)


def test_inputs_have_the_names_of_the_functions_parameters():
    assert [value.name for value in to_onnx(PAIR, [("B", 4)]).model.graph.inputs] == ["x"]


def test_functions_and_pairs_that_are_closed_over():
    pair = PAIR
    program = to_onnx(lambda x: PLAIN.apply(PARAMS, None, x) - pair[0].apply(pair[1], None, 2 * x), [("B", 4)])
    assert len(program.model.graph.initializers) == 5
    program.verify()


def test_parameters_that_are_inputs():
    program = to_onnx(WITHOUT_KEY.apply, [PARAMS, ("B", 4)])  # type: ignore[attr-defined]  # Haiku's annotation is a name of its own file
    assert {value.name for value in program.model.graph.inputs} == {"x", *(f"params.{name}" for name in WEIGHTS)}


# -- state ----------------------------------------------------------------------------------


def test_a_function_with_state_gives_its_result():
    program = to_onnx(WITH_STATE, [("B", 4)])
    assert [node.op_type for node in program.model.graph] == ["MatMul", "Add", "Mul", "Add"]
    np.testing.assert_allclose(program(X), INFERENCE.apply(NORM_PARAMS, NORM_STATE, None, X)[0], atol=1e-6)


def test_state_that_changes_and_is_not_kept():
    with pytest.warns(errors.ExportWarning) as caught:
        to_onnx(IN_TRAINING, [("B", 4)])
    path = "batch_norm/~/mean_ema"
    assert f"  {path} changes {path}.average, {path}.counter, {path}.hidden" in str(caught[0].message).splitlines()


def test_state_that_is_a_result():
    with warnings.catch_warnings(action="error"):
        program = to_onnx(functools.partial(TRAINING.apply, NORM_PARAMS, NORM_STATE, None), [(3, 4)])
    assert "output_1.batch_norm/~/mean_ema.average" in {value.name for value in program.model.graph.outputs}
    program.verify()


def test_states_of_layers_beside_a_recurrent_one_do_not_leak():
    def f(x: jax.Array) -> jax.Array:
        core = hk.LSTM(3)
        y, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
        return normalised(y, is_training=True)

    transformed = hk.transform_with_state(f)
    params, state = transformed.init(jax.random.key(0), jnp.ones((5, 2, 4)))
    program = to_onnx(functools.partial(transformed.apply, params, state, jax.random.key(1)), [("T", 2, 4)])
    assert [node.op_type for node in program.model.graph.all_nodes()].count("LSTM") == 1
    program.verify()


# -- errors ---------------------------------------------------------------------------------


def dropped(x: jax.Array) -> jax.Array:
    return hk.dropout(hk.next_rng_key(), 0.5, hk.Linear(3)(x))


WRONG = {
    "no parameters": (
        PLAIN,
        [X],
        "A Transformed is a pair of functions, and cannot be called. Give to_onnx the function",
    ),
    "apply": (
        PLAIN.apply,
        [X],
        "The params of a Haiku function are a dict of dicts of arrays. Give to_onnx the function",
    ),
    "apply without arguments": (PLAIN.apply, [], "The apply function of Haiku takes params, rng first. Give to_onnx"),
    "an array for the key": (PLAIN.apply, [PARAMS, X, X], "takes a random key after the parameters. Give to_onnx"),
    "no state": ((INFERENCE, NORM_PARAMS), [X], "This TransformedWithState goes with params and state. Give to_onnx"),
    "a list": ((PLAIN, [1, 2]), [X], "The params of a Haiku function are a dict of dicts of arrays."),
}
ADVICE: dict[str, tuple[Any, str]] = {
    "another module's": ((PLAIN, NORM_PARAMS), "The parameters are not those of this function: transformed.init"),
    "other features": ((PLAIN, PARAMS | {"mlp/~/linear_0": {"w": jnp.ones((5, 6))}}), "or the input has another number"),
    "in a closure": (lambda x: PLAIN.apply({}, None, x), "The parameters are not those of this function"),
    "no statistics": ((INFERENCE, NORM_PARAMS, {}), "Give the state that transformed.init of hk.transform_with_state"),
    "random numbers": ((hk.transform(dropped), NORM_PARAMS), "Export it as it is used at inference"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_calls_without_what_init_returned(what):
    fn, inputs, message = WRONG[what]
    with pytest.raises(errors.InputError, match=re.escape(message)):
        to_onnx(fn, inputs)


@pytest.mark.parametrize("what", ADVICE)
def test_haikus_errors_say_what_to_do(what):
    fn, advice = ADVICE[what]
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (Haiku's messages are its own)
        to_onnx(fn, [X])
    assert any(advice in note for note in caught.value.__notes__)
