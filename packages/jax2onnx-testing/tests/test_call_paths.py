"""A composite has to see the calls of its function by whichever way a program holds it."""

from __future__ import annotations

import dataclasses

import pytest
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_core.plugins.rules import CompositeSpec
from jax2onnx_testing import _call_paths
from jax2onnx_testing._call_paths import check_reached
from jax2onnx_testing._transforms import NotApplicableError
from jax2onnx_testing.errors import CheckFailedError


@pytest.fixture
def spec() -> CompositeSpec:
    return next(one for one in installed_plugins().registry.composites if one.claimed.endswith(":gelu"))


def test_every_way_is_seen(spec):
    check_reached(spec)


def test_a_way_that_is_not_seen_is_named(spec, monkeypatch):
    ways = {"alias": lambda fn: fn, "copy": lambda fn: lambda x: x, "nothing": lambda fn: lambda x: -x}
    monkeypatch.setattr(_call_paths, "CALL_PATHS", ways)
    with pytest.raises(CheckFailedError, match=r"A call of .*:gelu is not seen by copy, nothing\."):
        check_reached(spec)


def test_a_library_that_is_not_installed_has_no_calls(spec):
    with pytest.raises(NotApplicableError, match="no_such_library is not installed"):
        check_reached(dataclasses.replace(spec, claimed="no_such_library:gelu"))
