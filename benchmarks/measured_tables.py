"""The data files of targets: what was measured of the newest ONNX Runtime, of older ones, and of other runtimes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["write", "write_rows"]

DATA = Path(__file__).parents[1] / "packages/jax2onnx-onnxruntime/src/jax2onnx_onnxruntime"


def write(data: Mapping[str, Any], name: str) -> None:
    """Write a table to its file; that of a version which is older than the newest one measured, with a line per operator."""
    newest = DATA / f"{name}.json"
    version = str(data["onnxruntime"])
    if _numbers(version) >= _numbers(json.loads(newest.read_text())["onnxruntime"]):
        newest.write_text(json.dumps(data, indent=1) + "\n")
        return
    head = {key: value for key, value in data.items() if key != name}
    path = DATA / "versions" / f"{name}-{'.'.join(version.split('.')[:2])}.json"
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


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:3]]
