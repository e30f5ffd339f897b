"""Steps of training in other runtimes than ONNX Runtime for Python: writes a table of docs/guide/training.md.

Each training of examples/trainings.py takes some steps in OpenVINO, and by ONNX Runtime Web in Node.js and in a browser, there in
WebAssembly and by WebGPU; the losses are compared with those of `jax.jit`. What is not run says why.

Usage: nox -s tables -- training_runtimes [--name NAME ...] [--steps N] [--print]

Needs what `nox -s browser` installs; without it, only OpenVINO runs.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from browser_runtime import BrowserRuntime, Placement, installed
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import TargetError
from jax2onnx_graph.metadata import read_states
from jax2onnx_training import Training, to_training
from pages import write_part
from training import PAGE, InJax

from examples.trainings import TRAININGS, Task

#: The columns of the table: provider of ONNX Runtime Web → what it is called there.
PROVIDERS = {"node": "Node.js", "wasm": "WebAssembly", "webgpu": "WebGPU"}


class Found(NamedTuple):
    """A training in other runtimes.

    Attributes:
      name: which.
      differences: for each runtime the largest difference of a loss to that of `jax.jit`, relative to it, or the reason why there is none.
      placement: of the nodes where WebGPU is the provider; None where it was not loaded.
    """

    name: str
    differences: Mapping[str, float | str]
    placement: Placement | None


def exported(task: Task, target: str, *, batch: Sequence[Any]) -> Training:
    return to_training(task.model(), task.loss, task.optimizer, batch, trained=task.trained, target=target)


def in_openvino(task: Task) -> Callable[..., Array]:
    """Steps in OpenVINO, which needs the size of a batch: its convolutions take no weights of an unknown shape."""
    (batch,) = task.batches(1)
    session = exported(task, "openvino", batch=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in batch]).session(
        threads=1
    )
    return lambda *batch: session.step(*batch)["loss"]


class WebSteps:
    """Steps by a provider of ONNX Runtime Web; the states are handed from one run to the next.

    Args:
      training: the training.
      provider: the provider.
    """

    def __init__(self, training: Training, provider: str) -> None:
        self.model, self.runtime = training.step.model_proto.SerializeToString(), BrowserRuntime(provider)
        self._outputs = [str(value.name) for value in training.step.model.graph.outputs]
        self._pairs = read_states(training.step.model)
        session = training.session()
        self._states: dict[str, Array] = {pair.input: session.state[pair.input] for pair in self._pairs}
        self._inputs, self._loss = session.inputs, training.step.output_names.index("loss")

    def feeds(self, *batch: Array) -> dict[str, Array]:
        """The states and a batch by the names of inputs."""
        return {**self._states, **dict(zip(self._inputs, batch, strict=True))}

    def __call__(self, *batch: Array) -> Array:
        """Take a step; the result is the loss."""
        results = dict(zip(self._outputs, self.runtime.run(self.model, self.feeds(*batch)), strict=True))
        self._states = {pair.input: results[pair.output] for pair in self._pairs}
        return results[self._outputs[self._loss]]


def difference(steps: Callable[[], Callable[..., object]], task: Task, wanted: Sequence[float]) -> float | str:
    """The largest relative difference of a loss, or the reason why the runtime takes no steps."""
    try:
        step = steps()
        found = [float(np.asarray(step(*batch))) for batch in task.batches(len(wanted))]
    except TargetError as error:
        print(error)
        return "no answer" if "no answer" in str(error) else "refused"
    return float(np.max(np.abs(np.array(found) / np.array(wanted) - 1)))


def measured(name: str, steps: int, reason: str | None) -> Found:
    """A training in each of the runtimes."""
    task = TRAININGS[name]
    in_jax = InJax(task)
    wanted = [float(in_jax.step(*batch)) for batch in task.batches(steps)]
    found = {"OpenVINO": difference(lambda: in_openvino(task), task, wanted)}
    placement, training = None, exported(task, "web", batch=task.batch)
    for provider, column in PROVIDERS.items():
        steps_there = functools.partial(WebSteps, training, provider)
        found[column] = difference(steps_there, task, wanted) if reason is None else "not run"
    if isinstance(found["WebGPU"], float):
        steps_on_gpu = WebSteps(training, "webgpu")
        (batch,) = task.batches(1)
        with contextlib.suppress(TargetError):  # a busy machine may take too long
            placement = steps_on_gpu.runtime.placement(steps_on_gpu.model, steps_on_gpu.feeds(*batch))
    return Found(name, found, placement)


def table(found: Sequence[Found]) -> Iterator[str]:
    """The lines of the table."""
    columns = ["OpenVINO", *PROVIDERS.values()]
    yield f"| | {' | '.join(columns)} | nodes on the GPU, others | copies |"
    yield f"|---|{'---:|' * (len(columns) + 2)}"
    for x in found:
        cells = [f"{d:.0e}" if isinstance(d, float) else d for d in (x.differences[column] for column in columns)]
        placed = (
            ("", "")
            if x.placement is None
            else (f"{x.placement.gpu}, {len(x.placement.on_cpu)}", f"{x.placement.copies}")
        )
        yield f"| {' | '.join([x.name, *cells, *placed])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", action="append", help="only these")
    parser.add_argument("--steps", type=int, default=2, help="of which the losses are compared")
    parser.add_argument("--print", action="store_true", help="print the table instead of writing it into the page")
    options = parser.parse_args()
    reason, found = installed(), []
    for name in options.name or TRAININGS:
        found.append(measured(name, options.steps, reason))
        print([*table(found)][-1], flush=True)
    if not options.print:
        write_part(PAGE, "runtimes", table(found))


if __name__ == "__main__":
    main()
