"""The lines that nodes of layers remember: those of the user's model, where it has some."""

from __future__ import annotations

from flax import nnx
from jax2onnx_core import to_onnx


class Net(nnx.Module):
    def __init__(self):
        self.layers = nnx.List([nnx.Linear(4, 4, rngs=nnx.Rngs(i)) for i in range(2)])

    def __call__(self, x):
        for layer in self.layers:
            x = nnx.gelu(layer(x))
        return x


def lines(model):
    program = to_onnx(model, [("B", 4)], provenance=True)
    return {node.metadata_props["source"].rpartition("/")[2] for node in program.model.graph}


def test_a_layer_has_the_line_that_calls_it():
    line = Net.__call__.__code__.co_firstlineno + 2
    assert lines(Net()) == {f"test_provenance.py:{line} (Net.__call__)"}


def test_a_layer_that_nobody_calls_has_its_own():
    for line in lines(nnx.Linear(4, 4, rngs=nnx.Rngs(0))):
        assert line.startswith("linear.py:")
        assert line.endswith("(Linear.__call__)")
