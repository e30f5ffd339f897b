"""Write the table of docs/quantization.md: six kinds of models in every mode, their size and error.

Usage: python tools/quantization_table.py
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import onnx_ir as ir
from jax2onnx_core import to_onnx
from jax2onnx_graph.deployment.program import Program
from jax2onnx_graph.deployment.quantization import Mode
from jax2onnx_graph.traversal import walk

ROOT = Path(__file__).parent.parent

DOC = ROOT / "docs" / "quantization.md"
BEGIN, END = "<!-- table: written by tools/quantization_table.py -->\n", "<!-- end of table -->\n"
HALF = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}


def size(program: Program) -> int:
    return len(ir.to_proto(program.model).SerializeToString())


def what(program: Program, mode: Mode) -> str:
    """What does the work: the new operators, or how many are computed in half precision."""
    nodes = [node for node in walk(program.model.graph) if node.op_type != "Cast"]
    if mode not in HALF:
        made = ("MatMulNBits", "MatMulInteger", "ConvInteger", "DynamicQuantizeLSTM", "DequantizeLinear")
        counts = {name: sum(node.op_type == name for node in nodes) for name in made}
        return ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    types = [next((v.dtype for v in node.inputs if v is not None and v.dtype is not None), None) for node in nodes]
    floats = [t for t in types if t is not None and t.is_floating_point()]
    return f"{sum(t == HALF[mode] for t in floats)} of {len(floats)} operators"


def rows() -> Iterator[str]:
    sys.path.insert(0, str(ROOT / "tests-integration"))
    examples = importlib.import_module("quantized_models").EXAMPLES
    yield "| model | mode | size | SNR | mean error | largest error | largest number | what is in few bits |"
    yield "|---|---|---:|---:|---:|---:|---:|---|"
    for name, example in examples.items():
        program = to_onnx(example.make(), example.inputs)
        for mode in get_args(Mode):
            calibration = example.arguments(16, seed=1) if mode == "static_int8" else None
            quantised = program.quantize(mode, calibration=calibration)
            found = quantised.verify(example.arguments(8, seed=2)).worst
            share = f"{100 * size(quantised) / size(program):.0f} %"
            errors = f"{found.mean:.2g} | {found.largest:.2g} | {found.scale:.2g}"
            yield f"| {name} | {mode} | {share} | {found.snr:.0f} dB | {errors} | {what(quantised, mode)} |"


def main() -> None:
    before, _, rest = DOC.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    DOC.write_text(before + BEGIN + "\n".join(rows()) + "\n" + END + after, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
