"""Discovery: the installed plugins, found through entry points once per process, and their hooks."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import inspect
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import pluggy

from jax2onnx_core.plugins.errors import PluginError
from jax2onnx_core.plugins.registry import Registry

__all__ = [
    "API_VERSIONS",
    "EXPORTER",
    "Plugins",
    "hookimpl",
    "hookspec",
    "installed_plugins",
    "load_plugins",
    "needed_plugins",
]

#: The versions of the plugin contract that this core supports.
API_VERSIONS = range(1, 2)
#: The distribution that writes models.
EXPORTER = "jax2onnx-core"

hookspec = pluggy.HookspecMarker("jax2onnx")
hookimpl = pluggy.HookimplMarker("jax2onnx")


class Hooks:
    """The hooks that a plugin module or object may implement."""

    @hookspec
    def jax2onnx_register(self, registry: Registry) -> None:
        """Contribute rules, composites, adapters, passes and targets. Called once; must be cheap and must
        not import a framework that the user's program has not imported.
        """

    @hookspec
    def jax2onnx_testcases(self) -> Sequence[Any]:  # type: ignore[empty-body]  # a specification has no body
        """The plugin's `Case`s. Called by the testing kit only."""


_HOOKS = [name for name in vars(Hooks) if name.startswith("jax2onnx_")]


@dataclasses.dataclass(frozen=True)
class Plugins:
    """The outcome of discovery: the filled registry, the plugins that failed to load and those that were left waiting.

    Attributes:
      manager: pluggy's manager, which has all plugins that did not fail.
      registry: what the plugins contributed.
      distributions: the name of each plugin's entry point → its distribution.
      failures: distribution → why its plugin could not be loaded.
      waiting: plugin → the library that it is about, which was not imported; such a plugin contributed nothing.
    """

    manager: pluggy.PluginManager
    registry: Registry
    distributions: dict[str, str]
    failures: dict[str, BaseException]
    waiting: dict[str, str] = dataclasses.field(default_factory=dict)

    def versions(self) -> dict[str, str]:
        """The exporter, JAX and the distributions whose plugins contributed, with their versions."""
        names = [name for name in self.distributions if self.manager.has_plugin(name) and name not in self.waiting]
        loaded = sorted({self.distributions[name] for name in names})
        installed = {name: _version(name) for name in [EXPORTER, "jax", *loaded]}
        return {name: version for name, version in installed.items() if version is not None}

    def failure_notes(self) -> list[str]:
        """One sentence per plugin that could not be loaded."""
        return [
            f"The plugin of {owner} could not be loaded ({type(error).__name__}: {str(error).rstrip('.')}). Mend or uninstall it, or leave "
            "it out with JAX2ONNX_PLUGINS."
            for owner, error in self.failures.items()
        ]

    def with_inline(self, plugins: Iterable[Any]) -> Plugins:
        """These plugins and the given plugin objects, which are not installed anywhere."""
        if isinstance(plugins, str) or not isinstance(plugins, Iterable):
            raise PluginError(f"plugins= takes a list of plugin objects, not {plugins!r:.80}.")
        # A copy even without plugins: it keys JAX's caches, so that an export sees what changed since the last one.
        registry = self.registry.copy()
        for plugin in {id(plugin): plugin for plugin in plugins}.values():
            named = plugin if isinstance(plugin, (ModuleType, type)) else type(plugin)
            owner = f"the inline plugin {named.__name__}"
            if (version := inspect.getattr_static(plugin, "JAX2ONNX_API", None)) is not None:
                _check_api(version, owner, is_installed=False)
            try:
                _add(manager := _manager(), plugin, owner)
                _register(manager, plugin, registry, owner)
            except PluginError:
                raise
            except (Exception, SystemExit) as error:
                raise PluginError(f"The hook of {owner} failed: {type(error).__name__}: {error}") from error
        return dataclasses.replace(self, registry=registry)


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager("jax2onnx")
    manager.add_hookspecs(Hooks)
    return manager


def _add(manager: pluggy.PluginManager, plugin: object, owner: str, name: str | None = None) -> None:
    """Check a plugin, and add it to the manager."""
    if isinstance(plugin, type) and any(isinstance(vars(plugin).get(hook), FunctionType) for hook in _HOOKS):
        raise PluginError(f"Not a plugin: {owner} is a class; give an object of it: {plugin.__name__}().")
    manager.register(plugin, name=name)
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(f"{owner} implements a hook that does not exist: {error}") from error
    if not manager.get_hookcallers(plugin):
        unmarked = [hook for hook in _HOOKS if hook in dir(plugin)]
        raise PluginError(
            f"Not a plugin: the {unmarked[0]} of {owner} is not marked with @hookimpl."
            if unmarked
            else (
                f"Not a plugin: {owner} has none of the functions {', '.join(_HOOKS)}. Rules and composites are added by a plugin: an object or "
                "module with a function jax2onnx_register(registry), marked with @hookimpl, that calls registry.add(rules)."
            )
        )


def _register(manager: pluggy.PluginManager, plugin: object, registry: Registry, owner: str) -> None:
    """Let a plugin that was added fill the registry."""
    with registry.owned_by(owner):
        for hook in manager.hook.jax2onnx_register.get_hookimpls():
            if hook.plugin is plugin:
                hook.function(registry)


@functools.cache
def installed_plugins() -> Plugins:
    """The plugins installed in this environment, loaded at the first call."""
    return _installed(None)


def needed_plugins() -> Plugins:
    """The installed plugins, without the contributions of those whose library the program has not imported."""
    since: frozenset[str] = frozenset()
    while new := {*(found := _needed(since)).waiting.values()} & sys.modules.keys():
        since |= new
    return found


@functools.cache
def _needed(since: frozenset[str]) -> Plugins:
    """The plugins for the libraries that are imported at this call; `since` are those that came after the first call, and tell calls apart."""
    return _installed(sys.modules)


def _installed(imported: Collection[str] | None) -> Plugins:
    entry_points = importlib.metadata.entry_points(group="jax2onnx")
    return load_plugins(list(entry_points), os.environ.get("JAX2ONNX_PLUGINS"), imported)


def load_plugins(
    entry_points: Sequence[importlib.metadata.EntryPoint],
    allow: str | None = None,
    imported: Collection[str] | None = None,
) -> Plugins:
    """Load the plugins behind `entry_points`.

    `allow` is a comma-separated list of entry point names; the empty string loads none, None loads all. A plugin whose module names a
    library by `JAX2ONNX_LIBRARY` contributes where that is among `imported`; None is every library.
    A plugin that fails (its import, its hook, another API number, a misspelt hook, a name or an operation that another one has) is
    remembered in `failures` and does not stop the others; of two that claim the same, the first by name has it.
    """
    wanted = None if allow is None else {name.strip() for name in allow.split(",")} - {""}
    if unknown := (wanted or set()) - {entry_point.name for entry_point in entry_points}:
        raise PluginError(
            f"JAX2ONNX_PLUGINS names {', '.join(sorted(unknown))}, but the installed plugins are "
            f"{', '.join(sorted(e.name for e in entry_points)) or 'none'}."
        )
    manager, registry = _manager(), Registry()
    found: dict[str, str] = {}
    failures: dict[str, BaseException] = {}
    waiting: dict[str, str] = {}
    for entry_point in sorted(entry_points, key=lambda e: (_distribution(e) != EXPORTER, e.name)):
        if wanted is not None and entry_point.name not in wanted:
            continue
        owner = _distribution(entry_point)
        first = found.setdefault(entry_point.name, owner)
        if first != owner:
            failures[owner] = PluginError(
                f"Two distributions register the jax2onnx plugin name {entry_point.name!r}: {first} and {owner}. Uninstall one of them."
            )
        elif not manager.has_plugin(entry_point.name):
            # A stranger's plugin may fail in any way; the others must still work, and the failure is kept for the report, and for
            # the error that names it when something it might have supplied is missing.
            try:
                plugin = entry_point.load()
                library = vars(plugin).get("JAX2ONNX_LIBRARY")
                is_needed = imported is None or library is None or library in imported
                registry = _loaded(manager, plugin, registry, owner, entry_point.name, registers=is_needed)
                if not is_needed:
                    waiting[entry_point.name] = library
            except (Exception, SystemExit) as error:  # noqa: BLE001 (kept and shown)
                failures[owner] = error
    return Plugins(manager, registry, found, failures, waiting)


def _loaded(
    manager: pluggy.PluginManager, plugin: object, registry: Registry, owner: str, name: str, *, registers: bool
) -> Registry:
    """A registry with what a plugin contributes, if it `registers`; where it fails, nothing of it is left."""
    _check_api(vars(plugin).get("JAX2ONNX_API"), owner, is_installed=True)
    extended = registry.copy()
    try:
        _add(manager, plugin, owner, name)
        if registers:
            _register(manager, plugin, extended, owner)
    except BaseException:
        if manager.is_registered(plugin):
            manager.unregister(plugin)
        raise
    return extended


def _check_api(version: object, owner: str, *, is_installed: bool) -> None:
    *_, newest = API_VERSIONS
    if version not in API_VERSIONS:
        late = EXPORTER if isinstance(version, int) and version > newest else owner
        helps = version is not None and (is_installed or late == EXPORTER)
        advice = f"pip install -U {late}" if helps else f"set JAX2ONNX_API = {newest} in its plugin module"
        raise PluginError(
            f"{owner} says JAX2ONNX_API = {version!r}, but the numbers of the plugin API that this jax2onnx-core supports are "
            f"{', '.join(map(str, API_VERSIONS))}: {advice}. JAX2ONNX_PLUGINS can leave the plugin out."
        )


@functools.cache
def _version(distribution: str) -> str | None:
    """The version of a distribution; None where no distribution of this name is installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _distribution(entry_point: importlib.metadata.EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist is not None else entry_point.value
