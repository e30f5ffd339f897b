"""Options of the integration tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden", choices=["compare", "rewrite", "rewrite-variants"], default="compare",
        help="compare the golden graphs; rewrite those that all versions of JAX share; or rewrite those of this version",
    )  # fmt: skip
