"""Folders of jax2onnx-transformersjs in transformers.js: its pipelines in Node.js and in Chromium, compared with JAX.

Needs Node.js and the packages of `tests-integration/folders/transformersjs`; without Chromium its rows are left as they are.
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
from hugging_face_models import Example, build, compared, compared_tokens
from table import Row, write
from tokenizers import Tokenizer

HERE = Path(__file__).parent / "transformersjs"
FILES = {"fp32": "model.onnx", "fp16": "model_fp16.onnx", "q8": "model_quantized.onnx", "q4": "model_q4.onnx"}
WHAT = {
    "text-generation": "tokens",
    "image-classification": "probabilities differ by",
    "feature-extraction": "features differ by",
}
PLACES = {"node": "Node.js", "chromium": "Chromium, WebAssembly"}


def run(place: str, directory: Path, examples: Sequence[Example]) -> Iterator[Row]:
    """Run all examples in all precisions in Node.js or Chromium; a row of the table for each example."""
    jobs = [(example, dtype) for example in examples for dtype in example.dtypes]
    described = [{"task": e.task, "model": e.folder, "dtype": dtype, **e.given} for e, dtype in jobs]
    (directory / "jobs.json").write_text(json.dumps(described))
    subprocess.run(["node", str(HERE / f"{place}.mjs"), str(directory)], check=True)
    answer = json.loads((directory / f"found-{place}.json").read_text())
    results = dict(zip(((e.folder, dtype) for e, dtype in jobs), answer["found"], strict=True))
    for example in examples:
        found = {dtype: results[example.folder, dtype] for dtype in example.dtypes}
        equal = ", ".join(f"{dtype} {compare(example, dtype, one, directory)}" for dtype, one in found.items())
        what, speed = WHAT[example.task], ""
        if example.task == "text-generation":
            speed = ", ".join(f"{dtype} {one['speed']:.0f}" for dtype, one in found.items()) + " tokens/s"
        yield Row(example.title, f"transformers.js {answer['version']}, {PLACES[place]}", f"{what}: {equal}", speed)


def compare(example: Example, dtype: str, found: Mapping[str, Any], directory: Path) -> str:
    """Comparison with JAX, for the table: the number of equal tokens, or the largest difference."""
    if example.task == "text-generation":
        file = directory / example.folder / "onnx" / FILES[dtype]
        tokenizer = Tokenizer.from_file(str(directory / example.folder / "tokenizer.json"))
        assert found["text"] == tokenizer.decode(found["tokens"]), f"{example.title}: {found['text']!r}"
        if dtype == "fp32":
            assert found["together"] == found["alone"], f"{example.title}: the texts of a batch differ from those alone"
        return compared_tokens(example, dtype, np.array(found["tokens"]), file)
    if example.task == "image-classification":
        scores = dict(zip(found["labels"], found["scores"], strict=True))
        return compared(example, dtype, np.array([scores[label] for label in example.labels]))
    return compared(example, dtype, np.array(found["data"]).reshape(found["dims"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="of the decoder's training")
    parser.add_argument("--folder", type=Path, help="where the models go, by default into a temporary folder")
    parser.add_argument("--keep-speeds", action="store_true", help="keep the speeds of the page, on a busy machine")
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
        write("transformers.js", rows, keep_speeds=options.keep_speeds)


if __name__ == "__main__":
    main()
