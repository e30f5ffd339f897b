"""Steps of training beside `jax.jit`: writes the table of docs/guide/training.md.

Each training of examples/trainings.py: the time of a step relative to JAX's (both in turns in one process, in time of the processor, on
one thread), the memory that a process needs for it beside JAX's, and after a thousand steps the largest difference of the losses to those
of `jax.jit`, beside what JAX itself differs by where XLA optimises nothing, and what is right of examples not seen.

Usage: nox -s tables -- training [--name NAME ...] [--steps N] [--print]
"""

from __future__ import annotations

import os

# XLA as users run it, whatever flags tests set, and on one thread like the runtime.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from flax import nnx
from jax2onnx_training import Training, open_training, to_training
from pages import write_part
from timing import in_turns

from examples.trainings import TRAININGS, Task

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guide" / "training.md"
#: How many steps the processes take whose memory is measured.
FEW = 5
#: How many batches the steps that are timed take in turn.
_TIMED = 100
#: XLA without optimisations.
PLAIN: dict[str, str | bool] = {"xla_backend_optimization_level": "0", "xla_cpu_use_fusion_emitters": False}


class Measured(NamedTuple):
    """A training beside JAX's.

    Attributes:
      name: which.
      parameters: how many numbers are trained.
      milliseconds: the time of a step.
      ratio: it, divided by that of `jax.jit`.
      finite: the same of a training that is exported with assume=["finite"].
      memory, memory_of_jax: the megabytes that a process needs to train, beside those for its imports; the least of three processes.
      difference, difference_of_jax: the largest difference of a loss to that of `jax.jit`, and what that of JAX without XLA's optimisations is.
      accuracy, accuracy_of_jax: the part of examples that is right at the end.
    """

    name: str
    parameters: int
    milliseconds: float
    ratio: float
    finite: float
    memory: float
    memory_of_jax: float
    difference: float
    difference_of_jax: float
    accuracy: float
    accuracy_of_jax: float


class InJax:
    """The same training in JAX.

    Args:
      task: the training.
      options: those of XLA.
    """

    def __init__(self, task: Task, options: dict[str, str | bool] | None = None) -> None:
        self._task, model = task, task.model()
        wanted = nnx.Param if task.trained is None else task.trained
        graph, *parts = nnx.split(model, wanted, ...)
        parameters, rest = parts

        def loss(parameters: Any, rest: Any, *batch: Any) -> Any:
            model = nnx.merge(graph, parameters, rest, copy=True)
            value, metrics = task.loss(model, *batch)
            return value, (metrics, nnx.state(model, nnx.Not(wanted)))

        def step(parameters: Any, rest: Any, moments: Any, *batch: Any) -> Any:
            (value, (_, rest)), gradients = jax.value_and_grad(loss, has_aux=True)(parameters, rest, *batch)
            updates, moments = task.optimizer.update(gradients, moments, parameters)
            return value, (optax.apply_updates(parameters, updates), rest, moments)

        self._graph = graph
        self.jitted = jax.jit(step, donate_argnums=(0, 1, 2), compiler_options=options)
        self.states = jax.tree.map(
            lambda x: x + 0 if jax.numpy.issubdtype(x.dtype, jax.numpy.number) else x,
            (parameters, rest, task.optimizer.init(parameters)),
        )

    def step(self, *batch: Any) -> jax.Array:
        """Take a step."""
        loss, self.states = self.jitted(*self.states, *batch)
        return loss.block_until_ready()

    def accuracy(self, *batch: Any) -> float:
        """The part of a batch that is right at inference."""
        model = nnx.merge(self._graph, *self.states[:2])
        model.eval()
        return float(self._task.loss(model, *batch)[1]["accuracy"])


def exported(task: Task, assume: Sequence[str] = ()) -> Training:
    return to_training(task.model(), task.loss, task.optimizer, task.batch, trained=task.trained, assume=assume)


# -- memory ----------------------------------------------------------------------------------------


def _status(field: str) -> float:
    """A number of /proc/self/status, in megabytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def _peak(name: str, folder: str | None) -> float:
    """The megabytes that this process needs to load a training and to take some steps, in the runtime or in JAX.

    Compiling is left out on both sides: the model is loaded once before.
    """
    batches, before = [*TRAININGS[name].batches(FEW)], 0.0
    for _ in range(2):
        before = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is that from here on
        step = InJax(TRAININGS[name]).step if folder is None else open_training(folder, threads=1).step
        for batch in batches:
            step(*batch)
    return _status("VmHWM") - before


def peak(name: str, folder: str | None) -> float:
    """`_peak` in a process of its own, the least of three."""
    command = [sys.executable, __file__, "--peak", name, *([folder] if folder is not None else [])]
    runs = (subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(3))
    return min(map(float, runs))


# -- the figures -----------------------------------------------------------------------------------


def losses(step: Callable[..., Any], task: Task, steps: int) -> np.ndarray:
    return np.array([float(step(*batch)) for batch in task.batches(steps)])


def measured(name: str, steps: int, seconds: float) -> Measured:
    """The figures of a training."""
    task = TRAININGS[name]
    training, in_jax = exported(task), InJax(task)
    session, finite = training.session(threads=1), exported(task, ["finite"]).session(threads=1)
    # In turn: one batch would be learned by heart.
    batches = [itertools.cycle([*task.batches(_TIMED)]) for _ in range(3)]
    steps_of = [session.step, finite.step, in_jax.step]
    ways = [lambda step=step, given=given: step(*next(given)) for step, given in zip(steps_of, batches, strict=True)]
    by_model, by_finite, by_jax = map(statistics.median, in_turns(ways, rounds=20, seconds=seconds))
    with tempfile.TemporaryDirectory() as directory:
        folder = str(training.save(Path(directory) / "training"))
        memory = (peak(name, folder), peak(name, None)) if steps else (0.0, 0.0)
    session.reset()
    jitted, plain = InJax(task), InJax(task, PLAIN)
    found = losses(lambda *batch: session.step(*batch)["loss"], task, steps)
    expected = losses(jitted.step, task, steps)
    other = losses(plain.step, task, steps)
    *_, unseen = task.batches(steps + 1, 512)
    numbers = sum(x.size for x in jax.tree.leaves(in_jax.states[0]))
    return Measured(
        name, numbers, by_model * 1e3, by_model / by_jax, by_finite / by_jax, *memory, float(np.abs(found - expected).max(initial=0)),
        float(np.abs(other - expected).max(initial=0)), float(session.evaluate(*unseen)["accuracy"]), jitted.accuracy(*unseen),
    )  # fmt: skip


def table(found: Sequence[Measured]) -> Iterator[str]:
    """The lines of the table."""
    yield "| | trained | a step | of JAX's time | with `finite` | memory | of JAX | difference of losses | of JAX itself | right | in JAX |"
    yield f"|---|{'---:|' * 10}"
    for x in found:
        yield (
            f"| {x.name} | {x.parameters:,} | {x.milliseconds:.1f} ms | {x.ratio:.2f} | {x.finite:.2f} | {x.memory:.0f} MB | "
            f"{x.memory_of_jax:.0f} MB | {x.difference:.0e} | {x.difference_of_jax:.0e} | {x.accuracy:.1%} | {x.accuracy_of_jax:.1%} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", action="append", help="only these")
    parser.add_argument(
        "--steps", type=int, default=1000, help="of which the losses are compared; 0: only the time of a step"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="how long the steps of each are timed")
    parser.add_argument("--print", action="store_true", help="print the table instead of writing it into the page")
    parser.add_argument("--peak", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(_peak(options.peak[0], options.peak[1] if len(options.peak) > 1 else None))
        return
    found = []
    for name in options.name or TRAININGS:
        found.append(measured(name, options.steps, options.seconds))
        print([*table(found)][-1], flush=True)
    if not options.print:
        write_part(PAGE, "trainings", table(found))


if __name__ == "__main__":
    main()
