"""Runs models for `tools/targets.py` in the environment of another runtime: `runtime_worker.py ADDRESS MODULE`.

MODULE has the function `load`. Reads pairs of a serialised model and named arrays, answers each with its outputs or with the text of an error.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from multiprocessing.connection import Client


def main() -> None:
    load = import_module(sys.argv[2]).load
    with Client(sys.argv[1], authkey=os.environ["RUNTIME_WORKER_KEY"].encode()) as connection:
        while True:
            try:
                model, feeds = connection.recv()
            except EOFError:
                return
            try:
                connection.send((load(model)(feeds), None))
            except Exception as error:  # noqa: BLE001  (of any runtime, for the table)
                connection.send((None, f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main()
