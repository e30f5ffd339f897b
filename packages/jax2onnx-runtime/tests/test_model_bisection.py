"""Comparing the values of two models by their names, and of one model in two runtimes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError, SymbolError
from jax2onnx_runtime.model_bisection import bisect_models
from jax2onnx_runtime.program import program_of
from jax2onnx_runtime.runtimes import Runtime, reference_runtime

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N, 2] x) => (float[N, 2] y, float[N, 2] z) <float[2] w = {3, 5}> {
    a = Mul(x, w)
    b = Tanh(a)
    y = Add(b, b)
    z = Neg(a)
}"""


def program(text=MODEL, runtime=reference_runtime):
    model = ir.from_onnx_text(text)
    model.graph.node(0).name = "layer.1/Mul"
    return program_of(model, runtime)


def changed(*pairs):
    text = MODEL
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return program(text)


def test_equal_models_differ_nowhere():
    found = bisect_models(program(), program(), sizes=[{"N": 0}, {"N": 3}])
    assert found.first is None
    assert found.where == "N = 3"
    assert [value.name for value in found] == ["w", "a", "b", "y", "z"]


def test_the_first_operator_that_differs():
    found = bisect_models(changed(("Tanh", "Sigmoid")), program(), sizes=[{"N": 3}])
    assert (found.first.name, found.first.operator, found.first.source.operation) == ("b", "Sigmoid", "Tanh")
    assert [value.is_close for value in found] == [True, True, False, False, True]


def test_a_weight_that_differs_is_the_first():
    found = bisect_models(changed(("{3, 5}", "{3, 6}")), program(), sizes=[{"N": 3}])
    assert (found.first.name, found.first.source.operation) == ("w", "weight")
    assert "[1]: 6.0 instead of 5.0" in str(found)
    assert next(value for value in found if value.name == "a").source.module == "layer.1"


def test_values_that_one_of_both_lacks_are_counted():
    found = bisect_models(changed((" b = Tanh(a)", " other = Tanh(a)"), ("Add(b, b)", "Add(other, other)")), program())
    assert found.first is None
    assert [source.operation for source in found.absent] == ["Tanh"]
    assert "1 more values of the model to compare with are not in the model" in str(found)


def test_outputs_are_compared_by_their_names():
    swapped = changed(("(float[N, 2] y, float[N, 2] z)", "(float[N, 2] z, float[N, 2] y)"))
    assert bisect_models(swapped, program(), sizes=[{"N": 3}]).first is None


def test_fewer_bits_are_compared_with_the_tolerance_of_their_type():
    narrow = program(MODEL.replace("float[", "float16["))
    narrow.model.graph.initializers["w"].const_value = ir.tensor(np.array([3, 5], np.float16))
    found = bisect_models(narrow, program(), sizes=[{"N": 3}])
    assert found.first is None
    assert len(found) == 5
    assert max(value.error.largest for value in found) > 1e-5


def test_one_model_in_two_runtimes():
    class Off(Runtime):
        """Adds one to whatever Neg computes."""

        name = "off"

        def load(self, model):
            loaded, names = super().load(model), [value.name for value in model.graph.outputs]
            return lambda feeds: [
                array + np.float32(name == "z") for name, array in zip(names, loaded(feeds), strict=True)
            ]

    found = bisect_models(program(runtime=Off()), program(), sizes=[{"N": 1}])
    assert found.first.name == "z"


def test_other_inputs_and_outputs_and_symbols_are_refused():
    with pytest.raises(OptionError, match="only the one to compare with has the input 'x'"):
        bisect_models(changed(("x)", "v)"), ("(x,", "(v,")), program())
    with pytest.raises(OptionError, match="only the one to compare with has the output 'z'"):
        bisect_models(changed((", float[N, 2] z", "")), program())
    with pytest.raises(OptionError, match=r"the input 'x' is float32\[2\] and float32\[N, 2\]"):
        bisect_models(changed(("float[N, 2] x", "float[2] x")), program())
    with pytest.raises(SymbolError, match="no symbol 'T'"):
        bisect_models(program(), program(), sizes=[{"T": 1}])


@pytest.mark.parametrize("sizes", [[], {"N": 1}, [3], 3, "N"])
def test_sizes_are_a_mapping_for_each_run(sizes):
    with pytest.raises(OptionError, match="sizes needs a mapping from symbols to numbers for each run"):
        bisect_models(program(), program(), sizes=sizes)
