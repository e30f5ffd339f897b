"""`jax2onnx doctor`: what is installed, and what is wrong with it."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click
from packaging.utils import canonicalize_name
from rich.console import Group
from rich.table import Table
from rich.text import Text

from jax2onnx_cli._installation import distributions, missing_suppliers, requirements, unmet
from jax2onnx_cli._terminal import Command, Result

if TYPE_CHECKING:
    from jax2onnx_core.plugins.discovery import Plugins

__all__ = ["command"]

_FAMILY = "jax2onnx-"


@click.command("doctor", cls=Command)
def command() -> Result:
    """Show versions, and what is missing or broken.

    Each problem has the line that mends it. The exit code is 1 if there are any; hints are about what would be better.
    The output is what an issue should have.
    """
    from jax2onnx_report.summary import counted

    installed = distributions()
    versions = _versions(installed)
    problems, hints = _examine(installed)
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, version in versions.items():
        table.add_row(name, version)
    verdict = Text(counted(len(problems), "problem"), "red") if problems else Text("nothing is wrong", "green")
    found = [Text(f"problem: {text}", "red") for text in problems] + [Text(f"hint: {text}", "yellow") for text in hints]
    data = {"versions": versions, "problems": problems, "hints": hints}
    return Result(Group(table, *found, verdict), data, is_good=not problems)


def _versions(installed: Mapping[str, str]) -> dict[str, str]:
    """Python and its machine, the distributions of this project, and those that they require."""
    ours = sorted(name for name in installed if name.startswith(_FAMILY))
    needed = {canonicalize_name(requirement.name) for name in ours for requirement in requirements(name)}
    others = sorted((needed | {"jaxlib"}) - set(ours))
    versions = {name: installed.get(name, "not installed") for name in (*ours, *others)}
    return {"python": f"{platform.python_version()} ({sys.executable})", "platform": platform.platform(), **versions}


def _examine(installed: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Sentences about problems of the installation, and about improvements."""
    problems = [
        f"{name} needs {requirement.name}{requirement.specifier}, but "
        f"{installed.get(canonicalize_name(requirement.name), 'none')} is installed: pip install '{requirement.name}{requirement.specifier}'"
        for name, requirement in unmet(installed)
    ]
    # A broken installation may fail in any way; that is what is reported.
    try:
        from jax2onnx_core.plugins.discovery import installed_plugins

        plugins = installed_plugins()
    except Exception as error:  # noqa: BLE001
        return [*problems, f"the plugins cannot be loaded: {type(error).__name__}: {error}"], []
    return [*problems, *_of_plugins(plugins, installed)], list(_hints(plugins, installed))


def _of_plugins(plugins: Plugins, installed: Mapping[str, str]) -> Iterator[str]:
    from jax2onnx_graph.targets import find_target
    from jax2onnx_runtime.runtimes import find_runtime

    yield from plugins.failure_notes()
    if f"{_FAMILY}lax" not in installed:
        yield "no plugin knows JAX's own operations: pip install jax2onnx-lax"
    target = find_target(plugins.registry.targets, None)
    if not find_runtime(plugins.registry.runtimes, target).is_installed:
        yield (
            f"models cannot be run or verified, because the runtime of the target {target.name!r} is not installed: "
            f"pip install '{_with_extra(plugins.registry.owners[f'target {target.name}'])}'"
        )


def _with_extra(distribution: str) -> str:
    """A distribution with its first extra, which by convention brings the runtime of a target."""
    extras = importlib.metadata.metadata(distribution).get_all("Provides-Extra") or ()
    return f"{distribution}[{extras[0]}]" if extras else distribution


def _hints(plugins: Plugins, installed: Mapping[str, str]) -> Iterator[str]:
    for module, distribution in missing_suppliers(plugins.registry.suppliers, installed):
        yield f"{module} is installed; {distribution} knows its models: pip install {distribution}"
