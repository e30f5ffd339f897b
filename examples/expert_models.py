"""Mixtures of experts as different authors write them: [T, 64] → [T, 64], two of sixteen experts."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

__all__ = [
    "CHOSEN",
    "DENSE",
    "DOWN",
    "EXPERTS",
    "GATE",
    "ROUTER",
    "SELECTED",
    "UP",
    "WEIGHTED",
    "WIDTH",
    "Mixture",
    "gates_by_one_hot",
]

WIDTH, HIDDEN, EXPERTS, CHOSEN = 64, 128, 16, 2

Mixture = Callable[[jax.Array], jax.Array]


def _weights(*shape: int) -> np.ndarray:
    return (0.1 * np.random.default_rng(sum(shape)).standard_normal(shape)).astype(np.float32)


ROUTER = 10 * _weights(WIDTH, EXPERTS)
GATE, UP, DOWN = (
    _weights(EXPERTS, WIDTH, HIDDEN),
    _weights(EXPERTS, WIDTH, HIDDEN) + 0.01,
    _weights(EXPERTS, HIDDEN, WIDTH),
)
BIAS, OUT_BIAS = _weights(EXPERTS, HIDDEN), _weights(EXPERTS, WIDTH)


def _chosen(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The probabilities and numbers of the chosen experts."""
    weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ ROUTER), CHOSEN)
    return weights / weights.sum(-1, keepdims=True), chosen


def gates_by_one_hot(x: jax.Array) -> jax.Array:
    weights, chosen = _chosen(x)
    return (jax.nn.one_hot(chosen, EXPERTS) * weights[..., None]).sum(-2)


def gates_by_einsum(x: jax.Array) -> jax.Array:
    weights, chosen = _chosen(x)
    return jnp.einsum("...k,...ke->...e", weights, jax.nn.one_hot(chosen, EXPERTS))


def gates_by_scatter(x: jax.Array) -> jax.Array:
    weights, chosen = _chosen(x)
    return jnp.zeros((x.shape[0], EXPERTS)).at[jnp.arange(x.shape[0])[:, None], chosen].set(weights)


def gates_by_where(x: jax.Array) -> jax.Array:
    """As Mixtral computes them: the softmax of the chosen logits, all others being minus infinity."""
    logits = x @ ROUTER
    _, chosen = jax.lax.top_k(logits, CHOSEN)
    is_chosen = (chosen[..., None] == jnp.arange(EXPERTS)).any(-2)
    return jax.nn.softmax(jnp.where(is_chosen, logits, -jnp.inf))


def gates_of_groups(x: jax.Array) -> jax.Array:
    """As DeepSeek computes them: sigmoids, of which the best two of the best two groups of four, scaled."""
    scores = jax.nn.sigmoid(x @ ROUTER)
    groups = scores.reshape(*x.shape[:-1], 4, EXPERTS // 4)
    _, best = jax.lax.top_k(jax.lax.top_k(groups, 2)[0].sum(-1), 2)
    is_best = jax.nn.one_hot(best, 4).sum(-2)[..., None]
    masked = jnp.where(jnp.broadcast_to(is_best, groups.shape) > 0, groups, 0).reshape(scores.shape)
    _, chosen = jax.lax.top_k(masked, CHOSEN)
    weights = jnp.take_along_axis(scores, chosen, axis=-1)
    weights = 2.5 * weights / (weights.sum(-1, keepdims=True) + 1e-20)
    return (jax.nn.one_hot(chosen, EXPERTS) * weights[..., None]).sum(-2)


def _by_einsum(gates: Callable[[jax.Array], jax.Array]) -> Mixture:
    def mixture(x: jax.Array) -> jax.Array:
        hidden = jax.nn.silu(jnp.einsum("td,edf->tef", x, GATE)) * jnp.einsum("td,edf->tef", x, UP)
        return jnp.einsum("tef,efd,te->td", hidden, DOWN, gates(x))

    return mixture


def experts_first(x: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(jnp.einsum("td,edf->etf", x, UP) + BIAS[:, None])
    made = jnp.einsum("etf,efd->etd", hidden, DOWN) + OUT_BIAS[:, None]
    return jnp.einsum("etd,te->td", made, gates_by_one_hot(x))


def sum_of_products(x: jax.Array) -> jax.Array:
    hidden = jax.nn.gelu(jnp.einsum("td,edf->tef", x, UP) + BIAS)
    return (jnp.einsum("tef,efd->ted", hidden, DOWN) * gates_by_scatter(x)[..., None]).sum(1)


def gate_and_up_joined(x: jax.Array) -> jax.Array:
    gate, up = jnp.split(jnp.einsum("td,edf->tef", x, np.concatenate([GATE, UP], -1)), 2, axis=-1)
    return jnp.einsum("tef,efd,te->td", jax.nn.silu(gate) * up, DOWN, gates_by_one_hot(x))


def normalised(x: jax.Array) -> jax.Array:
    """A layer norm and a softmax in each expert."""
    hidden = jnp.einsum("td,edf->tef", x, UP)
    hidden = (hidden - hidden.mean(-1, keepdims=True)) * jax.lax.rsqrt(hidden.var(-1, keepdims=True) + 1e-6)
    return jnp.einsum("tef,efd,te->td", jax.nn.softmax(hidden), DOWN, gates_by_one_hot(x))


def by_vmap(x: jax.Array) -> jax.Array:
    def expert(gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
        return (jax.nn.silu(x @ gate) * (x @ up)) @ down

    made = jax.vmap(expert)(GATE, UP, DOWN)
    return (gates_by_one_hot(x).T[..., None] * made).sum(0)


def with_shared_expert(x: jax.Array) -> jax.Array:
    return x + jax.nn.silu(x @ GATE[0]) @ DOWN[0] + _by_einsum(gates_of_groups)(x)


def by_loop(x: jax.Array) -> jax.Array:
    gates, result = gates_by_one_hot(x), jnp.zeros_like(x)
    for e in range(EXPERTS):
        result += gates[:, e : e + 1] * ((jax.nn.silu(x @ GATE[e]) * (x @ UP[e]) + BIAS[e]) @ DOWN[e])
    return result


def by_loop_of_comparisons(x: jax.Array) -> jax.Array:
    weights, chosen = _chosen(x)
    result = jnp.zeros_like(x)
    for e in range(EXPERTS):
        gate = jnp.where(chosen == e, weights, 0).sum(-1, keepdims=True)
        result += gate * (jax.nn.relu(x @ UP[e]) @ DOWN[e])
    return x + result


class Expert(nnx.Module):
    """[T, 64] → [T, 64]."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up, self.down = nnx.Linear(WIDTH, HIDDEN, rngs=rngs), nnx.Linear(HIDDEN, WIDTH, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.down(nnx.gelu(self.up(x)))


class Modules(nnx.Module):
    """A router and a list of experts, each a module."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.router = nnx.Linear(WIDTH, EXPERTS, use_bias=False, rngs=rngs)
        self.experts = nnx.List([Expert(rngs) for _ in range(EXPERTS)])

    def __call__(self, x: jax.Array) -> jax.Array:
        weights, chosen = jax.lax.top_k(jax.nn.softmax(self.router(x)), CHOSEN)
        gates = (jax.nn.one_hot(chosen, EXPERTS) * weights[..., None]).sum(-2)
        return sum((gates[..., e, None] * expert(x) for e, expert in enumerate(self.experts)), jnp.zeros_like(x))


def of_modules(x: jax.Array) -> jax.Array:
    return Modules(nnx.Rngs(0))(x)


#: Gates are numbers, most of them zero.
WEIGHTED: dict[str, Mixture] = {
    "einsum_of_one_hot": _by_einsum(gates_by_one_hot),
    "einsum_of_einsum": _by_einsum(gates_by_einsum),
    "einsum_of_scatter": _by_einsum(gates_by_scatter),
    "einsum_of_masked_softmax": _by_einsum(gates_by_where),
    "einsum_of_groups": _by_einsum(gates_of_groups),
    "experts_first": experts_first,
    "sum_of_products": sum_of_products,
    "gate_and_up_joined": gate_and_up_joined,
    "normalised": normalised,
    "vmap": by_vmap,
    "shared_expert": with_shared_expert,
    "loop": by_loop,
    "loop_of_comparisons": by_loop_of_comparisons,
    "modules": of_modules,
}


def chain_of_where(x: jax.Array) -> jax.Array:
    chosen, result = (x @ ROUTER).argmax(-1), x
    for e in range(EXPERTS):
        result = jnp.where((chosen == e)[:, None], jax.nn.relu(x @ UP[e]) @ DOWN[e], result)
    return result


def sum_of_where(x: jax.Array) -> jax.Array:
    (_, chosen), result = _chosen(x), jnp.zeros_like(x)
    for e in range(EXPERTS):
        result += jnp.where((chosen == e).any(-1)[:, None], jax.nn.relu(x @ UP[e]) @ DOWN[e], 0)
    return result


def where_in_einsum(x: jax.Array) -> jax.Array:
    _, chosen = _chosen(x)
    is_chosen = (chosen[..., None] == jnp.arange(EXPERTS)).any(-2)
    made = jnp.einsum("tef,efd->ted", jax.nn.relu(jnp.einsum("td,edf->tef", x, UP)), DOWN)
    return jnp.where(is_chosen[..., None], made, 0).sum(1)


#: Booleans select what counts.
SELECTED: dict[str, Mixture] = {
    "chain_of_where": chain_of_where,
    "sum_of_where": sum_of_where,
    "where_in_einsum": where_in_einsum,
}


def softmax_of_all(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x @ ROUTER)


def threshold(x: jax.Array) -> jax.Array:
    probabilities = jax.nn.softmax(x @ ROUTER)
    return jnp.where(probabilities > 0.01, probabilities, 0)


def all_chosen(x: jax.Array) -> jax.Array:
    weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ ROUTER), EXPERTS)
    return (jax.nn.one_hot(chosen, EXPERTS) * weights[..., None]).sum(-2)


def not_quite_zero(x: jax.Array) -> jax.Array:
    return gates_by_one_hot(x) + 1e-3


def exponentials(x: jax.Array) -> jax.Array:
    return jnp.exp(gates_by_one_hot(x))


def tokens_mixed(x: jax.Array) -> jax.Array:
    """Experts that compute tokens of each other: the mean of all tokens is taken out."""
    hidden = jnp.einsum("td,edf->tef", x, UP)
    hidden = jax.nn.relu(hidden - hidden.mean(0, keepdims=True))
    return jnp.einsum("tef,efd,te->td", hidden, DOWN, gates_by_one_hot(x))


def experts_mixed(x: jax.Array) -> jax.Array:
    """The hidden features are a softmax over the experts."""
    hidden = jax.nn.softmax(jnp.einsum("td,edf->tef", x, UP), axis=1)
    return jnp.einsum("tef,efd,te->td", hidden, DOWN, gates_by_one_hot(x))


def also_returned(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    made = jnp.einsum("tef,efd->ted", jax.nn.relu(jnp.einsum("td,edf->tef", x, UP)), DOWN)
    return jnp.einsum("ted,te->td", made, gates_by_one_hot(x)), made.sum((0, 1))


def bias_behind_gates(x: jax.Array) -> jax.Array:
    """A bias of each expert is added to what it makes times its gate: it counts whatever the gate is."""
    made = jnp.einsum("tef,efd->ted", jax.nn.relu(jnp.einsum("td,edf->tef", x, UP)), DOWN)
    return (made * gates_by_one_hot(x)[..., None] + OUT_BIAS).sum(1)


#: Look-alikes, of which every expert counts for every token.
DENSE: dict[str, Callable[[jax.Array], object]] = {
    "softmax_of_all": _by_einsum(softmax_of_all),
    "threshold": _by_einsum(threshold),
    "all_chosen": _by_einsum(all_chosen),
    "not_quite_zero": _by_einsum(not_quite_zero),
    "exponentials": _by_einsum(exponentials),
    "tokens_mixed": tokens_mixed,
    "experts_mixed": experts_mixed,
    "also_returned": also_returned,
    "bias_behind_gates": bias_behind_gates,
}
