"""Write docs/gallery.md and the reports that it links to: the ten ordinary models of `nox -s targets`, exported and verified.

The reports, docs/gallery/*.html, are part of the built site, not of the repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax2onnx_core
import onnx_ir as ir
from jax2onnx_report.summary import ModelSummary, summarize

from examples.ten_models import MODELS

ROOT = Path(__file__).parent.parent

#: What each model is.
ABOUT = {
    "MLP": "Two linear layers of Flax NNX.",
    "CNN": "Convolutions with batch norm, which becomes part of them, and pooling. The transposes at its ends are where channels move.",
    "ViT": "A vision transformer: each block is 18 operators, none of which moves data.",
    "GPT": "A language model over a symbolic number of tokens, with a causal mask, which is an attribute of Attention.",
    "LSTM": "A bidirectional LSTM over a symbolic number of steps: one operator instead of two loops.",
    "decoder with cache": "A decoder layer whose cache grows; the cache may be empty (`S >= 0`).",
    "linalg": "Eigenvalues, a solved system and a Cholesky factor, which ONNX has no operators for: loops and products.",
    "random": "Random numbers from a key that is an input: the same numbers as in JAX.",
    "scan, while, cond": "A scan with a condition in its body, then a while loop.",
    "dynamic shapes": "A stage of a U-Net whose batch, height and width are symbolic.",
}

INTRODUCTION = """# Gallery

Ten models as they are exported without options. Each report shows the graph by module, which opens and closes, what became of
each line, the weights, and how far the numbers are from JAX's. `program.save_report("report.html")` makes such a page of
your model. The pages are part of the built site (`nox -s docs`).
"""


def exported(model: Any, report: Path) -> ModelSummary:
    program = jax2onnx_core.to_onnx(model.fn, model.inputs, constraints=model.constraints, provenance=True)
    program.verify(inputs=model.arguments)
    program.save_report(report)
    return summarize(ir.from_proto(program.model_proto))


def section(name: str, model: Any, report: Path) -> Iterator[str]:
    """The lines of the page about one model.

    Args:
      name: the name of the model.
      model: the ordinary model, with its inputs and arguments.
      report: the file that its report is written to.
    """
    summary = exported(model, report)
    operators = ", ".join(f"{operator} {count}" for operator, count in summary.operators.items())
    yield f"\n## {name}\n"
    yield f"{ABOUT[name]} [Report](gallery/{report.name})\n"
    yield f"Opset {summary.opsets['']}, {summary.nodes} nodes: {operators}."


def main() -> None:
    folder = ROOT / "docs" / "gallery"
    folder.mkdir(exist_ok=True)
    parts: list[str] = []
    for name, make in MODELS.items():
        parts += section(name, make(), folder / f"{re.sub('[^a-z]+', '-', name.lower())}.html")
    (ROOT / "docs" / "gallery.md").write_text("\n".join([INTRODUCTION.rstrip("\n"), *parts]) + "\n")


if __name__ == "__main__":
    main()
