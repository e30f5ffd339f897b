"""Try packages of different ages together: the last released plugins with today's core, and today's plugins with the oldest
core, with what it is made on, that they admit.

A release is a tag <distribution>-v<version>. Its wheel is built from the tag, everything else from the working tree.
A mixture fits if it can be installed, its plugin loads, and the plugin's cases pass. An installer may refuse a released plugin
only beside a core of another major version, which the plugin's requirements exclude.
`--released COMMIT` makes the releases up: as if this commit had released all of its packages. Arguments after -- go to pytest:
`python tools/skew.py --only lax -- -k gelu`.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

# Core, and what it is made on.
CORE = ("jax2onnx-graph", "jax2onnx-runtime", "jax2onnx-report", "jax2onnx-core")
KIT = "jax2onnx-testing"
# What the cases of a package need besides: operations, and a runtime. An installer chooses the versions that fit.
COMPANIONS = ["jax2onnx-lax", "jax2onnx-onnxruntime[cpu]", KIT]
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


def releases(root: Path) -> dict[str, list[Release]]:
    """The releases of each distribution of a checkout that has some, the oldest first."""
    listed = subprocess.run(
        ["git", "tag", "--list", "jax2onnx-*-v*"], cwd=root, check=True, capture_output=True, text=True
    )
    found: dict[str, list[Release]] = {}
    for tag in listed.stdout.split():
        distribution, _, version = tag.rpartition("-v")
        found.setdefault(distribution, []).append(Release(Version(version), distribution, tag))
    return {distribution: sorted(tags) for distribution, tags in found.items()}


def build(source: Path, into: Path, *, sdist: bool = False) -> None:
    """Build the wheel of one package; with its sdist, from which the wheel is built then."""
    kinds = [] if sdist else ["--wheel"]
    command = [sys.executable, "-m", "build", "-q", *kinds, "--no-isolation", "-o", str(into), str(source)]
    subprocess.run(command, check=True)


def build_release(root: Path, release: Release, into: Path, *, sdist: bool = False) -> None:
    """Build the wheel of one package of a checkout as it was when it was released, and its sdist."""
    folder = f"packages/{release.distribution}"
    archive = subprocess.run(["git", "archive", release.tag, folder], cwd=root, check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(scratch, filter="data")
        build(Path(scratch, folder), into, sdist=sdist)


def plugins(root: Path) -> dict[str, Mapping[str, object]]:
    """The distributions of a checkout with an entry point of ours, and their `[project]` tables."""
    tables = (tomllib.loads(file.read_text())["project"] for file in sorted(root.glob("packages/*/pyproject.toml")))
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

    Raises:
      CalledProcessError: the requirements cannot be met together; its `stderr` says why.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
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
        check=True, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    return python


class Outcome(enum.Enum):
    """The fate of packages that were to be installed together."""

    FITS = "fits"
    REFUSED = "refused by the installer"
    REFUSED_BY_CORE = "refused by core"
    FAILS = "FAILS"


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Packages of different ages that are installed together.

    Attributes:
      name: the name of the mixture, which says which ages.
      plugin: the distribution whose cases are run.
      chosen: the wheels that have to be installed, by the names of their distributions.
      others: folders of wheels for all other packages.
      breaks: whether a core of another major version is among them, beside which the plugin need not be installable.
    """

    name: str
    plugin: str
    chosen: Mapping[str, Path]
    others: Sequence[Path]
    breaks: bool = False

    def tried(self, scratch: Path, arguments: Sequence[str]) -> tuple[Outcome, str]:
        """Install the packages, load the plugin and run its cases; what became of it, and the message of what refused."""
        print(f"{self.name}: {', '.join(wheel.name for wheel in self.chosen.values())}", flush=True)
        requirements = [f"{name} @ {wheel.as_uri()}" for name, wheel in self.chosen.items()]
        requirements += [name for name in COMPANIONS if name not in self.chosen]
        try:
            python = environment(scratch / self.name.replace(" ", "-"), self.others, requirements)
        except subprocess.CalledProcessError as error:
            return Outcome.REFUSED, error.stderr
        loaded = subprocess.run([python, "-c", LOADS, self.plugin], check=False, capture_output=True, text=True)
        if loaded.returncode:
            return Outcome.REFUSED_BY_CORE, loaded.stderr
        suite = [python, *SUITE, f"--jax2onnx-dist={self.plugin}", *arguments]
        # 5: no test, as for a plugin without cases. Not in this checkout, whose settings of pytest are for its own tests.
        passed = subprocess.run(suite, check=False, cwd=scratch).returncode in (0, 5)
        return (Outcome.FITS if passed else Outcome.FAILS), ""

    def holds(self, scratch: Path, arguments: Sequence[str]) -> bool:
        """Whether the packages fit, or are refused where they have to be."""
        outcome, message = self.tried(scratch, arguments)
        print(message, f"{outcome.value}: {self.name}", sep="\n", flush=True)
        return outcome is Outcome.FITS or (self.breaks and outcome is Outcome.REFUSED)


def wheels(root: Path, scratch: Path, known: Mapping[str, Sequence[Release]]) -> tuple[Path, Path]:
    """The folders with the wheels of a checkout as it is, and of its releases."""
    today, released = scratch / "today", scratch / "released"
    for folder in sorted(root.glob("packages/*")):
        build(folder, today)
    for release in (release for group in known.values() for release in group):
        build_release(root, release, released)
    return today, released


def mixtures(
    root: Path, scratch: Path, known: Mapping[str, Sequence[Release]], only: Sequence[str]
) -> Iterator[Mixture]:
    """The mixtures of packages to try; wheels are built for them.

    Args:
      root: the checkout.
      scratch: the folder for wheels.
      known: the releases of each package, the oldest first.
      only: the plugins to try; all if empty.
    """
    today, released = wheels(root, scratch, known)
    now = {wheel.name.split("-")[0].replace("_", "-"): wheel for wheel in today.glob("*.whl")}
    majors = {name: Version(wheel.name.split("-")[1]).major for name, wheel in now.items()}
    for name, table in plugins(root).items():
        if only and name.removeprefix("jax2onnx-") not in only:
            continue
        if name in known:
            newest, core = known[name][-1], {own: now[own] for own in (*CORE, KIT)}
            chosen = {**core, name: newest.wheel(released)}
            breaks = any(known[own][-1].version.major != majors[own] for own in CORE if own in known)
            yield Mixture(f"{name} {newest.version} with today's core", name, chosen, [released, today], breaks)
        if oldest := oldest_core(table, known):
            old = {release.distribution: release.wheel(released) for release in oldest}
            chosen = {**old, name: now[name]}
            yield Mixture(f"today's {name} with the oldest core", name, chosen, [released, today])


def released_by(root: Path, commit: str, folder: Path) -> Path:
    """A clone of a checkout, as it is committed, with tags as if a commit had released all of its packages.

    Args:
      root: the checkout, which gets no tags.
      commit: the commit.
      folder: where the clone goes.
    """
    subprocess.run(["git", "clone", "-q", str(root), str(folder)], check=True)

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout

    commit = subprocess.run(
        ["git", "rev-parse", commit], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()
    for package in git("ls-tree", "-d", "--name-only", commit, "packages/").split():
        name = Path(package).name
        source = git("show", f"{commit}:{package}/src/{name.replace('-', '_')}/__init__.py")
        version = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
        assert version is not None, f"{package} has no version in {commit}"
        git("tag", f"{name}-v{version[1]}", commit)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent, help="another checkout")
    parser.add_argument("--released", metavar="COMMIT", help="as if this commit had released all packages")
    parser.add_argument("--only", nargs="+", default=[], help="plugins, without jax2onnx-")
    parser.add_argument("arguments", nargs="*", help="for pytest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root: Path = options.root
        if options.released is not None:
            root = released_by(root, options.released, Path(scratch, "clone"))
        known = releases(root)
        if not known:
            print("Nothing has been released yet: there is no tag <distribution>-v<version>.")
            return
        tried = mixtures(root, Path(scratch), known, options.only)
        results = {mixture.name: mixture.holds(Path(scratch), options.arguments) for mixture in tried}
    for name, holds in results.items():
        print(f"{'holds  ' if holds else 'FAILS  '} {name}")
    sys.exit(not all(results.values()))


if __name__ == "__main__":
    main()
