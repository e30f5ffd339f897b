"""Rules of layers and activations decline for the reasons that they name."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reasons import Declining, composite, reasons_of

_ONNX = {"target": "onnx"}
_FEW = "Softplus itself is fast enough"


def _pooled(rank: int = 2, padding: object = "VALID") -> Callable[..., jax.Array]:
    original = lambda x: jnp.zeros((1, 1, 5, 2)) if rank == 2 and not x.size else x  # noqa: E731
    return composite("nn.max_pool", original, window=(2,) * rank, strides=(1,) * rank, padding=padding)


def _whitened(x: jax.Array) -> jax.Array:
    mean, variance = np.zeros(3, np.float32), np.array([1, 0, 2], np.float32)
    return composite("nn.batch_norm", lambda x: x, mean, variance, None, None, axis=-1, epsilon=0.0)(x)


CASES = [
    Declining("Softplus is as fast", jax.nn.softplus, [(1024,)], _ONNX),
    Declining(_FEW, jax.nn.softplus, [(1023,)]),
    Declining(_FEW, jax.nn.softplus, [((1024,), "float64")], {"x64": True}),
    Declining(_FEW, jax.nn.softplus, [("N", 127)]),
    Declining("layers wrap wide indices to int32 in one way or another", composite("nn.embedding", lambda t, i: t[i], mode="clip"), [(11, 6), ((3,), "uint32")]),
    Declining("only a table of floats has rows of NaN", composite("nn.embedding", lambda t, i: t[i], mode="fill"), [((11, 6), "int32"), ((3,), "int32")]),
    Declining("counted from the end, a negative index leaves its dtype", composite("nn.embedding", lambda t, i: jnp.take(t, i, 0), mode="fill"), [(129, 6), ((3,), "int8")]),
    Declining("Elu is not accurate where the alpha is inf", lambda x: jax.nn.elu(x, jnp.inf), [(5,)]),
    Declining("Elu is not accurate where the alpha is nan", lambda x: jax.nn.elu(x, jnp.nan), [(5,)]),
    Declining("Celu is not accurate where the alpha is -17", lambda x: jax.nn.celu(x, -17.0), [(5,)]),
    Declining("three axes grow", lambda x: jax.image.resize(x, (1, 8, 8, 4), "nearest"), [(1, 4, 4, 2)]),
    Declining("a variance that is not positive", _whitened, [("B", 3)]),
    Declining("not images of floats with one to three spatial axes", _pooled(), [((1, 5, 5, 2), "int32")]),
    Declining("not images of floats with one to three spatial axes", _pooled(4), [(1, 5, 5, 5, 5, 2)]),
    Declining("not images of floats with one to three spatial axes", _pooled(), [(5, 5)]),
    Declining("nothing to pool", _pooled(padding=((1, 1), (0, 1))), [(1, 0, 5, 2)]),
    Declining("the number of heads is an attribute of Attention, which is no number here", jax.nn.dot_product_attention, [(2, 5, "H", 4)] * 3),
    Declining("epsilon is no constant", lambda x, e: jax.nn.standardize(x, epsilon=e), [(5, 4), ()]),
    Declining("LogSoftmax of float64 does not turn an infinite logit into NaN", jax.nn.log_softmax, [((3, 4), "float64")], {"x64": True}),
    Declining("onnxruntime has no exact Gelu for float64", jax.nn.gelu, [((3, 4), "float64")], {"x64": True}),
    Declining("ReduceLogSumExp is as fast", jax.nn.logsumexp, [(5, 4)], _ONNX),
    Declining("ReduceMean is as fast", lambda x: jnp.mean(x, (1, 2)), [("B", 4, 5, 3)], _ONNX),
    Declining("not the spatial axes of float32 images with the channels last", lambda x: jnp.mean(x, (1, 2)), [("B", 4, 5)]),
    Declining("not the spatial axes of float32 images with the channels last", lambda x: jnp.mean(x, (1, 2)), [((2, 4, 5, 3), "float64")], {"x64": True}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_of_a_layer_declines(case: Declining):
    assert case.reason in reasons_of(case)


@pytest.mark.parametrize("shape", [(1024,), ("N", 128)])
def test_softplus_of_many_elements_is_computed_by_its_formula(shape):
    assert _FEW not in reasons_of(Declining(_FEW, jax.nn.softplus, [shape]))
