"""Folders of jax2onnx-transformersjs in transformers.js: its pipelines in Node.js and in Chromium, compared with JAX.

Needs Node.js and the packages of `tests-integration/runners/transformersjs`; without Chromium its rows are left as they are.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hugging_face_models import COUNT, TOLERANCES, Example, build
from table import Row, write

HERE = Path(__file__).parent / "transformersjs"
PLACES = {"node": "Node.js", "chromium": "Chromium, WebAssembly"}


def run(place: str, directory: Path, examples: Sequence[Example]) -> Iterator[Row]:
    """Run all examples in all precisions in Node.js or Chromium; the rows of the table."""
    jobs = [(example, dtype) for example in examples for dtype in example.dtypes]
    described = [{"task": e.task, "model": e.folder, "dtype": dtype, **e.given} for e, dtype in jobs]
    (directory / "jobs.json").write_text(json.dumps(described))
    subprocess.run(["node", str(HERE / f"{place}.mjs"), str(directory)], check=True)
    answer = json.loads((directory / f"found-{place}.json").read_text())
    for (example, dtype), found in zip(jobs, answer["found"], strict=True):
        equal, speed = compare(example, dtype, found)
        yield Row(f"{example.title}, {dtype}", f"transformers.js {answer['version']}, {PLACES[place]}", equal, speed)


def compare(example: Example, dtype: str, found: Mapping[str, Any]) -> tuple[str, str]:
    """What is equal to JAX, and how fast it is. Raises AssertionError for a difference that the precision does not explain."""
    if example.task == "text-generation":
        return compared_tokens(example, dtype, found), f"{found['speed']:.0f} tokens/s"
    if example.task == "image-classification":
        scores = dict(zip(found["labels"], found["scores"], strict=True))
        got, what = np.array([scores[label] for label in example.labels]), "probabilities"
    else:
        got, what = np.array(found["data"]).reshape(found["dims"]), "features"
    difference = float(np.abs(got - example.wanted).max())
    relative = float(np.linalg.norm(got - example.wanted) / np.linalg.norm(example.wanted))
    assert relative < TOLERANCES[dtype], f"{example.title}, {dtype}: {what} differ by {relative:.1e} of their norm"
    return f"{what} to {difference:.0e}", ""


def compared_tokens(example: Example, dtype: str, found: Mapping[str, Any]) -> str:
    """How many of the tokens are those of JAX. Raises AssertionError if they are not all in full precision."""
    got, wanted = np.array(found["tokens"]), example.wanted
    assert len(got) == len(wanted), f"{example.title}, {dtype}: {len(got)} tokens instead of {len(wanted)}"
    differing = np.flatnonzero(got != wanted)
    same = COUNT if differing.size == 0 else int(differing[0]) - (len(wanted) - COUNT)
    assert dtype != "fp32" or same == COUNT, f"{example.title}: the texts part after {same} tokens"
    return f"{same} of {COUNT} tokens"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="of the decoder's training")
    parser.add_argument("--folder", type=Path, help="where the models go, by default into a temporary folder")
    options = parser.parse_args()
    if shutil.which("node") is None or not (HERE / "node_modules").is_dir():
        sys.exit(f"Node.js or the packages of {HERE} are missing: npm ci --ignore-scripts --prefix {HERE}")
    with tempfile.TemporaryDirectory() as temporary:
        directory = (options.folder or Path(temporary)).resolve()
        directory.mkdir(exist_ok=True)
        examples = build(directory, steps=options.steps)
        rows = [*run("node", directory, examples)]
        browser = Path(__file__).parents[2] / "tools" / "browser"
        found = subprocess.run(["node", "browser.mjs", "--find"], cwd=browser, stdout=subprocess.DEVNULL, check=False)
        if found.returncode:
            print(
                "Chromium: not run: neither Chromium nor Chrome is installed, or `npm ci` in tools/browser is missing"
            )
        else:
            rows += run("chromium", directory, examples)
        write("transformers.js", rows)


if __name__ == "__main__":
    main()
