"""The command that trains: a folder, examples, a checkpoint."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax2onnx_training import to_training


@pytest.fixture
def folder(directory):
    """A training of a line in `line/`, and its examples in `line.npz`."""

    def loss(params, x, y):
        return jnp.mean((x * params["slope"] - y) ** 2)

    to_training({"slope": jnp.zeros(())}, loss, optax.sgd(0.1), [("batch",), ("batch",)]).save(directory / "line")
    x = np.linspace(-1, 1, 12).astype(np.float32)
    np.savez(directory / "line.npz", x=x, y=3 * x)
    return "line"


def test_it_trains_and_goes_on_from_its_checkpoint(jax2onnx, folder, directory):
    options = (folder, "--data", "line.npz", "--batch-size", "4", "--checkpoint", "states.npz")
    found = jax2onnx("train", *options, "--epochs", "2")
    assert found.code == 0
    assert found.out.splitlines()[-2:] == ["6 steps", "states in states.npz"]
    found = jax2onnx("train", *options, "--epochs", "20", "--json")
    result = json.loads(found.out)
    assert result["steps"] == 60
    assert [epoch["epoch"] for epoch in result["epochs"]] == [*range(3, 21)]
    assert abs(float(np.load(directory / "states.npz")["parameters.slope"]) - 3) < 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--data", "line.npz", "--batch-size", "13"), "There are 12 examples, fewer than a batch of 13"),
        (("--data", "bad.npz"), "it is no .npz file of arrays"),
    ],
)
def test_what_is_refused(jax2onnx, folder, directory, options, message):
    (directory / "bad.npz").write_text("bad")
    found = jax2onnx("train", folder, *options)
    assert found.code != 0
    assert message in found.err
