"""Cells written out in a Scan become recurrent operators; what only resembles one stays a Scan."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_graph.forms import Form
from jax2onnx_graph.passes.fusion.recurrence.fuse_recurrent import FuseRecurrent

INPUTS, HIDDEN = 2, 3


def _weights(name: str, rows: int, columns: int) -> str:
    """A constant matrix, different for each name."""
    numbers = np.random.default_rng(len(name) + ord(name[-1])).normal(0, 0.4, rows * columns)
    return f"{name} = Constant<value = float[{rows},{columns}] {{{', '.join(f'{n:.3f}' for n in numbers)}}}>()"


WEIGHTS = " ".join([
    *(_weights(f"w{gate}", INPUTS, HIDDEN) for gate in "abcd"),
    *(_weights(f"r{gate}", HIDDEN, HIDDEN) for gate in "abcd"),
    _weights("joined", INPUTS + HIDDEN, 4 * HIDDEN),
    "bias = Constant<value = float[3] {0.1, -0.2, 0.3}>()",
    "one = Constant<value = float {1}>()",
])  # fmt: skip


def _affine(gate: str) -> str:
    """`{gate}` = row · w + h · r + bias, whose bias is the same for all gates."""
    return f"x{gate} = MatMul(row, w{gate}) h{gate} = MatMul(h, r{gate}) s{gate} = Add(x{gate}, h{gate}) {gate} = Add(s{gate}, bias)"


def _scan(step: str, *, state: str = "h", more: bool = False, batch: str = "B") -> str:
    """A Scan over `x` whose step makes `new` of `h`, with `more` also `new_c` of `c`, and collects `state`."""
    states, row = ["h", "c"] if more else ["h"], f"float[{batch},2] row"
    inputs = ", ".join([*(f"float[{batch},3] {name}" for name in states), row])
    outputs = ", ".join(f"float[{batch},3] {name}" for name in (["new", "new_c", "y"] if more else ["new", "y"]))
    body = f"step ({inputs}) => ({outputs}) {{ {step} y = Identity({'new' if state == 'h' else 'new_c'}) }}"
    results, initial = ("hn, cn, ys", "h0, c0") if more else ("hn, ys", "h0")
    return f"{WEIGHTS} {results} = Scan<num_scan_inputs = 1, body = {body}>({initial}, x)"


CELLS = {
    "RNN": f"{_affine('a')} new = Tanh(a)",
    "GRU": f"""{_affine("a")} {_affine("b")} z = Sigmoid(a) r = Sigmoid(b) xc = MatMul(row, wc) rh = Mul(r, h)
        hc = MatMul(rh, rc) n = Add(xc, hc) t = Tanh(n) k = Mul(z, h) u = Sub(one, z) v = Mul(u, t) new = Add(k, v)""",
    "GRU, reset after the product": f"""{_affine("a")} {_affine("b")} z = Sigmoid(a) r = Sigmoid(b) xc = MatMul(row, wc)
        hc = MatMul(h, rc) hq = Add(hc, bias) rh = Mul(r, hq) n = Add(xc, rh) t = Tanh(n) u = Sub(one, z) k = Mul(u, h)
        v = Mul(z, t) new = Add(v, k)""",
}
LSTM = """both = Concat<axis = 1>(row, h) all = MatMul(both, joined) a, g, f, o = Split<axis = 1, num_outputs = 4>(all)
    f1 = Add(f, one) i = Sigmoid(a) fs = Sigmoid(f1) os = Sigmoid(o) t = Tanh(g) k = Mul(fs, c) v = Mul(i, t)
    new_c = Add(k, v) tc = Tanh(new_c) new = Mul(os, tc)"""
ONE = ("float[T,B,2] x, float[B,3] h0", "float[B,3] hn, float[T,B,3] ys")
TWO = ("float[T,B,2] x, float[B,3] h0, float[B,3] c0", "float[B,3] hn, float[B,3] cn, float[T,B,3] ys")


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_with_one_state(recover, cell):
    operators = recover(FuseRecurrent(), _scan(CELLS[cell]), *ONE)
    assert operators == ["Unsqueeze", cell[:3], "Squeeze", "Squeeze"]


def test_an_lstm_of_joined_weights(recover):
    operators = recover(FuseRecurrent(), _scan(LSTM, more=True), *TWO)
    assert operators == ["Unsqueeze", "Unsqueeze", "LSTM", "Squeeze", "Squeeze", "Squeeze"]


def test_a_first_state_of_zeros_is_not_passed_on(recover):
    zeros = "h0 = Constant<value = float[3,3] {0, 0, 0, 0, 0, 0, 0, 0, 0}>() "
    operators = recover(FuseRecurrent(), zeros + _scan(CELLS["RNN"], batch="3"), "float[T,3,2] x", "float[T,3,3] ys")
    assert operators == ["RNN", "Squeeze"]


def test_products_that_are_multiplied_out(recover):
    step = f"""{_affine("a")} {_affine("b")} z = Sigmoid(a) r = Sigmoid(b) xc = MatMul(row, wc) hc = MatMul(h, rc)
        rh = Mul(r, hc) n = Add(xc, rh) t = Tanh(n) d = Sub(h, t) zd = Mul(z, d) new = Add(t, zd)"""
    assert "GRU" in recover(FuseRecurrent(), _scan(step), *ONE)


def test_another_activation_is_for_targets_that_prefer_it(recover):
    assert recover(FuseRecurrent(), _scan(f"{_affine('a')} new = Relu(a)"), *ONE) == ["Scan"]


def test_a_matrix_from_the_left(recover):
    step = """ht = Transpose(h) at = MatMul(ra, ht) ha = Transpose(at) xa = MatMul(row, wa) a = Add(ha, xa)
        new = Tanh(a)"""
    assert "RNN" in recover(FuseRecurrent(), _scan(step), *ONE)


def test_a_product_before_the_loop(recover):
    loop = """body = step (float[B,3] h, float[B,3] p) => (float[B,3] new, float[B,3] y) {
        hp = MatMul(h, ra) a = Add(hp, p) new = Tanh(a) y = Identity(new) }"""
    text = f"""{WEIGHTS} xw = MatMul(x, wa) xt = Transpose<perm = [1, 0, 2]>(xw)
        hn, ys = Scan<num_scan_inputs = 1, {loop}>(h0, xt)"""
    batch_first = ("float[B,T,2] x, float[B,3] h0", ONE[1])
    assert recover(FuseRecurrent(), text, *batch_first) == ["Transpose", "Unsqueeze", "RNN", "Squeeze", "Squeeze"]


def test_a_sequence_without_a_batch(recover):
    operators = recover(
        FuseRecurrent(),
        f"""{WEIGHTS} hn, ys = Scan<num_scan_inputs = 1, body = step (float[3] h, float[2] row) => (float[3] new, float[3] y) {{
            {_affine("a")} new = Tanh(a) y = Identity(new) }}>(h0, x)""",
        "float[T,2] x, float[3] h0",
        "float[3] hn, float[T,3] ys",
    )
    assert operators == ["Unsqueeze", "Unsqueeze", "RNN", "Squeeze", "Squeeze"]


def test_a_constant_that_differs_between_rows_of_the_batch_stays(recover):
    step = f"{_affine('a')} m = MatMul(ra, rb) d = Add(a, m) new = Tanh(d)"
    three = ("float[T,3,2] x, float[3,3] h0", "float[3,3] hn, float[T,3,3] ys")
    assert recover(FuseRecurrent(), _scan(step, batch="3"), *three) == ["Scan"]


def test_a_scan_that_collects_the_cells_stays(recover):
    assert recover(FuseRecurrent(), _scan(LSTM, more=True, state="c"), *TWO) == ["Scan"]


def test_a_cell_with_two_reset_gates_stays(recover):
    step = f"{_affine('a')} r = Sigmoid(a) p = Mul(r, ha) hb = MatMul(h, rb) q = Mul(r, hb) n = Add(p, q) t = Tanh(n)"
    step += " u = Sub(one, r) k = Mul(u, t) v = Mul(r, h) new = Add(k, v)"
    assert recover(FuseRecurrent(), _scan(step), *ONE) == ["Scan"]


@pytest.mark.parametrize("cell", CELLS)
def test_a_target_without_the_operator_keeps_the_scan(recover, limited, cell):
    target = limited(cell[:3], opset=18)
    assert recover(FuseRecurrent(target), _scan(CELLS[cell]), *ONE) == ["Scan"]


def test_each_operator_is_asked_for_by_itself(recover, limited):
    target = limited("LSTM", opset=18)
    assert recover(FuseRecurrent(target), _scan(LSTM, more=True), *TWO) == ["Scan"]
    assert "GRU" in recover(FuseRecurrent(target), _scan(CELLS["GRU"]), *ONE)


def test_a_target_may_prefer_the_scan(recover, limited):
    assert recover(FuseRecurrent(limited(avoided={Form.RNN})), _scan(CELLS["RNN"]), *ONE) == ["Scan"]
