"""Cells written out in `lax.scan` become ONNX's recurrent operators; what only resembles one stays a Scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx

H, F = 7, 5
_rng = np.random.default_rng(0)


def _weights(*shape: int) -> jax.Array:
    return jnp.asarray(_rng.normal(0, 0.4, shape), jnp.float32)


W, R, JOINED = _weights(F, 3 * H), _weights(H, 3 * H), _weights(F + H, 4 * H)
B = _weights(4 * H)


def classic_gru(h: Any, x: Any) -> Any:
    """The reset gate before the product; the update gate exchanged (Cho et al. 2014, v1)."""
    z = jax.nn.sigmoid(x @ W[:, :H] + h @ R[:, :H] + B[:H])
    r = jax.nn.sigmoid(x @ W[:, H : 2 * H] + h @ R[:, H : 2 * H])
    n = jnp.tanh(x @ W[:, 2 * H :] + (r * h) @ R[:, 2 * H :] + B[-H:])
    h = (1 - z) * h + z * n
    return h, h


def late_gru(h: Any, x: Any) -> Any:
    """The reset gate after the product, joined kernels."""
    rx, zx, nx = jnp.split(x @ W + B[: 3 * H], 3, -1)
    rh, zh, nh = jnp.split(h @ R, 3, -1)
    r, z = jax.nn.sigmoid(rx + rh), jax.nn.sigmoid(zx + zh)
    h = z * h + (1.0 - z) * jnp.tanh(nx + r * (nh + B[-H:]))
    return h, h


def joined_lstm(state: Any, x: Any) -> Any:
    """One kernel for input and hidden state together, a bias of one for the forget gate."""
    h, c = state
    i, g, f, o = jnp.split(jnp.concatenate([x, h], -1) @ JOINED + B, 4, -1)
    c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def cell_first(state: Any, x: Any) -> Any:
    """The cell's state comes before the hidden state."""
    (h, c), y = joined_lstm(state[::-1], x)
    return (c, h), y


def lstm_collecting_cells(state: Any, x: Any) -> Any:
    (h, c), _ = joined_lstm(state, x)
    return (h, c), c


def reset_twice(h: Any, x: Any) -> Any:
    """The reset gate multiplies two products, which are one product with the sum of their matrices."""
    r = jax.nn.sigmoid(x @ W[:, :H] + h @ R[:, :H])
    n = jnp.tanh(x @ W[:, H : 2 * H] + r * (h @ R[:, :H]) + r * (h @ R[:, H : 2 * H]))
    h = (1 - r) * n + r * h
    return h, h


def coupled_lstm(state: Any, x: Any) -> Any:
    """An LSTM whose input gate is one minus its forget gate."""
    h, c = state
    f, g, o = jnp.split((x @ W + h @ R), 3, -1)
    c = jnp.tanh(g) + jax.nn.sigmoid(f) * (c - jnp.tanh(g))
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def peephole_lstm(state: Any, x: Any) -> Any:
    """The cell's state reaches a gate."""
    h, c = state
    i, g, o = jnp.split((x @ W + h @ R), 3, -1)
    c = jax.nn.sigmoid(i + c * B[:H]) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def scaled_state(h: Any, x: Any) -> Any:
    h = 0.9 * jnp.tanh(x @ W[:, :H] + h @ R[:, :H])
    return h, h


def simple(h: Any, x: Any) -> Any:
    h = jnp.tanh(x @ W[:, :H] + h @ R[:, :H] + B[:H])
    return h, h


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dims", [(6, 2), ("T", "B")])
@pytest.mark.parametrize(
    ("cell", "states", "op_type"),
    [
        (classic_gru, 1, "GRU"),
        (late_gru, 1, "GRU"),
        (joined_lstm, 2, "LSTM"),
        (cell_first, 2, "LSTM"),
        (simple, 1, "RNN"),
        (lstm_collecting_cells, 2, "Scan"),
        (reset_twice, 1, "GRU"),
        (coupled_lstm, 2, "LSTM"),
        (peephole_lstm, 2, "Scan"),
        (scaled_state, 1, "Scan"),
    ],
)
def test_cells(cell: Callable[..., Any], states: int, op_type: str, dims: tuple[Any, Any], reverse: bool) -> None:
    def model(x: Any, *init: Any) -> Any:
        return jax.lax.scan(cell, init if states == 2 else init[0], x, reverse=reverse)

    program = to_onnx(model, [(*dims, F), *[(dims[1], H)] * states])
    operators = [node.op_type for node in program.model.graph]
    assert op_type in operators
    assert ("Scan" in operators) == (op_type == "Scan")
    program.verify()


def test_first_state_of_zeros_is_not_passed_on() -> None:
    program = to_onnx(lambda x: jax.lax.scan(simple, jnp.zeros((2, H)), x)[1], [("T", 2, F)])
    assert [node.op_type for node in program.model.graph] == ["RNN", "Squeeze"]
    program.verify()
