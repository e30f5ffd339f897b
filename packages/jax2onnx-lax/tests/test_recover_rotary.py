"""Rotary embeddings in all spellings, as ONNX text: what becomes of them, and that the values stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.passes.recover.recover_rotary import RecoverRotary
from test_recovery_passes import model, rewritten

TOKENS = {"signature": "float[B,T,2,4] x", "result": "float[B,T,2,4] y"}
CONSTANTS = """
    nought = Constant<value = int64 {0}>() first = Constant<value = int64[1] {0}>() two = Constant<value = int64[1] {2}>()
    four = Constant<value = int64[1] {4}>() last = Constant<value = int64[1] {3}>() heads = Constant<value = int64[1] {2}>()
    h = Constant<value = int64[2] {2, 2}>() one = Constant<value = int64[1] {1}>() step = Constant<value = int64[1] {2}>()
"""
# Angles that depend on x, of [1, T, 2]: c and s vary with tokens and features, not with heads.
ROTATION = """
    x0 = ReduceSum(x, first) a1 = Gather<axis = 2>(x0, nought) a = Slice(a1, first, two, two)
    c3 = Cos(a) s3 = Sin(a) c = Unsqueeze(c3, heads) s = Unsqueeze(s3, heads)
"""
ANGLES = CONSTANTS + ROTATION
PRODUCTS = "p = Mul(x1, c) q = Mul(x2, s) u = Sub(p, q) r = Mul(c, x2) t = Mul(x1, s) v = Add(r, t)"
SPLIT = "x1, x2 = Split<axis = 3>(x, h)"
SLICES = "x1 = Slice(x, first, two, last) x2 = Slice(x, two, four, last)"
ALTERNATE = "x1 = Slice(x, first, four, last, step) x2 = Slice(x, one, four, last, step)"
PAIRS = """pairs = Constant<value = int64[5] {0, 0, 2, 2, 2}>() i1 = Constant<value = int64 {1}>()
    x5 = Reshape(x, pairs) x1 = Gather<axis = 4>(x5, nought) x2 = Gather<axis = 4>(x5, i1)"""
STACK = """end = Constant<value = int64[1] {4}>() flat = Constant<value = int64[4] {0, 0, 2, 4}>()
    u5 = Unsqueeze(u, end) v5 = Unsqueeze(v, end) w = Concat<axis = 4>(u5, v5) y = Reshape(w, flat)"""
SIDE_BY_SIDE = "y = Concat<axis = 3>(u, v)"


@pytest.mark.parametrize(
    ("parts", "end"), [(SPLIT, SIDE_BY_SIDE), (SLICES, SIDE_BY_SIDE), (ALTERNATE, STACK), (PAIRS, STACK)]
)
def test_products_of_pairs(parts: str, end: str) -> None:
    before = model(ANGLES + parts + PRODUCTS + end, **TOKENS)
    operators = rewritten(RecoverRotary(), before, (3, 5, 2, 4))
    assert "RotaryEmbedding" in operators
    assert "Mul" not in operators


def test_no_rotary_embedding_before_opset_23() -> None:
    before = model(ANGLES + SPLIT + PRODUCTS + SIDE_BY_SIDE, **TOKENS, opset=22)
    assert "RotaryEmbedding" not in rewritten(RecoverRotary(), before, (3, 5, 2, 4))


@pytest.mark.parametrize("where", ["angles", "cosines", "behind an axis"])
def test_a_rotated_half_with_doubled_angles(where: str) -> None:
    double = {
        "angles": "aa = Concat<axis = 2>(a, a) cc3 = Cos(aa) ss3 = Sin(aa) cc = Unsqueeze(cc3, heads) ss = Unsqueeze(ss3, heads)",
        "cosines": "cc3 = Concat<axis = 2>(c3, c3) ss3 = Concat<axis = 2>(s3, s3) cc = Unsqueeze(cc3, heads) "
        "ss = Unsqueeze(ss3, heads)",
        "behind an axis": "cc = Concat<axis = 3>(c, c) ss = Concat<axis = 3>(s, s)",
    }[where]
    rest = "n = Neg(x2) r = Concat<axis = 3>(n, x1) p = Mul(x, cc) q = Mul(ss, r) y = Add(p, q)"
    operators = rewritten(RecoverRotary(), model(ANGLES + SLICES + double + rest, **TOKENS), (3, 5, 2, 4))
    assert "RotaryEmbedding" in operators
    assert "Neg" not in operators


def test_doubled_angles_in_a_table() -> None:
    """One token of each of three positions, rows of [cos a, cos b, cos a, cos b]."""
    body = """cc = Constant<value = float[1,3,1,4] {0.5, 0.25, 0.5, 0.25, 0.1, 0.2, 0.1, 0.2, 0.3, 0.4, 0.3, 0.4}>()
        n = Neg(x2) r = Concat<axis = 3>(n, x1) p = Mul(x, cc) q = Mul(r, cc) y = Add(q, p)"""
    signature = {"signature": "float[B,3,2,4] x", "result": "float[B,3,2,4] y"}
    operators = rewritten(RecoverRotary(), model(CONSTANTS + SLICES + body, **signature), (2, 3, 2, 4))
    assert "RotaryEmbedding" in operators
    other = body.replace("0.3, 0.4}", "0.3, 0.5}")
    operators = rewritten(RecoverRotary(), model(CONSTANTS + SLICES + other, **signature), (2, 3, 2, 4))
    assert "RotaryEmbedding" not in operators


def test_heads_first_is_the_4d_form() -> None:
    angles = ANGLES.replace("a1 = Gather<axis = 2>", "a1 = Gather<axis = 1>")
    angles = angles.replace("heads = Constant<value = int64[1] {2}>()", "heads = Constant<value = int64[1] {1}>()")
    before = model(angles + SPLIT + PRODUCTS + SIDE_BY_SIDE, "float[B,2,T,4] x", result="float[B,2,T,4] y")
    operators = rewritten(RecoverRotary(), before, (3, 2, 5, 4))
    assert operators.count("RotaryEmbedding") == 1
    assert "Transpose" not in operators


@pytest.mark.parametrize(
    "change",
    [
        ("u = Sub(p, q)", "u = Sub(q, p)"),  # the rotation backwards
        ("t = Mul(x1, s)", "t = Mul(x1, c)"),
        ("y = Concat<axis = 3>(u, v)", "y = Concat<axis = 3>(v, u)"),
        (
            "c = Unsqueeze(c3, heads)",
            "cu = Unsqueeze(c3, heads) cx = Slice(x, first, two, last) c = Add(cu, cx)",
        ),  # angles that vary with the heads
    ],
)
def test_something_like_a_rotation_stays(change: tuple[str, str]) -> None:
    body = ANGLES + SPLIT + PRODUCTS + SIDE_BY_SIDE
    assert change[0] in body
    operators = rewritten(RecoverRotary(), model(body.replace(*change), **TOKENS), (3, 5, 2, 4))
    assert "RotaryEmbedding" not in operators


def test_rotation_in_half_precision() -> None:
    before = model(ANGLES + SPLIT + PRODUCTS + SIDE_BY_SIDE, "float16[B,T,2,4] x", result="float16[B,T,2,4] y")
    after = ir.from_proto(before)
    assert RecoverRotary()(after).modified
    assert "RotaryEmbedding" in [node.op_type for node in after.graph]


# --------------------------------------------------------------------------------- written in JAX


def _angles(positions: Any, features: int) -> jax.Array:
    frequencies = 1.0 / 10000 ** (jnp.arange(0, features, 2) / features)
    return positions[..., None].astype(jnp.float32) * frequencies


def halves(x: Any, positions: Any) -> jax.Array:
    angles = _angles(positions, x.shape[-1])[:, :, None]
    c, s = jnp.cos(angles), jnp.sin(angles)
    x1, x2 = jnp.split(x, 2, -1)
    return jnp.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)


def rotated_half(x: Any, positions: Any) -> jax.Array:
    angles = _angles(positions, x.shape[-1])
    doubled, half = jnp.concatenate([angles, angles], -1)[:, :, None], x.shape[-1] // 2
    return x * jnp.cos(doubled) + jnp.concatenate([-x[..., half:], x[..., :half]], -1) * jnp.sin(doubled)


def even_and_odd(x: Any, positions: Any) -> jax.Array:
    angles = _angles(positions, x.shape[-1])[:, :, None]
    c, s, x1, x2 = jnp.cos(angles), jnp.sin(angles), x[..., ::2], x[..., 1::2]
    return jnp.stack([x1 * c - x2 * s, x1 * s + x2 * c], -1).reshape(x.shape)


def complex_numbers(x: Any, positions: Any) -> jax.Array:
    angles, pairs = _angles(positions, x.shape[-1])[:, :, None], x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
    z = jax.lax.complex(pairs[..., 0], pairs[..., 1]) * jax.lax.complex(jnp.cos(angles), jnp.sin(angles))
    return jnp.stack([z.real, z.imag], -1).reshape(x.shape)


def rows_of_a_table(x: Any, positions: Any) -> jax.Array:
    angles = _angles(np.arange(64), x.shape[-1])
    doubled, half = jnp.concatenate([angles, angles], -1), x.shape[-1] // 2
    c, s = jnp.cos(doubled)[positions][:, :, None], jnp.sin(doubled)[positions][:, :, None]
    return x * c + jnp.concatenate([-x[..., half:], x[..., :half]], -1) * s


def all_sequences_alike(x: Any, positions: Any) -> jax.Array:
    angles = _angles(positions[0], x.shape[-1])[:, None]
    x1, x2 = jnp.split(x, 2, -1)
    c, s = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)


@pytest.mark.parametrize(("tokens", "heads"), [("T", 3), (1, 3), ("T", 1)])
@pytest.mark.parametrize(
    "rotate", [halves, rotated_half, even_and_odd, complex_numbers, rows_of_a_table, all_sequences_alike]
)
def test_rotary_embeddings_of_jax(rotate: Callable[[Any, Any], jax.Array], tokens: int | str, heads: int) -> None:
    program = to_onnx(rotate, [("B", tokens, heads, 8), (("B", tokens), np.int32)], opset=23)
    operators = [node.op_type for node in program.model.graph]
    assert operators.count("RotaryEmbedding") == 1
    assert not {"Neg", "Split"} & set(operators)
    for batch, length in ((2, 5), (1, 1), (3, 2)):
        length = length if tokens == "T" else 1
        rng = np.random.default_rng(length)
        x = rng.normal(size=(batch, length, heads, 8)).astype(np.float32)
        positions = rng.integers(0, 64, (batch, length)).astype(np.int32)
        np.testing.assert_allclose(program(x, positions), rotate(x, positions), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("rotate", [halves, rotated_half])
def test_rotary_embeddings_of_jax_with_heads_first(rotate: Callable[[Any, Any], jax.Array]) -> None:
    def rotate_heads(x: Any, positions: Any) -> jax.Array:
        return jax.vmap(lambda head: rotate(head[:, :, None], positions)[:, :, 0], 1, 1)(x)

    program = to_onnx(rotate_heads, [("B", 3, "T", 8), (("B", "T"), np.int32)], opset=23)
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 8)).astype(np.float32)
    positions = np.arange(10, dtype=np.int32).reshape(2, 5)
    np.testing.assert_allclose(program(x, positions), rotate_heads(x, positions), rtol=2e-5, atol=2e-5)
