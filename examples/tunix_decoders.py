"""Decoders of the library tunix with random weights, as its users export them, and their greedy continuations in JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx

__all__ = ["CAPACITY", "DECODERS", "PAD", "WORDS", "Decoder", "adapted", "qwen"]

LAYERS, WORDS, WIDTH, HEADS, KEY_HEADS, FEATURES, WINDOW = 2, 512, 64, 4, 2, 16, 24
CAPACITY, PAD = 320, 0
SIZES = {
    "num_layers": LAYERS,
    "embed_dim": WIDTH,
    "hidden_dim": 128,
    "num_heads": HEADS,
    "head_dim": FEATURES,
    "num_kv_heads": KEY_HEADS,
}


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A decoder, called with tokens [B, T], positions [B, T], caches [B, S, K, H] and a mask [B, T, S].

    Attributes:
      name: the model and the library.
      module: the module.
      tokens: how many tokens a step of the exported decoder takes: a symbol, or 1 where the module asks whether there is one.
    """

    name: str
    module: nnx.Module
    tokens: int | str = "T"

    def program(self) -> OnnxProgram:
        """The decoder as a program whose states are the caches and their lengths."""

        def step(tokens: jax.Array, positions: jax.Array, cache: Any, attention_mask: jax.Array) -> dict[str, Any]:
            logits, cache = self.module(tokens, positions, cache, attention_mask)
            return {"logits": logits, "cache": cache}

        kept = ("B", "C", KEY_HEADS, FEATURES)
        cache = {f"layer_{i}": {"k": kept, "v": kept, "end_index": (("B",), "int32")} for i in range(LAYERS)}
        ids = (("B", self.tokens), "int32")
        constraints = ["C >= T"] if self.tokens == "T" else []
        inputs = [ids, ids, cache, (("B", self.tokens, "C"), "bool")]
        return to_onnx(step, inputs, states={"cache": "cache"}, constraints=constraints)

    def continued(self, prompt: Sequence[int], count: int) -> list[int]:
        """The greedy continuation of a prompt in JAX, with the library's own cache."""
        shape = (1, CAPACITY, KEY_HEADS, FEATURES)
        empty = {"k": jnp.zeros(shape), "v": jnp.zeros(shape), "end_index": jnp.zeros((1,), jnp.int32)}
        cache: Any = {f"layer_{i}": empty for i in range(LAYERS)}
        # Modules of qwix write attributes when they are called.
        step = nnx.jit(lambda module, *given: module(*given))
        text, tokens = list[int](), np.array([prompt], np.int32)
        for start in [0, *range(len(prompt), len(prompt) + count - 1)]:
            positions = start + np.arange(tokens.shape[1], dtype=np.int32)
            mask = np.arange(CAPACITY) <= positions[:, None]
            logits, cache = step(self.module, tokens, positions[None], cache, mask[None])
            tokens = np.array(logits[:, -1:]).argmax(-1).astype(np.int32)
            text.append(int(tokens[0, 0]))
        return text


def drawn(module: nnx.Module) -> nnx.Module:
    """The module with other random weights, under which greedy texts do not repeat one word."""
    graph, state = nnx.split(module)
    rng = np.random.default_rng(0)

    def weight(x: jax.Array) -> jax.Array:
        if x.ndim < 2:
            return jnp.ones(x.shape)
        return jnp.asarray(
            rng.standard_normal(x.shape, np.float32) * (1.5 / x.shape[-2] ** 0.5 if x.ndim == 2 else 0.25)
        )

    return nnx.merge(graph, jax.tree.map(weight, state))


def qwen() -> Decoder:
    from tunix.models.qwen3.model import ModelConfig, Qwen3

    config = ModelConfig(
        **SIZES, vocab_size=WORDS, rope_theta=10000, norm_eps=1e-6, dtype=jnp.float32, param_dtype=jnp.float32
    )
    return Decoder("Qwen 3 (tunix)", drawn(Qwen3(config, rngs=nnx.Rngs(0))))


def llama() -> Decoder:
    from tunix.models.llama3.model import Llama3, ModelConfig

    config = ModelConfig(**SIZES, vocab_size=WORDS, rope_theta=10000, norm_eps=1e-6)
    return Decoder("Llama 3 (tunix)", drawn(Llama3(config, rngs=nnx.Rngs(0))))


def gemma() -> Decoder:
    from tunix.models.gemma3.model import Gemma3, ModelConfig

    config = ModelConfig(**SIZES, num_embed=WORDS, sliding_window_size=WINDOW, param_dtype=jnp.float32)
    return Decoder("Gemma 3 (tunix), one token at a time", drawn(Gemma3(config, rngs=nnx.Rngs(0))), 1)


def adapted(decoder: Decoder, rank: int) -> Decoder:
    """The decoder with LoRA adapters that qwix put in, of random numbers."""
    import qwix

    where = ".*(q_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
    ids = np.zeros((1, 3), np.int32)
    lora = qwix.LoraProvider(module_path=where, rank=rank, alpha=2.0 * rank)
    module = qwix.apply_lora_to_model(
        decoder.module, lora, ids, ids, None, np.ones((1, 3, 3), np.bool_), rngs=nnx.Rngs(0)
    )
    rng = np.random.default_rng(rank)
    state = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape) / 4, x.dtype), nnx.state(module, nnx.LoRAParam))
    nnx.update(module, state)
    return dataclasses.replace(decoder, module=module)


DECODERS: Sequence[Callable[[], Decoder]] = (qwen, llama, gemma)
