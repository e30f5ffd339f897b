"""The version of each package is the newest in its changelog, and the tag of a release build.

    python tools/check_release.py [TAG]      TAG is <distribution>-v<version>
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def problems(tag: str | None) -> list[str]:
    found = []
    versions = {}
    for file in sorted(ROOT.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(file.read_text())["project"]
        name, version = project["name"], project["version"]
        versions[name] = version
        newest = re.search(r"^## (\S+)", (file.parent / "CHANGELOG.md").read_text(), re.MULTILINE)
        if newest is None or newest[1] != version:
            found.append(f"{name}: version {version}, but the changelog's newest entry is {newest and newest[1]}")
        minor = version.split(".")[1]
        wanted = f"jax2onnx-core>=0.{minor},<0.{int(minor) + 1}"
        if name != "jax2onnx-core" and wanted not in project["dependencies"]:
            found.append(f"{name}: does not depend on {wanted}")
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
