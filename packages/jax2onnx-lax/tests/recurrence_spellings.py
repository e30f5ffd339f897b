"""Recurrences that are linear in their state, as models write them: `SPELLINGS`, and others that only look like them: `LOOK_ALIKES`.

Each is a function of arrays whose first axis is time, with the shapes of their other axes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

H, K, V, C = 2, 48, 48, 24  # heads, features of a key, features of a value, channels

SPELLINGS: dict[str, Spelling] = {}
LOOK_ALIKES: dict[str, Spelling] = {}


@dataclasses.dataclass(frozen=True)
class Spelling:
    function: Callable[..., object]
    shapes: tuple[tuple[int, ...], ...]
    kernel: bool


def _add(*shapes, to=SPELLINGS, kernel=False):
    def register(function):
        to[function.__name__] = Spelling(function, shapes, kernel)
        return function

    return register


_QKV = ((H, K), (H, K), (H, V))


def _state(*dims):
    return jnp.zeros(dims or (H, K, V), jnp.float32)


def _normalised(k):
    return k / jnp.sqrt((k * k).sum(-1, keepdims=True) + 1e-6)


@_add(*_QKV, kernel=True)
def linear_by_broadcast(q, k, v):
    def step(s, row):
        q, k, v = row
        s = s + k[:, :, None] * v[:, None, :]
        return s, jnp.einsum("hkv,hk->hv", s, q)

    return lax.scan(step, _state(), (q, k, v))


@_add(*_QKV, kernel=True)
def retention_by_outer_and_matmul(q, k, v):
    gamma = 1 - 2.0 ** (-5 - jnp.arange(H, dtype=jnp.float32))

    def step(s, row):
        q, k, v = row
        s = gamma[:, None, None] * s + jax.vmap(jnp.outer)(k, v)
        return s, jnp.squeeze(q[:, None, :] @ s, 1)

    return lax.scan(step, _state(), (q, k, v))


@_add(*_QKV, (H, K), kernel=True)
def gated_linear_by_mul_and_sum(q, k, v, g):
    def step(s, row):
        q, k, v, g = row
        s = (jax.nn.sigmoid(g) ** (1 / 16))[..., None] * s + k[..., None] * v[..., None, :]
        return s, (q[..., None] * s).sum(-2)

    return lax.scan(step, _state(), (q, k, v, g))


@_add(*_QKV, (H,), kernel=True)
def delta_by_two_products(q, k, v, b):
    def step(s, row):
        q, k, v, b = row
        k, b = _normalised(k), jax.nn.sigmoid(b)[:, None]
        old = jnp.einsum("hkv,hk->hv", s, k)
        s = s - jnp.einsum("hk,hv->hkv", k * b, old) + jnp.einsum("hk,hv->hkv", k * b, v)
        return s, jnp.einsum("hkv,hk->hv", s, q)

    return lax.scan(step, _state(), (q, k, v, b))


@_add(*_QKV, (H,), (H,), kernel=True)
def gated_delta(q, k, v, g, b):
    @jax.jit
    def step(s, row):
        q, k, v, g, b = row
        k = _normalised(k)
        s = s * jnp.exp(-jax.nn.softplus(g))[:, None, None]
        missing = (v - jnp.einsum("hkv,hk->hv", s, k)) * jax.nn.sigmoid(b)[:, None]
        s = s + jnp.einsum("hk,hv->hkv", k, missing)
        return s, jnp.einsum("hkv,hk->hv", s, q)

    return lax.scan(step, _state(), (q, k, v, g, b))


@_add(*_QKV, (H, K), (H,), kernel=True)
def gated_delta_of_features(q, k, v, g, b):
    def step(s, row):
        q, k, v, g, b = row
        k = _normalised(k)
        s = s * jnp.exp(-jnp.exp(g * 0.5 - 2))[:, :, None]
        s = s + (k * jax.nn.sigmoid(b)[:, None])[:, :, None] * (v - (k[:, :, None] * s).sum(1))[:, None, :]
        return s, (q[:, :, None] * s).sum(1)

    return lax.scan(step, _state(), (q, k, v, g, b))


@_add(*_QKV, (H, K), kernel=True)
def rwkv6_with_a_bonus(r, k, v, w):
    bonus = jnp.cos(jnp.arange(H * K, dtype=jnp.float32)).reshape(H, K)

    def step(s, row):
        r, k, v, w = row
        kv = k[:, :, None] * v[:, None, :]
        y = jnp.einsum("hk,hkv->hv", r, s + bonus[:, :, None] * kv)
        return jnp.exp(-jnp.exp(w * 0.5 - 2))[:, :, None] * s + kv, y

    return lax.scan(step, _state(), (r, k, v, w))


@_add(*_QKV, (H, K), (H, K))
def rwkv7(r, k, v, w, a):
    def step(s, row):
        r, k, v, w, a = row
        key, w, a = _normalised(k), jnp.exp(-0.606531 * jax.nn.sigmoid(w)), jax.nn.sigmoid(a)
        s = s * w[:, None, :] - jnp.einsum("hvk,hk,hj->hvj", s, key, key * a) + v[:, :, None] * k[:, None, :]
        return s, jnp.einsum("hvk,hk->hv", s, r)

    return lax.scan(step, _state(H, V, K), (r, k, v, w, a))


@_add((4, V), (32,), (32,), (4,), kernel=True)
def mamba2(x, b, c, dt):
    rate = -jnp.exp(jnp.linspace(-1, 1, 4))

    def step(s, row):
        x, b, c, dt = row
        dt = jax.nn.softplus(dt)
        s = jnp.exp(dt * rate)[:, None, None] * s + (dt[:, None] * x)[:, :, None] * b
        return s, s @ c

    return lax.scan(step, _state(4, V, 32), (x, b, c, dt))


@_add(*_QKV, (H,), kernel=True)
def two_states_and_a_counter(q, k, v, g):
    """A second matrix, the last key, and the number of the step."""

    def step(carry, row):
        s, z, last, count = carry
        q, k, v, g = row
        a = jax.nn.sigmoid(g)[:, None]
        s, z = s * a[..., None] + last[:, :, None] * v[:, None, :], z * a + k
        y = jnp.einsum("hkv,hk->hv", s, q) / (1 + jnp.abs((z * q).sum(-1)))[:, None]
        return (s, z, k, count + 1), y * jnp.cos(0.1 * count)

    return lax.scan(step, (_state(), _state(H, K), _state(H, K), 0), (q, k, v, g))


@_add((H, 3, K), (H, K), (H, V), kernel=True)
def three_queries_of_a_state(q, k, v):
    def step(s, row):
        q, k, v = row
        s = 0.9 * s + k[:, :, None] * v[:, None, :]
        return s, jnp.einsum("hgk,hkv->hgv", q, s).reshape(-1)

    return lax.scan(step, _state(), (q, k, v))


@_add((20,), (16,), (16,), (20,))
def mamba1(x, b, c, dt):
    rate = -jnp.broadcast_to(jnp.arange(1, 17, dtype=jnp.float32), (20, 16))

    def step(h, row):
        x, b, c, dt = row
        dt = jax.nn.softplus(dt)
        h = jnp.exp(dt[:, None] * rate) * h + (dt * x)[:, None] * b
        return h, h @ c

    return lax.scan(step, _state(20, 16), (x, b, c, dt))


@_add((C,), (C,))
def rg_lru(x, g):
    def step(h, row):
        x, g = row
        a = jnp.exp(-8 * jax.nn.softplus(0.5) * jax.nn.sigmoid(g))
        h = a * h + jnp.sqrt(1 - a**2) * x
        return h, h

    return lax.scan(step, _state(C), (x, g))


@_add((C,), (C,))
def min_gru(x, z):
    def step(h, row):
        x, z = row[0], jax.nn.sigmoid(row[1])
        h = (1 - z) * h + z * x
        return h, jnp.tanh(h)

    return lax.scan(step, _state(C), (x, z))


@_add((C,), (C,))
def growing_sum_and_difference(x, z):
    """The decay is above one at times, and the state is written as `h - z h`."""

    def step(h, row):
        x, z = row
        return h - 0.1 * z * h + x, h

    return lax.scan(step, _state(C), (x, z))


@_add((C,), (C,))
def sums_kept_in_range_by_their_maximum(k, v):
    """RWKV-4: the maximum is a loop of its own."""
    w, u = -jnp.exp(jnp.linspace(-2, 1, C)), jnp.linspace(-1, 1, C)

    def step(state, row):
        (a, b, p), (k, v) = state, row
        top = jnp.maximum(p, u + k)
        old, new = jnp.exp(p - top), jnp.exp(u + k - top)
        y = (old * a + new * v) / (old * b + new)
        top = jnp.maximum(p + w, k)
        old, new = jnp.exp(p + w - top), jnp.exp(k - top)
        return (old * a + new * v, old * b + new, top), y

    return lax.scan(step, (_state(C), _state(C), jnp.full(C, -1e38, k.dtype)), (k, v))


@_add((C,))
def diagonal_of_complex_numbers(x):
    rate = jnp.exp(-0.1 + 1j * jnp.linspace(0, 3, C)).astype(jnp.complex64)

    def step(h, row):
        h = rate * h + row
        return h, h.real

    last, y = lax.scan(step, jnp.zeros(C, jnp.complex64), x)
    return last.real, last.imag, y


@_add((C,))
def constant_complex_decays_read_by_constants(x):
    """S4D: the real inputs lack the axis of states, over which the results sum."""
    decay = jnp.exp(jnp.linspace(0.01, 0.1, C)[:, None] * (-0.5 + 1j * jnp.arange(4))).astype(jnp.complex64)
    out = (decay * (1 + 2j)).T

    def step(h, row):
        h = decay * h + (1 - decay) * row[:, None]
        return h, 2 * jnp.einsum("cn,nc->c", h, out).real

    last, y = lax.scan(step, jnp.ones((C, 4), jnp.complex64), x)
    return last.real, last.imag, y


@_add((C,), (C,))
def constant_real_decays_read_before_and_after(x, g):
    """Zero, negative and growing decays; read before and after the step, times what differs from step to step, from last to first."""
    decay = jnp.asarray([0.0, -0.5, 0.9, 1.01])[:, None]
    into = jnp.cos(jnp.arange(4.0 * C)).reshape(4, C)

    def step(h, row):
        x, g = row
        before = (h * into).sum(0)
        h = decay * h + into * x * g
        return h, (before * g, jnp.sum(h, 0), (h * into).sum())

    return lax.scan(step, jnp.ones((4, C)), (x, g), reverse=True)


@_add((C,))
def constant_complex_decays_of_complex_inputs(x):
    decay = jnp.exp(-0.1 + 1j * jnp.arange(3.0)).astype(jnp.complex64)

    def step(h, row):
        h = h * decay + jnp.broadcast_to(row[:, None], (C, 3))
        return h, (h.sum(-1).real, h.sum(-1).imag)

    inputs = lax.complex(x, jnp.where(x > 0, 0.5, -0.5))
    return lax.scan(step, jnp.zeros((C, 3), jnp.complex64), inputs)[1]


@_add((C,))
def constant_decays_read_in_all_steps_too(x):
    """Half of what is read takes the states themselves."""

    def step(h, row):
        h = 0.9 * h + jnp.linspace(-1, 1, 3) * row[:, None]
        return h, (h @ jnp.ones(3), jnp.tanh(h))

    return lax.scan(step, jnp.zeros((C, 3)), x)


@_add((C,))
def several_reads_of_constant_decays(x):
    out = jnp.cos(jnp.arange(15.0)).reshape(5, 3)

    def step(h, row):
        h = jnp.asarray([0.9, 0.5, -0.7]) * h + jnp.linspace(-1, 1, 3) * row[:, None]
        return h, (h @ out.T, jnp.einsum("cn,on->o", h, out))

    return lax.scan(step, jnp.ones((C, 3)), x)


@_add((C,), to=LOOK_ALIKES)
def a_decay_that_depends_on_the_state(x):
    return lax.scan(lambda h, row: (jax.nn.sigmoid(h) * h + row, h), _state(C), x)


@_add((C,), to=LOOK_ALIKES)
def a_state_through_tanh(x):
    return lax.scan(lambda h, row: (jnp.tanh(0.9 * h + row), h), _state(C), x)


@_add((C,), to=LOOK_ALIKES)
def a_square_of_the_state(x):
    return lax.scan(lambda h, row: (0.1 * h * h + row * 0.1, h), _state(C), x)


@_add((C,), to=LOOK_ALIKES)
def a_maximum(x):
    return lax.scan(lambda h, row: (jnp.maximum(0.9 * h, row), h), _state(C), x)


@_add((C, C), to=LOOK_ALIKES)
def a_transposed_state(x):
    return lax.scan(lambda h, row: (0.5 * h.T + row, h), _state(C, C), x)


@_add((C, C), to=LOOK_ALIKES)
def a_state_reshaped_in_another_order(x):
    return lax.scan(lambda h, row: (0.5 * lax.reshape(h, (C, C), (1, 0)) + row, h), _state(C, C), x)


@_add((C,), to=LOOK_ALIKES)
def a_matrix_times_the_state(x):
    weights = jnp.cos(jnp.arange(C * C, dtype=jnp.float32)).reshape(C, C) / C
    return lax.scan(lambda h, row: (weights @ h + row, h), _state(C), x)


@_add((C,), to=LOOK_ALIKES)
def states_that_depend_on_each_other(x):
    return lax.scan(lambda h, row: ((0.5 * h[0] + h[1], row - 0.5 * h[0]), h[0]), (_state(C), _state(C)), x)


@_add((C,), to=LOOK_ALIKES)
def a_shift_along_the_state(x):
    return lax.scan(lambda h, row: (jnp.roll(h, 1) + row, h), _state(C), x)


@_add(*_QKV, to=LOOK_ALIKES)
def matrices_that_are_results(q, k, v):
    def step(s, row):
        q, k, v = row
        s = s + k[:, :, None] * v[:, None, :]
        return s, (s, q)

    return lax.scan(step, _state(), (q, k, v))


@_add((C,), to=LOOK_ALIKES)
def half_precision(x):
    return lax.scan(lambda h, row: (0.9 * h + row, h), jnp.zeros(C, jnp.bfloat16), x.astype(jnp.bfloat16))[0]
