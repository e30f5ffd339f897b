"""The decoders of `generation.py` as other exporters make them: onnxruntime-genai's model builder, and torch.onnx.

Runs in an environment that has PyTorch, transformers and onnxruntime-genai; the weights are random, which speed does not depend on.
Writes `FOLDER/<kind>-<exporter>/model.onnx`, and says in one line what could not be made.

Usage: python benchmarks/rival_decoders.py FOLDER
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models
from transformers.cache_utils import DynamicCache

COMMON = {
    "vocab_size": 8192, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 8, "max_position_embeddings": 16384,
    "tie_word_embeddings": True,
}  # fmt: skip


def decoders() -> Iterator[tuple[str, Any]]:
    """The name and the model of each kind."""
    torch.manual_seed(0)
    heads = {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64}
    yield "qwen", transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**COMMON, **heads)).eval()
    heads = {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "sliding_window": 512}
    yield "gemma", transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**COMMON, **heads)).eval()


class CachedStep(torch.nn.Module):
    """A module that computes, from tokens, their positions and the caches, the logits of the last token and the longer caches."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: Any, positions: Any, *caches: Any) -> tuple[Any, ...]:
        cache = DynamicCache(config=self.model.config)
        for layer, (key, value) in enumerate(zip(caches[::2], caches[1::2], strict=True)):
            cache.update(key, value, layer)
        result = self.model(
            input_ids=words, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        return result.logits, *(part for layer in cache.layers for part in (layer.keys, layer.values))


def by_torch(model: Any, folder: Path) -> None:
    """Export with torch.onnx, sizes of words and caches dynamic."""
    config, past, new = model.config, 7, 3
    shape = (1, config.num_key_value_heads, past, config.head_dim)
    caches = [torch.zeros(shape) for _ in range(2 * config.num_hidden_layers)]
    words, positions = torch.zeros((1, new), dtype=torch.int64), torch.arange(past, past + new)[None]
    names = ["words", "positions", *(f"cache.{i}" for i in range(len(caches)))]
    program = torch.onnx.export(
        CachedStep(model), (words, positions, *caches), dynamo=True, opset_version=23, input_names=names, verbose=False,
        output_names=["logits", *(f"new.{name}" for name in names[2:])],
        dynamic_shapes=({1: "T"}, {1: "T"}, tuple({2: "S"} for _ in caches)),
    )  # fmt: skip
    program.save(folder / "model.onnx", external_data=True)


def by_genai(model: Any, folder: Path, precision: str) -> None:
    """Export with onnxruntime-genai's model builder, which reads the model and a tokenizer from a folder.

    Args:
      model: the model of transformers.
      folder: the folder of the exported model.
      precision: the precision of the weights, as the builder names it.
    """
    source = folder / "source"
    model.save_pretrained(source)
    tokenizer = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1}, unk_token="<s>"))
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    words.save_pretrained(source)
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-e", "cpu", "-p", precision]
    folders = ["-i", str(source), "-o", str(folder), "-c", str(folder / "cache")]
    subprocess.run([*builder, *folders], check=True, capture_output=True, text=True)


def main() -> None:
    transformers.logging.set_verbosity_error()
    for kind, model in decoders():
        for exporter, make in (
            ("torch", lambda folder, model=model: by_torch(model, folder)),
            ("genai", lambda folder, model=model: by_genai(model, folder, "fp32")),
            ("genai-int4", lambda folder, model=model: by_genai(model, folder, "int4")),
        ):
            folder = Path(sys.argv[1]) / f"{kind}-{exporter}"
            folder.mkdir(parents=True)
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    make(folder)
            except (RuntimeError, ValueError, LookupError, subprocess.CalledProcessError) as error:
                reason = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
                print(f"{folder.name} could not be made: {reason.strip().splitlines()[-1]}")


if __name__ == "__main__":
    main()
