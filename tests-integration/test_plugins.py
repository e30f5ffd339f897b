"""Rules for every plugin package, the third-party example too: cases have expectations, and protobuf is not imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from jax2onnx_testing.collection import CollectedCase, find_cases, of_module
from jax2onnx_testing.variants import Variant, build, main_precision

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "tests-integration" / "third-party" / "src"
FIRST_PARTY = ["equinox", "functions", "haiku", "keras", "lax", "linen", "nnx"]
PACKAGES = {
    **{f"jax2onnx_{name}": ROOT / "packages" / f"jax2onnx-{name}" / "src" / f"jax2onnx_{name}" for name in FIRST_PARTY},
    "jax2onnx_ripple": EXAMPLE / "jax2onnx_ripple",
}

# So much of a package's cases says what the graph is.
FLOOR = 0.8
# onnx_ir converts to protobuf by these names; `onnx` itself is protobuf but for what it knows of operators.
CONVERSIONS = {"SerializeToString", "from_proto", "serde", "to_proto"}
PROTOBUF = ("onnx", "google.protobuf")


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return request.param


def cases_of(package: str) -> list[CollectedCase]:
    """The cases of a package; the example is not installed."""
    if package == "jax2onnx_ripple":
        return list(of_module("jax2onnx_ripple.layers_cases"))
    found = find_cases([package.removeprefix("jax2onnx_")])
    return [one for one in found if isinstance(one, CollectedCase)]


def test_most_cases_expect_a_graph(package: str) -> None:
    cases = cases_of(package)
    without = [found.id for found in cases if not found.case.expectations]
    assert len(without) <= (1 - FLOOR) * len(cases), f"{len(without)} of {len(cases)} cases have no `expect`: {without}"


def is_protobuf(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in PROTOBUF)


def uses(file: Path) -> Iterator[str]:
    """The places of a module, inside functions too, that import protobuf or convert to it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if is_protobuf(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name for name in found if is_protobuf(name) or name.rpartition(".")[2] in CONVERSIONS]
        elif isinstance(node, ast.Attribute):
            names = [node.attr] if node.attr in CONVERSIONS else []
        else:
            continue
        yield from (f"{file.name}:{node.lineno}: {name}" for name in names)


def test_no_source_names_protobuf(package: str) -> None:
    files = sorted(PACKAGES[package].rglob("*.py"))
    assert files
    assert [use for file in files for use in uses(file)] == []


def held(package: str) -> Iterator[str]:
    """The names of protobuf's modules, classes and messages in the modules of a package that are loaded."""
    for name, module in sorted(sys.modules.items()):
        if name == package or name.startswith(f"{package}."):
            yield from (f"{name}.{key}" for key, value in vars(module).items() if is_protobuf(_origin(value)))


def _origin(value: object) -> str:
    """The module that a value is, or that defines it or its class."""
    if isinstance(value, ModuleType):
        return value.__name__
    return value.__module__ if isinstance(value, type | FunctionType) else type(value).__module__


def test_no_module_holds_protobuf_after_an_export(package: str) -> None:
    found = cases_of(package)[0]
    build(Variant(found, main_precision(found.case), symbolic=False)).export()
    assert list(held(package)) == []
    assert f"{package}.plugin" in sys.modules or package == "jax2onnx_ripple"


def test_protobuf_is_found_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "plugin.py"
    file.write_text(
        "def f(model):\n    from onnx import ModelProto\n    import google.protobuf.message\n    ir.to_proto(model)\n"
    )
    places = ["plugin.py:2: onnx.ModelProto", "plugin.py:3: google.protobuf.message", "plugin.py:4: to_proto"]
    assert list(uses(file)) == places
    assert "jax2onnx_graph.saving.reading.DecodeError" in list(held("jax2onnx_graph"))
