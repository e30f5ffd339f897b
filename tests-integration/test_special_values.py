"""Special values: what is exact for NaN and infinities, and the differences that the page of the user guide names."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import special_values
from flax import nnx
from jax import lax
from jax2onnx_core import to_onnx

NAN, INF = np.nan, np.inf


def test_the_page_has_all_differences() -> None:
    page = special_values.PAGE.read_text(encoding="utf-8")
    assert "\n".join(special_values.rows()) in page, "python tools/special_values.py brings it up to date"


# -- what is exact ----------------------------------------------------------------------------------


def numbers(values):
    """An array of float32."""
    return np.array(values, np.float32)


def mixed(seed):
    """An array [8, 5] of numbers with NaN and infinities in some of its rows."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((8, 5)).astype(np.float32)
    for row, values in ((1, [NAN]), (3, [INF]), (4, [-INF]), (5, [NAN, INF]), (6, [INF, -INF])):
        x[row, random.permutation(5)[: len(values)]] = values
    return x


EXACT = {
    "max": lambda x, y: jnp.maximum(x, y), "min": lambda x, y: jnp.minimum(x, y), "reduce_max": lambda x, y: x.max(1),
    "reduce_min": lambda x, y: x.min(0), "argmax": lambda x, y: x.argmax(1), "argmin": lambda x, y: x.argmin(1),
    "sort": lambda x, y: jnp.sort(x), "argsort": lambda x, y: jnp.argsort(x), "median": lambda x, y: jnp.median(x, 1),
    "cummax": lambda x, y: lax.cummax(x, axis=1), "cumsum": lambda x, y: jnp.cumsum(x, 1), "relu": lambda x, y: jax.nn.relu(x),
    "clip": lambda x, y: jnp.clip(x, -1.0, 1.0), "sign": lambda x, y: jnp.sign(x), "rem": lambda x, y: lax.rem(x, y),
    "mod": lambda x, y: jnp.mod(x, y), "atan2": lambda x, y: jnp.arctan2(x, y), "to_int": lambda x, y: x.astype(np.int32),
    "to_bool": lambda x, y: x.astype(bool), "isnan": lambda x, y: jnp.isnan(x), "isfinite": lambda x, y: jnp.isfinite(x),
    "compare": lambda x, y: x > y, "where": lambda x, y: jnp.where(x > 0, x, y), "nan_to_num": lambda x, y: jnp.nan_to_num(x),
    "exp": lambda x, y: jnp.exp(x), "log": lambda x, y: jnp.log(x), "tanh": lambda x, y: jnp.tanh(x), "erf": lambda x, y: lax.erf(x),
    "logistic": lambda x, y: jax.nn.sigmoid(x), "gelu": lambda x, y: jax.nn.gelu(x), "elu": lambda x, y: jax.nn.elu(x),
    "softmax": lambda x, y: jax.nn.softmax(x), "log_softmax": lambda x, y: jax.nn.log_softmax(x),
    "logsumexp": lambda x, y: jax.nn.logsumexp(x, 1), "standardize": lambda x, y: jax.nn.standardize(x),
    "dot": lambda x, y: x @ y.T, "nanmax": lambda x, y: jnp.nanmax(x, 1), "nanmean": lambda x, y: jnp.nanmean(x, 1),
    "scatter_max": lambda x, y: x.at[jnp.array([1, 1, 2])].max(y[:3]), "take": lambda x, y: jnp.take(x, jnp.array([3, 99]), axis=0),
    "max_pool": lambda x, y: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 1), "VALID"),
    "lstm": lambda x, y: nnx.RNN(nnx.OptimizedLSTMCell(5, 4, rngs=nnx.Rngs(0)))(jnp.where(jnp.isinf(x), 0, x)[:, None]),
    "attention": lambda x, y: jax.nn.dot_product_attention(*[x.reshape(8, 1, 1, 5)] * 3),
    "fft_is_finite": lambda x, y: jnp.isfinite(jnp.fft.fft(x)), "rfft_is_finite": lambda x, y: jnp.isfinite(jnp.fft.rfft(x)),
}  # fmt: skip


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", EXACT)
def test_nan_and_infinities_are_as_in_jax(name):
    x, y = mixed(0), mixed(1)[::-1].copy()
    want = np.asarray(jax.jit(EXACT[name])(x, y))
    np.testing.assert_allclose(to_onnx(EXACT[name], [x, y])(x, y), want, rtol=1e-4, atol=1e-5)


# -- what differs, in the default target ----------------------------------------------------------------


def attention(score, hidden):
    """Attention with this number in place of the scores that are hidden."""

    def computed(query, key, value, seen):
        scores = jnp.where(seen, jnp.einsum("btnh,bsnh->bnts", query, key), hidden)
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores), value)[0, score, 0, 0]

    return computed


def by_the_mean_of_squares(x):
    """A layer norm whose variance is the mean of squares less the square of the mean."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.maximum(0.0, (x * x).mean(-1, keepdims=True) - mean * mean)
    return (x - mean) * lax.rsqrt(variance + 1e-6)


def last_state(decays, inputs):
    """The last state of a linear recurrence, written as an associative scan."""
    return lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (decays, inputs))[1][-1]


ROW = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 4, 2, 8)
SEEN = np.array([True, True, True, False])[None, None, None].repeat(4, 2)
NONE_SEEN = SEEN & (np.arange(4) != 1)[:, None]
HIDDEN_NAN = np.where(np.arange(4)[:, None, None] == 3, np.float32(NAN), ROW)
LOWEST = np.where(NONE_SEEN, np.float32(0), np.finfo(np.float32).min)

#: The subject of a limitation → a function, its arguments, what JAX computes and what the model does.
DIFFERENCES = {
    "top_k": (lambda x: lax.top_k(x, 1)[1], [np.copysign([NAN, 1], [-1, 1]).astype(np.float32)], [1], [0]),
    "bitcast_convert_type": (
        lambda x: lax.bitcast_convert_type(x, np.uint32), [np.copysign(numbers([NAN]), -1)], [0xFFC00000], [0x7FC00000],
    ),
    "signs of zeros": (lambda x: 1 / jax.nn.relu(x), [numbers([-0.0])], [INF], [-INF]),
    "subnormal numbers": (lambda x: x > 0, [numbers([1e-40])], [False], [True]),
    "half precision": (lambda x: x * x / x, [np.array([300], np.float16)], [INF], [300]),
    "layer norms by the mean of squares": (
        by_the_mean_of_squares, [numbers([[3e19, 2.9e19, 3e19, 3.1e19]])], [[NAN] * 4], None,
    ),
    "associative_scan": (
        last_state, [np.full((256, 1024), 0.5, np.float32), numbers([[INF]] + [[1]] * 255).repeat(1024, 1)], NAN, INF,
    ),
    "jax.image.resize": (
        lambda x: jax.image.resize(x, (1, 8, 8, 1), "linear")[0, 0, 0, 0], [numbers([[1] * 4] * 3 + [[INF] * 4])[None, ..., None]], NAN, 1,
    ),
    "max pooling layers": (
        lambda x: nnx.max_pool(x, (2,), (2,))[0, 0], [numbers([NAN, 1]).reshape(1, 2, 1)], [NAN], [1],
    ),
    "cholesky": (lambda x: jnp.linalg.cholesky(x)[0, 0], [numbers([[4, 0], [0, NAN]])], 2, NAN),
    "attention": (attention(0, -1e9), [ROW, HIDDEN_NAN, ROW, SEEN], None, NAN),
    "fft": (lambda x: jnp.fft.irfft(lax.complex(jnp.zeros(3), x), 4)[0], [numbers([0, INF, 0])], 0, NAN),
    "Masks that are inputs": (
        lambda x, bias: jax.nn.dot_product_attention(x, x, x, bias=bias)[0, 1, 0, 0], [ROW, LOWEST], ROW[0, :, 0, 0].mean(), 0,
    ),
    "Where": (lambda chosen, x: 1 / jnp.where(chosen, x, 1), [np.array([True]), numbers([-0.0])], [-INF], [INF]),
    "Sigmoid": (lambda x: jax.nn.sigmoid(x) * 1e9, [numbers([-20])], [2.0611537], [0]),
}  # fmt: skip

#: JAX, or the processor, leaves open what it computes.
OPEN = {"approx_top_k", "sums of products"}


@pytest.mark.parametrize("subject", DIFFERENCES)
def test_a_difference_is_as_it_is_said_to_be(subject):
    function, arguments, of_jax, of_model = DIFFERENCES[subject]
    want, got = np.asarray(jax.jit(function)(*arguments)), to_onnx(function, arguments)(*arguments)
    assert not np.allclose(got, want, equal_nan=True)
    if of_jax is not None:
        np.testing.assert_allclose(want, np.asarray(of_jax), rtol=1e-5)
    if of_model is not None:
        np.testing.assert_allclose(got, np.asarray(of_model), atol=1e-6)


def test_every_difference_of_the_default_target_is_shown():
    found = {
        one.subject
        for one, targets in special_values.differences().items()
        if not targets or "`onnxruntime`" in targets
    }
    assert found == DIFFERENCES.keys() | OPEN
