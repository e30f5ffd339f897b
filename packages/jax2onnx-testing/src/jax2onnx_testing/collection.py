"""Finding the cases of the installed plugins."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

from jax2onnx_core import Case
from jax2onnx_core.plugins.discovery import Plugins, installed_plugins

__all__ = ["BrokenPlugin", "CollectedCase", "find_cases", "module_label", "of_module", "source_file"]

_SUFFIX = "_cases"


@dataclasses.dataclass(frozen=True)
class CollectedCase:
    """A case, the distribution it belongs to, and the short name of its module (`lax.elementwise.arithmetic`)."""

    distribution: str
    module: str
    case: Case

    @property
    def id(self) -> str:
        """`lax.elementwise.arithmetic::exp`"""
        return f"{self.module}::{self.case.name}"


@dataclasses.dataclass(frozen=True)
class BrokenPlugin:
    """A plugin whose `jax2onnx_testcases` hook raised: one failing test that says so."""

    distribution: str
    error: Exception

    @property
    def id(self) -> str:
        """`jax2onnx-lax::jax2onnx_testcases`"""
        return f"{self.distribution}::jax2onnx_testcases"


def module_label(module: str) -> str:
    """`jax2onnx_lax.elementwise.arithmetic_cases` → `lax.elementwise.arithmetic`."""
    return module.removeprefix("jax2onnx_").removesuffix(_SUFFIX)


def find_cases(
    distributions: Collection[str] = (), plugins: Plugins | None = None
) -> list[CollectedCase | BrokenPlugin]:
    """The cases of all installed plugins, in a fixed order.

    `distributions` restricts them: `"jax2onnx-lax"` or, in short, `"lax"`; ValueError if one of them has no plugin.
    """
    plugins = plugins or installed_plugins()
    wanted = {name.removeprefix("jax2onnx-") for name in distributions}
    known = {*plugins.distributions, *(name.removeprefix("jax2onnx-") for name in plugins.distributions.values())}
    if not wanted <= known:
        raise ValueError(
            f"No plugin of {', '.join(sorted(wanted - known))} is installed; there are: {', '.join(sorted(known))}."
        )
    found: list[CollectedCase | BrokenPlugin] = []
    for name, distribution in sorted(plugins.distributions.items(), key=lambda item: item[1]):
        if wanted and not wanted & {name, distribution.removeprefix("jax2onnx-")}:
            continue
        if distribution in plugins.failures:
            error = plugins.failures[distribution]
            found.append(
                BrokenPlugin(distribution, error if isinstance(error, Exception) else RuntimeError(str(error)))
            )
            continue
        found += _of_plugin(plugins, name, distribution)
    return found


def _of_plugin(plugins: Plugins, name: str, distribution: str) -> list[CollectedCase | BrokenPlugin]:
    plugin = plugins.manager.get_plugin(name)
    hooks = [h for h in plugins.manager.hook.jax2onnx_testcases.get_hookimpls() if h.plugin is plugin]
    cases: list[Case] = []
    for hook in hooks:
        # A third party's plugin may fail in any way here: it becomes one failing test, and the others' tests run.
        try:
            cases += cast("list[Case]", hook.function())
        except Exception as error:  # noqa: BLE001
            return [BrokenPlugin(distribution, error)]
    modules = _modules_of(cases)
    return [CollectedCase(distribution, modules.get(id(case), name), case) for case in cases]


def _modules_of(cases: Iterable[Case]) -> dict[int, str]:
    """Identity of a case → short name of the module whose `cases` holds it."""
    wanted = {id(case) for case in cases}
    modules: dict[int, str] = {}
    for name, module in sorted(sys.modules.items()):
        if name.endswith(_SUFFIX) and isinstance(module, ModuleType):
            for case in vars(module).get("cases", ()):
                if id(case) in wanted:
                    modules.setdefault(id(case), module_label(name))
    return modules


def of_module(module: str) -> Sequence[CollectedCase]:
    """The cases of one module, given by its import name: `jax2onnx_lax.elementwise.arithmetic_cases`."""
    loaded = importlib.import_module(module)
    distribution = module.partition(".")[0].replace("_", "-")
    return [CollectedCase(distribution, module_label(module), case) for case in vars(loaded)["cases"]]


def source_file(found: CollectedCase) -> Path | None:
    """The file of the module that lists the case; None if no module does."""
    for name, module in sorted(sys.modules.items()):
        if name.endswith(_SUFFIX) and module_label(name) == found.module and module.__file__ is not None:
            return Path(module.__file__)
    return None
