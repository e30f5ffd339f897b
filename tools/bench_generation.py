"""One decoder in several writings: milliseconds for one token on caches of several lengths, and for a prompt.

The decoder is like Qwen3: 8 layers of width 1024, 16 query and 8 key heads of 64 features, in float32 on one thread. All ways
run in turns in one process; the caches are updated in place.

Usage: python tools/bench_generation.py [keys …]
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime as ort
from jax2onnx_core import to_onnx

LAYERS, WIDTH, HEADS, KEY_HEADS, FEATURES, HIDDEN, WORDS = 8, 1024, 16, 8, 64, 3072, 8192
PROMPT, CAPACITIES, ROUNDS = 512, (256, 2048, 8192), 9

Attention = Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array]
Run = Callable[[], Any]


def weights() -> tuple[list[dict[str, jax.Array]], jax.Array]:
    """The weights of each layer, and the table of words."""
    rng = np.random.default_rng(0)
    shapes = {"query": (WIDTH, HEADS, FEATURES), "key": (WIDTH, KEY_HEADS, FEATURES), "value": (WIDTH, KEY_HEADS, FEATURES),
              "out": (HEADS, FEATURES, WIDTH), "gate": (WIDTH, HIDDEN), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}  # fmt: skip

    def drawn(shape: tuple[int, ...]) -> jax.Array:
        return jnp.asarray(rng.standard_normal(shape, dtype=np.float32) / np.float32(WIDTH**0.5))

    return [{name: drawn(shape) for name, shape in shapes.items()} for _ in range(LAYERS)], drawn((WORDS, WIDTH))


def normalised(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def rotated(x: jax.Array, positions: jax.Array) -> jax.Array:
    angles = positions[:, :, None, None] * 1e4 ** (-jnp.arange(0, FEATURES, 2) / FEATURES)
    x1, x2 = jnp.split(x, 2, -1)
    return jnp.concatenate(
        [x1 * jnp.cos(angles) - x2 * jnp.sin(angles), x2 * jnp.cos(angles) + x1 * jnp.sin(angles)], -1
    )


def by_einsum(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Grouped heads, as Qwen3 is often written."""
    grouped = q.reshape(*q.shape[:2], KEY_HEADS, HEADS // KEY_HEADS, FEATURES)
    logits = jnp.einsum("BTKGH,BSKH->BTSKG", grouped, k) / np.sqrt(FEATURES)
    logits = jnp.where(mask[None, :, :, None, None], logits, jnp.finfo(logits.dtype).min)
    return jnp.einsum("BTSKG,BSKH->BTKGH", jax.nn.softmax(logits, 2), v).reshape(q.shape)


def by_repetition(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Keys and values repeated for the query heads, with the heads in front."""
    q, k, v = (x.swapaxes(1, 2) for x in (q, *(jnp.repeat(x, HEADS // KEY_HEADS, 2) for x in (k, v))))
    logits = q @ k.swapaxes(2, 3) * FEATURES**-0.5
    return (jax.nn.softmax(jnp.where(mask, logits, -1e9), -1) @ v).swapaxes(1, 2)


def by_function(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, mask=mask[None, None])


def step(attend: Attention, is_heads_first: bool, words: jax.Array, place: jax.Array, *caches: jax.Array) -> Any:
    """Words [1, T] at a place of the caches → the logits of the next word, and the caches with their keys and values."""
    layers, table = MODEL
    x, positions, results = table[words], place + jnp.arange(words.shape[1])[None], []
    for layer, kept in zip(layers, zip(caches[::2], caches[1::2], strict=True), strict=True):
        h = normalised(x)
        q, k, v = (jnp.einsum("BTD,DNH->BTNH", h, layer[name]) for name in ("query", "key", "value"))
        q, k = (rotated(normalised(part), positions) for part in (q, k))
        whole = []
        for cache, new in zip(kept, (k, v), strict=True):
            start = (0, 0, place, 0) if is_heads_first else (0, place, 0, 0)
            results.append(jax.lax.dynamic_update_slice(cache, new.swapaxes(1, 2) if is_heads_first else new, start))
            whole.append(results[-1].swapaxes(1, 2) if is_heads_first else results[-1])
        mask = jnp.arange(whole[0].shape[1]) <= positions[0][:, None]
        x = x + jnp.einsum("BTNH,NHD->BTD", attend(q, whole[0], whole[1], mask), layer["out"])
        h = normalised(x)
        x = x + (jax.nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]
    return normalised(x)[:, -1] @ table.T, *results


MODEL = weights()
#: Writing → how it attends, and whether its caches have their heads first.
WRITINGS: dict[str, tuple[Attention, bool]] = {
    "einsum of grouped heads": (by_einsum, False),
    "repeated keys": (by_repetition, False),
    "dot_product_attention": (by_function, False),
    "dot_product_attention, caches of heads first": (by_function, True),
}


def arguments(count: int, capacity: int, is_heads_first: bool) -> list[np.ndarray]:
    """Inputs that fill the caches up to their end."""
    rng = np.random.default_rng(1)
    shape = (1, KEY_HEADS, capacity, FEATURES) if is_heads_first else (1, capacity, KEY_HEADS, FEATURES)
    words = rng.integers(0, WORDS, (1, count)).astype(np.int32)
    caches = [rng.standard_normal(shape, dtype=np.float32) for _ in range(2 * LAYERS)]
    return [words, np.array(capacity - count, np.int32), *caches]


def in_onnxruntime(path: Path, inputs: list[np.ndarray]) -> Run:
    """A call of the model whose caches stay where they are."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding, values = session.io_binding(), [ort.OrtValue.ortvalue_from_numpy(x) for x in inputs]
    for description, value in zip(session.get_inputs(), values, strict=True):
        binding.bind_ortvalue_input(description.name, value)
    logits, *caches = session.get_outputs()
    binding.bind_output(logits.name)
    for description, value in zip(caches, values[2:], strict=True):
        binding.bind_ortvalue_output(description.name, value)
    return lambda: session.run_with_iobinding(binding)


def ways(folder: Path, count: int, capacity: int) -> dict[str, Run]:
    """Each writing in ONNX Runtime, and the first of them in JAX."""
    found: dict[str, Run] = {}
    for name, (attend, is_heads_first) in WRITINGS.items():
        inputs = arguments(count, capacity, is_heads_first)
        path = folder / f"{len(found)}-{count}-{capacity}.onnx"
        to_onnx(lambda *xs, a=attend, first=is_heads_first: step(a, first, *xs), inputs).save(path)
        found[name] = in_onnxruntime(path, inputs)
    compiled = jax.jit(lambda *xs: step(by_einsum, False, *xs))
    on_device = [jnp.asarray(x) for x in arguments(count, capacity, False)]
    found["jax.jit"] = lambda: jax.block_until_ready(compiled(*on_device))
    return found


def measure(runs: dict[str, Run]) -> dict[str, tuple[float, float]]:
    """(least, median) milliseconds, the ways in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(ROUNDS + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if turn:  # the first prepares
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: (min(values), statistics.median(values)) for name, values in times.items()}


def main() -> None:
    chosen = [int(argument) for argument in sys.argv[1:]]
    situations = [*((1, capacity) for capacity in chosen or CAPACITIES), *([] if chosen else [(PROMPT, PROMPT)])]
    for count, capacity in situations:
        print(f"{count} new, {capacity} keys: least and median ms")
        with tempfile.TemporaryDirectory() as folder:
            for name, (least, median) in measure(ways(Path(folder), count, capacity)).items():
                print(f"  {name:46} {least:8.1f} {median:8.1f}")


if __name__ == "__main__":
    main()
