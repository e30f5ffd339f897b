"""Print which nodes other optimisers (onnxslim, onnxsim, ONNX Runtime) still remove from exported models, and which they add.

Usage: nox -s tables -- optimisers [name of a model …]

The models are the ten of `nox -s targets` and those of `examples/library_examples.py`. What is removed without being replaced
is ours to remove: the exit code is 1 then.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
import onnxruntime
import onnxsim
import onnxslim
from jax2onnx_core import to_onnx

from examples import library_examples, ten_models


def slim(model: onnx.ModelProto) -> onnx.ModelProto:
    result: onnx.ModelProto = onnxslim.slim(model)
    return result


def simplify(model: onnx.ModelProto) -> onnx.ModelProto:
    result: onnx.ModelProto = onnxsim.simplify(model)[0]
    return result


def basic(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model after ONNX Runtime's basic optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "model.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


OPTIMISERS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "onnxslim": slim, "onnxsim": simplify, "ONNX Runtime, basic": basic,
}  # fmt: skip


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def change(model: onnx.ModelProto, optimise: Callable[[onnx.ModelProto], onnx.ModelProto]) -> Mapping[str, int] | str:
    """Change of the number of nodes of each operator by an optimiser, or its failure as text."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    try:
        after = operators(optimise(copy))
    except Exception as error:  # noqa: BLE001 (of a foreign tool, and a cell of the table)
        return f"fails: {type(error).__name__}"
    before = operators(model)
    return {name: after[name] - before[name] for name in sorted(before | after) if after[name] != before[name]}


def shown(changed: Mapping[str, int] | str) -> str:
    """A change as a cell of the table: "Transpose -2, Gemm +1"."""
    if isinstance(changed, str):
        return changed
    return ", ".join(f"{name} {count:+}" for name, count in changed.items()) or "nothing"


def only_removes(changed: Mapping[str, int] | str) -> bool:
    """Whether nodes were removed and none were added."""
    return not isinstance(changed, str) and bool(changed) and max(changed.values()) < 0


def main(names: list[str]) -> int:
    print(f"| model | nodes | {' | '.join(OPTIMISERS)} |")
    print(f"|---|---|{'---|' * len(OPTIMISERS)}")
    linen = {f"Linen {name}": functools.partial(library_examples.bound, name) for name in library_examples.MODELS}
    models: Mapping[str, Callable[[], ten_models.Model]] = {**ten_models.MODELS, **linen}
    found = False
    for name in names or models:
        model = models[name]()
        exported = to_onnx(model.fn, model.inputs, constraints=model.constraints).model_proto
        cells = [change(exported, optimise) for optimise in OPTIMISERS.values()]
        print(f"| {name} | {len(exported.graph.node)} | {' | '.join(map(shown, cells))} |", flush=True)
        found |= any(map(only_removes, cells))
    return int(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
