"""Values of options that are none: each is an error that names the option, and nothing is taken silently."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx

X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": ["web"]}, "target is the name of one target"),
        ({"target": "onnxruntime=="}, "names no version"),
        ({"kwargs": [1]}, "kwargs maps"),
        ({"constraints": 3}, "constraints is a list of texts"),
        ({"output_names": 3}, "output_names is a list of names"),
        ({"assume": ["infinite"]}, "there is no assumption 'infinite'; there are: 'finite'"),
        ({"assume": "finite"}, "assume is a list of assumptions"),
        ({"x64": "yes"}, "x64 is True or False"),
        ({"provenance": 1}, "provenance is True or False"),
        ({"inline_functions": "no"}, "inline_functions is True or False"),
    ],
)
def test_options_of_an_export(options, message):
    with pytest.raises(errors.OptionError, match=message):
        to_onnx(jnp.tanh, [(3,)], **options)


def test_no_constraints_may_be_none():
    assert to_onnx(jnp.tanh, [("B",)], constraints=None).constraints == []


@pytest.fixture(scope="module")
def program():
    return to_onnx(jnp.tanh, [("B", 3)])


@pytest.fixture(scope="module")
def stateful():
    return to_onnx(
        lambda cache, x: (jnp.concatenate([cache, x]), x.sum()), [("S", 3), ("T", 3)], states={0: 0}, constraints=["S >= 0"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.save("m.onnx", external_data="weights"), "external_data is True or False"),
        (lambda p: p.save("m.onnx", threshold=-1), "threshold is a whole number"),
        (lambda p: p.verify(rtol=-1), "rtol is a number from 0 on"),
        (lambda p: p.verify(rtol="a"), "rtol is a number from 0 on"),
        (lambda p: p.verify(atol=float("nan")), "atol is a number from 0 on"),
        (lambda p: p.verify(inputs=3), "inputs is a list of arguments"),
        (lambda p: p.verify(ranges=3), "ranges maps names of inputs"),
        (lambda p: p.verify(seed=-1), "seed is a whole number"),
        (lambda p: p.bisect(rtol=-1), "rtol is a number from 0 on"),
        (lambda p: p.quantize("int8", exclude=3), "exclude is a list of patterns"),
        (lambda p: p.with_metadata(3), "with_metadata takes a ModelMetadata"),
    ],
)
def test_options_of_a_program(program, call, message):
    with pytest.raises(errors.OptionError, match=message):
        call(program)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial": 3}, "initial maps arguments"),
        ({"sizes": 3}, "sizes maps symbols"),
        ({"providers": 3}, "providers is a list"),
        ({"window": {"S": 2}, "limits": {"S": 3}}, "has a window and a limit"),
    ],
)
def test_options_of_a_session(stateful, options, message):
    with pytest.raises(errors.OptionError, match=message):
        stateful.session(**options)


@pytest.mark.parametrize("content", [b"garbage", None])
def test_a_file_without_states(stateful, tmp_path, content):
    path = tmp_path / "states.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(errors.RuntimeInputError, match="holds no states that a session has saved"):
        stateful.session().state.load(path)


def test_a_program_under_a_transformation(program):
    with pytest.raises(errors.RuntimeInputError, match="a program runs outside of jax"):
        jax.jit(program)(X)


def test_a_masked_array(program):
    with pytest.raises(errors.RuntimeInputError, match="masked array"):
        program(np.ma.masked_array(X, mask=X > 0))
