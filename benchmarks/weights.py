"""Saving a model of types only with the weights of safetensors files: resident memory, and time beside `cp`.

Usage: nox -s tables -- weights [--gib 8] [--directory /tmp]

It writes the files, copies them by `cp` and saves the model, both up to the disk and in turns, and removes everything again.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax2onnx_core import OnnxProgram, to_onnx
from safetensors.numpy import save_file

GIB = 1 << 30
WIDTH = 4096
LAYER = {"up": (WIDTH, 4 * WIDTH), "gate": (WIDTH, 4 * WIDTH), "down": (WIDTH, 4 * WIDTH)}  # the last is transposed
LAYER_BYTES = 3 * 4 * WIDTH * WIDTH * 2
TABLE = (16 * WIDTH, WIDTH)
ROUNDS = 2

#: Name → shape, of arrays of bfloat16.
Shapes = dict[str, tuple[int, ...]]


def model(weights: dict[str, jax.Array], tokens: jax.Array) -> jax.Array:
    """A table and gated layers; the weights of one in three are stored transposed."""
    x = weights["table"][tokens]
    for i in range(len(weights) // 3):
        up, gate, down = (weights[f"layers.{i}.{name}"] for name in LAYER)
        x = x + (jax.nn.silu(x @ gate) * (x @ up)) @ down.T
    return x.astype(jnp.float32)


def files(layers: int) -> dict[str, Shapes]:
    """The names of the files, with the weights that each holds."""
    found: dict[str, Shapes] = {"model-table.safetensors": {"table": TABLE}}
    for i in range(layers):
        found[f"model-{i}.safetensors"] = {f"layers.{i}.{name}": shape for name, shape in LAYER.items()}
    return found


def write(parts: dict[str, Shapes], folder: Path) -> Path:
    """Write random weights; the path of their index."""
    rng = np.random.default_rng(0)
    for file, shapes in parts.items():
        arrays = {
            name: rng.integers(0, 1 << 14, shape, np.uint16).view(ml_dtypes.bfloat16) for name, shape in shapes.items()
        }
        save_file(arrays, folder / file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {name: file for file, names in parts.items() for name in names}}))
    return index


def exported(parts: dict[str, Shapes]) -> OnnxProgram:
    types = {
        name: jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shapes in parts.values() for name, shape in shapes.items()
    }
    return to_onnx(functools.partial(model, types), [(("B", "T"), "int32")], target="onnx")


def resident() -> int:
    """The bytes of this process that are in memory, those of mapped files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def peak(found: list[int]) -> Iterator[None]:
    """Add the most resident bytes beyond those at the start to `found`."""
    start, most, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            most[0] = max(most[0], resident() - start)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        found.append(most[0])


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    subprocess.run(["sync", *map(str, target.iterdir())], check=True)


def measure(size: float, directory: Path) -> bool:
    layers = max(1, round((size * GIB - 2 * TABLE[0] * TABLE[1]) / LAYER_BYTES))
    parts = files(layers)
    total = 2 * sum(int(np.prod(shape)) for shapes in parts.values() for shape in shapes.values())
    if shutil.disk_usage(directory).free < 3 * total + GIB:
        sys.exit(f"{directory} has no room for three copies of {total / GIB:.1f} GiB; give a smaller --gib.")
    program, peaks, copied, saved = exported(parts), list[int](), list[float](), list[float]()
    with tempfile.TemporaryDirectory(dir=directory) as name:
        folder = Path(name)
        (folder / "weights").mkdir()
        index = write(parts, folder / "weights")
        for _ in range(ROUNDS):
            copied.append(seconds(lambda: copy(folder / "weights", folder / "copy")))
            shutil.rmtree(folder / "copy")
            (folder / "model").mkdir()
            with peak(peaks):
                saved.append(seconds(lambda: program.save(folder / "model" / "m.onnx", weights=index)))
            shutil.rmtree(folder / "model")
    ratio = min(saved) / min(copied)
    print(f"{total / GIB:.1f} GiB in {len(parts)} files, {len(program.weights)} weights")
    print(f"cp: {', '.join(f'{s:.1f}' for s in copied)} s; save: {', '.join(f'{s:.1f}' for s in saved)} s")
    print(f"save / cp: {ratio:.2f} (at most 1.3); resident memory: {max(peaks) / GIB:.2f} GiB more (at most 1)")
    return ratio <= 1.3 and max(peaks) < GIB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=8.0, help="how large the weights are")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()), help="where the files go")
    options = parser.parse_args()
    return 0 if measure(options.gib, options.directory) else 1


if __name__ == "__main__":
    sys.exit(main())
