"""Train the networks of the page in `docs/demo`, export them for browsers, and compare them there with JAX.

The page with its models comes to a folder, `build/demo` by default, that any file server can serve; `--serve` serves it here.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import demo
import generate
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_graph.metadata import read_states
from jax2onnx_training import to_training

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "demo"
BROWSER = ROOT / "tools" / "browser"
RUNTIME = ("ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm")
IMAGES, PROMPT, CHARACTERS = 50, "The statement ", 60
EXAMPLES, STEPS, BATCH = 200, 10, 32
HEAD = nnx.All(nnx.Param, nnx.Any(nnx.PathContains("hidden"), nnx.PathContains("out")))
"""The weights that the page trains: those of the two dense layers."""
TOLERANCE = 1e-3
"""The largest difference of a logit, a probability or a loss: browsers may compute functions with some units of the last place less."""
KEPT = 0.9
"""The least part of other digits that is right after the page has learned that a 1 is a 7."""


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
    digits, wanted = export_digits(folder)
    writer, logits = export_writer(folder, steps)
    (folder / "models.json").write_text(json.dumps({"digits": digits, "writer": writer}))
    return {**wanted, "logits": logits}


def classify(model: demo.Digits, images: jax.Array) -> dict[str, jax.Array]:
    return {"probabilities": nnx.softmax(model(images))}


def loss_of(model: demo.Digits, images: jax.Array, labels: jax.Array) -> jax.Array:
    """The loss of the steps in the page, where the statistics of the batch norm stay as they are."""
    model.eval()
    return optax.softmax_cross_entropy_with_integer_labels(model(images), labels).mean()


def export_digits(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The network of `demo.py`, and steps of its training; their description for the page, and what JAX computes."""
    train_images, train_labels, images, labels = demo.load()
    model, optimizer = demo.Digits(nnx.Rngs(0)), optax.adam(2e-3)
    demo.train(model, train_images, train_labels, (images, labels))
    model.eval()
    training = to_training(
        model,
        loss_of,
        optimizer,
        [("batch", 8, 8, 1), (("batch",), "int32")],
        trained=HEAD,
        infer=classify,
        target="web",
    )
    save(training.programs["infer"], folder / "digits.onnx")
    save(training.step, folder / "digits-step.onnx")
    states = training.session().state
    (folder / "digits-states.bin").write_bytes(b"".join(np.asarray(states[name]).tobytes() for name in states))
    described = {
        "file": "digits.onnx", "step": "digits-step.onnx", "states": "digits-states.bin", "pairs": described_states(training.step),
        "examples": listed(train_images[:EXAMPLES], train_labels[:EXAMPLES]),
    }  # fmt: skip
    probabilities = np.asarray(jax.jit(nnx.jit(classify))(model, images[:IMAGES])["probabilities"])
    batches = [(train_images[i : i + BATCH], train_labels[i : i + BATCH]) for i in range(0, STEPS * BATCH, BATCH)]
    return described, {
        "probabilities": {**listed(images[:IMAGES], labels[:IMAGES]), "wanted": probabilities.tolist()},
        "losses": {
            "batches": [listed(*batch) for batch in batches],
            "wanted": losses_of_jax(model, optimizer, batches),
        },
    }


def listed(images: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Images and their digits for a file of JSON."""
    return {"images": images.reshape(len(images), -1).tolist(), "labels": labels.tolist()}


def losses_of_jax(
    model: demo.Digits, optimizer: optax.GradientTransformation, batches: Sequence[tuple[np.ndarray, np.ndarray]]
) -> list[float]:
    """The losses of steps on batches, which change the model."""
    held = nnx.Optimizer(model, optimizer, wrt=HEAD)

    @nnx.jit
    def step(model: demo.Digits, held: nnx.Optimizer[demo.Digits], *batch: jax.Array) -> jax.Array:
        loss, gradients = nnx.value_and_grad(loss_of, argnums=nnx.DiffState(0, HEAD))(model, *batch)
        held.update(model, gradients)
        return loss

    return [float(step(model, held, *map(jnp.asarray, batch))) for batch in batches]


def described_states(program: OnnxProgram) -> list[dict[str, Any]]:
    """The states of a program for the page: names of inputs and outputs, types and sizes."""
    given = {value.name: value for value in program.model.graph.inputs}
    return [
        {"input": pair.input, "output": pair.output, "type": given[pair.input].dtype.numpy().name,
         "dims": list(given[pair.input].shape.numpy())}
        for pair in read_states(program.model)
    ]  # fmt: skip


def export_writer(folder: Path, steps: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The decoder of `generate.py`; its description for the page, and what it writes in JAX, character by character."""
    characters, text = generate.load()
    model = generate.Decoder(len(characters), nnx.Rngs(0))
    generate.train(model, text, steps)
    generate.add_cache(model)
    program = to_onnx(model, [((1, 1), np.int32), ((), np.int32)], states=nnx.Cache, target="web")
    save(program, folder / "writer.onnx")
    states = described_states(program)
    own = [name for name in program.input_names if name not in {state["input"] for state in states}]
    logits = next(name for name in program.output_names if name not in {state["output"] for state in states})
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
        "losses": np.abs(np.asarray(found["losses"]) - wanted["losses"]["wanted"]).max(),
    }
    assert found["text"] == wanted["logits"]["text"], f"it wrote {found['text']!r}"
    assert max(differences.values()) < TOLERANCE, differences
    assert found["drawn"] == "1", f"a stroke from top to bottom is a {found['drawn']}"
    assert found["taught"] == "7", f"a stroke that was taught to be a 7 is a {found['taught']}"
    assert found["again"] == "1", f"after all was forgotten, a stroke from top to bottom is a {found['again']}"
    labels = np.asarray(wanted["probabilities"]["labels"])
    right = np.mean((np.asarray(found["after"]).argmax(-1) == labels)[labels != 1])
    assert right > KEPT, f"after a drawing was taught, {right:.0%} of the other digits are right"
    print(
        f"{provider}: {found['status']}; the largest differences from JAX: probabilities {differences['probabilities']:.1e}, "
        f"logits {differences['logits']:.1e}, losses of {STEPS} steps {differences['losses']:.1e}; the same {CHARACTERS} characters, "
        f"{found['speed']:.0f} per second; a drawing is learned in {found['seconds']:.2f} s, {right:.0%} of other digits stay right"
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
