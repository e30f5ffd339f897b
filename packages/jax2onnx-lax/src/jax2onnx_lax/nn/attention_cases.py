"""Cases of `attention`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case, expect_graph
from jax2onnx_core.plugins.cases import ExpectGraph, Precision

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

_attention = jax.nn.dot_product_attention
_Q, _K, _ONE = ("B", "T", 4, 6), ("B", "S", 4, 6), ("B", "S", 2, 6)


def _of_rank_3(**attributes: float) -> ExpectGraph:
    """The expectation that there is one Attention of heads that are side by side, with these attributes."""
    return expect_graph(
        "Reshape -> Attention -> Reshape",
        counts={"Reshape": 4, "Attention": 1},
        match="exact",
        attrs={"Attention": attributes},
    )


_3D, _CAUSAL = _of_rank_3(), _of_rank_3(is_causal=1)
_MASKED = expect_graph("Where -> Attention -> Reshape", counts={"Reshape": 4}, match="exact")
# JAX rounds logits to float32 for its softmax, in double precision too.
_LOOSE: Mapping[Precision, float] = {"f64": 2e-5}


def _masked(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    return _attention(q, k, v, mask=mask)


def _masked_causal(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    return _attention(q, k, v, mask=mask, is_causal=True)


def _biased(q: jax.Array, k: jax.Array, v: jax.Array, bias: jax.Array) -> jax.Array:
    return _attention(q, k, v, bias=bias)


def _masked_sequence(q: jax.Array, k: jax.Array, mask: jax.Array) -> jax.Array:
    return _attention(q, k, k, mask=mask)


def _case(name: str, fn: Any, *inputs: Any, **options: Any) -> Case:
    return Case(name, fn, inputs, rtol=_LOOSE, **options)


#: A mask that the caller gives may be minus infinity throughout a row, which is NaN then.
_ROWS_OF_INFINITY = "ReduceMax -> Equal -> Where -> Attention"
_NONE_ALLOWED = np.array([[[[True, False, True]], [[False, False, False]]]]).reshape(2, 1, 1, 3)

cases = [
    _case("attention", _attention, _Q, _K, _K, covers=("nn.attention",), expect=_3D),
    _case("attention_causal", functools.partial(_attention, is_causal=True), _Q, _Q, _Q, expect=_CAUSAL),
    _case(
        "attention_causal_fewer_keys",
        functools.partial(_attention, is_causal=True),
        _Q,
        _K,
        _K,
        expect=_CAUSAL,
    ),
    _case(
        "attention_scaled",
        functools.partial(_attention, scale=0.25),
        _Q,
        _K,
        _K,
        expect=_of_rank_3(scale=0.25),
    ),
    _case("attention_of_groups", _attention, _Q, _ONE, _ONE, expect=_3D),
    _case("attention_without_batch", _attention, ("T", 4, 6), ("S", 4, 6), ("S", 4, 6),
          expect=["Reshape -> Attention -> Reshape", "Reshape -> Attention", "Reshape -> Attention"]),
    _case("attention_mapped", jax.vmap(_attention), _Q, _K, _K, expect=_3D),
    _case(
        "attention_mapped_in_batches",
        jax.vmap(_attention),
        ("C", *_Q),
        ("C", *_K),
        ("C", *_K),
        expect=expect_graph(counts={"Attention": 1}),
    ),
    _case("attention_mapped_masked", jax.vmap(_masked_sequence), _Q, _K, (("B", 1, "T", "S"), np.bool_),
          expect=["Where -> Attention -> Reshape", "Reshape -> Attention", "Reshape -> Attention"]),
    _case("attention_mapped_masked_alike", jax.vmap(_masked_sequence, (0, 0, None)), _Q, _K, (("T", "S"), np.bool_),
          expect=["Unsqueeze -> Where -> Attention -> Reshape", "Reshape -> Attention", "Reshape -> Attention"]),
    _case(
        "attention_mapped_twice_masked_by_outer",
        jax.vmap(jax.vmap(_masked_sequence, (0, 0, None))),
        ("C", *_Q),
        ("C", *_K),
        (("C", "T", "S"), np.bool_),
        expect=at_most(30, Attention=1),
    ),
    _case(
        "attention_mapped_twice_masked_by_inner",
        jax.vmap(jax.vmap(_masked_sequence), (0, 0, None)),
        ("C", *_Q),
        ("C", *_K),
        (("B", "T", "S"), np.bool_),
        expect=at_most(30, Attention=1),
    ),
    _case("attention_mapped_over_queries", jax.vmap(_attention, (0, None, None)), _Q, ("S", 4, 6), ("S", 4, 6),
          expect=at_most(20, Attention=1)),
    _case("attention_masked", _masked, _Q, _K, _K, (("B", 1, "T", "S"), np.bool_), expect=_MASKED),
    _case("attention_masked_by_key", _masked, _Q, _K, _K, (("B", 1, 1, "S"), np.bool_), expect=at_most(20, Attention=1)),
    _case("attention_masked_by_head", _masked, _Q, _ONE, _ONE, ((1, 4, "T", "S"), np.bool_), expect=_MASKED),
    _case("attention_all_masked", _masked, (2, 3, 4, 6), (2, 3, 4, 6), (2, 3, 4, 6), _NONE_ALLOWED,
          expect=at_most(10, Attention=1)),
    _case("attention_masked_causal", _masked_causal, (2, 3, 4, 6), (2, 3, 4, 6), (2, 3, 4, 6), _NONE_ALLOWED,
          expect=at_most(10, Attention=1)),
    _case("attention_biased", _biased, _Q, _K, _K, (1, 4, "T", "S"),
          expect=["Reshape -> Attention -> Reshape", "Reshape -> Attention", "Reshape -> Attention", _ROWS_OF_INFINITY]),
    _case("attention_biased_causal", lambda q, k, b: _attention(q, k, k, b, is_causal=True), _Q, _Q, (1, 4, "T", "T"),
          expect=at_most(20, Attention=1)),
    _case(
        "attention_of_lengths",
        lambda q, k, n: _attention(q, k, k, key_value_seq_lengths=n),
        (2, 5, 4, 6),
        (2, 5, 4, 6),
        np.array([3, 5], np.int32),
        expect=expect_graph(counts={"Attention": 1, "MatMul": 0}),
    ),
    _case(
        "attention_in_a_window",
        lambda q: _attention(q, q, q, local_window_size=(2, 1)),
        ("B", "T", 4, 6),
        expect=expect_graph(counts={"Attention": 1, "MatMul": 0}),
    ),
    _case(
        "attention_to_some_keys_in_a_causal_window",
        lambda q, k, n, m: _attention(q, k, k, mask=m, is_causal=True, local_window_size=2, key_value_seq_lengths=n),
        _Q,
        _ONE,
        (("B",), np.int32),
        (("T", "S"), np.bool_),
        expect=expect_graph(counts={"Attention": 1, "MatMul": 0}),
    ),
    _case("attention_opset_18", _attention, _Q, _ONE, _ONE, options={"opset": 18},
          expect=at_most(20, MatMul=2, Softmax=1)),
    _case(
        "attention_causal_opset_18",
        functools.partial(_attention, is_causal=True),
        _Q,
        _K,
        _K,
        options={"opset": 18},
        expect=expect_graph("MatMul -> Mul -> Add -> Softmax -> MatMul"),
    ),
    Case(
        "attention_of_halves",
        lambda q, k: _attention(*(x.astype(jnp.float16) for x in (q, k, k))),
        [_Q, _K],
        rtol=1e-2,
        atol=4e-3,
        expect=["Cast -> Reshape -> Attention -> Reshape", "Cast -> Reshape -> Attention"],
    ),
]  # fmt: skip
