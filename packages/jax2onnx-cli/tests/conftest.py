"""A directory with files as users have them, and the command line in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jax2onnx_cli.app import main

MODELS = """
import dataclasses

import jax.numpy as jnp


@dataclasses.dataclass
class Scale:
    factor: float

    def __call__(self, x):
        return x * self.factor


scale = Scale(2.0)
number = 3


def double(x):
    return 2 * x


def not_finite(x):
    return x * jnp.nan


def tail(x):
    return x[1:] + x.shape[0]


def drive(batch, *, gain):
    return {"steering": jnp.tanh(batch["speed"] * gain), "stop": batch["distance"] < 1.0}


def step(cache, x):
    return x.sum(), cache + x


def pick(table, index):
    return table[index]


def build():
    return Scale(3.0)


def build_with_inputs(factor=4.0):
    return Scale(factor), [("B", 3)]


def dense(x):
    return jnp.tanh(x @ jnp.linspace(-1, 1, 64 * 64).reshape(64, 64))


def turned(x):
    return dense(x).T


def counting():
    from flax import nnx

    class Counting(nnx.Module):
        def __init__(self):
            self.count = nnx.Cache(jnp.zeros(3))

        def __call__(self, x):
            self.count[...] = self.count[...] + x
            return self.count[...] * 2

    return Counting()


def broken():
    return 1 / 0


def fails(x):
    return jnp.ones(3) + jnp.ones(4)
"""


class Outcome(NamedTuple):
    """The outcome of a command.

    Attributes:
      code: its exit code.
      out: its standard output.
      err: its standard error.
    """

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The JSON that it printed."""
        return json.loads(self.out)


Jax2Onnx = Callable[..., Outcome]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with `models.py` in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "models", raising=False)
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path


@pytest.fixture
def jax2onnx(directory: Path, capfd: pytest.CaptureFixture[str]) -> Jax2Onnx:
    """`jax2onnx("export", "models.py:double")` runs a command line in the directory."""

    def run(*arguments: str) -> Outcome:
        code = main(arguments)
        return Outcome(code, *capfd.readouterr())

    return run


@pytest.fixture
def refused(jax2onnx: Jax2Onnx) -> Callable[..., str]:
    """`refused("export", …)`: the one line with which bad input is refused."""

    def run(*arguments: str) -> str:
        outcome = jax2onnx(*arguments)
        assert (outcome.code, outcome.out) == (2, "")
        (line,) = outcome.err.splitlines()
        assert line.startswith("error: ")
        return line.removeprefix("error: ")

    return run
