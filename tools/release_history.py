"""Three made-up releases of every package, some of them incompatible on purpose: which of their mixtures work, and what refuses
the others.

The releases are tags of a repository of their own, which begins with the files of this one:

* 0.1.0 is what is here.
* 0.2.0 of core has something new, which 0.2.0 of lax uses and requires.
* 1.0.0 of all packages requires 1.0 of the others, and the plugin API 2; jax2onnx-linen is released with this API as
  0.3.0, and its requirements still admit the core of 0.2, which does not have it.

The made-up third party's package says plugin API 1 and has no upper bound.

All files of the releases are put into an index, a folder, from which pip and uv install by name: the newest, an older one, an upgrade, sdists, and
what is left when a release was yanked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import html
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import skew
from packaging.version import Version

ROOT = Path(__file__).parent.parent
THIRD_PARTY = ROOT / "tests-integration" / "third-party"
SAMPLE = ["-k", "tanh or linear or dense or layer_norm or function"]  # a few cases of each package
FEATURE = "SINCE_0_2 = True"


@dataclasses.dataclass(frozen=True)
class History:
    """A repository with made-up releases.

    Attributes:
      folder: its working tree.
    """

    folder: Path

    @classmethod
    def begun(cls, folder: Path) -> History:
        """A repository with the files of this one that git knows, or would."""
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, files.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        history = cls(folder)
        history.git("init", "-q")
        return history

    def git(self, *arguments: str) -> None:
        """Run a command of git in the repository."""
        identity = ["-c", "user.name=release", "-c", "user.email=release@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=self.folder, check=True)

    def packages(self) -> dict[str, Path]:
        """The folder of each distribution."""
        return {folder.name: folder for folder in sorted(self.folder.glob("packages/*"))}

    def replace(self, file: str, old: str, new: str) -> None:
        """Replace a text of a file, which has to be there."""
        path = self.folder / file
        text = path.read_text()
        if old not in text:
            raise SystemExit(f"{file} of this repository has no {old!r}, which the made-up history changes")
        path.write_text(text.replace(old, new))

    def append(self, file: str, line: str) -> None:
        """Append a line to a file."""
        path = self.folder / file
        path.write_text(f"{path.read_text()}\n{line}\n")

    def require(self, name: str, *requirements: str) -> None:
        """Change what a package requires of other packages of the repository."""
        path = self.packages()[name] / "pyproject.toml"
        text = path.read_text()
        for requirement in requirements:
            needed = re.match(r"[a-z0-9-]+", requirement)[0]  # type: ignore[index]
            text = re.sub(rf'"{needed}>=[^"]*"', f'"{requirement}"', text)
        path.write_text(text)

    def release(self, versions: Mapping[str, str]) -> None:
        """Release packages: their versions and changelogs are changed, and tagged."""
        for name, version in versions.items():
            folder = self.packages()[name]
            (module,) = folder.glob("src/jax2onnx_*/__init__.py")
            text = re.sub(r'^__version__ = ".*"$', f'__version__ = "{version}"', module.read_text(), flags=re.MULTILINE)
            module.write_text(text)
            changes = (folder / "CHANGELOG.md").read_text()
            title, _, entries = changes.partition("\n\n")
            entries = re.sub(r"^## Unreleased\n.*?(?=^## )", "", entries, flags=re.MULTILINE | re.DOTALL)
            if not entries.startswith(f"## {version}\n"):
                entries = f"## {version}\n\nMade up.\n\n{entries}"
            (folder / "CHANGELOG.md").write_text(f"{title}\n\n{entries}")
        subprocess.run([sys.executable, str(self.folder / "tools" / "check_release.py")], check=True)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "Release")
        for name, version in versions.items():
            self.git("tag", f"{name}-v{version}")

    def first(self) -> None:
        """Release what is here, as 0.1.0."""
        self.release(dict.fromkeys(self.packages(), "0.1.0"))

    def second(self) -> None:
        """Release 0.2.0: lax uses what is new in core, and says so."""
        self.append("packages/jax2onnx-core/src/jax2onnx_core/plugins/discovery.py", FEATURE)
        self.append("packages/jax2onnx-lax/src/jax2onnx_lax/plugin.py", _import_of_the_feature())
        self.require("jax2onnx-lax", "jax2onnx-core>=0.2,<1")
        self.release(dict.fromkeys(self.packages(), "0.2.0"))

    def third(self) -> None:
        """Release 1.0.0, with the plugin API 2 alone; the release of linen forgets to require it."""
        self.replace(
            "packages/jax2onnx-core/src/jax2onnx_core/plugins/discovery.py",
            "API_VERSIONS = range(1, 2)",
            "API_VERSIONS = range(2, 3)",
        )
        names = set(self.packages())
        for name, folder in self.packages().items():
            for plugin in folder.glob("src/jax2onnx_*/plugin.py"):
                if "JAX2ONNX_API = 1" in plugin.read_text():
                    self.replace(str(plugin.relative_to(self.folder)), "JAX2ONNX_API = 1", "JAX2ONNX_API = 2")
            self.require(name, *(f"{needed}>=1,<2" for needed in names))
        self.require("jax2onnx-linen", "jax2onnx-core>=0.1,<2", "jax2onnx-lax>=0.1,<2")
        self.release({**dict.fromkeys(names, "1.0.0"), "jax2onnx-linen": "0.3.0"})


def _import_of_the_feature() -> str:
    name = FEATURE.partition(" ")[0]
    return f"from jax2onnx_core.plugins.discovery import {name}  # noqa: E402, F401"


@dataclasses.dataclass(frozen=True)
class Expected:
    """The outcome of releases that are installed together.

    Attributes:
      versions: the chosen versions by distribution, without "jax2onnx-".
      outcome: what becomes of them; the first of them is the plugin that is loaded.
      says: texts that the message of what refused contains.
    """

    versions: Mapping[str, str]
    outcome: skew.Outcome
    says: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The packages and their versions."""
        return " with ".join(f"{name} {version}" for name, version in self.versions.items())

    def problem(self, scratch: Path, wheels: Mapping[tuple[str, str], Path], folders: Iterable[Path]) -> str | None:
        """Install the releases; what is not as expected."""
        chosen = {f"jax2onnx-{name}": wheels[f"jax2onnx-{name}", version] for name, version in self.versions.items()}
        mixture = skew.Mixture(self.name, next(iter(chosen)), chosen, list(folders))
        outcome, message = mixture.tried(scratch, SAMPLE)
        print(f"  {outcome.value}", *(line for line in message.strip().splitlines()[-8:]), sep="\n  ", flush=True)
        if outcome is not self.outcome:
            return f"{self.name}: {outcome.value}, expected: {self.outcome.value}"
        missing = [text for text in self.says if text not in " ".join(message.split())]
        return f"{self.name}: the message does not say {', '.join(map(repr, missing))}" if missing else None


OF_ONE_AGE = [
    Expected({"lax": version, "core": version, "graph": version}, skew.Outcome.FITS)
    for version in ("0.1.0", "0.2.0", "1.0.0")
]
OF_SEVERAL_AGES = [
    Expected({"haiku": "0.1.0", "core": "0.2.0", "lax": "0.2.0"}, skew.Outcome.FITS),
    Expected({"nnx": "0.2.0", "core": "0.1.0", "lax": "0.1.0"}, skew.Outcome.FITS),
    Expected({"functions": "0.2.0", "core": "0.1.0"}, skew.Outcome.FITS),
    Expected({"linen": "0.3.0", "core": "1.0.0"}, skew.Outcome.FITS),
]
REFUSED = [
    Expected({"lax": "0.2.0", "core": "0.1.0"}, skew.Outcome.REFUSED, ("jax2onnx-core>=0.2,<1",)),
    Expected({"core": "0.2.0", "graph": "1.0.0"}, skew.Outcome.REFUSED, ("jax2onnx-graph", "<1")),
    Expected({"nnx": "0.2.0", "core": "1.0.0"}, skew.Outcome.REFUSED, ("jax2onnx-core", "<1")),
    Expected(
        {"linen": "0.3.0", "core": "0.2.0"},
        skew.Outcome.REFUSED_BY_CORE,
        ("jax2onnx-linen says JAX2ONNX_API = 2", "pip install -U jax2onnx-core"),
    ),
    Expected(
        {"ripple": "0.1.0", "core": "1.0.0"},
        skew.Outcome.REFUSED_BY_CORE,
        ("jax2onnx-ripple says JAX2ONNX_API = 1", "pip install -U jax2onnx-ripple"),
    ),
]


@dataclasses.dataclass(frozen=True)
class Index:
    """A package index in a folder, as PEP 503 says, which an installer reads beside the public one.

    Attributes:
      folder: its pages.
      files: the folder of the wheels and sdists.
    """

    folder: Path
    files: Path

    def write(self, yanked: Iterable[tuple[str, str]] = ()) -> None:
        """Write a page for each distribution; what is yanked is installed only where its version is asked for."""
        links: dict[str, list[str]] = {}
        for file in sorted(self.files.glob("jax2onnx_*")):
            name, version = file.name.removesuffix(".tar.gz").split("-")[:2]
            name = name.replace("_", "-")
            mark = ' data-yanked="made up"' if (name, version) in yanked else ""
            address = f"{file.as_uri()}#sha256={hashlib.sha256(file.read_bytes()).hexdigest()}"
            links.setdefault(name, []).append(f'<a href="{html.escape(address)}"{mark}>{file.name}</a>')
        for name, anchors in links.items():
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            (self.folder / name / "index.html").write_text(
                f"<!DOCTYPE html><html><body>{'<br>'.join(anchors)}</body></html>"
            )


def environment_of(installer: str, folder: str) -> tuple[list[str], str]:
    """An environment for pip or uv in a folder: the command that installs into it, and its Python."""
    python = str(Path(folder, "bin", "python"))
    if installer == "pip":
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        return [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"], python
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    # Its cache has wheels by their versions: an older build of the same version is none of these.
    fresh = [part for name in _CHAIN for part in ("--refresh-package", f"jax2onnx-{name}")]
    return [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python, *fresh], python


@dataclasses.dataclass(frozen=True)
class Installed:
    """What a user types, one command after the other, and the versions that are there afterwards.

    Attributes:
      commands: arguments of `pip install`.
      versions: the versions by distribution, without "jax2onnx-".
      yanked: the releases that were taken back before.
    """

    commands: tuple[str, ...]
    versions: Mapping[str, str]
    yanked: tuple[tuple[str, str], ...] = ()

    def problem(self, installer: str, index: Index) -> str | None:
        """Run the commands in a fresh environment by pip or uv; what is not as expected."""
        said = f"{installer} install {', then '.join(self.commands)}" + (
            f" without {self.yanked}" if self.yanked else ""
        )
        index.write(self.yanked)
        with tempfile.TemporaryDirectory() as folder:
            install, python = environment_of(installer, folder)
            for command in self.commands:
                subprocess.run([*install, "--extra-index-url", index.folder.as_uri(), *command.split()], check=True)
            listed = subprocess.run([python, "-c", VERSIONS], check=True, capture_output=True, text=True).stdout
        found = dict(line.split() for line in listed.splitlines())
        print(f"{said}: {found}", flush=True)
        return None if found == self.versions else f"{said}: {found}, expected: {self.versions}"


# Imported, too, so that what is installed is whole.
VERSIONS = """
import importlib
from importlib.metadata import distributions
for name, version in sorted({(d.name, d.version) for d in distributions() if d.name.startswith("jax2onnx-")}):
    importlib.import_module(name.replace("-", "_"))
    print(name.removeprefix("jax2onnx-"), version)
"""

# Packages that need no JAX, so that an environment is made in seconds.
_CHAIN = ("generation", "graph", "runtime")
_SDISTS = " ".join(f"--no-binary jax2onnx-{name}" for name in _CHAIN)
FROM_THE_INDEX = [
    Installed(("jax2onnx-generation",), dict.fromkeys(_CHAIN, "1.0.0")),
    Installed(("jax2onnx-generation<1",), dict.fromkeys(_CHAIN, "0.2.0")),
    Installed((f"jax2onnx-generation {_SDISTS}",), dict.fromkeys(_CHAIN, "1.0.0")),
    Installed(("jax2onnx-generation==0.1.0", "-U jax2onnx-generation"), dict.fromkeys(_CHAIN, "1.0.0")),
    Installed(("jax2onnx-generation",), dict.fromkeys(_CHAIN, "0.2.0"), yanked=(("jax2onnx-graph", "1.0.0"),)),
]


def installed(scratch: Path, released: Path) -> list[str]:
    """The problems with what pip and uv install from an index of the releases."""
    index = Index(scratch / "simple", released)
    problems = [expected.problem(installer, index) for expected in FROM_THE_INDEX for installer in ("pip", "uv")]
    return [problem for problem in problems if problem is not None]


def mixed(history: History, scratch: Path) -> list[str]:
    """The problems with the releases that are installed together."""
    released = scratch / "released"
    known = skew.releases(history.folder)
    wheels = {}
    for release in (release for group in known.values() for release in group):
        skew.build_release(history.folder, release, released, sdist=True)
        wheels[release.distribution, str(release.version)] = release.wheel(released)
    skew.build(THIRD_PARTY, released)
    third_party = skew.Release(Version("0.1.0"), "jax2onnx-ripple", "")
    wheels[third_party.distribution, str(third_party.version)] = third_party.wheel(released)
    problems: list[str | None] = [*installed(scratch, released)]
    for expected in (*OF_ONE_AGE, *OF_SEVERAL_AGES, *REFUSED):
        with tempfile.TemporaryDirectory() as environments:
            problems.append(expected.problem(Path(environments), wheels, [released]))
    return [problem for problem in problems if problem is not None]


def skew_problems(history: History, when: str, only: Iterable[str]) -> list[str]:
    """The problems that `skew` finds in the working tree of a history, none of whose plugins is broken."""
    command = [sys.executable, str(history.folder / "tools" / "skew.py"), "--root", str(history.folder)]
    tried = subprocess.run([*command, "--only", *only, "--", *SAMPLE], check=False)
    return [f"skew fails {when}"] if tried.returncode else []


def main() -> None:
    with contextlib.ExitStack() as stack:
        folder, scratch = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        history = History.begun(folder)
        history.first()
        history.second()
        problems = skew_problems(history, "after two releases", ["functions", "lax", "haiku"])
        history.third()
        problems += mixed(history, scratch)
    print(*problems or ["All mixtures of the made-up releases work, or are refused, as they have to."], sep="\n")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
