"""A model and its runtime: any ONNX model is verified, bisected and run step by step, without JAX."""

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import TargetError, VerificationError
from jax2onnx_graph.targets import standard_target
from jax2onnx_runtime.bisection import EquationSource, Intermediate
from jax2onnx_runtime.runnable import ExpectedRun, RunnableModel
from jax2onnx_runtime.runtimes import MissingRuntime, Runtime, reference_runtime

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


def runnable(runtime=reference_runtime):
    return RunnableModel(ir.from_onnx_text(MODEL), runtime)


def run(y, z):
    return ExpectedRun("B = 2", {"x": X}, [np.array(y, np.float32), np.array(z, np.float32)])


def test_it_is_loaded_at_the_first_run_and_once():
    runtime = CountingRuntime()
    model = runnable(runtime)
    assert runtime.loads == 0
    for _ in range(2):
        np.testing.assert_array_equal(model({"x": X})[0], [2, 0])
    assert runtime.loads == 1


def test_it_tells_the_error_of_each_output_of_each_run():
    errors = list(runnable().verify([run([2, 0], [-2, 4]), run([2, 0], [-2, 5])]))
    assert [(error.output, error.is_close) for error in errors] == [("y", True), ("z", True), ("y", True), ("z", False)]
    with pytest.raises(VerificationError, match="Output 'z' differs from what it should be at B = 2"):
        errors[-1].check()


def test_the_next_run_is_asked_for_after_the_errors_of_the_one_before():
    asked = []

    def runs():
        for number in range(3):
            asked.append(number)
            yield run([2, 0], [-2, 4])

    errors = runnable().verify(runs())
    next(errors), next(errors)
    assert asked == [0]


def test_tolerances_are_taken():
    (first, *_) = runnable().verify([run([2.1, 0], [-2, 4])], rtol=0.1)
    assert first.is_close


def test_it_is_bisected():
    wrong = Intermediate("h", EquationSource("add"), np.array([2, -5], np.float32))
    found = runnable().bisect(run([2, 0], [-2, 4]), [wrong])
    assert (found.first.name, found.first.source.operation) == ("h", "add")


def test_a_runtime_that_is_missing_is_named():
    model = runnable(MissingRuntime(standard_target))
    with pytest.raises(TargetError, match="No installed plugin runs models for the target onnx"):
        model({"x": X})


def test_a_runtime_that_tells_no_times_says_so():
    with pytest.raises(TargetError, match="does not tell how long"):
        runnable().times({"x": X}, 3)
