"""Programs on a local Ray cluster: results beside those of one process, throughput by processes, serving, stages with caches.

Usage: python tests-integration/ray_cluster.py [--rows 2000] [--workers 1 2] [--only serving pipeline]

Every part asserts what it shows.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import ray
import ray.data
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_ray import Pipeline, application, calls, map_program, results, verify
from jax2onnx_ray.inference import Worker, pool
from jax2onnx_ray.predictor import Batch
from jax2onnx_ray.rows import BatchedProgram
from ray import serve

WIDTH = 256
LAYERS = 4


def weights(count: int, width: int) -> list[jax.Array]:
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.standard_normal((width, width)) / width**0.5, jnp.float32) for _ in range(count)]


def program() -> OnnxProgram:
    """Rows of vectors, [T, 256] each, through a few layers."""
    layers = weights(12, WIDTH)

    def apply(x: jax.Array) -> dict[str, jax.Array]:
        for layer in layers:
            x = jnp.tanh(x @ layer)
        return {"y": x, "sum": x.sum((1, 2))}

    return to_onnx(apply, [("B", "T", WIDTH)])


def data(rows: int, lengths: tuple[int, ...]) -> ray.data.Dataset:
    def arrays(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        column = np.empty(len(batch["id"]), object)
        for i, number in enumerate(batch["id"]):
            shape = lengths[int(number) % len(lengths)], WIDTH
            column[i] = np.random.default_rng(int(number)).standard_normal(shape).astype(np.float32)
        return {"id": batch["id"], "x": column if len(lengths) > 1 else np.stack([*column])}

    return ray.data.range(rows).map_batches(arrays, batch_size=64, batch_format="numpy").materialize()


def by_id(found: ray.data.Dataset) -> dict[int, dict[str, np.ndarray]]:
    return {int(row["id"]): row for row in found.iter_rows()}


def equal_results(made: OnnxProgram, rows: int) -> None:
    """Rows of several lengths: each result is that of one process, and nothing is padded."""
    given = data(rows, (1, 3, 8))
    found = by_id(map_program(given, made, workers=2, key="id"))
    assert len(found) == rows
    for number, row in found.items():
        want = made(np.asarray(row["x"])[None])
        assert np.asarray(row["y"]).shape == want["y"].shape[1:]
        np.testing.assert_allclose(row["y"], want["y"][0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(row["sum"], want["sum"][0], rtol=1e-4, atol=1e-4)
        assert number % 3 == (1, 3, 8).index(len(row["x"]))
    print(f"{rows} rows of three lengths: as in one process")


def throughput(made: OnnxProgram, rows: int, workers: list[int]) -> None:
    """Rows a second from the first batch on: how long workers take to start says nothing of the program."""
    given = data(rows, (64,)).repartition(max(16, rows // 64)).materialize()
    for count in workers:
        times, batches = list[float](), map_program(given, made, workers=count, batch_size=64).select_columns(["sum"])
        for _ in batches.iter_batches(batch_size=64, prefetch_batches=0):
            times.append(time.perf_counter())
        print(f"{count} processes: {64 * (len(times) - 1) / (times[-1] - times[0]):7.0f} rows a second")


def fails(action: Callable[[], object], text: str) -> None:
    """Assert that an action fails with this text, by whatever class of Ray's."""
    try:
        action()
    except Exception as error:  # noqa: BLE001  (Ray's own classes)
        message = str(error)
    else:
        raise AssertionError(f"there was no error with {text!r}")
    assert text in message, message


def named_errors(made: OnnxProgram) -> None:
    """The row that fails is named, whichever worker had it."""

    def broken(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        column = np.empty(len(batch["x"]), object)
        for i, x in enumerate(batch["x"]):
            column[i] = x[:, :7] if batch["id"][i] == 77 else x
        return {**batch, "x": column}

    given = data(100, (2,)).map_batches(broken, batch_format="numpy")
    mapped = map_program(given, made, workers=2, key="id")
    fails(mapped.materialize, "failed on the row id = 77 (x float32[2, 7])")
    print("an error of a worker names its row: id = 77")


class Dying(Worker):
    """A worker whose process ends in the middle of the first batch that it gets, once in all."""

    marker = Path(tempfile.gettempdir()) / f"jax2onnx-ray-{os.getpid()}"

    def __init__(self, marker: str, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # handed on
        self._marker = Path(marker)

    def __call__(self, batch: Batch) -> dict[str, np.ndarray]:
        if not self._marker.exists():
            self._marker.touch()
            os._exit(1)
        return super().__call__(batch)


def killed_worker(made: OnnxProgram) -> None:
    Dying.marker.unlink(missing_ok=True)
    given, batched = data(300, (2,)), ray.put(BatchedProgram(made.portable()))
    found = by_id(
        given.map_batches(
            Dying, fn_constructor_args=(str(Dying.marker), batched, {}, "id"), batch_size=32, batch_format="numpy",
            compute=pool(2), num_cpus=1,
        )
    )  # fmt: skip
    assert Dying.marker.exists(), "no worker died"
    Dying.marker.unlink()
    assert sorted(found) == list(range(300))
    np.testing.assert_allclose(found[299]["y"], made(np.asarray(found[299]["x"])[None])["y"][0], rtol=1e-5, atol=1e-6)
    print("a worker was killed: all 300 rows are there")


def evaluation(made: OnnxProgram) -> None:
    """Verification over the cluster and in the driver, and calibration from a data set."""
    stored = map_program(data(200, (2, 5)), made, workers=2).materialize()
    expected = {"y": "y", "sum": "sum"}
    assert verify(stored, made, expected, workers=2, key="id", rtol=1e-4) < 1e-3
    assert made.verify(results=results(stored, made, expected), rtol=1e-4) < 1e-3

    def wrong(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {**batch, "sum": np.where(batch["id"] == 131, batch["sum"] + 1, batch["sum"])}

    changed = stored.map_batches(wrong, batch_format="numpy")
    fails(lambda: verify(changed, made, expected, workers=2, key="id", rtol=1e-4), "Output sum at the row id = 131")
    small = made.quantize("static_int8", calibration=calls(stored, made, limit=8))
    accuracy = small.portable().accuracy(results=results(stored, made, expected))
    assert accuracy.worst.snr > 10, accuracy
    print(f"verified over 200 rows; static_int8, calibrated by the data set: {accuracy.worst.snr:.0f} dB")


def serving(made: OnnxProgram) -> None:
    handle = serve.run(application(made, max_batch_size=16, wait=0.05), name="program", route_prefix="/program")
    rows = [np.random.default_rng(i).standard_normal((3, WIDTH)).astype(np.float32) for i in range(40)]
    pending = [handle.predict.remote({"x": row}) for row in rows]
    wrong = handle.predict.remote({"x": rows[0][:, :5]})
    for row, response in zip(rows, pending, strict=True):
        np.testing.assert_allclose(response.result()["y"], made(row[None])["y"][0], rtol=1e-5, atol=1e-6)
    fails(wrong.result, "Input 'x' has size 5 on axis 2")
    sizes = handle.batch_sizes.remote().result()
    assert max(sizes) > 1, sizes
    body = ('{"x": ' + str(rows[0].tolist()) + "}").encode()
    request = urllib.request.Request("http://127.0.0.1:8000/program", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        assert b'"sum"' in answer.read()
    serve.shutdown()
    print(f"41 requests were served in {len(sizes)} batches, the largest of {max(sizes)}")


def decoder() -> OnnxProgram:
    """Layers with a cache of keys each: (caches, x [B, T, 64]) → the longer caches, y."""
    layers = weights(LAYERS, 64)

    def step(caches: list[jax.Array], x: jax.Array) -> tuple[list[jax.Array], jax.Array]:
        kept = []
        for i, (cache, layer) in enumerate(zip(caches, layers, strict=True)):
            with jax.named_scope(f"layers.{i}"):
                keys = jnp.concatenate([cache, x @ layer], 1)
                x = x + jax.nn.softmax(x @ keys.swapaxes(1, 2) / 8) @ keys
                kept.append(keys)
        return kept, x

    names = [*(f"cache{i}" for i in range(LAYERS)), "x"]
    inputs = [[("B", "S", 64)] * LAYERS, ("B", "T", 64)]
    return to_onnx(step, inputs, states={0: 0}, constraints=["S >= 0"], input_names=names)


def pipeline() -> None:
    made = decoder()
    whole = {stream: made.session(sizes={"B": 2}) for stream in ("a", "b")}
    (output,) = (
        name for name in made.output_names if name not in {pair.output for pair in made.split(at=["layers.2"]).states}
    )
    line = Pipeline(made.split(at=["layers.2"]), sizes={"B": 2}, cpus=0.5)
    for length in (5, 1, 1, 1):
        xs = {
            s: np.random.default_rng([length, i]).standard_normal((2, length, 64)).astype(np.float32)
            for i, s in enumerate(whole)
        }
        pending = {stream: line.submit({"x": x}, stream) for stream, x in xs.items()}  # both are under way
        for stream, reference in pending.items():
            np.testing.assert_allclose(ray.get(reference)[output], whole[stream].step(xs[stream]), rtol=1e-4, atol=1e-5)
    shapes = line.state_shapes("a")
    assert shapes == [{f"cache{i}": (2, 8, 64) for i in part} for part in ((0, 1), (2, 3))], shapes
    line.close()
    print("a decoder in two stages: the caches of each layer are where the layer is, two streams at once")


def start(cpus: int, attempts: int = 3) -> None:
    """Start a cluster on this machine. Ray gives up after 15 seconds where the machine is busy, so it is asked again."""
    for attempt in range(attempts):
        try:
            ray.init(num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level="error")
        except Exception:  # Ray raises the base class
            if attempt == attempts - 1:
                raise
            ray.shutdown()
        else:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000, help="how many rows the throughput is measured on")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of processes to measure")
    parser.add_argument(
        "--only", nargs="+", help="parts to run: results, throughput, errors, killed, evaluation, serving, pipeline"
    )
    options = parser.parse_args()
    start(max(4, *options.workers))
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    made = program()
    parts: dict[str, Callable[[], None]] = {
        "results": lambda: equal_results(made, 300),
        "throughput": lambda: throughput(made, options.rows, options.workers),
        "errors": lambda: named_errors(made),
        "killed": lambda: killed_worker(made),
        "evaluation": lambda: evaluation(made),
        "serving": lambda: serving(made),
        "pipeline": pipeline,
    }
    for name, part in parts.items():
        if name in (options.only or parts):
            part()
    ray.shutdown()


if __name__ == "__main__":
    main()
