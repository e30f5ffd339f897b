"""Changes of the sources, one at a time: which of them do the tests beside the changed file notice?

cosmic-ray makes the mutants. Each stands in a copy of its package's sources, which comes first on the path of its tests: the sources
themselves stay as they are. A mutant is noticed where a test fails that passes without it, or where the tests do not end.

    python tools/mutants.py [PATH ...] [--count 30] [--seed 7] [--floor 0.7] [--seconds 60] [--jobs 1]

The tests of a file are its cases, the file of tests that has its name, the tests that import it, then those of the files that import it,
then the formulas of its passes, then the tests and cases of its room: two parameters of each. Then the first of these with all parameters,
then the tests of other packages that import it or what imports it, and those of its package, the nearest files first, and at last all
parameters of all these, as long as time allows. Time is that of the processor, so that a busy machine gives the same verdicts; the libraries are imported once, for all runs.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import dataclasses
import difflib
import functools
import importlib
import math
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
FORMULAS = ROOT / "tests-integration" / "fuzzing" / "test_formulas.py"
# Without those that need arguments or do nothing, and those that exchange `is` and `==`, which mean the same in most places.
OPERATORS = {
    name: get_operator(name)()
    for name in operator_names()
    if not re.search(r"/Variable|/NoOp|(?<!Is)_Is(Not)?$|Comparison\w*_Is(Not)?_(?!Is)", name)
}
_WHOLE = ["-o", "jax2onnx_sampled="]
PYTEST = ["-q", "-x", "-rfE", "-p", "no:cacheprovider", "--jax2onnx-quick", "-o", "jax2onnx_sampled=2"]
# Tests run in copies of a process that has imported what the packages stand on, but no package.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["jax.numpy", "onnx.reference", "onnx_ir", "onnxruntime", "pytest"])
# A run that takes so much longer than its time of the processor waits for something.
_WAITING = 20
_FAILED = re.compile(r"^FAILED (.*?)(?: - .*)?$", re.MULTILINE)
_MISSING = re.compile(r"^ERROR: not found: (.*)$", re.MULTILINE)


# -- mutants --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A file with one change, made by an operator of cosmic-ray."""

    path: Path
    operator: str
    source: str

    @property
    def difference(self) -> str:
        """The changed lines."""
        before, after = self.path.read_text().splitlines(), self.source.splitlines()
        name = str(self.path.relative_to(ROOT))
        return "\n".join(difflib.unified_diff(before, after, name, name, lineterm="", n=1))


def random_mutants(files: Sequence[Path], chance: random.Random) -> Iterator[Mutant]:
    """Mutants of files, the longer a file the more."""
    weights = [file.stat().st_size for file in files]
    while True:
        [file] = chance.choices(files, weights)
        mutant = random_mutant(file, chance)
        if mutant is not None:
            yield mutant


def random_mutant(path: Path, chance: random.Random) -> Mutant | None:
    """A change at a random place; None where nothing can be changed but annotations."""
    source = path.read_text()
    nodes = list(ast_nodes(get_ast(source)))
    for at in chance.sample(range(len(nodes)), len(nodes)):
        found = [name for name, operator in OPERATORS.items() for _ in operator.mutation_positions(nodes[at])]
        if not found:
            continue
        operator = chance.choice(found)
        earlier = sum(1 for node in nodes[:at] for _ in OPERATORS[operator].mutation_positions(node))
        changed = mutate_code(source, OPERATORS[operator], earlier + chance.randrange(found.count(operator)))
        if changed is not None and without_annotations(changed) not in (without_annotations(source), ""):
            return Mutant(path, operator, changed)
    return None


def without_annotations(source: str) -> str:
    """What a source does, whatever its types and lengths are said to be, what is never set, and how much is cached; "" for no Python.

    Nearly all nodes have one result, which is their last as well.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.keyword) and node.arg in ("strict", "frozen"):
            node.value = ast.Constant(None)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.test = ast.Constant(None)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "functools.lru_cache":
            node.args = []
        elif isinstance(node, ast.Subscript) and ast.unparse(node).endswith(".outputs[-1]"):
            node.slice = ast.Constant(0)
    return ast.dump(tree)


# -- the tests of a file --------------------------------------------------------------------


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """The modules that a file imports, and what may be modules among the names it imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(found)


def package_of(path: Path) -> Path:
    """The folder of the distribution that a source belongs to."""
    return next(parent.parent for parent in path.parents if parent.name == "src")


def importers(path: Path, folder: Path) -> list[Path]:
    """The files of a folder that import a source."""
    module = ".".join(path.relative_to(package_of(path) / "src").with_suffix("").parts).removesuffix(".__init__")
    return [file for file in sorted(folder.rglob("*.py")) if module in imported(file)]


def own_tests(path: Path) -> set[Path]:
    """The cases of a source, the tests that have its name, and those that import it."""
    cases, tests = path.with_name(f"{path.stem}_cases.py"), package_of(path) / "tests"
    naming = [file for file in importers(path, tests) if file.name.startswith("test_")]
    return {*([cases] if cases.exists() else []), *tests.rglob(f"test_{path.stem.lstrip('_')}.py"), *naming}


def tests_of(path: Path) -> list[list[str]]:
    """What a developer of a source runs, one after the other, as arguments of pytest.

    Its own tests, those of the files that import it, its formulas, those of its room, then the first of these with all parameters,
    then those of other packages that import it or what imports it, and those of its package, and at last all parameters of all these.
    """
    package = package_of(path)
    own, near, *far = nearest_tests(path)
    names = [" and ".join(re.findall(r"[^ ,]+", name)) for name in formulas_of(path)]
    formula_tests = [str(FORMULAS.relative_to(ROOT)), "-k", " or ".join(f"({name})" for name in names)]
    room = tests_in(package.joinpath("tests", *path.relative_to(package / "src").parts[1:-1]))
    room += sorted(path.parent.glob("*_cases.py"))
    users, folders = [path, *importers(path, package / "src")], sorted(ROOT.glob("packages/*/tests"))
    elsewhere = [file for user in users for folder in folders for file in importers(user, folder)]
    rest = [file for file in elsewhere if file.name.startswith("test_")] + [test for tests in far for test in tests]
    rest += [*tests_in(package / "tests"), *sorted((package / "src").rglob("*_cases.py"))]
    seen: set[Path] = set()
    groups = [in_root(unseen(group, seen)) for group in (own, near, room, rest)]
    last = [test for group in groups[1:] for test in group]
    groups.insert(2, formula_tests if names else [])
    found = [tests for tests in groups if tests]
    return [*found[:-1], [*found[0], *_WHOLE], *found[-1:], *([[*last, *_WHOLE]] if last else [])]


def nearest_tests(path: Path) -> list[list[Path]]:
    """The own tests of a source, of the files of its package that import it, of those that import them, and so on."""
    folder, files, seen = package_of(path) / "src", [path], {path}
    found: list[list[Path]] = []
    while files or len(found) < 2:
        found.append(sorted({test for file in files for test in own_tests(file)}))
        files = unseen((user for file in files for user in importers(file, folder)), seen)
    return found


def unseen(paths: Iterable[Path], seen: set[Path]) -> list[Path]:
    """The paths that were not seen before, which they are now."""
    new = [path for path in dict.fromkeys(paths) if path not in seen]
    seen.update(new)
    return new


def tests_in(folder: Path) -> list[Path]:
    """The files of tests in a folder."""
    return sorted(folder.rglob("test_*.py"))


def in_root(paths: Iterable[Path]) -> list[str]:
    """The paths in the repository."""
    return [str(path.relative_to(ROOT)) for path in paths]


@functools.cache
def formulas() -> dict[str, list[str]]:
    """The names of passes → the formulas that need them."""
    sys.path.insert(0, str(FORMULAS.parents[1]))
    catalogue = importlib.import_module("fuzzing.formula_catalogue")
    found: dict[str, list[str]] = {}
    for formula in catalogue.FORMULAS:
        for name in formula.passes:
            found.setdefault(name, []).append(formula.name)
    return found


def formulas_of(path: Path) -> list[str]:
    """The formulas of the passes that a source defines, or else of the passes of its room."""
    if "fusions" not in package_of(path).name:
        return []
    passes = {name for name in formulas() if f"class {name}(" in path.read_text()}
    room = "".join(file.read_text() for file in path.parent.glob("*.py"))
    passes = passes or {name for name in formulas() if f"class {name}(" in room}
    return sorted({formula for name in passes for formula in formulas()[name]})


# -- runs -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the tests say of a mutant.

    Attributes:
      is_noticed: whether they fail, or do not end though they do without the mutant.
      detail: the test that failed, or why none did.
      seconds: the time of the processor that it took.
    """

    is_noticed: bool
    detail: str
    seconds: float


def judged(mutant: Mutant, seconds: float) -> Verdict:
    """The verdict of the tests of the file on a mutant, which may take so many seconds."""
    selections = tests_of(mutant.path)
    for selection in selections:
        verdict = run(mutant, selection, seconds)
        seconds -= verdict.seconds
        if verdict.is_noticed or seconds < 1:
            break
    if verdict.is_noticed:
        return verdict
    files = list(dict.fromkeys(file for selection in selections for file in selection if file not in _WHOLE))
    rest = f" and {len(files) - 4} more" if len(files) > 4 else ""
    return dataclasses.replace(verdict, detail=f"{verdict.detail}: {' '.join(files[:4])}{rest}")


def run(mutant: Mutant | None, selection: Sequence[str], seconds: float) -> Verdict:
    """The verdict of these tests on a mutant, or on the sources as they are."""
    done = pytest_run(mutant, selection, seconds)
    if done is None:
        # Half of the time leaves no doubt.
        ends = mutant is not None and pytest_run(None, selection, seconds / 2) is not None
        return Verdict(ends, "the tests do not end" if ends else "the tests take too long", seconds)
    code, output = done
    output, _, spent = output.rpartition("\n")
    if mutant is not None and "ImportError while loading conftest" in output:
        return Verdict(True, "a conftest cannot be imported", float(spent))
    if code == 4 or not spent:
        raise RuntimeError(f"pytest does not understand {selection}: {output}")
    if code in (0, 5):
        return Verdict(False, "no test fails" if code == 0 else "no test was found", float(spent))
    failed = _FAILED.search(output)
    return Verdict(True, failed[1] if failed else f"pytest ended with {code}", float(spent))


def existing(tests: Sequence[str], seconds: float) -> list[str]:
    """Those of some tests that there are without a mutant: one that changes a table changes the parameters of tests."""
    done = pytest_run(None, ["--collect-only", *tests], seconds) if tests else None
    missing = [] if done is None or done[0] != 4 else _MISSING.findall(done[1])
    return [test for test in tests if not any(one.endswith(test.partition("[")[0]) for one in missing)]


def pytest_run(mutant: Mutant | None, selection: Sequence[str], seconds: float) -> tuple[int, str] | None:
    """The exit code and the output of these tests, the seconds that they took in its last line; None if they take longer."""
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile("r") as output:
        path = [str(ROOT / "tools")]
        if mutant is not None:
            source = package_of(mutant.path) / "src"
            shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            (Path(folder) / mutant.path.relative_to(source)).write_text(mutant.source)
            path.insert(0, folder)
        process = _PROCESSES.Process(target=run_pytest, args=(path, [*PYTEST, *selection], seconds, output.name))
        process.start()
        process.join(_WAITING * seconds)
        if process.exitcode in (None, -signal.SIGXCPU):
            process.kill()
            process.join()
            return None
        if process.exitcode < 0:  # a crash
            return process.exitcode, f"{output.read()}\n{seconds}"
        return process.exitcode, output.read()


def run_pytest(path: Sequence[str], arguments: Sequence[str], seconds: float, output: str) -> None:
    """End this process with the exit code of pytest; `path` comes first on the path of Python, the text goes to the file `output`."""
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), resource.RLIM_INFINITY))
    file = os.open(output, os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.chdir(ROOT)
    sys.path[:0] = path
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONPATH": os.pathsep.join(path), "PYTHONPYCACHEPREFIX": "", "PYTHONDONTWRITEBYTECODE": "1"}
    code = int(pytest.main(list(arguments)))
    print(f"\n{time.process_time()}", end="", flush=True)
    os._exit(code)


def is_for_cases(path: Path) -> bool:
    """Whether a file holds cases, or is imported by nothing else."""
    users = importers(path, package_of(path) / "src")
    return path.name.endswith("_cases.py") or (bool(users) and all(user.name.endswith("_cases.py") for user in users))


def sources(paths: Sequence[Path]) -> list[Path]:
    """The Python files of the packages, or those in some folders, without cases and what only these import."""
    folders = [path.resolve() for path in paths] or sorted(ROOT.glob("packages/*/src"))
    files = [file for folder in folders for file in ([folder] if folder.is_file() else sorted(folder.rglob("*.py")))]
    return [file for file in files if "src" in file.parts and not is_for_cases(file)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="sources or folders of sources; all packages by default")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86_400, help="another one each day")
    parser.add_argument("--floor", type=float, default=0.7, help="the share of noticed mutants below which it fails")
    parser.add_argument("--seconds", type=float, default=60, help="so long may the tests of one mutant take")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    print(f"--seed {args.seed}", flush=True)
    made = random_mutants(sources(args.paths), random.Random(args.seed))
    mutants = [next(made) for _ in range(args.count)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        verdicts = []
        for mutant, verdict in zip(mutants, pool.map(lambda m: judged(m, args.seconds), mutants), strict=True):
            verdicts.append(verdict)
            word = "noticed" if verdict.is_noticed else "SURVIVED"
            told = f"{mutant.path.relative_to(ROOT)}, {mutant.operator}, {verdict.seconds:.0f} s"
            print(f"{word}: {told}: {verdict.detail}", flush=True)
            if not verdict.is_noticed:
                print(mutant.difference, flush=True)
    named = existing(sorted({v.detail for v in verdicts if v.is_noticed and "::" in v.detail}), 10 * args.seconds)
    if named and (broken := run(None, named, 10 * args.seconds)).is_noticed:
        sys.exit(f"Fails without a mutant: {broken.detail}")
    share = sum(verdict.is_noticed for verdict in verdicts) / len(verdicts)
    print(f"{share:.0%} of {len(verdicts)} mutants were noticed; the floor is {args.floor:.0%}.")
    if share < args.floor:
        sys.exit(1)


if __name__ == "__main__":
    main()
