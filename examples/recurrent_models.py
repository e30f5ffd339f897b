"""Recurrences over time as their authors write them: `FAMILIES`, each in several ways of writing.

All are functions of a state and of rows, `(state, rows) -> (state, results)`, where the first axis of rows and results is time, and
state, rows are tuples. Models with a short causal convolution before the recurrence carry its last inputs in the state, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["FAMILIES", "Family", "Sizes", "arguments", "decoding", "writings"]

Arrays = tuple[jax.Array, ...]
Shapes = tuple[tuple[int, ...], ...]
Step = Callable[[Arrays, Arrays], tuple[Arrays, jax.Array]]
Recurrence = Callable[[Arrays, Arrays], tuple[Arrays, jax.Array]]


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of a model: heads, features of a head, channels, states of a channel."""

    heads: int = 8
    features: int = 64
    channels: int = 512
    states: int = 16


@dataclasses.dataclass(frozen=True)
class Family:
    """A recurrence.

    Attributes:
      rows, state: the shapes of a step's inputs and of what is carried.
      step: a step; None where `affine` tells.
      affine: decay and update of all steps from the rows, `[T, ...]`, and `read`, which gives the results from the states after them.
      chunks: queries, keys, values and the logarithm of the decay of a head from the rows, where the authors give a chunked form;
        a skip around the recurrence is left out.
      convolved: how many of the rows go through a causal convolution first, concatenated, as the state's first array keeps; 0 for none.
      grouped: whether the convolution is a grouped one of `lax`, or shifted products.
    """

    rows: Shapes
    state: Shapes
    step: Step | None = None
    affine: Callable[[Arrays], tuple[jax.Array, jax.Array]] | None = None
    read: Callable[[jax.Array, Arrays], jax.Array] | None = None
    chunks: Callable[[Arrays], Arrays] | None = None
    convolved: int = 0
    grouped: bool = False
    complex: bool = False


WIDTH = 4


def _numbers(*shape: int, low: float = -1.0, high: float = 1.0) -> jax.Array:
    """Parameters, the same in every run."""
    return jnp.asarray(np.random.default_rng(len(shape)).uniform(low, high, shape), jnp.float32)


def _unit(x: jax.Array) -> jax.Array:
    return x * lax.rsqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def _read(s: jax.Array, q: jax.Array) -> jax.Array:
    return jnp.einsum("hkv,hk->hv", s, q)


def _outer(k: jax.Array, v: jax.Array) -> jax.Array:
    return k[..., :, None] * v[..., None, :]


# -- states of matrices -----------------------------------------------------------------------


def linear_attention(n: Sizes) -> Family:
    """With feature maps and a normaliser (Katharopoulos et al., 2020)."""

    def step(state: Arrays, row: Arrays) -> tuple[Arrays, jax.Array]:
        (s, z), (q, k, v) = state, row
        q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
        s, z = s + _outer(k, v), z + k
        return (s, z), _read(s, q) / ((z * q).sum(-1, keepdims=True) + 1e-6)

    shape = (n.heads, n.features)
    return Family((shape,) * 3, ((*shape, n.features), shape), step)


def retention(n: Sizes) -> Family:
    """RetNet (Sun et al., 2023)."""
    gamma = 1 - 2.0 ** (-5.0 - jnp.arange(n.heads))

    def step(state: Arrays, row: Arrays) -> tuple[Arrays, jax.Array]:
        (s,), (q, k, v) = state, row
        s = gamma[:, None, None] * s + _outer(k, v)
        return (s,), _read(s, q * n.features**-0.5)

    def chunks(rows: Arrays) -> Arrays:
        q, k, v = rows
        return q * n.features**-0.5, k, v, jnp.broadcast_to(jnp.log(gamma), q.shape[:2])

    shape = (n.heads, n.features)
    return Family((shape,) * 3, ((*shape, n.features),), step, chunks=chunks)


def gated_linear_attention(n: Sizes) -> Family:
    """A decay for each feature of the key (Yang et al., 2023)."""

    def step(state: Arrays, row: Arrays) -> tuple[Arrays, jax.Array]:
        (s,), (q, k, v, g) = state, row
        s = jnp.exp(jax.nn.log_sigmoid(g) / 16)[:, :, None] * s + _outer(k, v)
        return (s,), _read(s, q * n.features**-0.5)

    shape = (n.heads, n.features)
    return Family((shape,) * 4, ((*shape, n.features),), step)


def delta_net(n: Sizes) -> Family:
    """The delta rule (Schlag et al., 2021; Yang et al., 2024)."""

    def step(state: Arrays, row: Arrays) -> tuple[Arrays, jax.Array]:
        (s,), (q, k, v, b) = state, row
        q, k = _unit(jax.nn.silu(q)), _unit(jax.nn.silu(k))
        v = (v - _read(s, k)) * jax.nn.sigmoid(b)[:, None]
        s = s + _outer(k, v)
        return (s,), _read(s, q)

    shape = (n.heads, n.features)
    return Family((*(shape,) * 3, (n.heads,)), ((*shape, n.features),), step)


def gated_delta_net(n: Sizes) -> Family:
    """The gated delta rule after a convolution, as in Qwen3-Next."""
    rate, bias = jnp.exp(_numbers(n.heads)), _numbers(n.heads)

    def step(state: Arrays, row: Arrays) -> tuple[Arrays, jax.Array]:
        (s,), (q, k, v, a, b) = state, row
        q, k = _unit(q) * n.features**-0.5, _unit(k)
        s = s * jnp.exp(-rate * jax.nn.softplus(a + bias))[:, None, None]
        missing = (v - _read(s, k)) * jax.nn.sigmoid(b)[:, None]
        s = s + _outer(k, missing)
        return (s,), _read(s, q)

    shape = (n.heads, n.features)
    rows = (*(shape,) * 3, (n.heads,), (n.heads,))
    width = 3 * n.heads * n.features
    return Family(rows, ((WIDTH - 1, width), (*shape, n.features)), step, convolved=3)


def rwkv4(n: Sizes) -> Family:
    """RWKV-4: sums of exponentials, kept in range by their maximum (Peng et al., 2023)."""
    w, u = -jnp.exp(_numbers(n.channels)), _numbers(n.channels)

    def step(state: Arrays, row: Arrays) -> tuple[Arrays, jax.Array]:
        (a, b, p), (k, v) = state, row
        top = jnp.maximum(p, u + k)
        old, new = jnp.exp(p - top), jnp.exp(u + k - top)
        y = (old * a + new * v) / (old * b + new)
        top = jnp.maximum(p + w, k)
        old, new = jnp.exp(p + w - top), jnp.exp(k - top)
        return (old * a + new * v, old * b + new, top), y

    return Family(((n.channels,),) * 2, ((n.channels,),) * 3, step)


def _rwkv(n: Sizes, decay: Callable[[Arrays], jax.Array], rows: int) -> Family:
    bonus = _numbers(n.heads, n.features)

    def step(state: Arrays, row: Arrays) -> tuple[Arrays, jax.Array]:
        (s,), (r, k, v, *_) = state, row
        kv = _outer(k, v)
        return (decay(row)[:, :, None] * s + kv,), _read(s + bonus[:, :, None] * kv, r)

    shape = (n.heads, n.features)
    return Family((shape,) * rows, ((*shape, n.features),), step)


def rwkv5(n: Sizes) -> Family:
    """RWKV-5: decays that are parameters, and a bonus for the current token."""
    w = jnp.exp(-jnp.exp(_numbers(n.heads, n.features, low=-6, high=-1)))
    return _rwkv(n, lambda row: w, 3)


def rwkv6(n: Sizes) -> Family:
    """RWKV-6: decays that depend on the token."""
    return _rwkv(n, lambda row: jnp.exp(-jnp.exp(row[3] / 2 - 4)), 4)


def rwkv7(n: Sizes) -> Family:
    """RWKV-7: a generalised delta rule (Peng et al., 2025)."""

    def step(state: Arrays, row: Arrays) -> tuple[Arrays, jax.Array]:
        (s,), (r, k, v, w, a) = state, row
        w, a, removed = jnp.exp(-0.606531 * jax.nn.sigmoid(w)), jax.nn.sigmoid(a), _unit(k)
        seen = jnp.einsum("hvk,hk->hv", s, -removed)
        s = s * w[:, None, :] + _outer(seen, removed * a) + _outer(v, k)
        return (s,), jnp.einsum("hvk,hk->hv", s, r)

    shape = (n.heads, n.features)
    return Family((shape,) * 5, ((*shape, n.features),), step)


def mamba2(n: Sizes) -> Family:
    """Mamba 2: a decay for each head, keys and queries shared by the heads (Dao and Gu, 2024)."""
    rate, skip, bias = -jnp.exp(_numbers(n.heads)), _numbers(n.heads), _numbers(n.heads) - 2

    def step(state: Arrays, row: Arrays) -> tuple[Arrays, jax.Array]:
        (s,), (x, b, c, dt) = state, row
        dt = jax.nn.softplus(dt + bias)
        s = s * jnp.exp(dt * rate)[:, None, None] + jnp.einsum("h,hp,n->hpn", dt, x, b)
        return (s,), jnp.einsum("hpn,n->hp", s, c) + skip[:, None] * x

    def chunks(rows: Arrays) -> Arrays:
        x, b, c, dt = rows
        dt = jax.nn.softplus(dt + bias)
        shape = (*x.shape[:2], n.features)
        return (*(jnp.broadcast_to(y[:, None], shape) for y in (c, b)), x * dt[..., None], dt * rate)

    features = (n.features,)
    rows = ((n.heads, n.features), features, features, (n.heads,))
    state = ((WIDTH - 1, (n.heads + 2) * n.features), (n.heads, n.features, n.features))
    return Family(rows, state, step, chunks=chunks, convolved=3)


# -- states of vectors -------------------------------------------------------------------------


def mamba1(n: Sizes) -> Family:
    """Mamba 1: a selective state space (Gu and Dao, 2023)."""
    rate = -jnp.broadcast_to(jnp.arange(1.0, n.states + 1), (n.channels // 2, n.states))
    skip = _numbers(n.channels // 2)

    def affine(rows: Arrays) -> tuple[jax.Array, jax.Array]:
        x, b, _, dt = rows
        dt = jax.nn.softplus(dt - 2)
        return jnp.exp(dt[..., None] * rate), (dt * x)[..., None] * b[..., None, :]

    def read(h: jax.Array, rows: Arrays) -> jax.Array:
        return jnp.einsum("...dn,...n->...d", h, rows[2]) + skip * rows[0]

    inner = (n.channels // 2,)
    rows = (inner, (n.states,), (n.states,), inner)
    return Family(rows, ((WIDTH - 1, *inner), (*inner, n.states)), None, affine, read, convolved=1, grouped=True)


def s4d(n: Sizes) -> Family:
    """S4D: complex diagonal states of each channel, all parameters (Gu et al., 2022)."""
    step = jnp.exp(_numbers(n.channels // 8, 1, low=-5, high=-2))
    rate = -0.5 + 1j * jnp.pi * jnp.arange(n.states)
    decay = jnp.exp(step * rate)
    into = (decay - 1) / rate
    out = (_numbers(n.channels // 8, n.states) + 1j * _numbers(n.channels // 8, n.states, low=-2)).astype(jnp.complex64)

    def affine(rows: Arrays) -> tuple[jax.Array, jax.Array]:
        update = into * rows[0][..., None]
        return jnp.broadcast_to(decay, update.shape), update

    def read(h: jax.Array, rows: Arrays) -> jax.Array:
        return 2 * (h * out).sum(-1).real

    return Family(((n.channels // 8,),), ((n.channels // 8, n.states),), None, affine, read, complex=True)


def _diagonal(n: Sizes, modulus: jax.Array, scale: jax.Array) -> Family:
    """A complex diagonal state that matrices write and read."""
    inner, outer = n.channels // 4, n.channels // 8
    decay = (modulus * jnp.exp(1j * _numbers(inner, low=0, high=3.14))).astype(jnp.complex64)
    real, imaginary = _numbers(inner, outer) / outer, _numbers(inner, outer, low=-2) / outer
    into = (real + 1j * imaginary).astype(jnp.complex64) * scale[:, None]
    out = (real - 1j * imaginary).T.astype(jnp.complex64)

    def affine(rows: Arrays) -> tuple[jax.Array, jax.Array]:
        update = rows[0] @ into.T
        return jnp.broadcast_to(decay, update.shape), update

    def read(h: jax.Array, rows: Arrays) -> jax.Array:
        return (h @ out.T).real + rows[0]

    return Family(((outer,),), ((inner,),), None, affine, read, complex=True)


def s5(n: Sizes) -> Family:
    """S5 (Smith et al., 2023)."""
    modulus = jnp.exp(-0.5 * jnp.exp(_numbers(n.channels // 4, low=-6, high=-2)))
    return _diagonal(n, modulus, jnp.ones_like(modulus))


def lru(n: Sizes) -> Family:
    """The linear recurrent unit, which scales its inputs (Orvieto et al., 2023)."""
    modulus = jnp.exp(-jnp.exp(_numbers(n.channels // 4, low=-5, high=-1)))
    return _diagonal(n, modulus, jnp.sqrt(1 - modulus**2))


def rg_lru(n: Sizes) -> Family:
    """The real-gated linear recurrent unit of Griffin and RecurrentGemma, after a convolution."""
    rate = 8 * jax.nn.softplus(_numbers(n.channels))

    def affine(rows: Arrays) -> tuple[jax.Array, jax.Array]:
        x, r, i = rows
        log = -rate * jax.nn.sigmoid(r)
        return jnp.exp(log), jnp.sqrt(1 - jnp.exp(2 * log)) * (jax.nn.sigmoid(i) * x)

    inner = (n.channels,)
    return Family((inner,) * 3, ((WIDTH - 1, *inner), inner), None, affine, lambda h, rows: h, convolved=1)


def hgrn(n: Sizes) -> Family:
    """HGRN: forget gates with a lower bound (Qin et al., 2023)."""
    bound = _numbers(n.channels, low=0, high=0.9)

    def affine(rows: Arrays) -> tuple[jax.Array, jax.Array]:
        forget = bound + (1 - bound) * jax.nn.sigmoid(rows[1])
        return forget, (1 - forget) * jax.nn.silu(rows[0])

    inner = (n.channels,)
    return Family((inner,) * 3, (inner,), None, affine, lambda h, rows: h * jax.nn.sigmoid(rows[2]))


def min_gru(n: Sizes) -> Family:
    """The minimal gated recurrent unit (Feng et al., 2024)."""

    def affine(rows: Arrays) -> tuple[jax.Array, jax.Array]:
        z = jax.nn.sigmoid(rows[1])
        return 1 - z, z * rows[0]

    return Family(((n.channels,),) * 2, ((n.channels,),), None, affine, lambda h, rows: h)


#: The makers of the families by name; those of states of matrices come first.
FAMILIES: dict[str, Callable[[Sizes], Family]] = {
    "linear attention": linear_attention, "RetNet": retention, "GLA": gated_linear_attention, "DeltaNet": delta_net,
    "Gated DeltaNet": gated_delta_net, "RWKV-5": rwkv5, "RWKV-6": rwkv6, "RWKV-7": rwkv7, "Mamba 2": mamba2,
    "Mamba 1": mamba1, "S4D": s4d, "S5": s5, "LRU": lru, "RG-LRU": rg_lru, "HGRN": hgrn, "minGRU": min_gru,
    "RWKV-4": rwkv4,
}  # fmt: skip


# -- ways of writing ----------------------------------------------------------------------------


def _step(family: Family) -> Step:
    if family.step is not None:
        return family.step
    affine, read = family.affine, family.read
    assert affine is not None
    assert read is not None

    def step(state: Arrays, row: Arrays) -> tuple[Arrays, jax.Array]:
        decay, update = affine(row)
        h = decay * state[0] + update
        return (h,), read(h, row)

    return step


def _taps(family: Family) -> jax.Array:
    return _numbers(WIDTH, family.state[0][1])


def _convolved(family: Family, past: jax.Array, rows: Arrays) -> tuple[jax.Array, Arrays]:
    """The last inputs, and the rows after the convolution of all steps, over the channels of some of them side by side."""
    parts = rows[: family.convolved]
    whole = jnp.concatenate([past, jnp.concatenate([x.reshape(x.shape[0], -1) for x in parts], -1)])
    taps, length = _taps(family), rows[0].shape[0]
    if family.grouped:
        y = lax.conv_general_dilated(
            whole[None], taps[:, None].astype(whole.dtype), (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC"),
            feature_group_count=taps.shape[1],
        )[0]  # fmt: skip
    else:
        y = sum(taps[i] * whole[i : i + length] for i in range(1, WIDTH)) + taps[0] * whole[:length]
    return whole[length:], _divided(jax.nn.silu(y), rows, family.convolved)


def _divided(y: jax.Array, rows: Arrays, count: int) -> Arrays:
    sizes = np.cumsum([np.prod(x.shape[1:], dtype=int) for x in rows[:count]])[:-1]
    parts = jnp.split(y, sizes, -1)
    return (*(part.reshape(x.shape) for part, x in zip(parts, rows[:count], strict=True)), *rows[count:])


def _after_convolution(family: Family, recurrence: Recurrence) -> Recurrence:
    if not family.convolved:
        return recurrence

    def function(state: Arrays, rows: Arrays) -> tuple[Arrays, jax.Array]:
        past, rows = _convolved(family, state[0], rows)
        last, ys = recurrence(state[1:], rows)
        return (past, *last), ys

    return function


def _by_scan(family: Family) -> Recurrence:
    return lambda state, rows: lax.scan(_step(family), state, rows)


def _by_loop(family: Family) -> Recurrence:
    """Results are written into an array row by row."""
    step = _step(family)

    def function(state: Arrays, rows: Arrays) -> tuple[Arrays, jax.Array]:
        result = jax.eval_shape(lambda: step(state, tuple(x[0] for x in rows))[1])
        length = rows[0].shape[0]

        def body(t: jax.Array, carry: tuple[Arrays, jax.Array]) -> tuple[Arrays, jax.Array]:
            state, y = step(carry[0], tuple(x[t] for x in rows))
            return state, carry[1].at[t].set(y)

        return lax.fori_loop(0, length, body, (state, jnp.zeros((length, *result.shape), result.dtype)))

    return function


def _by_associative_scan(family: Family) -> Recurrence | None:
    affine, read = family.affine, family.read
    if affine is None or read is None:
        return None

    def joined(left: Arrays, right: Arrays) -> Arrays:
        return left[0] * right[0], right[0] * left[1] + right[1]

    def function(state: Arrays, rows: Arrays) -> tuple[Arrays, jax.Array]:
        decay, update = affine(rows)
        update = update.at[0].add(decay[0] * state[0])
        h = lax.associative_scan(joined, (decay, update))[1]
        return (h[-1],), read(h, rows)

    return function


CHUNK = 32


def _by_chunks(family: Family) -> Recurrence | None:
    """Scores within a chunk, and a scan over the chunks; the form that RetNet and Mamba 2 give."""
    operands, transposed = family.chunks, family.convolved > 0
    if operands is None:
        return None

    def function(state: Arrays, rows: Arrays) -> tuple[Arrays, jax.Array]:
        q, k, v, log = (x.reshape(-1, CHUNK, *x.shape[1:]) for x in operands(rows))
        since = jnp.cumsum(log, 1)
        mask = jnp.tril(jnp.ones((CHUNK, CHUNK), bool))[None, :, :, None]
        ratio = jnp.exp(jnp.where(mask, since[:, :, None] - since[:, None], -jnp.inf))
        inside = jnp.einsum("nthk,nshk,ntsh,nshv->nthv", q, k, ratio, v)
        written = jnp.einsum("nshk,nsh,nshv->nhkv", k, jnp.exp(since[:, -1:] - since), v)

        def across(s: jax.Array, row: Arrays) -> tuple[jax.Array, jax.Array]:
            return s * row[0][:, None, None] + row[1], s

        first = jnp.swapaxes(state[0], 1, 2) if transposed else state[0]
        last, before = lax.scan(across, first, (jnp.exp(since[:, -1]), written))
        ys = inside + jnp.einsum("nthk,nhkv,nth->nthv", q, before, jnp.exp(since))
        return (jnp.swapaxes(last, 1, 2) if transposed else last,), ys.reshape(-1, *ys.shape[2:])

    return function


def writings(family: Family) -> dict[str, Recurrence]:
    """The recurrence over all steps, by its way of writing."""
    ways = {
        "scan": _by_scan(family), "fori_loop": _by_loop(family), "associative_scan": _by_associative_scan(family),
        "chunked": _by_chunks(family),
    }  # fmt: skip
    return {name: _after_convolution(family, way) for name, way in ways.items() if way is not None}


def decoding(family: Family) -> Recurrence:
    """One step, on rows of length one; the convolution is a sum over the last inputs."""
    step = _step(family)

    def function(state: Arrays, rows: Arrays) -> tuple[Arrays, jax.Array]:
        row = tuple(x[0] for x in rows)
        if not family.convolved:
            state, y = step(state, row)
            return state, y[None]
        new = jnp.concatenate([x.reshape(-1) for x in row[: family.convolved]])
        window = jnp.concatenate([state[0], new[None]])
        mixed = jax.nn.silu((window * _taps(family)).sum(0))
        row = tuple(x[0] for x in _divided(mixed[None], rows, family.convolved))
        state, y = step(state[1:], row)
        return (window[1:], *state), y[None]

    return function


def arguments(family: Family, length: int, seed: int = 0) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]]:
    """A random state, of zeros where it is complex, and random rows."""
    random = np.random.default_rng(seed)
    state = [0.1 * random.normal(size=shape) for shape in family.state]
    rows = [random.normal(size=(length, *shape)).astype(np.float32) for shape in family.rows]
    return [x.astype(np.complex64 if family.complex else np.float32) for x in state], rows
