"""Programs with sizes from data in branches, loops and transformations of JAX, and in layers of libraries."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx
from jax import lax, nn

from examples.programs import numbers, program

NUMBER = ((), np.int32)
INTEGERS = (("N",), np.int32)


# -- branches -------------------------------------------------------------------------------


@program(("N",))
def branch_inside():
    return lambda x: lax.cond(x.sum() > 0, lambda x: x[x > 0].sum(), lambda x: (x[x < 0] ** 2).sum(), x)


@program(("N",))
def branch_if_there_is_any():
    def fn(x):
        kept = x[x > 0]
        return lax.cond(jnp.asarray(kept.shape[0]) > 0, lambda: kept.sum() / kept.shape[0], lambda: 0.0)

    return fn


@program(("N",), ("N",))
def branches_of_different_sizes():
    def fn(x, y):
        chosen = lax.cond(x.sum() > y.sum(), lambda x, y: (x[x > 0], x), lambda x, y: (y[y > 0], y), x, y)
        return chosen[0] * 2, chosen[1].sum() + chosen[0].shape[0]

    return fn


@program(("N",), NUMBER)
def branch_with_nothing():
    return lambda x, n: lax.cond(n > 4, lambda: x[x > 0], lambda: jnp.zeros(0))


@program(("N", 2), NUMBER)
def choice_of_parts():
    def fn(x, n):
        parts = [lambda x: x[x[:, 0] > 0], lambda x: x, lambda x: x[:n], lambda x: jnp.tile(x, (2, 1))]
        return lax.switch(n % 4, parts, x).sum(axis=0)

    return fn


@program(("N",), NUMBER)
def branches_in_branches():
    def fn(x, n):
        def inner():
            return lax.cond(n > 2, lambda: x[x > 0], lambda: x[x < 0])

        return lax.cond(n > 5, inner, lambda: jnp.arange(n) * 1.0)

    return fn


@program(("N",), NUMBER)
def select_of_equal_sizes():
    def fn(x, n):
        kept = x[x > 0]
        return jnp.where(n > 3, kept, -kept), lax.select(n > 3, kept, kept * 2)

    return fn


# -- loops ----------------------------------------------------------------------------------


@program(("N",))
def loop_over_a_selection():
    def fn(x):
        kept = x[x > 0]
        return lax.fori_loop(0, jnp.asarray(kept.shape[0]), lambda i, total: total * 0.5 + kept[i], 0.0)

    return fn


@program(("N", 2))
def scan_over_a_selection():
    def fn(x):
        def step(state, row):
            state = 0.5 * state + row
            return state, state.sum()

        return lax.scan(step, jnp.zeros(2), x[x[:, 0] > 0])

    return fn


@program(("N", 2))
def backward_scan_over_a_selection():
    def fn(x):
        return lax.scan(lambda s, row: (s + row, (s, row.max())), jnp.ones(2), x[x[:, 0] > 0], reverse=True)

    return fn


@program(("N",), NUMBER)
def scan_of_a_computed_length():
    def fn(x, n):
        return lax.scan(lambda s, i: (jnp.tanh(s + i), s[0]), x, jnp.arange(n) * 0.1)

    return fn


@program(("N", 2))
def map_over_a_selection():
    return lambda x: lax.map(lambda row: nn.softmax(row), x[x[:, 1] > 0])


@program(("B", "T"))
def map_with_selections_inside():
    def fn(x):
        return lax.map(lambda row: (row[row > 0].sum(), jnp.unique(jnp.round(row)).shape[0] + 0 * row.sum()), x)

    return fn


@program(("B", "T"))
def scan_with_selections_inside():
    def fn(x):
        def step(total, row):
            kept = row[row > total]
            return total + kept.sum(), (jnp.sort(row), kept.max(initial=-1.0))

        return lax.scan(step, 0.0, x)

    return fn


@program(("B", "T"), NUMBER)
def loop_with_parts_inside():
    def fn(x, n):
        return lax.fori_loop(0, n, lambda i, s: s + x[0, :i].sum() + jnp.arange(i).sum(), 0.0)

    return fn


@program(("N",))
def while_some_are_left():
    def fn(x):
        def step(state):
            i, left = state
            return i + 1, left & (jnp.cumsum(left) > 1)

        count, left = lax.while_loop(lambda s: s[1].any() & (s[0] < 9), step, (0, x > 0))
        return count, x[left]

    return fn


@program(("N",))
def while_with_counts_inside():
    def fn(x):
        return lax.while_loop(lambda s: (x[x > s].shape[0] + jnp.zeros(())) > 1, lambda s: s + 0.5, -2.0)

    return fn


@program(("N",))
def carry_of_a_selection():
    def fn(x):
        kept = x[x > 0]
        return lax.fori_loop(0, 3, lambda i, y: y * 0.5 + kept, kept), lax.scan(
            lambda y, w: (y + w, y.sum()), kept, jnp.arange(3.0)
        )

    return fn


@program(("N",))
def associative_scan_of_a_selection():
    return lambda x: (lax.associative_scan(jnp.add, x[x > 0]), lax.cummax(x[x > 0]), jnp.cumprod(x[x > 0]))


@program(("B", "T"), (("B",), np.int32))
def python_loop_over_rows():
    def fn(x, lengths):
        parts = [x[i % x.shape[0]][: lengths[0]] for i in range(3)]
        return jnp.concatenate(parts), sum(part.sum() for part in parts)

    return fn


# -- transformations ------------------------------------------------------------------------


@program(("N", 3))
def vmap_over_a_selection():
    weights = numbers(3, 2)
    return lambda x: jax.vmap(lambda row: jnp.tanh(row @ weights))(x[x[:, 0] > 0])


@program(("B", "T"))
def vmap_with_one_mask():
    return lambda x: jax.vmap(lambda row: row[x[0] > 0] - row.mean())(x)


@program(("N",), ("T",))
def vmap_of_vmap():
    def fn(x, y):
        return jax.vmap(lambda a: jax.vmap(lambda b: jnp.abs(a - b))(y[y > 0]))(x[x > 0])

    return fn


@program(("N",), NUMBER)
def vmap_over_a_range():
    return lambda x, n: jax.vmap(lambda i: x * i)(jnp.arange(n))


@program(("B", "T"), NUMBER)
def vmap_with_a_shared_number():
    return lambda x, n: jax.vmap(lambda row, k: row[:k].sum(), in_axes=(0, None))(x, n)


@program(("N",))
def gradient_through_a_mask():
    return jax.grad(lambda x: (jnp.sin(x[x > 0]) ** 2).sum())


@program(("N", 2), (2,))
def gradient_of_weights():
    return jax.value_and_grad(lambda x, w: ((x[x[:, 0] > 0] @ w) ** 2).sum(), argnums=1)


@program(("N",), NUMBER)
def gradient_through_parts():
    return jax.grad(lambda x, n: (x[:n] ** 2).sum() + (jnp.pad(x, (0, n), constant_values=2) ** 2).sum())


@program(("N",))
def gradient_through_an_update():
    return jax.grad(lambda x: (x.at[x > 0].set(2 * x[x > 0]) ** 2).sum())


@program(("N",), INTEGERS)
def gradient_through_segments():
    def loss(x, segments):
        values, places = jnp.unique(segments, return_inverse=True)
        return (jax.ops.segment_sum(x, places, values.shape[0]) ** 2).sum()

    return jax.grad(loss)


@program(("N",), INTEGERS)
def gradient_through_repetition():
    return jax.grad(lambda x, counts: (jnp.repeat(x, counts % 3) ** 2).sum())


@program(("N",))
def gradient_in_a_branch():
    def loss(x):
        return lax.cond(x.sum() > 0, lambda x: (x[x > 0] ** 3).sum(), lambda x: x.sum(), x)

    return jax.grad(loss)


@program(("N",))
def gradient_through_a_scan():
    return jax.grad(lambda x: lax.scan(lambda s, v: (jnp.tanh(s + v), s), 0.0, x[x > 0])[0])


@program(("N",))
def jacobian_of_a_selection():
    return lambda x: (jax.jacobian(lambda x: x[x > 0] ** 2)(x), jax.jvp(lambda x: x[x > 0] ** 2, (x,), (x,)))


@program(("N",))
def pullback_of_a_selection():
    def fn(x):
        kept, pullback = jax.vjp(lambda x: x[x > 0] ** 2, x)
        return pullback(jnp.ones_like(kept))

    return fn


@program(("N",))
def jitted_by_the_user():
    @functools.partial(jax.jit, static_argnames="power")
    def part(x, power):
        return x[x > 0] ** power

    return lambda x: (part(x, power=2).sum(), part(-x, power=3))


@program(("N",), NUMBER)
def jitted_with_a_number():
    @jax.jit
    def part(x, n):
        return jnp.concatenate([x[:n], jnp.zeros(n)])

    return lambda x, n: part(part(x, n), n)


@program(("N",))
def own_derivative():
    @jax.custom_jvp
    def soft(x):
        return jnp.log1p(jnp.exp(x))

    soft.defjvp(lambda xs, ts: (soft(xs[0]), nn.sigmoid(xs[0]) * ts[0]))
    return jax.grad(lambda x: soft(x[x > 0]).sum())


@program(("N", 2), ("N",))
def dictionaries():
    def fn(points, scores):
        return jax.tree.map(lambda x: x[scores > 0], {"points": points, "scores": scores})

    return fn


# -- layers ---------------------------------------------------------------------------------


class Pruned(nnx.Module):
    """An encoder that leaves out the tokens of low scores."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.score = nnx.Linear(8, 1, rngs=rngs)
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        kept = x[self.score(x)[:, 0] > 0]
        tokens = jnp.concatenate([x[:1], kept])
        return tokens + self.attention(self.norm(tokens))


@program(("T", 8))
def tokens_pruned_by_nnx():
    return Pruned(nnx.Rngs(0))


@program(("B", "T", 8), NUMBER)
def batch_shortened_for_nnx():
    norm, attention = nnx.RMSNorm(8, rngs=nnx.Rngs(0)), nnx.MultiHeadAttention(2, 8, decode=False, rngs=nnx.Rngs(1))
    return lambda x, n: attention(norm(x[:, : n + 1]))


@program(INTEGERS)
def embedding_by_nnx():
    embed, normal = nnx.Embed(10, 8, rngs=nnx.Rngs(0)), nnx.BatchNorm(8, use_running_average=True, rngs=nnx.Rngs(0))
    return lambda tokens: nnx.relu(normal(embed(tokens[tokens > 3])))


@program(("T", 3), NUMBER)
def convolution_by_nnx():
    conv = nnx.Conv(3, 4, kernel_size=(3,), rngs=nnx.Rngs(0))
    return lambda x, n: nnx.gelu(conv(x[None, : n + 1]))


@program(("B", "T", 3), NUMBER)
def recurrence_by_nnx():
    layer = nnx.RNN(nnx.LSTMCell(3, 4, rngs=nnx.Rngs(0)))
    return lambda x, n: layer(x[:, : n + 1])


class Chosen(linen.Module):
    """A layer for rows that are not zero, whose results go back to their places."""

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        mask = (x > 0).any(-1)
        hidden = linen.Dense(4)(linen.relu(linen.LayerNorm()(linen.Dense(8)(x[mask]))))
        return jnp.zeros_like(x).at[mask].set(hidden)


@program(("N", 4))
def rows_chosen_by_linen():
    model = Chosen()
    with jax.disable_jit():  # Linen traces the first call to find its variables
        variables = model.init(jax.random.key(0), jnp.ones((2, 4)))
    return functools.partial(model.apply, variables)


class Gated(eqx.Module):
    """Experts, each of which computes its own rows."""

    router: eqx.nn.Linear
    experts: list[eqx.nn.MLP]

    def __init__(self, key: jax.Array) -> None:
        first, *others = jax.random.split(key, 4)
        self.router = eqx.nn.Linear(4, 3, key=first)
        self.experts = [eqx.nn.MLP(4, 4, 8, 1, key=one) for one in others]

    def __call__(self, x: jax.Array) -> jax.Array:
        chosen = jnp.argmax(jax.vmap(self.router)(x), -1)
        for number, expert in enumerate(self.experts):
            (places,) = jnp.nonzero(chosen == number)
            x = x.at[places].add(jax.vmap(expert)(x[places]))
        return x


@program(("N", 4))
def experts_by_equinox():
    return Gated(jax.random.key(0))


@program(("N", 4))
def jitted_by_equinox():
    layer = eqx.nn.Linear(4, 2, key=jax.random.key(0))

    @eqx.filter_jit
    def call(layer: Any, x: jax.Array) -> jax.Array:
        return jax.vmap(layer)(x[x[:, 0] > 0])

    return functools.partial(call, layer)


@program(("N", 4))
def rows_chosen_by_haiku():
    model: Any = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([8, 2])(x)))
    variables = model.init(jax.random.key(0), jnp.ones((1, 4)))
    return lambda x: model.apply(variables, x[x[:, 0] > 0])


# -- what no model can be -------------------------------------------------------------------


@program(("N",), refusal="jax.lax.cond chooses between computations")
def question_to_a_size():
    def fn(x):
        kept = x[x > 0]
        return kept.mean() if kept.shape[0] > 3 else x.mean()

    return fn


@program(("N",), refusal="whether mask == 0")
def truth_of_a_size():
    def fn(x):
        kept = x[x > 0]
        return kept.sum() if kept.shape[0] else x.sum()

    return fn


@program(("N",), refusal="jax.lax.fori_loop counts to it")
def length_of_a_selection():
    return lambda x: jnp.zeros(len(x[x > 0]))


@program(("N",), NUMBER, refusal="jax.lax.fori_loop counts to such a number")
def loop_of_python():
    return lambda x, n: sum(x * i for i in range(n))


@program(("N",), refusal="one shape in all iterations")
def carry_that_shrinks():
    return lambda x: lax.while_loop(lambda y: y.shape[0] + y.sum() > 3, lambda y: y[y > 0], x)


@program(("B", "T"), refusal="another one in each iteration of a scan")
def rows_of_different_lengths():
    return lambda x: lax.map(lambda row: row[row > 0], x)


@program(("B", "T"), refusal="another one for each example of a jax.vmap")
def examples_of_different_sizes():
    return jax.vmap(lambda row: jnp.unique(row))


@program(("N",), ("N",), refusal="Sizes of different operations may differ")
def sizes_that_meet():
    return lambda x, y: x[x > 0] + y[y > 0]


@program(("N",), refusal="size(at_least=1)")
def greatest_of_none():
    return lambda x: x[x > 0].max()


@program("key", NUMBER, refusal="An array has no numbers while a function is traced")
def order_at_random():
    return lambda key, n: jax.random.permutation(key, n)


@program((("N",), np.int32), refusal="jax.lax.fori_loop counts to it")
def as_many_parts_as_there_are():
    return lambda places: jnp.split(jnp.arange(9), jnp.unique(places))
