"""Check the packages before a release.

The version of each package, which its `__init__` holds, is the newest in its changelog, its requirements admit the
versions of this repository's other packages, and the tag of a release build names the version of its package.

Usage: python tools/check_release.py [TAG], where TAG is <distribution>-v<version>
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


def projects() -> dict[Path, dict[str, Any]]:
    """The `[project]` table of each package with its version, by its folder."""
    files = sorted(ROOT.glob("packages/*/pyproject.toml"))
    tables = {file.parent: tomllib.loads(file.read_text())["project"] for file in files}
    return {folder: {**table, "version": version_of(folder)} for folder, table in tables.items()}


def version_of(folder: Path) -> str:
    """The version in the `__init__` of a package, where hatchling reads it too."""
    (module,) = folder.glob("src/jax2onnx_*/__init__.py")
    found = re.search(r'^__version__ = "(.+)"$', module.read_text(), re.MULTILINE)
    assert found is not None, f"{module} has no version"
    return found[1]


def problems_of(folder: Path, project: dict[str, Any], versions: dict[str, str]) -> Iterator[str]:
    name, version = project["name"], project["version"]
    newest = re.search(r"^## (\S+)", (folder / "CHANGELOG.md").read_text(), re.MULTILINE)
    if newest is None or newest[1] != version:
        yield f"{name}: version {version}, but the changelog's newest entry is {newest and newest[1]}"
    for needed in map(Requirement, project["dependencies"]):
        if needed.name in versions and not needed.specifier.contains(versions[needed.name], prereleases=True):
            yield f"{name}: needs {needed}, but the version here is {versions[needed.name]}"


def problems(tag: str | None) -> list[str]:
    packages = projects()
    versions = {project["name"]: project["version"] for project in packages.values()}
    found = [problem for folder, project in packages.items() for problem in problems_of(folder, project, versions)]
    if tag is not None:
        name, _, version = tag.rpartition("-v")
        if versions.get(name) != version:
            found.append(f"tag {tag}: the version of {name} is {versions.get(name)}")
    return found


def main() -> None:
    found = problems(sys.argv[1] if len(sys.argv) > 1 else None)
    for problem in found:
        print(problem)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
