"""`jax2onnx benchmark`: how long a model takes in JAX and in the installed runtimes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from jax2onnx_cli._exporting import Comparison, Request, comparison_options, export, export_options
from jax2onnx_cli._objects import load_subject
from jax2onnx_cli._terminal import BadInput, Command, Result, Terminal

if TYPE_CHECKING:
    from jax2onnx_core import OnnxProgram
    from jax2onnx_runtime.benchmarks import Benchmark
    from jax2onnx_runtime.runtimes import Runtime

__all__ = ["command"]

_EXAMPLES = (
    "jax2onnx benchmark digits.py:build --input 'x: f32[B, 28, 28, 1]' --sizes B=1,8,64 --plot times.svg",
    "jax2onnx benchmark digits.onnx --sizes B=1,64 --threads 1",
)

# The runtimes that are compared where nobody says any, and what installs those whose plugin is missing.
_USUAL = {"onnxruntime": "jax2onnx-onnxruntime[cpu]", "openvino": "jax2onnx-openvino[openvino]"}


class Measuring(TypedDict):
    """Options of `OnnxProgram.benchmark`."""

    seconds: float
    threads: int | None


@click.command("benchmark", cls=Command, examples=_EXAMPLES)
@export_options
@comparison_options
@click.option(
    "--runtimes", metavar="TARGET,…", help="The runtimes, by their targets; by default onnxruntime and openvino."
)
@click.option("--threads", type=click.IntRange(min=1), help="How many threads compute; by default as each chooses.")
@click.option(
    "--seconds", type=click.FloatRange(min=0), default=1.0, help="How long each row is measured; by default 1."
)
@click.option(
    "--plot", metavar="FILE", type=click.Path(path_type=Path), help="A chart of the times: an .svg or an .html file."
)
@click.pass_obj
def command(
    terminal: Terminal, *, request: Request, comparison: Comparison, runtimes: str | None, threads: int | None,
    seconds: float, plot: Path | None,
) -> Result:  # fmt: skip
    """Compare the times of JAX and of the installed runtimes.

    JAX runs the function as jax.jit compiles it; each runtime runs the model that is exported for it, or for --target. Results
    are compared first, and only right ones are measured, in turns; the exit code is 1 if some are wrong. OBJECT may be a file
    NAME.onnx of any producer, which has no JAX function.
    """
    _check_plot(plot)
    found, missing = _runtimes(runtimes)
    measuring = Measuring(seconds=seconds, threads=threads)
    with _held_to(threads):
        if request.subject.endswith(".onnx"):
            measured = _of_file(terminal, request, found, comparison, measuring)
        else:
            measured = _of_object(terminal, request, found, comparison, measuring)
    measured = dataclasses.replace(measured, notes=[*measured.notes, *missing])
    lines = [str(measured)]
    if plot is not None:
        lines.append(f"written to {_plotted(plot, request.subject, measured)}")
    return Result("\n".join(lines), {"object": request.subject, **measured.as_dict()}, is_good=measured.is_right)


def _check_plot(plot: Path | None) -> None:
    """Raise BadInput before anything is measured if the chart cannot be written."""
    if plot is not None and plot.suffix not in (".svg", ".html"):
        raise BadInput(f"--plot {plot}: a chart is an .svg or an .html file; give it one of these suffixes.")
    if plot is not None and not plot.parent.is_dir():
        raise BadInput(f"--plot {plot}: there is no directory {plot.parent}; make it first.")


def _runtimes(wanted: str | None) -> tuple[dict[str, Runtime], list[str]]:
    """The installed runtimes by their targets, and a sentence about each that is missing."""
    from jax2onnx_core.plugins.discovery import installed_plugins

    known = installed_plugins().registry.runtimes
    found: dict[str, Runtime] = {}
    missing: list[str] = []
    for name in _USUAL if wanted is None else filter(None, map(str.strip, wanted.split(","))):
        runtime = known.get(name)
        if runtime in found.values():
            raise BadInput(
                f"--runtimes {wanted}: {name} runs in the same runtime as another of these; name one of them."
            )
        if runtime is not None and runtime.is_installed:
            found[name] = runtime
        elif runtime is not None or name in _USUAL:
            needed = _USUAL.get(name) or (runtime.requirement if runtime is not None else "")
            missing.append(f"{name} is not measured: it is not installed, pip install '{needed}'")
        else:
            raise BadInput(f"--runtimes {name}: no installed plugin runs models for it; there are {', '.join(known)}.")
    if not found:
        raise BadInput(f"There is no runtime to measure. {'; '.join(missing)}.")
    return found, missing


@contextlib.contextmanager
def _held_to(threads: int | None) -> Iterator[None]:
    """Inside, JAX begins with so many threads on the CPU, if it has not begun before."""
    before = os.environ.get("NPROC")
    if threads is not None:
        os.environ["NPROC"] = str(threads)
    try:
        yield
    finally:
        if threads is not None:
            os.environ.pop("NPROC")
            os.environ.update({} if before is None else {"NPROC": before})


def _of_object(
    terminal: Terminal, request: Request, runtimes: Mapping[str, Runtime], comparison: Comparison, measuring: Measuring
) -> Benchmark:
    """JAX beside the models that are exported for the targets of the runtimes, or for the one that the request names."""
    from jax2onnx_graph.errors import Jax2OnnxError

    subject, notes = load_subject(request.subject), []
    programs: dict[str, OnnxProgram] = {}
    with terminal.working(f"exporting {request.subject}"):
        for target, runtime in runtimes.items():
            wanted = dataclasses.replace(request, target=request.target or target)
            try:
                program = export(wanted, subject=subject)
            except Jax2OnnxError as error:
                if target == [*runtimes][-1] and not programs:
                    raise
                notes.append(f"{target} is not measured: {error}")
            else:
                programs[runtime.title] = dataclasses.replace(program, runtime=runtime)
    first = next(iter(programs.values()))
    beside = {title: program for title, program in programs.items() if program is not first}
    with terminal.working("measuring"):
        measured = first.benchmark(beside=beside, **comparison, **measuring)
    return dataclasses.replace(measured, notes=notes)


def _of_file(
    terminal: Terminal, request: Request, runtimes: Mapping[str, Runtime], comparison: Comparison, measuring: Measuring
) -> Benchmark:
    """A model file in the runtimes."""
    from jax2onnx_graph.saving.reading import read_model
    from jax2onnx_runtime.benchmarks import benchmark_model

    file = Path(request.subject)
    request.check_is_file()
    model = read_model(file)
    with terminal.working("measuring"):
        measured = benchmark_model(model, [*runtimes.values()], file=file, **comparison, **measuring)
    return dataclasses.replace(
        measured, notes=[f"JAX is not measured: {file} holds no Python; name the object that it was exported from"]
    )


def _plotted(path: Path, title: str, measured: Benchmark) -> Path:
    """Write the chart of the times."""
    from jax2onnx_graph.saving.writing import save_text
    from jax2onnx_report.page.chart import TimeRange, TimeSeries, chart_page, chart_svg

    times = {
        (one.contender, one.where): TimeRange(one.quartiles[0], one.median, one.quartiles[1])
        for one in measured.measurements
        if one.runs
    }
    labels = list(dict.fromkeys(one.where for one in measured.measurements))
    series = [TimeSeries(name, [times.get((name, label)) for label in labels]) for name in measured.threads]
    svg = path.suffix == ".svg"
    text = chart_svg(title, labels, series) if svg else chart_page(title, str(measured), labels, series)
    return save_text(text, path)
