"""Tests about the plugins as a whole: which declared operations no case covers."""

from __future__ import annotations

import collections

from jax2onnx_core.plugins.discovery import Plugins, installed_plugins

from jax2onnx_testing.collection import BrokenPlugin, CollectedCase, find_cases

__all__ = ["duplicate_ids", "uncovered_operations"]


def uncovered_operations(distribution: str, plugins: Plugins | None = None) -> list[str]:
    """The primitives and composites that the distribution declares and that no case of its own `covers`, sorted.

    A composite may have the name of another distribution's operation: each covers its part. Primitives that are
    declared as unsupported have no case.
    """
    plugins = plugins or installed_plugins()
    registry = plugins.registry
    declared = {
        what.removeprefix("primitive ")
        for what, owner in registry.owners.items()
        if owner == distribution and what.startswith("primitive ")
    }
    declared |= {s.name for s in registry.composites if registry.owners[f"composite of {s.claimed}"] == distribution}
    cases = find_cases([distribution], plugins)
    covered = {name for found in cases if isinstance(found, CollectedCase) for name in found.case.covers}
    return sorted(declared - covered - registry.unsupported.keys())


def duplicate_ids(distribution: str) -> list[str]:
    """The ids that several cases of the distribution share."""
    found = [f for f in find_cases([distribution]) if not isinstance(f, BrokenPlugin)]
    return sorted(name for name, count in collections.Counter(f.id for f in found).items() if count > 1)
