"""Recurrent operators give NaN from the step on that read one, in the same row of the batch only."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise.recurrent_nan import RecurrentNanPass
from jax2onnx_onnxruntime import OnnxRuntime
from jax2onnx_onnxruntime.loading import load

STEPS, BATCH, INPUTS, UNITS = 4, 3, 2, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _model(op_type: str, direction: str, activations: str = "") -> ir.Model:
    directions = 2 if direction == "bidirectional" else 1
    width, state = GATES[op_type] * UNITS, f"float[{directions},{BATCH},{UNITS}]"
    has_cell = op_type == "LSTM"
    text = f"""<ir_version: 10, opset_import: ["" : 22]>
    agraph (float[T,{BATCH},{INPUTS}] x, float[{directions},{width},{INPUTS}] w, float[{directions},{width},{UNITS}] r,
            float[{directions},{2 * width}] b, {state} h0{f", {state} c0" if has_cell else ""})
        => (float[T,{directions},{BATCH},{UNITS}] y, {state} h{f", {state} c" if has_cell else ""}) {{
        y, h{", c" if has_cell else ""} = {op_type}<hidden_size = {UNITS}, direction = "{direction}"{activations}>
            (x, w, r, b, , h0{", c0" if has_cell else ""})
    }}"""
    return ir.from_proto(onnx.parser.parse_model(text))


def _operands(model: ir.Model) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = {
        value.name or "": [size if isinstance(size, int) else STEPS for size in value.shape or ()]
        for value in model.graph.inputs
    }
    return {name: rng.normal(size=size).astype(np.float32) for name, size in sizes.items()}


def _result(model: ir.Model, operands: dict[str, np.ndarray]) -> list[np.ndarray]:
    changed = RecurrentNanPass(OnnxRuntime())(model).model
    onnx.checker.check_model(ir.to_proto(changed), full_check=True)
    return [np.isnan(result) for result in load(changed)(operands)]


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize(("direction", "seen"), [("forward", [2, 3]), ("reverse", [0, 1, 2])])
def test_a_nan_in_a_step_is_in_all_that_follow(op_type, direction, seen):
    model = _model(op_type, direction, ', activations = ["Relu"]' if op_type == "RNN" else "")
    operands = _operands(model)
    operands["x"][2, 1, 0] = np.nan
    y, *last = _result(model, operands)
    want = np.zeros_like(y)
    want[seen, :, 1] = True
    np.testing.assert_array_equal(y, want)
    for state in last:
        np.testing.assert_array_equal(state, want[seen[0]])


@pytest.mark.parametrize("op_type", ["LSTM", "GRU"])
def test_each_direction_has_its_own_steps(op_type):
    model = _model(op_type, "bidirectional")
    operands = _operands(model)
    operands["x"][0, 2, 1] = np.nan
    y, *_ = _result(model, operands)
    assert y[:, 0, 2].all()
    np.testing.assert_array_equal(y[:, 1, 2].all(-1), [True, False, False, False])
    assert not y[:, :, :2].any()


def test_a_nan_in_the_first_cell_state_is_in_its_unit_first():
    model = _model("LSTM", "forward")
    operands = _operands(model)
    operands["c0"][0, 1, 3] = np.nan
    y, h, _ = _result(model, operands)
    np.testing.assert_array_equal(np.flatnonzero(y[0, 0, 1]), [3])
    assert y[1:, 0, 1].all()
    assert h[0, 1].all()
    assert not y[:, :, [0, 2]].any()


def test_infinities_are_no_nan():
    model = _model("LSTM", "forward")
    operands = _operands(model)
    operands["x"][1, 0] = [np.inf, 0]
    assert not any(result.any() for result in _result(model, operands))


def test_an_rnn_with_tanh_stays():
    assert not RecurrentNanPass(OnnxRuntime())(_model("RNN", "forward")).modified
