"""Cases of `reductions`."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import ASSUME_FINITE, CLOSE

__all__ = ["cases"]

_X = [("B", 5, 7)]


def _centred(x: jax.Array) -> jax.Array:
    return x - jnp.mean(x, axis=-1, keepdims=True)


cases = [
    Case(
        "softmax",
        jax.nn.softmax,
        _X,
        covers=("jax.nn.softmax",),
        expect=expect_graph("Softmax", match="exact"),
        values="special",
    ),
    Case(
        "softmax_over_the_middle",
        functools.partial(jax.nn.softmax, axis=1),
        _X,
        expect=expect_graph("Softmax", match="exact"),
    ),
    Case(
        "softmax_over_the_first",
        functools.partial(jax.nn.softmax, axis=0),
        _X,
        expect=expect_graph(absent=["Softmax"]),
    ),
    Case("softmax_over_two_axes", functools.partial(jax.nn.softmax, axis=(1, 2)), _X),
    Case("softmax_masked", lambda x: jax.nn.softmax(x, where=x > 0), _X),
    Case(
        "log_softmax",
        jax.nn.log_softmax,
        _X,
        covers=("jax.nn.log_softmax",),
        expect=expect_graph("LogSoftmax", match="exact"),
        values="special",
    ),
    Case(
        "logsumexp",
        functools.partial(jax.nn.logsumexp, axis=-1),
        _X,
        covers=("jax.nn.logsumexp",),
        expect=expect_graph("Sub -> Exp -> ReduceSum -> Log -> Add -> Squeeze", counts={"ReduceMax": 1, "Where": 0}),
        values="special",
    ),
    Case("logsumexp_of_all", jax.nn.logsumexp, _X, values="special"),
    Case("logsumexp_of_nan_and_infinities", jax.nn.logsumexp, [np.array([np.inf, np.nan, 0, -np.inf])]),
    Case(
        "logsumexp_of_infinities",
        functools.partial(jax.nn.logsumexp, axis=1),
        [np.array([[np.inf, 0, 1], [-np.inf] * 3, [-np.inf, 0, 1], [np.inf, -np.inf, np.inf]])],
    ),
    Case("logsumexp_of_half", functools.partial(jax.nn.logsumexp, axis=1), [(("B", 5), "float16")]),
    Case("logsumexp_of_what_may_be_empty", lambda x: jax.nn.logsumexp(x[1:], axis=0), [("N", 3)]),
    Case("logsumexp_keeping_axes", functools.partial(jax.nn.logsumexp, axis=(0, 2), keepdims=True), _X),
    Case("logsumexp_weighted", lambda x: jax.nn.logsumexp(x, axis=1, b=x * x), _X),
    Case(
        "standardize",
        jax.nn.standardize,
        _X,
        covers=("jax.nn.standardize",),
        expect=expect_graph("LayerNormalization", match="exact"),
        rtol=CLOSE,
    ),
    Case("standardize_over_two_axes", functools.partial(jax.nn.standardize, axis=(1, 2)), _X, rtol=CLOSE),
    Case("standardize_over_the_middle", functools.partial(jax.nn.standardize, axis=1), _X),
    Case(
        "mean",
        functools.partial(jnp.mean, axis=1),
        [("B", "T", 7)],
        covers=("jax.numpy.mean",),
        expect=expect_graph("ReduceMean", match="exact"),
    ),
    Case(
        "mean_in_its_own_type",
        lambda x: jnp.mean(x, axis=1, dtype=x.dtype),
        _X,
        expect=expect_graph("ReduceMean", match="exact"),
    ),
    Case("mean_of_all", jnp.mean, _X, expect=expect_graph("ReduceMean", match="exact")),
    Case("mean_keeping_the_axis", _centred, _X, expect=expect_graph("ReduceMean -> Sub", match="exact")),
    Case(
        "mean_over_space",
        functools.partial(jnp.mean, axis=(1, 2)),
        [("B", "H", "W", 3)],
        expect=expect_graph("Transpose -> GlobalAveragePool -> Flatten", match="exact"),
    ),
    Case("mean_over_space_keeping_axes", functools.partial(jnp.mean, axis=(1, 2), keepdims=True), [("B", 4, 3, 5)]),
    Case("mean_of_rows_that_may_be_none", lambda x: jnp.mean(x[1:], axis=-1), [("N", 3)]),
    Case("mean_of_what_may_be_none", lambda x: jnp.mean(x[1:], axis=0), [("N", 3)]),
    Case("logsumexp_of_rows_that_may_be_none", lambda x: jax.nn.logsumexp(x[1:], axis=-1), [("N", 3)]),
    Case("mean_of_empty", functools.partial(jnp.mean, axis=1), [("B", 0)]),
    Case("mean_over_empty_space", functools.partial(jnp.mean, axis=(1, 2)), [("B", 0, 4, 3)]),
    Case("logsumexp_of_empty", functools.partial(jax.nn.logsumexp, axis=1, keepdims=True), [("B", 0)]),
    Case("standardize_empty", jax.nn.standardize, [("B", 0)]),
    Case(
        "logsumexp_of_finite",
        lambda x: jax.nn.logsumexp(x, axis=1),
        [("B", 5)],
        expect=expect_graph(absent=["Clip"]),
        options=ASSUME_FINITE,
    ),
    Case(
        "logsumexp_of_masked_finite",
        lambda x: jax.nn.logsumexp(jnp.where(x < x.max(), x, -jnp.inf), axis=1),
        [("B", 5)],
        options=ASSUME_FINITE,
    ),
    Case(
        "log_softmax_of_masked_finite",
        lambda x: jax.nn.log_softmax(jnp.where(x < x.max(), x, -jnp.inf)),
        [("B", 5)],
        options=ASSUME_FINITE,
    ),
]
