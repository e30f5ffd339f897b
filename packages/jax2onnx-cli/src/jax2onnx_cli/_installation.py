"""The installed plugins with their contributions, and the versions of installed packages."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from jax2onnx_core.plugins.discovery import Plugins
    from jax2onnx_runtime.runtimes import Runtime

__all__ = ["PluginInfo", "distributions", "known_plugins", "missing_suppliers", "requirements", "runtime_of", "unmet"]

_FAMILY = "jax2onnx-"


@dataclasses.dataclass(frozen=True)
class PluginInfo:
    """An installed plugin.

    Attributes:
      name: that of its entry point.
      distribution, version: what it was installed from.
      api: the version of the plugin contract that it was written for; None if it could not be loaded.
      primitives: the primitives that it has rules or decompositions for, and the operations of its composites.
      composites: the calls that it shows as one operation.
      adapters: the classes of models that it takes apart.
      targets: the runtimes that it adds.
      error: why it could not be loaded.
    """

    name: str
    distribution: str
    version: str
    api: int | None
    primitives: Sequence[str]
    composites: Sequence[str]
    adapters: Sequence[str]
    targets: Sequence[str]
    error: str | None


def known_plugins(plugins: Plugins) -> list[PluginInfo]:
    """The installed plugins and what each of them contributes."""
    return [_info(plugins, name, owner) for name, owner in plugins.distributions.items()]


def _info(plugins: Plugins, name: str, owner: str) -> PluginInfo:
    def claimed(kind: str) -> list[str]:
        owners = plugins.registry.owners.items()
        return sorted(what.removeprefix(kind) for what, holder in owners if holder == owner and what.startswith(kind))

    error = plugins.failures.get(owner)
    module = plugins.manager.get_plugin(name)
    return PluginInfo(
        name, owner, distributions().get(canonicalize_name(owner), ""), None if module is None else vars(module)["JAX2ONNX_API"],
        claimed("primitive "), claimed("composite of "), claimed("adapter "), claimed("target "),
        None if error is None else f"{type(error).__name__}: {error}",
    )  # fmt: skip


def distributions() -> Mapping[str, str]:
    """The installed distributions with their versions."""
    return {canonicalize_name(found.name): found.version for found in importlib.metadata.distributions()}


def requirements(distribution: str) -> Iterator[Requirement]:
    """The requirements of an installed distribution in this environment, those of its extras included."""
    for text in importlib.metadata.requires(distribution) or ():
        requirement = Requirement(text)
        extras = {"", *(importlib.metadata.metadata(distribution).get_all("Provides-Extra") or ())}
        environment = {name: str(value) for name, value in default_environment().items()}
        if requirement.marker is None or any(requirement.marker.evaluate({**environment, "extra": e}) for e in extras):
            yield requirement


def unmet(installed: Mapping[str, str]) -> Iterator[tuple[str, Requirement]]:
    """The requirements of this project's installed distributions that the installed versions do not meet.

    One that is only for an extra counts where what it is about is installed.
    """
    for name in sorted(name for name in installed if name.startswith(_FAMILY)):
        for requirement in requirements(name):
            version = installed.get(canonicalize_name(requirement.name))
            optional = requirement.marker is not None and "extra" in str(requirement.marker)
            fits = optional if version is None else requirement.specifier.contains(version, prereleases=True)
            if not fits:
                yield name, requirement


def missing_suppliers(suppliers: Mapping[str, str], installed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The installed libraries for whose models there is a distribution that is not installed, each with that distribution."""
    for module, distribution in suppliers.items():
        is_present = importlib.util.find_spec(module.partition(".")[0]) is not None
        if is_present and canonicalize_name(distribution) not in installed:
            yield module, distribution


def runtime_of(target: str | None) -> tuple[str, Runtime]:
    """The target of this name, by default the installed one, and what runs its models."""
    from jax2onnx_core.plugins.discovery import installed_plugins

    found, runtime = installed_plugins().registry.runtime_of(target)
    return found.name, runtime
