"""Settings that the tests of all packages share; where hypothesis or the testing kit is not installed, their tests are not run either."""

from __future__ import annotations

import gc
import importlib.util
import os

import pytest

# Eight devices of the CPU, for programs over meshes; JAX reads this when it looks for devices.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8".strip()

# What is imported and what JAX caches stays, and looking for garbage in it again and again takes a tenth of the time.
gc.set_threshold(20_000, 20, 20)


def pytest_configure(config: pytest.Config) -> None:
    """Property tests draw the same examples each time, fewer of them in the quick suite, and may take any time."""
    if importlib.util.find_spec("hypothesis") is None:
        return
    import hypothesis

    count = 20 if config.getoption("--jax2onnx-quick", default=False) else 120
    hypothesis.settings.register_profile("jax2onnx", max_examples=count, deadline=None, derandomize=True)
    hypothesis.settings.load_profile("jax2onnx")


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was imported and collected, which stays until the end."""
    gc.freeze()
