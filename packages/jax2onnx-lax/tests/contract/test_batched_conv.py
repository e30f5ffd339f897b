"""Convolutions of symbolic batches whose kernels have the batch, too."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax2onnx_core import to_onnx


def _conv(x: jax.Array, kernel: jax.Array, **groups: int) -> jax.Array:
    return lax.conv_general_dilated(x, kernel, (1,) * (x.ndim - 2), "SAME", **groups)


def _gradient(function: Callable[..., jax.Array]) -> Callable[..., object]:
    return jax.grad(lambda x, kernel: jnp.sin(function(x, kernel)).sum(), (0, 1))


_FORMS: dict[str, tuple[Callable[..., object], tuple[object, ...], tuple[object, ...]]] = {
    "both": (jax.vmap(_conv), ("b", 1, 2), ("b", 4, 2)),
    "kernels": (jax.vmap(_conv, (None, 0)), (2, 2), ("b", 4, 2)),
    "feature groups": (jax.vmap(lambda x, k: _conv(x, k, feature_group_count=2)), ("b", 2, 4), ("b", 4, 2)),
    "batch groups": (jax.vmap(lambda x, k: _conv(x, k, batch_group_count=2)), ("b", 2, 3), ("b", 4, 3)),
    "two axes": (jax.vmap(jax.vmap(_conv)), ("a", "b", 1, 2), ("a", "b", 4, 2)),
    "symbolic groups": (lambda x, k: _conv(x, k, feature_group_count=x.shape[1]), (2, "c"), ("c", 1)),
    "symbolic batch groups": (lambda x, k: _conv(x, k, batch_group_count=x.shape[0]), ("c", 2), ("c", 2)),
    "gradients of both": (_gradient(jax.vmap(_conv)), ("b", 1, 2), ("b", 4, 2)),
    "gradients of feature groups": (
        _gradient(jax.vmap(lambda x, k: _conv(x, k, feature_group_count=2))), ("b", 2, 4), ("b", 4, 2)
    ),
    "gradients of symbolic groups": (
        _gradient(lambda x, k: _conv(x, k, feature_group_count=x.shape[1])), (2, "c"), ("c", 1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("form", _FORMS)
def test_a_convolution_of_batched_kernels_is_that_of_jax(form: str, axes: int) -> None:
    function, x, kernel = _FORMS[form]
    to_onnx(function, [(*x, *(5,) * axes), (*kernel, *(3,) * axes)]).verify()


def test_groups_of_both_kinds_are_refused_as_by_jax() -> None:
    def function(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return _conv(x, kernel, feature_group_count=2, batch_group_count=x.shape[0])

    with pytest.raises(ValueError, match="batch_group_count and feature_group_count"):
        to_onnx(function, [("c + 1", 2, 5), ("2*c + 2", 1, 3)])
