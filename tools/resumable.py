"""Many jobs in worker processes, whose results are kept in a file as they come: an interrupted run goes on where it was."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Entry", "remembered", "run"]

CHUNK = 25

#: The result of a job, which is called `entry["name"]`.
Entry = dict[str, Any]


def remembered(file: Path) -> dict[str, Entry]:
    """Job → its latest result."""
    if not file.exists():
        return {}
    return {entry["name"]: entry for entry in map(json.loads, file.read_text().splitlines())}


def run(jobs: Sequence[str], work: Callable[[list[str]], list[Entry]], file: Path, workers: int) -> None:
    """Run jobs in worker processes, and append each result to a file as it comes.

    Args:
      jobs: the names of the jobs.
      work: runs a few jobs and gives their results.
      file: the file, a line of JSON per result.
      workers: the number of processes.
    """
    file.parent.mkdir(exist_ok=True)
    chunks = [list(jobs[i : i + CHUNK]) for i in range(0, len(jobs), CHUNK)]
    # A fresh process now and then gives back what compilers keep.
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, maxtasksperchild=20) as pool, file.open("a") as results:
        done = 0
        for entries in pool.imap_unordered(work, chunks):
            for entry in entries:
                results.write(json.dumps(entry) + "\n")
            results.flush()
            done += len(entries)
            print(f"\r{done}/{len(jobs)}", end="", flush=True)
        pool.close()
        pool.join()
    print()
