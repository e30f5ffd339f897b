"""Options of the integration tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden", choices=["compare", "rewrite", "rewrite-variants"], default="compare",
        help="compare the golden graphs; rewrite those that all versions of JAX share; or rewrite those of this version",
    )  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The quick suite leaves out the whole models in double precision."""
    if config.getoption("--jax2onnx-quick"):
        items[:] = [item for item in items if not ("test_models.py" in item.nodeid and "[f64" in item.nodeid)]
