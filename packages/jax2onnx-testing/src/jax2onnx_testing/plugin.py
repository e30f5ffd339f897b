"""The pytest plugin: the cases of the installed jax2onnx plugins as tests.

* `pytest --pyargs jax2onnx_testing.suite` runs all of them, and the tests about the plugins as a whole.
* `pytest path/to/layers_cases.py` runs the cases of one module.
* `@pytest.mark.sampled(most)` marks a test of whose parameters `--jax2onnx-quick` runs so many; the setting `jax2onnx_sampled` is for
  tests without the mark.
* `--target NAME` exports the cases for this target and runs them in its runtime; what it refuses, and its known limitations, are
  expected failures.
* `--jax2onnx-dist NAME` (repeatable), `--jax2onnx-precision f32|f64` and `--jax2onnx-quick` restrict what is run.
"""

from __future__ import annotations

import pathlib
import sys
import zlib
from collections.abc import Iterator, Sequence

import pytest

__all__ = [
    "CaseFile",
    "CaseItem",
    "pytest_addoption",
    "pytest_collect_file",
    "pytest_collection_modifyitems",
    "pytest_configure",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this plugin."""
    group = parser.getgroup("jax2onnx", "cases of jax2onnx plugins")
    group.addoption(
        "--jax2onnx-dist", action="append", default=[], metavar="NAME",
        help="only the cases of this distribution (jax2onnx-lax, or in short lax); may be repeated",
    )  # fmt: skip
    group.addoption(
        "--jax2onnx-precision", action="append", default=[], choices=["f32", "f64"],
        help="only this precision; both by default",
    )  # fmt: skip
    group.addoption(
        "--target", metavar="NAME", help="export for this target, and run in its runtime (the default target)"
    )
    parser.addini("jax2onnx_sampled", "the most parameters of a test that the quick suite runs (all)", default="")
    group.addoption(
        "--jax2onnx-quick", action="store_true",
        help="fewer tests: one variant of each case, a twelfth of them in double precision, an eighth exported twice, some transformations",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """The marker of this plugin."""
    config.addinivalue_line(
        "markers", "sampled(most): the quick suite runs so many of the parameters of the test; None for all"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that the quick suite does not sample."""
    if not config.getoption("--jax2onnx-quick"):
        return
    default = config.getini("jax2onnx_sampled")
    by_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {id(item) for tests in by_function.values() for item in _sample(tests, int(default) if default else None)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def _sample(tests: Sequence[pytest.Item], most: int | None) -> Sequence[pytest.Item]:
    """Some tests of one function, at random, but the same each time."""
    marker = tests[0].get_closest_marker("sampled")
    most = most if marker is None else marker.args[0]
    return tests if most is None else sorted(tests, key=lambda test: zlib.crc32(test.nodeid.encode()))[:most]


def pytest_collect_file(file_path: pathlib.Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a module of cases that is named on the command line as a file of tests; `test_cases.py` is one already."""
    name = file_path.name
    if name.endswith("_cases.py") and not name.startswith("test_") and parent.session.isinitpath(file_path):
        return CaseFile.from_parent(parent, path=file_path)
    return None


class CaseFile(pytest.File):
    """A module with `cases`."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item per variant of each case."""
        from jax2onnx_testing._transforms import Transformed, transformations
        from jax2onnx_testing.collection import of_module
        from jax2onnx_testing.targets import target_of_tests
        from jax2onnx_testing.variants import PRECISIONS, Variant, variants_of

        precisions = self.config.getoption("--jax2onnx-precision") or PRECISIONS
        target = target_of_tests(self.config.getoption("--target"))
        cases = of_module(_import_name(self.path))
        for found in cases:
            tests: list[Variant | Transformed] = [
                *variants_of(found, precisions, target),
                *transformations([found], target=target),
            ]
            for test in tests:
                yield CaseItem.from_parent(self, name=test.id.partition("::")[2], test=test)


class CaseItem(pytest.Item):
    """One variant of a case, or a case under a transformation."""

    def __init__(self, *, test, **kwargs) -> None:  # type: ignore[no-untyped-def]
        super().__init__(**kwargs)
        self.test = test

    def runtest(self) -> None:
        """Check the case; optional forms that fail raise their errors."""
        from jax2onnx_graph.optional_forms import failures_raised

        from jax2onnx_testing.suite import run_test

        with failures_raised():
            run_test(self.test, quick=self.config.getoption("--jax2onnx-quick"))

    def repr_failure(self, excinfo, style=None):  # type: ignore[no-untyped-def]
        """Failed checks explain themselves; other errors come with their traceback."""
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[pathlib.Path, None, str]:
        """The file of the case, and its name."""
        return self.path, None, self.name


def _import_name(path: pathlib.Path) -> str:
    """The name under which the file is importable: it is relative to the longest entry of `sys.path` that holds it."""
    roots = [root for entry in sys.path if entry and path.is_relative_to(root := pathlib.Path(entry).resolve())]
    if not roots:
        raise pytest.UsageError(f"{path} is not importable: no entry of sys.path holds it.")
    root = max(roots, key=lambda r: len(r.parts))
    return ".".join(path.relative_to(root).with_suffix("").parts)
