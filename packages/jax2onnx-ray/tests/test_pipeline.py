"""Stages as actors that are all in this process, whose methods run at once."""

import importlib
import sys
import types

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError, RuntimeInputError, TargetError
from jax2onnx_graph.metadata import StatePair, write_states
from jax2onnx_runtime.runtimes import reference_runtime
from jax2onnx_runtime.stages import Stages

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
agraph (float[2] x, float[N] z, float[2] s) => (float[2] y, float[2] t) <float[2] h, float[2] w = {1, 2}> {
  ["in/Add"] t = Add (s, x)
  ["in/Neg"] h = Neg (t)
  ["out/Mul"] y = Mul (h, z)
}
"""


class Actor:
    """An object whose methods have `remote`."""

    def __init__(self, made):
        for name in ("step", "shapes", "end"):
            setattr(self, name, types.SimpleNamespace(remote=getattr(made, name)))


def remote(kind):
    return types.SimpleNamespace(
        options=lambda **_: types.SimpleNamespace(remote=lambda *args, **kwargs: Actor(kind(*args, **kwargs)))
    )


@pytest.fixture
def pipeline(monkeypatch):
    """Makes a pipeline of the model in two stages, with options."""
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "ray", types.SimpleNamespace(remote=remote, get=lambda found: found))
        patched.delitem(sys.modules, "jax2onnx_ray.pipeline", raising=False)
        module = importlib.import_module("jax2onnx_ray.pipeline")
        model = ir.from_onnx_text(MODEL)
        write_states(model, [StatePair("s", "t")])
        stages = Stages.split(model, reference_runtime, at=["out"])
        yield lambda **options: module.Pipeline(stages, threads=None, **options)
    sys.modules.pop("jax2onnx_ray.pipeline", None)


def feeds(z=1.0, length=2):
    return {"x": np.ones(2, np.float32), "z": np.full(length, z, np.float32)}


def test_streams_have_states_of_their_own(pipeline):
    line = pipeline()
    found = [line.step(feeds(), stream)["y"].tolist() for stream in ("a", "b", "a")]
    assert found == [[-1, -1], [-1, -1], [-2, -2]]
    assert line.state_shapes("a") == [{"s": (2,)}, {}]
    line.end("a")
    assert line.step(feeds(2.0), "a")["y"].tolist() == [-2, -2]


def test_first_values_are_those_that_are_given(pipeline):
    line = pipeline(initial={"s": np.full(2, 5, np.float32)})
    assert line.step(feeds())["y"].tolist() == [-6, -6]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limits": {"S": 3}}, "limits: no axis of a state that it can be about is 'S'"),
        ({"initial": {"h": np.zeros(2)}}, "initial: there is no state 'h'; the states are s"),
    ],
)
def test_options_that_fit_no_stage_are_refused(pipeline, options, says):
    with pytest.raises(OptionError, match=says):
        pipeline(**options)


@pytest.mark.parametrize("names", ["x", "xzs", "xw"])
def test_a_step_takes_the_inputs_that_are_no_states(pipeline, names):
    with pytest.raises(RuntimeInputError, match="The inputs are x, z, but arrays were given for"):
        pipeline().submit({name: np.ones(2, np.float32) for name in names})


def test_a_stream_of_which_a_later_stage_refused_a_step_is_at_its_end(pipeline):
    line = pipeline()
    line.step(feeds(), "b")
    with pytest.raises(TargetError, match="cannot run the model"):
        line.step(feeds(length=3), "a")
    with pytest.raises(RuntimeInputError, match=r"A step of the stream 'a' failed.*end\('a'\) forgets them"):
        line.step(feeds(), "a")
    assert line.step(feeds(), "b")["y"].tolist() == [-2, -2]
    line.end("a")
    assert line.step(feeds(), "a")["y"].tolist() == [-1, -1]


def test_a_step_that_the_first_stage_refuses_moves_nothing(pipeline):
    line = pipeline()
    line.step(feeds())
    with pytest.raises(RuntimeInputError, match="'x' has size 3 on axis 0"):
        line.step({**feeds(), "x": np.ones(3, np.float32)})
    assert line.step(feeds())["y"].tolist() == [-2, -2]
