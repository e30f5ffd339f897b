"""Timing several ways to compute the same, side by side in one process."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import onnx
import onnxruntime as ort

__all__ = ["in_turns", "on_threads"]


def in_turns(
    ways: Sequence[Callable[[], object]], *, rounds: int, seconds: float = 0.0,
    clock: Callable[[], float] = time.process_time,
) -> list[list[float]]:  # fmt: skip
    """Run every way once to warm up, then all of them in turns; by the processor's time, on one core.

    Args:
      ways: what is run.
      rounds: the least number of timed runs of each.
      seconds: the least time that all of them are run for.
      clock: processor time, which other processes change little, or `time.perf_counter`.

    Returns:
      The seconds of each run, for each way.
    """
    for way in ways:
        way()
    times: list[list[float]] = [[] for _ in ways]
    end = time.monotonic() + seconds
    with _on_one_core() if clock is time.process_time else contextlib.nullcontext():
        while len(times[0]) < rounds or time.monotonic() < end:
            for way, own in zip(ways, times, strict=True):
                start = clock()
                way()
                own.append(clock() - start)
    return times


@contextlib.contextmanager
def _on_one_core() -> Iterator[None]:
    """Inside, all threads of this process run on one core.

    A thread that runs on another core is counted late: JAX computes on threads of its own, and seemed to take a tenth of its time.
    """
    threads = [int(path.name) for path in Path("/proc/self/task").iterdir()]
    cores = {thread: os.sched_getaffinity(thread) for thread in threads}
    for thread in threads:
        os.sched_setaffinity(thread, {min(cores[thread])})
    try:
        yield
    finally:
        for thread in threads:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.sched_setaffinity(thread, cores[thread])


def on_threads(model: onnx.ModelProto | Path, threads: int = 1) -> ort.InferenceSession:
    """Load a model, or the file of one, in ONNX Runtime on the CPU with a number of threads that do not spin."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the next way runs at once
    loaded = model if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(loaded, options, providers=["CPUExecutionProvider"])
