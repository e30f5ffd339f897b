"""Attention of one token on a cache: one form of the operator, whichever way it is written and whichever axis is symbolic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, to_onnx

K, H = 2, 8
AXES = [(1, 1, 6), (1, "T", 6), (1, 1, "S"), ("B", 1, 6), (1, "T", "S"), ("B", "T", "S")]


def _seen(logits: jax.Array, position: jax.Array) -> jax.Array:
    """Logits [..., T, S] with the keys behind each query masked; the first query is at `position`."""
    queries, keys = logits.shape[-2:]
    return jnp.where(jnp.arange(keys) <= position + jnp.arange(queries)[:, None], logits, -1e30)


def grouped(q: jax.Array, k: jax.Array, v: jax.Array, position: jax.Array) -> jax.Array:
    split = q.reshape(*q.shape[:2], K, -1, H)
    logits = _seen(jnp.einsum("btkgh,bksh->bkgts", split, k) / H**0.5, position)
    return jnp.einsum("bkgts,bksh->btkgh", jax.nn.softmax(logits, -1), v).reshape(q.shape)


def capped(q: jax.Array, k: jax.Array, v: jax.Array, position: jax.Array) -> jax.Array:
    split = q.reshape(*q.shape[:2], K, -1, H)
    logits = _seen(2 * jnp.tanh(jnp.einsum("btkgh,bksh->bkgts", split, k) / 2), position)
    return jnp.einsum("bkgts,bksh->btkgh", jax.nn.softmax(logits, -1), v).reshape(q.shape)


def repeated(q: jax.Array, k: jax.Array, v: jax.Array, position: jax.Array) -> jax.Array:
    k, v = (jnp.repeat(x, q.shape[2] // K, 1) for x in (k, v))
    logits = _seen(q.transpose(0, 2, 1, 3) @ k.swapaxes(-1, -2) / H**0.5, position)
    return (jax.nn.softmax(logits, -1) @ v).transpose(0, 2, 1, 3)


def composite(q: jax.Array, k: jax.Array, v: jax.Array, position: jax.Array) -> jax.Array:
    mask = jnp.arange(k.shape[2]) <= position + jnp.arange(q.shape[1])[:, None]
    return jax.nn.dot_product_attention(q, k.swapaxes(1, 2), v.swapaxes(1, 2), mask=mask[None, None])


def without_its_axis(q: jax.Array, k: jax.Array, v: jax.Array, position: jax.Array) -> jax.Array:
    """The query has no axis of tokens."""
    split = q.reshape(q.shape[0], K, -1, H)
    logits = jnp.where(jnp.arange(k.shape[2]) <= position, jnp.einsum("bkgh,bksh->bkgs", split, k), -1e30)
    return jnp.einsum("bkgs,bksh->bkgh", jax.nn.softmax(logits, -1), v).reshape(q.shape)


def _form(program: OnnxProgram) -> tuple[Any, float | None]:
    """The rows of the query of the one attention, and its scale."""
    (node,) = (node for node in program.model.graph if node.op_type == "Attention")
    query = node.inputs[0]
    assert query is not None
    assert query.shape is not None
    rows = query.shape[-2]
    return rows if isinstance(rows, int) else rows.value, node.attributes.get_float("scale", None)


def _arrays(batch: int, queries: int, group: int) -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = (batch, queries, K * group, H), *[(batch, K, 6, H)] * 2
    return [*(rng.normal(size=shape).astype(np.float32) for shape in shapes), np.int32(2)]


FORMS = [(attention, axes) for attention in (grouped, capped, repeated, composite) for axes in AXES]
FORMS += [(without_its_axis, axes) for axes in AXES if axes[1] == 1]


@pytest.mark.parametrize(("attention", "axes"), FORMS)
@pytest.mark.parametrize("group", [2, 4])
def test_one_query_is_scaled_and_has_a_row_of_each_head(
    attention: Callable[..., jax.Array], group: int, axes: tuple[Any, ...]
) -> None:
    batch, queries, keys = axes
    caches = (batch, K, keys, H)
    program = to_onnx(attention, [(batch, queries, K * group, H), caches, caches, ((), np.int32)])
    rows, scale = _form(program)
    assert rows == (group if group == 4 and queries == 1 else queries)
    is_prefill = isinstance(queries, str) and isinstance(keys, str)  # of other keys, as far as is known
    assert scale == 1 or group == 4 or is_prefill
    for size in (1,) if queries == 1 else (1, 3):
        arrays = _arrays(2 if batch == "B" else 1, size, group)
        np.testing.assert_allclose(program(*arrays), jax.jit(attention)(*arrays), 2e-5, 2e-5)


def test_a_prefill_leaves_the_scale_to_the_operator() -> None:
    program = to_onnx(composite, [("B", "T", 4, H), *[("B", K, "T", H)] * 2, ((), np.int32)])
    assert _form(program) == ("T", None)


def test_queries_with_masks_of_their_own_are_no_heads() -> None:
    def fn(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
        logits = jnp.where(mask, jnp.einsum("bkth,bksh->bkts", q, k), -1e30)
        return jnp.einsum("bkts,bksh->bkth", jax.nn.softmax(logits, -1), v)

    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, K, length, H)).astype(np.float32) for length in (2, 5, 5))
    mask = np.tri(2, 5, 2, dtype=bool)
    program = to_onnx(fn, [q, k, v, mask])
    assert _form(program)[0] == 2
    np.testing.assert_allclose(program(q, k, v, mask), jax.jit(fn)(q, k, v, mask), 2e-5, 2e-5)


def test_one_query_with_a_bias_of_each_head() -> None:
    def fn(q: jax.Array, k: jax.Array, v: jax.Array, bias: jax.Array) -> jax.Array:
        logits = jnp.einsum("bkgh,bksh->bkgs", q, k) + bias
        return jnp.einsum("bkgs,bksh->bkgh", jax.nn.softmax(logits, -1), v)

    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, K, length, H)).astype(np.float32) for length in (2, 5, 5))
    bias = rng.normal(size=(K, 2, 5)).astype(np.float32)
    program = to_onnx(fn, [q, k, v, bias])
    assert _form(program) == (1, 1.0)
    np.testing.assert_allclose(program(q, k, v, bias), jax.jit(fn)(q, k, v, bias), 2e-5, 2e-5)
