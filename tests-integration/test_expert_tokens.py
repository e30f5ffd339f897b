"""Gates of experts that belong to rows, columns or other arrangements of the tokens equal JAX; those of one arrangement are chosen."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, to_onnx

from examples.expert_forms import random_weights

EXPERTS, KINDS, WIDTH, HIDDEN = 8, 4, 64, 512
WEIGHTS = random_weights(EXPERTS, WIDTH, HIDDEN)


def expert(number: int, x: jax.Array) -> jax.Array:
    return jax.nn.relu(x @ WEIGHTS.up[number]) @ WEIGHTS.down[number]


def kinds(x: jax.Array) -> jax.Array:
    """[..., kinds]: the kind of each token, as booleans of which one is true."""
    return jax.nn.one_hot(x[..., :KINDS].argmax(-1), KINDS) > 0


def edges(nodes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[N, N, features], and a mask of those that are there, [N, N]."""
    made = nodes[:, None] * (nodes[None] + 0.5)
    return made, made.sum(-1) > -1


def selected(x: jax.Array, gates: list[jax.Array]) -> jax.Array:
    """The sum of what the first experts make where their gates, [tokens…], are true."""
    result = jnp.zeros_like(x)
    for number, gate in enumerate(gates):
        result += jnp.where(gate[..., None], expert(number, x), 0)
    return result


def by_kind_of_row_and_column(nodes: jax.Array) -> jax.Array:
    x, mask = edges(nodes)
    own = kinds(nodes)
    rows = [own[:, kind][:, None] & mask for kind in range(KINDS)]
    return selected(x, [*rows, *(own[:, kind][None] & mask for kind in range(KINDS))])


def by_kind_of_row_or_column(nodes: jax.Array) -> jax.Array:
    x, mask = edges(nodes)
    own = kinds(nodes)
    return selected(x, [(own[:, e][:, None] if e % 2 else own[:, e][None]) & mask for e in range(KINDS)])


def flat_rows_or_columns(nodes: jax.Array) -> jax.Array:
    x, mask = edges(nodes)
    own = kinds(nodes)
    gates = [((own[:, e][:, None] if e % 2 else own[:, e][None]) & mask).reshape(-1) for e in range(KINDS)]
    return selected(x.reshape(-1, WIDTH), gates)


def weighted_rows_or_columns(nodes: jax.Array) -> jax.Array:
    x, mask = edges(nodes)
    own = kinds(nodes).astype(x.dtype)
    gates = [(own[:, e][:, None] if e % 2 else own[:, e][None]) * mask for e in range(KINDS)]
    return sum((gate[..., None] * expert(e, x) for e, gate in enumerate(gates)), jnp.zeros_like(x))


def replaced_rows_or_columns(nodes: jax.Array) -> jax.Array:
    x, mask = edges(nodes)
    own, result = nodes[:, :KINDS].argmax(-1), x
    for e in range(KINDS):
        gate = ((own == e)[:, None] if e % 2 else (own == e)[None]) & mask
        result = jnp.where(gate[..., None], expert(e, x), result)
    return result


def reduced_over_rows_or_columns(nodes: jax.Array) -> jax.Array:
    numbers = edges(nodes)[0][:2, :2, :KINDS].argmax(-1)
    return selected(nodes[:2], [(numbers == e).any(e % 2) for e in range(EXPERTS)])


def transposed(nodes: jax.Array) -> jax.Array:
    x, _ = edges(nodes)
    own = kinds(x)
    return selected(x, [own[..., e].T if e % 2 else own[..., e] for e in range(KINDS)])


def reversed_rows(nodes: jax.Array) -> jax.Array:
    own = kinds(nodes)
    return selected(nodes, [own[::-1, e] if e % 2 else own[:, e] for e in range(KINDS)])


def rolled(nodes: jax.Array) -> jax.Array:
    own = kinds(nodes)
    return selected(nodes, [jnp.roll(own[:, e], 1) if e % 2 else own[:, e] for e in range(KINDS)])


def gathered(nodes: jax.Array) -> jax.Array:
    own, order = kinds(nodes), jnp.argsort(nodes[:, 0])
    return selected(nodes, [own[order, e] if e % 2 else own[:, e] for e in range(KINDS)])


def repeated_or_tiled(nodes: jax.Array) -> jax.Array:
    own = kinds(nodes)
    gates = [jnp.repeat(own[:, e], 2) if e % 2 else jnp.tile(own[:, e], 2) for e in range(KINDS)]
    return selected(jnp.repeat(nodes, 2, 0), gates)


def one_expert_of_transposed_tokens(nodes: jax.Array) -> jax.Array:
    x, _ = edges(nodes)
    own, result = kinds(x), jnp.zeros_like(x)
    for e in range(KINDS):
        result += jnp.where(own[..., e, None], expert(e, x.swapaxes(0, 1) if e == 2 else x), 0)
    return result


#: Gates of which several may count for a token, or whose experts read other tokens.
MIXED = [
    by_kind_of_row_and_column, by_kind_of_row_or_column, flat_rows_or_columns, weighted_rows_or_columns, replaced_rows_or_columns,
    reduced_over_rows_or_columns, transposed, reversed_rows, rolled, gathered, repeated_or_tiled, one_expert_of_transposed_tokens,
]  # fmt: skip


def of_rows(nodes: jax.Array) -> jax.Array:
    x, mask = edges(nodes)
    own = kinds(nodes)
    return selected(x, [own[:, e][:, None] & mask for e in range(KINDS)])


def of_flat_rows(nodes: jax.Array) -> jax.Array:
    x, mask = edges(nodes)
    own = kinds(nodes)
    return selected(x.reshape(-1, WIDTH), [(own[:, e][:, None] & mask).reshape(-1) for e in range(KINDS)])


def of_edges(nodes: jax.Array) -> jax.Array:
    x, _ = edges(nodes)
    own = kinds(x)
    return selected(x, [own[..., e] for e in range(KINDS)])


def of_merged_sequences(nodes: jax.Array) -> jax.Array:
    own = kinds(nodes.reshape(-1, 2, WIDTH))
    return selected(nodes, [own[..., e].reshape(-1) for e in range(KINDS)])


def of_split_sequences(nodes: jax.Array) -> jax.Array:
    own = kinds(nodes).reshape(-1, 2, KINDS)
    return selected(nodes.reshape(-1, 2, WIDTH), [own[..., e] for e in range(KINDS)])


#: Gates of which one counts for a token, as the operators that make them prove.
ALIGNED = [of_rows, of_flat_rows, of_edges, of_merged_sequences, of_split_sequences]


def assert_equal(program: OnnxProgram, function, count: int) -> None:
    nodes = np.random.default_rng(count).standard_normal((count, WIDTH)).astype(np.float32)
    np.testing.assert_allclose(program(nodes), function(jnp.asarray(nodes)), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("function", MIXED)
@pytest.mark.parametrize("size", ["2*N", 6, 2])
def test_gates_of_several_arrangements_equal_jax(function, size):
    program = to_onnx(function, [(size, WIDTH)], assume=["finite"])
    for count in (2, 6, 8) if size == "2*N" else (size,):
        assert_equal(program, function, count)


def test_gates_of_rows_and_columns_have_a_reason():
    reason = "the gates of several experts are not known to belong to the same token"
    assert reason in str(to_onnx(by_kind_of_row_or_column, [("2*N", WIDTH)]).report())


@pytest.mark.parametrize("function", ALIGNED)
def test_gates_of_one_arrangement_choose_experts(function):
    program = to_onnx(function, [("2*N", WIDTH)])
    assert any(node.op_type == "Split" and len(node.outputs) == KINDS for node in program.model.graph), program.report()
    for count in (2, 6, 8):
        assert_equal(program, function, count)


def no_gates(x: jax.Array) -> jax.Array:
    return jnp.zeros((x.shape[0], KINDS))


def no_gates_that_are_computed(x: jax.Array) -> jax.Array:
    return kinds(x) * no_gates(x)


def one_gate(x: jax.Array) -> jax.Array:
    return kinds(x).astype(x.dtype)


def all_gates(x: jax.Array) -> jax.Array:
    return jax.nn.one_hot(jax.lax.top_k(x[:, :KINDS], KINDS)[1], KINDS).sum(-2)


@pytest.mark.parametrize("gates", [no_gates, no_gates_that_are_computed, one_gate, all_gates])
@pytest.mark.parametrize("size", ["2*N", 2])
@pytest.mark.parametrize("stacked", [False, True])
def test_no_gates_one_and_all(gates, size, stacked):
    def mixture(x: jax.Array) -> jax.Array:
        if stacked:
            hidden = jax.nn.relu(jnp.einsum("td,edf->tef", x, WEIGHTS.up[:KINDS]))
            return jnp.einsum("tef,efd,te->td", hidden, WEIGHTS.down[:KINDS], gates(x))
        return sum((gates(x)[:, e, None] * expert(e, x) for e in range(KINDS)), x)

    program = to_onnx(mixture, [(size, WIDTH)], assume=["finite"])
    for count in (2, 6) if size == "2*N" else (size,):
        assert_equal(program, mixture, count)
