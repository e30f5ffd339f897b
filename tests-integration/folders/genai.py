"""Folders for onnxruntime-genai, run by it: greedy tokens beside those of JAX, and times beside the model of its own builder.

`benchmarks/rival_decoders.py` writes the models of the builder; without them nothing is timed.

Usage: nox -s folders -- genai [--rivals FOLDER] [--tokens 200]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnxruntime_genai as genai
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_genai import write, write_speech
from jax2onnx_runtime.quantization import Mode
from table import Row
from table import write as write_rows

from examples.speech_models import BEGIN, FRAMES, LENGTH, MELS, Whisper, bundle, continued
from examples.speech_models import END as END_OF_SPEECH
from examples.stacked_decoders import STACKED, StackedDecoder
from examples.tunix_decoders import CAPACITY, DECODERS, PAD, WORDS, Decoder, adapted

RUNTIME = f"onnxruntime-genai {version('onnxruntime-genai')}"
PROMPTS = [[5, 7, 11, 42, 99, 3], [311, 4], [9, 8, 1, 77]]
# No token of the prompts; texts end at their length.
END = WORDS - 1
PRECISIONS: dict[str, dict[str, Any]] = {"float32": {}, "float16": {"dtype": "float16"}, "int4": {"quantize": "int4"}}
STEPS, ROUNDS, PROMPT = 60, 3, 256


def texts(folder: Path, prompts: Sequence[Sequence[int]], count: int, adapter: Path | None = None) -> list[list[int]]:
    """The greedy continuations of prompts by onnxruntime-genai, the shorter ones filled up at the right."""
    model, width = genai.Model(str(folder)), max(map(len, prompts))
    parameters = genai.GeneratorParams(model)
    parameters.set_search_options(max_length=width + count, do_sample=False, batch_size=len(prompts))
    generator = genai.Generator(model, parameters)
    if adapter is not None:
        adapters = genai.Adapters(model)
        adapters.load(str(adapter), "adapter")
        generator.set_active_adapter(adapters, "adapter")
    padded = np.array([[*prompt, *[PAD] * (width - len(prompt))] for prompt in prompts], np.int32)
    generator.append_tokens(padded if len(prompts) > 1 else padded[0])
    while not generator.is_done():
        generator.generate_next_token()
    return [[int(token) for token in generator.get_sequence(i)][width:] for i in range(len(prompts))]


def ended(text: Sequence[int]) -> list[int]:
    """A text up to the token that ends it, which the runtime leaves out."""
    return [*text[: text.index(END)]] if END in text else [*text]


def shared(text: Sequence[int], wanted: Sequence[int]) -> int:
    """Number of tokens at the beginning that two texts have in common."""
    return next((i for i, (a, b) in enumerate(zip(text, wanted, strict=False)) if a != b), min(len(text), len(wanted)))


def in_fewer_bits(
    program: OnnxProgram, decoder: Decoder, precision: str, prompt: Sequence[int], count: int
) -> list[int]:
    """The greedy continuation by the same program in fewer bits in the project's own session, step by step."""
    mode = PRECISIONS[precision]
    quantized = program.quantize("int4") if "quantize" in mode else program.quantize("float16", keep_io_types=False)
    session = quantized.session(sizes={"B": 1, "C": CAPACITY})
    pending, start, text = list(prompt), 0, list[int]()
    while len(text) < count:
        new = pending if decoder.tokens == "T" else pending[:1]
        pending = pending[len(new) :]
        positions = start + np.arange(len(new), dtype=np.int32)
        mask = np.arange(CAPACITY) <= positions[:, None]
        logits = session.step(np.array([new], np.int32), positions[None], mask[None])["logits"]
        start += len(new)
        if not pending:
            text.append(int(logits[0, -1].argmax()))
            pending = [text[-1]]
    return text


def compared(decoder: Decoder, count: int) -> Iterator[Row]:
    """A row for each precision of a decoder."""
    program, wanted = decoder.program(), [decoder.continued(prompt, count) for prompt in PROMPTS]
    for precision, options in PRECISIONS.items():
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "folder"
            write(program, folder, eos=END, pad=PAD, context_length=CAPACITY, **options)
            # A decoder of one token gets its prompts token by token, which the runtime does for single texts.
            together = len(PROMPTS) if decoder.tokens == "T" else 1
            found = [ended(text) for text in texts(folder, PROMPTS[:together], count)]
        if precision != "float32":
            expected = [ended(in_fewer_bits(program, decoder, precision, PROMPTS[0], count))]
            what, found = f"of the {precision} program in ONNX Runtime", found[:1]
        else:
            expected, what = [ended(text) for text in wanted[:together]], "of JAX"
        equal = sum(shared(a, b) for a, b in zip(found, expected, strict=True))
        number, total = len(found), sum(map(len, expected))
        several = f", {number} texts of different lengths" if number > 1 else ""
        yield Row(f"{decoder.name}, {precision}", RUNTIME, f"{equal} of {total} tokens {what}{several}")


def with_adapters(make: Callable[[], Decoder], count: int) -> Iterator[Row]:
    """A row for a folder with LoRA adapters of two ranks, read by the runtime from files, and without one."""
    exported = adapted(make(), 4)
    program, prompt = exported.program().with_adapters(nnx.LoRAParam), PROMPTS[0]
    found, expected = [], []
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "folder"
        write(program, folder, eos=END, pad=PAD, context_length=CAPACITY)
        for decoder in (make(), exported, adapted(make(), 7)):
            weights = nnx.state(decoder.module, nnx.LoRAParam)
            file = Path(parent) / "adapter.onnx_adapter" if jax.tree.leaves(weights) else None
            if file is not None:
                program.adapters.save(file, weights, rename=lambda name: name.removeprefix("self.module."))
            found.append(ended(texts(folder, [prompt], count, file)[0]))
            expected.append(ended(decoder.continued(prompt, count)))
    equal = sum(shared(a, b) for a, b in zip(found, expected, strict=True))
    title = f"{exported.name}, without and with LoRA adapters of rank 4 and 7 (qwix), float32"
    yield Row(title, RUNTIME, f"{equal} of {sum(map(len, expected))} tokens of JAX")


def stacked(decoder: StackedDecoder, count: int) -> Row:
    """A row for a decoder whose caches of all layers are one array, which the runtime holds as one for each layer."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "folder"
        write(decoder.program(), folder, eos=END, pad=PAD, context_length=CAPACITY)
        found = [ended(text) for text in texts(folder, PROMPTS, count)]
    expected = [ended(decoder.continued(prompt, count)) for prompt in PROMPTS]
    equal = sum(shared(a, b) for a, b in zip(found, expected, strict=True))
    several = f"{len(PROMPTS)} texts of different lengths"
    return Row(f"{decoder.name}, float32", RUNTIME, f"{equal} of {sum(map(len, expected))} tokens of JAX, {several}")


def speech(count: int) -> Iterator[Row]:
    """A row for each way in which an encoder of speech hands over what it found, two sounds at once."""
    model, prompts = Whisper(nnx.Rngs(0)), [[BEGIN, 5, 7], [BEGIN, 9, 3]]
    sounds = np.random.default_rng(0).standard_normal((2, MELS, FRAMES), dtype=np.float32)
    expected = continued(model, sounds, prompts, count)
    for hidden, what in ((False, "keys and values"), (True, "hidden states")):
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "folder"
            write_speech(
                bundle(model, hidden=hidden), folder, eos=END_OF_SPEECH, bos=BEGIN, pad=PAD, context_length=LENGTH
            )
            found = spoken(folder, sounds, prompts, count)
        equal = sum(shared(a, b) for a, b in zip(found, expected, strict=True))
        title = f"like Whisper (NNX), the decoder gets {what}, float32"
        yield Row(title, RUNTIME, f"{equal} of {sum(map(len, expected))} tokens of JAX, 2 sounds")


def spoken(folder: Path, sounds: np.ndarray, prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """The greedy continuations of prompts of one length for the features of sounds."""
    model, inputs = genai.Model(str(folder)), genai.NamedTensors()
    parameters, length = genai.GeneratorParams(model), len(prompts[0]) + count
    # No text ends before its length, so that all tokens are compared.
    parameters.set_search_options(max_length=length, min_length=length, do_sample=False, batch_size=len(prompts))
    generator = genai.Generator(model, parameters)
    inputs["audio_features"] = sounds
    generator.set_inputs(inputs)
    generator.append_tokens(np.array(prompts, np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [[int(token) for token in generator.get_sequence(i)][-count:] for i in range(len(prompts))]


# -- times ----------------------------------------------------------------------------------------


def on_one_thread(source: Path, folder: Path) -> Path:
    """A copy of a folder whose model runs on one thread."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("source", "cache"))
    file = folder / "genai_config.json"
    content = json.loads(file.read_text())
    content["model"]["decoder"]["session_options"]["intra_op_num_threads"] = 1
    file.write_text(json.dumps(content))
    return folder


class Timed:
    """A model that goes on with a prompt; the times of its tokens."""

    def __init__(self, folder: Path, prompt: Sequence[int]) -> None:
        length = len(prompt) + STEPS + 1
        self._model = genai.Model(str(folder))
        parameters = genai.GeneratorParams(self._model)
        parameters.set_search_options(max_length=length, min_length=length, do_sample=False)
        self._generator = genai.Generator(self._model, parameters)
        self._generator.append_tokens(list(prompt))
        self._generator.generate_next_token()
        self.times: list[float] = []

    def go_on(self) -> None:
        """Write one more token; the time is that of the processor, which other programs take no part of."""
        start = time.thread_time()
        self._generator.generate_next_token()
        self.times.append(1e3 * (time.thread_time() - start))


def ratio(ours: Path, theirs: Path, prompt: Sequence[int]) -> tuple[float, float, float]:
    """The median of the ratios of the times of a token, the two in turns, and the median times in milliseconds."""
    pairs: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        one, other = Timed(ours, prompt), Timed(theirs, prompt)
        for number in range(STEPS - 1):
            for timed in (one, other) if number % 2 else (other, one):
                timed.go_on()
        pairs += zip(one.times, other.times, strict=True)
    ours_median, theirs_median = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    return statistics.median(a / b for a, b in pairs), ours_median, theirs_median


def timed(rivals: Path) -> Iterator[Row]:
    """A row for each precision of a decoder of the size that the builder's has."""
    from examples import jax_decoders

    def step(tokens: Any, place: Any, *caches: Any) -> Any:
        return jax_decoders.qwen(jax_decoders.by_function, tokens, place, *caches)

    caches = [(1, "C", jax_decoders.KEY_HEADS, jax_decoders.FEATURES)] * jax_decoders.STATES
    states = {2 + i: 1 + i for i in range(jax_decoders.STATES)}
    program = to_onnx(step, [((1, "T"), "int32"), ((), "int32"), *caches], states=states, constraints=["C >= T"])
    prompt = np.random.default_rng(0).integers(2, jax_decoders.WORDS, PROMPT).tolist()
    modes: dict[str, Mode | None] = {"qwen-genai": None, "qwen-genai-int4": "int4"}
    for name, mode in modes.items():
        if not (rivals / name / "model.onnx").exists():
            continue
        with tempfile.TemporaryDirectory() as parent:
            write(program, Path(parent) / "written", eos=1, pad=1, context_length=2048, quantize=mode)
            ours = on_one_thread(Path(parent) / "written", Path(parent) / "ours")
            theirs = on_one_thread(rivals / name, Path(parent) / "theirs")
            found, mine, other = ratio(ours, theirs, prompt)
        speed = f"{found:.2f} of the time of the builder's model for a token ({mine:.1f} and {other:.1f} ms)"
        yield Row(f"8 layers of width 1024, {mode or 'float32'}", RUNTIME, "", speed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rivals", type=Path, help="the folder of rival_decoders.py")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--keep-speeds", action="store_true", help="keep the speeds of the page, on a busy machine")
    options = parser.parse_args()
    rows = [row for make in DECODERS for row in compared(make(), options.tokens)]
    rows += [row for make in DECODERS for row in with_adapters(make, options.tokens)]
    rows += [stacked(decoder, options.tokens) for decoder in STACKED]
    rows += speech(60)
    keep_speeds = options.keep_speeds or options.rivals is None
    if not keep_speeds:
        rows += timed(options.rivals)
    write_rows("onnxruntime-genai", rows, keep_speeds=keep_speeds)


if __name__ == "__main__":
    main()
