"""`jax2onnx plugins`: the installed plugins and what they contribute."""

from __future__ import annotations

import dataclasses

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

from jax2onnx_cli._installation import PluginInfo, known_plugins
from jax2onnx_cli._terminal import Command, Result

__all__ = ["command"]


@click.command("plugins", cls=Command)
def command() -> Result:
    """Show the installed plugins.

    Version, plugin API, how much each contributes, and why one could not be loaded, which makes the exit code 1. With --json,
    what they contribute is listed by name.
    """
    from jax2onnx_core.plugins.discovery import API_VERSIONS, installed_plugins

    found = known_plugins(installed_plugins())
    errors = [Text(f"{info.distribution}: {info.error}", "red") for info in found if info.error is not None]
    data = {
        "api": [API_VERSIONS[0], API_VERSIONS[-1]],
        "plugins": [dataclasses.asdict(info) for info in found],
    }
    return Result(Group(_table(found), *errors), data, is_good=not errors)


def _table(found: list[PluginInfo]) -> Table:
    table = Table("distribution", "version", "API", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("operations", "composites", "adapters"):
        table.add_column(title, justify="right")
    table.add_column("targets")
    for info in found:
        counts = [str(len(names)) for names in (info.primitives, info.composites, info.adapters)]
        api = "failed" if info.api is None else str(info.api)
        table.add_row(
            info.distribution, info.version, api, *counts, ", ".join(info.targets), style="red" if info.error else None,
        )  # fmt: skip
    return table
