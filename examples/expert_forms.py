"""Mixtures of experts as authors write them: [T, width] → [T, width], two of so many experts for each token."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["CHOSEN", "Form", "Weights", "forms", "random_weights"]

CHOSEN = 2

Mixture = Callable[[jax.Array], jax.Array]
Gates = Callable[[jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class Form:
    """A writing of a mixture.

    Attributes:
      name: of whom and what.
      function: the mixture.
      needs_size: whether the function computes with the number of tokens as a number.
    """

    name: str
    function: Mixture
    needs_size: bool = False


@dataclasses.dataclass(frozen=True)
class Weights:
    """The router and the experts: [width, experts], then [experts, width, hidden] twice and [experts, hidden, width]."""

    router: np.ndarray
    gate: np.ndarray
    up: np.ndarray
    down: np.ndarray

    @property
    def experts(self) -> int:
        """Number of experts."""
        return self.up.shape[0]


def random_weights(experts: int, width: int, hidden: int) -> Weights:
    """Weights of which products neither grow nor vanish."""
    random = np.random.default_rng(0)
    shapes = (width, experts), (experts, width, hidden), (experts, width, hidden), (experts, hidden, width)
    return Weights(*((random.standard_normal(s) / math.sqrt(s[-2])).astype(np.float32) for s in shapes))


# -- routers ------------------------------------------------------------------------------------


def _chosen(w: Weights, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The normalised probabilities of the chosen experts, and their numbers."""
    gates, chosen = jax.lax.top_k(jax.nn.softmax(x @ w.router), CHOSEN)
    return gates / gates.sum(-1, keepdims=True), chosen


def _one_hot_gates(w: Weights, x: jax.Array) -> jax.Array:
    gates, chosen = _chosen(w, x)
    return (jax.nn.one_hot(chosen, w.experts) * gates[..., None]).sum(-2)


def _scattered_gates(w: Weights, x: jax.Array) -> jax.Array:
    """As MaxText's `reshape_and_update_weights`."""
    gates, chosen = _chosen(w, x)
    return jnp.zeros((x.shape[0], w.experts)).at[jnp.arange(x.shape[0])[:, None], chosen].set(gates)


def _grouped_gates(w: Weights, x: jax.Array) -> jax.Array:
    """As DeepSeek-V3: sigmoids, of which the best two of the best half of four groups."""
    scores = jax.nn.sigmoid(x @ w.router)
    groups = scores.reshape(x.shape[0], 4, w.experts // 4)
    _, best = jax.lax.top_k(jax.lax.top_k(groups, 2)[0].sum(-1), 2)
    is_best = jax.nn.one_hot(best, 4).sum(-2)
    masked = jnp.where(is_best[..., None] > 0, groups, 0.0).reshape(scores.shape)
    _, chosen = jax.lax.top_k(masked, CHOSEN)
    gates = jnp.take_along_axis(scores, chosen, axis=-1)
    gates = 2.5 * gates / (gates.sum(-1, keepdims=True) + 1e-20)
    return (jax.nn.one_hot(chosen, w.experts) * gates[..., None]).sum(-2)


# -- all experts, of which most gates are zero --------------------------------------------------


def _expert(w: Weights, x: jax.Array, e: int) -> jax.Array:
    return (jax.nn.silu(x @ w.gate[e]) * (x @ w.up[e])) @ w.down[e]


def _shared_expert(w: Weights, x: jax.Array) -> jax.Array:
    """An expert for all tokens, with weights of its own."""
    own = (np.ascontiguousarray(one[:1, ::-1]) for one in (w.gate, w.up, w.down))
    return _expert(Weights(w.router, *own), x, 0)


def _einsum(w: Weights, gates: Callable[[Weights, jax.Array], jax.Array]) -> Mixture:
    def mixture(x: jax.Array) -> jax.Array:
        hidden = jax.nn.silu(jnp.einsum("td,edf->tef", x, w.gate)) * jnp.einsum("td,edf->tef", x, w.up)
        made = jnp.einsum("tef,efd->ted", hidden, w.down)
        return jnp.einsum("ted,te->td", made, gates(w, x))

    return mixture


def _gates_first(w: Weights) -> Mixture:
    """Hidden features are multiplied by gates, then summed over with the experts, as `einsum` chooses where they are few."""

    def mixture(x: jax.Array) -> jax.Array:
        hidden = jax.nn.silu(jnp.einsum("td,edf->tef", x, w.gate)) * jnp.einsum("td,edf->tef", x, w.up)
        return jnp.einsum("tef,efd->td", hidden * _one_hot_gates(w, x)[..., None], w.down)

    return mixture


def _deepseek(w: Weights) -> Mixture:
    routed = _einsum(w, _grouped_gates)
    return lambda x: routed(x) + _shared_expert(w, x)


def _keras_hub(w: Weights) -> Mixture:
    """As the bank of experts of keras-hub's Mixtral and Qwen-MoE."""

    def mixture(x: jax.Array) -> jax.Array:
        hidden = jax.nn.silu(jnp.einsum("th,ehm->etm", x, w.gate)) * jnp.einsum("th,ehm->etm", x, w.up)
        made = jnp.einsum("eti,eih->eth", hidden, w.down)
        return (made * _one_hot_gates(w, x).T[:, :, None]).sum(0)

    return mixture


def _vmap(w: Weights) -> Mixture:
    def mixture(x: jax.Array) -> jax.Array:
        made = jax.vmap(lambda g, u, d: (jax.nn.silu(x @ g) * (x @ u)) @ d)(w.gate, w.up, w.down)
        return jnp.einsum("etd,te->td", made, _one_hot_gates(w, x))

    return mixture


def _loop(w: Weights) -> Mixture:
    """As the Mixtral of Flax: each expert computes all tokens."""

    def mixture(x: jax.Array) -> jax.Array:
        gates, chosen = _chosen(w, x)
        total = jnp.zeros_like(x)
        for e in range(w.experts):
            gate = jnp.where(chosen == e, gates, 0).sum(-1, keepdims=True)
            total += _expert(w, x, e) * gate
        return total

    return mixture


def _loop_gates_first(w: Weights) -> Mixture:
    """A loop in which hidden features are multiplied by the gate."""

    def mixture(x: jax.Array) -> jax.Array:
        gates, total = _one_hot_gates(w, x), jnp.zeros_like(x)
        for e in range(w.experts):
            total += (gates[:, e, None] * jax.nn.silu(x @ w.gate[e]) * (x @ w.up[e])) @ w.down[e]
        return total

    return mixture


def _qwen(w: Weights) -> Mixture:
    """Routed experts in a loop, and a shared expert with a gate of its own."""
    routed = _loop(w)
    return lambda x: routed(x) + jax.nn.sigmoid(x @ w.router[:, :1]) * _shared_expert(w, x)


def _tunix(w: Weights) -> Mixture:
    """As tunix' Qwen3: tokens are masked for each expert, and what the experts make is stacked."""

    def mixture(x: jax.Array) -> jax.Array:
        gates, chosen = _chosen(w, x)
        mask = jnp.swapaxes(jax.nn.one_hot(chosen, w.experts), -1, -2)
        inputs = jnp.einsum("tid,tek->ted", x[:, None], mask)
        made = jnp.stack([_expert(w, inputs[:, e], e) for e in range(w.experts)], 1)
        weights = mask * jnp.tile(gates[:, None], (1, w.experts, 1))
        return jnp.einsum("ted,tek->td", made, weights)

    return mixture


def _where(w: Weights) -> Mixture:
    def mixture(x: jax.Array) -> jax.Array:
        gates, chosen = _chosen(w, x)
        total = jnp.zeros_like(x)
        for e in range(w.experts):
            gate = jnp.where(chosen == e, gates, 0).sum(-1, keepdims=True)
            total += jnp.where((chosen == e).any(-1, keepdims=True), gate * _expert(w, x, e), 0)
        return total

    return mixture


def _switch(w: Weights) -> Mixture:
    """`lax.switch` for each token and chosen expert, under `vmap`."""

    def mixture(x: jax.Array) -> jax.Array:
        gates, chosen = _chosen(w, x)
        experts = [lambda row, e=e: _expert(w, row, e) for e in range(w.experts)]
        made = jax.vmap(lambda row, own: jax.vmap(lambda e: jax.lax.switch(e, experts, row))(own))(x, chosen)
        return jnp.einsum("tkd,tk->td", made, gates)

    return mixture


# -- loops of JAX over stacked experts ----------------------------------------------------------


def _scan(w: Weights) -> Mixture:
    def mixture(x: jax.Array) -> jax.Array:
        def add(total: jax.Array, expert: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
            gate, up, down, own = expert
            return total + own[:, None] * ((jax.nn.silu(x @ gate) * (x @ up)) @ down), None

        return jax.lax.scan(add, jnp.zeros_like(x), (w.gate, w.up, w.down, _one_hot_gates(w, x).T))[0]

    return mixture


def _map(w: Weights) -> Mixture:
    def mixture(x: jax.Array) -> jax.Array:
        made = jax.lax.map(lambda own: (jax.nn.silu(x @ own[0]) * (x @ own[1])) @ own[2], (w.gate, w.up, w.down))
        return jnp.einsum("etd,te->td", made, _one_hot_gates(w, x))

    return mixture


def _adder(w: Weights, x: jax.Array) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Adds to a sum what one expert makes, times its gates."""
    gate, up, down = (jnp.asarray(one) for one in (w.gate, w.up, w.down))
    gates = _one_hot_gates(w, x)

    def add(e: jax.Array, total: jax.Array) -> jax.Array:
        return total + gates[:, e, None] * ((jax.nn.silu(x @ gate[e]) * (x @ up[e])) @ down[e])

    return add


def _fori_loop(w: Weights) -> Mixture:
    return lambda x: jax.lax.fori_loop(0, w.experts, _adder(w, x), jnp.zeros_like(x))


def _while_loop(w: Weights) -> Mixture:
    def mixture(x: jax.Array) -> jax.Array:
        add = _adder(w, x)
        start = (jnp.int32(0), jnp.zeros_like(x))
        return jax.lax.while_loop(lambda state: state[0] < w.experts, lambda state: (state[0] + 1, add(*state)), start)[
            1
        ]

    return mixture


# -- the chosen experts alone -------------------------------------------------------------------


def _ragged_dot(w: Weights) -> Mixture:
    """As MaxText's `sparse_matmul`: tokens sorted by expert, and back."""

    def mixture(x: jax.Array) -> jax.Array:
        gates, chosen = _chosen(w, x)
        order = jnp.argsort(chosen.reshape(-1))
        sizes = jnp.bincount(chosen.reshape(-1), length=w.experts)
        rows = x[order // CHOSEN]
        hidden = jax.nn.silu(jax.lax.ragged_dot(rows, w.gate, sizes)) * jax.lax.ragged_dot(rows, w.up, sizes)
        made = jax.lax.ragged_dot(hidden, w.down, sizes)[jnp.argsort(order)]
        return jnp.einsum("tkd,tk->td", made.reshape(*chosen.shape, -1), gates)

    return mixture


def _gathered(w: Weights) -> Mixture:
    """As gpt-oss: the weights of the chosen experts are gathered for each token."""

    def mixture(x: jax.Array) -> jax.Array:
        gates, chosen = _chosen(w, x)
        gate, up, down = (jnp.asarray(one)[chosen] for one in (w.gate, w.up, w.down))
        hidden = jax.nn.silu(jnp.einsum("td,tkdf->tkf", x, gate)) * jnp.einsum("td,tkdf->tkf", x, up)
        return jnp.einsum("tkf,tkfd,tk->td", hidden, down, gates)

    return mixture


def _gathered_by_token(w: Weights) -> Mixture:
    """A token by itself, under `vmap`; each of its experts by `take`."""

    def of_token(row: jax.Array) -> jax.Array:
        gates, chosen = _chosen(w, row)
        gate, up, down = (jnp.take(one, chosen, axis=0) for one in (w.gate, w.up, w.down))
        hidden = jax.nn.silu(jnp.einsum("d,kdf->kf", row, gate)) * jnp.einsum("d,kdf->kf", row, up)
        return gates @ jnp.einsum("kf,kfd->kd", hidden, down)

    return jax.vmap(of_token)


# -- places of limited capacity -----------------------------------------------------------------


def _places(w: Weights, chosen: jax.Array) -> tuple[jax.Array, int]:
    """The place of each chosen expert of each token among those of that expert, and the capacity."""
    capacity = max(4, math.ceil(1.25 * chosen.size / w.experts))
    is_chosen = jax.nn.one_hot(chosen.reshape(-1), w.experts, dtype=jnp.int32)
    place = (jnp.cumsum(is_chosen, 0) * is_chosen).max(-1) - 1
    return place.reshape(chosen.shape), capacity


def _by_capacity(w: Weights, x: jax.Array, combine: jax.Array) -> jax.Array:
    """The mixture of the gates [T, experts, capacity]."""
    taken = jnp.einsum("tec,td->ecd", (combine > 0).astype(x.dtype), x)
    hidden = jax.nn.silu(jnp.einsum("ecd,edf->ecf", taken, w.gate)) * jnp.einsum("ecd,edf->ecf", taken, w.up)
    return jnp.einsum("tec,ecd->td", combine, jnp.einsum("ecf,efd->ecd", hidden, w.down))


def _gshard(w: Weights) -> Mixture:
    """Two experts for each token, which drop the tokens beyond their capacity, as GShard, Flax' examples and MaxText."""

    def mixture(x: jax.Array) -> jax.Array:
        gates, chosen = _chosen(w, x)
        place, capacity = _places(w, chosen)
        combine = gates[..., None, None] * jax.nn.one_hot(chosen, w.experts)[..., None]
        return _by_capacity(w, x, (combine * jax.nn.one_hot(place, capacity)[..., None, :]).sum(1))

    return mixture


def _scattered_places(w: Weights) -> Mixture:
    """The gates are scattered to places; those beyond the capacity are dropped."""

    def mixture(x: jax.Array) -> jax.Array:
        gates, chosen = _chosen(w, x)
        place, capacity = _places(w, chosen)
        none = jnp.zeros((len(x), w.experts, capacity), x.dtype)
        return _by_capacity(w, x, none.at[jnp.arange(len(x))[:, None], chosen, place].set(gates, mode="drop"))

    return mixture


def _scattered_tokens(w: Weights) -> Mixture:
    """Tokens are scattered to slots, and what experts make of them is gathered, as the dispatchers of Flaxformer and V-MoE do."""

    def mixture(x: jax.Array) -> jax.Array:
        gates, chosen = _chosen(w, x)
        place, capacity = _places(w, chosen)
        at = chosen.reshape(-1), place.reshape(-1)
        copies = jnp.repeat(x, chosen.shape[1], axis=0)
        taken = jnp.zeros((w.experts, capacity, x.shape[1]), x.dtype).at[at].set(copies, mode="drop")
        hidden = jax.nn.silu(jnp.einsum("ecd,edf->ecf", taken, w.gate)) * jnp.einsum("ecd,edf->ecf", taken, w.up)
        made = jnp.einsum("ecf,efd->ecd", hidden, w.down)
        return (made.at[at].get(mode="fill", fill_value=0).reshape(*chosen.shape, -1) * gates[..., None]).sum(1)

    return mixture


def _switch_transformer(w: Weights) -> Mixture:
    """One expert for each token."""

    def mixture(x: jax.Array) -> jax.Array:
        probabilities = jax.nn.softmax(x @ w.router)
        chosen = probabilities.argmax(-1)
        place, capacity = _places(w, chosen)
        combine = jax.nn.one_hot(chosen, w.experts)[:, :, None] * jax.nn.one_hot(place, capacity)[:, None]
        return _by_capacity(w, x, combine * probabilities.max(-1)[:, None, None])

    return mixture


def forms(w: Weights) -> list[Form]:
    """All forms; the first is the plain one, which the others are compared with."""
    return [
        Form("einsum over all experts, gates by `one_hot`", _einsum(w, _one_hot_gates)),
        Form("einsum, gates before the last product", _gates_first(w)),
        Form("MaxText, dense: gates by scatter", _einsum(w, _scattered_gates)),
        Form("DeepSeek: best groups, a shared expert", _deepseek(w)),
        Form("keras-hub: experts first, sum of products", _keras_hub(w)),
        Form("`vmap` over experts", _vmap(w)),
        Form("Mixtral in Flax: Python loop", _loop(w)),
        Form("Python loop, gates before the last product", _loop_gates_first(w)),
        Form("Qwen-MoE: loop, a shared expert with a gate", _qwen(w)),
        Form("tunix: masked tokens, stacked results", _tunix(w)),
        Form("`where` in a loop", _where(w)),
        Form("`lax.switch` under `vmap`", _switch(w)),
        Form("`lax.scan` over experts", _scan(w)),
        Form("`lax.map` over experts", _map(w)),
        Form("`fori_loop` over experts", _fori_loop(w)),
        Form("`while_loop` over experts", _while_loop(w)),
        Form("MaxText, sparse: `ragged_dot`", _ragged_dot(w)),
        Form("gpt-oss: gathered weights", _gathered(w)),
        Form("gathered weights, `vmap` over tokens", _gathered_by_token(w)),
        Form("GShard: capacity, two experts", _gshard(w), needs_size=True),
        Form("Switch: capacity, one expert", _switch_transformer(w), needs_size=True),
        Form("capacity, gates scattered to places", _scattered_places(w), needs_size=True),
        Form("capacity, tokens scattered to slots", _scattered_tokens(w), needs_size=True),
    ]
