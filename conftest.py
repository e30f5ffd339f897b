"""Settings that the tests of all packages share."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.util
import os
from typing import Any

import pytest

# Eight devices of the CPU, for programs over meshes; JAX reads this when it looks for devices.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8".strip()

# What is imported and what JAX caches stays, and looking for garbage in it again and again takes a tenth of the time.
gc.set_threshold(20_000, 20, 20)


def pytest_configure(config: pytest.Config) -> None:
    """Optional forms that fail raise their errors; property tests draw the same examples each time, and may take any time.

    The tests of the wheels run where neither hypothesis, nor the testing kit, nor any package of this repository is installed.
    """
    if importlib.util.find_spec("jax2onnx_graph") is not None:
        from jax2onnx_graph.optional_forms import failures_raised

        stack = contextlib.ExitStack()
        stack.enter_context(failures_raised())
        config.add_cleanup(stack.close)
    if importlib.util.find_spec("hypothesis") is not None:
        import hypothesis

        count = 7 if config.getoption("--jax2onnx-quick", default=False) else 120
        hypothesis.settings.register_profile("jax2onnx", max_examples=count, deadline=None, derandomize=True)
        hypothesis.settings.load_profile("jax2onnx")
    if importlib.util.find_spec("onnxruntime") is not None:
        patch = pytest.MonkeyPatch()
        config.add_cleanup(patch.undo)
        _give_sessions_one_thread(patch)


def _give_sessions_one_thread(patch: pytest.MonkeyPatch) -> None:
    """Let a session of ONNX Runtime have one thread, unless it is made with a number of them.

    The cores are busy with other tests, and threads that wait for work take time from these: a fourth of all time.
    """
    import onnxruntime

    made = onnxruntime.InferenceSession.__init__

    @functools.wraps(made)
    def on_one_thread(session: Any, model: Any, options: Any = None, *args: Any, **kwargs: Any) -> None:
        options = options or kwargs.pop("sess_options", None) or onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.intra_op_num_threads or 1
        made(session, model, options, *args, **kwargs)

    patch.setattr(onnxruntime.InferenceSession, "__init__", on_one_thread)


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was imported and collected, which stays until the end."""
    gc.freeze()
