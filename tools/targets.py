"""Ten ordinary models in every runtime, and all cases in each target's own: writes the tables of docs/targets.md.

Results of cases are kept in `conformance-results/` as they come; `--fresh` forgets them, `--models` leaves the cases out. It fails
where a case is wrong and no limitation of the target or its runtime explains it. `--limitations` writes the table of these alone.

`--programs` runs the programs of `examples/programs` whose sizes depend on data instead, and writes the table of docs/guide/sizes.md.

`--runtime 1.18=PATH`, any number of times, names the Python of an environment that has this version of ONNX Runtime,
`--runtime openvino=PATH` and `--runtime tract=PATH` that of one with OpenVINO or tract. `--accelerator tensorrt=PATH` and `--accelerator qnn=PATH` give all cases of all
packages to the vendor's software for one accelerator instead, and write docs/devices.md. Browsers run the models where `nox -s browser` has installed what that needs.
"""

from __future__ import annotations

import argparse
import collections
import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import onnx_ir as ir
import onnxruntime
import target_cases
from browser_runtime import BrowserRuntime, installed, version
from conformance import RESULTS
from engines import EngineBuilder
from jax2onnx_core import OnnxProgram, errors, to_onnx
from jax2onnx_core.lowering.physical import physical_array
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import TargetError
from jax2onnx_graph.limitations import Limitation
from jax2onnx_graph.targets import standard_target
from jax2onnx_runtime.comparison import compare
from jax2onnx_runtime.runtimes import LoadedModel, find_runtime, reference_runtime
from jax2onnx_testing.variants import Variant
from other_runtimes import OtherRuntime
from pages import write_part
from resumable import Entry, run
from runtime_worker import milliseconds

from examples import programs
from examples.ten_models import MODELS

ROOT = Path(__file__).parent.parent
PAGE, DEVICES = ROOT / "docs" / "targets.md", ROOT / "docs" / "devices.md"
SIZES = ROOT / "docs" / "guide" / "sizes.md"
#: Targets for accelerators, and whether their models have fixed sizes.
ACCELERATORS = {"tensorrt": False, "qnn": True}
#: Models for TensorRT, which needs a GPU, are held against its operator table at export, and run in ONNX Runtime.
STAND_IN = "TensorRT's table, run in ONNX Runtime"
#: How long a model is run again and again for its time.
SECONDS = 0.5
STATUSES = ("equal", "refused", "not run", "too slow", "wrong")

Load = Callable[[ir.Model], LoadedModel]


class Runtime(NamedTuple):
    """A target and where its runtime is: the Python of another environment, a provider in a browser, or this environment.

    Attributes:
      target: the target that models are exported for where the file of another does not do.
      python: the Python of the other environment.
      provider: the provider of `BrowserRuntime`.
      module: the module whose `load` opens sessions in the other environment; by default that of the target's package.
      sizes: how models are called that were exported for fixed sizes, where the file of symbolic ones does not do; empty where that changes nothing.
    """

    target: str
    python: str = ""
    provider: str = ""
    module: str = ""
    sizes: str = ""


@functools.cache
def elsewhere(runtime: Runtime) -> BrowserRuntime | OtherRuntime | None:
    """The process that runs the models of a runtime; None for this one."""
    if runtime.provider:
        return BrowserRuntime(runtime.provider)
    if runtime.python and runtime.target != "tensorrt":
        package = runtime.target.partition("==")[0]
        return OtherRuntime(runtime.python, module=runtime.module or f"jax2onnx_{package}.loading")
    return None


@functools.cache
def loader(runtime: Runtime) -> Load:
    """The function that loads a model in a runtime."""
    if other := elsewhere(runtime):
        return other.load
    if runtime.python:
        return EngineBuilder(runtime.python, loader(Runtime("tensorrt"))).load
    if runtime.target == standard_target.name:
        return reference_runtime.load
    registry = installed_plugins().registry
    return registry.runtime_of(runtime.target)[1].load


def exported(model: Any, target: str | None = None, *, fixed: bool = False) -> OnnxProgram:
    if fixed:
        return to_onnx(model.fn, model.arguments, target=target)
    return to_onnx(model.fn, model.inputs, constraints=model.constraints, target=target)


def expected(model: Any) -> list[Array]:
    return [physical_array(jax.numpy.asarray(leaf)) for leaf in jax.tree_util.tree_leaves(model.fn(*model.arguments))]


class Outcome(NamedTuple):
    """What became of a model in a runtime.

    Attributes:
      status: "equal", "refused" at export, "not run" or "wrong".
      why: what the target or the runtime lacks, or how large the difference is; empty if it is equal.
      milliseconds: the time of a run, at best; None if none was measured.
    """

    status: str
    why: str = ""
    milliseconds: float | None = None


def outcome(program: OnnxProgram, model: Any, want: Sequence[Array], runtime: Runtime) -> Outcome:
    """What becomes of an exported model in a runtime.

    Args:
      program: the exported model.
      model: the ordinary model, with its arguments.
      want: JAX's outputs.
      runtime: the runtime.
    """
    feeds = program.feeds(*model.arguments)
    try:
        got = loader(runtime)(program.model)(feeds)
    except Exception as error:  # noqa: BLE001  (whatever a runtime raises is the result)
        return Outcome("not run", short(str(error)))
    found = [compare(a, b) for a, b in zip(got, want, strict=True)]
    if not all(f.is_close for f in found):
        return Outcome("wrong", f"wrong by {max(f.largest for f in found):.2g}")
    # The time of a runtime that stands for another says nothing.
    time = None if runtime.target == "tensorrt" else time_of_run(program.model, feeds, runtime)
    return Outcome("equal", milliseconds=time)


def words(found: Outcome, how: str = "") -> str:
    """An outcome in the table of models, with how the model was exported."""
    if found.status == "refused":
        return f"refused for its target: {found.why}"
    if found.status == "not run":
        return f"{how} no: {found.why}".lstrip()
    if found.status == "wrong":
        return f"{how} {found.why}".lstrip()
    time = found.milliseconds
    ran = "" if time is None else f", {np.format_float_positional(time, 2, fractional=False, trim='-')} ms"
    return f"equal {how}".rstrip() + ran


def time_of_run(model: ir.Model, feeds: Mapping[str, Array], runtime: Runtime) -> float:
    """The milliseconds of a run of a model in a runtime, at best, by the clock of the process that runs it."""
    if other := elsewhere(runtime):
        return other.milliseconds(model, feeds, SECONDS)
    run = loader(runtime)(model)
    run(feeds)
    return milliseconds(lambda: run(feeds), SECONDS)


def short(message: str) -> str:
    """The part of a runtime's message that says what it lacks."""
    for pattern in (r"IR[_ ]version:? \d+", r"Could not find an implementation for \w+\(\d+\)", r"[Oo]pset \d+"):
        if found := re.search(pattern, message):
            return found[0]
    return " ".join(message.split())[:80]


def model_rows(runtimes: Mapping[str, Runtime]) -> Iterator[str]:
    """The table of the ten models: one file for all runtimes; where it does not do, one for the runtime."""
    yield f"| model | opset | {' | '.join(runtimes)} |"
    yield "|---|---|" + "---|" * len(runtimes)
    for name, make in MODELS.items():
        model = make()
        want, program = expected(model), exported(model)
        cells = [cell(program, model, want, runtime) for runtime in runtimes.values()]
        yield f"| {name} | {program.opset} | {' | '.join(cells)} |"


PLACEMENT_HEAD = (
    "| model | default: on the GPU | not on it | copies | `web`: on the GPU | not on it | copies |",
    "|---|---:|---|---:|---:|---|---:|",
)


def placement_rows() -> Iterator[str]:
    """Devices on which WebGPU runs the nodes of the ten models, exported without options and for browsers."""
    browser = BrowserRuntime("webgpu")
    yield from PLACEMENT_HEAD
    for name, make in MODELS.items():
        model = make()
        cells = []
        for target in (None, "web"):
            try:
                program = exported(model, target)
                data = ir.to_proto(program.model).SerializeToString()
                placed = browser.placement(data, program.feeds(*model.arguments))
            except (TargetError, errors.ConversionError) as error:
                cells += ["not loaded" if isinstance(error, TargetError) else "refused", "", ""]
                continue
            counts = collections.Counter(placed.on_cpu)
            cells += [str(placed.gpu), ", ".join(f"{op} {n}" for op, n in sorted(counts.items())), str(placed.copies)]
        yield f"| {name} | {' | '.join(cells)} |"


def cell(program: OnnxProgram, model: Any, want: Sequence[Array], runtime: Runtime) -> str:
    """The table's cell for a model in a runtime: of the file exported without options and, if that is wrong, of one for the runtime.

    Args:
      program: the model exported without options.
      model: the ordinary model, with its arguments.
      want: JAX's outputs.
      runtime: the runtime.
    """
    found = None if runtime.target == "tensorrt" else outcome(program, model, want, runtime)
    if found and (found.status == "equal" or (runtime.target == standard_target.name and not runtime.sizes)):
        return words(found)
    how = runtime.sizes or "with its target"
    try:
        own = outcome(exported(model, runtime.target, fixed=bool(runtime.sizes)), model, want, runtime)
    except errors.Jax2OnnxError as error:
        own = Outcome("refused", refusal(error))
    before = f"{words(found)}; " if found and own.status in ("not run", "wrong") else ""
    return before + words(own, how)


def run_cases(runtime: Runtime, names: Sequence[str], workers: int, *, fresh: bool) -> list[Entry]:
    """Run the cases in a runtime, but those whose results its file has.

    Args:
      runtime: the runtime.
      names: the names of the cases.
      workers: the number of processes.
      fresh: whether earlier results are forgotten.

    Returns:
      The result of each case.
    """
    work, file = functools.partial(worker, runtime), results_file(runtime.target)
    known = run(names, work, file, workers, fresh=fresh, dead=target_cases.dead)
    return [known[name] for name in names]


def results_file(target: str) -> Path:
    return RESULTS / f"cases-{target}.jsonl"


def variants_of(runtime: Runtime) -> dict[str, Variant]:
    """Variants of the cases that a runtime gets: of all packages where it is an accelerator's."""
    if runtime.python and runtime.target in ACCELERATORS:
        return target_cases.variants((), is_static=ACCELERATORS[runtime.target])
    return target_cases.variants()


def worker(runtime: Runtime, names: list[str]) -> list[Entry]:
    variants = variants_of(runtime)
    entries = [target_cases.check(variants[name], runtime.target, loader(runtime)) for name in names]
    jax.clear_caches()
    return entries


def case_rows(results: Mapping[str, Sequence[Entry]], every: int) -> Iterator[str]:
    """The table of the cases, or of one of every so many of them, by target, and below it the reasons for those that are not equal."""
    yield f"{'All cases' if every == 1 else f'A sample, one of every {every} cases'}:\n"
    yield "| target | cases | " + " | ".join(STATUSES) + " |"
    yield "|---|" + "---:|" * (len(STATUSES) + 1)
    for target, entries in results.items():
        counts = collections.Counter(entry["status"] for entry in entries)
        yield f"| `{target}` | {len(entries)} | " + " | ".join(str(counts[status]) for status in STATUSES) + " |"
    for target, entries in results.items():
        grouped: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
        for entry in entries:
            if entry["status"] != "equal":
                why = entry["reason"] or missing(entry["detail"]) or entry["detail"]
                grouped[entry["status"], why.replace(f"{ROOT}{os.sep}", "")].append(entry["name"])
        yield f"\n### `{target}`\n" if grouped else ""
        for (status, why), names in sorted(grouped.items()):
            yield f"* {status}: {why} ({len(names)}, such as `{names[0]}`)"


def refusal(error: errors.Jax2OnnxError) -> str:
    """What a target lacks according to an error at export, or how the error begins."""
    return missing(str(error)) or " ".join(str(error).split())[:80]


def missing(detail: str) -> str:
    """The element types, operators or features that the target lacks according to an error at export; empty for another error."""
    lower = detail.lower().replace("double", "float64")
    if types := named(r"has no \w+ for (bool|b?float\d+|u?int\d+)\b", lower):
        return f"no operators for {types}"
    if "can lower these primitives" in detail and (operators := named(r"has no (\w+) for ", detail)):
        return f"no {operators}"
    if "has no elements" in detail:
        return "an output without elements"
    if "depends on data, and" in detail:
        return "a size that depends on data"
    if "does not run wholly on" in detail:
        found = re.findall(r"(\S.*?) [(](?:[^()]|[(][^()]*[)]?)*[)]?", detail.partition(": ")[2])
        return f"not on the NPU: {'; '.join(dict.fromkeys(found))}"
    return detail.partition("for this model: ")[2]


def named(pattern: str, text: str) -> str:
    """The first group of each match of a pattern, sorted: "int8, uint8"."""
    return ", ".join(sorted(set(re.findall(pattern, text))))


def unexplained(results: Mapping[str, Sequence[Entry]]) -> list[str]:
    """The cases that are wrong for no known reason."""
    return [
        f"{target}: {entry['name']}: {entry['detail']}"
        for target, entries in results.items()
        for entry in entries
        if entry["status"] == "wrong" and entry["reason"] is None
    ]


def limitations() -> Iterator[tuple[str, Limitation]]:
    """Each limitation of each installed target in each version, and of its runtime, with the target's name."""
    registry = installed_plugins().registry
    for target in sorted(registry.targets.values(), key=lambda target: target.name):
        runtime = find_runtime(registry.runtimes, target)
        for found in dict.fromkeys([*map(target.of_version, target.versions), target]):
            for limitation in (*found.limitations(), *runtime.limitations(found)):
                yield found.name, limitation


def limitation_rows() -> Iterator[str]:
    """The table of limitations; one that several versions have is one row."""
    targets: dict[Limitation, list[str]] = {}
    for target, limitation in limitations():
        targets.setdefault(limitation, []).append(f"`{target}`")
    yield "| target | of | dtypes | limitation |"
    yield "|---|---|---|---|"
    for one, names in targets.items():
        dtypes = ", ".join(f"`{dtype}`" for dtype in one.dtypes) or "all"
        yield f"| {', '.join(dict.fromkeys(names))} | {one.subject} | {dtypes} | {one.reason} |"


PROGRAMS_HEAD = ("| tool | equal | refused at export | not run | wrong |", "|---|---:|---:|---:|---:|")


def program_rows(runtimes: Mapping[str, Runtime], every: int) -> Iterator[str]:
    """The table of the programs whose sizes depend on data by runtime, and below it those that a runtime does not run, and why."""
    chosen = [one for one in programs.programs() if programs.has_sizes_from_data(one) and not one.refusal][::every]
    found = [outcomes_of_program(one, runtimes.values()) for one in chosen]
    yield from PROGRAMS_HEAD
    notes: list[str] = []
    for name, outcomes in zip(runtimes, zip(*found, strict=True), strict=True):
        counts = collections.Counter(found.status for found in outcomes)
        cells = [str(counts[status]) for status in ("equal", "refused", "not run", "wrong")]
        yield f"| {name} | {' | '.join(cells)} |"
        grouped: dict[Outcome, list[str]] = collections.defaultdict(list)
        for one, outcome in zip(chosen, outcomes, strict=True):
            grouped[outcome].append(one.name)
        notes += [
            f"* {name}, {status}: {why} ({len(names)}, such as `{names[0]}`)"
            for (status, why, _), names in sorted(grouped.items())
            if status != "equal"
        ]
    yield from ("", *notes)


def outcomes_of_program(one: programs.Program, runtimes: Iterable[Runtime]) -> list[Outcome]:
    """What becomes of a program in each runtime with several data."""
    fn = one.make()
    calls = [programs.arguments(one, programs.SIZES[0], data) for data in ("any", "none", "all", "one")]
    wanted = [[np.asarray(x) for x in jax.tree_util.tree_leaves(programs.in_jax(fn, call))] for call in calls]

    @functools.cache
    def exported_for(target: str) -> OnnxProgram | str:
        try:
            return to_onnx(fn, programs.specs(one), target=target)
        except errors.Jax2OnnxError as error:
            return refusal(error)

    def outcome_in(runtime: Runtime) -> Outcome:
        program = exported_for(runtime.target)
        if isinstance(program, str):
            return Outcome("refused", program)
        try:
            run = loader(runtime)(program.model)
            got = [run(program.feeds(*call)) for call in calls]
        except Exception as error:  # noqa: BLE001  (whatever a runtime raises is the result)
            return Outcome("not run", short(str(error)))
        pairs = [pair for a, b in zip(got, wanted, strict=True) for pair in zip(a, b, strict=True)]
        equal = all(a.shape == b.shape and compare(a, b, rtol=one.rtol).is_close for a, b in pairs)
        return Outcome("equal") if equal else Outcome("wrong", "other results than those of JAX")

    return [outcome_in(runtime) for runtime in runtimes]


def accelerate(options: argparse.Namespace) -> None:
    """Give the cases to the software of an accelerator, and write its part of the page; an error where some fail for no known reason."""
    target, _, python = options.accelerator.partition("=")
    runtime = Runtime(target, python)
    entries = run_cases(runtime, list(variants_of(runtime))[:: options.every], options.workers, fresh=options.fresh)
    write_part(DEVICES, target, case_rows({target: entries}, options.every))
    failed = [e for e in entries if e["status"] in ("wrong", "not run") and e["reason"] is None]
    if failed:
        sys.exit("\n".join(f"{target}: {entry['name']}: {entry['detail']}" for entry in failed))


def runtimes_of(named: Sequence[str]) -> dict[str, Runtime]:
    """The columns of the table of models: the named runtimes ("1.18=PYTHON"), those of this environment, and browsers where there are any."""
    runtimes = {"onnx.reference": Runtime(standard_target.name)}
    for number, _, python in (runtime.partition("=") for runtime in named):
        if number == "openvino":
            runtimes["OpenVINO"] = Runtime("openvino", python)
        elif number != "tract":
            runtimes[f"ONNX Runtime {number}"] = Runtime(f"onnxruntime=={number}", python)
    runtimes[f"ONNX Runtime {onnxruntime.__version__}"] = Runtime("onnxruntime")
    runtimes[STAND_IN] = Runtime("tensorrt")
    missing = installed()
    if missing is None:
        for provider, column in (("wasm", "WebAssembly"), ("webgpu", "WebGPU")):
            runtimes[f"ONNX Runtime Web {version()}, {column}"] = Runtime("web", provider=provider)
    else:
        print(f"without browsers: {missing}")
    return runtimes


def runtimes_of_models(named: Sequence[str]) -> dict[str, Runtime]:
    """Further columns of the table of models: runtimes that are not given all cases."""
    runtimes = {}
    missing = installed("node")
    if missing is None:
        runtimes[f"ONNX Runtime Web {version()}, Node.js"] = Runtime("web", provider="node")
    else:
        print(f"without Node.js: {missing}")
    for name, _, python in (runtime.partition("=") for runtime in named):
        if name == "tract":
            runtimes["tract"] = Runtime(standard_target.name, python, module="tract_runtime", sizes="with fixed sizes")
    return runtimes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", action="append", default=[], metavar="VERSION=PYTHON")
    parser.add_argument("--models", action="store_true", help="the ten models alone")
    parser.add_argument("--programs", action="store_true", help="the programs whose sizes depend on data alone")
    parser.add_argument("--limitations", action="store_true", help="the known limitations alone, without any runtime")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results of cases")
    parser.add_argument("--every", type=int, default=1, help="one of so many cases, or programs")
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--accelerator", metavar="TARGET=PYTHON", help="one accelerator alone")
    options = parser.parse_args()
    if options.accelerator:
        accelerate(options)
        return
    write_part(PAGE, "limitations", limitation_rows())
    if options.limitations:
        return
    runtimes = runtimes_of(options.runtime)
    if options.programs:
        table = {name: one for name, one in runtimes.items() if name != STAND_IN and one.provider != "webgpu"}
        table |= {"TensorRT": Runtime("tensorrt"), "QNN": Runtime("qnn")}
        write_part(SIZES, "programs", program_rows(table, options.every))
        return
    if installed() is None:
        write_part(PAGE, "placement", placement_rows())
    write_part(PAGE, "models", model_rows(runtimes | runtimes_of_models(options.runtime)))
    if options.models:
        return
    names = list(target_cases.variants())[:: options.every]
    own = [runtime for runtime in runtimes.values() if runtime.target != "onnxruntime" and runtime.provider != "webgpu"]
    results = {runtime.target: run_cases(runtime, names, options.workers, fresh=options.fresh) for runtime in own}
    write_part(PAGE, "cases", case_rows(results, options.every))
    if wrong := unexplained(results):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
