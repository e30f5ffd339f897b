"""Recurrent operators on sequences and first states that are not finite: the results are those of their formulas."""

import itertools
from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from jax2onnx_graph.legalise.empty_operands import EmptyOperandsPass
from jax2onnx_graph.legalise.finite_recurrences import FiniteRecurrencesPass
from jax2onnx_graph.metadata import note_sizes
from jax2onnx_graph.passes import make_names_unique
from jax2onnx_graph.weights.absent import absent_weight
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


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op_type", "options"), [("LSTM", ""), ("GRU", ""), ("RNN", ', activations = ["Relu"]')])
def test_no_steps_give_first_states_that_are_not_finite(op_type, options, direction):
    if direction == "bidirectional":
        options = options.replace('["Relu"]', '["Relu", "Relu"]')
    model = _model(op_type, direction, options)
    note_sizes(model, {"T": False})
    operands = _operands(model) | {"x": np.zeros((0, BATCH, INPUTS), np.float32)}
    operands["h0"][0, 1] = np.nan
    for one in (FiniteRecurrencesPass(TARGET), EmptyOperandsPass(LimitedTarget(lost={(op_type, "empty")}))):
        model = one(model).model
    make_names_unique(model)
    y, *last = _run(model, operands)
    assert y.shape == (0, 2 if direction == "bidirectional" else 1, BATCH, UNITS)
    for got, name in zip(last, ["h0", "c0"], strict=False):
        np.testing.assert_array_equal(got, operands[name])


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
    sequence = [*["ReduceSumSquare"] * 4, *["Add"] * 3, "Less"]
    assert _operators(_model("GRU", states=False)) == [*sequence, "If"]
    states = ["ReduceSumSquare", "ReduceSumSquare", "Add", "Less", "And"]
    assert _operators(_model("LSTM")) == [*sequence, *states, "If"]


def _with_weights(model: ir.Model, tensors: Mapping[str, ir.TensorProtocol]) -> ir.Model:
    """The model in which operands are constants."""
    for name, tensor in tensors.items():
        value = next(value for value in model.graph.inputs if value.name == name)
        model.graph.inputs.remove(value)
        value.const_value = tensor
        model.graph.register_initializer(value)
    return model


@pytest.mark.parametrize("name", ["w", "r", "b"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("op_type", "options"), [("LSTM", ""), ("GRU", ""), ("GRU", ", linear_before_reset = 1"), ("RNN", "")]
)
def test_weights_that_are_not_finite_give_what_the_formula_gives(op_type, options, is_known, number, name):
    if op_type == "RNN" and not is_known:
        return  # kernels keep what is not finite, but for products with a first state of zeros
    model = _model(op_type, options=options, states=False)
    operands = _operands(model)
    operands[name][(0,) * operands[name].ndim] = number
    with np.errstate(all="ignore"):
        wanted = [np.asarray(result) for result in ReferenceEvaluator(ir.to_proto(model)).run(None, operands)]
    if is_known:
        model = _with_weights(model, {one: ir.Tensor(operands.pop(one), name=one) for one in ("w", "r", "b")})
    assert np.isnan(wanted[0]).any() or (name, abs(number)) != ("r", np.inf)
    for got, want in zip(_run(_guarded(model), operands), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_weights_that_are_not_there_yet_are_taken_to_be_finite():
    model = _model("GRU", states=False)
    absent = {name: absent_weight(name, np.dtype(np.float32), value.shape.numpy())
              for value in model.graph.inputs if (name := value.name or "") != "x"}  # fmt: skip
    changed = FiniteRecurrencesPass(TARGET)(_with_weights(model, absent)).model
    assert [node.op_type for node in changed.graph] == ["ReduceSumSquare", "Less", "If"]


def test_an_operator_of_known_finite_operands_stays():
    text = """<ir_version: 10, opset_import: ["" : 22]>
    agraph () => (float[1,1,3,1] y) <float[1,3,2] x = {1, 2, 3, 4, 5, 6}, float[1,3,2] w = {1, 2, 3, 4, 5, 6}, float[1,3,1] r = {1, 2, 3}> {
        y = GRU<hidden_size = 1>(x, w, r)
    }"""
    assert _operators(ir.from_proto(onnx.parser.parse_model(text))) == ["GRU"]


def test_only_results_that_are_read_are_results_of_the_branches():
    model = _model("LSTM")
    del model.graph.outputs[:2]
    (node,) = [node for node in _guarded(model).graph if node.op_type == "If"]
    assert len(node.outputs) == 1


def test_an_rnn_with_tanh_stays():
    assert not FiniteRecurrencesPass(TARGET)(_model("RNN")).modified


@pytest.mark.parametrize(
    ("op_type", "options", "operands"),
    [
        ("GRU", ", clip = 3.0", ""), ("GRU", ', activations = ["Sigmoid", "Softsign"]', ""), ("LSTM", ", input_forget = 1", ""),
        ("GRU", ", layout = 1", ""), ("GRU", "", ", l"), ("LSTM", "", ", , , , p"),
        ("GRU", ', direction = "bidirectional", activations = ["Sigmoid", "Tanh", "Sigmoid", "Relu"]', ""),
        ("other.GRU", "", ""),
    ],
)  # fmt: skip
def test_what_has_no_formula_stays(op_type, options, operands):
    directions, width = 2 if "bidirectional" in options else 1, GATES[op_type.removeprefix("other.")] * UNITS
    text = f"""<ir_version: 10, opset_import: ["" : 22, "other" : 1]> agraph (float[4,3,2] x, float[{directions},{width},2] w,
        float[{directions},{width},{UNITS}] r, int32[3] l, float[1,{3 * UNITS}] p) => (float[4,{directions},3,{UNITS}] y)
        {{ y = {op_type}<hidden_size = {UNITS}{options}>(x, w, r, {operands}) }}"""
    text = text.replace("r, )", "r)")
    assert not FiniteRecurrencesPass(TARGET)(ir.from_proto(onnx.parser.parse_model(text))).modified


@pytest.mark.parametrize(
    ("op_type", "options"),
    [
        ("LSTM", ', activations = ["Sigmoid", "Relu", "Tanh"]'), ("LSTM", ', activations = ["Sigmoid", "Tanh", "Relu"]'),
        ("LSTM", ', activations = ["Tanh", "Sigmoid", "Relu"]'), ("GRU", ', activations = ["Tanh", "Sigmoid"]'),
        ("GRU", ', activations = ["Sigmoid", "Relu"], linear_before_reset = 1'), ("LSTM", ", layout = 0"),
        ("RNN", ', activations = ["Relu"]'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("given", [("b", "h0", "c0"), ("h0",), ()])
def test_sequences_beside_one_that_is_not_finite_are_what_the_operator_makes_of_them(op_type, options, given):
    cell, width = op_type == "LSTM", GATES[op_type] * UNITS
    declared = {
        "b": f"float[1,{2 * width}] b",
        "h0": f"float[1,{BATCH},{UNITS}] h0",
        "c0": f"float[1,{BATCH},{UNITS}] c0",
    }
    given = [name for name in given if cell or name != "c0"]
    names = [name if name in given else "" for name in (["b", "", "h0", "c0"] if cell else ["b", "", "h0"])]
    state = f"float[1,{BATCH},{UNITS}]"
    head = ", ".join(
        [f"float[T,{BATCH},2] x, float[1,{width},2] w, float[1,{width},{UNITS}] r", *(declared[n] for n in given)]
    )
    text = f"""<ir_version: 10, opset_import: ["" : 22]> agraph ({head}) => (float[T,1,{BATCH},{UNITS}] y, {state} h)
        {{ y, h = {op_type}<hidden_size = {UNITS}{options}>({", ".join(["x", "w", "r", *names])}) }}"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    operands = _operands(model)
    wanted = _run(model, operands)
    operands["x"][1, 0, 0] = np.inf
    for got, want in zip(_run(_guarded(model), operands), wanted, strict=True):
        np.testing.assert_allclose(got[..., 1:, :], want[..., 1:, :], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("op_type", "state", "stays"),
    [("GRU", "9e3", True), ("GRU", "1e4", False), ("GRU", "inf", False), ("RNN", "1e8", True), ("RNN", "nan", False)],
)
def test_a_known_first_state_is_looked_at(op_type, state, stays):
    options = ', activations = ["Relu"]' if op_type == "RNN" else ""
    ones = ", ".join(["1"] * GATES[op_type])
    x, text = (
        "1, 2, 3, 4",
        f"""<ir_version: 10, opset_import: ["" : 22]>
    agraph () => (float[2,1,1,1] y)
        <float[2,1,2] x = {{XS}}, float[1,1,1] h = {{{state}}}, float[1,{GATES[op_type]},2] w = {{{ones}, {ones}}}, float[1,{GATES[op_type]},1] r = {{{ones}}}>
        {{ y = {op_type}<hidden_size = 1{options}>(x, w, r, , , h) }}""",
    )
    assert (_operators(ir.from_proto(onnx.parser.parse_model(text.replace("XS", x)))) == [op_type]) == stays


def test_first_states_of_zeros_need_no_condition():
    text = """<ir_version: 10, opset_import: ["" : 22]>
    agraph (float[T,3,2] x, float[1,15,2] w, float[1,15,5] r, int64[3] s) => (float[T,1,3,5] y) <float[1,3,5] h, float zero = {0}>
        { h = Expand(zero, s) y = GRU<hidden_size = 5>(x, w, r, , , h) }"""
    weights = ["ReduceSumSquare"] * 3
    found = _operators(ir.from_proto(onnx.parser.parse_model(text)))
    assert found == ["Expand", *weights, "Add", "Add", "Less", "If"]


def test_squares_of_half_floats_are_summed_in_float32():
    model = _model("GRU", dtype="float16", states=False)
    assert _operators(model) == [*["Cast", "ReduceSumSquare"] * 4, *["Add"] * 3, "Less", "If"]


def test_branches_hold_no_copies():
    (node,) = [node for node in _guarded(_model("LSTM")).graph if node.op_type == "If"]
    assert list(node.attributes) == ["then_branch", "else_branch"]
    formula = [inner.op_type for inner in node.attributes["else_branch"].as_graph()]
    assert "Scan" in formula
    assert "Identity" not in formula


def test_a_second_run_changes_nothing():
    model = _guarded(_model("LSTM"))
    assert not FiniteRecurrencesPass(TARGET)(model).modified
