"""Models as the authors of libraries wrote them, of small sizes and random weights, with what their configurations say they hold.

A library is imported when one of its models is made, so that one that is not installed costs no more than its rows.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["Counts", "Export", "Surveyed", "surveyed"]

LAYERS, WORDS, WIDTH, HEADS, KEY_HEADS, FEATURES, INNER, LONGEST = 2, 64, 32, 4, 2, 8, 64, 64
IDS = (("B", "T"), "int32")
MASK = (("B", "T"), "int32")
SOURCE_IDS = (("B", "S"), "int32")
TEXT_LIMIT = (f"T <= {LONGEST}",)
BOTH_LIMITS = (*TEXT_LIMIT, f"S <= {LONGEST}")


class Counts(NamedTuple):
    """Numbers of operators: attention, rotary embeddings, layer and RMS normalisations, and GELU or SiLU activations."""

    attention: int
    rotations: int
    norms: int
    activations: int


@dataclasses.dataclass(frozen=True)
class Export:
    """A model with the arguments of `to_onnx` and `verify`.

    Attributes:
      fn: the function or model.
      inputs: the shapes and dtypes of its arguments.
      constraints: what is known of the symbols.
      ranges: the ranges of the random inputs with which the model is compared with JAX.
    """

    fn: Any
    inputs: Sequence[Any]
    constraints: Sequence[str] = ()
    ranges: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Surveyed:
    """A row of the survey.

    Attributes:
      library: the package that holds the model, by the name of its import.
      name: the model.
      expected: what one would count in its source.
      make: makes it; raises ImportError where the library is missing.
    """

    library: str
    name: str
    expected: Counts
    make: Callable[[], Export]


def surveyed() -> list[Surveyed]:
    """All rows, library by library."""
    return [*_flax(), *_tunix(), *_transformers(), *_keras_hub(), *_equimo(), *_equinox()]


# -- Flax, as its documentation and examples write ---------------------------------------------


def _flax() -> Iterator[Surveyed]:
    yield Surveyed("flax", "Linen encoder block", Counts(1, 0, 2, 1), lambda: _linen_block(causal=False))
    yield Surveyed("flax", "Linen decoder block", Counts(1, 0, 2, 1), lambda: _linen_block(causal=True))
    yield Surveyed("flax", "NNX encoder block", Counts(1, 0, 2, 1), lambda: _nnx_block(causal=False))
    yield Surveyed("flax", "NNX decoder block", Counts(1, 0, 2, 1), lambda: _nnx_block(causal=True))


def _linen_block(*, causal: bool) -> Export:
    """A block of the example `lm1b`: norms first, padding is word 0."""
    from flax import linen

    class Block(linen.Module):
        @linen.compact
        def __call__(self, ids: jax.Array) -> jax.Array:
            x = linen.Embed(WORDS, WIDTH)(ids)
            mask = linen.make_attention_mask(ids > 0, ids > 0)
            if causal:
                mask = linen.combine_masks(mask, linen.make_causal_mask(ids))
            normal = linen.LayerNorm()(x)
            x = x + linen.MultiHeadDotProductAttention(HEADS, deterministic=True)(normal, normal, mask=mask)
            y = linen.gelu(linen.Dense(INNER)(linen.LayerNorm()(x)))
            return x + linen.Dense(WIDTH)(y)

    block = Block()
    variables = block.init(jax.random.key(0), jnp.ones((1, 3), jnp.int32))
    return Export(lambda ids: block.apply(variables, ids), [IDS])


def _nnx_block(*, causal: bool) -> Export:
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.words = nnx.Embed(WORDS, WIDTH, rngs=rngs)
            self.before, self.between = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, deterministic=True, rngs=rngs)
            self.up, self.down = nnx.Linear(WIDTH, INNER, rngs=rngs), nnx.Linear(INNER, WIDTH, rngs=rngs)

        def __call__(self, ids: jax.Array) -> jax.Array:
            x = self.words(ids)
            mask = nnx.make_attention_mask(ids > 0, ids > 0)
            if causal:
                mask = nnx.combine_masks(mask, nnx.make_causal_mask(ids))
            x = x + self.attention(self.before(x), mask=mask)
            return x + self.down(nnx.gelu(self.up(self.between(x))))

    return Export(Block(nnx.Rngs(0)), [IDS])


# -- tunix ---------------------------------------------------------------------------------------


def _tunix() -> Iterator[Surveyed]:
    eps = {"vocab_size": WORDS, "rope_theta": 10000, "norm_eps": 1e-6}
    gemma = {"num_embed": WORDS, "final_logit_softcap": None, "use_post_attn_norm": False, "use_post_ffw_norm": False}
    second = {**gemma, "final_logit_softcap": 30.0, "use_post_attn_norm": True, "use_post_ffw_norm": True}
    third = {"num_embed": WORDS, "sliding_window_size": 8, "param_dtype": jnp.float32}
    rows: list[tuple[str, str, str, Counts, dict[str, Any]]] = [
        ("Llama 3", "llama3", "Llama3", Counts(2, 4, 5, 2), eps),
        ("Qwen 2", "qwen2", "Qwen2", Counts(2, 4, 5, 2), eps),
        ("Qwen 3", "qwen3", "Qwen3", Counts(2, 4, 9, 2), eps),
        ("Gemma", "gemma", "Gemma", Counts(2, 4, 5, 2), gemma),
        (
            "Gemma 2",
            "gemma",
            "Gemma",
            Counts(2, 4, 9, 2),
            {**second, "attn_logits_soft_cap": 50.0, "sliding_window_size": 8},
        ),
        ("Gemma 3", "gemma3", "Gemma3", Counts(2, 4, 13, 2), third),
    ]
    for name, module, cls, expected, options in rows:
        yield Surveyed("tunix", name, expected, lambda m=module, c=cls, o=options: _tunix_model(m, c, o))  # type: ignore[misc]


def _tunix_model(module: str, cls: str, options: Mapping[str, Any]) -> Export:
    from flax import nnx

    library = importlib.import_module(f"tunix.models.{module}.model")
    if cls == "Gemma":
        kinds = library.AttentionType
        kind = [kinds.LOCAL_SLIDING, kinds.GLOBAL] if "sliding_window_size" in options else [kinds.GLOBAL] * LAYERS
        options = {**options, "attention_types": kind}
    config = library.ModelConfig(
        num_layers=LAYERS, embed_dim=WIDTH, hidden_dim=INNER, num_heads=HEADS, head_dim=FEATURES,
        num_kv_heads=KEY_HEADS, **options,
    )  # fmt: skip
    model = getattr(library, cls)(config, rngs=nnx.Rngs(0))

    def forward(ids: jax.Array, positions: jax.Array, mask: jax.Array) -> jax.Array:
        logits: jax.Array = model(ids, positions, None, mask)[0]
        return logits

    return Export(forward, [IDS, IDS, (("B", "T", "T"), "bool")])


# -- transformers' Flax models -------------------------------------------------------------------

_BERT = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER}
_LONGEST = {"max_position_embeddings": LONGEST}
_GROUPED = {**_BERT, **_LONGEST, "num_key_value_heads": KEY_HEADS}
_GPT = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": LONGEST}
_BART = {
    "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "pad_token_id": 1,
    "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
_IMAGE = {**_BERT, "image_size": 16, "patch_size": 8}
_ENCODER, _DECODER = Counts(2, 0, 5, 2), Counts(2, 4, 5, 2)

# name, class without "Flax" and "Model", what it holds, configuration, kind of its inputs
_TRANSFORMERS: Sequence[tuple[str, str, Counts, Mapping[str, Any], str]] = (
    ("BERT", "Bert", _ENCODER, {**_BERT, **_LONGEST}, "encoder"),
    ("RoBERTa", "Roberta", _ENCODER, {**_BERT, **_LONGEST}, "encoder"),
    ("ELECTRA", "Electra", _ENCODER, {**_BERT, **_LONGEST, "embedding_size": WIDTH}, "encoder"),
    ("ALBERT", "Albert", _ENCODER, {**_BERT, **_LONGEST, "embedding_size": WIDTH}, "encoder"),
    (
        "DistilBERT", "DistilBert", _ENCODER,
        {"dim": WIDTH, "hidden_dim": INNER, "n_layers": LAYERS, "n_heads": HEADS, **_LONGEST}, "unsegmented",
    ),
    ("RoFormer", "RoFormer", _DECODER, {**_BERT, **_LONGEST, "embedding_size": WIDTH}, "unpositioned"),
    ("BigBird, full attention", "BigBird", _ENCODER, {**_BERT, **_LONGEST, "attention_type": "original_full"}, "encoder"),
    ("GPT-2", "GPT2", _ENCODER, _GPT, "decoder"),
    (
        "GPT-Neo", "GPTNeo", _ENCODER,
        {
            "hidden_size": WIDTH, "num_layers": LAYERS, "num_heads": HEADS, "window_size": 8,
            "attention_types": [[["global", "local"], 1]], **_LONGEST,
        },
        "decoder",
    ),
    ("GPT-J", "GPTJ", Counts(2, 4, 3, 2), {**_GPT, "rotary_dim": 4}, "decoder"),
    ("BLOOM", "Bloom", Counts(2, 0, 6, 2), {"hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS}, "unpositioned decoder"),
    (
        "OPT", "OPT", Counts(2, 0, 5, 0),
        {
            "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "ffn_dim": INNER,
            "word_embed_proj_dim": WIDTH, **_LONGEST,
        },
        "decoder",
    ),
    ("XGLM", "XGLM", _ENCODER, {"d_model": WIDTH, "num_layers": LAYERS, "attention_heads": HEADS, "ffn_dim": INNER, **_LONGEST}, "decoder"),
    ("Llama", "Llama", _DECODER, _GROUPED, "decoder"),
    ("Mistral", "Mistral", _DECODER, {**_GROUPED, "sliding_window": 8}, "decoder"),
    ("Gemma", "Gemma", _DECODER, {**_GROUPED, "head_dim": FEATURES, "hidden_activation": "gelu_pytorch_tanh"}, "decoder"),
    ("BART", "Bart", Counts(6, 0, 12, 4), {**_BART, **_LONGEST}, "translator"),
    ("mBART", "MBart", Counts(6, 0, 14, 4), {**_BART, **_LONGEST}, "translator"),
    ("Marian", "Marian", Counts(6, 0, 10, 4), {**_BART, **_LONGEST}, "translator"),
    ("Pegasus", "Pegasus", Counts(6, 0, 12, 4), {**_BART, **_LONGEST}, "translator"),
    ("Blenderbot", "Blenderbot", Counts(6, 0, 12, 4), {**_BART, **_LONGEST}, "translator"),
    ("ViT", "ViT", _ENCODER, _IMAGE, "image"),
    ("BEiT", "Beit", Counts(2, 0, 4, 2), _IMAGE, "image"),
    ("DINOv2", "Dinov2", _ENCODER, {**_IMAGE, "mlp_ratio": 2}, "image"),
    ("CLIP, text", "CLIPText", _ENCODER, {**_BERT, **_LONGEST, "eos_token_id": 2}, "unsegmented"),
    ("CLIP, image", "CLIPVision", _ENCODER, _IMAGE, "image"),
    ("Whisper", "Whisper", Counts(6, 0, 12, 6), {**_BART, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": LONGEST}, "speech"),
)  # fmt: skip


def _transformers() -> Iterator[Surveyed]:
    for name, cls, expected, options, kind in _TRANSFORMERS:
        yield Surveyed(
            "transformers", name, expected, lambda c=cls, o=options, k=kind: _transformers_model(c, o, k)  # type: ignore[misc]
        )  # fmt: skip


def _transformers_model(cls: str, options: Mapping[str, Any], kind: str) -> Export:
    library: Any = importlib.import_module("transformers")
    words = {} if kind == "image" else {"vocab_size": WORDS}
    config = getattr(library, f"{cls}Config")(**words, **options)
    sizes = {"input_shape": (1, 8, 32)} if kind == "speech" else {}
    model = getattr(library, f"Flax{cls}Model")(config, seed=0, **sizes)
    return _CALLS[kind](model)


def _positions(ids: jax.Array) -> jax.Array:
    return jnp.broadcast_to(jnp.arange(ids.shape[1], dtype=jnp.int32), ids.shape)


_MASKS = {"mask": (0, 2), "padding_mask": (0, 2)}


def _encoder(model: Any) -> Export:
    def encode(ids: jax.Array, mask: jax.Array) -> jax.Array:
        hidden: jax.Array = model(ids, mask, jnp.zeros_like(ids), _positions(ids)).last_hidden_state
        return hidden

    return Export(encode, [IDS, MASK], TEXT_LIMIT, _MASKS)


def _unsegmented(model: Any) -> Export:
    def encode(ids: jax.Array, mask: jax.Array) -> jax.Array:
        hidden: jax.Array = model(ids, mask)[0]
        return hidden

    return Export(encode, [IDS, MASK], TEXT_LIMIT, _MASKS)


def _unpositioned(model: Any) -> Export:
    def encode(ids: jax.Array, mask: jax.Array) -> jax.Array:
        hidden: jax.Array = model(ids, mask, token_type_ids=jnp.zeros_like(ids)).last_hidden_state
        return hidden

    return Export(encode, [IDS, MASK], TEXT_LIMIT, _MASKS)


def _decoder(model: Any) -> Export:
    def decode(ids: jax.Array, mask: jax.Array) -> jax.Array:
        hidden: jax.Array = model(ids, mask, _positions(ids))[0]
        return hidden

    return Export(decode, [IDS, MASK], TEXT_LIMIT, _MASKS)


def _translator(model: Any) -> Export:
    def translate(source: jax.Array, mask: jax.Array, ids: jax.Array) -> jax.Array:
        places = _positions(source), _positions(ids)
        hidden: jax.Array = model(source, mask, ids, jnp.ones_like(ids), *places).last_hidden_state
        return hidden

    return Export(translate, [SOURCE_IDS, SOURCE_IDS, IDS], BOTH_LIMITS, _MASKS)


def _image(model: Any) -> Export:
    return Export(lambda pixels: model(pixels).last_hidden_state, [("B", 3, 16, 16)])


def _speech(model: Any) -> Export:
    def transcribe(features: jax.Array, ids: jax.Array) -> jax.Array:
        hidden: jax.Array = model(
            features, ids, decoder_attention_mask=jnp.ones_like(ids), decoder_position_ids=_positions(ids)
        ).last_hidden_state
        return hidden

    return Export(transcribe, [("B", 8, 32), IDS], TEXT_LIMIT)


_CALLS: Mapping[str, Callable[[Any], Export]] = {
    "encoder": _encoder,
    "unsegmented": _unsegmented,
    "unpositioned": _unpositioned,
    "decoder": _decoder,
    "unpositioned decoder": _unsegmented,
    "translator": _translator,
    "image": _image,
    "speech": _speech,
}


# -- keras-hub -----------------------------------------------------------------------------------

_ONE = {"num_heads": HEADS}
_MANY = {"num_query_heads": HEADS, "num_key_value_heads": KEY_HEADS}
_POSITIONS = {"max_sequence_length": LONGEST}
_CAPS = {
    "use_post_ffw_norm": True, "use_post_attention_norm": True, "attention_logit_soft_cap": 50.0,
    "final_logit_soft_cap": 30.0, "use_sliding_window_attention": True, "sliding_window_size": 8,
}  # fmt: skip
_THIRD = {
    "image_size": 16, "use_post_ffw_norm": True, "use_post_attention_norm": True,
    "use_sliding_window_attention": True, "sliding_window_size": 8,
}  # fmt: skip

# name, class without "Backbone", what it holds, configuration, kind of its inputs
_KERAS_HUB: Sequence[tuple[str, str, Counts, Mapping[str, Any], str]] = (
    ("BERT", "Bert", _ENCODER, {**_ONE, **_POSITIONS}, "segments"),
    ("RoBERTa", "Roberta", _ENCODER, {**_ONE, **_POSITIONS}, "text"),
    ("ALBERT", "Albert", _ENCODER, {**_ONE, **_POSITIONS, "embedding_dim": WIDTH}, "segments"),
    ("DeBERTa v3", "DebertaV3", Counts(2, 0, 6, 2), {**_ONE, **_POSITIONS, "bucket_size": 8}, "text"),
    ("RoFormer v2", "RoformerV2", Counts(2, 4, 5, 0), {**_ONE, "head_size": FEATURES}, "unmasked segments"),
    ("GPT-2", "GPT2", _ENCODER, {**_ONE, **_POSITIONS}, "text"),
    ("GPT-NeoX", "GPTNeoX", _DECODER, {**_ONE, **_POSITIONS, "rotary_percentage": 0.5}, "text"),
    ("BLOOM", "Bloom", Counts(2, 0, 6, 2), _ONE, "text"),
    ("OPT", "OPT", Counts(2, 0, 5, 0), {**_ONE, **_POSITIONS}, "text"),
    ("Falcon", "Falcon", _ENCODER, {"num_attention_heads": HEADS}, "text"),
    ("Llama", "Llama", _DECODER, _MANY, "text"),
    ("Mistral", "Mistral", _DECODER, {**_MANY, "sliding_window": 8}, "text"),
    ("Qwen 2", "Qwen", _DECODER, _MANY, "text"),
    ("Qwen 3", "Qwen3", Counts(2, 4, 9, 2), {**_MANY, "head_dim": FEATURES}, "text"),
    ("Phi 3", "Phi3", _DECODER, _MANY, "text"),
    ("Gemma", "Gemma", _DECODER, {**_MANY, "head_dim": FEATURES}, "text"),
    ("Gemma 2", "Gemma", Counts(2, 4, 9, 2), {**_MANY, "head_dim": FEATURES, **_CAPS}, "text"),
    ("Gemma 3", "Gemma3", Counts(2, 4, 13, 2), {**_MANY, "head_dim": FEATURES, **_THIRD}, "text"),
    ("T5", "T5", Counts(6, 0, 12, 4), {**_ONE, "activation": "gelu"}, "two texts"),
    ("BART", "Bart", Counts(6, 0, 12, 4), {**_ONE, **_POSITIONS}, "two texts"),
    ("ViT", "ViT", _ENCODER, {"image_shape": (16, 16, 3), "patch_size": 8, "mlp_dim": INNER, **_ONE}, "image"),
)


def _keras_hub() -> Iterator[Surveyed]:
    for name, cls, expected, options, kind in _KERAS_HUB:
        yield Surveyed(
            "keras_hub", name, expected, lambda c=cls, o=options, k=kind: _keras_model(c, o, k)  # type: ignore[misc]
        )  # fmt: skip


def _keras_model(cls: str, options: Mapping[str, Any], kind: str) -> Export:
    import keras

    library: Any = importlib.import_module("keras_hub.models")
    keras.utils.set_random_seed(0)
    sizes = {"num_layers": LAYERS, "hidden_dim": WIDTH}
    if kind != "image":
        sizes |= {"vocabulary_size": WORDS, "intermediate_dim": INNER}
    model = getattr(library, f"{cls}Backbone")(**{**sizes, **options})
    if kind == "image":
        return Export(model, [("B", 16, 16, 3)])
    prefixes = ("encoder_", "decoder_") if kind == "two texts" else ("",)
    symbols = dict(zip(prefixes, "ST" if len(prefixes) > 1 else "T", strict=True))
    names = ["token_ids"] if kind == "unmasked segments" else ["token_ids", "padding_mask"]
    names += ["segment_ids"] if kind.endswith("segments") else []
    shapes = {f"{prefix}{name}": (("B", symbols[prefix]), "int32") for prefix in prefixes for name in names}
    ranges = {name: (0, 2) for name in shapes if not name.endswith("token_ids")}
    return Export(lambda batch: model(batch), [shapes], BOTH_LIMITS if len(prefixes) > 1 else TEXT_LIMIT, ranges)


# -- equimo and Equinox --------------------------------------------------------------------------


def _equimo() -> Iterator[Surveyed]:
    yield Surveyed("equimo", "ViT", _ENCODER, lambda: _equimo_vit())
    yield Surveyed("equimo", "ViT with SwiGLU", _ENCODER, lambda: _equimo_vit(ffn_layer="swiglu"))
    yield Surveyed(
        "equimo", "ViT with rotations (DINOv3)", _DECODER, lambda: _equimo_vit(use_global_pos_embed=False, use_local_pos_embed=True)
    )  # fmt: skip


def _equimo_vit(**options: Any) -> Export:
    library: Any = importlib.import_module("equimo.models")
    model = library.VisionTransformer(
        img_size=16, in_channels=3, dim=WIDTH, patch_size=8, num_heads=HEADS, depths=[LAYERS], num_classes=5,
        key=jax.random.key(0), **options,
    )  # fmt: skip
    key = jax.random.key(1)
    return Export(jax.vmap(lambda image: model(image, key=key, inference=True)), [("B", 3, 16, 16)])


def _equinox() -> Iterator[Surveyed]:
    yield Surveyed("equinox", "attention with rotations, RMS norm", Counts(1, 2, 1, 1), _equinox_block)


def _equinox_block() -> Export:
    """A block as the documentation of `MultiheadAttention` and `RotaryPositionalEmbedding` writes it."""
    import equinox as eqx

    keys = jax.random.split(jax.random.key(0), 3)
    attention = eqx.nn.MultiheadAttention(HEADS, WIDTH, key=keys[0])
    rotation, norm = eqx.nn.RotaryPositionalEmbedding(FEATURES), eqx.nn.RMSNorm(WIDTH)
    linear = eqx.nn.Linear(WIDTH, WIDTH, key=keys[1])

    def rotated(query: jax.Array, key: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        turn = jax.vmap(rotation, in_axes=1, out_axes=1)
        return turn(query), turn(key), value

    def block(x: jax.Array) -> jax.Array:
        normal = jax.vmap(norm)(x)
        mask = jnp.tril(jnp.ones((x.shape[0], x.shape[0]), bool))
        x = x + attention(normal, normal, normal, mask, process_heads=rotated)
        return x + jax.vmap(lambda row: jax.nn.silu(linear(row)))(x)

    return Export(jax.vmap(block), [("B", "T", WIDTH)])
