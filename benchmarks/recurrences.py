"""Recurrences over time beside `jax.jit`: writes the tables of docs/guide/recurrences.md.

Every family of examples/recurrent_models.py in each of its ways of writing, over several numbers of steps: what the model
computes it by, its time relative to `jax.jit` (both alternately in one process, in time of the processor, on one thread), and the
largest error of both relative to float64.

Usage: nox -s tables -- recurrences [--family NAME ...] [--steps N ...] [--print]
"""

from __future__ import annotations

import os

# XLA as users run it, whatever flags tests set, and on one thread like the runtime.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import argparse
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax2onnx_core import OnnxProgram, to_onnx
from pages import write_part
from timing import in_turns, on_threads

from examples import recurrent_models as models

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guide" / "recurrences.md"
STEPS = (1, 256, 1024, 4096)


class Measured(NamedTuple):
    """A family in a way of writing, over a number of steps.

    Attributes:
      family, writing, steps: which.
      form: what the model computes it by.
      ratio: its time divided by that of `jax.jit`.
      error, error_of_jax: the largest difference to float64 divided by the largest value.
    """

    family: str
    writing: str
    steps: int
    form: str
    ratio: float
    error: float
    error_of_jax: float


def form_of(program: OnnxProgram, steps: int) -> str:
    """Operators that compute a model's recurrence, as text."""
    nodes = list(program.model.graph)
    operators = {node.op_type for node in nodes}
    loops = [node for node in nodes if node.op_type in ("Scan", "Loop")]
    lengths = [value.shape[0] for node in loops for value in node.inputs[-1:] if value is not None and value.shape]
    if "LinearAttention" in operators:
        return "kernel"
    if any(length == steps for length in lengths) and steps > 1:
        return "loop" if "If" not in operators else "blocks, loop"
    if "Loop" in operators:
        return "loop"
    if loops:
        return "chunks"
    return "step" if steps == 1 else "blocks" if "If" in operators else "pairs"


def flat(tree: Any) -> list[np.ndarray]:
    """The arrays of a tree, complex ones as pairs of numbers."""
    arrays = map(np.asarray, jax.tree.leaves(tree))
    return [np.stack([x.real, x.imag], -1) if np.iscomplexobj(x) else x for x in arrays]


def error(results: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> float:
    return max(float(np.abs(y - e).max() / np.abs(e).max()) for y, e in zip(results, exact, strict=True))


def measured(family: str, writing: str, steps: int, seconds: float) -> Measured:
    """The figures of a family in a way of writing."""
    model = models.FAMILIES[family](models.Sizes())
    function = models.decoding(model) if writing == "step" else models.writings(model)[writing]
    state, rows = (tuple(arrays) for arrays in models.arguments(model, steps))
    program = to_onnx(function, [state, rows])
    session, compiled = on_threads(program.model_proto), jax.jit(function)
    on_device = jax.tree.map(jax.numpy.asarray, (state, rows))
    feeds = {x.name: array for x, array in zip(session.get_inputs(), flat((state, rows)), strict=True)}
    ways = [lambda: session.run(None, feeds), lambda: jax.block_until_ready(compiled(*on_device))]
    by_model, by_jax = map(statistics.median, in_turns(ways, rounds=5, seconds=seconds))
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda x: x.astype(np.complex128 if np.iscomplexobj(x) else np.float64), (state, rows))
        exact = flat(jax.jit(function)(*wide))
    errors = error(session.run(None, feeds), exact), error(flat(compiled(*on_device)), exact)
    return Measured(family, writing, steps, form_of(program, steps), by_model / by_jax, *errors)


def tasks(families: Sequence[str], steps: Sequence[int]) -> Iterator[tuple[str, str, int]]:
    """Measurements to make: one step is written as a step, several steps in all other ways."""
    for family in families:
        for writing in models.writings(models.FAMILIES[family](models.Sizes())):
            yield from ((family, writing, count) for count in steps if count > 1)
        yield from ((family, "step", count) for count in steps if count == 1)


def table(found: Sequence[Measured], steps: Sequence[int]) -> Iterator[str]:
    """The lines of the table."""
    more = [count for count in steps if count > 1]
    yield f"| recurrence | written by | computed by | {' | '.join(f'{n} steps' for n in more)} | error | of JAX |"
    yield "|---|---|---|" + "---:|" * (len(more) + 2)
    for family, writing in dict.fromkeys((x.family, x.writing) for x in found if x.writing != "step"):
        own = {x.steps: x for x in found if (x.family, x.writing) == (family, writing)}
        forms = ", ".join(dict.fromkeys(x.form for x in own.values()))
        ratios = " | ".join(f"{own[n].ratio:.2f}" for n in more)
        worst = (max(x.error for x in own.values()), max(x.error_of_jax for x in own.values()))
        yield f"| {family} | `{writing}` | {forms} | {ratios} | {worst[0]:.0e} | {worst[1]:.0e} |"


def decoding_table(found: Sequence[Measured]) -> Iterator[str]:
    """The lines of the table of single steps."""
    yield "| one step of | computed by | time | error |"
    yield "|---|---|---:|---:|"
    for x in found:
        if x.writing == "step":
            yield f"| {x.family} | {x.form} | {x.ratio:.2f} | {x.error:.0e} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", action="append", help="only these")
    parser.add_argument("--writing", action="append", help="only these ways of writing")
    parser.add_argument("--steps", type=int, action="append", help="only these numbers of steps")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each is run")
    parser.add_argument("--print", action="store_true", help="print the tables instead of writing them into the page")
    options = parser.parse_args()
    steps = options.steps or STEPS
    found = []
    for family, writing, count in tasks(options.family or list(models.FAMILIES), steps):
        if options.writing and writing not in options.writing:
            continue
        found.append(measured(family, writing, count, options.seconds))
        x = found[-1]
        print(f"{family:18} {writing:17} {count:5} {x.form:12} {x.ratio:6.2f} {x.error:8.0e} {x.error_of_jax:8.0e}", flush=True)  # fmt: skip
    lines = [*table(found, steps), "", *decoding_table(found)]
    if options.print:
        print(*lines, sep="\n")
    else:
        write_part(PAGE, "recurrences", lines)


if __name__ == "__main__":
    main()
