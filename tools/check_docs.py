"""The blocks of the documentation run, Python and command lines, each page in one namespace; every relative link exists; the reference
is whole.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.metadata
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import conformance
import layer_operations
import pytest
import reference_pages
from jax2onnx_cli.app import main

# These pages are not committed.
reference_pages.write()
layer_operations.write()

HAS_RAY = importlib.util.find_spec("ray") is not None

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(ROOT.glob("packages/*/README.md")),
]
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r'^```python title="(.+?)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#]+)(?:#[^)]*)?\)")


def identifier(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_links_exist(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing


def test_each_cell_of_the_comparison_has_its_evidence() -> None:
    rows = re.findall(r"^\| \w.*$", (ROOT / "docs" / "comparison.md").read_text(), re.MULTILINE)
    cells = [cell.strip() for row in rows for cell in row.strip("| ").split(" | ")[1:]]
    assert len(cells) == 6 * (3 + 3 + 3 + 4)
    assert not [cell for cell in cells if cell != "not stated" and "](" not in cell]


def test_the_conformance_as_data_is_that_of_the_page() -> None:
    page, rows = conformance.PAGE.read_text(), json.loads(conformance.DATA.read_text())
    assert (
        "\n".join([*conformance.table("group", rows, "primitive"), *conformance.table("dtype", rows, "dtype")]) in page
    )
    [(passed, total)] = re.findall(r"\*\*(\d+) of (\d+) pass", page.partition(conformance.SWEEP)[0])
    assert (sum(row["pass"] for row in rows), sum(row[s] for row in rows for s in conformance.STATUSES)) == (
        int(passed),
        int(total),
    )


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=identifier)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "tests-integration" / "third-party" / "src"))
    text = page.read_text()
    if not HAS_RAY and "import ray" in text:
        pytest.skip("`nox -s ray` runs it")
    namespace: dict[str, object] = {"__name__": "page"}
    for match in BLOCK.finditer(text):
        line = text[: match.start(1)].count("\n")
        exec(compile("\n" * line + match[1], str(page), "exec"), namespace)


def test_the_project_file_of_the_page_for_plugin_authors_builds_a_plugin(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "plugin-authors.md").read_text()
    [project] = re.findall(r"^```toml\n(\[build-system\].*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(project)
    source = ROOT / "tests-integration" / "third-party" / "src" / "jax2onnx_ripple"
    shutil.copytree(source, tmp_path / "src" / "jax2onnx_ripple", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation", tmp_path], check=True)
    [wheel] = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as files:
        files.extractall(tmp_path / "installed")
    [found] = importlib.metadata.distributions(path=[str(tmp_path / "installed")])
    [entry] = found.entry_points.select(group="jax2onnx")
    assert (tmp_path / "installed" / f"{entry.value.replace('.', '/')}.py").exists()


def public_names() -> set[str]:
    """The names in `__all__` of each package, without modules of other projects."""
    packages = sorted(path.parent.name for path in ROOT.glob("packages/*/src/*/__init__.py"))
    packages = [name for name in packages if HAS_RAY or name != "jax2onnx_ray"]
    values = {
        f"{package}.{name}": getattr(importlib.import_module(package), name)
        for package in packages
        for name in vars(importlib.import_module(package)).get("__all__", ())
    }
    return {
        name
        for name, value in values.items()
        if not isinstance(value, types.ModuleType) or value.__name__.startswith("jax2onnx_")
    }


def test_the_reference_has_every_public_name() -> None:
    shown = "\n".join(page.read_text() for page in sorted((ROOT / "docs" / "reference").glob("*.md")))
    entries = re.findall(r"^::: (\S+)", shown, re.MULTILINE)
    missing = {name for name in public_names() if not any(f"{name}.".startswith(f"{entry}.") for entry in entries)}
    assert not missing


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [str(page.relative_to(ROOT / "docs")) for page in sorted((ROOT / "docs").rglob("*.md"))]
    assert [page for page in pages if page not in navigation and not page.startswith("drafts/")] == []


@pytest.mark.parametrize("page", [p for p in PAGES if "$ jax2onnx " in p.read_text()], ids=identifier)
def test_command_lines_print_what_they_are_said_to(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Lines that begin with "$ jax2onnx" run; "..." stands for any text, "[1]" for an exit code other than 0."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = page.read_text()
    for name, content in FILE.findall(text):
        (tmp_path / name).write_text(content)
    for block in CONSOLE.findall(text):
        for example in re.split(r"^\$ (?=jax2onnx )", block, flags=re.MULTILINE)[1:]:
            command, _, wanted = example.partition("\n")
            code = main(shlex.split(command)[1:])
            printed = capfd.readouterr()
            found = printed.out + printed.err + (f"[{code}]\n" if code else "")
            assert doctest.OutputChecker().check_output(wanted, found, doctest.ELLIPSIS), f"$ {command}\n{found}"
