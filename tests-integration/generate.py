"""Train a small decoder on the text of Python's own reference, export it with its cache, and let it write in ONNX Runtime."""

from __future__ import annotations

import time
from pathlib import Path
from pydoc_data.topics import topics

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax2onnx_core import to_onnx
from jax2onnx_generation import Generator
from jax2onnx_generation.sampling import Sampling

LENGTH = 192  # the most characters that the decoder sees: the size of its cache
WIDTH, HEADS, LAYERS = 128, 4, 3
STEPS, BATCH = 800, 8
PROMPT, TEMPERATURE = "The statement ", 0.5


class Block(nnx.Module):
    """Attention and two dense layers, each after a norm and beside a residual; [batch, length, WIDTH] → the same."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.norm2 = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x: jax.Array, mask: jax.Array | None) -> jax.Array:
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class Decoder(nnx.Module):
    """Characters [batch, length] and the position of the first → logits [batch, length, characters] of the next ones."""

    def __init__(self, characters: int, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(characters, WIDTH, rngs=rngs)
        self.positions = nnx.Embed(LENGTH, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)

    def __call__(self, characters: jax.Array, position: jax.Array | int = 0) -> jax.Array:
        count = characters.shape[1]
        x = self.embed(characters) + self.positions(position + jnp.arange(count))
        # With a cache, the layers themselves hide what is not written yet.
        mask = nnx.make_causal_mask(characters) if count > 1 else None
        for block in self.blocks:
            x = block(x, mask)
        return self.embed.attend(self.norm(x))


def load() -> tuple[str, np.ndarray]:
    """The characters of the text, and the text as indices into them."""
    text = " ".join(word for name in sorted(topics) for word in topics[name].split())
    characters = "".join(sorted(set(text)))
    return characters, np.searchsorted(list(characters), list(text)).astype(np.int32)


@nnx.jit
def train_step(model: Decoder, optimizer: nnx.Optimizer[Decoder], windows: jax.Array) -> jax.Array:
    def loss_fn(model: Decoder) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(model(windows[:, :-1]), windows[:, 1:]).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


def train(model: Decoder, text: np.ndarray, steps: int = STEPS) -> None:
    rate = optax.warmup_cosine_decay_schedule(0, 2e-3, steps // 10, steps)
    optimizer = nnx.Optimizer(model, optax.chain(optax.clip_by_global_norm(1), optax.adam(rate)), wrt=nnx.Param)
    rng, losses = np.random.default_rng(0), []
    for step in range(1, steps + 1):
        starts = rng.integers(0, len(text) - LENGTH, BATCH)
        losses.append(train_step(model, optimizer, jnp.asarray(text[starts[:, None] + np.arange(LENGTH + 1)])))
        if step % 200 == 0:
            print(f"step {step}: loss {float(sum(losses[-200:])) / 200:.2f}")


def add_cache(model: Decoder) -> None:
    """From here on a call takes one character, and the layers keep the keys and values of those before it."""
    model.set_attributes(decode=True)
    for block in model.blocks:
        block.attention.init_cache((1, LENGTH, WIDTH))


def write(model: Decoder, prompt: list[int], sampling: Sampling) -> tuple[list[int], float]:
    """The characters that JAX writes after a prompt, one by one; and how many in a second."""
    jitted = nnx.jit(lambda model, character, position: model(character, position))
    random, written = sampling.generators(1)[0], list(prompt)
    start = 0.0
    for position in range(LENGTH - 1):
        logits = np.asarray(jitted(model, np.array([[written[position]]], np.int32), np.array(position, np.int32)))[
            0, 0
        ]
        start = start or time.perf_counter()  # after the first call, which compiles
        if position + 1 == len(written):
            written.append(sampling.choose(logits, written, random))
    return written[len(prompt) :], (LENGTH - 2) / (time.perf_counter() - start)


def main() -> None:
    characters, text = load()
    model = Decoder(len(characters), nnx.Rngs(0))
    start = time.perf_counter()
    train(model, text)
    print(f"trained in {time.perf_counter() - start:.0f} s on {len(text)} characters of {len(characters)} kinds\n")

    add_cache(model)
    program = to_onnx(model, [((1, 1), np.int32), ((), np.int32)], states=nnx.Cache)
    small = program.quantize("int4")
    for one, path in ((program, "decoder.onnx"), (small, "decoder-int4.onnx")):
        size = Path(one.save(path)).stat().st_size
        print(f"{path}: {size / 1024:.0f} KiB")

    prompt, sampling = [characters.index(one) for one in PROMPT], Sampling(temperature=TEMPERATURE, seed=0)
    found = {"JAX": write(model, prompt, sampling)}
    for name, one in (("ONNX Runtime", program), ("ONNX Runtime, int4", small)):
        generator, count = Generator(one.session(threads=1)), LENGTH - len(prompt)
        result = generator.generate(prompt, max_new_tokens=count, temperature=TEMPERATURE, seed=0)
        found[name] = result.ids[0], (len(prompt) + count) / result.seconds
    for name, (written, speed) in found.items():
        print(f"\n{name}, {speed:.0f} characters per second:\n{PROMPT}{''.join(characters[i] for i in written)}")
    assert found["ONNX Runtime"][0] == found["JAX"][0], "the exported decoder writes something else than JAX"


if __name__ == "__main__":
    main()
