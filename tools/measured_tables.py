"""The data files of `jax2onnx-onnxruntime`: what was measured of the newest ONNX Runtime, and of older ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["write"]

DATA = Path(__file__).parents[1] / "packages/jax2onnx-onnxruntime/src/jax2onnx_onnxruntime"


def write(data: Mapping[str, Any], name: str) -> None:
    """Write a table to its file; that of a version which is older than the newest one measured, with a line per operator."""
    newest = DATA / f"{name}.json"
    version = str(data["onnxruntime"])
    if _numbers(version) >= _numbers(json.loads(newest.read_text())["onnxruntime"]):
        newest.write_text(json.dumps(data, indent=1) + "\n")
        return
    head = {key: value for key, value in data.items() if key != name}
    lines = [f"{json.dumps(operator)}: {json.dumps(found)}" for operator, found in data[name].items()]
    text = json.dumps(head)[:-1] + f', "{name}": {{\n' + ",\n".join(lines) + "\n}}\n"
    path = DATA / "versions" / f"{name}-{'.'.join(version.split('.')[:2])}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:3]]
