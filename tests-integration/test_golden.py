"""Golden graphs: what is exported for telling models, as text, so that a change of it is seen in review.

`golden/<model>.txt` holds for every version of JAX, and is written with the lowest supported one. Where a newer JAX
traces the model to other equations, `golden/<model>.jax-<version>.txt` holds from that version on.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import jax
import pytest
from jax2onnx_testing.graph_text import graph_text

from examples.golden_models import EXPORTS

pytestmark = pytest.mark.sampled(None)

TEXTS = Path(__file__).parent / "golden"
UPDATE = "nox -s golden -- --update"
Version = tuple[int, int]


def running() -> Version:
    major, minor = jax.__version_info__[:2]
    return int(major), int(minor)


def variants(name: str) -> dict[Version, Path]:
    """The texts that hold from a version of JAX on, by that version."""
    prefix = f"{name}.jax-"
    found = {path.stem.removeprefix(prefix): path for path in TEXTS.glob(f"{prefix}*.txt")}
    return {(int(v.split(".")[0]), int(v.split(".")[1])): path for v, path in found.items()}


def kept(name: str) -> Path:
    """The text that holds for the running JAX."""
    holding = [item for item in variants(name).items() if item[0] <= running()]
    return max(holding)[1] if holding else TEXTS / f"{name}.txt"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def rewrite_variant(name: str, text: str) -> None:
    """Keep a text of this version only where the text of older versions is not the same."""
    own = TEXTS / f"{name}.jax-{'.'.join(map(str, running()))}.txt"
    own.unlink(missing_ok=True)
    if read(kept(name)) != text:
        own.write_text(text, encoding="utf-8", newline="\n")


def compare(name: str, text: str) -> None:
    path = kept(name)
    old = read(path)
    if old != text:
        lines = old.splitlines(), text.splitlines()
        diff = "\n".join(difflib.unified_diff(*lines, f"golden/{path.name}", "exported now", lineterm=""))
        pytest.fail(f"{diff}\n\nThe graph of {name} has changed. If this is meant, run: {UPDATE}", pytrace=False)


@pytest.mark.parametrize("name", EXPORTS)
def test_the_graph_is_the_one_kept(name: str, pytestconfig: pytest.Config) -> None:
    text = graph_text(EXPORTS[name]().model)
    mode = pytestconfig.getoption("--golden", "compare")
    if mode == "rewrite":
        (TEXTS / f"{name}.txt").write_text(text, encoding="utf-8", newline="\n")
    elif mode == "rewrite-variants":
        rewrite_variant(name, text)
    else:
        compare(name, text)


def test_each_text_is_of_a_model(pytestconfig: pytest.Config) -> None:
    strays = [path for path in sorted(TEXTS.glob("*.txt")) if path.name.split(".")[0] not in EXPORTS]
    if pytestconfig.getoption("--golden", "compare") != "compare":
        for path in strays:
            path.unlink()
    else:
        assert not strays
