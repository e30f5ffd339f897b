"""Formulas that resemble those of operators: whichever becomes one, the model gives what JAX gives on values that tell them apart."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, to_onnx

Array = np.ndarray
_Function = Callable[..., jax.Array | tuple[jax.Array, ...]]
_LOWEST = float(np.finfo(np.float32).min)
_RNG = np.random.default_rng(20)


def _normal(*shape: int) -> Array:
    return _RNG.normal(size=shape).astype(np.float32)


def _exported(function: _Function, operands: Sequence[Array]) -> OnnxProgram:
    return to_onnx(function, [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands])


def _operators(program: OnnxProgram) -> list[str]:
    return [node.op_type for node in program.model.graph]


def _assert_same(program: OnnxProgram, function: _Function, operands: Sequence[Array], tolerance: float = 1e-4) -> None:
    results = [jax.tree.leaves(call(*operands)) for call in (program, function)]
    for got, want in zip(*results, strict=True):
        got, want = (np.asarray(each).astype(np.float32) for each in (got, want))
        np.testing.assert_allclose(got, want, tolerance, tolerance)


# -- masks of attention ------------------------------------------------------------------------------

_QUERY, _KEY, _VALUE = (_normal(2, 4, 2, 4) for _ in range(3))
_BIAS = _normal(2, 2, 4, 4)
_CAUSAL = np.repeat(np.tril(np.ones((4, 4), bool))[None, None], 2, 0)
_PADDED = np.ones((2, 1, 4, 4), bool)
_PADDED[0, :, :2] = False  # rows without any key that is seen
_PADDED[1, :, :, :2] = False  # and rows of which the causal mask hides the rest


def _added(mask: jax.Array, number: float) -> jax.Array:
    return jnp.where(mask, 0.0, number)


#: The ways to mask logits: what is done to them, with the masks a and b, the bias z, and the numbers c and d.
_MASKINGS: dict[str, _Function] = {
    "selected": lambda x, a, b, z, c, d: jnp.where(a, x, c),
    "added": lambda x, a, b, z, c, d: x + _added(a, c),
    "bias, selected": lambda x, a, b, z, c, d: jnp.where(a, x + z, c),
    "selected, bias": lambda x, a, b, z, c, d: jnp.where(a, x, c) + z,
    "selected twice": lambda x, a, b, z, c, d: jnp.where(b, jnp.where(a, x, c), d),
    "added twice": lambda x, a, b, z, c, d: x + _added(a, c) + _added(b, d),
    "added, selected": lambda x, a, b, z, c, d: jnp.where(b, x + _added(a, c), d),
    "selected, added": lambda x, a, b, z, c, d: jnp.where(b, x, c) + _added(a, d),
    "selected, far away": lambda x, a, b, z, c, d: jnp.where(a, x - 2.4e4, c),
    "one sum of mask and bias": lambda x, a, b, z, c, d: x + (_added(a, c) + z),
    "one sum of two masks": lambda x, a, b, z, c, d: x + (_added(a, c) + _added(b, d)),
    "inverted": lambda x, a, b, z, c, d: jnp.where(~a, c, x) - z,
}
_NUMBERS = (-1e4, -1e9, -1e30, 0.7 * _LOWEST, _LOWEST)


def _attention(masking: str, c: float, d: float) -> _Function:
    def attention(q: jax.Array, k: jax.Array, v: jax.Array, a: jax.Array, b: jax.Array, z: jax.Array) -> jax.Array:
        logits = _MASKINGS[masking](jnp.einsum("btnh,bsnh->bnts", q, k) * 0.5, a, b, z, c, d)
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(logits, -1), v)

    return attention


def _masked_attentions() -> list[tuple[str, float, float]]:
    """Every way with one number, and a sample of those with two."""
    same = [(masking, c, c) for masking in _MASKINGS for c in _NUMBERS]
    two = [
        (masking, c, d)
        for masking in ("selected twice", "added, selected", "selected, added")
        for c, d in itertools.permutations(_NUMBERS, 2)
    ]
    return [*same[::2], *two[::6], ("one sum of mask and bias", _LOWEST, _LOWEST)]


@pytest.mark.parametrize(("masking", "c", "d"), _masked_attentions())
def test_masks_of_attention(masking: str, c: float, d: float) -> None:
    attention = _attention(masking, c, d)
    operands = (_QUERY, _KEY, _VALUE, _PADDED, _CAUSAL, _BIAS)
    program = _exported(attention, operands)
    for scale in (1, 30):
        _assert_same(program, attention, (scale * _QUERY, *operands[1:]))


@pytest.mark.parametrize(
    "masking", ["selected", "bias, selected", "selected twice", "added twice", "one sum of mask and bias"]
)
def test_usual_masks_are_one_operator(masking: str) -> None:
    attention = _attention(masking, _LOWEST, _LOWEST)
    program = _exported(attention, (_QUERY, _KEY, _VALUE, _PADDED, _CAUSAL, _BIAS))
    assert _operators(program).count("Attention") == 1


def test_values_that_one_product_over_all_tokens_makes_are_operands_of_attention() -> None:
    """Its rows are tokens of all texts, an axis of symbolic size that is taken apart behind it."""
    weights = _normal(6, 2, 4)

    def attention(q: jax.Array, k: jax.Array, x: jax.Array) -> jax.Array:
        v = jnp.einsum("bsd,dnh->bsnh", x, weights)
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, k)), v)

    heads = ("B", "T", 2, 4)
    program = to_onnx(attention, [heads, heads, ("B", "T", 6)])
    assert _operators(program).count("Attention") == 1
    program.verify()


def test_layers_with_other_groups_of_heads_share_a_mask() -> None:
    def layer(q: jax.Array, k: jax.Array, mask: jax.Array) -> jax.Array:
        logits = jnp.where(mask, jnp.einsum("btkgh,bskh->bkgts", q, k), _LOWEST)
        return jnp.einsum("bkgts,bskh->btkgh", jax.nn.softmax(logits, -1), k)

    def both(first: jax.Array, second: jax.Array, k: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        return layer(first, k, mask), layer(second, k, mask)

    mask = _RNG.random((1, 2, 1, 4, 4)) < 0.7
    operands = _normal(2, 4, 2, 2, 4), _normal(2, 4, 2, 3, 4), _normal(2, 4, 2, 4), mask
    program = _exported(both, operands)
    _assert_same(program, both, operands)


# -- rotations ---------------------------------------------------------------------------------------


def _halves(x: jax.Array, c: jax.Array, s: jax.Array) -> jax.Array:
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def _turned(x: jax.Array, c: jax.Array, s: jax.Array) -> jax.Array:
    a, b = jnp.split(x, 2, -1)
    c, s = jnp.concatenate([c, c], -1), jnp.concatenate([s, s], -1)
    return x * c + jnp.concatenate([-b, a], -1) * s


def _pairs(x: jax.Array, c: jax.Array, s: jax.Array) -> jax.Array:
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)


#: Rotations, and what only resembles them.
_ROTATIONS: dict[str, _Function] = {
    "halves": _halves,
    "turned": _turned,
    "pairs": _pairs,
    "in single precision": lambda x, c, s: _halves(*(each.astype(np.float32) for each in (x, c, s))).astype(x.dtype),
    "backwards": lambda x, c, s: _halves(x, c, -s),
    "exchanged": lambda x, c, s: _halves(x, s, c),
    "one operand twice": lambda x, c, s: _halves(x, c, c),
    "halves exchanged": lambda x, c, s: jnp.roll(_halves(x, c, s), 4, -1),
    "no rotation": lambda x, c, s: jnp.concatenate(
        [x[..., :4] * c + x[..., 4:] * s, x[..., 4:] * c - x[..., :4] * s], -1
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", _ROTATIONS)
def test_rotations(name: str, dtype: str) -> None:
    rotation, numbers = _ROTATIONS[name], jnp.dtype(dtype)
    angles = _RNG.uniform(0, 6, (1, 5, 1, 4))
    operands = [x.astype(numbers) for x in (_normal(2, 5, 3, 8), np.cos(angles), np.sin(angles))]
    program = _exported(rotation, operands)
    # ONNX Runtime computes chains of float16 operators in float32.
    tolerance = {"float32": 1e-6, "float16": 4e-3, "bfloat16": 0}[dtype]
    _assert_same(program, rotation, operands, tolerance)
    assert dtype == "float32" or name == "in single precision" or "RotaryEmbedding" not in _operators(program)


def test_rotations_in_single_precision_are_one_operator() -> None:
    operands = _normal(2, 5, 3, 8), _normal(1, 5, 1, 4), _normal(1, 5, 1, 4)
    for rotation in (_halves, _turned, _pairs):
        assert _operators(_exported(rotation, operands)).count("RotaryEmbedding") == 1


# -- recurrent cells ---------------------------------------------------------------------------------


def _cell(kind: str, *, reverse: bool) -> _Function:
    gates = {"lstm": 4, "gru": 3, "rnn": 1, "relu": 1}[kind]
    kernel, recurrent, bias = _normal(3, gates * 6) / 4, _normal(6, gates * 6) / 4, _normal(gates * 6)

    def step(state: tuple[jax.Array, jax.Array], row: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        h, c = state
        parts, old = jnp.split(row @ kernel + bias, gates, -1), jnp.split(h @ recurrent, gates, -1)
        if kind == "lstm":
            i, g, f, o = (a + b for a, b in zip(parts, old, strict=True))
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
        elif kind == "gru":
            z, r = (jax.nn.sigmoid(a + b) for a, b in zip(parts[:2], old[:2], strict=True))
            h = (1 - z) * jnp.tanh(parts[2] + r * old[2]) + z * h
        else:
            h = (jnp.tanh if kind == "rnn" else jax.nn.relu)(parts[0] + old[0])
        return (h, c), h

    def cell(x: jax.Array, h: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
        (h, _), y = jax.lax.scan(step, (h, c), x, reverse=reverse)
        return h, y

    return cell


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn", "relu"])
@pytest.mark.parametrize("reverse", [False, True])
def test_nan_in_recurrent_cells(kind: str, reverse: bool) -> None:
    cell = _cell(kind, reverse=reverse)
    operands = _normal(5, 3, 3), _normal(3, 6), _normal(3, 6)
    program = _exported(cell, operands)
    _assert_same(program, cell, operands)
    for place, index in ((0, (2, 1, 0)), (0, (4, 0, 2)), (1, (1, 3)), (2, (2, 5))):
        changed = [operand.copy() for operand in operands]
        changed[place][index] = np.nan
        _assert_same(program, cell, changed)
