"""Attention in many spellings: whichever is chosen, the exported graph has the one operator, on keys and values as they are."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_spellings import H, Spelling, attention, extra_inputs, random_spelling
from jax2onnx_core import OnnxProgram, to_onnx

_TOLERANCES = {"float32": 3e-5, "bfloat16": 6e-2, "float16": 8e-3}
_VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Cast")


def _sizes(spelling: Spelling, seed: int) -> tuple[dict[str, Any], dict[str, int]]:
    """The dimension that each letter stands for in the export, and its size at run time."""
    keys, group = spelling.heads
    numbers = {"B": 2, "T": 3, "S": 5, "K": keys, "G": group, "N": keys * group, "H": H}
    if seed % 3 == 0:
        numbers["S"] = numbers["T"] = 4
    if seed % 7 == 0:
        numbers["T"] = 1
    symbols = {"B": "B", "T": "T" if seed % 7 else 1, "S": "T" if seed % 3 == 0 and seed % 7 else "S"}
    return (numbers | symbols if seed % 2 else dict(numbers)), numbers


def _inputs(spelling: Spelling, sizes: dict[str, Any]) -> list[tuple[str, tuple[Any, ...]]]:
    keys, group = spelling.heads
    query, key = sizes | {"D": keys * group * H}, sizes | {"D": keys * H}
    shapes = [tuple(query[axis] for axis in spelling.q_layout), *[tuple(key[axis] for axis in spelling.kv_layout)] * 2]
    return [*((spelling.dtype, shape) for shape in shapes), *extra_inputs(spelling, sizes)]


def _arrays(spelling: Spelling, numbers: dict[str, int], seed: int) -> list[Any]:
    """Random inputs; some rows of a mask hide all keys, unless they are hidden by minus infinity."""
    rng, arrays = np.random.default_rng(seed), []
    for dtype, shape in _inputs(spelling, numbers):
        x = rng.normal(size=shape)
        if dtype == "bool":
            mask = x > -0.3
            if spelling.number == "inf":
                mask[..., 0] = True
            else:
                mask[0, 0 if mask.ndim == 3 else slice(None)] = False
            arrays.append(mask)
        else:
            arrays.append(np.asarray(jnp.asarray(x, jnp.dtype(dtype))))
    return arrays


def _between(program: OnnxProgram) -> list[str]:
    """The operators between keys and values of the one attention and what they are made of."""
    (node,) = (node for node in program.model.graph if node.op_type == "Attention")
    found = []
    for value in node.inputs[1:3]:
        while value is not None and (maker := value.producer()) is not None:
            found.append(maker.op_type)
            value = maker.inputs[0]
    return found


@pytest.mark.parametrize("seed", range(160))
def test_a_spelling_is_one_operator_with_the_values_of_jax(seed: int) -> None:
    spelling = random_spelling(seed)
    shown, numbers = _sizes(spelling, seed)
    fn = functools.partial(attention, spelling)
    program = to_onnx(fn, [(shape, jnp.dtype(dtype)) for dtype, shape in _inputs(spelling, shown)])
    assert set(_between(program)) <= set(_VIEWS), spelling
    arrays = _arrays(spelling, numbers, seed)
    expected = np.asarray(jax.jit(fn)(*arrays)).astype(np.float32)
    tolerance = _TOLERANCES[spelling.dtype]
    np.testing.assert_allclose(
        np.asarray(program(*arrays)).astype(np.float32), expected, tolerance, tolerance, err_msg=str(spelling)
    )


def _with_sink(q: jax.Array, k: jax.Array, v: jax.Array, sink: jax.Array) -> jax.Array:
    """One more logit per head, which takes a share of the weights and has no value."""
    logits = jnp.einsum("btnh,bsnh->bnts", q, k)
    more = jnp.broadcast_to(sink[None, :, None, None], (*logits.shape[:-1], 1))
    weights = jax.nn.softmax(jnp.concatenate([logits, more], -1), -1)[..., :-1]
    return jnp.einsum("bnts,bsnh->btnh", weights, v)


def _leaking(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Keys that are hidden have a small weight all the same."""
    logits = jnp.where(mask, jnp.einsum("btnh,bsnh->bnts", q, k), -1e9)
    weights = jnp.where(mask, jax.nn.softmax(logits, -1), 1e-3)
    return jnp.einsum("bnts,bsnh->btnh", weights, v)


@pytest.mark.parametrize(("fn", "extra"), [(_with_sink, np.ones(2, np.float32)), (_leaking, np.eye(3, 5) > 1)])
def test_what_the_operator_cannot_say_stays_as_it_is(fn: Any, extra: Any) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, length, 2, H)).astype(np.float32) for length in (3, 5, 5))
    program = to_onnx(fn, [q, k, v, extra])
    assert "Attention" not in [node.op_type for node in program.model.graph]
    np.testing.assert_allclose(program(q, k, v, extra), jax.jit(fn)(q, k, v, extra), 2e-5, 2e-5)


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
def test_queries_keys_and_values_with_batches_of_vmap(heads: tuple[int, int]) -> None:
    def one(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        k, v = (jnp.repeat(x, heads[0] // heads[1], 1) for x in (k, v))
        return jnp.einsum("nts,snh->tnh", jax.nn.softmax(jnp.einsum("tnh,snh->nts", q, k), -1), v)

    rng = np.random.default_rng(0)
    q, k, v = (
        rng.normal(size=(2, length, n, H)).astype(np.float32)
        for length, n in zip((3, 5, 5), (heads[0], *heads[1:] * 2))
    )
    for fn, arrays in ((jax.vmap(one), (q, k, v)), (one, (q[0], k[0], v[0]))):
        program = to_onnx(fn, list(arrays))
        assert set(_between(program)) <= set(_VIEWS)
        np.testing.assert_allclose(program(*arrays), jax.jit(fn)(*arrays), 2e-5, 2e-5)


def test_a_mask_of_key_heads_serves_the_query_heads_of_each() -> None:
    def fn(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
        logits = jnp.einsum("btkgh,bskh->btskg", q.reshape(*q.shape[:2], 2, 2, H), k)
        logits = jnp.where(mask.transpose(0, 2, 3, 1)[..., None], logits, -1e9)
        return jnp.einsum("btskg,bskh->btkgh", jax.nn.softmax(logits, 2), v).reshape(q.shape)

    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, length, n, H)).astype(np.float32) for length, n in ((3, 4), (5, 2), (5, 2)))
    mask = rng.random((2, 2, 3, 5)) < 0.6
    specs = [("B", "T", 4, H), *[("B", "S", 2, H)] * 2, (("B", 2, "T", "S"), np.bool_)]
    program = to_onnx(fn, specs)
    assert set(_between(program)) <= set(_VIEWS)
    np.testing.assert_allclose(program(q, k, v, mask), jax.jit(fn)(q, k, v, mask), 2e-5, 2e-5)


def _grouped_with_sink(q: jax.Array, k: jax.Array, v: jax.Array, sink: jax.Array) -> jax.Array:
    """As in gpt-oss, with the products in JAX's order: keys times queries."""
    logits = jnp.einsum("btkgh,bskh->bkgts", q.reshape(*q.shape[:2], 2, 2, H), k)
    places, last = jnp.arange(k.shape[1]), k.shape[1] - q.shape[1]
    logits = jnp.where(places <= jnp.arange(q.shape[1])[:, None] + last, logits, -jnp.inf)
    more = jnp.broadcast_to(sink.reshape(1, 2, 2, 1, 1), (*logits.shape[:-1], 1))
    weights = jax.nn.softmax(jnp.concatenate([logits, more], -1), -1)[..., :-1]
    return jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(q.shape)


@pytest.mark.parametrize(("batch", "queries", "keys"), [(2, 60, 70), (1, 60, 60), ("B", "T", 70), ("B", "T", "S")])
def test_products_around_another_softmax_do_not_transpose_it(batch: Any, queries: Any, keys: Any) -> None:
    specs = [(batch, queries, 4, H), *[(batch, keys, 2, H)] * 2, (4,)]
    program = to_onnx(_grouped_with_sink, specs)
    for node in program.model.graph:
        shape = node.outputs[0].shape
        assert node.op_type != "Transpose" or (shape is not None and H in list(shape)), "logits or probabilities"
    rng = np.random.default_rng(0)
    sizes = {"B": 3, "T": 5, "S": 9}
    q, k, v, sink = (
        rng.normal(size=[sizes[d] if isinstance(d, str) else d for d in spec]).astype(np.float32) for spec in specs
    )
    np.testing.assert_allclose(program(q, k, v, sink), jax.jit(_grouped_with_sink)(q, k, v, sink), 2e-5, 2e-5)
