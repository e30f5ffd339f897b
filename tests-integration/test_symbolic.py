"""One dynamic model where others need several: caches that grow, images of any size, variants that share weights."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx

from examples.any_size_models import AnySizeResNet, AnySizeUNet
from examples.cached_models import ControlTransformer, DecoderLayer, causal_mask

WIDTH, HEADS = 16, 4
ARITHMETIC = {"Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Neg"}
SHAPE_OPERATORS = ARITHMETIC | {"Shape", "Squeeze", "Unsqueeze", "Concat", "Gather", "Cast"}


def dims(program: OnnxProgram) -> dict[str, list[str]]:
    return {value.name or "": [str(d) for d in value.shape or ()] for value in program.model.graph.outputs}


def shape_arithmetic(program: OnnxProgram) -> Counter[str]:
    """The operators from a `Shape` on that compute on shapes alone: each of their operands is such a result or constant."""
    found: set[Any] = set()
    operators: Counter[str] = Counter()
    for node in program.model.graph:
        operands = [v for v in node.inputs if v is not None and v.const_value is None]
        of_shapes = bool(operands) and node.op_type in SHAPE_OPERATORS and all(v in found for v in operands)
        if node.op_type == "Shape" or of_shapes:
            operators[node.op_type] += 1
            found.update(node.outputs)
    return operators


def closely(actual: Any, expected: Any) -> None:
    """Equal to 1e-5 of the largest element."""
    wanted = np.asarray(expected)
    np.testing.assert_allclose(
        np.asarray(actual), wanted, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(wanted).max(initial=0))
    )


# -- a decoder layer ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def layer() -> DecoderLayer:
    return DecoderLayer(WIDTH, HEADS, rngs=nnx.Rngs(0))


@pytest.fixture(scope="module")
def decoder(layer: DecoderLayer) -> OnnxProgram:
    past = ("B", HEADS, "S", WIDTH // HEADS)
    mask = (("T", "S + T"), bool)
    return to_onnx(layer, [("B", "T", WIDTH), past, past, mask], constraints=["S >= 0"], output_names=["y", "k", "v"])


def decoder_inputs(new: int, past: int, batch: int = 2) -> tuple[Any, ...]:
    noise = np.random.default_rng(new + past)
    x = noise.standard_normal((batch, new, WIDTH), np.float32)
    k, v = noise.standard_normal((2, batch, HEADS, past, WIDTH // HEADS), np.float32)
    return x, k, v, np.asarray(causal_mask(new, past + new))


@pytest.mark.parametrize(("new", "past"), [(7, 0), (1, 7), (3, 20), (1, 0), (5, 1)])
def test_one_decoder_for_every_length(layer: DecoderLayer, decoder: OnnxProgram, new: int, past: int) -> None:
    inputs = decoder_inputs(new, past)
    for actual, expected in zip(decoder(*inputs), layer(*inputs), strict=True):
        closely(actual, expected)


def test_incremental_decoding_equals_the_whole(decoder: OnnxProgram) -> None:
    x, k, v, mask = decoder_inputs(7, 0)
    whole, whole_k, whole_v = decoder(x, k, v, mask)
    steps = []
    for t in range(7):
        y, k, v = decoder(x[:, t : t + 1], k, v, np.ones((1, t + 1), bool))
        steps.append(y)
    closely(np.concatenate(steps, axis=1), whole)
    closely(k, whole_k)
    closely(v, whole_v)


def test_the_labels_of_the_decoder(decoder: OnnxProgram) -> None:
    labels = dims(decoder)
    assert labels["y"] == ["B", "T", "16"]
    assert labels["k"] == labels["v"] == ["B", "4", "S + T", "4"]
    assert decoder.check_symbols() == []


def test_little_shape_arithmetic(decoder: OnnxProgram) -> None:
    assert shape_arithmetic(decoder).total() < 6 * len(decoder.symbols)


def test_static_decoders_share_their_weights(layer: DecoderLayer, decoder: OnnxProgram, tmp_path: Path) -> None:
    sizes = {"full": {"B": 2, "T": 7, "S": 0}, "incremental": {"B": 2, "T": 1, "S": 7}}
    paths = decoder.save_variants(tmp_path, **sizes)
    weights = sum(p.nbytes for p in jax.tree_util.tree_leaves(nnx.state(layer, nnx.Param)))
    (data,) = tmp_path.glob("weights.*.data")
    assert data.stat().st_size < 2 * weights  # each begins on a page of its own
    for path, size in zip(paths, sizes.values(), strict=True):
        inputs = decoder_inputs(size["T"], size["S"])
        outputs = decoder.runtime.load(path)(dict(zip(decoder.input_names, inputs, strict=True)))
        for actual, expected in zip(outputs, layer(*inputs), strict=True):
            closely(actual, expected)
        model = onnx.load(path, load_external_data=False)
        assert all(d.HasField("dim_value") for value in model.graph.output for d in value.type.tensor_type.shape.dim)


def test_static_decoders_compute_no_shapes(decoder: OnnxProgram) -> None:
    program = decoder.specialize(B=2, T=1, S=7)
    assert not shape_arithmetic(program)
    assert dims(program)["k"] == ["2", "4", "8", "4"]
    kept = {value.name: value.metadata_props["jax2onnx.dims"] for value in program.model.graph.outputs}
    assert kept["k"] == "B, 4, S + T, 4"


# -- a control transformer ------------------------------------------------------------------


@pytest.fixture(scope="module")
def control() -> ControlTransformer:
    return ControlTransformer(rngs=nnx.Rngs(1))


@pytest.fixture(scope="module")
def controller(control: ControlTransformer) -> OnnxProgram:
    batch = {"camera": (1, "T", 8, 8, 3), "speed": (1, "T", 1), "waypoints": (1, "T", 4, 2)}
    inputs = [batch, (1, "S", 24), (2, 2, 1, "S", 24), (("9*T", "S + 9*T"), bool)]
    states = {"cached_projected_embeddings": "projected_embeddings", "cached_kv": "kv_cache"}
    return to_onnx(control, inputs, constraints=["S >= 0"], states=states)


def timesteps(count: int, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    noise = np.random.default_rng(seed)
    shapes = {"camera": (8, 8, 3), "speed": (1,), "waypoints": (4, 2)}
    return {name: noise.standard_normal((1, count, *shape), np.float32) for name, shape in shapes.items()}


def some(batch: dict[str, Any], start: int, end: int) -> dict[str, Any]:
    return {name: x[:, start:end] for name, x in batch.items()}


def caches(length: int, seed: int = 0) -> tuple[Any, Any]:
    noise = np.random.default_rng(seed)
    return noise.standard_normal((1, length, 24), np.float32), noise.standard_normal((2, 2, 1, length, 24), np.float32)


@pytest.mark.parametrize(("steps", "cached"), [(6, 0), (1, 45), (2, 9), (1, 0)])
def test_one_controller_for_every_length(
    control: ControlTransformer, controller: OnnxProgram, steps: int, cached: int
) -> None:
    arguments: tuple[Any, ...] = (
        timesteps(steps),
        *caches(cached),
        np.asarray(causal_mask(9 * steps, cached + 9 * steps)),
    )
    expected = control(*arguments)
    actual = controller(*arguments)
    assert actual["projected_embeddings"].shape == (1, cached + 9 * steps, 24)
    for name in expected:
        closely(actual[name], expected[name])


def test_the_labels_of_the_controller(controller: OnnxProgram) -> None:
    labels = dims(controller)
    assert labels["predictions"] == ["1", "1"]
    assert labels["projected_embeddings"] == ["1", "S + 9*T", "24"]
    assert labels["kv_cache"] == ["2", "2", "1", "S + 9*T", "24"]
    assert controller.input_names == [
        "batch.camera", "batch.speed", "batch.waypoints", "cached_projected_embeddings", "cached_kv", "mask",
    ]  # fmt: skip
    assert controller.check_symbols() == []


def test_incremental_predictions_equal_full_ones(controller: OnnxProgram) -> None:
    batch = timesteps(6)
    full = controller(batch, *caches(0), np.asarray(causal_mask(54, 54)))
    first = controller(some(batch, 0, 5), *caches(0), np.asarray(causal_mask(45, 45)))
    last = controller(
        some(batch, 5, 6), first["projected_embeddings"], first["kv_cache"], np.asarray(causal_mask(9, 54))
    )
    for name in full:
        closely(last[name], full[name])


def test_streaming_with_two_static_variants(
    control: ControlTransformer, controller: OnnxProgram, tmp_path: Path
) -> None:
    """A cold start by the full model, then one timestep at a time over a window that slides by a timestep."""
    paths = controller.save_variants(tmp_path, full={"T": 6, "S": 0}, incremental={"T": 1, "S": 45})
    full, incremental = (controller.runtime.load(path) for path in paths)
    stream = timesteps(9, seed=5)

    def run(session: Any, batch: Any, projected: Any, kv: Any, mask: Any) -> list[Any]:
        feeds = {f"batch.{name}": x for name, x in batch.items()}
        named = {"cached_projected_embeddings": projected, "cached_kv": kv, "mask": np.asarray(mask)}
        results: list[Any] = session({**feeds, **named})
        return [results[controller.output_names.index(n)] for n in ("predictions", "projected_embeddings", "kv_cache")]

    prediction, projected, kv = run(full, some(stream, 0, 6), *caches(0), causal_mask(54, 54))
    expected = control(some(stream, 0, 6), *caches(0), causal_mask(54, 54))
    closely(prediction, expected["predictions"])
    for step in range(6, 9):
        past = expected["projected_embeddings"][:, 9:], expected["kv_cache"][:, :, :, 9:]
        expected = control(some(stream, step, step + 1), *past, causal_mask(9, 54))
        prediction, projected, kv = run(
            incremental, some(stream, step, step + 1), projected[:, 9:], kv[:, :, :, 9:], causal_mask(9, 54)
        )
        closely(prediction, expected["predictions"])
        closely(kv, expected["kv_cache"])


def test_streaming_with_sessions(control: ControlTransformer, controller: OnnxProgram) -> None:
    """The one dynamic model, and the static variant for one timestep that takes over its states."""
    stream, masks = timesteps(10, seed=6), [causal_mask(54, 54), causal_mask(9, 54)]
    dynamic = controller.session(window={"S": 45}, threads=1)
    static = controller.specialize(T=1, S=45).session(window={"S": 45}, threads=1)
    expected = control(some(stream, 0, 6), *caches(0), masks[0])
    closely(dynamic.step(some(stream, 0, 6), masks[0])["predictions"], expected["predictions"])
    static.state.update(dynamic.state)
    for step in range(6, 10):
        past = expected["projected_embeddings"][:, 9:], expected["kv_cache"][:, :, :, 9:]
        expected = control(some(stream, step, step + 1), *past, masks[1])
        for session in (dynamic, static):
            result = session.step(some(stream, step, step + 1), masks[1])
            assert result.keys() == {"predictions"}
            closely(result["predictions"], expected["predictions"])
            closely(session.state["cached_kv"], expected["kv_cache"][:, :, :, 9:])


def test_the_shapes_of_the_controller(controller: OnnxProgram) -> None:
    profile = controller.shape_profile(T=(1, 1, 6), S=(0, 45, 54))
    assert profile.shapes["batch.camera"] == ((1, 1, 8, 8, 3), (1, 1, 8, 8, 3), (1, 6, 8, 8, 3))
    assert profile.shapes["cached_kv"] == ((2, 2, 1, 0, 24), (2, 2, 1, 45, 24), (2, 2, 1, 54, 24))
    assert profile.shapes["mask"] == ((9, 9), (9, 54), (54, 108))
    assert "cached_kv:2x2x1x45x24" in profile.trtexec()


# -- images ---------------------------------------------------------------------------------


def test_a_resnet_at_every_size() -> None:
    model = AnySizeResNet(rngs=nnx.Rngs(0))
    model.eval()
    program = to_onnx(model, [("B", "H", "W", 3)])
    assert dims(program) == {"output": ["B", "10"]}
    assert program.check_symbols() == []
    for b, h, w in [(1, 32, 32), (3, 37, 65), (2, 1, 1), (2, 50, 33)]:
        x = np.random.default_rng(b).standard_normal((b, h, w, 3), np.float32)
        closely(program(x), model(jnp.asarray(x)))


def test_a_unet_at_every_size() -> None:
    model = AnySizeUNet(rngs=nnx.Rngs(0))
    program = to_onnx(model, [("B", "H", "W", 3)])
    assert dims(program) == {"output": ["B", "H", "W", "2"]}
    assert program.check_symbols() == []
    for b, h, w in [(1, 32, 32), (3, 37, 21), (2, 5, 8), (2, 1, 3)]:
        x = np.random.default_rng(b).standard_normal((b, h, w, 3), np.float32)
        closely(program(x), model(jnp.asarray(x)))
