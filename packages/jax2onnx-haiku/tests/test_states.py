"""States of transformed functions as states of the model."""

from __future__ import annotations

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx

WIDTH = 8


class Decoder(hk.Module):
    """Attention over a cache, one token at a time."""

    def __call__(self, x: jax.Array) -> jax.Array:
        projected = [hk.Linear(WIDTH, name=name)(x) for name in ("query", "key", "value")]
        place = hk.get_state("place", (), jnp.int32, init=jnp.zeros)
        caches = []
        for name, new in zip(("keys", "values"), projected[1:], strict=True):
            cache = hk.get_state(name, (1, 4, WIDTH), init=jnp.zeros)
            caches.append(jax.lax.dynamic_update_slice(cache, new, (0, place, 0)))
            hk.set_state(name, caches[-1])
        hk.set_state("place", place + 1)
        seen = jnp.arange(caches[0].shape[1]) <= place
        query, keys, values = (y[:, :, None] for y in (projected[0], *caches))
        return jax.nn.dot_product_attention(query, keys, values, mask=seen[None, None, None])[:, :, 0]


DECODER: Any = hk.without_apply_rng(hk.transform_with_state(lambda x: Decoder()(x)))
PARAMS, USED = DECODER.init(jax.random.key(0), jnp.zeros((1, 1, WIDTH)))
STATE = jax.tree.map(jnp.zeros_like, USED)
BOUND: Any = (DECODER, PARAMS, STATE)
SHAPES = {"keys": ("B", "C", ...), "values": ("B", "C", ...)}


@pytest.mark.parametrize(("batch", "capacity"), [(1, 4), (2, 3), (3, 9)])
def test_one_decoder_runs_for_every_batch_and_capacity(batch, capacity):
    program = to_onnx(BOUND, [("B", 1, WIDTH)], states=True, state_shapes=SHAPES)
    session = program.session(sizes={"B": batch, "C": capacity}, threads=1)
    state = {"decoder": {**STATE["decoder"], **dict.fromkeys(("keys", "values"), jnp.zeros((batch, capacity, WIDTH)))}}
    for x in np.random.default_rng(0).standard_normal((3, batch, 1, WIDTH)).astype(np.float32):
        expected, state = DECODER.apply(PARAMS, state, x)
        np.testing.assert_allclose(session.step(x), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(session.state["state.decoder.keys"], state["decoder"]["keys"], rtol=1e-4, atol=1e-5)


def test_a_function_chooses_what_is_a_state():
    with pytest.warns(errors.ExportWarning, match="decoder"):
        program = to_onnx(BOUND, [(1, 1, WIDTH)], states=lambda module, name, value: name != "place")
    assert program.input_names == ["x", "state.decoder.keys", "state.decoder.values"]


def test_statistics_are_a_state():
    norm: Any = hk.transform_with_state(lambda x: hk.BatchNorm(True, True, 0.9)(x, is_training=True))
    x = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    params, state = norm.init(None, x)
    session = to_onnx((norm, params, state), [("B", 3)], states=True).session()
    for _ in range(2):
        expected, state = norm.apply(params, state, None, x)
        np.testing.assert_allclose(session.step(x), expected, rtol=1e-4, atol=1e-5)
    mean = state["batch_norm/~/mean_ema"]["average"]
    np.testing.assert_allclose(session.state["state.batch_norm/~/mean_ema.average"], mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "states", ["cache", 3, [True], int, lambda *_: False], ids=["name", "number", "list", "class", "predicate"]
)
def test_what_chooses_nothing(states):
    with pytest.raises(errors.OptionError, match="means no state of a model here"):
        to_onnx(BOUND, [(1, 1, WIDTH)], states=states)


def test_a_function_without_a_state_has_none():
    plain = hk.transform(lambda x: hk.Linear(3)(x))
    bound: Any = (plain, plain.init(jax.random.key(0), jnp.zeros((1, 4))))
    with pytest.raises(errors.OptionError, match="means no state of a model here"):
        to_onnx(bound, [(1, 4)], states=True)


class Named(hk.Module):
    """A parameter and a state of one name."""

    def __call__(self, x: jax.Array) -> jax.Array:
        weight = hk.get_parameter("w", [3], init=hk.initializers.Constant(2.0))
        state = hk.get_state("w", [3], init=hk.initializers.Constant(5.0))
        hk.set_state("w", state + 1)
        return x * weight + 10 * state


def test_a_parameter_and_a_state_of_one_name_are_apart():
    fn: Any = hk.without_apply_rng(hk.transform_with_state(lambda x: Named(name="layer")(x)))
    x = jnp.ones((1, 3))
    params, state = fn.init(jax.random.key(0), x)
    session = to_onnx((fn, params, state), [(1, 3)], states=True).session()
    for expected in (52, 62):
        assert session.step(x).tolist() == [[expected] * 3]
    types = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (params, state))
    with pytest.warns(UserWarning, match=r"layer changes layer\.w_1"):
        program = to_onnx((fn, *types), [(1, 3)])
    given = {"layer.w": jnp.full(3, 2.0), "layer.w_1": jnp.full(3, 5.0)}
    assert program.with_weights(given)(x).tolist() == [[52] * 3]
