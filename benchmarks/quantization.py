"""Write the tables of docs/quantization.md: the speed of products, and six kinds of models, their size and error, in every mode.

Usage: nox -s tables -- quantization [speed] [table] [tolerances]
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import jax
import numpy as np
import onnx_ir as ir
from jax2onnx_core import to_onnx
from jax2onnx_core.program.program import OnnxProgram
from jax2onnx_graph.traversal import walk
from jax2onnx_runtime.quantization import Mode
from pages import write_part
from timing import in_turns

from examples.quantized_models import EXAMPLES, OUTLIERS

ROOT = Path(__file__).parent.parent

DOC = ROOT / "docs" / "quantization.md"
ROWS = (1, 16, 512)
HALF = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}


def size(program: OnnxProgram) -> int:
    return len(ir.to_proto(program.model).SerializeToString())


def what(program: OnnxProgram, mode: Mode) -> str:
    """The operators that do the work: the new ones by number, or how many compute in half precision."""
    nodes = [node for node in walk(program.model.graph) if node.op_type != "Cast"]
    if mode not in HALF:
        made = ("MatMulNBits", "MatMulInteger", "ConvInteger", "DynamicQuantizeLSTM", "DequantizeLinear")
        counts = {name: sum(node.op_type == name for node in nodes) for name in made}
        return ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    types = [next((v.dtype for v in node.inputs if v is not None and v.dtype is not None), None) for node in nodes]
    floats = [t for t in types if t is not None and t.is_floating_point()]
    return f"{sum(t == HALF[mode] for t in floats)} of {len(floats)} operators"


def rows() -> Iterator[str]:
    yield "| model | mode | size | SNR | mean error | largest error | largest number | what is in few bits |"
    yield "|---|---|---:|---:|---:|---:|---:|---|"
    for name, example in EXAMPLES.items():
        program = to_onnx(example.make(), example.inputs)
        for mode in get_args(Mode):
            calibration = example.arguments(16, seed=1) if mode == "static_int8" else None
            quantised = program.quantize(mode, calibration=calibration)
            found = quantised.accuracy(example.arguments(8, seed=2)).worst
            share = f"{100 * size(quantised) / size(program):.0f} %"
            errors = f"{found.mean:.2g} | {found.largest:.2g} | {found.scale:.2g}"
            yield f"| {name} | {mode} | {share} | {found.snr:.0f} dB | {errors} | {what(quantised, mode)} |"


def tolerances() -> Iterator[str]:
    """A model with outliers in few bits everywhere, and with tolerances."""
    program = to_onnx(OUTLIERS.make(), OUTLIERS.inputs)
    calibration, calls = OUTLIERS.arguments(8, seed=1), OUTLIERS.arguments(8, seed=2)
    yield "| mode | tolerance | weights | SNR | cosine | 4 bits | 8 bits | float32 | time to choose |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    tried: dict[Mode, list[float | None]] = {"int4": [None, 0.3, 0.1, 0.05], "int8": [None, 0.02]}
    for mode, tolerance in [(mode, tolerance) for mode, values in tried.items() for tolerance in values]:
        start = time.perf_counter()
        given = None if tolerance is None else calibration
        quantised = program.quantize(mode, tolerance=tolerance or 0.999, calibration=given or calibration[:1])
        taken = "" if tolerance is None else f"{time.perf_counter() - start:.0f} s"
        bits = quantised.bits
        assert bits is not None
        counts = " | ".join(str(sum(weight.bits == n for weight in bits.weights)) for n in (4, 8, 32))
        shown = "" if tolerance is None else f"{tolerance:g}"
        yield (
            f"| {mode} | {shown} | {bits.bytes / 1000:.0f} kB | {quantised.accuracy(calls).worst.snr:.0f} dB "
            f"| {cosine(program, quantised, calls):.3f} | {counts} | {taken} |"
        )


def cosine(program: OnnxProgram, quantised: OnnxProgram, calls: list[tuple[np.ndarray, ...]]) -> float:
    """The cosine of the angle between the results of both."""
    a, b = (np.concatenate([np.ravel(each(*args)) for args in calls]) for each in (program, quantised))
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def speeds() -> Iterator[str]:
    rng = np.random.default_rng(0)
    up, down = (rng.normal(size=shape).astype(np.float32) / 32 for shape in ((1024, 3072), (3072, 1024)))
    program = to_onnx(lambda x: jax.nn.relu(x @ up) @ down, [("N", 1024)])
    inputs = [rng.normal(size=(count, 1024)).astype(np.float32) for count in ROWS]
    made: dict[str, OnnxProgram] = {"float32": program}
    for mode in get_args(Mode):
        made[mode] = program.quantize(mode, calibration=[(inputs[-1],)] if mode == "static_int8" else None)
    sessions = {mode: quantised.session(threads=1) for mode, quantised in made.items()}
    ways = [functools.partial(session.step, x) for session in sessions.values() for x in inputs]
    least = iter([min(own) for own in in_turns(ways, rounds=10, clock=time.perf_counter)])
    times = {mode: [next(least) for _ in inputs] for mode in sessions}
    yield "| mode | " + " | ".join(f"{count} row{'s' if count > 1 else ''}" for count in ROWS) + " |"
    yield "|---|" + "---:|" * len(ROWS)
    for mode, own in times.items():
        yield (
            f"| {mode} | " + " | ".join(f"{t / base:.2f}" for t, base in zip(own, times["float32"], strict=True)) + " |"
        )


def main() -> None:
    parts = {"speed": speeds, "table": rows, "tolerances": tolerances}
    for name in sys.argv[1:] or parts:
        write_part(DOC, name, parts[name]())


if __name__ == "__main__":
    main()
