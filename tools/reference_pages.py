"""The pages of docs/reference that follow from the tree: what is public, package by package, and the table of all modules.

python tools/reference_pages.py            exits with 1 where the pages are not those of the tree
python tools/reference_pages.py --update   writes them

A module is private if its name, or that of a folder that it is in, begins with an underscore. All others are public, and what
is in their `__all__` stands on a page here.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "reference"
FRAMEWORKS = ("nnx", "linen", "equinox", "haiku", "keras")
TITLES = {
    "core": "Exporting, and writing plugins",
    "functions": "ONNX functions and custom operators",
    "graph": "Graphs, passes and targets",
    "runtime": "Running, verifying and quantizing",
    "generation": "Text from decoders",
    "report": "Summaries and reports",
    "lax": "JAX's operations, and layer operations",
    "onnxruntime": "The target ONNX Runtime",
    "openvino": "The target OpenVINO",
    "ray": "Programs on a Ray cluster",
    "genai": "Folders for onnxruntime-genai",
    "transformersjs": "Folders for transformers.js and Optimum",
    "tensorrt": "The target TensorRT",
    "testing": "The testing kit",
    "cli": "The command line",
    **{name: f"The framework package {name}" for name in FRAMEWORKS},
}
# The names of modules that declare operations: `registry.add` takes them, `jax2onnx_testcases` returns them.
DECLARED = {"rules", "composites", "cases"}
# Modules of other projects that have a name here: `onnx_ir`.
FOREIGN = {"ir"}
NOTE = "<!-- written by tools/reference_pages.py -->"


def source(package: str) -> Path:
    return ROOT / "packages" / f"jax2onnx-{package}" / "src" / f"jax2onnx_{package}"


def modules(package: str) -> list[Path]:
    """The modules of a package, those of its top first, then room by room; cases and templates apart."""
    top = source(package)
    found = [p for p in top.rglob("*.py") if not p.name.endswith("_cases.py") and "template" not in p.parts]
    return sorted(found, key=lambda p: (len(p.relative_to(top).parts) > 1, str(p.parent), p.name))


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
    lines = [f"# {TITLES[package]}", "", NOTE, "", f"The public modules of `jax2onnx-{package}`.", ""]
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
    for name in (n for n in names if n not in FOREIGN):
        yield from (f"::: {module}.{name}", "")


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
    for package in TITLES:
        lines += [f"## `jax2onnx_{package}`", "", "| room | module | contents |", "|---|---|---|"]
        for module in modules(package):
            if module.name != "__init__.py":
                room = module.parent.relative_to(source(package)).as_posix().removeprefix(".")
                lines.append(f"| {room} | `{module.stem}` | {first_sentence(module)} |")
        lines.append("")
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    """Each page with its text."""
    return {**{PAGES / f"{package}.md": page(package) for package in TITLES}, PAGES / "modules.md": table()}


if __name__ == "__main__":
    wrong = {path: text for path, text in pages().items() if not path.exists() or path.read_text() != text}
    if "--update" in sys.argv:
        for path, text in wrong.items():
            path.write_text(text)
    elif wrong:
        names = ", ".join(path.name for path in wrong)
        sys.exit(
            f"Pages of docs/reference are not those of the tree ({names}): python tools/reference_pages.py --update"
        )
