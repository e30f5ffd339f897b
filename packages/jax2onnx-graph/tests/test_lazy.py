"""Names that come at their first use."""

from __future__ import annotations

import sys
import types

import pytest
from jax2onnx_graph.lazy import lazy_names


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    package = types.ModuleType("lazy_package")
    monkeypatch.setitem(sys.modules, "lazy_package", package)
    homes = {"jax2onnx_graph.opsets": ("check_opset",), "jax2onnx_graph.facts": ("dims",)}
    monkeypatch.setattr(package, "__getattr__", lazy_names("lazy_package", homes)[0], raising=False)
    monkeypatch.setattr(package, "__dir__", lazy_names("lazy_package", homes)[1], raising=False)
    return package


def test_names_and_modules_come_at_their_first_use(package):
    from jax2onnx_graph import opsets
    from jax2onnx_graph.facts import dims

    assert "check_opset" not in vars(package)
    assert (package.check_opset, package.dims) == (opsets.check_opset, dims)
    assert vars(package)["check_opset"] is opsets.check_opset


def test_all_names_are_listed(package):
    assert {"check_opset", "dims", "__name__"} <= {*dir(package)}


def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="module 'lazy_package' has no attribute 'check_opsets'"):
        package.check_opsets  # noqa: B018
