"""Write docs/coverage.md and a page for each package with cases: every operation and layer, where its library documents it, how it
is lowered, what it becomes, since which version, and the cases that show it.

python tools/coverage_table.py             exports all cases, in as many processes as there are cores, and writes the pages
python tools/coverage_table.py nnx lax     does so for these packages alone
python tools/coverage_table.py --check     exits with 1 where an operation stands on no page; exports nothing
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from types import FrameType

import flax.nnx  # noqa: F401  (composites of flax are listed only where flax is imported)
from documentation_links import address, is_offered_by, public_name, public_operation
from jax2onnx_core import Call, Limitation, Replacement, to_onnx
from jax2onnx_core.plugins.discovery import installed_plugins, needed_plugins
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_core.plugins.rules import CompositeSpec
from jax2onnx_core.symbols.symbols import DataSize, Symbols
from jax2onnx_testing.collection import CollectedCase, find_cases
from jax2onnx_testing.matcher import operator_name
from jax2onnx_testing.variants import Variant, build, is_symbolic

ROOT = Path(__file__).parent.parent
INDEX = ROOT / "docs" / "coverage.md"
PAGES = ROOT / "docs" / "coverage"
SOURCES = "https://github.com/jax2onnx/jax2onnx-core/blob/main"
#: Package → where its library offers functions that another package's library has, too.
LIBRARIES = {"jax2onnx-nnx": "flax.nnx", "jax2onnx-linen": "flax.linen"}
#: So many operators are named in a row, and so many modules of cases.
OPERATORS, MODULES = 6, 3

INTRODUCTION = """# Coverage

Written by `python tools/coverage_table.py` from what the plugins declare, and from the graphs of their cases. Every case runs as f32 and
f64, static and at several sizes of its symbols, in ONNX Runtime, against JAX.

| package | operations and layers | cases |
|---|---:|---:|"""

COLUMNS = """
*Becomes* lists the operators of the graph that most of the cases have, then those that only other cases have: for other element
types, axes or options. A case may have operators of its own around the operation; where there are cases of one operation alone, those are
taken. *Since* is the version of the package.
"""


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Evidence that the export of a case gives.

    Attributes:
      distribution: the package of the case.
      module: that of the case, `lax.elementwise.arithmetic`.
      covers: the operations that the case is the evidence for.
      since: the version of the package in which it first worked.
      operators: those of the graph, in its order.
      layers: the layers and functions of libraries that were claimed by a composite, each with the name of the operation.
      sizes: the functions of JAX of which a call gave a size that depends on data.
    """

    distribution: str
    module: str
    covers: tuple[str, ...]
    since: str
    operators: tuple[str, ...]
    layers: frozenset[tuple[str, str]]
    sizes: frozenset[str] = frozenset()


# What the cases show.


def collected(packages: Sequence[str] = ()) -> list[CollectedCase]:
    """The cases of these packages; of all installed plugins, if none is named."""
    return [found for found in find_cases(packages) if isinstance(found, CollectedCase)]


def since(found: CollectedCase) -> str:
    """The version of its package from which on a case works: its own field, or the package's first version."""
    return str(found.case.since or _first_version(found.distribution))


@functools.cache
def _first_version(distribution: str) -> str:
    versions = re.findall(r"^## (\d\S*)", (ROOT / "packages" / distribution / "CHANGELOG.md").read_text(), re.MULTILINE)
    return str(versions[-1])


def measure(packages: Sequence[str], part: int, parts: int) -> list[Evidence]:
    """Export every `parts`-th case of the packages, beginning with that of number `part`."""
    evidence = []
    for found in collected(packages)[part::parts]:
        variant = Variant(found, "f32", is_symbolic(found.case))
        if variant.skip_reason is None:
            claimed: set[tuple[str, str]] = set()
            library = LIBRARIES.get(found.distribution)
            built = build(variant)
            registry = needed_plugins().registry  # with the plugins of the libraries that the case has imported
            declared = list(registry.composites)
            registry.composites[:] = [_recording(spec, claimed, library) for spec in declared]
            with _sizes_noted() as sizes:
                operators = tuple(map(operator_name, built.export().model.graph))
            registry.composites[:] = declared
            about = found.distribution, found.module, found.case.covers, since(found)
            evidence.append(
                Evidence(*about, tuple(o for o in operators if o != "Constant"), frozenset(claimed), frozenset(sizes))
            )
    return evidence


@contextlib.contextmanager
def _sizes_noted() -> Iterator[set[str]]:
    """Inside, the functions of JAX whose calls give sizes that depend on data are added to the set."""
    found: set[str] = set()
    new_size = Symbols.new_size

    def noting(*args: object, **kwargs: object) -> DataSize:
        found.update(filter(None, [_called_function(sys._getframe(1))]))
        return new_size(*args, **kwargs)  # type: ignore[arg-type]

    Symbols.new_size = noting  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Symbols.new_size = new_size  # type: ignore[method-assign]


#: Modules whose functions may give sizes, and what tables call indexing.
FUNCTIONS = ("jax.numpy", "jax.numpy.fft", "jax.lax", "jax.nn", "jax.ops", "jax.image", "jax.random")
INDEXING = {"_IndexUpdateRef": "x.at[…]", "_getitem": "x[…]"}


def _called_function(frame: FrameType | None) -> str | None:
    """The public function of JAX that a case called, from whose call the frame is; None where it is none."""
    calls: list[str] = []
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        is_between = frame.f_globals is globals() or module.partition(".")[0] in (
            "jax",
            "jax2onnx_core",
            "jax2onnx_lax",
        )
        if module.endswith("_cases") or not is_between:
            break
        calls += [frame.f_code.co_qualname] if module.startswith("jax.") else []
        frame = frame.f_back
    return next(filter(None, map(_public_function, reversed(calls))), None)


def _public_function(qualified: str) -> str | None:
    if qualified.partition(".")[0] in INDEXING:
        return INDEXING[qualified.partition(".")[0]]
    name = qualified.removeprefix("_")
    public = (f"{module}.{name}" for module in FUNCTIONS if name in vars(sys.modules[module]))
    return next((one for one in public if address(one) is not None), None)


def _recording(spec: CompositeSpec, claimed: set[tuple[str, str]], library: str | None) -> CompositeSpec:
    """The composite, whose function also notes what it claims, by the name in a library if that has the same function."""

    @functools.wraps(spec.fn)
    def claim(*args: object, **kwargs: object) -> Call | Replacement | None:
        call = spec.fn(*args, **kwargs)
        layer = _layer(spec.claimed, args, library)
        if call is not None and layer is not None:
            claimed.add((layer, spec.name))
        return call

    return dataclasses.replace(spec, fn=claim)


def _layer(claimed: str, args: Sequence[object], library: str | None) -> str | None:
    """The public name of what a composite claims: the class of the object, or the function; None for what is not public."""
    module, _, qualified = claimed.partition(":")
    if "." in qualified:
        return public_name(type(args[0]))
    if library is not None and not module.startswith("jax") and is_offered_by(library, f"{module}.{qualified}"):
        return f"{library}.{qualified}"
    name = f"{module}.{qualified}"
    return None if address(name) is None else name


def measure_programs(part: int, parts: int) -> list[tuple[str, str]]:
    """The functions of JAX that give sizes from data in every `parts`-th program of `examples/programs` with such sizes, with the program."""
    from examples import programs  # the check is made without the root of the repository on the path

    chosen = [one for one in programs.programs() if programs.has_sizes_from_data(one) and not one.refusal]
    found: list[tuple[str, str]] = []
    for one in chosen[part::parts]:
        with _sizes_noted() as functions:
            to_onnx(one.make(), programs.specs(one))
        found += [(function, one.name) for function in functions]
    return found


def measured(packages: Sequence[str]) -> list[Evidence]:
    """Export the cases of the packages; the evidence of each, in their order."""
    parts = os.cpu_count() or 1
    with _processes(parts) as pool:
        found = list(pool.map(measure, [packages] * parts, range(parts), [parts] * parts))
    return sorted((one for part in found for one in part), key=lambda one: (one.distribution, one.module, one.covers))


def measured_programs() -> list[tuple[str, str]]:
    """Export the programs; the functions that give sizes from data, and the programs."""
    parts = os.cpu_count() or 1
    with _processes(parts) as pool:
        return sorted(pair for part in pool.map(measure_programs, range(parts), [parts] * parts) for pair in part)


def _processes(number: int) -> concurrent.futures.ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")  # JAX has threads
    return concurrent.futures.ProcessPoolExecutor(number, mp_context=context)


# Rows.


def ways(registry: Registry, name: str) -> str:
    """Ways in which an operation is lowered, as text."""
    declared = {
        "rule": name in registry.rules,
        "decomposition": name in registry.decompositions,
        "complex": name in registry.complex_rules or name in registry.componentwise,
        "not in a file": name in registry.unsupported,
    }
    return ", ".join(way for way, holds in declared.items() if holds) or "original call"


def limitations() -> list[Limitation]:
    """Known limitations of the plugins' targets."""
    plugins = installed_plugins().manager.get_plugins()
    modules = [vars(plugin).get("LIMITATIONS", ()) for plugin in plugins]
    return [limitation for module in modules for limitation in module]


def link(text: str, target: str | None) -> str:
    """A link, or the text alone."""
    return text if target is None else f"[{text}]({target})"


def becomes(evidence: Sequence[Evidence]) -> str:
    """The operators that most of the graphs have, as the smallest of these has them, and those of other graphs, the most frequent first."""
    if not evidence:
        return ""
    sets = collections.Counter(frozenset(one.operators) for one in evidence)
    graphs = sorted((one.operators for one in evidence), key=lambda names: (-sets[frozenset(names)], len(names), names))
    main = list(dict.fromkeys(graphs[0]))
    counts = collections.Counter(name for one in evidence for name in set(one.operators) - set(main))
    others = sorted(counts, key=lambda name: (-counts[name], name))
    text = _listed(main) or "no operator"
    return f"{text}; also {_listed(others)}" if others else text


def alone(evidence: Sequence[Evidence], subjects: Callable[[Evidence], Sized]) -> Sequence[Evidence]:
    """The evidence of cases with one subject; all, if there is none."""
    return [one for one in evidence if len(subjects(one)) == 1] or evidence


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:OPERATORS])
    return f"{shown} and {len(names) - OPERATORS} more" if len(names) > OPERATORS else shown


def cases_of(evidence: Iterable[Evidence]) -> str:
    """The number of cases, with links to the files that have most of them."""
    counts = collections.Counter((one.distribution, one.module) for one in evidence)
    modules = sorted(counts, key=lambda where: (-counts[where], where))[:MODULES]
    links = [link(module.rpartition(".")[2], source(distribution, module)) for distribution, module in modules]
    return f"{counts.total()}: {', '.join(links)}" if links else "0"


def source(distribution: str, module: str) -> str | None:
    """The address of a module of cases, or None if it is not in this repository."""
    package = distribution.replace("-", "_")
    path = Path("packages", distribution, "src", package, *module.split(".")[1:])
    file = path.with_name(f"{path.name}_cases.py")
    return f"{SOURCES}/{file.as_posix()}" if (ROOT / file).exists() else None


def version_of(evidence: Sequence[Evidence]) -> str:
    """The version of the package from which on the first of the cases worked."""
    return min((one.since for one in evidence), key=_numbers, default="")


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


# Pages.


def owned(registry: Registry, distribution: str) -> list[str]:
    """The primitives and named operations that a distribution itself declares."""
    composites = {s.name for s in registry.composites if registry.owners[f"composite of {s.claimed}"] == distribution}
    primitives = {n for n in registry.operations() if registry.owners.get(f"primitive {n}") == distribution}
    return sorted(primitives | {n for n in composites if f"primitive {n}" not in registry.owners})


def operations_page(registry: Registry, distribution: str, evidence: Sequence[Evidence]) -> Iterator[str]:
    """The table of the operations that a distribution lowers."""
    by_name = grouped(evidence, lambda one: one.covers)
    yield "| operation | lowered by | becomes | since | cases |"
    yield "|---|---|---|---|---|"
    for name in owned(registry, distribution):
        shown, function = by_name.get(name, []), name if name.startswith("jax.") else public_operation(name)
        title = link(f"`{name}`", None if function is None else address(function))
        yield f"| {title} | {ways(registry, name)} | {becomes(alone(shown, lambda one: one.covers))} | {version_of(shown)} | {cases_of(shown)} |"


SIZES = """## Sizes from data

Functions of which the size of a result was found to depend on data, in the cases and in the programs of `examples/programs`; see
[Sizes from data](../guide/sizes.md).

| function | cases | programs |
|---|---:|---|"""


def sizes_page(evidence: Sequence[Evidence], found: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The table of the functions whose results have sizes that depend on data."""
    counts = collections.Counter(function for one in evidence for function in one.sizes)
    programs_of = grouped_pairs(found)
    yield SIZES
    for function in sorted({*counts, *programs_of}):
        names = programs_of.get(function, [])
        shown = f"{len(names)}: such as {names[0].partition('-')[2]}" if names else "0"
        title = link(function, address(function)) if function.startswith("jax.") else f"`{function}`"
        yield f"| {title} | {counts[function]} | {shown} |"


def grouped_pairs(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """The second ones of pairs by the first one."""
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def layers_page(evidence: Sequence[Evidence]) -> Iterator[str]:
    """The table of the layers that the composites of a distribution claim."""
    operations: dict[str, set[str]] = {}
    for layer, operation in sorted(pair for one in evidence for pair in one.layers):
        operations.setdefault(layer, set()).add(operation)
    by_layer = grouped(evidence, lambda one: {layer for layer, _ in one.layers})
    yield "| layer | as | becomes | since | cases |"
    yield "|---|---|---|---|---|"
    for layer, names in sorted(operations.items()):
        shown = by_layer[layer]
        title = link(f"`{layer}`", address(layer))
        listed = ", ".join(f"`{name}`" for name in sorted(names))
        yield f"| {title} | {listed} | {becomes(alone(shown, lambda one: one.layers))} | {version_of(shown)} | {cases_of(shown)} |"


def grouped(evidence: Iterable[Evidence], keys: Callable[[Evidence], Iterable[str]]) -> Mapping[str, list[Evidence]]:
    """The evidence for each name."""
    found: dict[str, list[Evidence]] = {}
    for one in evidence:
        for key in keys(one):
            found.setdefault(key, []).append(one)
    return found


def documented_cases(distribution: str) -> Iterator[str]:
    """The table of the cases of a distribution that say what they show."""
    texts = [(found.id, found.case.doc) for found in collected([distribution])]
    yield from (f"| `{name}` | {text} |" for name, text in texts if text)


def page(
    registry: Registry, distribution: str, evidence: Sequence[Evidence], found: Sequence[tuple[str, str]] = ()
) -> str:
    """The page of a distribution."""
    own = [one for one in evidence if one.distribution == distribution]
    lines = [f"# Coverage of {distribution}", COLUMNS]
    library = [one for one in own if any(not layer.startswith("jax.") for layer, _ in one.layers)]
    if library:
        own_layers = [dataclasses.replace(one, layers=_of_library(one)) for one in library]
        lines += ["## Layers\n", *layers_page(own_layers), ""]
    if owned(registry, distribution):
        lines += ["## Operations\n", *operations_page(registry, distribution, own), ""]
    if any(one.sizes for one in own):
        lines += [*sizes_page(own, found), ""]
    shows = list(documented_cases(distribution))
    if shows:
        lines += ["## What cases show\n", "| case | shows |", "|---|---|", *shows]
    return "\n".join(lines).rstrip("\n") + "\n"


def _of_library(one: Evidence) -> frozenset[tuple[str, str]]:
    return frozenset(pair for pair in one.layers if not pair[0].startswith("jax."))


def index(registry: Registry) -> Iterator[str]:
    """The page that leads to the others, with what cannot be in a file, and with limitations."""
    yield INTRODUCTION
    counts = collections.Counter(found.distribution for found in collected())
    for distribution, count in sorted(counts.items()):
        file = page_of(distribution)
        rows = [row for row in file.read_text().splitlines() if re.match(r"\| \[?`", row)]
        yield f"| [{distribution}](coverage/{file.name}) | {len(rows)} | {count} |"
    yield "\n## Not in a file\n"
    yield "| primitive | why | instead |"
    yield "|---|---|---|"
    for name, why in sorted(registry.unsupported.items()):
        yield f"| `{name}` | {why.reason} | {why.advice} |"
    known = limitations()
    if known:
        yield "\n## Limitations\n"
        yield "| of | dtypes | why |"
        yield "|---|---|---|"
        for limitation in known:
            yield f"| {limitation.subject} | {', '.join(limitation.dtypes) or 'all'} | {limitation.reason} |"


def missing() -> list[str]:
    """The operations that stand on no page."""
    text = "\n".join(file.read_text() for file in [INDEX, *sorted(PAGES.glob("*.md"))])
    return [name for name in installed_plugins().registry.operations() if f"`{name}`" not in text]


def page_of(distribution: str) -> Path:
    """The file of the page about a distribution."""
    return PAGES / f"{distribution.removeprefix('jax2onnx-')}.md"


def write(packages: Sequence[str]) -> None:
    """Export the cases of the packages, or all, and write their pages and the index."""
    registry, evidence = installed_plugins().registry, measured(packages)
    PAGES.mkdir(exist_ok=True)
    found = measured_programs() if any(one.sizes for one in evidence) else []
    for distribution in sorted({one.distribution for one in evidence}):
        page_of(distribution).write_text(page(registry, distribution, evidence, found))
    INDEX.write_text("\n".join(index(registry)) + "\n")


def main() -> int:
    if sys.argv[1:] != ["--check"]:
        write(sys.argv[1:])
        return 0
    if absent := missing():
        print(
            f"docs/coverage lacks {', '.join(absent)}: run python tools/coverage_table.py with the name of the package"
        )
    return 1 if absent else 0


if __name__ == "__main__":
    raise SystemExit(main())
