"""`Generator` beside the samplers of the library tunix: greedy texts, and the distributions that tokens are drawn from.

Usage: python tests-integration/folders/tunix_samplers.py [--tokens 60]
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_generation import Generator
from jax2onnx_generation.sampling import Sampling
from table import Row, write
from tunix.generate import sampler as tunix_sampler
from tunix.models.gemma import sampler as gemma_sampler

from examples.tunix_decoders import CAPACITY, FEATURES, KEY_HEADS, LAYERS, PAD, WORDS, Decoder, llama, qwen

RUNTIME = f"Sampler of tunix {version('google-tunix')}"
# Of several lengths; the sampler fills them up at the left.
TEXTS = ["5 7 11 42 99 3", "311 4", "9 8 1 77"]
END = WORDS - 1
FILTERS = [(0.7, 0.9, None), (1.0, 0.5, 40), (1.3, 1.0, 7), (0.2, 0.95, 100), (2.0, 0.05, None), (1.0, 0.99, 1)]


class Numbers:
    """A tokenizer of texts that are numbers, with the methods that the sampler asks for."""

    def encode(self, text: str, **_: object) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, ids: Sequence[int], **_: object) -> str:
        return " ".join(map(str, ids))

    def bos_id(self) -> int:
        return 2

    def eos_id(self) -> int:
        return END

    def pad_id(self) -> int:
        return PAD


def greedy(decoder: Decoder, count: int) -> Row:
    """The greedy texts of a decoder, by the sampler and by a generator."""
    config = tunix_sampler.CacheConfig(CAPACITY, LAYERS, KEY_HEADS, FEATURES)
    sampler = tunix_sampler.Sampler(decoder.module, Numbers(), config)
    found = sampler(TEXTS, max_generation_steps=count, temperature=0.0).tokens
    wanted = [[int(token) for token in row] for row in found]
    prompts = [[Numbers().bos_id(), *Numbers().encode(text)] for text in TEXTS]
    generator = Generator(decoder.program().session(sizes={"B": len(prompts), "C": CAPACITY}))
    written = generator.generate(prompts, max_new_tokens=count, stop=[END]).ids
    equal = sum(
        sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
        for one, other in zip(written, wanted, strict=True)
    )
    return Row(
        f"{decoder.name}, Generator",
        RUNTIME,
        f"{equal} of {sum(map(len, wanted))} tokens, 3 texts of different lengths",
    )


def drawn_from(sample: Callable[..., object], module: str, logits: np.ndarray, *options: object) -> np.ndarray:
    """The probabilities [V] that a function of a library draws a token with, which it hands to jax.random.categorical."""
    kept: list[np.ndarray] = []

    def categorical(key: jax.Array, logits: jax.Array, **_: object) -> jax.Array:
        kept.append(np.asarray(jax.nn.softmax(logits[0].astype(jnp.float32))))
        return jnp.zeros(logits.shape[:-1], jnp.int32)

    with mock.patch(f"{module}.jax.random.categorical", categorical):
        sample(jnp.asarray(logits)[None, None], jax.random.key(0), *options)
    # What is drawn is a place in the order of the logits.
    order = np.argsort(-logits, kind="stable")[: len(kept[0])]
    probabilities = np.zeros(len(logits))
    probabilities[order] = kept[0]
    return probabilities


def filtered() -> Iterator[Row]:
    """The distributions behind temperature, top-k and top-p, of random logits."""
    rng = np.random.default_rng(0)
    logits = [rng.standard_normal(WORDS).astype(np.float32) * size for size in (0.1, 1, 3, 10)]
    # Gemma's own sampler takes top-p of all probabilities, not of those that top-k keeps: it is compared with one of the two.
    alone = [options for options in FILTERS if options[1] >= 1 or options[2] is None]
    for title, sample, module, filters in (
        ("top-k and top-p", tunix_sampler.sample_top_p, "tunix.generate.sampler", FILTERS),
        ("top-k or top-p of Gemma", gemma_sampler.sample_top_p, "tunix.models.gemma.sampler", alone),
    ):
        worst, same = 0.0, 0
        for (temperature, top_p, top_k), row in itertools.product(filters, logits):
            wanted = drawn_from(sample, module, row, temperature, top_p, WORDS if top_k is None else top_k)
            sampling = Sampling(temperature=temperature, top_p=top_p if top_p < 1 else None, top_k=top_k)
            tokens, probabilities = sampling.distribution(row)
            found = np.zeros(WORDS)
            found[tokens] = probabilities
            worst = max(worst, float(np.abs(found - wanted).max()))
            same += int(((found > 0) == (wanted > 0)).all())
        equal = f"{same} of {len(filters) * len(logits)} sets of tokens, probabilities differ by {worst:.0e}"
        yield Row(f"{title}, Sampling", RUNTIME, equal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=60)
    options = parser.parse_args()
    write("Sampler of tunix", [*(greedy(make(), options.tokens) for make in (qwen, llama)), *filtered()])


if __name__ == "__main__":
    main()
