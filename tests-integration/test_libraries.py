"""Programs as the documentation of libraries has them, models, whole training steps and simulations: equal to JAX, with dynamic dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax2onnx_core import to_onnx
from jax2onnx_core.plugins.errors import ConversionError

import examples.library_models as models
from examples import programs
from examples.library_examples import MODELS, normal, tokens, trained


def assert_same(program: Any, fn: Callable[..., Any], *arguments: Any, rtol: float = 2e-4) -> None:
    expected, computed = jax.tree.leaves(fn(*arguments)), jax.tree.leaves(program(*arguments))
    for right, left in zip(expected, computed, strict=True):
        assert (left.shape, left.dtype) == (right.shape, right.dtype)
        greatest = np.abs(np.where(np.isfinite(right), right, 0)).max(initial=0)
        tolerance = rtol * max(1e-3, float(greatest)) if right.dtype.kind == "f" else 0
        np.testing.assert_allclose(left, right, rtol=rtol if tolerance else 0, atol=tolerance)


def operators(program: Any) -> set[str]:
    return {node.op_type for node in program.model.graph}


# The key of noisy_sgd is a constant, as its user wrote it.
pytestmark = pytest.mark.filterwarnings("ignore:Every call of the model begins with the state at the export")

PROGRAMS = [one for one in programs.programs() if not one.refusal]
REFUSED = [one for one in programs.programs() if one.refusal]


@pytest.mark.parametrize("one", PROGRAMS, ids=[one.name for one in PROGRAMS])
def test_programs(one: programs.Program) -> None:
    fn = one.make()
    exported = to_onnx(fn, programs.specs(one))
    for sizes in programs.SIZES:
        assert_same(exported, _as_jax_computes(one, fn), *programs.arguments(one, sizes), rtol=one.rtol)


def _as_jax_computes(one: programs.Program, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which JAX computes without jit where its sizes depend on data."""
    return (lambda *arguments: programs.in_jax(fn, arguments)) if programs.has_sizes_from_data(one) else fn


SIZES_FROM_DATA = [one for one in PROGRAMS if programs.has_sizes_from_data(one)]


@pytest.mark.parametrize("one", SIZES_FROM_DATA, ids=[one.name for one in SIZES_FROM_DATA])
@pytest.mark.filterwarnings("ignore:.*invalid value encountered in cast:RuntimeWarning")
def test_programs_with_data_that_select_nothing_all_and_one(one: programs.Program) -> None:
    fn = one.make()
    exported = to_onnx(fn, programs.specs(one))
    assert exported.check_symbols() == []
    kinds: tuple[programs.Data, ...] = ("none", "all", "one", "nan")
    for data in kinds:
        arguments = programs.arguments(one, programs.SIZES[0], data)
        assert_same(exported, _as_jax_computes(one, fn), *arguments, rtol=one.rtol)


@pytest.mark.parametrize("one", REFUSED, ids=[one.name for one in REFUSED])
def test_programs_that_no_model_can_be(one: programs.Program) -> None:
    with pytest.raises((ConversionError, TypeError, ValueError)) as caught:
        to_onnx(one.make(), programs.specs(one))
    assert one.refusal in " ".join([str(caught.value), *vars(caught.value).get("__notes__", ())])


@pytest.mark.parametrize("one", PROGRAMS[2::5], ids=[one.name for one in PROGRAMS[2::5]])
def test_programs_in_plain_onnx(one: programs.Program) -> None:
    fn = one.make()
    exported = to_onnx(fn, programs.specs(one), target="onnx")
    assert_same(exported, _as_jax_computes(one, fn), *programs.arguments(one, programs.SIZES[0]), rtol=one.rtol)


def test_the_names_of_programs_differ() -> None:
    assert len({one.name for one in PROGRAMS}) == len(PROGRAMS) >= 250


@pytest.mark.parametrize("name", MODELS)
def test_linen(name: str) -> None:
    model, specs, arguments = MODELS[name]
    variables = trained(model, *arguments)

    def fn(*args: Any) -> Any:
        return model.apply(variables, *args)

    program = to_onnx(fn, specs, constraints=["T <= 12"] if name == "llama" else [])
    assert program.check_symbols() == []
    assert_same(program, fn, *arguments)
    assert "Loop" not in operators(program)
    # The router's top_k asks whether there is a NaN.
    assert "If" not in operators(program) or name == "mixture_of_experts"


def test_linen_with_parameters_as_inputs() -> None:
    model, specs, arguments = MODELS["vit"]
    variables = trained(model, *arguments)
    program = to_onnx(model.apply, [variables, *specs])
    assert_same(program, model.apply, variables, *arguments)
    assert "LayerNormalization" in operators(program)


def test_vae_samples_what_jax_samples() -> None:
    model, images, key = models.Vae(), normal(2, 16, 16, 3), jax.random.key(3)
    variables = trained(model, images, key)

    def fn(images: Any, key: Any) -> Any:
        return model.apply(variables, images, key)

    assert_same(to_onnx(fn, [images, key]), fn, images, key)


def test_optax_step() -> None:
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-2, 100)))
    parameters = {"kernel": normal(4, 3), "bias": np.zeros(3, np.float32)}

    def step(parameters: Any, state: Any, x: Any, labels: Any) -> Any:
        def loss(parameters: Any) -> Any:
            logits = x @ parameters["kernel"] + parameters["bias"]
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        value, gradients = jax.value_and_grad(loss)(parameters)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    state = optimizer.init(parameters)
    program = to_onnx(step, [parameters, state, ("B", 4), (("B",), np.int32)])
    assert_same(program, step, parameters, state, normal(6, 4), tokens(3, 6))


def test_forces_of_a_lennard_jones_liquid() -> None:
    def energy(x: Any) -> Any:
        apart = x[:, None] - x[None]
        apart = apart - 5 * jnp.round(apart / 5)
        same = jnp.eye(x.shape[0], dtype=bool)
        squared = (apart**2).sum(-1) + same
        attraction = 1 / squared**3
        return 0.5 * jnp.where(same | (squared > 6.25), 0, 4 * (attraction**2 - attraction)).sum()

    fn = jax.value_and_grad(energy)
    grid = np.stack(np.meshgrid(*[np.arange(2) * 1.2] * 3), -1).reshape(-1, 3).astype(np.float32)
    assert_same(to_onnx(fn, [("N", 3)]), fn, grid + 0.05 * normal(8, 3))


def test_greedy_decoding() -> None:
    table = normal(20, 20)

    def decode(first: Any) -> Any:
        def body(state: Any) -> Any:
            i, found, done = state
            best = jnp.where(done, 0, jnp.argmax(jnp.asarray(table)[found[:, i]], -1)).astype(np.int32)
            return i + 1, lax.dynamic_update_index_in_dim(found, best, i + 1, 1), done | (best == 0)

        found = jnp.zeros((first.shape[0], 10), np.int32).at[:, 0].set(first)
        start = 0, found, jnp.zeros(first.shape, bool)
        return lax.while_loop(lambda state: (state[0] < 9) & ~state[2].all(), body, start)

    assert_same(to_onnx(decode, [(("B",), np.int32)]), decode, tokens(20, 3))
