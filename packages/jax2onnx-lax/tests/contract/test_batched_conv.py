"""Convolutions of symbolic batches whose kernels have the batch, too."""

from __future__ import annotations

from collections.abc import Callable

import jax
import pytest
from jax import lax
from jax2onnx_core import to_onnx


def _conv(x: jax.Array, kernel: jax.Array, **groups: int) -> jax.Array:
    return lax.conv_general_dilated(x, kernel, (1,) * (x.ndim - 2), "SAME", **groups)


_FORMS: dict[str, tuple[Callable[..., jax.Array], tuple[object, ...], tuple[object, ...]]] = {
    "both": (jax.vmap(_conv), ("b", 1, 2), ("b", 4, 2)),
    "kernels": (jax.vmap(_conv, (None, 0)), (2, 2), ("b", 4, 2)),
    "feature groups": (jax.vmap(lambda x, k: _conv(x, k, feature_group_count=2)), ("b", 2, 4), ("b", 4, 2)),
    "batch groups": (jax.vmap(lambda x, k: _conv(x, k, batch_group_count=2)), ("b", 2, 3), ("b", 4, 3)),
    "two axes": (jax.vmap(jax.vmap(_conv)), ("a", "b", 1, 2), ("a", "b", 4, 2)),
    "symbolic groups": (lambda x, k: _conv(x, k, feature_group_count=x.shape[1]), (2, "c"), ("c", 1)),
}


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("form", _FORMS)
def test_a_convolution_of_batched_kernels_is_that_of_jax(form: str, axes: int) -> None:
    function, x, kernel = _FORMS[form]
    to_onnx(function, [(*x, *(5,) * axes), (*kernel, *(3,) * axes)]).verify()
