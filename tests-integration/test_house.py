"""The rules of the house that a linter does not know: names, sizes, imports, types."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import check_release
import layer_operations
import pytest
from jax2onnx_testing.collection import find_cases

pytestmark = pytest.mark.sampled(None)

ROOT = Path(__file__).parent.parent
SOURCES = {path.name: path for path in sorted(ROOT.glob("packages/*/src/jax2onnx_*"))}
CORE = SOURCES["jax2onnx_core"]

# The packages that know nothing of JAX and of plugins.
_OF_MODELS = {"jax2onnx_graph", "jax2onnx_runtime", "jax2onnx_report"}

MOST_ANY = 400
MOST_LINES_OF_A_FUNCTION = 60

# Strings of core that are names of primitives too, and mean something else.
NOT_PRIMITIVES = {
    "name",  # a param of equations
    "max", "min",  # in expressions of dimensions
}  # fmt: skip

FRAMEWORKS = r"flax|nnx|linen|equinox|haiku|keras|penzai|optax"
RUNTIMES = r"(?<!jax2)onnx[ _-]?runtime|openvino|tensorrt|qnn|iree"
PLUGINS = "|".join(name.replace("_", "[_-]") for name in SOURCES if name not in (*_OF_MODELS, "jax2onnx_core"))


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(), str(file))


@cache
def modules(package: Path) -> list[Path]:
    """The modules of a package; the files of its templates are those of other packages."""
    return sorted(file for file in package.rglob("*.py") if "template" not in file.relative_to(package).parts)


def place(file: Path, node: ast.AST) -> str:
    return f"{file.relative_to(ROOT)}:{vars(node).get('lineno', 1)}"


# -- types ----------------------------------------------------------------------------------


def test_any_is_rare() -> None:
    files = [file for source in SOURCES.values() for file in modules(source)]
    counts = {str(file.relative_to(ROOT)): len(re.findall(r"\bAny\b", file.read_text())) for file in files}
    total = sum(counts.values())
    worst = sorted(counts.items(), key=lambda item: -item[1])[:10]
    assert total < MOST_ANY, worst


def test_the_context_is_typed() -> None:
    files = [file for source in SOURCES.values() for file in modules(source)]
    found = [str(file.relative_to(ROOT)) for file in files if re.search(r"\bctx: Any\b", file.read_text())]
    assert not found, "\n".join(found)


# -- reasons --------------------------------------------------------------------------------

# Reasons, or the longest parts of them, that no test shows yet; whoever shows one takes it out.
NOT_SHOWN = {
    "an axis may be empty", "has no LinearAttention for", "has no Pad for", "is not accurate to it",
    "its kernel is the transpose of a weight that is read already", "a size that has to be a number is symbolic", "a window may be larger than its axis, by an unknown number of elements",
    "gathered matrices are multiplied elementwise", "how many tokens there are is not known, nor whether they are fewer than slots",
    "its sizes cannot be compared", "JAX does not compute all of its steps at once (",
    "no value that its steps hand on is computed faster in another form",
    "the experts are so small that choosing slots takes longer than computing all",
    "the experts do not exclude each other, so that the order in which they replace each other counts",
    "the gates are not the same for all features of a token", "the number of groups is an attribute of Conv, which is no number here",
    "the number of groups is not known", "the numbers of gathered matrices may be out of range",
    "there are no more slots than tokens", "where its counter starts is not known",
}  # fmt: skip


def reasons_for_declining(module: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """The calls that decline with a reason written there, and the longest part of the reason between its values."""
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name | ast.Attribute)):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        parts = [node.args[0]] if isinstance(node.args[0], ast.Constant) else vars(node.args[0]).get("values", [])
        texts = [part.value.strip() for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if name in ("Declined", "decline", "pass_on") and texts:
            yield node, max(texts, key=len)


@cache
def words_of_tests() -> str:
    """All strings of the tests and cases, one after the other."""
    patterns = ("packages/*/tests/**/*.py", "packages/*/src/**/*_cases.py", "tests-integration/**/*.py")
    files = [file for pattern in patterns for file in ROOT.glob(pattern) if file != Path(__file__)]
    nodes = (node for file in files for node in ast.walk(tree(file)))
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("package", sorted(SOURCES.keys() - {"jax2onnx_testing"}))
def test_a_test_shows_each_reason_for_declining(package: str) -> None:
    """A condition that declines for no reason that a test knows can be turned round without any test noticing."""
    hidden = {
        text: place(file, node)
        for file in modules(SOURCES[package])
        for node, text in reasons_for_declining(tree(file))
        if text not in words_of_tests() and text not in NOT_SHOWN
    }
    assert not hidden


def test_what_is_not_shown_is_a_reason_that_no_test_names() -> None:
    files = [file for source in SOURCES.values() for file in modules(source)]
    assert {text for file in files for _, text in reasons_for_declining(tree(file))} >= NOT_SHOWN
    assert not [reason for reason in NOT_SHOWN if reason in words_of_tests()]


# -- names ----------------------------------------------------------------------------------


def docstrings(module: ast.Module) -> set[int]:
    """The ids of the constants that are docstrings."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = (node.body for node in ast.walk(module) if isinstance(node, owners))
    return {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}


def exported(module: ast.Module) -> set[int]:
    """The ids of the constants in `__all__`."""
    lists = (n.value for n in module.body if isinstance(n, ast.Assign) and "__all__" in map(ast.unparse, n.targets))
    return {id(node) for value in lists for node in ast.walk(value)}


def strings(file: Path) -> Iterator[tuple[str, str]]:
    """Each string constant of the module that is neither a docstring nor a public name, and its place."""
    spared = docstrings(tree(file)) | exported(tree(file))
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spared:
            yield node.value, place(file, node)


def lines_with(pattern: re.Pattern[str], package: str) -> list[str]:
    """The lines of a package's modules in which the pattern is found, with their places."""
    return [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in modules(SOURCES[package])
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if pattern.search(line)
    ]


def test_core_names_no_plugin_framework_or_runtime() -> None:
    foreign = re.compile(rf"\b({FRAMEWORKS}|{RUNTIMES}|{PLUGINS})\b", re.IGNORECASE)
    found = [f"{where}: {text!r}" for file in modules(CORE) for text, where in strings(file) if foreign.search(text)]
    assert not found, "\n".join(found)


def test_core_names_no_operation() -> None:
    from jax2onnx_core.plugins.discovery import installed_plugins

    operations = set(installed_plugins().registry.operations())
    named = [(text, where) for file in modules(CORE) for text, where in strings(file) if text in operations]
    found = [f"{where}: {text!r}" for text, where in named if text not in NOT_PRIMITIVES]
    assert not found, "\n".join(found)
    assert {text for text, _ in named} == NOT_PRIMITIVES


@pytest.mark.parametrize(
    "package",
    [
        "jax2onnx_graph",
        "jax2onnx_fusions",
        "jax2onnx_runtime",
        "jax2onnx_report",
        "jax2onnx_lax",
        "jax2onnx_nnx",
        "jax2onnx_functions",
        "jax2onnx_testing",
    ],
)
def test_only_a_target_names_a_runtime(package: str) -> None:
    runtime = re.compile(RUNTIMES, re.IGNORECASE)
    found = lines_with(runtime, package)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", SOURCES)
def test_nobody_writes_into_the_attributes_of_an_object_as_a_dict(package: str) -> None:
    written = re.compile(r"\bvars\([^()]+\)(\[[^\]]+\] = |\.(update|pop|setdefault|clear)\()")
    found = lines_with(written, package)
    assert not found, "\n".join(found)


def test_pytest_goes_into_every_folder_of_tests(pytestconfig: pytest.Config) -> None:
    """By itself it goes into none that is called "build" or "dist"."""
    left_out = pytestconfig.getini("norecursedirs")
    folders = {file.parent.relative_to(ROOT) for file in ROOT.glob("packages/*/tests/**/test_*.py")}
    assert not [str(one) for one in folders if any(fnmatch(part, out) for part in one.parts for out in left_out)]


@pytest.mark.parametrize("package", SOURCES)
def test_folders_of_tests_are_named_after_rooms(package: str) -> None:
    source, tests = SOURCES[package], SOURCES[package].parent.parent / "tests"
    rooms = {tuple(part.lstrip("_") for part in file.parent.relative_to(source).parts) for file in modules(source)}
    found = [file for file in tests.rglob("test_*.py") if file.parent.relative_to(tests).parts not in rooms]
    assert not found, "\n".join(str(file.relative_to(ROOT)) for file in found)


# -- sizes ----------------------------------------------------------------------------------


def function_length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, its decorators and its docstring apart."""
    first = node.body[0]
    docstring = first if isinstance(first, ast.Expr) and ast.get_docstring(node, clean=False) is not None else None
    spared = (docstring.end_lineno or 0) - docstring.lineno + 1 if docstring else 0
    return (node.end_lineno or node.lineno) - node.lineno + 1 - spared


@pytest.mark.parametrize("package", SOURCES)
def test_functions_are_short(package: str) -> None:
    long = [
        f"{place(file, node)}: {node.name} has {function_length(node)} lines"
        for file in modules(SOURCES[package])
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and function_length(node) > MOST_LINES_OF_A_FUNCTION
    ]
    assert not long, "\n".join(long)


# -- imports --------------------------------------------------------------------------------


def module_name(package: Path, file: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(file: Path) -> Iterator[tuple[str, str | None, ast.AST]]:
    """Every import of the module, also those inside functions and `if TYPE_CHECKING`: (module, name or None, node)."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{place(file, node)}: a relative import"
            yield from ((str(node.module), alias.name, node) for alias in node.names)


def import_graph(package: Path) -> dict[str, set[str]]:
    """Modules of its own package that each module imports."""
    names = {module_name(package, file): file for file in modules(package)}
    graph: dict[str, set[str]] = {name: set() for name in names}
    for name, file in names.items():
        for module, member, _ in imported(file):
            target = f"{module}.{member}" if f"{module}.{member}" in names else module
            if target in names:
                graph[name].add(target)
    return graph


@pytest.mark.parametrize("package", SOURCES)
def test_imports_have_no_circle(package: str) -> None:
    circle: list[str] = []
    try:
        TopologicalSorter(import_graph(SOURCES[package])).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert not circle, " -> ".join(reversed(circle))  # the way of the imports


@pytest.mark.parametrize("package", SOURCES)
def test_rooms_are_passed_in_one_direction(package: str) -> None:
    """The rooms of a package, its folders and the modules of its top, import each other without a circle: a reader walks forward."""
    rooms: dict[str, set[str]] = {}
    for name, targets in import_graph(SOURCES[package]).items():
        own = name.split(".")[1:2]
        wanted = {target.split(".")[1] for target in targets if "." in target}
        if own:
            rooms.setdefault(own[0], set()).update(wanted - set(own))
    TopologicalSorter(rooms).prepare()  # raises CycleError


@cache
def public_names(name: str) -> set[str]:
    """The names in `__all__` of a module of this repository, and its submodules."""
    file = next(file for package in SOURCES.values() for file in modules(package) if module_name(package, file) == name)
    lists = (n.value for n in tree(file).body if isinstance(n, ast.Assign) and "__all__" in map(ast.unparse, n.targets))
    below = [path.stem for path in file.parent.iterdir()] if file.stem == "__init__" else []
    return {*below, *(str(text) for value in lists for text in ast.literal_eval(value))}


def test_only_the_editor_and_the_recorder_know_where_values_come_from() -> None:
    """A pass changes the record of origins through the editor; `EquationRecorder` begins and reads it."""
    readers = {
        str(file.relative_to(ROOT))
        for package in SOURCES.values()
        for file in modules(package)
        for module, member, _ in imported(file)
        if "jax2onnx_graph.build.origins" in (module, f"{module}.{member}")
    }
    assert readers == {
        "packages/jax2onnx-core/src/jax2onnx_core/lowering/_lowered_equations.py",
        "packages/jax2onnx-graph/src/jax2onnx_graph/rewrite/editor.py",
    }


@pytest.mark.parametrize("package", SOURCES)
def test_what_a_package_imports_of_another_is_public(package: str) -> None:
    """A name in `__all__` of a module without an underscore in its path: what the reference pages show."""
    found = [
        f"{place(file, node)}: {module} {member or ''}"
        for file in modules(SOURCES[package])
        for module, member, node in imported(file)
        if module.split(".")[0] in SOURCES
        and module.split(".")[0] != package
        and (
            any(part.startswith("_") and not part.endswith("__") for part in [*module.split("."), member or ""])
            or (member is not None and member not in public_names(module))
        )
    ]
    assert not found, "\n".join(found)


_OF_PLUGINS = {*_OF_MODELS, "jax2onnx_core"}
ABOVE: dict[str, set[str]] = {
    "jax2onnx_graph": set(),
    "jax2onnx_fusions": {"jax2onnx_graph"},
    "jax2onnx_runtime": {"jax2onnx_graph"},
    "jax2onnx_generation": {"jax2onnx_graph", "jax2onnx_runtime"},
    "jax2onnx_report": {"jax2onnx_graph"},
    "jax2onnx_onnxruntime": {"jax2onnx_graph", "jax2onnx_runtime", "jax2onnx_core"},
    "jax2onnx_openvino": {"jax2onnx_graph", "jax2onnx_runtime", "jax2onnx_core"},
    "jax2onnx_qnn": {"jax2onnx_graph", "jax2onnx_runtime", "jax2onnx_onnxruntime", "jax2onnx_core"},
    "jax2onnx_core": _OF_MODELS,
    "jax2onnx_lax": _OF_PLUGINS,
    **{
        f"jax2onnx_{framework}": {*_OF_PLUGINS, "jax2onnx_lax"}
        for framework in ("nnx", "linen", "equinox", "haiku", "keras")
    },
    "jax2onnx_functions": _OF_PLUGINS,
    "jax2onnx_ray": {"jax2onnx_graph", "jax2onnx_runtime"},
    "jax2onnx_training": _OF_PLUGINS,
    "jax2onnx_genai": {"jax2onnx_graph", "jax2onnx_runtime", "jax2onnx_generation"},
    "jax2onnx_transformersjs": {"jax2onnx_graph", "jax2onnx_runtime", "jax2onnx_generation"},
    "jax2onnx_tensorrt": {"jax2onnx_graph", "jax2onnx_runtime", "jax2onnx_generation", "jax2onnx_core"},
    "jax2onnx_testing": set(SOURCES),
    "jax2onnx_cli": {*_OF_PLUGINS, "jax2onnx_generation", "jax2onnx_training"},
}


@pytest.mark.parametrize("package", SOURCES)
def test_packages_import_only_what_lies_below_them(package: str) -> None:
    found = [
        f"{place(file, node)}: {module}"
        for file in modules(SOURCES[package])
        for module, _, node in imported(file)
        if module.split(".")[0] in SOURCES.keys() - ABOVE[package] - {package}
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", SOURCES)
def test_private_jax_is_in_compat_alone(package: str) -> None:
    found = [
        f"{place(file, node)}: {module}"
        for file in modules(SOURCES[package])
        for module, _, node in imported(file)
        if module.startswith(("jax._src", "jaxlib")) and not file.stem.startswith("_compat")
    ]
    assert not found, "\n".join(found)


# What a plugin of a framework needs, first-party or not: the names of these modules.
FOR_PLUGINS = {
    "jax2onnx_core",
    "jax2onnx_core.jax_types",
    "jax2onnx_core.jaxprs",
    "jax2onnx_graph.build.names",
    "jax2onnx_lax.dtypes",
    "jax2onnx_lax.padding",
    *(f"jax2onnx_lax.nn.{name}" for name in ("attention", "bindings", "flax_layers", "linear", "pooling")),
}


@pytest.mark.parametrize("framework", ["nnx", "linen", "equinox", "haiku", "keras"])
def test_framework_packages_import_what_a_third_party_would(framework: str) -> None:
    package = f"jax2onnx_{framework}"
    found = [
        f"{place(file, node)}: {module}"
        for file in modules(SOURCES[package])
        for module, _, node in imported(file)
        if module.split(".")[0] in SOURCES.keys() - {package} and module not in FOR_PLUGINS
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/architecture.md"])
def test_the_map_of_distributions_is_whole(page: str) -> None:
    cells = re.findall(r"^\| ([^|]*) \|", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(jax2onnx-\w+)`", cell)}
    assert named == {folder.parent.name for folder in ROOT.glob("packages/*/pyproject.toml")}


def test_every_package_with_cases_runs_each_night() -> None:
    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    found = re.search(r"package: \[(.*)\]", nightly)
    assert found is not None
    owners = {found.distribution.removeprefix("jax2onnx-") for found in find_cases()}
    assert set(found[1].split(", ")) == owners


@pytest.mark.parametrize("workflow", ["ci", "nightly"])
def test_tests_run_on_every_python_that_packages_declare(workflow: str) -> None:
    text = (ROOT / ".github" / "workflows" / f"{workflow}.yml").read_text(encoding="utf-8")
    assert f"python: {json.dumps(check_release.PYTHONS)}" in text


def test_actions_are_pinned_by_commit() -> None:
    used = [use for file in ROOT.glob(".github/workflows/*.yml") for use in re.findall(r"uses: (.*)", file.read_text())]
    assert [use for use in used if not re.fullmatch(r"\./\S+|\S+@[0-9a-f]{40} # v[\d.]+", use)] == []


def test_every_layer_operation_has_a_docstring_for_the_reference() -> None:
    assert all(" " in "".join(layer_operations.section(operation)) for operation in layer_operations.operations())


def test_every_operation_stands_on_a_page_of_coverage() -> None:
    tool = ROOT / "tools" / "coverage_table.py"
    result = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_package_could_be_released() -> None:
    tool = ROOT / "tools" / "check_release.py"
    result = subprocess.run([sys.executable, str(tool)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
