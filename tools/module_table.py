"""The table of modules in docs/architecture.md, from the first sentences of their docstrings.

python tools/module_table.py            exits with 1 where the table is not that of the tree
python tools/module_table.py --update   writes it
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
PACKAGES = (
    "graph",
    "runtime",
    "report",
    "core",
    "onnxruntime",
    "openvino",
    "lax",
    "nnx",
    "linen",
    "equinox",
    "haiku",
    "keras",
    "functions",
    "testing",
    "cli",
)
BEGIN, END = "<!-- modules: written by tools/module_table.py -->", "<!-- end of modules -->"


def modules(source: Path) -> list[Path]:
    """The modules of a package, those of its top first, then room by room; cases, `__init__` and templates apart."""
    found = [p for p in source.rglob("*.py") if not p.name.endswith("_cases.py") and p.name != "__init__.py"]
    found = [p for p in found if "template" not in p.parts]
    return sorted(found, key=lambda p: (len(p.relative_to(source).parts) > 1, str(p.parent), p.name))


def first_sentence(module: Path) -> str:
    """The first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(module.read_text())) or ""
    return " ".join(text.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".").replace("|", "\\|")


def lines() -> Iterator[str]:
    """The lines of the table."""
    for name in PACKAGES:
        source = ROOT / "packages" / f"jax2onnx-{name}" / "src" / f"jax2onnx_{name}"
        yield from (f"### `jax2onnx_{name}`", "", "| room | module | what it holds |", "|---|---|---|")
        for module in modules(source):
            room = module.parent.relative_to(source).as_posix().removeprefix(".")
            yield f"| {room} | `{module.stem}` | {first_sentence(module)} |"
        yield ""


def updated(page: str) -> str:
    """The page with the table of the tree."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n" + "\n".join(lines()) + f"\n{END}{after}"


def main() -> int:
    page = PAGE.read_text()
    if "--update" in sys.argv:
        PAGE.write_text(updated(page))
        return 0
    if updated(page) != page:
        print(
            "The table of modules in docs/architecture.md is not that of the tree: python tools/module_table.py --update"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
