"""Parts of the rules of loops that only better the graph decline where they fail, and are named in the report."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax2onnx_core import errors, to_onnx
from jax2onnx_graph import optional_forms
from jax2onnx_lax.control_flow import scans, while_loops
from jax2onnx_lax.control_flow._loop_bodies import LoopBody


@pytest.fixture
def _as_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user's process is, in which no test runs."""
    monkeypatch.setattr(optional_forms, "_SETTING", optional_forms._Setting())


def _fails(*_: object) -> None:
    raise AssertionError


def _scan(x: jax.Array) -> jax.Array:
    return lax.scan(lambda state, row: (jnp.sin(state) + row @ jnp.ones((3, 3)), None), x[0], x)[0]


def _while(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda state: state[0] < 5, lambda state: (state[0] + 1, jnp.sin(state[1])), (0, x))[1]


_PARTS = {
    "the division of the body": (_scan, scans, "hoist"),
    "the analysis of the carry": (_while, LoopBody, "analyse"),
    "the analysis of the condition": (_while, while_loops, "_counter_and_bound"),
}


@pytest.mark.usefixtures("_as_users")
@pytest.mark.parametrize("part", _PARTS)
def test_a_part_that_fails_leaves_the_plain_loop(part, monkeypatch):
    function, owner, name = _PARTS[part]
    monkeypatch.setattr(owner, name, _fails)
    program = to_onnx(function, [("n", 3)])
    assert f"{part} failed: AssertionError" in program.report()
    program.verify()


@pytest.mark.parametrize("part", _PARTS)
def test_a_part_that_fails_raises_in_tests(part, monkeypatch):
    function, owner, name = _PARTS[part]
    monkeypatch.setattr(owner, name, _fails)
    with pytest.raises(errors.Jax2OnnxError):
        to_onnx(function, [("n", 3)])
