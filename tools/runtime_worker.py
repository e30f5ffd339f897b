"""Runs models for `tools/targets.py` in the environment of another runtime: `runtime_worker.py ADDRESS MODULE`.

MODULE has the function `load`. Reads serialised models with named arrays, and the seconds in which they are run again and again; answers each with
its outputs, the milliseconds of a run, and the text of an error if there is one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Client

__all__ = ["milliseconds"]


def milliseconds(run: Callable[[], object], seconds: float) -> float:
    """The time of a run, at best: in that one of several rounds of 20 ms in which other processes disturbed least."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start, runs = time.perf_counter(), 0
        while time.perf_counter() < start + 0.02:
            run()
            runs += 1
        best = min(best, (time.perf_counter() - start) / runs)
    return 1000 * best


def main() -> None:
    load = import_module(sys.argv[2]).load
    with Client(sys.argv[1], authkey=os.environ["RUNTIME_WORKER_KEY"].encode()) as connection:
        while True:
            try:
                model, feeds, seconds = connection.recv()
            except EOFError:
                return
            try:
                run = load(model)
                connection.send((run(feeds), milliseconds(lambda: run(feeds), seconds), None))  # noqa: B023  (it is called at once)
            except Exception as error:  # noqa: BLE001  (of any runtime, for the table)
                connection.send(([], 0.0, f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main()
