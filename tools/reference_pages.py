"""Write the pages of docs/reference that follow from the tree: what is public, package by package, and the table of all modules.

mkdocs runs this as a hook before it builds the site (`nox -s docs`); `python tools/reference_pages.py` writes the pages, too. They are not
committed. A module is private if its name, or that of a folder that it is in, begins with an underscore. All others are public, and what
is in their `__all__` stands on a page.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "reference"
PACKAGES = sorted(file.parent.name.removeprefix("jax2onnx-") for file in ROOT.glob("packages/*/pyproject.toml"))
# The names of modules that declare operations: `registry.add` takes them, `jax2onnx_testcases` returns them.
DECLARED = {"rules", "composites", "cases"}
# What most readers look for comes first on a page of many names: these names, and these modules or rooms.
FIRST = ("to_onnx", "OnnxProgram", "Program")
FIRST_PLACES = ("__init__.py", "program", "program.py")
# What only authors of plugins need comes last.
LAST_PLACES = ("jax_types.py", "jaxprs.py", "lowering", "plugins")
# Modules of other projects that have a name here: `onnx_ir`.
FOREIGN = {"ir"}
NOTE = "<!-- written by tools/reference_pages.py -->"


def source(package: str) -> Path:
    return ROOT / "packages" / f"jax2onnx-{package}" / "src" / f"jax2onnx_{package}"


def modules(package: str) -> list[Path]:
    """The modules of a package, the most wanted first, then those of its top, then room by room; cases and templates apart."""
    top = source(package)
    found = [p for p in top.rglob("*.py") if not p.name.endswith("_cases.py") and "template" not in p.parts]
    return sorted(found, key=lambda p: (_place(p.relative_to(top).parts), str(p.parent), p.name))


def _place(parts: tuple[str, ...]) -> int:
    if parts[0] in FIRST_PLACES:
        return 0
    return 3 if parts[0] in LAST_PLACES else min(len(parts), 2)


def dotted(module: Path, package: str) -> str:
    parts = module.relative_to(source(package).parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in name.split("."))


def exported(module: Path) -> list[str]:
    """The names in `__all__`."""
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def first_sentence(module: Path) -> str:
    text = ast.get_docstring(ast.parse(module.read_text())) or ""
    return " ".join(text.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".").replace("|", "\\|")


def page(package: str) -> str:
    """The page of a package: each public module with its names; modules that only declare operations in a table."""
    project = tomllib.loads((ROOT / "packages" / f"jax2onnx-{package}" / "pyproject.toml").read_text())["project"]
    lines = [f"# {project['name']}", "", NOTE, "", project["description"], ""]
    declaring: list[tuple[str, Path]] = []
    for module in modules(package):
        name, names = dotted(module, package), exported(module)
        if is_private(name) or name.endswith("__main__") or not names:
            continue
        if set(names) <= DECLARED:
            declaring.append((name, module))
        else:
            lines += [f"## `{name}`", "", first_sentence(module) + ".", "", *entries(name, names)]
    if declaring:
        lines += [
            "## Modules that declare operations",
            "",
            "Each has `rules`, `composites` or both, which",
            "`registry.add` takes.",
            "",
        ]
        lines += ["| module | operations |", "|---|---|"]
        lines += [f"| `{name}` | {first_sentence(module)} |" for name, module in declaring]
        lines.append("")
    return "\n".join(lines)


def entries(module: str, names: list[str]) -> Iterator[str]:
    """The entries of the names of a module: first what a user calls, then the rest by name."""
    for name in sorted((n for n in names if n not in FOREIGN), key=_rank):
        yield from (f"::: {module}.{name}", "")


def _rank(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST)


def table() -> str:
    """The page with all modules, private ones included."""
    lines = [
        "# Modules",
        "",
        NOTE,
        "",
        "Every module of every package; one whose name, or whose folder's name, begins with an underscore is private.",
        "",
    ]
    for package in PACKAGES:
        lines += [f"## `jax2onnx_{package}`", "", "| room | module | contents |", "|---|---|---|"]
        for module in modules(package):
            if module.name != "__init__.py":
                room = module.parent.relative_to(source(package)).as_posix().removeprefix(".")
                lines.append(f"| {room} | `{module.stem}` | {first_sentence(module)} |")
        lines.append("")
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    """Each page with its text."""
    return {**{PAGES / f"{package}.md": page(package) for package in PACKAGES}, PAGES / "modules.md": table()}


def write() -> None:
    """Write the pages that have changed."""
    for path, text in pages().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def on_pre_build(config: object) -> None:
    """The hook of mkdocs."""
    write()


if __name__ == "__main__":
    write()
