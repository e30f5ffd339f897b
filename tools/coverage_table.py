"""Write docs/coverage.md: every operation that the plugins of this repository declare, how, and which cases show it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import flax.nnx  # noqa: F401  (composites of flax are listed only where flax is imported)
from jax2onnx_core import Limitation
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_testing.collection import CollectedCase, find_cases

ROOT = Path(__file__).parent.parent


def ways(registry: Registry, name: str) -> str:
    declared = {
        "rule": name in registry.rules,
        "decomposition": name in registry.decompositions,
        "complex": name in registry.complex_rules or name in registry.componentwise,
        "not in a file": name in registry.unsupported,
    }
    return ", ".join(way for way, holds in declared.items() if holds) or "original call"


def limitations() -> list[Limitation]:
    plugins = installed_plugins().manager.get_plugins()
    modules = [vars(plugin).get("LIMITATIONS", ()) for plugin in plugins]
    return [limitation for module in modules for limitation in module]


def documented_cases() -> Iterator[str]:
    """The lines of the section about cases that say what they show."""
    cases = [found for found in find_cases(()) if isinstance(found, CollectedCase) and found.case.doc]
    if cases:
        yield "\n## What cases show\n"
        yield "| case | covers | shows |"
        yield "|---|---|---|"
    for found in cases:
        covers = ", ".join(f"`{name}`" for name in found.case.covers)
        since = f" Since {found.distribution} {found.case.since}." if found.case.since else ""
        yield f"| `{found.id}` | {covers} | {found.case.doc}{since} |"


def lines() -> Iterator[str]:
    registry = installed_plugins().registry
    evidence: dict[str, list[str]] = {}
    for found in find_cases(()):
        if isinstance(found, CollectedCase):
            for name in found.case.covers:
                evidence.setdefault(name, []).append(found.case.name)
    yield "# Coverage\n"
    yield "Written by `nox -s docs` from what the plugins declare. Every case runs as f32 and f64, static and at several"
    yield "sizes of its symbols, in ONNX Runtime, against JAX.\n"
    yield "| operation | supplied by | lowered by | cases |"
    yield "|---|---|---|---:|"
    targets = {s.name: s.target for s in registry.composites}
    for name in registry.operations():
        owner = registry.owners.get(f"primitive {name}") or registry.owners.get(
            f"composite target {targets.get(name)}", ""
        )
        yield f"| `{name}` | {owner} | {ways(registry, name)} | {len(evidence.get(name, []))} |"
    yield "\n## Not in a file\n"
    yield "| primitive | why | instead |"
    yield "|---|---|---|"
    for name, why in sorted(registry.unsupported.items()):
        yield f"| `{name}` | {why.reason} | {why.advice} |"
    yield from documented_cases()
    known = limitations()
    if known:
        yield "\n## Limitations\n"
        yield "| of | dtypes | why |"
        yield "|---|---|---|"
        for limitation in known:
            yield f"| {limitation.subject} | {', '.join(limitation.dtypes) or 'all'} | {limitation.reason} |"


def main() -> None:
    (ROOT / "docs" / "coverage.md").write_text("\n".join(lines()) + "\n")


if __name__ == "__main__":
    main()
