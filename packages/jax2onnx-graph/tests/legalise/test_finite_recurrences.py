"""Recurrent operators on sequences and first states that are not finite: the results are those of their formulas."""

import itertools

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from jax2onnx_graph.legalise.finite_recurrences import FiniteRecurrencesPass
from jax2onnx_graph.passes import make_names_unique
from jax2onnx_testing.pass_fixtures import LimitedTarget
from onnx.reference import ReferenceEvaluator

STEPS, BATCH, INPUTS, UNITS = 4, 3, 2, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
#: A target whose kernels make other numbers of what is not finite.
TARGET = LimitedTarget(lost={("LSTM", "nan"), ("GRU", "nan"), ("RNN_Relu", "nan")})
SPECIAL = [np.nan, np.inf, -np.inf, 1e6, 0.0]


def _model(
    op_type: str, direction: str = "forward", options: str = "", dtype: str = "float", states: bool = True
) -> ir.Model:
    directions = 2 if direction == "bidirectional" else 1
    width, state = GATES[op_type] * UNITS, f"{dtype}[{directions},{BATCH},{UNITS}]"
    cell = op_type == "LSTM"
    given = f", {state} h0{f', {state} c0' if cell else ''}" if states else ""
    text = f"""<ir_version: 10, opset_import: ["" : 22]>
    agraph ({dtype}[T,{BATCH},{INPUTS}] x, {dtype}[{directions},{width},{INPUTS}] w, {dtype}[{directions},{width},{UNITS}] r,
            {dtype}[{directions},{2 * width}] b{given})
        => ({dtype}[T,{directions},{BATCH},{UNITS}] y, {state} h{f", {state} c" if cell else ""}) {{
        y, h{", c" if cell else ""} = {op_type}<hidden_size = {UNITS}, direction = "{direction}"{options}>
            (x, w, r, b{f", , h0{', c0' if cell else ''}" if states else ""})
    }}"""
    return ir.from_proto(onnx.parser.parse_model(text))


def _operands(model: ir.Model, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        value.name or "": rng.normal(
            size=[size if isinstance(size, int) else STEPS for size in value.shape or ()]
        ).astype(value.dtype.numpy())
        for value in model.graph.inputs
    }


def _guarded(model: ir.Model) -> ir.Model:
    changed = FiniteRecurrencesPass(TARGET)(model.clone()).model
    make_names_unique(changed)
    onnx.checker.check_model(ir.to_proto(changed), full_check=True)
    return changed


def _run(model: ir.Model, operands: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString())
    return session.run(None, operands)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("op_type", "options"), [("LSTM", ""), ("GRU", ""), ("GRU", ", linear_before_reset = 1"), ("RNN", "")]
)
def test_special_values_anywhere_give_what_the_formula_gives(op_type, options, direction):
    model = _model(op_type, direction, options)
    guarded, formula, others = _guarded(model), ReferenceEvaluator(ir.to_proto(model)), 0
    for name, value in itertools.product(["x", "h0"], SPECIAL):
        operands = _operands(model)
        flat = operands[name].reshape(-1)
        flat[np.random.default_rng(0).integers(flat.size, size=2)] = value
        with np.errstate(all="ignore"):
            wanted = formula.run(None, operands)
        for got, want in zip(_run(guarded, operands), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
        others += sum(np.isnan(want).sum() for want in wanted)
    assert others, "special values have to reach results"


def test_an_rnn_of_relu_is_one_of_its_formula():
    model = _model("RNN", "forward", ', activations = ["Relu"]', states=False)
    operands = _operands(model)
    operands["x"][2, 1, 0] = np.inf
    operands["x"][1, 0, 1] = np.nan
    h, results = np.zeros((BATCH, UNITS), np.float32), []
    bias = operands["b"].reshape(2, UNITS).sum(0)
    with np.errstate(all="ignore"):
        for row in operands["x"]:
            h = np.maximum(row @ operands["w"][0].T + h @ operands["r"][0].T + bias, 0)
            results.append(h)
    y, last = _run(_guarded(model), operands)
    np.testing.assert_allclose(y[:, 0], np.array(results), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last[0], h, rtol=1e-4, atol=1e-5)


def _operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in _guarded(model).graph]


def test_the_condition_reads_what_is_not_known():
    assert _operators(_model("GRU", states=False)) == ["ReduceSumSquare", "Less", "If"]
    model = _model("LSTM")
    assert _operators(model) == [
        "ReduceSumSquare",
        "Less",
        "ReduceSumSquare",
        "ReduceSumSquare",
        "Add",
        "Less",
        "And",
        "If",
    ]


def test_an_operator_of_known_finite_operands_stays():
    text = """<ir_version: 10, opset_import: ["" : 22]>
    agraph (float[1,15,2] w, float[1,15,5] r) => (float[1,1,3,5] y) <float[1,3,2] x = {1, 2, 3, 4, 5, 6}> {
        y = GRU<hidden_size = 5>(x, w, r)
    }"""
    assert _operators(ir.from_proto(onnx.parser.parse_model(text))) == ["GRU"]


def test_only_results_that_are_read_are_results_of_the_branches():
    model = _model("LSTM")
    del model.graph.outputs[:2]
    (node,) = [node for node in _guarded(model).graph if node.op_type == "If"]
    assert len(node.outputs) == 1


def test_an_rnn_with_tanh_stays():
    assert not FiniteRecurrencesPass(TARGET)(_model("RNN")).modified


def test_what_has_no_formula_stays():
    assert not FiniteRecurrencesPass(TARGET)(_model("GRU", options=", clip = 3.0")).modified
    assert not FiniteRecurrencesPass(TARGET)(_model("GRU", options=', activations = ["Sigmoid", "Softsign"]')).modified


def test_a_second_run_changes_nothing():
    model = _guarded(_model("LSTM"))
    assert not FiniteRecurrencesPass(TARGET)(model).modified
