"""A control transformer as one dynamic model and as two static ones, timed in ONNX Runtime: writes its table of docs/guide/states.md.

Six frames of 274 tokens at first, then one frame with the 1370 entries of the five before it: once as a session of the dynamic model,
once as one of a model that was specialised to these sizes. All are run in turns in one process. It fails where the static step is
less than `BAR` times as fast as the full pass. The model is exported for TensorRT, too, where it must not branch or loop.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_graph.traversal import all_nodes
from pages import write_part
from timing import in_turns

from examples.cached_models import ControlTransformer

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guide" / "states.md"
TOKENS, WINDOW, POINTS, WIDTH, DEPTH, HEADS = 274, 6, 17, 384, 8, 6
KEPT = (WINDOW - 1) * TOKENS
#: A step of the static model has to be so many times as fast as the full pass, which computes six frames where a step computes one.
BAR = 6.0

Frames = Mapping[str, Any]


class Pass(NamedTuple):
    """A way to run the controller.

    Attributes:
      name: the name in the table.
      frames: how many frames it is given.
      cached: the entries of its caches.
      model: which model runs it.
      run: runs it once.
    """

    name: str
    frames: int
    cached: int
    model: str
    run: Callable[[], object]


def controller(target: str | None = None) -> OnnxProgram:
    """The exported control transformer, of symbolic sizes: T frames, S cached entries."""
    model = ControlTransformer(
        width=WIDTH, depth=DEPTH, heads=HEADS, context=WINDOW * TOKENS, patch=16, rngs=nnx.Rngs(0)
    )
    batch = {"camera": (1, "T", 256, 256, 3), "speed": (1, "T", 1), "waypoints": (1, "T", POINTS, 2)}
    mask = (f"{TOKENS}*T", f"S + {TOKENS}*T")
    return to_onnx(
        model, [batch, (1, "S", WIDTH), (DEPTH, 2, 1, "S", WIDTH), (mask, bool)], constraints=["S >= 0"], target=target,
        states={"cached_projected_embeddings": "projected_embeddings", "cached_kv": "kv_cache"},
    )  # fmt: skip


def frames(count: int) -> Frames:
    """Random frames."""
    shapes = {"camera": (256, 256, 3), "speed": (1,), "waypoints": (POINTS, 2)}
    noise = np.random.default_rng(count)
    return {name: noise.standard_normal((1, count, *shape), np.float32) for name, shape in shapes.items()}


def causal(new: int, total: int) -> np.ndarray:
    """The positions that each of the last `new` positions may see of all `total`."""
    return np.tril(np.ones((new, total), bool), total - new)


def passes(program: OnnxProgram) -> list[Pass]:
    """The full pass of the dynamic model, and a step of either model, on sessions that keep the window."""
    dynamic = program.session(threads=1, window={"S": KEPT})
    static = program.specialize(T=1, S=KEPT).session(threads=1, window={"S": KEPT})
    six, one = frames(WINDOW), frames(1)
    full, step = causal(WINDOW * TOKENS, WINDOW * TOKENS), causal(TOKENS, WINDOW * TOKENS)

    def first() -> object:
        dynamic.reset()
        return dynamic.step(six, full)

    first()
    static.state.update(dynamic.state)
    return [
        Pass("full pass", WINDOW, 0, "dynamic", first),
        Pass("step", 1, KEPT, "dynamic", lambda: dynamic.step(one, step)),
        Pass("step", 1, KEPT, "static", lambda: static.step(one, step)),
    ]


def rows(ways: Sequence[Pass], seconds: Sequence[float]) -> Iterator[str]:
    """The lines of the table."""
    yield "| | model | frames | cache | mask | milliseconds | times as fast |"
    yield "|---|---|---|---|---|---:|---:|"
    for way, time_taken in zip(ways, seconds, strict=True):
        new, total = way.frames * TOKENS, way.cached + way.frames * TOKENS
        yield (
            f"| {way.name} | {way.model} | `[1, {way.frames}, …]` | `[1, {way.cached}, {WIDTH}]` | `[{new}, {total}]` | "
            f"{time_taken * 1e3:.0f} | {seconds[0] / time_taken:.1f} |"
        )


def conditions(program: OnnxProgram) -> list[str]:
    """The operators of a model that branch or loop."""
    return [node.op_type for node in all_nodes(program.model) if node.op_type in ("If", "Loop", "Scan")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="how often each is run")
    parser.add_argument("--print", action="store_true", help="print the table instead of writing it into the page")
    options = parser.parse_args()
    if found := conditions(controller("tensorrt")):
        sys.exit(f"The controller for TensorRT branches or loops: {', '.join(found)}.")
    ways = passes(controller())
    # The least of each counts: after the first step the memory is as it is in a stream.
    seconds = [min(times) for times in in_turns([way.run for way in ways], rounds=options.rounds)]
    lines = list(rows(ways, seconds))
    print(*lines, sep="\n")
    if not options.print:
        write_part(PAGE, "control", lines)
    if seconds[0] / seconds[-1] < BAR:
        sys.exit(
            f"The step of the static model is only {seconds[0] / seconds[-1]:.1f} times as fast as the full pass; at least {BAR:.0f}."
        )


if __name__ == "__main__":
    main()
