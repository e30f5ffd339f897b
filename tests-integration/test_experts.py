"""Mixtures of experts equal JAX, and compute the chosen experts alone where that is proven."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, to_onnx

from examples.expert_models import (
    CHOSEN,
    DENSE,
    DOWN,
    EXPERTS,
    GATE,
    ROUTER,
    SELECTED,
    UP,
    WEIGHTED,
    WIDTH,
    gates_by_one_hot,
)

SPARSE = {**WEIGHTED, **SELECTED}


def tokens(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, WIDTH)).astype(np.float32)


def assert_equal(program: OnnxProgram, function, x: np.ndarray, tolerance: float = 2e-5) -> None:
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance),
        program(x),
        function(jnp.asarray(x)),
    )


def runs_of_tokens(program: OnnxProgram) -> int:
    """Number of operands that are split into the tokens of each expert."""
    return sum(node.op_type == "Split" and len(node.outputs) == EXPERTS for node in program.model.graph)


@pytest.mark.parametrize("name", SPARSE)
def test_chosen_experts_alone_equal_jax(name):
    program = to_onnx(SPARSE[name], [("T", WIDTH)], assume=["finite"])
    assert runs_of_tokens(program) > 0, program.report()
    for count in (1, 2, 13, 64):
        assert_equal(program, SPARSE[name], tokens(count))


@pytest.mark.parametrize("name", SELECTED)
def test_experts_that_are_selected_need_no_promise(name):
    program = to_onnx(SELECTED[name], [("T", WIDTH)])
    assert runs_of_tokens(program) > 0, program.report()
    for special in (np.nan, np.inf, -np.inf, 3e38):
        x = tokens(13)
        x[3], x[5, 7] = special, special
        assert_equal(program, SELECTED[name], x)


@pytest.mark.parametrize("name", WEIGHTED)
def test_without_the_promise_all_experts_are_computed(name):
    program = to_onnx(WEIGHTED[name], [("T", WIDTH)])
    assert runs_of_tokens(program) == 0
    assert "assume=['finite']" in str(program.report())
    x = tokens(13)
    x[3], x[5, 7] = np.nan, np.inf
    assert_equal(program, WEIGHTED[name], x)


@pytest.mark.parametrize("name", DENSE)
def test_look_alikes_compute_all_experts(name):
    program = to_onnx(DENSE[name], [("T", WIDTH)], assume=["finite"])
    assert runs_of_tokens(program) == 0
    assert_equal(program, DENSE[name], tokens(13))


def all_experts_alike(x: jax.Array) -> jax.Array:
    """All probabilities are equal: top_k takes the first experts."""
    return SPARSE["einsum_of_one_hot"](0 * x) + SPARSE["einsum_of_one_hot"](x)


def test_ties_choose_the_first_experts():
    program = to_onnx(all_experts_alike, [("T", WIDTH)], assume=["finite"])
    assert_equal(program, all_experts_alike, tokens(7))


@pytest.mark.parametrize("name", ["einsum_of_one_hot", "einsum_of_scatter", "loop", "chain_of_where"])
def test_all_tokens_of_one_expert(name):
    program = to_onnx(SPARSE[name], [("T", WIDTH)], assume=["finite"])
    assert_equal(program, SPARSE[name], np.repeat(tokens(1), 13, axis=0))


@pytest.mark.parametrize("name", ["einsum_of_one_hot", "einsum_of_scatter", "loop"])
def test_no_tokens(name):
    program = to_onnx(SPARSE[name], [("T", WIDTH)], assume=["finite"], constraints=["T >= 0"])
    assert_equal(program, SPARSE[name], tokens(0))


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("count", [1, 5])
def test_a_number_of_tokens_that_is_known(name, count):
    program = to_onnx(SPARSE[name], [(count, WIDTH)], assume=["finite"])
    assert runs_of_tokens(program) > 0, program.report()
    assert program.check_symbols() == []
    assert_equal(program, SPARSE[name], tokens(count))


def layers(x: jax.Array) -> jax.Array:
    """Two layers, whose weights are stacked, in a scan."""

    def layer(x: jax.Array, weights: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        up, down = weights
        hidden = jax.nn.silu(jnp.einsum("td,edf->tef", x, up))
        return x + jnp.einsum("tef,efd,te->td", hidden, down, gates_by_one_hot(x)), None

    return jax.lax.scan(layer, x, (np.stack([UP, UP[::-1]]), np.stack([DOWN, DOWN[::-1]])))[0]


def of_sequences(x: jax.Array) -> jax.Array:
    return jax.vmap(SPARSE["einsum_of_one_hot"])(x.reshape(-1, 1, WIDTH)).reshape(x.shape)


def of_flat_tokens(x: jax.Array) -> jax.Array:
    return SPARSE["einsum_of_scatter"](x.reshape(-1, WIDTH)).reshape(x.shape)


def of_a_batch(x: jax.Array) -> jax.Array:
    return jax.vmap(SPARSE["loop"])(x)


def in_bfloat16(x: jax.Array) -> jax.Array:
    return SPARSE["einsum_of_one_hot"](x.astype(jnp.bfloat16)).astype(jnp.float32)


@pytest.mark.parametrize("function", [layers, of_sequences, jax.checkpoint(SPARSE["loop"]), in_bfloat16])
def test_transformed_mixtures_equal_jax(function):
    program = to_onnx(function, [("T", WIDTH)], assume=["finite"])
    assert program.check_symbols() == []
    for count in (1, 7):
        assert_equal(program, function, tokens(count))


@pytest.mark.parametrize("function", [of_flat_tokens, of_a_batch])
def test_tokens_of_two_axes(function):
    program = to_onnx(function, [("B", "T", WIDTH)], assume=["finite"])
    assert runs_of_tokens(program) > 0, program.report()
    assert program.check_symbols() == []
    for shape in ((1, 1), (2, 3)):
        assert_equal(program, function, tokens(shape[0] * shape[1]).reshape(*shape, WIDTH))


def test_gradient_equals_jax():
    def gradient(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: (SPARSE["einsum_of_one_hot"](x) ** 2).sum())(x)

    assert_equal(to_onnx(gradient, [("T", WIDTH)], assume=["finite"]), gradient, tokens(5), 1e-3)


def test_float64_equals_jax():
    with jax.enable_x64(True):
        program = to_onnx(SPARSE["loop"], [("T", WIDTH)], assume=["finite"], x64=True)
        assert_equal(program, SPARSE["loop"], tokens(5).astype(np.float64), 1e-6)


@pytest.mark.parametrize(("mode", "limit"), [("int8", 0.05), ("int4", 0.3)])
@pytest.mark.parametrize("name", ["einsum_of_scatter", "loop"])
def test_weights_of_chosen_experts_are_quantised(name, mode, limit):
    program = to_onnx(SPARSE[name], [("T", WIDTH)], assume=["finite"])
    quantized = program.quantize(mode)
    assert sum(node.op_type == "MatMulNBits" for node in quantized.model.graph) >= 2 * EXPERTS
    expected = np.asarray(SPARSE[name](jnp.asarray(tokens(13))))
    assert np.linalg.norm(quantized(tokens(13)) - expected) < limit * np.linalg.norm(expected)


def by_sorting(x: jax.Array) -> jax.Array:
    """As MaxText and tunix compute them: tokens sorted by expert, ragged products, and back."""
    weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ ROUTER), CHOSEN)
    flat = chosen.reshape(-1)
    order = jnp.argsort(flat)
    sizes = jnp.bincount(flat, length=EXPERTS)
    rows = x[order // CHOSEN]
    hidden = jax.nn.silu(jax.lax.ragged_dot(rows, GATE, sizes)) * jax.lax.ragged_dot(rows, UP, sizes)
    made = jax.lax.ragged_dot(hidden, DOWN, sizes)[jnp.argsort(order)]
    return jnp.einsum("tkd,tk->td", made.reshape(*chosen.shape, WIDTH), weights)


def by_gathered_weights(x: jax.Array) -> jax.Array:
    weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ ROUTER), CHOSEN)
    hidden = jax.nn.relu(jnp.einsum("td,tkdf->tkf", x, jnp.asarray(UP)[chosen]))
    return jnp.einsum("tkf,tkfd,tk->td", hidden, jnp.asarray(DOWN)[chosen], weights)


def by_capacity(x: jax.Array) -> jax.Array:
    """As Switch transformers compute them: each expert takes so many tokens at most, the others are dropped."""
    probabilities = jax.nn.softmax(x @ ROUTER)
    chosen = probabilities.argmax(-1)
    is_chosen = jax.nn.one_hot(chosen, EXPERTS, dtype=jnp.int32)
    place = (jnp.cumsum(is_chosen, 0) * is_chosen - 1).max(-1)
    dispatch = jax.nn.one_hot(chosen, EXPERTS)[:, :, None] * jax.nn.one_hot(place, 4)[:, None]
    taken = jax.nn.relu(jnp.einsum("tec,td,edf->ecf", dispatch, x, UP))
    return jnp.einsum("tec,ecf,efd->td", dispatch * probabilities.max(-1)[:, None, None], taken, DOWN)


def by_scan(x: jax.Array) -> jax.Array:
    def add(total: jax.Array, expert: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        up, down, gate = expert
        return total + gate[:, None] * (jax.nn.relu(x @ up) @ down), None

    return jax.lax.scan(add, jnp.zeros_like(x), (UP, DOWN, gates_by_one_hot(x).T))[0]


@pytest.mark.parametrize("function", [by_sorting, by_gathered_weights, by_capacity, by_scan])
@pytest.mark.parametrize("assume", [[], ["finite"]])
def test_other_forms_equal_jax(function, assume):
    program = to_onnx(function, [("T", WIDTH)], assume=assume)
    for count in (1, 13):
        assert_equal(program, function, tokens(count))


def test_ragged_products_read_the_weights_of_constants_one_by_one():
    assert runs_of_tokens(to_onnx(by_sorting, [("T", WIDTH)])) == 0  # one run more, for tokens of no expert
    splits = [node for node in to_onnx(by_sorting, [("T", WIDTH)]).model.graph if node.op_type == "Split"]
    assert {len(node.outputs) for node in splits} == {EXPERTS + 1, 2}  # runs of rows, and the columns of gate and up
