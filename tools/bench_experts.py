"""Mixtures of experts in several writings: milliseconds beside those of all experts for all tokens, and of `jax.jit`.

Two of the experts count for each token. All ways run in turns in one process; the least time of each counts.

Usage: python tools/bench_experts.py [--experts 8 32 128] [--tokens 1 8 64 512] [--width 256] [--hidden 512]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime as ort
from jax2onnx_core import OnnxProgram, to_onnx

CHOSEN = 2
SECONDS = 0.5

Array = np.ndarray[Any, Any]


def writings(experts: int, width: int, hidden: int) -> Mapping[str, Callable[[jax.Array], jax.Array]]:
    """A mixture in several writings, [tokens, width] → [tokens, width]."""
    random = np.random.default_rng(0)
    router, up, down = (
        (0.1 * random.standard_normal(shape)).astype(np.float32)
        for shape in ((width, experts), (experts, width, hidden), (experts, hidden, width))
    )

    def chosen(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.lax.top_k(jax.nn.softmax(x @ router), CHOSEN)

    def gates(x: jax.Array) -> jax.Array:
        weights, numbers = chosen(x)
        return (jax.nn.one_hot(numbers, experts) * weights[..., None]).sum(-2)

    def einsum(x: jax.Array) -> jax.Array:
        made = jnp.einsum("tef,efd->ted", jax.nn.silu(jnp.einsum("td,edf->tef", x, up)), down)
        return jnp.einsum("ted,te->td", made, gates(x))

    def loop(x: jax.Array) -> jax.Array:
        of_all, total = gates(x), jnp.zeros_like(x)
        for e in range(experts):
            total += of_all[:, e, None] * (jax.nn.silu(x @ up[e]) @ down[e])
        return total

    def sorting(x: jax.Array) -> jax.Array:
        weights, numbers = chosen(x)
        order = jnp.argsort(numbers.reshape(-1))
        sizes = jnp.bincount(numbers.reshape(-1), length=experts)
        made = jax.lax.ragged_dot(jax.nn.silu(jax.lax.ragged_dot(x[order // CHOSEN], up, sizes)), down, sizes)
        return jnp.einsum("tkd,tk->td", made[jnp.argsort(order)].reshape(*numbers.shape, width), weights)

    return {"einsum": einsum, "loop": loop, "ragged_dot": sorting}


def runner(program: OnnxProgram) -> Callable[[Array], object]:
    """Runs a program in ONNX Runtime on two threads."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the next way runs at once
    session = ort.InferenceSession(program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})


def compiled(function: Callable[[jax.Array], jax.Array]) -> Callable[[Array], object]:
    """Runs a function as JAX compiles it."""
    run = jax.jit(function)
    return lambda x: run(x).block_until_ready()


def milliseconds(ways: Sequence[Callable[[Array], object]], x: Array) -> list[float]:
    """The least time of each way, all run in turns."""
    times: list[list[float]] = [[] for _ in ways]
    for way in ways:
        way(x)
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times[0]) < 3:
        for way, own in zip(ways, times, strict=True):
            start = time.perf_counter()
            way(x)
            own.append(1000 * (time.perf_counter() - start))
    return [min(own) for own in times]


def measure(experts: int, tokens: Sequence[int], width: int, hidden: int) -> None:
    """Print a row for each writing and number of tokens."""
    for name, function in writings(experts, width, hidden).items():
        spec = [("T", width)]
        ways = [
            runner(to_onnx(function, spec)),
            runner(to_onnx(function, spec, assume=["finite"])),
            compiled(function),
        ]
        for count in tokens:
            x = np.random.default_rng(count).standard_normal((count, width)).astype(np.float32)
            all_experts, few, jit = milliseconds(ways, x)
            print(
                f"| {name} | {experts} | {count} | {all_experts:.2f} | {few:.2f} | {few / all_experts:.2f} | {jit:.2f} |",
                flush=True,
            )


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experts", type=int, nargs="*", default=[8, 32, 128])
    parser.add_argument("--tokens", type=int, nargs="*", default=[1, 8, 64, 512])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=512)
    given = parser.parse_args()
    print(
        "| writing | experts | tokens | without the promise | with it | ratio | jax.jit |\n|---|---|---|---|---|---|---|"
    )
    for experts in given.experts:
        measure(experts, given.tokens, given.width, given.hidden)


if __name__ == "__main__":
    main()
