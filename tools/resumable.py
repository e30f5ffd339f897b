"""Many jobs in worker processes, whose results are kept in a file as they come: an interrupted run goes on where it was."""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from queue import SimpleQueue
from typing import Any

__all__ = ["DeadWorkersError", "Entry", "command_line", "print_failures", "run"]

CHUNK = 25

#: The result of a job, which is called `entry["name"]`.
Entry = dict[str, Any]

#: Runs a few jobs in a process.
Work = Callable[[list[str]], list[Entry]]


def command_line(description: str | None) -> argparse.ArgumentParser:
    """The options of a tool that runs many jobs, each of which passes or not."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--filter", default="", help="only jobs whose name contains this text")
    parser.add_argument("--every", type=int, default=1, help="only every Nth job")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--again", action="store_true", help="run again what did not pass")
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--failures", action="store_true", help="print each failure")
    return parser


def print_failures(entries: Iterable[Entry]) -> None:
    """Print the jobs that did not pass, with the reasons."""
    for entry in entries:
        if entry["status"] in ("wrong", "error"):
            print(f"{entry['status']:5} {entry['name']}\n      {entry['detail']}")


def remembered(file: Path) -> dict[str, Entry]:
    """Job → its latest result."""
    if not file.exists():
        return {}
    return {entry["name"]: entry for entry in map(json.loads, file.read_text().splitlines())}


class DeadWorkersError(Exception):
    """Some jobs ended their processes; the results of all others are kept."""


def run(
    jobs: Sequence[str], work: Work, file: Path, workers: int, *, fresh: bool = False, again: bool = False,
    dead: Callable[[str], Entry] | None = None,
) -> dict[str, Entry]:  # fmt: skip
    """Run jobs that have no result yet in worker processes, and append each result to a file as it comes.

    Args:
      jobs: the names of the jobs.
      work: runs a few jobs and gives their results.
      file: the file, a line of JSON per result.
      workers: the number of processes.
      fresh: whether earlier results are forgotten.
      again: whether what did not pass is run again.
      dead: gives the result of a job that ends its process.

    Returns:
      All results in the file by the names of their jobs.

    Raises:
      DeadWorkersError: jobs ended their processes, and `dead` is None.
    """
    file.parent.mkdir(exist_ok=True)
    if fresh:
        file.unlink(missing_ok=True)
    known = remembered(file)
    new = [job for job in jobs if job not in known or (again and known[job]["status"] != "pass")]
    chunks = [new[i : i + CHUNK] for i in range(0, len(new), CHUNK)]
    ended, done = list[str](), 0
    free = SimpleQueue[_Worker]()
    with contextlib.ExitStack() as opened, file.open("a") as results:
        for _ in range(workers):
            free.put(opened.enter_context(contextlib.closing(_Worker(work))))
        pool = opened.enter_context(ThreadPoolExecutor(workers))
        opened.callback(pool.shutdown, cancel_futures=True)
        for future in as_completed([pool.submit(_run_in, free, chunk) for chunk in chunks]):
            entries, killers = future.result()
            ended += killers
            for entry in [*entries, *(map(dead, killers) if dead else ())]:
                results.write(json.dumps(entry) + "\n")
            results.flush()
            done += len(entries) + len(killers)
            print(f"\r{done}/{len(new)}", end="", flush=True)
    print()
    if ended and dead is None:
        raise DeadWorkersError(f"These jobs ended their processes: {', '.join(ended)}.")
    return remembered(file)


class _Worker:
    """A process that runs jobs; another takes its place where it died, and now and then, which gives back what compilers keep."""

    def __init__(self, work: Work) -> None:
        self._work, self._pool = work, self._start()

    def run(self, names: list[str]) -> tuple[list[Entry], list[str]]:
        """The results of some jobs, and those that end a process in which nothing ran before them."""
        entries = self._results(names)
        if entries is not None:
            return entries, []
        entries, killers = [], []
        for name in names:
            # What one job writes where it should not may end a later one.
            found = self._results([name])
            if found is None:
                found = self._results([name])
            if found is None:
                killers.append(name)
            else:
                entries += found
        return entries, killers

    def _results(self, names: list[str]) -> list[Entry] | None:
        """The results of jobs; None where they end the process, in whose place there is another then."""
        try:
            return self._pool.submit(self._work, names).result()
        except BrokenProcessPool:
            self._pool = self._start()
            return None

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()

    @staticmethod
    def _start() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=20)


def _run_in(free: SimpleQueue[_Worker], names: list[str]) -> tuple[list[Entry], list[str]]:
    """The results of some jobs in a worker that does nothing else meanwhile."""
    worker = free.get()
    try:
        return worker.run(names)
    finally:
        free.put(worker)
