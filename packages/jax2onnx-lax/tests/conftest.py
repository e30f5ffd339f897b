"""Lets the tests of this package share the modules beside them, and says how long its property tests look."""

from __future__ import annotations

import pathlib
import sys

import hypothesis
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def pytest_configure(config: pytest.Config) -> None:
    """Property tests draw the same examples each time, fewer of them in the quick suite."""
    count = 20 if config.getoption("--jax2onnx-quick") else 120
    hypothesis.settings.register_profile("jax2onnx", max_examples=count, deadline=None, derandomize=True)
    hypothesis.settings.load_profile("jax2onnx")
