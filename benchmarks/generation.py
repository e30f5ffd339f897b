"""Decoders in several writings: milliseconds for one token on caches of several lengths, and for a prompt.

On one thread, in ONNX Runtime with the caches updated in place, beside `jax.jit`, and beside the files of other exporters where
they are given (`rival_decoders.py` writes these). All ways run in turns in one process.

With --overhead: what `Generator.stream` needs beside the runs of the model, in process time.

Usage: nox -s tables -- generation [--rivals FOLDER] [--kinds qwen …] [--keys 256 …] [--overhead]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime as ort
from jax2onnx_core import to_onnx
from jax2onnx_generation import Generator
from timing import in_turns, on_threads

from examples.jax_decoders import DECODERS, STATES, WORDS, Decoder

#: New words, words before and with them, and the capacity of the caches.
SITUATIONS = [(1, 256, 256), (1, 2048, 2048), (1, 8192, 8192), (1, 256, 8192), (512, 512, 512)]
ROUNDS = 15

Run = Callable[[], Any]


def bound(session: ort.InferenceSession, inputs: dict[str, np.ndarray], kept: dict[str, str]) -> Run:
    """A run of a model on inputs that stay in its memory.

    Args:
      session: the loaded model.
      inputs: the inputs by name.
      kept: output → the input in whose memory it is written.
    """
    binding, values = session.io_binding(), {name: ort.OrtValue.ortvalue_from_numpy(x) for name, x in inputs.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        if output.name in kept:
            binding.bind_ortvalue_output(output.name, values[kept[output.name]])
        else:
            binding.bind_output(output.name)
    # What is bound has to live as long as the call.
    return lambda values=values: session.run_with_iobinding(binding)  # type: ignore[misc]


def ours(decoder: Decoder, situation: tuple[int, int, int], path: Path, mode: Any = None) -> Run:
    """A run of the exported decoder.

    Args:
      decoder: the decoder.
      situation: the numbers of new positions, of filled ones, and the capacity of the caches.
      path: the file of the model.
      mode: the mode of quantisation, if any.
    """
    inputs = decoder.arguments(*situation)
    states = {len(inputs) - STATES + i: 1 + i for i in range(STATES)}
    layouts = None if decoder.layout is None else dict.fromkeys(states, decoder.layout)
    program = to_onnx(decoder.step, inputs, states=states, input_layouts=layouts)
    (program if mode is None else program.quantize(mode)).save(path)
    session = on_threads(path)
    names, results = program.input_names, program.output_names
    kept = {results[after]: names[before] for before, after in states.items()}
    return bound(session, program.feeds(*inputs), kept)


def in_jax(decoder: Decoder, situation: tuple[int, int, int]) -> Run:
    inputs, compiled = [jnp.asarray(x) for x in decoder.arguments(*situation)], jax.jit(decoder.step)
    return lambda: jax.block_until_ready(compiled(*inputs))


def of_genai(path: Path, situation: tuple[int, int, int]) -> Run:
    """A model of onnxruntime-genai's builder: its caches have the whole capacity, and their length is that of a mask."""
    session, (new, filled, capacity) = on_threads(path), situation
    rng, inputs, kept = np.random.default_rng(1), {}, {}
    for value in session.get_inputs():
        if value.name.startswith("past_key_values."):
            inputs[value.name] = rng.standard_normal((1, value.shape[1], capacity, _features(value)), dtype=np.float32)
            kept[value.name.replace("past_key_values", "present")] = value.name
    words, positions = rng.integers(0, WORDS, (1, new)), np.arange(filled - new, filled)[None]
    given = {"input_ids": words, "attention_mask": np.ones((1, filled), np.int64), "position_ids": positions}
    names = {value.name for value in session.get_inputs()}
    return bound(session, {**inputs, **{name: x for name, x in given.items() if name in names}}, kept)


def _features(value: Any) -> int:
    """The features of a head, by the number of its key heads: the builder leaves the axis symbolic."""
    return 64 if value.shape[1] == 8 else 256


def of_torch(path: Path, situation: tuple[int, int, int]) -> Run:
    """A model of torch.onnx: its caches grow by each step."""
    session, (new, filled, _) = on_threads(path), situation
    # A prompt has no cache before it; the export wants at least one entry.
    rng, before = np.random.default_rng(1), max(filled - new, 1)
    inputs: dict[str, Any] = {
        "words": rng.integers(0, WORDS, (1, new)),
        "positions": np.arange(before, before + new)[None],
    }
    for value in session.get_inputs()[2:]:
        inputs[value.name] = rng.standard_normal((1, value.shape[1], before, value.shape[3]), dtype=np.float32)
    return bound(session, inputs, {})


def ways(kind: str, situation: tuple[int, int, int], folder: Path, rivals: Path | None) -> Iterator[tuple[str, Run]]:
    """The runs to measure: each writing, the last also in int4, `jax.jit`, and the rivals whose files exist.

    Args:
      kind: the kind of decoder.
      situation: the numbers of new positions, of filled ones, and the capacity of the caches.
      folder: where the exported models are written.
      rivals: the folder of the models of other exporters, if there is one.

    Returns:
      Pairs of the name of a run and the run.
    """
    for number, (name, decoder) in enumerate(DECODERS[kind].items()):
        yield name, ours(decoder, situation, folder / f"{number}.onnx")
    yield f"{name}, int4", ours(decoder, situation, folder / "int4.onnx", "int4")
    yield "jax.jit", in_jax(next(iter(DECODERS[kind].values())), situation)
    for exporter, run in (("genai", of_genai), ("genai-int4", of_genai), ("torch", of_torch)):
        path = rivals and rivals / f"{kind}-{exporter}" / "model.onnx"
        if path and path.exists():
            yield exporter, run(path, situation)


def able(runs: dict[str, Run]) -> dict[str, Run]:
    """Runs that succeed, after a first run that prepares; those that fail are printed."""
    found = {}
    for name, run in runs.items():
        try:
            run()
        except RuntimeError as error:
            print(f"  {name} cannot run: {str(error).splitlines()[0][-120:]}")
        else:
            found[name] = run
    return found


def measure(runs: dict[str, Run]) -> dict[str, tuple[float, float]]:
    """(least, median) milliseconds, the ways in turns."""
    times = in_turns(list(runs.values()), rounds=ROUNDS, clock=time.perf_counter)
    return {name: (1e3 * min(own), 1e3 * statistics.median(own)) for name, own in zip(runs, times, strict=True)}


# -- beside the runs ------------------------------------------------------------------------


class RunClock:
    """The process time within the runs of all models while it is entered, and their number."""

    def __init__(self) -> None:
        self.seconds, self.runs = 0.0, 0

    def __enter__(self) -> Self:
        self._original = ort.InferenceSession.run_with_iobinding

        def timed(session: ort.InferenceSession, *args: Any) -> None:
            start = time.process_time()
            self._original(session, *args)
            self.seconds, self.runs = self.seconds + time.process_time() - start, self.runs + 1

        ort.InferenceSession.run_with_iobinding = timed
        return self

    def __exit__(self, *_: object) -> None:
        ort.InferenceSession.run_with_iobinding = self._original


def overhead(write: Run) -> tuple[float, float]:
    """Microseconds of process time beside and in a run of the model, the least of several times that something is written."""
    found = []
    for _ in range(5):
        with RunClock() as clock:
            start = time.process_time()
            write()
            beside = time.process_time() - start - clock.seconds
        found.append((1e6 * beside / clock.runs, 1e6 * clock.seconds / clock.runs))
    return min(beside for beside, _ in found), min(within for _, within in found)


def report_overhead(mode: Any) -> None:
    """Print what writing 110 tokens needs beside the runs, for one and for four sequences.

    Args:
      mode: the mode of quantisation, if any.
    """
    decoder = DECODERS["qwen"]["einsum of grouped heads"]
    caches = [(("B", *x.shape[1:]), "float32") for x in decoder.arguments(1, 1, 128)[2:]]
    inputs = [(("B", "T"), "int32"), ((), "int32"), *caches]
    states = {2 + i: 1 + i for i in range(STATES)}
    exported = to_onnx(decoder.step, inputs, states=states, constraints=["T <= 128"])
    program = exported if mode is None else exported.quantize(mode)
    roles = {"tokens": program.input_names[0], "positions": program.input_names[1], "logits": program.output_names[0]}
    generator = Generator(program.session(sizes={"B": 1}, threads=1), roles=roles)
    drawn: dict[str, dict[str, Any]] = {
        "greedy": {},
        "drawn": {"temperature": 0.8, "top_k": 50, "top_p": 0.9, "seed": 1},
    }
    for rows in (1, 4):
        prompt = np.random.default_rng(0).integers(1, WORDS, (rows, 16)).tolist()
        for name, options in drawn.items():

            def write(prompt: Any = prompt, options: dict[str, Any] = options) -> None:
                generator.reset()
                for _ in generator.stream(prompt, max_new_tokens=110, **options):
                    pass

            beside, within = overhead(write)
            share = 100 * beside / (beside + within)
            print(
                f"{mode}, {rows} rows, {name}: {beside:.0f} us beside runs of {within:.0f} us, {share:.1f} %",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rivals", type=Path, help="the folder of rival_decoders.py")
    parser.add_argument("--kinds", nargs="+", choices=DECODERS, default=list(DECODERS))
    parser.add_argument("--keys", nargs="+", type=int, help="capacities of the caches; by default all, and a prompt")
    parser.add_argument("--overhead", action="store_true", help="what is beside the runs of the model")
    options = parser.parse_args()
    if options.overhead:
        for mode in (None, "int4"):
            report_overhead(mode)
        return
    for kind in options.kinds:
        for situation in SITUATIONS if kind != "mamba" else SITUATIONS[:1]:
            if options.keys and (situation[2] not in options.keys or situation[0] > 1):
                continue
            print("{}: {} new, {} of {} keys: least and median ms".format(kind, *situation))
            with tempfile.TemporaryDirectory() as folder:
                runs = dict(ways(kind, situation, Path(folder), options.rivals))
                for name, (least, median) in measure(able(runs)).items():
                    print(f"  {name:46} {least:8.1f} {median:8.1f}", flush=True)


if __name__ == "__main__":
    main()
