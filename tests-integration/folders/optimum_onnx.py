"""Folders of jax2onnx-transformersjs in Optimum: its models of ONNX Runtime, with PyTorch's tensors, compared with JAX."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}

import numpy as np
import torch
from hugging_face_models import COUNT, Example, build, compared, compared_tokens
from optimum.onnxruntime import ORTModelForCausalLM, ORTModelForFeatureExtraction, ORTModelForImageClassification
from PIL import Image
from table import Row, write
from transformers import AutoImageProcessor, AutoTokenizer

FILE = {"subfolder": "onnx", "file_name": "model.onnx"}


def rows(directory: Path, examples: list[Example]) -> Iterator[Row]:
    """A row of the table for each example that Optimum reads."""
    runtime = f"Optimum {importlib.metadata.version('optimum-onnx')}"
    for example in examples:
        folder, speed = str(directory / example.folder), ""
        if example.task == "image-classification":
            equal = f"probabilities differ by: fp32 {compared(example, 'fp32', classified(folder, example.given))}"
        elif example.task == "feature-extraction":
            equal = f"features differ by: fp32 {compared(example, 'fp32', extracted(folder, example.given))}"
        elif example.folder == "fixed-decoder":  # Optimum begins with caches without places
            continue
        else:
            tokens, seconds = generated(folder, example.given)
            equal = f"tokens: fp32 {compared_tokens(example, 'fp32', tokens, directory)}"
            speed = f"fp32 {COUNT / seconds:.0f} tokens/s"
        yield Row(example.title, runtime, equal, speed)


def classified(folder: str, given: Any) -> np.ndarray:
    """The probabilities of the classes."""
    pixels = np.array(given["pixels"], np.uint8).reshape(given["height"], given["width"], 3)
    prepared = AutoImageProcessor.from_pretrained(folder, use_fast=False)(Image.fromarray(pixels), return_tensors="pt")
    logits = ORTModelForImageClassification.from_pretrained(folder, **FILE)(**prepared).logits
    return torch.softmax(logits, -1)[0].numpy()


def extracted(folder: str, given: Any) -> np.ndarray:
    """The features of padded texts."""
    inputs = AutoTokenizer.from_pretrained(folder)(given["texts"], padding=True, return_tensors="pt")
    return ORTModelForFeatureExtraction.from_pretrained(folder, **FILE)(**inputs).last_hidden_state.numpy()


def generated(folder: str, given: Any) -> tuple[np.ndarray, float]:
    """The prompt and what is written after it, and the seconds that it takes."""
    inputs = AutoTokenizer.from_pretrained(folder)(given["prompt"], return_tensors="pt", return_token_type_ids=False)
    model = ORTModelForCausalLM.from_pretrained(folder, **FILE)
    tokens, times = [], []
    for _ in range(3):
        start = time.perf_counter()
        tokens = model.generate(**inputs, max_new_tokens=given["count"], do_sample=False)[0].tolist()
        times.append(time.perf_counter() - start)
    return np.array(tokens), min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="of the decoder's training")
    parser.add_argument("--keep-speeds", action="store_true", help="keep the speeds of the page, on a busy machine")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        made = list(rows(directory, build(directory, steps=options.steps)))
        write("Optimum", made, keep_speeds=options.keep_speeds)


if __name__ == "__main__":
    main()
