"""Many jobs in worker processes, whose results are kept in a file as they come: an interrupted run goes on where it was."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Entry", "command_line", "print_failures", "run"]

CHUNK = 25

#: The result of a job, which is called `entry["name"]`.
Entry = dict[str, Any]


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


def run(
    jobs: Sequence[str], work: Callable[[list[str]], list[Entry]], file: Path, workers: int, *, fresh: bool = False,
    again: bool = False,
) -> dict[str, Entry]:  # fmt: skip
    """Run jobs that have no result yet in worker processes, and append each result to a file as it comes.

    Args:
      jobs: the names of the jobs.
      work: runs a few jobs and gives their results.
      file: the file, a line of JSON per result.
      workers: the number of processes.
      fresh: whether earlier results are forgotten.
      again: whether what did not pass is run again.

    Returns:
      All results in the file by the names of their jobs.
    """
    file.parent.mkdir(exist_ok=True)
    if fresh:
        file.unlink(missing_ok=True)
    known = remembered(file)
    new = [job for job in jobs if job not in known or (again and known[job]["status"] != "pass")]
    chunks = [new[i : i + CHUNK] for i in range(0, len(new), CHUNK)]
    # A fresh process now and then gives back what compilers keep.
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, maxtasksperchild=20) as pool, file.open("a") as results:
        done = 0
        for entries in pool.imap_unordered(work, chunks):
            for entry in entries:
                results.write(json.dumps(entry) + "\n")
            results.flush()
            done += len(entries)
            print(f"\r{done}/{len(new)}", end="", flush=True)
        pool.close()
        pool.join()
    print()
    return remembered(file)
