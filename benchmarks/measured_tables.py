"""The data files of targets: what was measured of the newest ONNX Runtime, of older ones, and of other runtimes.

Operators of other runtimes are measured in processes of their own, whose results are kept: an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from resumable import Entry, run

__all__ = ["command_line", "measure", "write", "write_rows"]

DATA = Path(__file__).parents[1] / "packages/jax2onnx-onnxruntime/src/jax2onnx_onnxruntime"


def command_line(description: str) -> argparse.ArgumentParser:
    """The options of a tool that measures operators."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--show", metavar="OPERATOR", help="measure one operator, and print the result and why calls failed"
    )
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    return parser


def measure(
    options: argparse.Namespace, jobs: Sequence[str], work: Callable[[list[str]], list[Entry]], file: Path,
    written: Callable[[Mapping[str, Entry]], None],
) -> None:  # fmt: skip
    """Measure what is not known yet, and write the data files; or print what was measured of one operator.

    Args:
      options: those of `command_line`.
      jobs: the names of operators, or words that end with these.
      work: measures some of these.
      file: the file with the results.
      written: writes the data files from all results.
    """
    if options.show:
        logging.basicConfig(level=logging.DEBUG)
        shown = [job for job in jobs if job.split()[-1] == options.show]
        sys.stdout.write(json.dumps(work(shown), indent=1) + "\n")
        return
    written(run(jobs, work, file, 1, fresh=options.fresh))


def write(data: Mapping[str, Any], name: str, folder: Path = DATA) -> None:
    """Add a table to those in a folder, in place of one of the same version: what is known of other versions stays.

    The newest version has a file of its own, older ones have one each in `versions`, with a line per operator.

    Args:
      data: the table, under `name`, and what it was measured with.
      name: what was measured, "kernels" or "guarantees".
      folder: the folder with the data files.
    """
    newest = folder / f"{name}.json"
    known = json.loads(newest.read_text())
    if _numbers(data) < _numbers(known):
        _write_older(data, name, folder)
        return
    if _numbers(data) > _numbers(known):
        _write_older(known, name, folder)
    newest.write_text(json.dumps(data, indent=1) + "\n")


def _write_older(data: Mapping[str, Any], name: str, folder: Path) -> None:
    head = {key: value for key, value in data.items() if key != name}
    path = folder / "versions" / f"{name}-{'.'.join(map(str, _numbers(data)))}.json"
    path.parent.mkdir(exist_ok=True)
    write_rows(path, head, name, data[name])


def write_rows(path: Path, head: Mapping[str, Any], name: str, rows: Mapping[str, Any]) -> None:
    """Write a table to a file that has a line per operator.

    Args:
      path: the file.
      head: what the table was measured with, as fields before it.
      name: the name of the table in the file.
      rows: operator → entry.
    """
    lines = [f"{json.dumps(operator)}: {json.dumps(found)}" for operator, found in rows.items()]
    path.write_text(json.dumps(head)[:-1] + f', "{name}": {{\n' + ",\n".join(lines) + "\n}}\n")


def _numbers(data: Mapping[str, Any]) -> list[int]:
    """The first two numbers of the version that a table is of: a patch has the kernels of its version."""
    return [int(part) for part in str(data["onnxruntime"]).split(".")[:2]]
