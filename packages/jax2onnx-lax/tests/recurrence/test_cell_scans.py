"""Cells written out in `lax.scan` become ONNX's recurrent operators; what only resembles one stays a Scan."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import Registry, hookimpl, to_onnx
from jax2onnx_graph.forms import Form
from jax2onnx_graph.targets import Target

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


def moving_gru(h: Any, x: Any) -> Any:
    """The state moves towards the candidate: an infinite one is NaN after the step."""
    z, r = jnp.split(jax.nn.sigmoid(x @ W[:, : 2 * H] + h @ R[:, : 2 * H]), 2, -1)
    h = h + z * (jnp.tanh(x @ W[:, 2 * H :] + r * (h @ R[:, 2 * H :])) - h)
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
        (moving_gru, 1, "GRU"),
        (coupled_lstm, 2, "LSTM"),
        (peephole_lstm, 2, "Scan"),
        (scaled_state, 1, "Scan"),
    ],
)
def test_cells(cell: Callable[..., Any], states: int, op_type: str, dims: tuple[Any, Any], reverse: bool) -> None:
    def model(x: Any, *init: Any) -> Any:
        return jax.lax.scan(cell, init if states == 2 else init[0], x, reverse=reverse)

    program = to_onnx(model, [(*dims, F), *[(dims[1], H)] * states], assume=["finite"])
    operators = [node.op_type for node in program.model.graph]
    assert op_type in operators
    assert ("Scan" in operators) == (op_type == "Scan")
    program.verify()


def test_first_state_of_zeros_is_not_passed_on() -> None:
    program = to_onnx(lambda x: jax.lax.scan(simple, jnp.zeros((2, H)), x)[1], [("T", 2, F)])
    assert [node.op_type for node in program.model.graph] == ["RNN", "Squeeze"]
    program.verify()


# -- what a cell may be written as ----------------------------------------------------------------


def _operators(function: Callable[..., Any], *dims: Any, **options: Any) -> list[str]:
    """The operators of a verified program of finite numbers, for which no operator has a branch beside it."""
    program = to_onnx(function, [*dims], assume=["finite"], **options)
    program.verify()
    return [node.op_type for node in program.model.graph]


def _scanned(cell: Callable[..., Any], states: int = 1) -> Callable[..., Any]:
    return lambda x, *init: jax.lax.scan(cell, init if states == 2 else init[0], x)


ONE = [("T", "B", F), ("B", H)]
TWO = [*ONE, ("B", H)]


def _gate(x: Any, h: Any, index: int) -> Any:
    part = slice(index * H, index * H + H)
    return x @ W[:, part] + h @ R[:, part] + B[:H]


def _updated(h: Any, z: Any, n: Any) -> Any:
    h = z * h + (1 - z) * n
    return h, h


@jax.jit
def compiled(h: Any, x: Any) -> Any:
    """A step that is a call of a compiled function."""
    return simple(h, x)


def of_a_matrix_from_the_left(h: Any, x: Any) -> Any:
    h = jnp.tanh((R[:, :H].T @ h.T).T + x @ W[:, :H])
    return h, h


def multiplied_out(h: Any, x: Any) -> Any:
    z, r = jax.nn.sigmoid(_gate(x, h, 0)), jax.nn.sigmoid(_gate(x, h, 1))
    n = jnp.tanh(x @ W[:, 2 * H :] + r * (h @ R[:, 2 * H :]))
    h = n + z * (h - n)
    return h, h


def of_computed_rows(h: Any, x: Any) -> Any:
    """The row is what a layer makes of the input in each step."""
    x = jax.nn.relu(x @ W[:, :F] + 1)
    h = jnp.tanh(x @ W[:, :H] + h @ R[:, :H])
    return h, h


def of_a_kernel_per_head(h: Any, x: Any) -> Any:
    gates = jnp.einsum("bi,igh->bgh", x, W.reshape(F, 3, H)) + jnp.einsum("bi,igh->bgh", h, R.reshape(H, 3, H))
    z, n = jax.nn.sigmoid(gates[:, 0]), jnp.tanh(gates[:, 2])
    return _updated(h, z, n)


def of_taken_columns(h: Any, x: Any) -> Any:
    gates = jnp.take(x @ W + h @ R, jnp.arange(2 * H)[::-1], 1)
    return _updated(h, jax.nn.sigmoid(gates[:, :H]), jnp.tanh(gates[:, H:]))


def with_a_head(h: Any, x: Any) -> Any:
    """What is collected is computed of the new state and of the input."""
    h = jnp.tanh(x @ W[:, :H] + h @ R[:, :H])
    return h, {"logits": jax.nn.softmax(h @ R[:, :3]), "gated": h[:, :F] * x, "input": x, "ones": 1.0}


def joined_gru(h: Any, x: Any) -> Any:
    z, r = jnp.split(jax.nn.sigmoid(jnp.concatenate([x, h], -1) @ JOINED[:, : 2 * H]), 2, -1)
    n = jnp.tanh(jnp.concatenate([x, r * h], -1) @ JOINED[:, 2 * H : 3 * H])
    return _updated(h, z, n)


@pytest.mark.parametrize(
    ("cell", "op_type"),
    [
        (compiled, "RNN"),
        (of_a_matrix_from_the_left, "RNN"),
        (multiplied_out, "GRU"),
        (of_computed_rows, "RNN"),
        (with_a_head, "RNN"),
        (joined_gru, "GRU"),
    ],
)
def test_writings_of_a_cell(cell: Callable[..., Any], op_type: str) -> None:
    found = _operators(_scanned(cell), *ONE)
    assert op_type in found
    assert not {"Scan", "Loop"} & set(found)


@pytest.mark.parametrize("cell", [of_a_kernel_per_head, of_taken_columns])
def test_gates_without_a_reset_gate_are_no_gru(cell: Callable[..., Any]) -> None:
    """ONNX has no cell of an update gate alone; how its columns are taken apart is read all the same."""
    program = to_onnx(_scanned(cell), ONE)
    assert "Scan" in [node.op_type for node in program.model.graph]
    assert "its step is not that of an LSTM, GRU or RNN" in _reasons(program)
    program.verify()


def _before_the_loop(x: jax.Array, h: jax.Array) -> Any:
    def step(h: jax.Array, row: jax.Array) -> Any:
        h = jnp.tanh(row + h @ R[:, :H])
        return h, h

    return jax.lax.scan(step, h, (x @ W[:, :H] + B[:H]).swapaxes(0, 1))


def _gates_before_the_loop(x: jax.Array, h: jax.Array) -> Any:
    def step(h: jax.Array, row: jax.Array) -> Any:
        h = jnp.tanh(row[:, 0] + row[:, 1] + h @ R[:, :H])
        return h, h

    parts = [jax.jit(jnp.matmul)(x, W[:, i : i + H]) for i in (0, H)]
    return jax.lax.scan(step, h, jnp.stack(parts, 2).swapaxes(0, 1))


@pytest.mark.parametrize("function", [_before_the_loop, _gates_before_the_loop])
def test_products_before_the_loop_are_weights(function: Callable[..., Any]) -> None:
    found = _operators(function, ("B", "T", F), ("B", H))
    assert "RNN" in found
    assert not {"MatMul", "Gemm", "Scan"} & set(found)


@pytest.mark.parametrize("reverse", [False, True])
def test_states_before_the_steps_are_collected(reverse: bool) -> None:
    def function(x: Any, h: Any) -> Any:
        return jax.lax.scan(lambda h, x: (late_gru(h, x)[0], h), h, x, reverse=reverse)

    found = _operators(function, *ONE)
    assert "GRU" in found
    assert "Scan" not in found


def _twice(h: Any, x: Any) -> Any:
    return late_gru(h, x)[0], jnp.sin(late_gru(h, x)[1])


@pytest.mark.parametrize("cell", [_twice, jax.checkpoint(late_gru)])
def test_a_step_that_is_computed_twice(cell: Callable[..., Any]) -> None:
    found = _operators(_scanned(cell), *ONE)
    assert "GRU" in found
    assert "Scan" not in found


def test_a_sequence_without_a_batch() -> None:
    assert "RNN" in _operators(_scanned(simple), ("T", F), (H,))


@pytest.mark.parametrize("dims", [("A", "B"), (2, "B"), (1, 3), ("A", 1)])
def test_several_batch_axes(dims: tuple[Any, ...]) -> None:
    found = _operators(_scanned(joined_lstm, 2), ("T", *dims, F), (*dims, H), (*dims, H))
    assert "LSTM" in found
    assert "Scan" not in found


@pytest.mark.parametrize(("length", "found"), [(0, False), (1, True), (2, True)])
def test_scans_of_few_steps(length: int, found: bool) -> None:
    assert ("RNN" in _operators(_scanned(simple), (length, "B", F), ("B", H))) is found


def test_a_scan_that_may_have_no_steps() -> None:
    program = to_onnx(_scanned(simple), [("T", "B", F), ("B", H)], constraints=["T >= 0"])
    assert {"RNN", "Scan", "Loop"} & {node.op_type for node in program.model.graph.all_nodes()} == {"RNN"}
    x, h = np.ones((0, 2, F), np.float32), np.full((2, H), 0.5, np.float32)
    last, rows = program(x, h)
    np.testing.assert_array_equal(last, h)
    assert rows.shape == (0, 2, H)


def test_a_state_that_no_step_changes_is_a_constant() -> None:
    def step(state: Any, x: Any) -> Any:
        h, kernel, scale = state
        h = jnp.tanh(x @ kernel + h @ R[:, :H])
        return (h, kernel, scale), h * scale

    def function(x: jax.Array, h: jax.Array, scale: jax.Array) -> Any:
        return jax.lax.scan(step, (h, W[:, :H], scale), x)

    assert "RNN" in _operators(function, *ONE, ())


# -- why a scan stays one ---------------------------------------------------------------------------


def _reasons(program: Any) -> set[str]:
    return {reason for name, reason in program.log.reasons if name == "scan"}


def _sum(x: Any, h: Any) -> Any:
    return x @ W[:, :H] + h @ R[:, :H]


def _tanh(argument: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(argument(h, x))
        return h, h

    return step


def _gru(candidate: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def step(h: Any, x: Any) -> Any:
        z, r = jax.nn.sigmoid(_gate(x, h, 0)), jax.nn.sigmoid(_gate(x, h, 1))
        return _updated(h, z, jnp.tanh(candidate(x, h, r)))

    return step


def _too_many(h: Any, x: Any) -> Any:
    a, b, c = _gate(x, h, 0), _gate(x, h, 1), _gate(x, h, 2)
    h = (jax.nn.sigmoid(a) + jax.nn.sigmoid(b) + jnp.tanh(a) + jnp.tanh(b) + jnp.tanh(c) + 1) ** 2
    return h, h


REASONS = {
    "its step contains sin, which is in no gate": _tanh(lambda h, x: jnp.sin(_sum(x, h))),
    "a state or an input is added to a gate without weights": _tanh(lambda h, x: _sum(x, h) + h),
    "states or inputs are multiplied with each other": _tanh(lambda h, x: _sum(x, h) + h * h),
    "its step is not that of an LSTM, GRU or RNN": lambda h, x: (h + jnp.tanh(_sum(x, h)),) * 2,
    "the weights are not constant": _tanh(lambda h, x: _sum(x, h) + (h @ h.T) @ h),
    "the candidate depends on the hidden state with and without the reset gate": _gru(
        lambda x, h, r: x @ W[:, :H] + (r * h) @ R[:, :H] + h @ R[:, H : 2 * H]
    ),
    "the reset gate multiplies something else than a product of the hidden state": _gru(
        lambda x, h, r: r * (x @ W[:, :H]) + h @ R[:, :H]
    ),
    "its step is a sum of too many products": _too_many,
    "its step takes a batch apart": _tanh(lambda h, x: _sum(x, h) + h[:1] @ R[:, :H]),
    "its step multiplies several rows at once by a matrix": _tanh(
        lambda h, x: _sum(x, h) + jnp.einsum("bgi,ij->bgj", jnp.stack([h, 2 * h], 1), R[:, :H]).sum(1)
    ),
    "a reshape in its step exchanges axes": _tanh(lambda h, x: lax.reshape(_sum(x, h), (H, 3), (1, 0)).T),
    "its step combines features with batches": _tanh(lambda h, x: _sum(x, h) + R[:3, :H]),
}


@pytest.mark.parametrize(
    ("step", "is_cell"),
    [
        (_tanh(lambda h, x: _sum(x, h) + jnp.arange(H).astype(jnp.float32)), True),
        (_tanh(lambda h, x: _sum(x, h) + jnp.ones(H, jnp.float16).astype(jnp.float32)), True),
        (_tanh(lambda h, x: _sum(x, h).astype(jnp.float16).astype(jnp.float32)), False),
        (lambda h, x: (jnp.tanh(_sum(x, h)).astype(jnp.float16).astype(jnp.float32),) * 2, False),
        (_tanh(lambda h, x: _sum(x, h) / np.float32(4)), True),
        (_tanh(lambda h, x: _sum(x, h) / np.arange(1, H + 1, dtype=np.float32)), True),
        (_tanh(lambda h, x: _sum(x, h) / np.arange(H, dtype=np.float32)), False),
        (_tanh(lambda h, x: _sum(x, h) / np.float32(1e-40)), False),
        (lambda h, x: (jnp.maximum(_sum(x, h), 0),) * 2, True),
        (lambda h, x: (jnp.maximum(0, _sum(x, h)),) * 2, True),
        (lambda h, x: (jnp.maximum(_sum(x, h), 1),) * 2, False),
        (lambda h, x: (jnp.maximum(_sum(x, h), x @ W[:, :H]),) * 2, False),
    ],
)
def test_conversions_quotients_and_maxima_in_a_step(step: Callable[..., Any], is_cell: bool) -> None:
    program = to_onnx(_scanned(step), [(40, 3, F), (3, H)])
    assert ("Scan" in [node.op_type for node in program.model.graph]) is not is_cell
    program.verify()


@pytest.mark.parametrize("reason", REASONS)
def test_reasons_in_a_step(reason: str) -> None:
    program = to_onnx(_scanned(REASONS[reason]), [(6, 3, F), (3, H)])
    assert "Scan" in [node.op_type for node in program.model.graph]
    assert reason in _reasons(program)
    program.verify()


@pytest.mark.parametrize(
    ("step", "dims"),
    [
        (_tanh(lambda h, x: _sum(x, h).T), (H,)),
        (_tanh(lambda h, x: jnp.einsum("bi,ij->jb", h, R[:, :H]) + (x @ W[:, :H]).T), (H,)),
        (_tanh(lambda h, x: jnp.swapaxes(_sum(x, h), 0, 1)), (3, 3)),
        (_tanh(lambda h, x: _sum(jnp.swapaxes(x, 0, 1), jnp.swapaxes(h, 0, 1))), (3, 3)),
    ],
)
def test_a_step_that_exchanges_axes_of_one_size_stays_a_scan(step: Callable[..., Any], dims: tuple[int, ...]) -> None:
    program = to_onnx(_scanned(step), [(6, *dims, F), (*dims, H)])
    assert "Scan" in [node.op_type for node in program.model.graph]
    assert _reasons(program) & {"its step combines features with batches"}
    program.verify()


def test_an_exponential_is_no_activation_of_an_operator() -> None:
    def step(h: Any, x: Any) -> Any:
        h = jnp.exp(-_sum(x, h))
        return h, h

    program = to_onnx(_scanned(step), ONE)
    assert "its step is not that of an LSTM, GRU or RNN" in _reasons(program)
    program.verify()


def test_a_state_of_equal_elements() -> None:
    """Each step writes one number to all elements."""

    def step(h: Any, x: Any) -> Any:
        h = jnp.broadcast_to(jnp.tanh(x @ W[:, :1] + h @ R[:, :1]), h.shape)
        return h, h

    program = to_onnx(_scanned(step), ONE)
    assert "RNN" in [node.op_type for node in program.model.graph]
    program.verify()


def test_given_weights_are_no_constants() -> None:
    def function(x: Any, h: Any, kernel: Any) -> Any:
        return jax.lax.scan(_tanh(lambda h, x: x @ kernel + h @ R[:, :H]), h, x)

    program = to_onnx(function, [*ONE, (F, H)])
    assert "its step depends on a tensor from outside that is not constant" in _reasons(program)
    program.verify()


def test_a_gate_of_two_inputs() -> None:
    step = _tanh(lambda h, xs: _sum(xs[0], h) + xs[1] @ W[:, :H])
    program = to_onnx(lambda x, z, h: jax.lax.scan(step, h, (x, z)), [ONE[0], *ONE])
    assert "the gates depend on something else than one input and the hidden state" in _reasons(program)
    program.verify()


def test_the_cells_of_all_steps_are_no_result_of_an_lstm() -> None:
    assert "it collects something else than the hidden state" in _reasons(
        to_onnx(_scanned(lstm_collecting_cells, 2), TWO)
    )


def test_a_count_among_the_states() -> None:
    def step(state: Any, x: Any) -> Any:
        h, _ = simple(state[0], x)
        return (h, state[1] + 2), h

    program = to_onnx(lambda x, h: jax.lax.scan(step, (h, 0), x), ONE)
    assert "its states are not of one floating-point type" in _reasons(program)
    program.verify()


def test_a_scan_without_gates() -> None:
    program = to_onnx(_scanned(lambda h, x: (jnp.sin(h) + x[:, :1], h)), ONE)
    assert "its step has no gates" in _reasons(program)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["kernel", "recurrent kernel", "first state"])
def test_weights_and_states_that_are_not_finite(place: str, number: float) -> None:
    arrays = {"kernel": JOINED[:F], "recurrent kernel": JOINED[F:], "first state": jnp.zeros((3, H))}
    arrays[place] = arrays[place].at[1, 2].set(number)
    kernel = jnp.concatenate([arrays["kernel"], arrays["recurrent kernel"]])[:, :H]

    def function(x: Any) -> Any:
        step = _tanh(lambda h, x: jnp.concatenate([x, h], -1) @ kernel)
        return jax.lax.scan(step, arrays["first state"], x)

    program = to_onnx(function, [("T", 3, F)])
    assert "a weight or a first state is not finite, which the operators do not compute as JAX does" in _reasons(
        program
    )
    x = _rng.normal(size=(4, 3, F)).astype(np.float32)
    for y, wanted in zip(program(x), function(x), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("cell", "states"),
    [
        (joined_lstm, 2),
        (coupled_lstm, 2),
        (late_gru, 1),
        (classic_gru, 1),
        (reset_twice, 1),
        (moving_gru, 1),
        (simple, 1),
    ],
)
def test_given_values_that_are_not_finite(cell: Callable[..., Any], states: int, place: int, number: float) -> None:
    function = _scanned(cell, states)
    program = to_onnx(function, TWO[: 1 + states])
    arrays = [_rng.normal(size=(4, 3, F)), *_rng.normal(size=(2, 3, H))][: 1 + states]
    arrays = [array.astype(np.float32) for array in arrays]
    arrays[place % len(arrays)][..., 1, 2] = number
    for y, wanted in zip(jax.tree.leaves(program(*arrays)), jax.tree.leaves(function(*arrays)), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-5)


def test_a_loop_is_beside_a_cell_whose_sums_have_the_state_twice() -> None:
    def from_zeros(x: Any) -> Any:
        return jax.lax.scan(moving_gru, jnp.zeros((3, H)), x)

    counts = [
        collections.Counter(node.op_type for node in to_onnx(function, dims).model.graph.all_nodes())
        for function, dims in ((_scanned(moving_gru), ONE), (from_zeros, [("T", 3, F)]))
    ]
    assert [(count["If"], count["GRU"], count["Scan"]) for count in counts] == [(2, 1, 2), (1, 1, 1)]


class _Without(Target):
    """A target that lacks an operator, or avoids a form."""

    name = "limited"

    def __init__(self, operator: str = "", form: Form | None = None) -> None:
        self._operator, self._form = operator, form

    def supports(self, op_type: str, dtype: Any, opset: int) -> bool:
        return op_type != self._operator and super().supports(op_type, dtype, opset)

    def prefers(self, *forms: Form) -> Form:
        return next(form for form in forms if form is not self._form)


@dataclasses.dataclass(frozen=True)
class _Plugin:
    """Contributes a target."""

    target: Target
    JAX2ONNX_API = 1

    @hookimpl
    def jax2onnx_register(self, registry: Registry) -> None:
        registry.target(self.target)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (_Without("RNN"), "the target has no RNN for float32"),
        (_Without(form=Form.RNN), "the target prefers the Scan"),
    ],
)
def test_limits_of_the_target(target: Target, reason: str) -> None:
    program = to_onnx(_scanned(simple), ONE, target="limited", plugins=[_Plugin(target)])
    assert "Scan" in [node.op_type for node in program.model.graph]
    assert reason in _reasons(program)


def test_other_activations_are_for_targets_that_prefer_them() -> None:
    step = _scanned(lambda h, x: (jax.nn.relu(_sum(x, h)),) * 2)
    assert "RNN" in _operators(step, *ONE)
    program = to_onnx(step, ONE, target="onnx")
    assert "the target prefers the Scan" in _reasons(program)
