"""`jax2onnx new-plugin`: the files of a plugin package, which works as it is and is then changed."""

from __future__ import annotations

import keyword
import re
import tempfile
from pathlib import Path

import click

from jax2onnx_cli._terminal import BadInput, Command, Result

__all__ = ["command", "write_plugin"]

TEMPLATE = Path(__file__).parent.parent / "template" / "jax2onnx-acme"

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


_EXAMPLES = ("jax2onnx new-plugin acme", "cd jax2onnx-acme && pip install -e '.[test]' && pytest")


@click.command("new-plugin", cls=Command, examples=_EXAMPLES)
@click.argument("name")
@click.option(
    "--directory", metavar="DIR", type=click.Path(path_type=Path), default=Path(),
    help="Where to make it; by default the current directory.",
)  # fmt: skip
def command(*, name: str, directory: Path) -> Result:
    """Write a plugin package, jax2onnx-NAME.

    It has a primitive and a function with their rules, test cases, the configuration of tools and CI, and can be installed, tested and
    type-checked as it is.
    """
    made = write_plugin(name, directory)
    files = sorted(str(file.relative_to(made)) for file in made.rglob("*") if file.is_file())
    listing = "\n".join(f"  {file}" for file in files)
    next_steps = f"next: cd {made} && pip install -e '.[test]' && pytest"
    return Result(f"{made}\n{listing}\n{next_steps}", {"directory": str(made), "files": files})


def write_plugin(name: str, directory: Path) -> Path:
    """Write the files of the plugin `jax2onnx-<name>` into a new directory of that name, which appears when it is whole."""
    _check_name(name)
    made = directory / f"jax2onnx-{name}"
    if not directory.is_dir():
        raise BadInput(f"There is no directory {directory}; make it first.")
    if made.exists():
        raise BadInput(f"{made} exists already; remove it, or choose another name or --directory.")
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=f".{made.name}-") as scratch:
            whole = Path(scratch) / made.name
            for source in _template_files():
                target = whole / _named(str(source.relative_to(TEMPLATE)), name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(_named(source.read_text(encoding="utf-8"), name), encoding="utf-8")
            whole.rename(made)
    except OSError as error:
        raise BadInput(f"{made} cannot be written: {error.strerror}.") from error
    return made


def _template_files() -> list[Path]:
    """The files of the template, without what Python and its tools leave in a directory that they have used."""
    found = (file for file in TEMPLATE.rglob("*") if file.is_file())
    return sorted(file for file in found if not any("cache" in part for part in file.relative_to(TEMPLATE).parts))


def _named(text: str, name: str) -> str:
    """A text of the template with the plugin's name in it: with hyphens in the name of the distribution, with underscores elsewhere."""
    return text.replace("jax2onnx-acme", f"jax2onnx-{name}").replace("acme", _module(name))


def _module(name: str) -> str:
    return name.replace("-", "_")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        hint = "" if not name.lower().startswith("jax2onnx") else " The package becomes jax2onnx-NAME."
        raise BadInput(
            f"{name!r} is no name for a plugin: it is small letters and digits, with single hyphens between.{hint}"
        )
    if name.startswith("jax2onnx-"):
        raise BadInput(f"{name!r}: the package is called jax2onnx-NAME, so leave the first part out.")
    if keyword.iskeyword(name):
        raise BadInput(f"{name!r} is a word of Python; choose another name.")

    from jax2onnx_cli._installation import distributions

    if f"jax2onnx-{name}" in distributions():
        raise BadInput(f"jax2onnx-{name} is installed already; choose another name.")
