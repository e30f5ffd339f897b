"""Cells written out in a Scan become recurrent operators; what only resembles one stays a Scan."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_fusions.recurrence.fuse_recurrent import FuseRecurrent
from jax2onnx_graph.forms import Form

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
def test_a_cell_with_one_state(fused, cell):
    operators = fused(FuseRecurrent(), _scan(CELLS[cell]), *ONE)
    assert operators == ["Unsqueeze", cell[:3], "Squeeze", "Squeeze"]


def test_an_lstm_of_joined_weights(fused):
    operators = fused(FuseRecurrent(), _scan(LSTM, more=True), *TWO)
    assert operators == ["Unsqueeze", "Unsqueeze", "LSTM", "Squeeze", "Squeeze", "Squeeze"]


def test_a_first_state_of_zeros_is_not_passed_on(fused):
    zeros = "h0 = Constant<value = float[3,3] {0, 0, 0, 0, 0, 0, 0, 0, 0}>() "
    operators = fused(FuseRecurrent(), zeros + _scan(CELLS["RNN"], batch="3"), "float[T,3,2] x", "float[T,3,3] ys")
    assert operators == ["RNN", "Squeeze"]


def test_products_that_are_multiplied_out(fused):
    step = f"""{_affine("a")} {_affine("b")} z = Sigmoid(a) r = Sigmoid(b) xc = MatMul(row, wc) hc = MatMul(h, rc)
        rh = Mul(r, hc) n = Add(xc, rh) t = Tanh(n) d = Sub(h, t) zd = Mul(z, d) new = Add(t, zd)"""
    assert "GRU" in fused(FuseRecurrent(), _scan(step), *ONE)


def test_another_activation_is_for_targets_that_prefer_it(fused):
    assert fused(FuseRecurrent(), _scan(f"{_affine('a')} new = Relu(a)"), *ONE) == ["Scan"]


def test_a_matrix_from_the_left(fused):
    step = """ht = Transpose(h) at = MatMul(ra, ht) ha = Transpose(at) xa = MatMul(row, wa) a = Add(ha, xa)
        new = Tanh(a)"""
    assert "RNN" in fused(FuseRecurrent(), _scan(step), *ONE)


def test_a_product_before_the_loop(fused):
    loop = """body = step (float[B,3] h, float[B,3] p) => (float[B,3] new, float[B,3] y) {
        hp = MatMul(h, ra) a = Add(hp, p) new = Tanh(a) y = Identity(new) }"""
    text = f"""{WEIGHTS} xw = MatMul(x, wa) xt = Transpose<perm = [1, 0, 2]>(xw)
        hn, ys = Scan<num_scan_inputs = 1, {loop}>(h0, xt)"""
    batch_first = ("float[B,T,2] x, float[B,3] h0", ONE[1])
    assert fused(FuseRecurrent(), text, *batch_first) == ["Transpose", "Unsqueeze", "RNN", "Squeeze", "Squeeze"]


def test_a_sequence_without_a_batch(fused):
    operators = fused(
        FuseRecurrent(),
        f"""{WEIGHTS} hn, ys = Scan<num_scan_inputs = 1, body = step (float[3] h, float[2] row) => (float[3] new, float[3] y) {{
            {_affine("a")} new = Tanh(a) y = Identity(new) }}>(h0, x)""",
        "float[T,2] x, float[3] h0",
        "float[3] hn, float[T,3] ys",
    )
    assert operators == ["Unsqueeze", "Unsqueeze", "RNN", "Squeeze", "Squeeze"]


def test_a_constant_that_differs_between_rows_of_the_batch_stays(fused):
    step = f"{_affine('a')} m = MatMul(ra, rb) d = Add(a, m) new = Tanh(d)"
    three = ("float[T,3,2] x, float[3,3] h0", "float[3,3] hn, float[T,3,3] ys")
    assert fused(FuseRecurrent(), _scan(step, batch="3"), *three) == ["Scan"]


def test_a_scan_that_collects_the_cells_stays(fused):
    assert fused(FuseRecurrent(), _scan(LSTM, more=True, state="c"), *TWO) == ["Scan"]


def test_a_cell_with_two_reset_gates_stays(fused):
    step = f"{_affine('a')} r = Sigmoid(a) p = Mul(r, ha) hb = MatMul(h, rb) q = Mul(r, hb) n = Add(p, q) t = Tanh(n)"
    step += " u = Sub(one, r) k = Mul(u, t) v = Mul(r, h) new = Add(k, v)"
    assert fused(FuseRecurrent(), _scan(step), *ONE) == ["Scan"]


@pytest.mark.parametrize("cell", CELLS)
def test_a_target_without_the_operator_keeps_the_scan(fused, limited, cell):
    target = limited(cell[:3], opset=18)
    assert fused(FuseRecurrent(target), _scan(CELLS[cell]), *ONE) == ["Scan"]


def test_each_operator_is_asked_for_by_itself(fused, limited):
    target = limited("LSTM", opset=18)
    assert fused(FuseRecurrent(target), _scan(LSTM, more=True), *TWO) == ["Scan"]
    assert "GRU" in fused(FuseRecurrent(target), _scan(CELLS["GRU"]), *ONE)


def test_a_target_may_prefer_the_scan(fused, limited):
    assert fused(FuseRecurrent(limited(avoided={Form.RNN})), _scan(CELLS["RNN"]), *ONE) == ["Scan"]


RNN = f"{_affine('a')} new = Tanh(a)"
TANH = "new = Tanh(a)"
SUM = "xa = MatMul(row, wa) ha = MatMul(h, ra)"


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (f"{_affine('a')} e = Exp(a) new = Tanh(e)", "its step contains Exp, which is in no gate"),
        (f"{SUM} s = Add(xa, h) a = Add(s, ha) {TANH}", "a state or an input is added to a gate without weights"),
        (f"{SUM} s = Mul(h, h) a = Add(s, ha) {TANH}", "states or inputs are multiplied with each other"),
        (f"{_affine('a')} t = Tanh(a) new = Add(t, h)", "its step is not that of an LSTM, GRU or RNN"),
        (f"{SUM} a = Gemm<alpha = 2.0>(h, ra) {TANH}", "a matrix product in its step has a factor"),
        (
            f"{SUM} t = Tanh(xa) s = Transpose(h) q = MatMul(h, s) u = MatMul(q, t) a = Add(u, ha) {TANH}",
            "the weights are not constant",
        ),
    ],
)
def test_reasons_in_the_step(declined, step, reason):
    assert declined(FuseRecurrent(), _scan(step), *ONE) == [reason]


GATES = f"{_affine('a')} {_affine('b')} z = Sigmoid(a) r = Sigmoid(b) xc = MatMul(row, wc)"
UPDATED = "t = Tanh(n) k = Mul(z, h) u = Sub(one, z) v = Mul(u, t) new = Add(k, v)"


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (
            f"""{GATES} rh = Mul(r, h) hc = MatMul(rh, rc) hd = MatMul(h, rd) m = Add(xc, hc) n = Add(m, hd) {UPDATED}""",
            "the candidate depends on the hidden state with and without the reset gate",
        ),
        (
            f"{GATES} rx = Mul(r, xc) hc = MatMul(h, rc) n = Add(rx, hc) {UPDATED}",
            "the reset gate multiplies something else than a product of the hidden state",
        ),
        (
            f"""{GATES} p = Add(z, r) ta = Tanh(a) tb = Tanh(b) q = Add(ta, tb) pq = Add(p, q) tc = Tanh(xc) all = Add(pq, tc)
            more = Add(all, one) new = Mul(more, more)""",
            "its step is a sum of too many products",
        ),
        (
            f"{SUM} s = Add(xa, ha) at = Constant<value = int64[3] {{0, 1, 7}}>() a = Gather<axis = 1>(s, at) {TANH}",
            "an index in its step is out of range",
        ),
        (
            f"{SUM} s = Add(xa, ha) a = Gather<axis = 1>(s, given) {TANH}",
            "indices in its step are not constant",
        ),
        (
            f"""{SUM} s = Add(xa, ha) end = Constant<value = int64[3] {{99, 99, 99}}>() t = Slice(s, given, end)
            p = MatMul(t, ra) a = Add(p, s) {TANH}""",
            "the bounds of a slice in its step are not constant",
        ),
    ],
)
def test_reasons_in_gates(declined, step, reason):
    assert declined(FuseRecurrent(), _scan(step), f"{ONE[0]}, int64[3] given", ONE[1]) == [reason]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("B,2,3", "a scanned input is not a sequence of vectors with the batch of the states"),
        ("B,N", "the number of features of a scanned input is not known"),
    ],
)
def test_scanned_inputs_that_are_declined(declined, row, reason):
    text = f"""{WEIGHTS} hn, ys = Scan<num_scan_inputs = 2, body = step (float[B,3] h, float[B,2] row, float[{row}] other) =>
        (float[B,3] new, float[B,3] y) {{ {SUM} s = Add(xa, ha) m = ReduceMax(other) a = Add(s, m) new = Tanh(a)
        y = Identity(new) }}>(h0, x, z)"""
    assert declined(FuseRecurrent(), text, f"{ONE[0]}, float[T,{row}] z", ONE[1]) == [reason]


def test_a_step_that_takes_its_batch_apart_is_declined(declined):
    step = f"""first = Constant<value = int64[1] {{0}}>() one1 = Constant<value = int64[1] {{1}}>()
        part = Slice(h, first, one1, first) {SUM} p = MatMul(part, rb) s = Add(p, xa) a = Add(s, ha) {TANH}"""
    assert declined(FuseRecurrent(), _scan(step), *ONE) == ["its step takes a batch apart"]


def test_a_scan_that_collects_the_cells_is_declined(declined):
    reasons = declined(FuseRecurrent(), _scan(LSTM, more=True, state="c"), *TWO)
    assert reasons == ["it collects something else than the hidden state"]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"avoided": {Form.RNN}}, "the target prefers the Scan"),
        ({"dtypes": [np.float64]}, "the target has no RNN for float32"),
    ],
)
def test_limits_of_the_target_are_a_reason(declined, limited, limits, reason):
    assert declined(FuseRecurrent(limited(**limits)), _scan(RNN), *ONE) == [reason]


def test_unusual_activations_are_declined_where_the_target_does_not_prefer_them(declined):
    step = f"{_affine('a')} t = Sigmoid(a) new = Identity(t)"
    assert declined(FuseRecurrent(), _scan(step), *ONE) == ["the target prefers the Scan"]


@pytest.mark.parametrize(
    ("change", "signature", "reason"),
    [
        (
            ("num_scan_inputs = 1,", "num_scan_inputs = 1, scan_input_axes = [1],"),
            ("float[B,T,2] x, float[B,3] h0", ONE[1]),
            "it scans along another axis than the first",
        ),
        (
            ("num_scan_inputs = 1,", "num_scan_inputs = 1, scan_input_directions = [1],"),
            ONE,
            "it scans in both directions at once, or no sequence",
        ),
    ],
)
def test_ways_to_scan_that_are_declined(declined, change, signature, reason):
    text = _scan(RNN)
    assert change[0] in text
    assert declined(FuseRecurrent(), text.replace(*change), *signature) == [reason]


def test_a_state_that_is_no_vector_is_declined(declined):
    text = f"""{WEIGHTS} hn, ys = Scan<num_scan_inputs = 1, body = step (float[2,B,3] h, float[B,2] row) => (float[2,B,3] new, float[2,B,3] y) {{
        {_affine("a")} new = Tanh(a) y = Identity(new) }}>(h0, x)"""
    signature = ("float[T,B,2] x, float[2,B,3] h0", "float[2,B,3] hn, float[T,2,B,3] ys")
    assert declined(FuseRecurrent(), text, *signature) == ["the states are not vectors of one size"]


def test_a_count_among_the_states_is_declined(declined):
    text = f"""{WEIGHTS} hn, cn, ys = Scan<num_scan_inputs = 1, body = step (float[B,3] h, int64 c, float[B,2] row) =>
        (float[B,3] new, int64 new_c, float[B,3] y) {{ {_affine("a")} new = Tanh(a) new_c = Add(c, c) y = Identity(new) }}>(h0, c0, x)"""
    signature = ("float[T,B,2] x, float[B,3] h0, int64 c0", "float[B,3] hn, int64 cn, float[T,B,3] ys")
    assert declined(FuseRecurrent(), text, *signature) == ["its results are not of one floating-point type"]


def test_weights_that_are_given_are_declined(declined):
    weights = _weights("ra", HIDDEN, HIDDEN)
    text = _scan(RNN)
    assert weights in text
    reasons = declined(FuseRecurrent(), text.replace(weights, ""), f"{ONE[0]}, float[3,3] ra", ONE[1])
    assert reasons == ["the weights are not constant"]


def test_a_tensor_from_outside_is_declined(declined):
    step = f"{SUM} s = Add(xa, ha) a = Add(s, given) {TANH}"
    reasons = declined(FuseRecurrent(), _scan(step), f"{ONE[0]}, float[B,3] given", ONE[1])
    assert reasons == ["its step depends on a tensor from outside that is not constant"]


def test_a_gate_of_two_inputs_is_declined(declined):
    text = f"""{WEIGHTS} hn, ys = Scan<num_scan_inputs = 2, body = step (float[B,3] h, float[B,2] row, float[B,2] other) =>
        (float[B,3] new, float[B,3] y) {{ {SUM} xb = MatMul(other, wb) s = Add(xa, ha) a = Add(s, xb) new = Tanh(a) y = Identity(new) }}>(h0, x, z)"""
    reasons = declined(FuseRecurrent(), text, f"{ONE[0]}, float[T,B,2] z", ONE[1])
    assert reasons == ["the gates depend on something else than one input and the hidden state"]


@pytest.mark.parametrize("step", ["new = Tanh(h)", "p = MatMul(h, ra) new = Add(p, p)", "new = Add(h, h)"])
def test_a_scan_without_gates_has_no_reason(declined, step):
    assert declined(FuseRecurrent(), _scan(step), *ONE) == []


def test_a_state_that_is_added_to_the_activation_stays(fused):
    assert fused(FuseRecurrent(), _scan(f"{_affine('a')} t = Tanh(a) new = Add(t, h)"), *ONE) == ["Scan"]


def test_a_cell_that_is_added_to_the_hidden_state_stays(fused):
    step = LSTM.replace("new = Mul(os, tc)", "m = Mul(os, tc) new = Add(m, c)")
    assert fused(FuseRecurrent(), _scan(step, more=True), *TWO) == ["Scan"]
