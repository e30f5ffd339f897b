"""Programs in JAX alone: arrays, derivatives, control flow, random numbers, models and algorithms written by hand."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from examples.programs import numbers, program

INTEGERS = (("B",), np.int32)


# -- arrays ---------------------------------------------------------------------------------


@program(("B", 4))
def linear_regression():
    weights, bias = numbers(4, 3), numbers(3)
    return lambda x: x @ weights + bias


@program(("B", 4))
def logistic_regression():
    weights = numbers(4)
    return lambda x: nn.sigmoid(x @ weights)


@program(("B", 4))
def selu_of_the_quickstart():
    return lambda x, alpha=1.67, scale=1.05: scale * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


@program(("N", 3))
def pairwise_distances():
    return lambda x: jnp.sqrt(jnp.sum((x[:, None] - x[None]) ** 2, -1) + 1e-9)


@program(("N", 3))
def covariance():
    return lambda x: (x - x.mean(0)).T @ (x - x.mean(0)) / x.shape[0]


@program(("B", 5))
def standardised_rows():
    return lambda x: (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1e-6)


@program((9,))
def moving_average():
    return lambda x: jnp.convolve(x, jnp.ones(3, x.dtype) / 3, mode="same")


@program(("T",))
def differences_of_a_signal():
    return lambda x: jnp.concatenate([x[:1], jnp.diff(x)])


@program(("B", 8, 8))
def blur():
    kernel = np.outer([1, 2, 1], [1, 2, 1]).astype(np.float32) / 16
    return jax.vmap(lambda image: jax.scipy.signal.convolve2d(image, kernel, mode="same"))


@program(("B", 6))
def polynomial():
    return lambda x: jnp.polyval(jnp.array([0.5, -1.0, 2.0, 3.0]), x)


@program(("B", 4), ("N", 4))
def nearest_neighbour():
    return lambda x, y: jnp.argmin(((x[:, None] - y[None]) ** 2).sum(-1), 1)


@program(("B", 10))
def top_three():
    return lambda x: lax.top_k(x, 3)


@program(("B", 10))
def nucleus_of_probabilities():
    def kept(logits):
        order = jnp.argsort(-logits, -1)
        sorted_probabilities = jnp.take_along_axis(nn.softmax(logits), order, -1)
        is_in = jnp.cumsum(sorted_probabilities, -1) - sorted_probabilities < 0.8
        return jnp.where(jnp.take_along_axis(is_in, jnp.argsort(order, -1), -1), logits, -jnp.inf)

    return kept


@program((("B", "T"), np.int32))
def one_hot_counts():
    return lambda tokens: nn.one_hot(tokens, 10).sum(1)


@program((("B", "T"), np.int32), (("B",), np.int32))
def length_mask():
    return lambda tokens, lengths: jnp.where(jnp.arange(tokens.shape[1]) < lengths[:, None], tokens, -1)


@program((("N",), np.int32), ("N", 3))
def segment_means():
    def means(groups, x):
        total = jax.ops.segment_sum(x, groups % 4, 4)
        count = jax.ops.segment_sum(jnp.ones(x.shape[0], x.dtype), groups % 4, 4)
        return total / jnp.maximum(count, 1)[:, None]

    return means


@program(("N", 3), ((6, 2), np.int32))
def message_passing():
    def step(nodes, edges):
        sent, received = edges[:, 0] % nodes.shape[0], edges[:, 1] % nodes.shape[0]
        return nn.relu(nodes + jnp.zeros_like(nodes).at[received].add(jnp.tanh(nodes[sent])))

    return step


@program((6, 2))
def rotations_in_the_plane():
    def rotated(x):
        angle = jnp.linspace(0, 1, x.shape[0])
        turn = jnp.stack(
            [jnp.stack([jnp.cos(angle), -jnp.sin(angle)], -1), jnp.stack([jnp.sin(angle), jnp.cos(angle)], -1)], -2
        )
        return jnp.einsum("tij,tj->ti", turn, x)

    return rotated


@program(("B", 8))
def histogram():
    return lambda x: jnp.histogram(x, bins=4, range=(-2, 2))[0]


@program(("B", 3, 3))
def batched_determinants():
    return lambda x: jnp.linalg.det(x + 3 * jnp.eye(3))


@program(("B", 4, 4), ("B", 4), rtol=1e-3)
def batched_solutions():
    return lambda a, b: jnp.linalg.solve(a + 5 * jnp.eye(4), b[..., None])[..., 0]


@program((6, 3), (6,), rtol=1e-3)
def least_squares():
    return lambda a, b: jnp.linalg.solve(a.T @ a + 0.1 * jnp.eye(3), a.T @ b)


@program((4, 4), rtol=1e-3)
def cholesky_of_a_kernel():
    return lambda x: jnp.linalg.cholesky(x @ x.T + 4 * jnp.eye(4))


@program(("T",))
def power_spectrum():
    return lambda x: jnp.abs(jnp.fft.rfft(x, 16)) ** 2


@program(("B", 8, 8, 3))
def patches():
    def split(x):
        return x.reshape(x.shape[0], 2, 4, 2, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape[0], 4, 48)

    return split


@program(("B", 8, 8, 3))
def normalised_and_resized_image():
    mean = np.array([0.5, 0.4, 0.3], np.float32)
    return lambda x: jax.image.resize((x - mean) / 0.2, (x.shape[0], 4, 4, 3), "bilinear")


@program(("B", 6))
def interpolated_table():
    return lambda x: jnp.interp(x, jnp.array([-1.0, 0.0, 2.0]), jnp.array([3.0, 1.0, 4.0]))


@program(("T",))
def searched_bins():
    return lambda x: jnp.searchsorted(jnp.array([-1.0, 0.0, 1.0]), x, side="right")


# -- derivatives ----------------------------------------------------------------------------


def predict(weights, x):
    return 0.5 * (jnp.tanh(x @ weights[:4] / 2 + weights[4]) + 1)


def loss(weights, x, y):
    label = predict(weights, x) * y + (1 - predict(weights, x)) * (1 - y)
    return -jnp.sum(jnp.log(label + 1e-3))


@program((5,), ("B", 4), ("B",))
def gradient_of_a_loss():
    return lambda w, x, y: jax.grad(loss)(w, x, nn.sigmoid(y))


@program((5,), ("B", 4), ("B",))
def value_and_gradient():
    return lambda w, x, y: jax.value_and_grad(loss)(w, x, nn.sigmoid(y))


@program((5,), ("B", 4))
def jacobians_forward_and_back():
    return lambda w, x: (jax.jacfwd(predict)(w, x), jax.jacrev(predict)(w, x))


@program((5,), ("B", 4), ("B",), rtol=1e-3)
def hessian_of_a_loss():
    return lambda w, x, y: jax.hessian(loss)(w, x, nn.sigmoid(y))


@program((5,), (5,), ("B", 4), ("B",), rtol=1e-3)
def hessian_times_vector():
    return lambda w, v, x, y: jax.jvp(lambda w: jax.grad(loss)(w, x, nn.sigmoid(y)), (w,), (v,))[1]


@program((5,), ("B", 4), ("B",))
def gradients_per_example():
    one = jax.grad(lambda w, x, y: loss(w, x[None], y[None]))
    return lambda w, x, y: jax.vmap(one, (None, 0, 0))(w, x, nn.sigmoid(y))


@program(("B",))
def fourth_derivative_of_tanh():
    derivative = jnp.tanh
    for _ in range(4):
        derivative = jax.grad(derivative)
    return jax.vmap(derivative)


@program(("B",))
def stable_log1pexp_with_its_own_jvp():
    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log(1 + jnp.exp(x))

    @log1pexp.defjvp
    def _(primals, tangents):
        return log1pexp(primals[0]), (1 - 1 / (1 + jnp.exp(primals[0]))) * tangents[0]

    return lambda x: (log1pexp(x), jax.vmap(jax.grad(log1pexp))(x))


@program(("B",))
def clipped_gradient_with_its_own_vjp():
    @jax.custom_vjp
    def clip_gradient(x):
        return x

    clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.5, 0.5),))
    return jax.grad(lambda x: jnp.sum(jnp.sin(clip_gradient(x) * 3)))


@program(("B",))
def straight_through_rounding():
    return jax.grad(lambda x: jnp.sum((x + lax.stop_gradient(jnp.round(x) - x)) ** 2))


@program(("B", 4))
def rematerialised_gradient():
    weights = numbers(4, 4)
    layer = jax.checkpoint(lambda x: jnp.sin(x @ weights))
    return jax.grad(lambda x: layer(layer(x)).sum())


@program((3,))
def implicit_square_root():
    def root(x):
        def step(guess):
            return 0.5 * (guess + x / guess)

        return lax.fori_loop(0, 8, lambda _, guess: step(guess), jnp.ones_like(x))

    return lambda x: root(jnp.abs(x) + 1)


@program((2,), rtol=1e-3)
def newton_steps_of_rosenbrock():
    def rosenbrock(x):
        return (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2

    def step(x, _):
        return x - jnp.linalg.solve(jax.hessian(rosenbrock)(x) + 30 * jnp.eye(2), jax.grad(rosenbrock)(x)), None

    return lambda x: lax.scan(step, x, None, length=4)[0]


@program((3,), (3,))
def vector_jacobian_product():
    return lambda x, v: jax.vjp(lambda x: jnp.stack([x[0] * x[1], jnp.sin(x[2]), x.sum() ** 2]), x)[1](v)[0]


@program((4,))
def linearised_function():
    def both(x):
        value, push = jax.linearize(lambda x: jnp.sin(x) * x.sum(), x)
        return value, push(jnp.ones_like(x)), push(x)

    return both


@program(("B", 3))
def divergence():
    def field(x):
        return jnp.array([x[0] * x[1], jnp.sin(x[1]), x[2] ** 3])

    return jax.vmap(lambda x: jnp.trace(jax.jacfwd(field)(x)))


# -- control flow ---------------------------------------------------------------------------


@program((), ("B",))
def branch():
    return lambda p, x: lax.cond(p > 0, lambda x: x + 1, lambda x: -x, x)


@program(((), np.int32), ("B",))
def switch():
    return lambda i, x: lax.switch(i % 4, [lambda x: x, jnp.sin, lambda x: x**2], x)


@program(("T", 3))
def cumulative_sum_by_a_scan():
    return lambda x: lax.scan(lambda total, row: (total + row, total), jnp.zeros(3), x)


@program(((), np.int32))
def factorial_by_a_while_loop():
    return lambda n: lax.while_loop(lambda s: s[0] > 1, lambda s: (s[0] - 1, s[1] * s[0]), (n % 8, 1))[1]


@program(((), np.int32), ((), np.int32))
def greatest_common_divisor():
    return lambda a, b: lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], lax.rem(s[0], s[1])), (a * 12, b * 18))[0]


@program(((), np.int32))
def fibonacci():
    return lambda n: lax.fori_loop(0, n, lambda _, s: (s[1], s[0] + s[1]), (0, 1))[0]


@program(("T", 2))
def exponential_moving_average():
    return lambda x: lax.scan(lambda c, row: (0.9 * c + 0.1 * row,) * 2, x[0], x)[1]


@program(("T", 2))
def running_maximum():
    return lambda x: lax.associative_scan(jnp.maximum, x)


@program(("T", 2), ("T", 2))
def linear_recurrence():
    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    return lambda a, b: lax.associative_scan(combine, (nn.sigmoid(a), b))[1]


@program(("T", 2))
def discounted_returns():
    return lambda rewards: lax.scan(lambda c, r: (r + 0.9 * c,) * 2, jnp.zeros(2), rewards, reverse=True)[1]


@program(("T", "B"), ("T", "B"))
def generalised_advantages():
    def advantages(rewards, values):
        deltas = rewards + 0.99 * jnp.concatenate([values[1:], jnp.zeros_like(values[:1])]) - values
        return lax.scan(lambda c, d: (d + 0.95 * c,) * 2, jnp.zeros_like(values[0]), deltas, reverse=True)[1]

    return advantages


@program(("B", 3))
def mapped_rows():
    return lambda x: lax.map(lambda row: jnp.outer(row, row), x)


@program(("N",))
def bubble_sort():
    def sort(x):
        def swap(j, x):
            a, b = x[j], x[j + 1]
            return x.at[j].set(jnp.minimum(a, b)).at[j + 1].set(jnp.maximum(a, b))

        return lax.fori_loop(0, x.shape[0], lambda _, x: lax.fori_loop(0, x.shape[0] - 1, swap, x), x)

    return sort


@program(((8, 8), np.int32))
def game_of_life():
    def step(_, cells):
        near = sum(jnp.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        return ((near == 3) | ((cells == 1) & (near == 2))).astype(cells.dtype)

    return lambda cells: lax.fori_loop(0, 3, step, cells % 2)


@program(("B",), ("B",))
def mandelbrot():
    def steps(x, y):
        c = x + 1j * y

        def step(state, _):
            z, n = state
            z = jnp.where(n >= 0, z, z**2 + c)
            return (z, n), None

        (z, _), _ = lax.scan(step, (c, jnp.full(c.shape, -1)), None, length=4)
        return jnp.abs(z) > 2

    return lambda x, y: steps(x / 3, y / 3)


@program((2,), ("T",))
def pendulum_by_runge_kutta():
    def derivative(state):
        return jnp.array([state[1], -jnp.sin(state[0])])

    def step(state, dt):
        k1 = derivative(state)
        k2 = derivative(state + 0.05 * k1)
        k3 = derivative(state + 0.05 * k2)
        k4 = derivative(state + 0.1 * k3)
        state = state + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4) + 0 * dt
        return state, state

    return lambda state, times: lax.scan(step, state, times)


@program((16,))
def heat_equation():
    def step(u, _):
        return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)), None

    return lambda u: lax.scan(step, u, None, length=10)[0]


@program(("N", 2), ("N", 2))
def gravity():
    def energy(x):
        apart = x[:, None] - x[None] + 10 * jnp.eye(x.shape[0])[..., None]
        return -jnp.sum(1 / jnp.sqrt((apart**2).sum(-1) + 1))

    def step(state, _):
        x, v = state
        v = v - 0.01 * jax.grad(energy)(x)
        return (x + 0.01 * v, v), energy(x)

    return lambda x, v: lax.scan(step, (x, v), None, length=5)


@program((5, 3), (4, 3), rtol=1e-3)
def sinkhorn():
    def plan(x, y):
        cost = ((x[:, None] - y[None]) ** 2).sum(-1)

        def step(_, fg):
            f = -nn.logsumexp(fg[1][None] - cost, 1)
            return f, -nn.logsumexp(f[:, None] - cost, 0)

        f, g = lax.fori_loop(0, 5, step, (jnp.zeros(5), jnp.zeros(4)))
        return jnp.exp(f[:, None] + g[None] - cost)

    return plan


@program(("N", 2), (3, 2))
def k_means():
    def step(centres, x):
        nearest = jnp.argmin(((x[:, None] - centres[None]) ** 2).sum(-1), 1)
        chosen = nn.one_hot(nearest, 3)
        return (chosen.T @ x) / jnp.maximum(chosen.sum(0), 1)[:, None]

    return lambda x, centres: lax.fori_loop(0, 3, lambda _, c: step(c, x), centres)


@program((4, 4), rtol=1e-3)
def power_iteration():
    def iterate(x):
        a = x @ x.T + jnp.eye(4)
        return lax.fori_loop(0, 12, lambda _, v: a @ v / jnp.linalg.norm(a @ v), jnp.ones(4))

    return iterate


@program((4, 4), (4,), rtol=1e-3)
def conjugate_gradients():
    return lambda a, b: jax.scipy.sparse.linalg.cg(lambda v: (a @ a.T + 4 * jnp.eye(4)) @ v, b)[0]


@program(("T", 3), (3, 3), (3,))
def viterbi():
    def decode(emissions, transitions, start):
        def step(scores, emission):
            every = scores[:, None] + transitions
            return every.max(0) + emission, every.argmax(0)

        scores, back = lax.scan(step, start + emissions[0], emissions[1:])
        last = scores.argmax()
        _, path = lax.scan(lambda state, row: (row[state], state), last, back, reverse=True)
        return path, scores.max()

    return decode


@program(("T", 3), (3, 3))
def forward_algorithm():
    def likelihood(emissions, transitions):
        step = lambda a, e: (nn.logsumexp(a[:, None] + transitions, 0) + e, None)  # noqa: E731
        return nn.logsumexp(lax.scan(step, emissions[0], emissions[1:])[0])

    return likelihood


@program(("T", 2))
def kalman_filter():
    def step(state, z):
        mean, variance = state
        variance = variance + 0.1
        gain = variance / (variance + 1)
        mean = mean + gain * (z - mean)
        return (mean, (1 - gain) * variance), mean

    return lambda zs: lax.scan(step, (jnp.zeros(2), jnp.ones(2)), zs)[1]


@program((("B", 6), np.int32), (("B", 5), np.int32))
def edit_distance():
    def distance(a, b):
        def row(previous, x):
            def cell(left, above):
                diagonal, up, y = above
                value = jnp.minimum(jnp.minimum(left, up) + 1, diagonal + (x != y))
                return value, value

            first = previous[0] + 1
            _, rest = lax.scan(cell, first, (previous[:-1], previous[1:], b))
            return jnp.concatenate([first[None], rest]), None

        return lax.scan(row, jnp.arange(6), a)[0][-1]

    return jax.vmap(distance)


# -- random numbers -------------------------------------------------------------------------


@program("key")
def two_draws_of_a_split_key():
    def draws(key):
        first, second = jax.random.split(key)
        return jax.random.normal(first, (3,)), jax.random.uniform(second, (2, 2))

    return draws


@program("key", ("B", 4))
def dropout():
    return lambda key, x: jnp.where(jax.random.bernoulli(key, 0.8, x.shape), x / 0.8, 0)


@program("key", ("B", 10))
def sampled_token():
    return lambda key, logits: jax.random.categorical(key, logits / 0.7)


@program("key", (6, 3))
def shuffled_rows():
    return lambda key, x: jax.random.permutation(key, x)


@program("key")
def random_walk_with_a_key_in_the_carry():
    def step(state, _):
        key, place = state
        key, own = jax.random.split(key)
        place = place + jax.random.normal(own, (2,))
        return (key, place), place

    return lambda key: lax.scan(step, (key, jnp.zeros(2)), None, length=5)[1]


@program("key", rtol=1e-3)
def metropolis():
    def step(i, state):
        key, x = state
        key, propose, accept = jax.random.split(key, 3)
        candidate = x + 0.5 * jax.random.normal(propose)
        ratio = jnp.exp(0.5 * (x**2 - candidate**2))
        return key, jnp.where(jax.random.uniform(accept) < ratio, candidate, x)

    return lambda key: lax.fori_loop(0, 6, step, (key, jnp.float32(0)))[1]


@program("key", (3,), rtol=1e-3)
def langevin_dynamics():
    def log_density(x):
        return -0.5 * jnp.sum(x**2) + jnp.sum(jnp.cos(2 * x))

    def step(x, key):
        return x + 0.05 * jax.grad(log_density)(x) + 0.3 * jax.random.normal(key, x.shape), x

    return lambda key, x: lax.scan(step, x, jax.random.split(key, 5))


@program("key", rtol=1e-3)
def rejection_sampling():
    def draw(key):
        def again(state):
            key, x, _ = state
            key, a, b = jax.random.split(key, 3)
            x = jax.random.uniform(a, minval=-1, maxval=1)
            return key, x, jax.random.uniform(b) < 1 - x**2

        return lax.while_loop(lambda s: ~s[2], again, (key, jnp.float32(0), jnp.array(False)))[1]

    return lambda key: jax.vmap(draw)(jax.random.split(key, 4))


@program("key", (4,), (4,))
def reparametrised_sample_with_its_gradient():
    def objective(mean, scale, key):
        sample = mean + jnp.exp(scale) * jax.random.normal(key, (4,))
        return jnp.sum(sample**2) - jnp.sum(scale)

    return lambda key, mean, scale: jax.grad(objective, (0, 1))(mean, scale, key)


@program("key", ("T", 3))
def keys_folded_with_positions():
    def noisy(key, x):
        keys = jax.vmap(functools.partial(jax.random.fold_in, key))(jnp.arange(x.shape[0]))
        return x + jax.vmap(lambda k: jax.random.uniform(k, (3,)))(keys)

    return noisy


# -- models ---------------------------------------------------------------------------------


@program(("B", 4))
def mlp_in_a_list():
    layers = [(numbers(4, 16), numbers(16)), (numbers(16, 16), numbers(16)), (numbers(16, 2), numbers(2))]

    def apply(x):
        for weights, bias in layers[:-1]:
            x = nn.relu(x @ weights + bias)
        return nn.log_softmax(x @ layers[-1][0] + layers[-1][1])

    return apply


@program(("B", "T", 16))
def self_attention():
    q, k, v, o = (numbers(16, 16 + 0 * i) for i in range(4))

    def attend(x):
        heads = [(x @ w).reshape(*x.shape[:2], 4, 4) for w in (q, k, v)]
        logits = jnp.einsum("bthd,bshd->bhts", heads[0], heads[1]) / 2
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        weights = nn.softmax(jnp.where(mask, logits, -1e30))
        return jnp.einsum("bhts,bshd->bthd", weights, heads[2]).reshape(x.shape) @ o

    return attend


@program(("B", "T", 2, 8))
def library_attention():
    return lambda x: nn.dot_product_attention(x, x, x, is_causal=True)


@program(("B", 8, 8, 3))
def small_convolutional_network():
    kernel, dense = numbers(3, 3, 3, 4) / 3, numbers(64, 5)

    def apply(x):
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = lax.reduce_window(nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.reshape(x.shape[0], -1) @ dense

    return apply


@program(("T", "B", 3))
def lstm():
    kernel, recurrent = numbers(3, 16), numbers(4, 16)

    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ kernel + h @ recurrent, 4, -1)
        c = nn.sigmoid(f + 1) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lambda xs: lax.scan(step, (jnp.zeros((xs.shape[1], 4)),) * 2, xs)[1]


@program(("T", "B", 3))
def gru_backwards():
    kernel, recurrent = numbers(3, 12), numbers(4, 12)

    def step(h, x):
        parts, old = jnp.split(x @ kernel, 3, -1), jnp.split(h @ recurrent, 3, -1)
        z, r = nn.sigmoid(parts[0] + old[0]), nn.sigmoid(parts[1] + old[1])
        h = (1 - z) * jnp.tanh(parts[2] + r * old[2]) + z * h
        return h, h

    return lambda xs: lax.scan(step, jnp.zeros((xs.shape[1], 4)), xs, reverse=True)[1]


@program(("B", "T", 4))
def scanned_layers():
    stacked = numbers(3, 4, 4)
    return lambda x: lax.scan(lambda x, w: (x + nn.gelu(x @ w), None), x, stacked)[0]


@program(("B", 12))
def layer_norm_and_feed_forward():
    up, down = numbers(12, 24), numbers(24, 12)

    def block(x):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return x + nn.silu((x - mean) * lax.rsqrt(var + 1e-6) @ up) @ down

    return block


@program(("B", 8))
def mixture_of_two_experts():
    router, up = numbers(8, 4), numbers(4, 8, 8)

    def apply(x):
        gates, chosen = lax.top_k(nn.softmax(x @ router), 2)
        every = jnp.einsum("bd,edf->bef", x, up)
        return (jnp.take_along_axis(every, chosen[..., None], 1) * gates[..., None]).sum(1)

    return apply


@program((("B", "T"), np.int32))
def bag_of_embeddings():
    table = numbers(10, 6)
    return lambda tokens: jnp.take(table, tokens, axis=0).mean(1)


@program((("B", "T"), np.int32))
def sinusoidal_positions():
    table = numbers(10, 8)

    def embed(tokens):
        angles = jnp.arange(tokens.shape[1])[:, None] / 1e4 ** (jnp.arange(4) / 4)
        return jnp.asarray(table)[tokens] + jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)

    return embed


@program((("B", "T"), np.int32))
def bigram_model_generates():
    table = numbers(10, 10)

    def generate(tokens):
        def step(last, _):
            following = jnp.asarray(table)[last].argmax(-1).astype(last.dtype)
            return following, following

        return lax.scan(step, tokens[:, -1], None, length=4)[1].T

    return generate


@program(("B", 6))
def variational_bound():
    encode, decode = numbers(6, 4), numbers(2, 6)

    def bound(x):
        mean, log_variance = jnp.split(x @ encode, 2, -1)
        restored = nn.sigmoid(mean @ decode)
        divergence = -0.5 * jnp.sum(1 + log_variance - mean**2 - jnp.exp(log_variance), -1)
        return jnp.sum((restored - x) ** 2, -1) + divergence

    return bound


@program(("B", 4), rtol=1e-3)
def coupling_flow():
    weights = numbers(2, 4)

    def forward(x):
        kept, changed = x[:, :2], x[:, 2:]
        shift, scale = jnp.split(jnp.tanh(kept @ weights), 2, -1)
        log_density = jax.scipy.stats.norm.logpdf(changed * jnp.exp(scale) + shift).sum(-1)
        return jnp.concatenate([kept, changed * jnp.exp(scale) + shift], -1), log_density + scale.sum(-1)

    return forward


@program(("B", 4), ("B",))
def training_step_by_hand():
    weights = numbers(4)

    def step(x, y):
        value, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(jnp.asarray(weights))
        return value, weights - 0.1 * gradient

    return step


@program(("B", 4), ("B",))
def training_loop_by_hand():
    def fit(x, y):
        gradient = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))
        return lax.fori_loop(0, 5, lambda _, w: w - 0.1 * gradient(w), jnp.zeros(4))

    return fit


@program((6, 2), (6,), ("B", 2), rtol=1e-3)
def gaussian_process():
    def posterior(x, y, new):
        def kernel(a, b):
            return jnp.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1))

        solved = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(kernel(x, x) + 0.1 * jnp.eye(6)), y)
        return kernel(new, x) @ solved

    return posterior


# -- distributions --------------------------------------------------------------------------


@program(("B", 3), (3,), (3,))
def normal_log_density():
    return lambda x, mean, scale: jax.scipy.stats.norm.logpdf(x, mean, jnp.exp(scale)).sum(-1)


@program(("B", 4), ("B", 4))
def divergence_of_categoricals():
    def divergence(p, q):
        return jnp.sum(nn.softmax(p) * (nn.log_softmax(p) - nn.log_softmax(q)), -1)

    return divergence


@program(("B", 4), INTEGERS)
def categorical_log_probability():
    return lambda logits, labels: jnp.take_along_axis(nn.log_softmax(logits), labels[:, None] % 4, 1)[:, 0]


@program(("B", 4))
def entropy():
    return lambda logits: -jnp.sum(nn.softmax(logits) * nn.log_softmax(logits), -1)


@program(("B",), rtol=1e-3)
def beta_and_gamma_densities():
    def both(x):
        return jax.scipy.stats.beta.logpdf(nn.sigmoid(x), 2.0, 3.0), jax.scipy.stats.gamma.logpdf(jnp.abs(x) + 0.1, 2.0)

    return both


@program(("B", 3), rtol=1e-3)
def multivariate_normal_density():
    root = numbers(3, 3)
    return lambda x: jax.scipy.stats.multivariate_normal.logpdf(x, jnp.zeros(3), root @ root.T + jnp.eye(3))


@program(("B", 2))
def mixture_of_normals():
    means, weights = numbers(3, 2), jnp.array([0.2, 0.3, 0.5])

    def density(x):
        each = -0.5 * ((x[:, None] - means) ** 2).sum(-1) - jnp.log(2 * jnp.pi)
        return nn.logsumexp(each, axis=-1, b=weights)

    return density


@program(("B",))
def student_and_laplace_densities():
    return lambda x: (
        jax.scipy.stats.t.logpdf(x, 3.0),
        jax.scipy.stats.laplace.logpdf(x),
        jax.scipy.stats.cauchy.pdf(x),
    )


@program((("B",), np.int32))
def poisson_probabilities():
    return lambda k: jax.scipy.stats.poisson.pmf(k, 2.5)
