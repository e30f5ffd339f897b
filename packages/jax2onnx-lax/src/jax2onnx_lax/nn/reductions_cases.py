"""Cases of `reductions`."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import ASSUME_FINITE, CLOSE, at_most

__all__ = ["cases"]

_X = [("B", 5, 7)]


def _centred(x: jax.Array) -> jax.Array:
    return x - jnp.mean(x, axis=-1, keepdims=True)


cases = [
    Case("softmax_gradient", jax.value_and_grad(lambda x: (jax.nn.softmax(x) * jnp.arange(7)).sum()), _X,
         expect=at_most(14, Softmax=1, Exp=0)),
    Case(
        "softmax",
        jax.nn.softmax,
        _X,
        covers=("jax.nn.softmax",),
        expect="Softmax",
        values="special",
    ),
    Case(
        "softmax_over_the_middle",
        functools.partial(jax.nn.softmax, axis=1),
        _X,
        expect="Softmax",
    ),
    Case(
        "softmax_over_the_first",
        functools.partial(jax.nn.softmax, axis=0),
        _X,
        expect=expect_graph(absent=["Softmax"]),
        declines="over the first axis the primitives are faster",
    ),
    Case("softmax_over_two_axes", functools.partial(jax.nn.softmax, axis=(1, 2)), _X,
         expect=at_most(20, ReduceMax=1, ReduceSum=2)),
    Case("softmax_masked", lambda x: jax.nn.softmax(x, where=x > 0), _X,
         expect="Greater -> Where -> Softmax -> Where"),
    Case(
        "log_softmax",
        jax.nn.log_softmax,
        _X,
        covers=("jax.nn.log_softmax",),
        expect="LogSoftmax",
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
    Case("logsumexp_of_all", jax.nn.logsumexp, _X, values="special",
         expect="ReduceMax -> Clip -> Sub -> Exp -> ReduceSum -> Log -> Add -> Squeeze"),
    Case("logsumexp_of_nan_and_infinities", jax.nn.logsumexp, [np.array([np.inf, np.nan, 0, -np.inf])],
         expect="ReduceMax -> Clip -> Sub -> Exp -> ReduceSum -> Log -> Add -> Squeeze"),
    Case(
        "logsumexp_of_infinities",
        functools.partial(jax.nn.logsumexp, axis=1),
        [np.array([[np.inf, 0, 1], [-np.inf] * 3, [-np.inf, 0, 1], [np.inf, -np.inf, np.inf]])],
        expect="ReduceMax -> Clip -> Sub -> Exp -> ReduceSum -> Log -> Add -> Squeeze",
    ),
    Case("logsumexp_of_half", functools.partial(jax.nn.logsumexp, axis=1), [(("B", 5), "float16")],
         expect=at_most(21, ReduceMax=1, ReduceSum=2), declines="ReduceLogSumExp can lose a NaN"),
    Case("logsumexp_of_what_may_be_empty", lambda x: jax.nn.logsumexp(x[1:], axis=0), [("N", 3)],
         expect="Slice -> ReduceMax -> Clip -> Sub -> Exp -> ReduceSum -> Log -> Add -> Squeeze"),
    Case("logsumexp_keeping_axes", functools.partial(jax.nn.logsumexp, axis=(0, 2), keepdims=True), _X,
         expect="ReduceMax -> Clip -> Sub -> Exp -> ReduceSum -> Log -> Add"),
    Case("logsumexp_weighted", lambda x: jax.nn.logsumexp(x, axis=1, b=x * x), _X,
         expect=at_most(30, ReduceMax=1, ReduceSum=2)),
    Case(
        "standardize",
        jax.nn.standardize,
        _X,
        covers=("jax.nn.standardize",),
        expect="LayerNormalization",
        rtol=CLOSE,
    ),
    Case("standardize_over_two_axes", functools.partial(jax.nn.standardize, axis=(1, 2)), _X, rtol=CLOSE,
         expect="LayerNormalization"),
    Case("standardize_over_the_middle", functools.partial(jax.nn.standardize, axis=1), _X,
         expect=at_most(20, ReduceMean=2)),
    Case(
        "mean",
        functools.partial(jnp.mean, axis=1),
        [("B", "T", 7)],
        covers=("jax.numpy.mean",),
        expect="ReduceMean",
    ),
    Case(
        "mean_in_its_own_type",
        lambda x: jnp.mean(x, axis=1, dtype=x.dtype),
        _X,
        expect="ReduceMean",
    ),
    Case("mean_of_all", jnp.mean, _X, expect="ReduceMean", declines="not the spatial axes of float32 images with the channels last"),
    Case("mean_keeping_the_axis", _centred, _X, expect="ReduceMean -> Sub"),
    Case(
        "mean_over_space",
        functools.partial(jnp.mean, axis=(1, 2)),
        [("B", "H", "W", 3)],
        expect="Transpose -> GlobalAveragePool -> Flatten",
    ),
    Case("mean_over_space_keeping_axes", functools.partial(jnp.mean, axis=(1, 2), keepdims=True), [("B", 4, 3, 5)],
         expect="Transpose -> GlobalAveragePool -> Reshape"),
    Case("mean_of_rows_that_may_be_none", lambda x: jnp.mean(x[1:], axis=-1), [("N", 3)],
         expect="Slice -> ReduceSum -> Div"),
    Case("mean_of_what_may_be_none", lambda x: jnp.mean(x[1:], axis=0), [("N", 3)],
         expect=["Shape -> Sub -> Squeeze -> Cast -> Cast -> Div", "Slice -> ReduceSum -> Div"]),
    Case("logsumexp_of_rows_that_may_be_none", lambda x: jax.nn.logsumexp(x[1:], axis=-1), [("N", 3)],
         expect="Slice -> ReduceMax -> Clip -> Sub -> Exp -> ReduceSum -> Log -> Add -> Squeeze"),
    Case("mean_of_empty", functools.partial(jnp.mean, axis=1), [("B", 0)], expect="ReduceSum -> Div", declines="the array may be empty"),
    Case("mean_over_empty_space", functools.partial(jnp.mean, axis=(1, 2)), [("B", 0, 4, 3)], expect="ReduceSum -> Div"),
    Case("logsumexp_of_empty", functools.partial(jax.nn.logsumexp, axis=1, keepdims=True), [("B", 0)],
         expect="ReduceMax -> Clip -> Sub -> Exp -> ReduceSum -> Log -> Add"),
    Case("standardize_empty", jax.nn.standardize, [("B", 0)], expect="Shape -> Concat -> Expand"),
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
        expect="ReduceMax -> Less -> Where -> ReduceMax -> Sub -> Exp -> ReduceSum -> Log -> Add -> Squeeze",
    ),
    Case(
        "log_softmax_of_masked_finite",
        lambda x: jax.nn.log_softmax(jnp.where(x < x.max(), x, -jnp.inf)),
        [("B", 5)],
        options=ASSUME_FINITE,
        expect="ReduceMax -> Less -> Where -> LogSoftmax",
    ),
]  # fmt: skip
