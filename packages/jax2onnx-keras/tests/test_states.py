"""Caches of Keras' decoders: one array for all layers, `[batch, layer, 2, place, head, feature]`, as keras-hub has them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx
from jax2onnx_runtime.bundles.bundle import Bundle, load_bundle
from jax2onnx_runtime.unstacking import unstacked
from keras import ops

LAYERS, HEADS, FEATURES, WIDTH = 2, 2, 8, 16
RNG = np.random.default_rng(0)


class CachedAttention(keras.layers.Layer):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        shape = (None, HEADS, FEATURES)
        self.query, self.key, self.value = (keras.layers.EinsumDense("btd,dkh->btkh", shape) for _ in range(3))
        self.out = keras.layers.EinsumDense("btkh,khd->btd", (None, WIDTH))

    def call(self, x: Any, cache: Any = None, place: Any = None) -> tuple[Any, Any]:
        start = [0, place, 0, 0]
        keys = ops.slice_update(cache[:, 0, ...], start, self.key(x))
        values = ops.slice_update(cache[:, 1, ...], start, self.value(x))
        seen = ops.arange(ops.shape(keys)[1])[None] <= place + ops.arange(ops.shape(x)[1])[:, None]
        scores = ops.where(seen[None, None], ops.einsum("btkh,bskh->bkts", self.query(x), keys), -1e9)
        attended = ops.einsum("bkts,bskh->btkh", ops.softmax(scores), values)
        return x + self.out(attended), ops.stack((keys, values), axis=1)


class Decoder(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = [CachedAttention() for _ in range(LAYERS)]

    def call(self, x: Any, cache: Any = None, place: Any = None) -> tuple[Any, Any]:
        caches = []
        for number, block in enumerate(self.blocks):
            x, new = block(x, cache=cache[:, number, ...], place=place)
            caches.append(new)
        return x, ops.stack(caches, axis=1)


def empty(batch: int, capacity: int) -> Any:
    return np.zeros((batch, LAYERS, 2, capacity, HEADS, FEATURES), np.float32)


@pytest.fixture(scope="module")
def step() -> Any:
    model = Decoder()
    model(np.zeros((1, 1, WIDTH), np.float32), cache=empty(1, 4), place=0)
    return lambda x, cache, place: model(x, cache=cache, place=place)


@pytest.fixture(scope="module")
def programs(step: Any) -> Any:
    cache, place = ("B", LAYERS, 2, "S", HEADS, FEATURES), ((), "int32")
    return {
        "prefill": to_onnx(step, [("B", "T", WIDTH), cache, place], states={1: 1}, constraints=["S >= T", "S >= 2"]),
        "decode": to_onnx(step, [("B", 1, WIDTH), cache, place], states={1: 1}, constraints=["S >= 2"]),
    }


@pytest.mark.parametrize("name", ["prefill", "decode"])
def test_a_step_copies_no_stacked_cache(programs: Any, name: str) -> None:
    found = unstacked(programs[name].model)
    assert [value.name for value in found.model.graph.inputs if value.name.startswith("cache")] == [
        f"cache.{layer}.{which}" for layer in range(LAYERS) for which in range(2)
    ]
    new = [value.producer().op_type for value in found.model.graph.outputs[1:]]
    assert set(new) <= {"ScatterElements", "TensorScatter"}


@pytest.mark.parametrize(("batch", "capacity"), [(1, 4), (3, 9)])
def test_a_session_has_the_cache_as_one_array(step: Any, programs: Any, batch: int, capacity: int) -> None:
    session, cache = programs["decode"].session(sizes={"B": batch, "S": capacity}, threads=1), empty(batch, capacity)
    for place in range(4):
        x = RNG.standard_normal((batch, 1, WIDTH)).astype(np.float32)
        expected, cache = step(x, cache, place)
        np.testing.assert_allclose(session.step(x, np.int32(place)), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(session.state["cache"], cache, rtol=1e-4, atol=1e-5)


def test_a_stacked_cache_is_written_resized_and_reset(step: Any, programs: Any) -> None:
    session = programs["decode"].session(sizes={"B": 2, "S": 3}, threads=1)
    cache = RNG.standard_normal(empty(2, 3).shape).astype(np.float32)
    session.state["cache"] = cache
    session.resize(S=5)
    x = RNG.standard_normal((2, 1, WIDTH)).astype(np.float32)
    grown = np.concatenate([cache, empty(2, 2)], axis=3)
    expected, new = step(x, grown, 3)
    np.testing.assert_allclose(session.step(x, np.int32(3)), expected, rtol=1e-4, atol=1e-5)
    session.reset(B=[0])
    state = session.state["cache"]
    assert not state[0].any()
    np.testing.assert_allclose(state[1], new[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share_weights", [False, True])
def test_a_prefill_and_its_steps_have_the_cache_in_common(
    step: Any, programs: Any, share_weights: bool, tmp_path: Any
) -> None:
    bundle = load_bundle(Bundle(programs, same_weights=True).save(tmp_path / "decoder"))
    session = bundle.session(sizes={"B": 2, "S": 6}, threads=1, share_weights=share_weights)
    x = RNG.standard_normal((2, 4, WIDTH)).astype(np.float32)
    expected, cache = step(x, empty(2, 6), 0)
    np.testing.assert_allclose(session.step("prefill", x, np.int32(0)), expected, rtol=1e-4, atol=1e-5)
    expected, cache = step(x[:, :1], cache, 4)
    np.testing.assert_allclose(session.step("decode", x[:, :1], np.int32(4)), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(session.state["cache"], cache, rtol=1e-4, atol=1e-5)


# -- variables of a layer -----------------------------------------------------------------------


@pytest.mark.parametrize("cell", [keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN])
def test_a_stateful_layer_goes_on_from_its_state(cell: Any) -> None:
    layer = cell(5, stateful=True)
    model = keras.Sequential([keras.layers.Input(batch_shape=(2, 3, 4)), layer, keras.layers.Dense(2)])
    session = to_onnx(model, [(2, 3, 4)], states=True).session(threads=1)
    for x in RNG.standard_normal((3, 2, 3, 4)).astype(np.float32):
        np.testing.assert_allclose(session.step(x), model(x), rtol=1e-4, atol=1e-5)
    session.reset()
    layer.reset_states()
    np.testing.assert_allclose(session.step(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_function_chooses_what_is_a_state() -> None:
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.BatchNormalization()])
    step = lambda x: model(x, training=True)  # noqa: E731
    program = to_onnx(step, [(3, 4)], states=lambda variable: "moving" in variable.path)
    assert [name.rpartition("/")[2] for name in program.input_names] == ["x", "moving_mean", "moving_variance"]
    session, x = program.session(), RNG.standard_normal((3, 4)).astype(np.float32)
    for _ in range(2):
        np.testing.assert_allclose(session.step(x), step(x), rtol=1e-3, atol=1e-4)
    means = next(session.state[name] for name in session.state if name.endswith("moving_mean"))
    np.testing.assert_allclose(means, model.layers[0].moving_mean, rtol=1e-4, atol=1e-5)


def test_an_export_with_states_leaves_the_variables() -> None:
    model = keras.Sequential([keras.layers.Input(batch_shape=(1, 2, 3)), keras.layers.GRU(4, stateful=True)])
    before = [np.array(variable.value) for variable in (*model.variables, *model.layers[0].states)]
    to_onnx(model, [(1, 2, 3)], states=True).verify()
    for variable, value in zip([*model.variables, *model.layers[0].states], before, strict=True):
        np.testing.assert_array_equal(np.array(variable.value), value)


def test_layers_without_such_variables_have_no_states() -> None:
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
    with pytest.raises(errors.OptionError, match="means no state of a model here"):
        to_onnx(model, [(3, 4)], states=True)
