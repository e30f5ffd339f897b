"""Mixtures of experts in the writings of several authors: how long models take beside all experts for all tokens, and `jax.jit`.

Two of the experts count for each token. All ways of a row run in turns in one process; the least time of each counts, of all processors together, so that other
processes hardly change it.

Usage: nox -s tables -- experts [--experts 32] [--tokens 1 64] [--width 256] [--hidden 512] [--only TEXT] [--print]
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from jax2onnx_core import OnnxProgram, to_onnx
from pages import write_part
from timing import in_turns, on_threads

from examples.expert_forms import Form, forms, random_weights

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "experts.md"
SECONDS = 0.2

Array = np.ndarray[Any, Any]
Way = Callable[[Array], object]


def in_onnxruntime(model: onnx.ModelProto) -> Way:
    """Runs a model in ONNX Runtime on two threads."""
    session = on_threads(model, 2)
    (given,) = session.get_inputs()
    return lambda x: session.run(None, {given.name: x})


def compiled(function: Callable[[jax.Array], jax.Array]) -> Way:
    """Runs a function as JAX compiles it."""
    run = jax.jit(function)
    return lambda x: run(x).block_until_ready()


def milliseconds(ways: Sequence[Way], x: Array) -> list[float]:
    """The least time of each way that processors work for it."""
    times = in_turns([functools.partial(way, x) for way in ways], rounds=3, seconds=SECONDS)
    return [1000 * min(own) for own in times]


def chooses(program: OnnxProgram, experts: int) -> bool:
    """Whether tokens are split into those of each expert."""
    return any(node.op_type == "Split" and len(node.outputs) >= experts for node in program.model.graph)


@dataclasses.dataclass(frozen=True)
class Bench:
    """Sizes of a measurement: experts, tokens, features and hidden features."""

    experts: int
    tokens: Sequence[int]
    width: int
    hidden: int

    def rows(self, only: str) -> Iterator[str]:
        """The table: for each form whose name contains a text what part of the time of the first one without a promise it takes."""
        columns = [f"T={count}" for count in self.tokens]
        titles = ["writing", "default", *columns, "`finite`", *columns, *(f"int8, {c}" for c in columns)]
        titles += [f"of `jax.jit`, {c}" for c in columns]
        yield f"| {' | '.join(titles)} |"
        yield f"|{'---|' * len(titles)}"
        plain, *_ = every = forms(random_weights(self.experts, self.width, self.hidden))
        whole = in_onnxruntime(to_onnx(plain.function, [("T", self.width)]).model_proto)
        for form in every:
            if only in form.name:
                yield self._row(form, whole)

    def _row(self, form: Form, whole: Way) -> str:
        parts: list[list[str]] = [[], [], [], []]
        formed: list[str] = []
        ways: list[Way] = []
        for count in self.tokens:
            if form.needs_size or not ways:
                formed, ways = self._ways(form, count if form.needs_size else "T")
            x = np.random.default_rng(count).standard_normal((count, self.width)).astype(np.float32)
            all_experts, *own, jit = milliseconds([whole, *ways, compiled(form.function)], x)
            for part, taken in zip(parts, (*(one / all_experts for one in own), own[1] / jit), strict=True):
                part.append(f"{taken:.2f}")
        cells = [form.name, formed[0], *parts[0], formed[1], *parts[1], *parts[2], *parts[3]]
        return f"| {' | '.join(cells)} |"

    def _ways(self, form: Form, tokens: int | str) -> tuple[list[str], list[Way]]:
        """Experts computed without and with the promise that numbers are finite, "chosen" or "all"; and the models: without it, with it, in int8."""
        spec = [(tokens, self.width)]
        default, finite = to_onnx(form.function, spec), to_onnx(form.function, spec, assume=["finite"])
        formed = ["chosen" if chooses(one, self.experts) else "all" for one in (default, finite)]
        models = default.model_proto, finite.model_proto, finite.quantize("int8").model_proto
        return formed, [in_onnxruntime(model) for model in models]


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experts", type=int, default=32)
    parser.add_argument("--tokens", type=int, nargs="*", default=[1, 64])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--only", default="", help="part of the names of forms")
    parser.add_argument("--print", action="store_true", help="print the table instead of writing it into the page")
    given = parser.parse_args()
    rows = []
    for row in Bench(given.experts, given.tokens, given.width, given.hidden).rows(given.only):
        print(row, flush=True)
        rows.append(row)
    if not given.print:
        write_part(PAGE, "forms", rows)


if __name__ == "__main__":
    main()
