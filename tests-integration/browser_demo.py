"""Train the networks of the page in `docs/demo`, export them for browsers, and compare them there with JAX.

The page with its models comes to a folder, `build/demo` by default, that any file server can serve; `--serve` serves it here.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import demo
import generate
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_graph.metadata import read_states

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "demo"
BROWSER = ROOT / "tools" / "browser"
RUNTIME = ("ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm")
IMAGES, PROMPT, CHARACTERS = 50, "The statement ", 60
TOLERANCE = 1e-3
"""The largest difference of a logit or a probability: browsers may compute functions with some units of the last place less."""


def build(folder: Path, steps: int) -> dict[str, Any]:
    """Put the page, the runtime and the exported models into a folder.

    Returns:
      What JAX computes, for the comparison.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for file in [*PAGE.iterdir(), *(BROWSER / "node_modules/onnxruntime-web/dist" / name for name in RUNTIME)]:
        target = folder / "ort" if file.name in RUNTIME else folder
        target.mkdir(exist_ok=True)
        shutil.copy(file, target)
    digits, probabilities = export_digits(folder)
    writer, logits = export_writer(folder, steps)
    (folder / "models.json").write_text(json.dumps({"digits": digits, "writer": writer}))
    return {"probabilities": probabilities, "logits": logits}


def export_digits(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The network of `demo.py`; its description for the page, and the probabilities of some images by JAX."""
    train_images, train_labels, images, labels = demo.load()
    model = demo.Digits(nnx.Rngs(0))
    demo.train(model, train_images, train_labels, (images, labels))
    model.eval()

    def classify(images: jax.Array) -> dict[str, jax.Array]:
        return {"probabilities": nnx.softmax(model(images))}

    program = to_onnx(classify, [("batch", 8, 8, 1)], target="web")
    save(program, folder / "digits.onnx")
    wanted = np.asarray(jax.jit(classify)(images[:IMAGES])["probabilities"])
    described = {"file": "digits.onnx", "input": program.input_names[0], "probabilities": program.output_names[0]}
    return described, {"images": images[:IMAGES].reshape(IMAGES, -1).tolist(), "wanted": wanted.tolist()}


def export_writer(folder: Path, steps: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The decoder of `generate.py`; its description for the page, and what it writes in JAX, character by character."""
    characters, text = generate.load()
    model = generate.Decoder(len(characters), nnx.Rngs(0))
    generate.train(model, text, steps)
    generate.add_cache(model)
    program = to_onnx(model, [((1, 1), np.int32), ((), np.int32)], states=nnx.Cache, target="web")
    save(program, folder / "writer.onnx")
    pairs = read_states(program.model)
    given = {value.name: value for value in program.model.graph.inputs}
    states = [
        {"input": pair.input, "output": pair.output, "type": given[pair.input].dtype.numpy().name,
         "dims": list(given[pair.input].shape.numpy())}
        for pair in pairs
    ]  # fmt: skip
    own = [name for name in program.input_names if name not in {pair.input for pair in pairs}]
    logits = next(name for name in program.output_names if name not in {pair.output for pair in pairs})
    described = {
        "file": "writer.onnx", "characters": characters, "length": generate.LENGTH, "logits": logits, "states": states,
        "inputs": dict(zip(("character", "position"), own, strict=True)),
    }  # fmt: skip
    return described, written_by_jax(model, characters)


def written_by_jax(model: generate.Decoder, characters: str) -> dict[str, Any]:
    """The prompt and the most probable characters after it, and the logits that each of these came from."""
    jitted = nnx.jit(lambda model, character, position: model(character, position))
    text, rows = PROMPT, []
    for position in range(len(PROMPT) + CHARACTERS - 1):
        character = jnp.array([[characters.index(text[position])]], jnp.int32)
        logits = np.asarray(jitted(model, character, jnp.int32(position)))[0, 0]
        rows.append(logits.tolist())
        if position + 1 == len(text):
            text += characters[int(logits.argmax())]
    return {"prompt": PROMPT, "text": text, "wanted": rows}


def save(program: OnnxProgram, path: Path) -> None:
    program.save(path)
    print(f"{path}: {path.stat().st_size / 1024:.0f} KiB, opset {program.opset}")


def check(provider: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Compare what the page computed with JAX. Raises AssertionError."""
    assert found["provider"] == provider, f"the models ran by {found['provider']}: {found['status']}"
    probabilities = np.asarray(wanted["probabilities"]["wanted"])
    logits = np.asarray(wanted["logits"]["wanted"])
    differences = {
        "probabilities": np.abs(np.asarray(found["probabilities"]) - probabilities).max(),
        "logits": np.abs(np.asarray(found["logits"]) - logits).max(),
    }
    assert found["text"] == wanted["logits"]["text"], f"it wrote {found['text']!r}"
    assert max(differences.values()) < TOLERANCE, differences
    assert found["drawn"] == "1", f"a stroke from top to bottom is a {found['drawn']}"
    print(
        f"{provider}: {found['status']}; the largest differences from JAX: probabilities {differences['probabilities']:.1e}, "
        f"logits {differences['logits']:.1e}; the same {CHARACTERS} characters; {found['speed']:.0f} per second"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "demo")
    parser.add_argument("--steps", type=int, default=generate.STEPS, help="of the decoder's training")
    parser.add_argument("--screenshot", type=Path, help="where to put a picture of the page")
    parser.add_argument("--serve", action="store_true", help="serve the page until interrupted")
    options = parser.parse_args()
    wanted = build(options.folder, options.steps)
    if options.serve:
        sys.exit(subprocess.call([sys.executable, "-m", "http.server", "-d", str(options.folder), "8000"]))
    (options.folder / "wanted.json").write_text(json.dumps(wanted))
    command = ["node", str(BROWSER / "demo.mjs"), str(options.folder.resolve())]
    if options.screenshot:
        command.append(str(options.screenshot.resolve()))
    subprocess.run(command, check=True)
    found = json.loads((options.folder / "found.json").read_text())
    check("wasm", found["wasm"], wanted)
    if "webgpu" in found:
        check("webgpu", found["webgpu"], wanted)
    else:
        print(f"webgpu: not compared: {found['without']}")


if __name__ == "__main__":
    main()
