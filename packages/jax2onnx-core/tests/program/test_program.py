"""A program is made of a model, an interface and a runtime; what alters it returns another one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_core.plugins.errors import VerificationError
from jax2onnx_graph.metadata import ModelMetadata
from jax2onnx_runtime.runtimes import Runtime

WEIGHT = np.linspace(-1, 1, 32 * 8, dtype=np.float32).reshape(32, 8)


class CountingRuntime(Runtime):
    """Counts how often a model is loaded."""

    def __init__(self):
        self.loads = 0

    def load(self, model):
        self.loads += 1
        return super().load(model)


@pytest.fixture(scope="module")
def program():
    return to_onnx(lambda x: x @ WEIGHT, [("B", 32)])


@pytest.mark.parametrize("attribute", ["model", "interface", "runtime", "log", "target", "fn", "symbols", "verified"])
def test_nothing_of_a_program_is_assigned(program, attribute):
    with pytest.raises(AttributeError):
        setattr(program, attribute, None)


@pytest.mark.parametrize(
    "alter",
    [
        lambda program: program.specialize(B=2),
        lambda program: program.with_metadata(ModelMetadata(name="other")),
        lambda program: program.with_model(program.model.clone()),
        lambda program: program.quantize("int8"),
    ],
    ids=["specialize", "with_metadata", "with_model", "quantize"],
)
def test_what_alters_a_program_returns_another_one(program, alter):
    before = program.model_proto.SerializeToString(deterministic=True)
    other = alter(program)
    assert other is not program
    assert other.model is not program.model
    assert other(np.ones((2, 32), np.float32)).shape == (2, 8)
    assert program.model_proto.SerializeToString(deterministic=True) == before


def test_a_model_is_loaded_once():
    runtime = CountingRuntime()
    program = dataclasses.replace(to_onnx(lambda x: x + 1, [(3,)], target="onnx"), runtime=runtime)
    for _ in range(2):
        np.testing.assert_array_equal(program(np.zeros(3, np.float32)), np.ones(3))
    assert runtime.loads == 1


def test_another_model_is_loaded_anew():
    program = to_onnx(lambda x: x + 1, [(3,)])
    program(np.zeros(3, np.float32))
    other = program.with_model(to_onnx(lambda x: x + 2, [(3,)]).model)
    np.testing.assert_array_equal(other(np.zeros(3, np.float32)), np.full(3, 2))


def test_another_model_is_compared_with_the_function():
    program = to_onnx(lambda x: x + 1, [(3,)])
    program.verify()
    other = program.with_model(to_onnx(lambda x: x + 2, [(3,)]).model)
    assert other.verified == []
    with pytest.raises(VerificationError):
        other.verify()
    assert [error.is_close for error in program.verified] == [True]


def test_a_quantised_program_can_take_still_fewer_bits(program):
    twice = program.quantize("int8").quantize("float16")
    assert twice(np.ones((2, 32), np.float32)).shape == (2, 8)


def test_metadata_and_specialization_go_together():
    program = to_onnx(lambda x: jnp.tanh(x), [("B",)]).with_metadata(ModelMetadata(name="named"))
    assert program.specialize(B=3).model.graph.name == program.model.graph.name


def test_the_exported_function_is_at_hand(program):
    def fn(x):
        return jax.nn.relu(x)

    assert to_onnx(fn, [(3,)]).fn is fn
