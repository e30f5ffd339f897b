"""Check the packages before a release.

The version of each package, which its `__init__` holds, is the newest in its changelog, its requirements of this repository's other
packages have the form that docs/versions.md says (`>=0.1,<1`) and admit their versions, its plugin is written for an API that core supports,
and the tag of a release build names the version of its package. What PyPI shows is there: licence, authors, addresses, classifiers, keywords,
and a README that stands on its own.

Usage: python tools/check_release.py [TAG], where TAG is <distribution>-v<version>; or --versions, or --package TAG for its folder
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/jax2onnx/jax2onnx-core"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
URLS = {"Documentation", "Source", "Changelog", "Issues"}
RELATIVE_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)]+)\)")


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
    """A sentence for each disagreement of a package's version with its changelog, or of its requirements with the other packages.

    Args:
      folder: the folder of the package.
      project: the table `project` of its pyproject.toml.
      versions: the versions of all packages here by name.
    """
    name, version = project["name"], project["version"]
    newest = re.search(r"^## (\S+)", (folder / "CHANGELOG.md").read_text(), re.MULTILINE)
    if newest is None or newest[1] != version:
        yield f"{name}: version {version}, but the changelog's newest entry is {newest and newest[1]}"
    for needed in map(Requirement, project["dependencies"]):
        if needed.name in versions:
            yield from requirement_problems(name, needed, Version(versions[needed.name]))
    yield from api_problems(name, folder)


def api_problems(name: str, folder: Path) -> Iterator[str]:
    """A sentence where a plugin says an API number that core does not support."""
    discovery = ROOT / "packages" / "jax2onnx-core" / "src" / "jax2onnx_core" / "plugins" / "discovery.py"
    supported = re.search(r"^API_VERSIONS = range\((\d+), (\d+)\)$", discovery.read_text(), re.MULTILINE)
    assert supported is not None, f"{discovery} has no API_VERSIONS"
    for plugin in folder.glob("src/jax2onnx_*/plugin.py"):
        said = re.search(r"^JAX2ONNX_API = (\d+)", plugin.read_text(), re.MULTILINE)
        if said is not None and int(said[1]) not in range(*map(int, supported.groups())):
            yield f"{name}: its plugin says JAX2ONNX_API = {said[1]}, but core supports {supported[0]}"


def requirement_problems(name: str, needed: Requirement, version: Version) -> Iterator[str]:
    """A sentence for each flaw of a requirement of another package here.

    What is public stays between minor versions (docs/versions.md), so that a package requires the oldest minor release whose
    features it uses, and excludes the next major one.

    Args:
      name: the package.
      needed: its requirement.
      version: the version of the other package here.
    """
    if not needed.specifier.contains(version, prereleases=True):
        yield f"{name}: needs {needed}, but the version here is {version}"
    operators = sorted(specifier.operator for specifier in needed.specifier)
    lowest = [Version(one.version).release for one in needed.specifier if one.operator == ">="]
    next_major = [Version(one.version).release for one in needed.specifier if one.operator == "<"]
    is_minor = all(len(release) <= 2 for release in lowest)
    if operators != ["<", ">="] or not is_minor or any(release[1:] not in ((), (0,)) for release in next_major):
        yield f"{name}: needs {needed}; it has to be of the form {needed.name}>={version.major}.{version.minor},<{version.major + 1}"


def metadata_problems(folder: Path, project: dict[str, Any]) -> Iterator[str]:
    """A sentence for each piece of metadata that PyPI shows and the project's table lacks."""
    name = project["name"]
    if project.get("license") != "Apache-2.0" or project.get("license-files") != ["LICENSE"]:
        yield f"{name}: license is Apache-2.0, license-files is ['LICENSE']"
    if not (folder / "LICENSE").exists() or (folder / "LICENSE").read_bytes() != (ROOT / "LICENSE").read_bytes():
        yield f"{name}: LICENSE is not that of the repository"
    urls = project.get("urls", {})
    if urls.keys() != URLS or not all(url.startswith(f"{REPOSITORY}/") for url in urls.values()):
        yield f"{name}: urls are {', '.join(sorted(URLS))}, all below {REPOSITORY}"
    if not project.get("authors") or not project.get("keywords") or not project.get("description"):
        yield f"{name}: authors, keywords or description are missing"
    wanted = {"Typing :: Typed", *(f"Programming Language :: Python :: {version}" for version in PYTHONS)}
    if missing := sorted(wanted - set(project.get("classifiers", []))):
        yield f"{name}: the classifiers {', '.join(missing)} are missing"
    yield from readme_problems(name, (folder / "README.md").read_text())


def readme_problems(name: str, text: str) -> Iterator[str]:
    """A sentence for each flaw of a README as a page on PyPI, where there is no repository around it."""
    if not re.search(rf"^pip install .*\b{name}\b", text, re.MULTILINE):
        yield f"{name}: its README does not say how it is installed"
    blocks = re.findall(r"^```(?:python|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if not [line for block in blocks for line in block.splitlines() if not line.startswith("pip install")]:
        yield f"{name}: its README has no example"
    if links := RELATIVE_LINK.findall(text):
        yield f"{name}: its README has relative links, which lead nowhere on PyPI: {', '.join(links)}"
    if REPOSITORY not in text:
        yield f"{name}: its README does not say where the repository is"


def problems(tag: str | None) -> list[str]:
    packages = projects()
    versions = {project["name"]: project["version"] for project in packages.values()}
    found = [problem for folder, project in packages.items() for problem in problems_of(folder, project, versions)]
    found += [problem for folder, project in packages.items() for problem in metadata_problems(folder, project)]
    if tag is not None:
        name, _, version = tag.rpartition("-v")
        if versions.get(name) != version:
            found.append(f"tag {tag}: the version of {name} is {versions.get(name)}")
    return found


def tagged(tag: str) -> Path:
    """The folder of the package that a tag releases."""
    folders = {project["name"]: folder for folder, project in projects().items()}
    name = tag.rpartition("-v")[0]
    if name not in folders:
        sys.exit(f"tag {tag}: there is no package {name!r}; a tag is <distribution>-v<version>")
    return folders[name]


def main() -> None:
    match sys.argv[1:]:
        case ["--versions"]:
            print(*(f"{project['name']} {project['version']}" for project in projects().values()), sep="\n")
            return
        case ["--package", tag]:
            print(tagged(tag).relative_to(ROOT))
            return
    found = problems(sys.argv[1] if len(sys.argv) > 1 else None)
    for problem in found:
        print(problem)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
