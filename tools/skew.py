"""Try packages of different ages together: the last released plugins with today's core, and today's plugins with the oldest
core, with what it is made on, that they admit.

A release is a tag <distribution>-v<version>. Its wheel is built from the tag, everything else from the working tree.
Arguments after -- go to pytest: `python tools/skew.py --only lax -- -k gelu`.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
# Core, and what it is made on.
CORE = ("jax2onnx-graph", "jax2onnx-runtime", "jax2onnx-report", "jax2onnx-core")
KIT = "jax2onnx-testing"
SUITE = ["-m", "pytest", "-q", "--pyargs", "jax2onnx_testing.suite", "--jax2onnx-quick", "--jax2onnx-precision=f32"]

LOADS = """
import importlib.metadata, sys
from jax2onnx_core.plugins.discovery import installed_plugins
found = installed_plugins()
assert not found.failures, found.failures
assert sys.argv[1] in found.distributions.values(), found.distributions
print(*(f"{name} {importlib.metadata.version(name)}" for name in ("jax2onnx-graph", "jax2onnx-core", sys.argv[1])), sep=", ")
"""


@dataclasses.dataclass(frozen=True, order=True)
class Release:
    """A version of a distribution, and the tag it was released by."""

    version: Version
    distribution: str
    tag: str

    def wheel(self, folder: Path) -> Path:
        """The wheel of a release among those in a folder."""
        (found,) = folder.glob(f"{self.distribution.replace('-', '_')}-{self.version}-*.whl")
        return found


def releases() -> dict[str, list[Release]]:
    """The releases of each distribution that has some, the oldest first."""
    listed = subprocess.run(
        ["git", "tag", "--list", "jax2onnx-*-v*"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found: dict[str, list[Release]] = {}
    for tag in listed.stdout.split():
        distribution, _, version = tag.rpartition("-v")
        found.setdefault(distribution, []).append(Release(Version(version), distribution, tag))
    return {distribution: sorted(tags) for distribution, tags in found.items()}


def build(source: Path, into: Path) -> None:
    """Build the wheel of one package."""
    command = [sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation", "-o", str(into), str(source)]
    subprocess.run(command, check=True)


def build_release(release: Release, into: Path) -> None:
    """Build the wheel of one package as it was when it was released."""
    folder = f"packages/{release.distribution}"
    archive = subprocess.run(["git", "archive", release.tag, folder], cwd=ROOT, check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(scratch, filter="data")
        build(Path(scratch, folder), into)


def plugins() -> dict[str, Mapping[str, object]]:
    """The distributions with an entry point of ours, and their `[project]` tables."""
    tables = (tomllib.loads(file.read_text())["project"] for file in sorted(ROOT.glob("packages/*/pyproject.toml")))
    return {table["name"]: table for table in tables if "jax2onnx" in table.get("entry-points", {})}


def oldest_core(table: Mapping[str, object], known: Mapping[str, Sequence[Release]]) -> list[Release]:
    """The oldest releases of core, and of what it is made on, that the requirements of a package admit."""
    needed = [Requirement(text) for text in table["dependencies"]]  # type: ignore[attr-defined]
    admitted = {r.name: [one for one in known.get(r.name, []) if r.specifier.contains(one.version)] for r in needed}
    return [admitted[name][0] for name in CORE if admitted.get(name)]


def environment(folder: Path, wheels: Sequence[Path], requirements: Sequence[str]) -> str:
    """Make an environment with some packages.

    Args:
      folder: the folder of the environment.
      wheels: folders of wheels that are preferred to the registry's.
      requirements: the packages.

    Returns:
      The path of its Python.
    """
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
    links = [part for directory in wheels for part in ("--find-links", str(directory))]
    # uv's cache has wheels by their versions: an older build of the same version is none of these.
    fresh = [
        part
        for directory in wheels
        for wheel in directory.glob("*.whl")
        for part in ("--refresh-package", wheel.name.split("-")[0])
    ]
    subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python, *links, *fresh, *requirements],
        check=True,
    )
    return python


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Packages of different ages that are installed together.

    Attributes:
      name: the name of the mixture, which says which ages.
      plugin: the distribution whose cases are run.
      chosen: the wheels that have to be installed, by the names of their distributions.
      others: folders of wheels for all other packages.
    """

    name: str
    plugin: str
    chosen: Mapping[str, Path]
    others: Sequence[Path]

    def holds(self, scratch: Path, arguments: Sequence[str]) -> bool:
        """Whether the packages can be installed together, load, and pass the plugin's cases."""
        print(f"{self.name}: {', '.join(wheel.name for wheel in self.chosen.values())}", flush=True)
        requirements = [f"{name} @ {wheel.as_uri()}" for name, wheel in self.chosen.items()]
        try:
            python = environment(scratch / self.name.replace(" ", "-"), self.others, requirements)
            subprocess.run([python, "-c", LOADS, self.plugin], check=True)
        except subprocess.CalledProcessError:
            return False
        suite = subprocess.run([python, *SUITE, f"--jax2onnx-dist={self.plugin}", *arguments], check=False)
        return suite.returncode in (0, 5)  # 5: no test, as for a plugin without cases


def mixtures(scratch: Path, known: Mapping[str, Sequence[Release]], only: Sequence[str]) -> Iterator[Mixture]:
    """The mixtures of packages to try; wheels are built for them.

    Args:
      scratch: the folder for wheels.
      known: the releases of each package, the oldest first.
      only: the plugins to try; all if empty.
    """
    today, released = scratch / "today", scratch / "released"
    for folder in sorted(ROOT.glob("packages/*")):
        build(folder, today)
    for release in (release for group in known.values() for release in group):
        build_release(release, released)
    now = {wheel.name.split("-")[0].replace("_", "-"): wheel for wheel in today.glob("*.whl")}
    for name, table in plugins().items():
        if only and name.removeprefix("jax2onnx-") not in only:
            continue
        if name in known:
            newest, core = known[name][-1], {own: now[own] for own in (*CORE, KIT)}
            chosen = {**core, name: newest.wheel(released)}
            yield Mixture(f"{name} {newest.version} with today's core", name, chosen, [released, today])
        if oldest := oldest_core(table, known):
            old = {release.distribution: release.wheel(released) for release in oldest}
            chosen = {**old, name: now[name], KIT: now[KIT]}
            yield Mixture(f"today's {name} with the oldest core", name, chosen, [released, today])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="plugins, without jax2onnx-")
    parser.add_argument("arguments", nargs="*", help="for pytest")
    options = parser.parse_args()
    known = releases()
    if not known:
        print("Nothing has been released yet: there is no tag <distribution>-v<version>.")
        return
    with tempfile.TemporaryDirectory() as scratch:
        results = {
            m.name: m.holds(Path(scratch), options.arguments) for m in mixtures(Path(scratch), known, options.only)
        }
    for name, holds in results.items():
        print(f"{'fits  ' if holds else 'FAILS '} {name}")
    sys.exit(not all(results.values()))


if __name__ == "__main__":
    main()
