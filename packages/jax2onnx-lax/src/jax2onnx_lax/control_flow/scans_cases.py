"""Cases of `scans`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import at_most
from jax2onnx_lax.recurrence import cell_scans_cases

__all__ = ["cases"]

_Pair = tuple[jax.Array, jax.Array]


def _of_a_cosine(x: jax.Array, *, reverse: bool = False) -> _Pair:
    return lax.scan(lambda carry, row: (jnp.cos(carry) + row, jnp.sin(carry)), jnp.zeros_like(x, shape=x.shape[1:]), x,
                    reverse=reverse)  # fmt: skip


def _without_inputs(x: jax.Array) -> _Pair:
    return lax.scan(lambda carry, _: (carry * 2, carry + 1), x, None, length=4)


def _tail(x: jax.Array, *, reverse: bool = False) -> _Pair:
    return lax.scan(lambda carry, row: (carry + row, carry * row), x.sum(0), x[1:], reverse=reverse)


def _nested(x: jax.Array, w: jax.Array) -> _Pair:
    def outer(carry: jax.Array, row: jax.Array) -> _Pair:
        inner = lax.fori_loop(0, 3, lambda i, value: value + row * i, carry)
        chosen = lax.cond(row.sum() > 0, jnp.sin, lambda v: v @ w, inner)
        return chosen, lax.map(lambda element: element * chosen.sum(), row)

    return lax.scan(outer, jnp.zeros_like(x, shape=x.shape[1:]), x)


def _lstm(x: jax.Array, w: jax.Array, u: jax.Array) -> tuple[_Pair, jax.Array]:
    def cell(state: _Pair, step: jax.Array) -> tuple[_Pair, jax.Array]:
        hidden, memory = state
        i, f, g, o = jnp.split(step @ w + hidden @ u, 4, axis=-1)
        memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
        return (hidden, memory), hidden

    zeros = jnp.zeros_like(x, shape=(x.shape[1], u.shape[0]))
    return lax.scan(cell, (zeros, zeros), x)


def _gated(x: jax.Array, w: jax.Array, v: jax.Array, *, reverse: bool = False) -> tuple[jax.Array, _Pair]:
    """Two projections of the input, one of them of a changed weight, and the input itself."""

    def cell(state: jax.Array, row: jax.Array) -> tuple[jax.Array, _Pair]:
        candidate = jax.jit(jnp.matmul)(jnp.sin(row), w.T + 1)
        return jnp.tanh(state * candidate) + row @ v, (state, candidate)

    return lax.scan(cell, jnp.ones_like(x[0]), x, reverse=reverse)


def _loss_of_steps(w: jax.Array, u: jax.Array, b: jax.Array, x: jax.Array) -> jax.Array:
    """A function of the states of a recurrence, whose gradients of the weights are sums over the steps."""

    def cell(state: jax.Array, row: jax.Array) -> _Pair:
        state = jnp.tanh(row @ w + state @ u + b)
        return state, state

    return jnp.square(lax.scan(cell, jnp.zeros_like(x, shape=(x.shape[1], u.shape[0])), x)[1]).sum()


def _positions(x: jax.Array) -> _Pair:
    """A scan with values that depend on the number of the step alone, and others that only the results need."""

    def step(state: jax.Array, numbered: _Pair) -> _Pair:
        position, row = numbered
        angle = position / jnp.array([1.0, 10.0, 100.0], row.dtype)
        state = jnp.tanh(state + row * jnp.sin(angle))
        return state, jnp.cos(state) * row

    return lax.scan(step, jnp.zeros_like(x[0]), (jnp.arange(x.shape[0], dtype=x.dtype), x))


def _decoder(tokens: jax.Array, table: jax.Array, w: jax.Array) -> _Pair:
    """Embedded tokens, normalised; logits of the normalised states."""

    def normalised(x: jax.Array) -> jax.Array:
        return (x - x.mean()) / jnp.sqrt(x.var() + 1e-5)

    def step(state: jax.Array, token: jax.Array) -> _Pair:
        state = jnp.sin(state + normalised(table[token]))
        return state, normalised(state) @ w

    return lax.scan(step, jnp.zeros_like(table[0]), tokens)


def _outer_products(x: jax.Array) -> jax.Array:
    """Rows that are large where they are held for all steps."""
    return lax.scan(
        lambda state, row: (state + jnp.sin(row[:, None] * row), None), jnp.zeros_like(x, shape=(40, 40)), x
    )[0]


def _random_rows(x: jax.Array) -> _Pair:
    def step(state: jax.Array, drawn: _Pair) -> _Pair:
        key, row = drawn
        state = state * 0.5 + row + jax.random.uniform(key, row.shape, row.dtype)
        return state, state

    return lax.scan(step, jnp.zeros_like(x[0]), (jax.random.split(jax.random.key(3), 5), x))


def _complex_carry(x: jax.Array) -> _Pair:
    last, _ = lax.scan(lambda carry, row: (carry * (row + 1j), None), x[:1] + 1j, x)
    return last.real, last.imag


def _gated_by_modulus(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A rotation, after which small numbers become zero."""
    start = jnp.zeros(3, jnp.result_type(x, jnp.complex64))
    turn = jnp.exp(1j * jnp.arange(3.0)).astype(start.dtype)

    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        new = carry * turn + row
        new = jnp.where(jnp.abs(new) > 0.5, new, 0)
        return new, new.imag

    last, y = lax.scan(step, start, x)
    return last.real, last.imag, y


def _over_rows(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Rows are read and written at the counter."""

    def body(t: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        state, rows = carry
        state = jnp.tanh(state + x[t])
        return state, rows.at[t].set(2 * state)

    return lax.fori_loop(0, x.shape[0], body, (jnp.zeros_like(x[0]), jnp.zeros_like(x)))


def _numbered(x: jax.Array) -> jax.Array:
    """Weighted products that a loop numbers from 1 on."""
    gates, weights = jnp.cos(x[:, :7]), jnp.sin(jnp.arange(7 * 8 * 8, dtype=x.dtype)).reshape(7, 8, 8)
    return lax.fori_loop(1, 6, lambda i, total: total + gates[:, i, None] * (x @ weights[i]), x)


cases = [
    Case("fori_over_symbol", lambda x: lax.fori_loop(0, x.shape[0], lambda i, v: v + i, x), [("N", 3)],
         covers=("scan", "jax.lax.fori_loop")),
    Case("fori_over_rows", _over_rows, [("N", 3)], covers=("scan", "jax.lax.fori_loop"), expect=expect_graph(absent=["Loop", "ScatterND"])),
    Case("fori_static", lambda x: lax.fori_loop(2, 6, lambda i, v: v * i, x), [("N", 3)], covers=("scan",),
         expect=expect_graph(counts={"Loop": 1})),
    Case("fori_of_numbered_products", _numbered, [("N", 8)], covers=("scan",),
         expect=expect_graph(counts={"Scan": 1, "Loop": 0}), declines="it adds up products, which are computed before it"),
    Case("fori_grad", jax.grad(lambda x: lax.fori_loop(0, 4, lambda i, v: jnp.sin(v), x).sum()), [("N", 3)],
         covers=("scan",), expect=["Shape -> Concat -> Expand -> Scan", "Loop -> Scan"]),
    Case("scan", _of_a_cosine, [("T", 3)], covers=("scan",), expect=expect_graph(counts={"Scan": 1, "Loop": 0})),
    Case("scan_reverse", lambda x: _of_a_cosine(x, reverse=True), [("T", 3)], covers=("scan",),
         expect=expect_graph(counts={"Scan": 1, "Slice": 0})),
    Case("scan_whose_length_is_given", lambda x: lax.scan(lambda c, r: (jnp.sin(c) + r, c), x[0], x, x.shape[0]), [("T", 3)],
         covers=("jax.lax.scan",), expect=expect_graph(counts={"Scan": 1})),
    Case("scan_of_length_0", lambda x: _of_a_cosine(x[:0]), [(2, 3)], covers=("scan",),
         expect=expect_graph(absent=["Scan", "Loop"]), declines="it has no steps"),
    Case("scan_of_length_1", lambda x: _of_a_cosine(x[:1]), [(2, 3)], covers=("scan",),
         expect=expect_graph(absent=["Scan", "Loop"])),
    Case("scan_of_length_that_may_be_0", _tail, [("T", 3)], covers=("scan",), expect=expect_graph(counts={"Loop": 1}),
         declines="its body indexes no rows by a counter"),
    Case("scan_reverse_of_length_that_may_be_0", lambda x: _tail(x, reverse=True), [("T", 3)], covers=("scan",),
         expect=expect_graph(counts={"Loop": 1})),
    Case("scan_of_rows_that_may_be_none", _tail, [("T", "B", 3)], covers=("scan",),
         expect=expect_graph("Loop -> Reshape", counts={"Loop": 1})),
    Case("scan_reverse_of_rows_that_may_be_none", lambda x: _tail(x, reverse=True), [("T", "B", 3)], covers=("scan",),
         expect=at_most(20, Loop=1)),
    Case("scan_without_inputs", _without_inputs, [("N", 3)], covers=("scan",), expect=expect_graph(counts={"Loop": 1})),
    Case("scan_without_inputs_reverse", lambda x: lax.scan(lambda c, _: (c * 2, c + 1), x, None, length=3, reverse=True),
         [("N", 3)], covers=("scan",), expect="Loop -> Slice", declines="it has inputs, or no counter"),
    Case("scan_without_carry", lambda x: lax.map(lambda row: jnp.sin(row).sum(), x), [("N", 3)], covers=("scan",),
         expect="Sin -> ReduceSum"),
    Case("scan_vmapped", jax.vmap(_of_a_cosine), [("B", "T", 3)], covers=("scan",),
         expect=["Shape -> Concat -> Expand -> Scan -> Sin -> Transpose", "Transpose -> Scan"]),
    Case("scan_grad", jax.grad(lambda x: sum(y.sum() for y in _of_a_cosine(x))), [("T", 3)], covers=("scan",),
         expect=at_most(34, If=1, Scan=1)),
    Case("scan_jvp", lambda x: jax.jvp(_of_a_cosine, (x,), (x,)), [("T", 3)], covers=("scan",), expect=at_most(30, If=1)),
    Case("scan_nested", _nested, [("T", 3), (3, 3)], covers=("scan", "cond"),
         expect="ReduceSum -> Greater -> Cast -> Scan"),
    Case("scan_lstm", _lstm, [("T", "B", 5), (5, 16), (4, 16)], covers=("scan",),
         expect=expect_graph(counts={"Scan": 1})),
    Case("scan_projection_hoisted", _gated, [("T", "B", 3), (3, 3), (3, 3)], covers=("scan",),
         expect=expect_graph("MatMul:TxBx3 -> Scan", counts={"MatMul": 2, "Scan": 1})),
    Case("scan_projection_hoisted_reverse", lambda x, w, v: _gated(x, w, v, reverse=True),
         [("T", "B", 3), (3, 3), (3, 3)], covers=("scan",), expect=at_most(10, Scan=1)),
    Case("scan_projection_hoisted_grad",
         jax.grad(lambda x, w, v: sum(y.sum() for y in jax.tree.leaves(_gated(x, w, v))), (0, 1, 2)),
         [("T", "B", 3), (3, 3), (3, 3)], covers=("scan",), expect=at_most(60, If=1, Scan=1)),
    Case("scan_of_gradients_of_weights", jax.grad(_loss_of_steps, (0, 1, 2)), [(5, 4), (4, 4), (4,), ("T", "B", 5)],
         covers=("scan",), expect=expect_graph("Scan -> Reshape -> Gemm -> Add", counts={"Scan": 2})),
    Case("scan_positions_hoisted", _positions, [("T", 3)], covers=("scan",),
         expect=expect_graph("Sin:Tx3 -> Mul:Tx3 -> Scan -> Cos:Tx3 -> Mul:Tx3",
                             counts={"Sin": 1, "Cos": 1, "Mul": 2, "Tanh": 1, "Add": 2, "Identity": 1},
                             search_functions=True)),
    Case("scan_decoder_hoisted", _decoder, [(("T",), jnp.int32), (7, 4), (4, 7)], covers=("scan",),
         expect=expect_graph("Gather:Tx1x4 -> Squeeze:Tx4 -> LayerNormalization:Tx4 -> Scan -> LayerNormalization:Tx4 -> MatMul:Tx7",
                             counts={"LayerNormalization": 2, "MatMul": 1})),
    Case("scan_of_large_products_stays", _outer_products, [("T", 40)], covers=("scan",),
         expect=expect_graph(counts={"Scan": 1, "Sin": 0})),
    Case("map_of_small_rows", lambda x: lax.map(lambda row: jnp.sin(row) * row.sum(), x), [("T", 3)], covers=("scan",),
         expect=expect_graph("Sin:Tx3 -> Mul:Tx3", absent=["Scan", "Loop"])),
    Case("map_of_large_rows", lambda x: lax.map(lambda row: jnp.sin(row) * row.sum(), x), [("T", 3000)], covers=("scan",),
         expect=expect_graph(counts={"Scan": 1, "Sin": 0})),
    Case("scan_inputs_handed_on", lambda x: lax.scan(lambda c, r: (jnp.sin(c + r), (r, c)), x.sum(0), x)[1], [("T", 3)],
         covers=("scan",), expect=["ReduceSum -> Scan", "Identity"]),
    Case("scan_of_keys", _random_rows, [(5, 3)], covers=("scan",), expect="Scan",
         declines="its steps have random keys, which are no numbers"),
    Case("scan_of_complex_states", _gated_by_modulus, [("T", 3)], covers=("scan",),
         expect=expect_graph(counts={"Scan": 1, "Concat": 0, "Gather": 0})),
    Case("scan_complex", _complex_carry, [("T", 3)], covers=("scan",), expect=at_most(50, If=1)),
    Case("scan_unrolled_whole", lambda x: lax.scan(lambda c, r: (c + r, c * r), x.sum(0), x, unroll=True), [(4, 3)],
         covers=("scan",), expect=expect_graph(absent=["Scan", "Loop"])),
    Case("scan_unrolled_reverse",
         lambda x: lax.scan(lambda c, r: (c + r, c * r), x.sum(0), x, reverse=True, unroll=True), [(4, 3)],
         covers=("scan",), expect=expect_graph(absent=["Scan", "Loop"])),
    Case("scan_unrolled", lambda x: lax.scan(lambda c, r: (c + r, c), x.sum(0), x, unroll=2), [(5, 3)],
         covers=("scan",), expect=expect_graph("Concat -> CumSum", absent=["Scan", "Loop", "If"])),
    Case("associative_scan", lambda x: lax.associative_scan(jnp.add, x), [(7, 3)], expect=at_most(40)),
    Case("key_as_carry", lambda: lax.fori_loop(0, 3, lambda i, key: jax.random.split(key)[0], jax.random.key(1)),
         covers=("scan",), expect="Loop"),
    Case("scan_of_a_counter", lambda x: lax.scan(lambda i, _: (i + 1, i), 0, None, length=4)[1] + x, [("N", 4)],
         covers=("scan",), expect="Loop -> Cast -> Add", declines="it does more than to add up products times something"),
    Case("scan_of_symbolic_length", lambda x: lax.scan(lambda c, _: (jnp.sin(c) + 1, c.sum()), x, None, length=x.shape[0]),
         [("T", 2)], covers=("scan",), expect=expect_graph(counts={"Loop": 1})),
    Case("scan_of_half_a_length", jax.grad(lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, (), x.shape[0] // 2)[0].sum()),
         [("T", 2)], covers=("scan",), expect=expect_graph(counts={"Loop": 2})),
    *cell_scans_cases.cases,
]  # fmt: skip
