"""Models that are cut into stages, without JAX."""

import pickle
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError, ReadError, RuntimeInputError, SaveError
from jax2onnx_graph.metadata import (
    StatePair,
    SymbolInfo,
    read_constraints,
    read_states,
    read_symbols,
    write_states,
    write_symbols,
)
from jax2onnx_runtime.runtimes import reference_runtime
from jax2onnx_runtime.splitting import split_model
from jax2onnx_runtime.stages import Stages

# Three modules, the first and the last of which share a table; h is read by all.
ZEROS = f"{{{', '.join(16 * '0')}}}"
MODEL = f"""
<ir_version: 10, opset_import: ["": 21, "own": 1]>
agraph (float[B, 4] x, float[B, 4] s) => (float[B, 4] y, float[B, 4] t)
<float[4, 4] table = {ZEROS}, float[4, 4] w1 = {ZEROS}, float[4, 4] w2 = {ZEROS}, float[B, 4] h, float[B, 4] a, float[B, 4] b, float[B, 4] c, float[B, 4] d, float[B, 4] e>
{{
  ["in/MatMul"] h = MatMul (x, table)
  ["blocks.0.up/MatMul"] a = MatMul (h, w1)
  ["blocks.0.up/Tanh"] b = Tanh (a)
  ["blocks.0/Add"] c = Add (b, s)
  ["blocks.0/Neg"] t = Neg (c)
  ["blocks.1.up/MatMul"] d = MatMul (c, w2)
  ["blocks.1/Scale"] e = own.Scale (d, h)
  ["out/MatMul"] y = MatMul (e, table)
}}
<domain: "own", opset_import: ["": 21]>
Scale (p, q) => (r) {{ r = Mul (p, q) }}
<domain: "own", opset_import: ["": 21]>
Unused (p) => (r) {{ r = Neg (p) }}
"""
BYTES = 64  # of one weight


def model():
    made = ir.from_onnx_text(MODEL)
    rng = np.random.default_rng(0)
    for name in ("table", "w1", "w2"):
        made.graph.initializers[name].const_value = ir.Tensor(rng.standard_normal((4, 4)).astype(np.float32), name=name)
    write_symbols(made, {"B": SymbolInfo("B", 1, None, (("x", 0, "B"), ("s", 0, "B")))}, ["B >= 2"])
    write_states(made, [StatePair("s", "t")])
    return made


def feeds(size=3):
    rng = np.random.default_rng(1)
    return {name: rng.standard_normal((size, 4)).astype(np.float32) for name in ("x", "s")}


def modules_of(stages):
    return [[node.name for node in stage.graph] for stage in stages]


def test_a_limit_cuts_between_modules():
    stages = split_model(model(), max_bytes=2 * BYTES)
    assert [names[0] for names in modules_of(stages)] == ["in/MatMul", "blocks.1.up/MatMul"]


def test_named_modules_begin_stages():
    stages = split_model(model(), at=["out", "blocks.0"])
    assert [names[0] for names in modules_of(stages)] == ["in/MatMul", "blocks.0.up/MatMul", "out/MatMul"]


@pytest.mark.parametrize(
    "how", [{"max_bytes": BYTES}, {"max_bytes": 2 * BYTES}, {"max_bytes": 9 * BYTES}, {"at": ["blocks.1", "out"]}]
)
@pytest.mark.parametrize("size", [1, 2, 7])
def test_stages_compute_what_the_model_computes(how, size):
    whole = reference_runtime.load(model())(feeds(size))
    for got, want in zip(Stages.split(model(), reference_runtime, **how).run(feeds(size)), whole, strict=True):
        np.testing.assert_array_equal(got, want)


def test_no_stage_has_more_weights_than_the_limit():
    for limit in range(BYTES, 4 * BYTES, 16):
        assert max(stage.nbytes for stage in Stages.split(model(), reference_runtime, max_bytes=limit).stages) <= limit


def test_a_shared_weight_is_in_each_stage_that_needs_it():
    stages = split_model(model(), at=["blocks.0", "out"])
    assert [sorted(stage.graph.initializers) for stage in stages] == [["table"], ["w1", "w2"], ["table"]]
    assert stages[0].graph.initializers["table"].const_value is stages[2].graph.initializers["table"].const_value


def test_the_model_stays_as_it_is():
    whole = model()
    before = ir.to_proto(whole).SerializeToString()
    split_model(whole, max_bytes=BYTES)
    assert ir.to_proto(whole).SerializeToString() == before


def test_names_symbols_states_and_functions_are_those_of_the_part():
    first, second = split_model(model(), at=["blocks.1"])
    assert [value.name for value in first.graph.inputs] == ["x", "s"]
    assert [value.name for value in first.graph.outputs] == ["h", "c", "t"]
    assert read_states(first) == [StatePair("s", "t")]
    assert read_states(second) == []
    assert read_constraints(second) == ["B >= 2"]
    assert read_symbols(second)[0].minimum == 1
    assert {origin[0] for origin in read_symbols(second)[0].origins} == {"c", "h"}
    assert [function.name for function in first.functions.values()] == []
    assert [function.name for function in second.functions.values()] == ["Scale"]


def test_a_session_keeps_the_states_where_they_belong():
    stages, x = Stages.split(model(), reference_runtime, at=["blocks.1"]), feeds()["x"]
    run, state = reference_runtime.load(model()), np.zeros((3, 4), np.float32)
    session = stages.session(sizes={"B": 3})
    for _ in range(3):
        want, state = run({"x": x, "s": state})
        np.testing.assert_array_equal(session.step({"x": x})["y"], want)
    assert [list(one.state) for one in session.sessions] == [["s"], []]
    session.reset()
    np.testing.assert_array_equal(session.step({"x": x})["y"], run({"x": x, "s": np.zeros_like(x)})[0])


@pytest.mark.parametrize("option", ["sizes", "window", "limits"])
def test_a_session_has_no_sizes_that_no_stage_has(option):
    stages = Stages.split(model(), reference_runtime, at=["blocks.1"])
    options: dict[str, Any] = {"sizes": {"B": 3}, option: {"C": 3}}
    with pytest.raises(OptionError, match=f"{option}: no axis of a state that it can be about is 'C'"):
        stages.session(**options)


def test_a_first_value_that_no_stage_has_is_refused():
    with pytest.raises(OptionError, match="initial: there is no state 'h'; the states are s"):
        Stages.split(model(), reference_runtime, at=["blocks.1"]).session(initial={"h": np.zeros(3)})


GROWING = """
<ir_version: 10, opset_import: ["": 21]>
agraph (float[B] x, float[S] s, float[S] c) => (float[B] y, float[S] t, float[P] d) <float[B] h> {
  ["in/Neg"] h = Neg (x)
  ["in/Neg"] t = Neg (s)
  ["out/Concat"] d = Concat <axis = 0> (c, h)
  ["out/Neg"] y = Neg (h)
}
"""


def test_a_window_is_for_the_stages_whose_states_grow_there():
    made = ir.from_onnx_text(GROWING)
    made.graph.outputs[2].shape = ir.Shape(["B + S"])
    write_states(made, [StatePair("s", "t"), StatePair("c", "d", 0)])
    session = Stages.split(made, reference_runtime, at=["out"]).session(window={"S": 2}, sizes={"S": 2})
    for number in range(3):
        session.step({"x": np.full(1, number, np.float32)})
    np.testing.assert_array_equal(session.sessions[1].state["c"], [-1, -2])


def test_a_step_that_a_stage_refuses_moves_no_state_on():
    made = ir.from_onnx_text(
        GROWING.replace("Neg (s)", "Add (s, x)").replace("float[S] s", "float[B] s").replace("float[S] t", "float[B] t")
    )
    made.graph.outputs[2].shape = ir.Shape(["B + S"])
    write_states(made, [StatePair("s", "t"), StatePair("c", "d", 0)])
    session = Stages.split(made, reference_runtime, at=["out"]).session(limits={"S": 2}, sizes={"B": 1})
    x = np.ones(1, np.float32)
    for _ in range(2):
        session.step({"x": x})
    with pytest.raises(RuntimeInputError, match=r"The state 'c'.* is full"):
        session.step({"x": x})
    assert [session.sessions[0].state["s"].tolist(), session.sessions[1].state["c"].tolist()] == [[2], [-1, -1]]


def test_a_state_that_several_stages_read_is_refused_by_sessions():
    made = model()
    made.graph.node("blocks.1/Scale").replace_input_with(1, made.graph.inputs[1])
    stages = Stages.split(made, reference_runtime, at=["blocks.1"])
    with pytest.raises(OptionError, match="The state 's' is read or written in several stages"):
        stages.session()
    for got, want in zip(stages.run(feeds()), reference_runtime.load(made)(feeds()), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_step_takes_the_inputs_that_are_no_states():
    session = Stages.split(model(), reference_runtime, at=["blocks.1"]).session(sizes={"B": 3})
    for given in ({}, {"x": feeds()["x"], "s": feeds()["s"]}):
        with pytest.raises(RuntimeInputError, match="The inputs are x, but arrays were given for"):
            session.step(given)


def test_stages_are_saved_and_read(tmp_path):
    stages = Stages.split(model(), reference_runtime, at=["blocks.1"])
    stages.save(tmp_path / "new")
    found = Stages.load(stages.save(tmp_path / "new"), reference_runtime)
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["stage-0.onnx", "stage-1.onnx", "stages.json"]
    np.testing.assert_array_equal(found.run(feeds())[0], stages.run(feeds())[0])
    assert found.states == [StatePair("s", "t")]
    with pytest.raises(ReadError, match="Cannot read stages"):
        Stages.load(tmp_path, reference_runtime)


def test_stages_that_cannot_all_be_written_replace_none(tmp_path):
    stages = Stages.split(model(), reference_runtime, at=["blocks.1"])
    stages.save(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.glob("stage-0*")}
    (tmp_path / "stage-1.onnx").unlink()
    (tmp_path / "stage-1.onnx").mkdir()
    with pytest.raises(SaveError, match=r"stage-1\.onnx: it is a directory"):
        Stages.split(model(), reference_runtime, at=["out"]).save(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.glob("stage-0*")} == before
    with pytest.raises(SaveError, match="it is no directory"):
        stages.save(tmp_path / "stage-0.onnx")


@pytest.mark.parametrize("entry", ['{"stages": [], "states": []}', '{"stages": [3], "states": []}', "[]", "{"])
def test_a_list_of_stages_that_is_none_is_refused(tmp_path, entry):
    (tmp_path / "stages.json").write_text(entry)
    with pytest.raises(ReadError, match="Cannot read stages from"):
        Stages.load(tmp_path, reference_runtime)


def test_a_stage_is_pickled():
    stages = Stages.split(model(), reference_runtime, at=["blocks.1"])
    found = pickle.loads(pickle.dumps(stages))
    np.testing.assert_array_equal(found.run(feeds())[0], stages.run(feeds())[0])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"max_bytes": BYTES - 1}, r"weights of the node 'in/MatMul' \(table\) take 64 bytes"),
        ({"max_bytes": 0}, "from 1 on"),
        ({"max_bytes": True}, "number of bytes"),
        ({"at": ["decoder"]}, "no module 'decoder'; the modules are in, blocks.0.up"),
        ({"at": ["in"]}, "it begins the model"),
        ({"at": ["blocks", "blocks.0"]}, "'blocks' begins there, too"),
        ({"at": "out"}, "list of the modules"),
        ({"at": []}, "list of the modules"),
        ({}, "give one of them"),
        ({"at": ["out"], "max_bytes": 100}, "give one of them"),
    ],
)
def test_what_cannot_be_is_refused(how, message):
    with pytest.raises(OptionError, match=message):
        split_model(model(), **how)


def test_a_value_of_unknown_type_cannot_cross():
    made = model()
    made.graph.node("blocks.1/Scale").outputs[0].type = None
    with pytest.raises(OptionError, match="the type of 'e' is not known"):
        split_model(made, at=["out"])


PARTS = """
    <ir_version: 10, opset_import: ["": 21]>
    agraph (float[4] x, float[4] z) => (RESULTS) <float[4] w = {1, 2, 3, 4}, float[4] v = {5, 6, 7, 8}, float[4] a, float[4] b, float[4] c> {
      ["a/Add"] a = Add (x, w)
      ["b/Mul"] b = Mul (z, v)
      ["c/Mul"] c = Mul (x, v)
    }
"""


@pytest.mark.parametrize(
    ("results", "operators"),
    [
        ("float[4] c", [["Mul"]]),
        ("float[4] b, float[4] a", [["Add"], ["Mul"]]),
        ("float[4] c, float[4] x, float[4] w", [["Mul"]]),
        ("float[4] a, float[4] w", [["Add"], []]),
        ("float[4] z, float[4] x", []),
    ],
)
def test_results_that_nothing_needs_are_no_stage(results, operators):
    made = ir.from_onnx_text(PARTS.replace("RESULTS", results))
    stages = Stages.split(made, reference_runtime, at=["b", "c"])
    assert [[node.op_type for node in stage.model.graph] for stage in stages.stages] == operators
    given = {name: np.random.default_rng(0).standard_normal(4).astype(np.float32) for name in ("x", "z")}
    whole = reference_runtime.load(ir.from_onnx_text(PARTS.replace("RESULTS", results)))(given)
    for got, want in zip(stages.run(given), whole, strict=True):
        np.testing.assert_array_equal(got, want)


def test_inputs_of_other_names_are_refused():
    with pytest.raises(RuntimeInputError, match="The inputs are x, s, but arrays were given for x"):
        Stages.split(model(), reference_runtime, at=["out"]).run({"x": feeds()["x"]})


def test_values_that_bodies_capture_cross_the_cut():
    text = """
    <ir_version: 10, opset_import: ["": 21]>
    agraph (float[4] x, bool cond) => (float[4] y) <float[4] w = {1, 1, 1, 1}, float[4] h> {
      ["a/Neg"] h = Neg (x)
      ["b/If"] y = If (cond) <then_branch = g1 () => (float[4] p) { p = Add (h, w) }, else_branch = g2 () => (float[4] q) { q = Mul (h, h) }>
    }
    """
    made = ir.from_onnx_text(text)
    stages = Stages.split(made, reference_runtime, at=["b"])
    assert stages.stages[1].inputs == ["cond", "h"]
    assert stages.stages[1].nbytes == 16
    x = np.arange(4, dtype=np.float32)
    for cond in (True, False):
        given = {"x": x, "cond": np.array(cond)}
        np.testing.assert_array_equal(stages.run(given)[0], reference_runtime.load(made)(given)[0])
