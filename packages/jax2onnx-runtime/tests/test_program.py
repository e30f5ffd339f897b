"""A program of any ONNX model, which is run, verified, changed and sent without JAX."""

import copy
import os
import pickle

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError, RuntimeInputError, TargetError, VerificationError, WeightsError
from jax2onnx_graph.metadata import ModelMetadata, StatePair, write_states
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_graph.saving.writing import save_model
from jax2onnx_graph.targets import standard_target
from jax2onnx_graph.weights.absent import AbsentTensor
from jax2onnx_runtime.call_interface import CallInterface, LeafType, TemplateForm
from jax2onnx_runtime.program import Program, program_of
from jax2onnx_runtime.runtimes import MissingRuntime, Runtime, reference_runtime
from jax2onnx_runtime.steps import Described, ModelReplaced
from jax2onnx_runtime.verification import ExpectedRun, Run, Verification

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
agraph (float[B] x) => (float[B] y, float[B] z) {
  h = Add(x, x)
  y = Relu(h)
  z = Neg(h)
}
"""
X = np.array([1, -2], np.float32)


class CountingRuntime(Runtime):
    """Counts how often a model is loaded."""

    def __init__(self):
        self.loads = 0

    def load(self, model):
        self.loads += 1
        return super().load(model)


def program(runtime=reference_runtime):
    return program_of(ir.from_onnx_text(MODEL), runtime)


def run(y, z):
    return ExpectedRun("B = 2", {"x": X}, [np.array(y, np.float32), np.array(z, np.float32)])


def test_it_is_loaded_at_the_first_run_and_once():
    runtime = CountingRuntime()
    made = program(runtime)
    assert runtime.loads == 0
    for _ in range(2):
        np.testing.assert_array_equal(made.run({"x": X})["y"], [2, 0])
    assert runtime.loads == 1


def test_a_call_takes_and_returns_arrays_by_name():
    found = program()({"x": X})
    assert {name: array.tolist() for name, array in found.items()} == {"y": [2, 0], "z": [-2, 4]}


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(RuntimeInputError, match="has dtype float64"):
        program().run({"x": X.astype(np.float64)})
    with pytest.raises(RuntimeInputError, match="The inputs are x, but arrays were given for none"):
        program().run({})


def test_a_step_takes_and_returns_no_states():
    model = ir.from_onnx_text(MODEL)
    write_states(model, [StatePair("x", "z")])
    session = program_of(model, reference_runtime).session(initial={"x": X})
    assert {name: array.tolist() for name, array in session.step({}).items()} == {"y": [2, 0]}
    np.testing.assert_array_equal(session.state["x"], [-2, 4])


def test_it_is_verified_with_results_that_are_known():
    found = program().verify(results=[run([2, 0], [-2, 4]), ({"x": X}, {"y": run([2, 0], []).outputs[0], "z": -2 * X})])
    assert found == 0
    assert [(error.output, error.where) for error in found.errors] == [
        ("y", "B = 2"), ("z", "B = 2"), ("y", "results[1]"), ("z", "results[1]"),
    ]  # fmt: skip


def test_an_output_beyond_its_tolerance_is_named_and_kept():
    made = program()
    with pytest.raises(VerificationError, match="Output 'z' differs from what it should be at B = 2"):
        made.verify(results=[run([2, 0], [-2, 4]), run([2, 0], [-2, 5])])
    assert [error.is_close for error in made.verified] == [True, True, True, False]


def test_what_was_verified_before_stays_in_copies():
    made = program()
    made.verify(results=[run([2, 0], [-2, 4])])
    first, sent = made.verified, made.portable()
    sent.verify(results=[run([2, 0], [-2, 4])] * 2)
    made.verify(results=[run([2, 0], [-2, 4])] * 3)
    assert [len(errors) for errors in (first, sent.verified, made.verified)] == [2, 4, 6]


def test_a_deep_copy_of_a_file_is_run_as_it_was_changed(tmp_path):
    save_model(ir.from_onnx_text(MODEL), tmp_path / "m.onnx")
    made = program_of(read_model(tmp_path / "m.onnx"), reference_runtime, file=tmp_path / "m.onnx")
    changed = copy.deepcopy(made)
    changed.model.graph[1].op_type = "Abs"
    assert (changed.file, made.file) == (None, tmp_path / "m.onnx")
    assert changed.run({"x": X})["y"].tolist() == [2, 4]
    assert made.run({"x": X})["y"].tolist() == [2, 0]


@pytest.mark.parametrize(
    ("count", "named"),
    [(1, "w0"), (3, "w0, w1, w2"), (4, "w0, w1, w2 and 1 more"), (6, "w0, w1, w2 and 3 more")],
)
def test_absent_weights_are_named_the_first_three(count, named):
    made = program()
    for number in range(count):
        tensor = AbsentTensor(ir.DataType.FLOAT, (2,), [f"w{number}"], lambda weights: weights.array("w"))
        made.model.graph.initializers.add(ir.Value(name=f"w{number}", const_value=tensor))
    with pytest.raises(WeightsError, match=f"The program cannot be saved: its weights {named} are absent"):
        made.check_complete("saved")


@pytest.mark.parametrize(("size", "is_beside"), [(256, True), (255, False)])
def test_weights_from_1024_bytes_on_go_to_the_data_file(tmp_path, size, is_beside):
    model = ir.from_onnx_text(MODEL)
    weight = ir.Tensor(np.arange(size, dtype=np.float32), name="w")
    model.graph.initializers.add(
        ir.Value(name="w", const_value=weight, type=ir.TensorType(weight.dtype), shape=weight.shape)
    )
    program_of(model, reference_runtime).save(tmp_path / "m.onnx", external_data=True)
    assert (len([*tmp_path.iterdir()]) == 2) == is_beside


def test_steps_of_another_program_are_made_in_order():
    steps = [Described(ModelMetadata(version=number)) for number in (1, 2, 3)]
    made = program().with_steps(steps)
    assert made.steps == tuple(steps)
    assert made.model.model_version == 3
    assert program().with_steps([]).steps == ()


class Drawing(Program):
    """A program whose random calls are kept."""

    def random_calls(self, sizes, ranges, seed):
        calls.append((sizes, ranges, seed))
        return iter([Run("drawn", ({"x": X},), {})])

    def _check_has_function(self, method):
        pass

    def _function_outputs(self, run):
        return self.loaded(self.feeds(*run.args))


calls: list[object] = []


@pytest.mark.parametrize("compare", [Drawing.verify, Drawing.accuracy])
def test_random_calls_begin_with_the_seed_0(compare):
    calls.clear()
    made = program()
    drawing = Drawing(made.model, made.interface, made.runtime, made.target)
    compare(drawing)
    compare(drawing, seed=3, sizes=[{"B": 2}], ranges={"x": (0, 1)})
    assert calls == [(None, {}, 0), ([{"B": 2}], {"x": (0, 1)}, 3)]


def test_a_profile_without_arguments_is_of_a_random_call():
    calls.clear()
    made = program()
    with pytest.raises(TargetError, match="does not tell how long"):
        Drawing(made.model, made.interface, made.runtime, made.target).profile()
    assert calls == [(None, {}, 0)]


def test_a_profile_of_optional_inputs_alone_needs_no_arguments():
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Neg(w) }"""
    form = TemplateForm(((), {}), 0, [0])
    interface = CallInterface([], [LeafType("y", np.dtype(np.float32))], form, form)
    made = Program(ir.from_onnx_text(text), interface, reference_runtime, standard_target)
    assert made().tolist() == [-1, -2]
    with pytest.raises(TargetError, match="does not tell how long"):
        made.profile()


def test_tolerances_are_taken():
    assert 0.09 < program().verify(results=[run([2.1, 0], [-2, 4])], rtol=0.1) < 0.11


def test_a_verification_says_what_it_compared():
    text = str(program().verify(results=[run([2.1, 0], [-2, 4])], rtol=0.1))
    assert "largest difference 0.1 in 1 runs: B = 2" in text
    assert "26.4 dB  2 of 2" in text


def test_a_verification_survives_pickling():
    found = program().verify(results=[run([2.1, 0], [-2, 4])], rtol=0.1)
    there = pickle.loads(pickle.dumps(found))
    assert isinstance(there, Verification)
    assert (there, str(there)) == (found, str(found))


def test_where_no_number_is_finite_nothing_is_known():
    nothing = np.full(2, np.nan, np.float32)
    found = program().verify(results=[ExpectedRun("B = 2", {"x": nothing}, [nothing, nothing])])
    assert np.isnan(found)
    assert not found < 1e-5
    assert "None of the 2 numbers of 'y' that were compared is finite" in str(found)


def test_accuracy_of_results_that_are_known():
    assert program().accuracy(results=[run([2.1, 0], [-2, 4])]).outputs[0].largest == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.verify(), r"nothing to compare with.*verify\(results=stored\)"),
        (lambda p: p.accuracy(), r"nothing to compare with.*accuracy\(results=stored\)"),
        (lambda p: p.verify(results=[]), "no results were given"),
        (lambda p: p.verify(results=[], sizes=[{"B": 2}]), "verify takes either results"),
        (lambda p: p.accuracy(results=[], data=[]), "accuracy takes either results"),
        (lambda p: p.random_calls(None, {}, 0), "came without its function"),
        (lambda p: p.specialize(B=2), r"specialize\(B=2\) lowers the function anew"),
        (lambda p: p.with_adapters(int), "means no weight that the program uses"),
        (lambda p: p.report(), "has no report"),
    ],
)  # fmt: skip
def test_what_needs_the_function_says_so(call, message):
    with pytest.raises(OptionError, match=message):
        call(program())


def test_a_change_is_a_step_which_a_pickle_tells():
    made = program().with_metadata(ModelMetadata(version=2)).with_model(ir.from_onnx_text(MODEL))
    there = pickle.loads(pickle.dumps(made))
    assert there.steps == (Described(ModelMetadata(version=2)), ModelReplaced())


def test_a_runtime_that_is_missing_is_named():
    with pytest.raises(TargetError, match="No installed plugin runs models for the target onnx"):
        program(MissingRuntime(standard_target)).run({"x": X})


def test_a_runtime_that_tells_no_times_says_so():
    with pytest.raises(TargetError, match="does not tell how long"):
        program().profile({"x": X})


def test_a_program_that_never_ran_has_no_measurements():
    assert (program().times, program().verified, program().bits) == ({}, [], None)


def test_a_program_is_what_was_in_its_file_when_it_was_read(tmp_path):
    path = tmp_path / "m.onnx"
    save_model(ir.from_onnx_text(MODEL), path)
    program = program_of(read_model(path), reference_runtime, file=path)
    assert program.source == path
    model = program.model
    save_model(ir.from_onnx_text(MODEL.replace("Relu", "Neg")), path)
    os.utime(path, ns=(0, 0))
    assert program.source is model
