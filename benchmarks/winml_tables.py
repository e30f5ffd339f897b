"""What Microsoft measured on devices beside what our targets say: the tables of `winml-cli`, a part of docs/devices.md.

Give it the folder into which the wheel, under the licence of MIT, was unpacked without the many packages that it requires:

    uv pip install --no-deps --target FOLDER winml-cli==0.4.0
    nox -s tables -- winml_tables FOLDER
"""

from __future__ import annotations

import argparse
import itertools
import json
import operator
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_graph.facts.availability import is_allowed
from pages import write_part

PAGE = Path(__file__).parent.parent / "docs" / "devices.md"
TABLES = "winml/modelkit/analyze/rules/runtime_check_rules"
#: Device -> the folder of its tables, and our target.
DEVICES = {
    "Qualcomm's NPU": ("QNNExecutionProvider_NPU", "qnn"),
    "TensorRT for RTX": ("NvTensorRTRTXExecutionProvider_GPU", "tensorrt"),
}
TYPES = {"FLOAT": "float32", "FLOAT16": "float16", "INT32": "int32", "INT64": "int64", "BOOL": "bool"}
HEAD = (
    "| device | operators with types | both run | neither | ours alone | theirs alone |",
    "|---|---:|---:|---:|---:|---:|",
)


def measured(folder: Path) -> dict[tuple[str, str, int], bool]:
    """Operator, type and opset -> whether the device compiled any model of it; models in integers and patterns are left out."""
    found: dict[tuple[str, str, int], bool] = defaultdict(bool)
    for file in sorted(folder.glob("*_ai.onnx_opset*.parquet")):
        op_type, opset = file.name.partition("_")[0], file.stem.rpartition("opset")[2]
        table = pyarrow.parquet.read_table(file)
        variable = f"T_{op_type}"
        if not opset.isdecimal() or variable not in table.schema.names:
            continue
        for text, (compiles, _) in zip(
            *(table[name].to_pylist() for name in (variable, "compile_run_success")), strict=True
        ):
            dtype = TYPES.get(json.loads(text)["v"])
            if dtype is not None and is_allowed(op_type, np.dtype(dtype), int(opset)):
                found[op_type, dtype, int(opset)] |= compiles
    return found


def compared(folder: Path, target: str) -> dict[tuple[bool, bool], list[tuple[str, str]]]:
    """Whether our target and whether theirs runs it -> operators with types, at the newest opset of each that both know."""
    ours = installed_plugins().registry.targets[target]
    newest = {key[:2]: (key[2], runs) for key, runs in sorted(measured(folder).items()) if key[2] < ours.opsets.stop}
    found: dict[tuple[bool, bool], list[tuple[str, str]]] = defaultdict(list)
    for (op_type, dtype), (opset, runs) in newest.items():
        own = ours.supports(op_type, np.dtype(dtype), max(opset, ours.opsets.start))
        found[own, runs].append((op_type, dtype))
    return found


def rows(folder: Path) -> Iterator[str]:
    """The table, and below it what only one of both runs."""
    yield from HEAD
    notes = []
    for device, (name, target) in DEVICES.items():
        found = compared(folder / TABLES / name, target)
        counts = [len(found[key]) for key in ((True, True), (False, False), (True, False), (False, True))]
        yield f"| {device} | {sum(counts)} | {' | '.join(map(str, counts))} |"
        for who, key in (("ours", (True, False)), ("theirs", (False, True))):
            grouped = itertools.groupby(found[key], operator.itemgetter(0))
            texts = [f"{op_type} ({', '.join(dtype for _, dtype in entries)})" for op_type, entries in grouped]
            notes.append(f"* {device}, {who} alone: {', '.join(texts)}.")
    yield from ("", *notes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    write_part(PAGE, "winml", rows(parser.parse_args().folder))


if __name__ == "__main__":
    main()
