"""Attention and rotations as the authors of models write them, with what is found in each, and what is not, and why.

Letters: B batch, T queries, S keys; 4 heads of 8 features.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax, nn

__all__ = ["LAYERS", "Layer"]

Spec = tuple[tuple[str | int, ...], str]
_F = 8
_SCALE = _F**-0.5
_OTHER_ELEMENT = "what the sines multiply is not known to be the other element of each pair that the cosines multiply"


@dataclasses.dataclass(frozen=True)
class Layer:
    """A function of tensors, and what its export holds.

    Attributes:
      name: what it is, and who writes it so.
      fn: the function.
      inputs: the dimensions and dtypes of its arguments.
      attentions, rotations: the operators that its export has.
      reason: why there are not more, as the report says; "" where nothing is missing.
    """

    name: str
    fn: Callable[..., jax.Array]
    inputs: Sequence[Spec]
    attentions: int = 0
    rotations: int = 0
    reason: str = ""


def _spec(*dims: str | int, dtype: str = "float32") -> Spec:
    return dims, dtype


_Q, _KV, _GROUPED = _spec("B", "T", 4, _F), _spec("B", "S", 4, _F), _spec("B", "S", 2, _F)
_MASK, _HALF = _spec("B", "T", "S", dtype="bool"), _spec("B", "T", 4, _F, dtype="float16")
_QKV, _MASKED = (_Q, _KV, _KV), (_Q, _KV, _KV, _MASK)
LAYERS: list[Layer] = []


def _layer(
    name: str, *inputs: Spec, attentions: int = 0, rotations: int = 0, reason: str = ""
) -> Callable[[Callable[..., jax.Array]], None]:
    """Put the decorated function into the table."""
    return lambda fn: LAYERS.append(Layer(name, fn, inputs, attentions, rotations, reason))


def _logits(q: jax.Array, k: jax.Array) -> jax.Array:
    return jnp.einsum("bthd,bshd->bhts", q, k) * _SCALE


def _weighted(weights: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.einsum("bhts,bshd->bthd", weights, v)


# -- attention -------------------------------------------------------------------------------------


@_layer("one product for query, key and value (timm, equimo)", _spec("B", "T", 32), _spec(32, 96), attentions=1)
def _(x, w):
    q, k, v = (x @ w).reshape(*x.shape[:2], 3, 4, _F).transpose(2, 0, 3, 1, 4)
    weights = nn.softmax((q @ k.swapaxes(-2, -1)) * _SCALE, -1)
    return (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape)


@_layer("one example, heads in the middle (equinox)", _spec("T", 4, _F), *[_spec("S", 4, _F)] * 2, attentions=1)
def _(q, k, v):
    return jnp.einsum("hsS,Shd->shd", nn.softmax(jnp.einsum("shd,Shd->hsS", q / jnp.sqrt(_F), k), -1), v)


@_layer("heads by vmap", _spec("T", 4, _F), *[_spec("S", 4, _F)] * 2, attentions=1)
def _(q, k, v):
    return jax.vmap(lambda q, k, v: nn.softmax(q @ k.T * _SCALE, -1) @ v, in_axes=1, out_axes=1)(q, k, v)


@_layer("one head of keys", _Q, *[_spec("B", "S", _F)] * 2, attentions=1)
def _(q, k, v):
    return jnp.einsum("bhts,bsd->bthd", nn.softmax(jnp.einsum("bthd,bsd->bhts", q, k) * _SCALE, -1), v)


@_layer("the maximum taken off first (x-transformers)", *_MASKED, attentions=1)
def _(q, k, v, m):
    logits = jnp.where(m[:, None], jnp.einsum("bihd,bjhd->bhij", q * _SCALE, k), -jnp.finfo(q.dtype).max)
    return _weighted(nn.softmax(logits - lax.stop_gradient(logits.max(-1, keepdims=True)), -1), v)


@_layer("a mask as numbers (BERT)", *_QKV, _spec("B", "S", dtype="int32"), attentions=1)
def _(q, k, v, m):
    return _weighted(nn.softmax(_logits(q, k) + (1.0 - m[:, None, None]) * -1e4, -1), v)


@_layer("a mask as numbers that is compared back (Linen)", *_MASKED, attentions=1)
def _(q, k, v, m):
    mask = m[:, None].astype(jnp.float32) * jnp.ones((4, 1, 1))
    return _weighted(nn.softmax(jnp.where(mask > 0, _logits(q, k), -1e10), -1), v)


@_layer("scaled behind mask and bias (Falcon)", *_MASKED, _spec(4, "S"), attentions=1)
def _(q, k, v, m, bias):
    logits = jnp.where(m[:, None], jnp.einsum("bthd,bshd->bhts", q, k) + bias[:, None], -1e10)
    return _weighted(nn.softmax(logits * _SCALE, -1), v)


@_layer("a mask behind the softmax, too (keras.layers.Softmax)", *_MASKED, attentions=1)
def _(q, k, v, m):
    weights = nn.softmax(jnp.where(m[:, None], _logits(q, k), -1e9), -1)
    return _weighted(jnp.where(m[:, None], weights, 0), v)


@_layer(
    "a mask of each head as a factor of the weights", _Q, _KV, _KV, _spec("B", 4, "T", "S", dtype="bool"), attentions=1
)
def _(q, k, v, m):
    return _weighted(nn.softmax(jnp.where(m, _logits(q, k), -1e9), -1) * m, v)


@_layer("softmax of what a mask selects (jax.nn.softmax with where)", *_MASKED, attentions=1)
def _(q, k, v, m):
    return _weighted(nn.softmax(_logits(q, k), -1, where=m[:, None]), v)


@_layer("rows without keys are 0 behind", *_MASKED, attentions=1)
def _(q, k, v, m):
    result = _weighted(nn.softmax(jnp.where(m[:, None], _logits(q, k), -1e9), -1), v)
    return jnp.where(m.any(-1)[..., None, None], result, 0)


@_layer("normed queries and keys", *_QKV, _spec(_F), attentions=1)
def _(q, k, v, scale):
    q, k = (x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale for x in (q, k))
    return _weighted(nn.softmax(_logits(q, k), -1), v)


@_layer("a soft cap (Gemma 2)", *_MASKED, attentions=1)
def _(q, k, v, m):
    logits = jnp.tanh(_logits(q, k) / 50) * 50
    return _weighted(nn.softmax(jnp.where(m[:, None], logits, -2.3819763e38), -1), v)


@_layer("a sliding window (Mistral)", _Q, _Q, _Q, attentions=1)
def _(q, k, v):
    distance = jnp.arange(q.shape[1])[:, None] - jnp.arange(q.shape[1])
    seen = (distance >= 0) & (distance < 4)
    return _weighted(nn.softmax(jnp.where(seen, _logits(q, k), -jnp.inf), -1), v)


@_layer("ALiBi (BLOOM)", _Q, _Q, _Q, attentions=1)
def _(q, k, v):
    at = jnp.arange(q.shape[1])
    bias = -jnp.abs(at[:, None] - at) * 2.0 ** -jnp.arange(1, 5)[:, None, None]
    return _weighted(nn.softmax(jnp.where(at[:, None] >= at, _logits(q, k) + bias, -1e9), -1), v)


@_layer("a bias of relative positions from a table (T5)", _Q, _Q, _Q, _spec(32, 4), attentions=1)
def _(q, k, v, table):
    at = jnp.arange(q.shape[1])
    bias = table[jnp.clip(at[:, None] - at + 16, 0, 31)].transpose(2, 0, 1)
    return _weighted(nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) + bias, -1), v)


@_layer("three products, two by relative positions (DeBERTa)", _Q, _Q, _Q, *[_spec(16, 4, _F)] * 2, attentions=1)
def _(q, k, v, own_keys, own_queries):
    at = jnp.arange(q.shape[1])
    places = jnp.clip(at[:, None] - at + 8, 0, 15)[None, None]
    shape = (q.shape[0], 4, q.shape[1], q.shape[1])
    by_key, by_query = jnp.einsum("bthd,rhd->bhtr", q, own_keys), jnp.einsum("bshd,rhd->bhsr", k, own_queries)
    bias = jnp.take_along_axis(by_key, jnp.broadcast_to(places, shape), -1)
    bias += jnp.take_along_axis(by_query, jnp.broadcast_to(places, shape), -1).swapaxes(-1, -2)
    return _weighted(nn.softmax(_logits(q, k) + bias * _SCALE, -1), v)


@_layer(
    "latent keys with rotated parts (DeepSeek)",
    _spec("B", "T", 4, 12),
    _Q,
    _spec("B", "T", 4),
    _Q,
    attentions=1,
    rotations=2,
)
def _(q, k, k_rotated, v):
    cos, sin = _cos_sin(q.shape[1], 2)
    q_rotated, k_rotated = (_halves(x, cos[:, None], sin[:, None]) for x in (q[..., 8:], k_rotated[:, :, None]))
    q = jnp.concatenate([q[..., :8], q_rotated], -1)
    k = jnp.concatenate([k, jnp.broadcast_to(k_rotated, (*k.shape[:3], 4))], -1)
    return _weighted(nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) * 12**-0.5, -1), v)


@_layer("latent keys by two products (DeepSeek)", _spec("B", "T", 4, 12), _KV, _spec("B", "S", 4), _KV, attentions=1)
def _(q, k, k_rotated, v):
    logits = jnp.einsum("bthd,bshd->bhts", q[..., :8], k) + jnp.einsum("bthr,bsr->bhts", q[..., 8:], k_rotated)
    return _weighted(nn.softmax(logits * 12**-0.5, -1), v)


@_layer("half precision with logits in single", _HALF, _HALF, _HALF, attentions=1)
def _(q, k, v):
    weights = nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k).astype(jnp.float32) * _SCALE, -1)
    return _weighted(weights.astype(v.dtype), v)


# -- what the operator cannot say ------------------------------------------------------------------


@_layer(
    "sinks (gpt-oss)", _Q, _GROUPED, _GROUPED, _spec(4),
    reason="Slice stands between the softmax and the product with the values",
)  # fmt: skip
def _(q, k, v, sink):
    k, v = jnp.repeat(k, 2, 2), jnp.repeat(v, 2, 2)
    logits = _logits(q, k)
    more = jnp.broadcast_to(sink[None, :, None, None], (*logits.shape[:3], 1))
    return _weighted(nn.softmax(jnp.concatenate([logits, more], -1), -1)[..., :-1], v)


@_layer(
    "a learned scale of each head (Swin 2)", *_QKV, _spec(4, 1, 1),
    reason="the logits are multiplied by a tensor, not by a number",
)  # fmt: skip
def _(q, k, v, scale):
    return _weighted(nn.softmax(_logits(q, k) * jnp.exp(scale), -1), v)


@_layer(
    "gated weights", *_QKV, _spec(4),
    reason="Mul stands between the softmax and the product with the values",
)  # fmt: skip
def _(q, k, v, gate):
    return _weighted(nn.softmax(_logits(q, k), -1) * gate[:, None, None], v)


@_layer(
    "the difference of two softmaxes (differential attention)", *[_spec("B", "T", 4, 16)] * 2, _Q, _spec(),
    reason="Sub stands between the softmax and the product with the values",
)  # fmt: skip
def _(q, k, v, share):
    one, other = (nn.softmax(_logits(q[..., at], k[..., at]), -1) for at in (slice(8), slice(8, 16)))
    return _weighted(one - share * other, v)


@_layer(
    "another mask behind the softmax", *_MASKED,
    reason="the mask that is applied to the probabilities is not the one of the logits",
)  # fmt: skip
def _(q, k, v, m):
    weights = nn.softmax(jnp.where(m[:, None], _logits(q, k), -1e9), -1)
    return _weighted(jnp.where(m[:, None, ::-1], weights, 0), v)


@_layer(
    "a mask by a number that hides nothing", *_MASKED,
    reason="masked logits become -10000, which leaves a key some weight beside large negative logits",
)  # fmt: skip
def _(q, k, v, m):
    return _weighted(nn.softmax(jnp.where(m[:, None], _logits(q, k), -1e4), -1), v)


# -- rotations -------------------------------------------------------------------------------------


def _angles(length: int, count: int) -> jax.Array:
    return jnp.arange(length, dtype=jnp.float32)[:, None] * (1 / 10000 ** (jnp.arange(count) / count))


def _cos_sin(length: int, count: int) -> tuple[jax.Array, jax.Array]:
    angles = _angles(length, count)
    return jnp.cos(angles), jnp.sin(angles)


def _halves(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    one, other = jnp.split(x, 2, -1)
    return jnp.concatenate([one * cos - other * sin, other * cos + one * sin], -1)


def _every_two(x: jax.Array) -> jax.Array:
    return jnp.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)


@_layer("complex numbers (Llama)", _Q, rotations=1)
def _(x):
    pairs, turns = x.reshape(*x.shape[:-1], -1, 2), jnp.exp(1j * _angles(x.shape[1], 4))[:, None]
    turned = lax.complex(pairs[..., 0], pairs[..., 1]) * turns
    return jnp.stack([turned.real, turned.imag], -1).reshape(x.shape)


@_layer("neighbours, cosines repeated (GPT-J)", _Q, rotations=1)
def _(x):
    cos, sin = (jnp.repeat(each, 2, -1)[None, :, None] for each in _cos_sin(x.shape[1], 4))
    return x * cos + _every_two(x) * sin


@_layer("neighbours, angles repeated, given positions", _Q, _spec("B", "T", dtype="int32"), rotations=1)
def _(x, positions):
    angles = jnp.repeat(positions[..., None] * (1 / 10000 ** (jnp.arange(4) / 4)), 2, -1)[:, :, None]
    return x * jnp.cos(angles) + _every_two(x) * jnp.sin(angles)


@_layer("neighbours by a reshape (x-transformers)", _Q, rotations=1)
def _(x):
    angles = _angles(x.shape[1], 4)
    angles = jnp.stack([angles, angles], -1).reshape(x.shape[1], 8)[:, None]
    pairs = x.reshape(*x.shape[:-1], 4, 2)
    return x * jnp.cos(angles) + jnp.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(x.shape) * jnp.sin(angles)


@_layer("neighbours among the first features", _Q, rotations=1)
def _(x):
    cos, sin = (jnp.repeat(each, 2, -1)[None, :, None] for each in _cos_sin(x.shape[1], 2))
    return jnp.concatenate([x[..., :4] * cos + _every_two(x[..., :4]) * sin, x[..., 4:]], -1)


@_layer("halves, the minus at the feature", _Q, rotations=1)
def _(x):
    cos, sin = (each[:, None] for each in _cos_sin(x.shape[1], 4))
    one, other = x[..., :4], x[..., 4:]
    return jnp.concatenate([-other * sin + one * cos, one * sin + other * cos], -1)


@_layer("one head without an axis", _spec("B", "T", _F), rotations=1)
def _(x):
    return _halves(x, *_cos_sin(x.shape[1], 4))


@_layer("one example (equinox)", _spec("T", 4, _F), rotations=1)
def _(x):
    return _halves(x, *(each[:, None] for each in _cos_sin(x.shape[0], 4)))


@_layer("heads first, given positions", _spec("B", 4, "T", _F), _spec("B", "T", dtype="int32"), rotations=1)
def _(x, positions):
    angles = positions[:, None, :, None] * (1 / 10000 ** (jnp.arange(4) / 4))
    return _halves(x, jnp.cos(angles), jnp.sin(angles))


@_layer("rows and columns of an image", _spec("B", 16, 4, _F), rotations=2)
def _(x):
    at = jnp.arange(16)
    places = [each[:, None, None] * (1 / 100 ** (jnp.arange(2) / 2)) for each in (at // 4, at % 4)]
    parts = zip(jnp.split(x, 2, -1), places, strict=True)
    return jnp.concatenate([_halves(part, jnp.cos(each), jnp.sin(each)) for part, each in parts], -1)


@_layer(
    "in half precision", _HALF, reason="in half precision, the formula rounds the products, and the operator may not"
)
def _(x):
    return _halves(x, *(each[:, None].astype(x.dtype) for each in _cos_sin(x.shape[1], 4)))


@_layer("by a roll", _Q, rotations=1)
def _(x):
    cos, sin = (jnp.concatenate([each, each], -1)[:, None] for each in _cos_sin(x.shape[1], 4))
    return x * cos + jnp.roll(x, 4, -1) * jnp.repeat(jnp.array([-1.0, 1.0]), 4) * sin


@_layer("by a roll to the wrong elements", _Q, reason=_OTHER_ELEMENT)
def _(x):
    cos, sin = (jnp.concatenate([each, each], -1)[:, None] for each in _cos_sin(x.shape[1], 4))
    return x * cos + jnp.roll(x, 2, -1) * jnp.repeat(jnp.array([-1.0, 1.0]), 4) * sin
