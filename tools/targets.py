"""Ten ordinary models in every runtime: writes the tables of docs/targets.md.

`--runtime "ONNX Runtime 1.18=PATH"`, any number of times, names the Python of an environment that has a runtime.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import onnx_ir as ir
import onnxruntime
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_core.lowering.physical import physical_array
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.comparison import compare
from jax2onnx_graph.targets import Session, standard_target
from jax2onnx_onnxruntime import OnnxRuntime
from other_runtimes import OtherRuntime

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "targets.md"

Load = Callable[[ir.Model], Session]


def ten_models() -> Mapping[str, Callable[[], Any]]:
    """The makers of the models, by name."""
    sys.path.insert(0, str(ROOT / "tests-integration"))
    makers: Mapping[str, Callable[[], Any]] = importlib.import_module("ten_models").MODELS
    return makers


def exported(model: Any, target: str | None = None) -> OnnxProgram:
    return to_onnx(model.fn, model.inputs, constraints=model.constraints, target=target)


def expected(model: Any) -> list[Array]:
    return [physical_array(jax.numpy.asarray(leaf)) for leaf in jax.tree_util.tree_leaves(model.fn(*model.arguments))]


def outcome(program: OnnxProgram, model: Any, want: Sequence[Array], load: Load) -> str:
    """What the table says of a model in a runtime: "equal", or what is wrong."""
    try:
        got = load(program.model)(program.feeds(*model.arguments))
    except Exception as error:  # noqa: BLE001  (whatever a runtime raises is the result)
        return short(str(error))
    found = [compare(a, b) for a, b in zip(got, want, strict=True)]
    return "equal" if all(f.is_close for f in found) else f"wrong by {max(f.largest for f in found):.2g}"


def short(message: str) -> str:
    """The part of a runtime's message that says what it lacks."""
    for pattern in (r"IR[_ ]version:? \d+", r"Could not find an implementation for \w+\(\d+\)", r"[Oo]pset \d+"):
        if found := re.search(pattern, message):
            return f"no: {found[0]}"
    return f"no: {' '.join(message.split())[:80]}"


def rows(runtimes: Mapping[str, Load]) -> Iterator[str]:
    yield f"| model | opset | {' | '.join(runtimes)} |"
    yield "|---|---|" + "---|" * len(runtimes)
    for name, make in ten_models().items():
        model = make()
        want, program = expected(model), exported(model)
        cells = [outcome(program, model, want, load) for load in runtimes.values()]
        yield f"| {name} | {program.opset} | {' | '.join(cells)} |"


def replace(part: str, lines: Iterator[str]) -> None:
    """Put lines between the marks of a part of the page."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- {part}: written by nox -s targets -->\n", f"<!-- end of {part} -->"
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    PAGE.write_text(before + begin + "\n".join([*lines, end]) + after, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", action="append", default=[], metavar="NAME=PYTHON")
    options = parser.parse_args()
    runtimes: dict[str, Load] = {"onnx.reference": standard_target.load}
    for runtime in options.runtime:
        name, _, python = runtime.partition("=")
        runtimes[name] = OtherRuntime(python).load
    runtimes[f"ONNX Runtime {onnxruntime.__version__}"] = OnnxRuntime().load
    replace("models", rows(runtimes))


if __name__ == "__main__":
    main()
