"""A sampler as one model: milliseconds for one token, beside the same decoder in a session and the same sampler in `jax.jit`.

On one thread, all ways in turns in one process; the least time counts.

Usage: nox -s tables -- samplers [--kinds qwen …] [--capacity 256 …] [--tokens 32]
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import to_onnx
from timing import in_turns, on_threads

from examples.jax_decoders import DECODERS, STATES, WORDS, Decoder

PROMPT, ROUNDS = 16, 4

Pick = Callable[[jax.Array, jax.Array], jax.Array]
Write = Callable[[int], Any]


def greedy(_: jax.Array, logits: jax.Array) -> jax.Array:
    return jnp.argmax(logits, -1).astype(jnp.int32)


def top_p(key: jax.Array, logits: jax.Array) -> jax.Array:
    """One of the most probable of 64 tokens that have 90 % of the probability together."""
    logits, tokens = lax.top_k(logits / 0.8, 64)
    probabilities = jax.nn.softmax(logits)
    kept = jnp.cumsum(probabilities, -1) - probabilities < 0.9
    chosen = jax.random.categorical(key, jnp.where(kept, logits, -jnp.inf))
    return jnp.take_along_axis(tokens, chosen[:, None], 1)[:, 0]


def sampler(decoder: Decoder, capacity: int, pick: Pick) -> Callable[..., jax.Array]:
    """The sampler of a decoder: a prompt [1, T], a seed, a number of tokens → [1, capacity]."""
    states = decoder.arguments(1, 1, capacity)[-STATES:]

    def sample(prompt: jax.Array, seed: jax.Array, steps: jax.Array) -> jax.Array:
        key, length = jax.random.key(seed), prompt.shape[1]
        logits, *caches = decoder.step(prompt, jnp.int32(0), *(jnp.zeros(x.shape, x.dtype) for x in states))

        def one(state: tuple[Any, ...]) -> tuple[Any, ...]:
            place, written, logits, caches = state
            token = pick(jax.random.fold_in(key, place), logits)[:, None]
            logits, *caches = decoder.step(token, place, *caches)
            return place + 1, lax.dynamic_update_slice(written, token, (0, place)), logits, caches

        written = jnp.zeros((1, capacity), jnp.int32).at[:, :length].set(prompt)
        first = jnp.int32(length), written, logits, caches
        return lax.while_loop(lambda state: state[0] < length + steps, one, first)[1]

    return sample


def given(steps: int) -> dict[str, np.ndarray]:
    """The arguments of a sampler for this number of tokens."""
    prompt = np.random.default_rng(0).integers(0, WORDS, (1, PROMPT)).astype(np.int32)
    return {"prompt": prompt, "seed": np.array(5, np.uint32), "steps": np.array(steps, np.int32)}


def in_one_model(sample: Callable[..., jax.Array], capacity: int) -> Write:
    inputs = [((1, "T"), np.int32), ((), np.uint32), ((), np.int32)]
    program = to_onnx(sample, inputs, constraints=[f"T <= {capacity}"])
    session = on_threads(program.model_proto)
    return lambda steps: session.run(None, given(steps))[0]


def in_session(decoder: Decoder, capacity: int) -> Write:
    """The greedy loop of the caller, around a session that keeps the caches."""
    inputs = decoder.arguments(1, 1, capacity)
    first = len(inputs) - STATES
    session = to_onnx(decoder.step, inputs, states={first + i: 1 + i for i in range(STATES)}).session(threads=1)

    def write(steps: int) -> None:
        token = np.zeros((1, 1), np.int32)
        for place in range(PROMPT, PROMPT + steps):
            logits = session.step(token, np.int32(place))
            token = np.argmax(logits, -1).astype(np.int32)[:, None]

    return write


def in_jax(sample: Callable[..., jax.Array]) -> Write:
    run = jax.jit(sample)
    return lambda steps: np.asarray(run(**given(steps)))


def milliseconds(ways: Sequence[Write], tokens: int) -> list[float]:
    """The time of one token for each way: the difference between many tokens and a few, all ways run in turns."""
    runs = [functools.partial(way, steps) for way in ways for steps in (2, 2 + tokens)]
    least = [min(own) for own in in_turns(runs, rounds=ROUNDS, clock=time.perf_counter)]
    return [1e3 * (many - few) / tokens for few, many in zip(least[::2], least[1::2], strict=True)]


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=[kind for kind in DECODERS if kind != "mamba"], default=["qwen"])
    parser.add_argument("--capacity", type=int, nargs="+", default=[256, 1024, 2048])
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    print(
        "| decoder | capacity | one model, greedy | one model, top-p | session | jax.jit, greedy |\n|---|---|---|---|---|---|"
    )
    for kind in options.kinds:
        decoder = next(iter(DECODERS[kind].values()))
        for capacity in options.capacity:
            samplers = [sampler(decoder, capacity, pick) for pick in (greedy, top_p)]
            ways = [in_one_model(sample, capacity) for sample in samplers]
            ways += [in_session(decoder, capacity), in_jax(samplers[0])]
            if not np.array_equal(ways[0](8), ways[-1](8)):
                raise SystemExit("The tokens are not those of JAX.")
            times = milliseconds(ways, options.tokens)
            print(f"| {kind} | {capacity} | " + " | ".join(f"{t:.1f}" for t in times) + " |", flush=True)


if __name__ == "__main__":
    main()
