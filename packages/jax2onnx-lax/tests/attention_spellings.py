"""Random attentions as people write them: grouped heads, masks, biases, soft caps and layouts of any kind.

Letters: B batch, T queries, S keys, K key heads, G query heads of each, N = K · G, H features of a head.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Spelling", "attention", "extra_inputs", "random_spelling"]

H = 8
_NUMBERS = {"inf": -np.inf, "1e9": -1e9, "0.7 max": float(-0.7 * np.finfo(np.float32).max)}


@dataclasses.dataclass(frozen=True)
class Spelling:
    """How an attention is written.

    Attributes:
      heads: (K, G).
      q_layout, kv_layout, out_layout: the axes of the query, of keys and values, and of the result; D is heads and features.
      form: "grouped" with axes K and G apart, or how keys are repeated to N heads.
      logits: the axes of the logits, in the order in which the product gives them.
      scale: where the scale is applied.
      mask: the axes of the mask, "" without one, "causal" or "window".
      number: what masked logits are, or what the mask adds.
      bias: the axes of a bias, or "" without one.
      cap: a soft cap, or None.
      softmax: how the softmax is written.
      dtype: the element type of query, keys and values.
      again: how the mask is applied to the weights, too: "" (not), "selected" or "multiplied".
    """

    heads: tuple[int, int]
    q_layout: str
    kv_layout: str
    out_layout: str
    form: str
    logits: str
    scale: str
    mask: str
    number: str
    bias: str
    cap: float | None
    softmax: str
    dtype: str
    again: str

    def __str__(self) -> str:
        return "-".join(str(value) for value in dataclasses.astuple(self))


def random_spelling(seed: int) -> Spelling:
    """The spelling of a number."""
    rng = random.Random(seed)
    heads = rng.choice([(4, 1), (2, 2), (2, 2), (1, 4), (1, 1)])
    grouped = rng.random() < 0.5
    axes = list("BKGTS" if grouped else "BNTS")
    if rng.random() < 0.7:
        axes = list(rng.choice(["BTSKG", "BKGTS", "BKTGS", "BTKGS"]) if grouped else rng.choice(["BNTS", "BTNS"]))
    else:
        rng.shuffle(axes)
    repeats = ["repeat", "broadcast", "reshaped", "stacked"]
    dtype = rng.choice(["float32"] * 4 + ["bfloat16", "float16"])
    spelling = Spelling(
        heads=heads,
        q_layout=rng.choice(["BTNH", "BTNH", "BNTH", "BTD"]),
        kv_layout=rng.choice(["BSKH", "BSKH", "BKSH", "BSD"]),
        out_layout=rng.choice(["BTNH", "BTD", "BNTH"]),
        form="grouped" if grouped else rng.choice(repeats),
        logits="".join(axes),
        scale=rng.choice(["none", "query", "key", "logits", "divided", "both"]),
        mask=rng.choice(["", "TS", "BS", "BTS", "causal", "window"]),
        number=rng.choice(["inf", "min", "1e9", "0.7 max", "added 1e9", "added 0.7 max"]),
        bias=rng.choice(["", "", "", "NTS", "BNTS", "alibi"]),
        cap=rng.choice([None, None, None, 5.0]),
        softmax=rng.choice(["nn", "nn", "exp"]),
        dtype=dtype,
        again="",
    )
    # A mask that adds its number, or a bias of any numbers, may hide keys that the mask behind the softmax does not.
    may_be_again = spelling.mask and not spelling.number.startswith("added") and spelling.bias in ("", "alibi")
    # A mask of fixed sizes is a constant, and as numbers another one.
    is_one_tensor = spelling.number != "inf" and spelling.mask not in ("causal", "window")
    ways = ["selected", "multiplied"] if is_one_tensor else ["selected"]
    return dataclasses.replace(spelling, again=rng.choice(["", *ways]) if may_be_again else "")


def extra_inputs(spelling: Spelling, sizes: dict[str, Any]) -> list[tuple[str, tuple[Any, ...]]]:
    """(element type, shape) of the inputs for mask and bias."""
    kinds = []
    if spelling.mask not in ("", "causal", "window"):
        kinds.append(("bool", tuple(sizes[letter] for letter in spelling.mask)))
    if spelling.bias not in ("", "alibi"):
        kinds.append(("float32", tuple(sizes[letter] for letter in spelling.bias)))
    return kinds


def attention(spelling: Spelling, q: jax.Array, k: jax.Array, v: jax.Array, *extra: jax.Array) -> jax.Array:
    """softmax(cap(scale · q · kᵀ) + bias, masked) · v, as the spelling says."""
    rest = list(extra)
    head_axes = "KG" if spelling.form == "grouped" else "N"
    q, k, v = _scaled(spelling, _query(spelling, q, head_axes), *(_keys(spelling, x) for x in (k, v)))
    query, keys = spelling.q_layout.replace("D", "NH").replace("N", head_axes), _axes(spelling, k)
    logits = _product(q, query, k, keys, spelling.logits)
    logits = logits.astype(jnp.float32)
    factor = {"logits": H**-0.5, "both": H**-0.25}.get(spelling.scale)
    logits = logits / np.sqrt(H) if spelling.scale == "divided" else logits if factor is None else logits * factor
    if spelling.cap is not None:
        logits = jnp.tanh(logits / spelling.cap) * spelling.cap
    mask = _mask(spelling, logits, rest)
    bias = _bias(spelling, logits, rest)
    logits = logits if bias is None else logits + bias
    logits = logits if mask is None else _masked(spelling, logits, mask)
    weights = _softmax(spelling, logits).astype(v.dtype)
    if mask is not None and spelling.again:
        weights = jnp.where(mask, weights, 0) if spelling.again == "selected" else weights * mask
    result = spelling.out_layout.replace("D", "NH").replace("N", head_axes)
    out = _product(weights, spelling.logits, v, keys, result)
    return _with_merged_axes(out, result, spelling.out_layout, head_axes)


def _product(x: jax.Array, axes: str, y: jax.Array, other: str, result: str) -> jax.Array:
    """By `matmul` where the axes are the usual ones, else by `einsum`."""
    if (axes, other, result) == ("BNTH", "BNSH", "BNTS"):
        return x @ y.swapaxes(-1, -2)
    if (axes, other, result) == ("BNTS", "BNSH", "BNTH"):
        return x @ y
    return jnp.einsum(f"{axes},{other}->{result}", x, y)


def _query(spelling: Spelling, q: jax.Array, head_axes: str) -> jax.Array:
    """The query with its heads split as the logits have them."""
    keys, group = spelling.heads
    split = (keys, group) if head_axes == "KG" else (keys * group,)
    if spelling.q_layout == "BTD":
        return q.reshape(*q.shape[:2], *split, H)
    axis = spelling.q_layout.index("N")
    return q.reshape(*q.shape[:axis], *split, *q.shape[axis + 1 :])


def _axes(spelling: Spelling, keys: jax.Array) -> str:
    layout = spelling.kv_layout.replace("D", "KH")
    return layout if spelling.form == "grouped" else layout.replace("K", "N")


def _keys(spelling: Spelling, x: jax.Array) -> jax.Array:
    """Keys or values, repeated for the query heads unless heads are grouped."""
    count, group = spelling.heads
    x = x.reshape(*x.shape[:2], count, H) if spelling.kv_layout == "BSD" else x
    if spelling.form == "grouped" or group == 1:
        return x
    axis = spelling.kv_layout.replace("D", "KH").index("K")
    shape = (*x.shape[:axis], count * group, *x.shape[axis + 1 :])
    if spelling.form == "repeat":
        return jnp.repeat(x, group, axis)
    if spelling.form == "broadcast":
        wide = jnp.expand_dims(x, axis + 1)
        return jnp.broadcast_to(wide, (*wide.shape[: axis + 1], group, *wide.shape[axis + 2 :])).reshape(shape)
    if spelling.form == "stacked":
        return jnp.stack([x] * group, axis + 1).reshape(shape)
    return jnp.tile(jnp.expand_dims(x, axis + 1), [group if i == axis + 1 else 1 for i in range(5)]).reshape(shape)


def _scaled(spelling: Spelling, q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    factor = {"query": H**-0.5, "both": H**-0.25, "key": H**-0.5}.get(spelling.scale)
    if factor is None:
        return q, k, v
    return (q, k * factor, v) if spelling.scale == "key" else (q * factor, k, v)


def _aligned(x: jax.Array, axes: str, logits: str) -> jax.Array:
    """x, whose axes are some of those of the logits, so that it broadcasts with them."""
    order = sorted(axes, key=logits.index)
    x = x.transpose([axes.index(axis) for axis in order])
    return x.reshape([x.shape[order.index(axis)] if axis in order else 1 for axis in logits])


def _split_heads(spelling: Spelling, x: jax.Array, axes: str) -> tuple[jax.Array, str]:
    if "N" not in axes or "N" in spelling.logits:
        return x, axes
    at = axes.index("N")
    return x.reshape(*x.shape[:at], *spelling.heads, *x.shape[at + 1 :]), axes.replace("N", "KG")


def _mask(spelling: Spelling, logits: jax.Array, rest: list[jax.Array]) -> jax.Array | None:
    if not spelling.mask:
        return None
    if spelling.mask not in ("causal", "window"):
        return _aligned(rest.pop(0), spelling.mask, spelling.logits)
    length, keys = (logits.shape[spelling.logits.index(axis)] for axis in "TS")
    distance = jnp.arange(length)[:, None] - jnp.arange(keys)
    seen = distance >= 0 if spelling.mask == "causal" else (distance >= 0) & (distance < 3)
    return _aligned(seen, "TS", spelling.logits)


def _bias(spelling: Spelling, logits: jax.Array, rest: list[jax.Array]) -> jax.Array | None:
    if not spelling.bias:
        return None
    if spelling.bias != "alibi":
        return _aligned(*_split_heads(spelling, rest.pop(0), spelling.bias), spelling.logits)
    length, keys = (logits.shape[spelling.logits.index(axis)] for axis in "TS")
    slopes = 2.0 ** -np.arange(1, 1 + np.prod(spelling.heads), dtype=np.float32)
    bias = -jnp.abs(jnp.arange(length)[:, None] - jnp.arange(keys)) * slopes[:, None, None]
    return _aligned(*_split_heads(spelling, bias, "NTS"), spelling.logits)


def _masked(spelling: Spelling, logits: jax.Array, mask: jax.Array) -> jax.Array:
    if spelling.number == "min":
        return jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
    if spelling.number.startswith("added"):
        return logits + jnp.where(mask, 0.0, _NUMBERS[spelling.number.removeprefix("added ")]).astype(logits.dtype)
    return jnp.where(mask, logits, _NUMBERS[spelling.number])


def _softmax(spelling: Spelling, logits: jax.Array) -> jax.Array:
    axis = spelling.logits.index("S")
    if spelling.softmax == "nn":
        return jax.nn.softmax(logits, axis)
    weights = jnp.exp(logits - logits.max(axis, keepdims=True))
    return weights / weights.sum(axis, keepdims=True)


def _with_merged_axes(x: jax.Array, axes: str, layout: str, head_axes: str) -> jax.Array:
    """[.., heads.., H] as the layout has it."""
    shape: Sequence[Any] = x.shape
    at = axes.index(head_axes[0])
    heads = int(np.prod(shape[at : at + len(head_axes)]))
    rest = shape[at + len(head_axes) :]
    return x.reshape(*shape[:at], heads * H) if layout == "BTD" else x.reshape(*shape[:at], heads, *rest)
