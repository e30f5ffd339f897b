"""Cases of `linear`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
from jax2onnx_core import Case, construct, with_dtype
from jax2onnx_lax.nn.flax_layers import TOKENS, linear_cases

from jax2onnx_linen._trained import library, trained

__all__ = ["cases"]

_DTYPE = {"dtype": with_dtype()}
_DENSE = "MatMul -> Add"


class Shared(nn.Module):
    """One layer, used twice."""

    def setup(self) -> None:
        self.dense = nn.Dense(8)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.dense(nn.relu(self.dense(x)))


def _mapped(*args: Any, **options: Any) -> Callable[[jax.Array], jax.Array]:
    return jax.vmap(trained(nn.Dense, (8,), *args, **options))


cases = [
    *linear_cases(library),
    Case("dense_mapped", construct(_mapped, 6, **_DTYPE), [("B", 8)], expect=_DENSE),
    Case(
        "dense_shared",
        construct(trained, Shared, (1, 8), **_DTYPE),
        [("B", 8)],
        expect="MatMul -> Add -> Relu -> MatMul -> Add",
    ),
    Case(
        "dense_general_from_heads",
        construct(trained, nn.DenseGeneral, (1, 1, 2, 3), 8, axis=(-1, -2), **_DTYPE),
        [("B", "T", 2, 3)],
        expect="Reshape -> MatMul -> Add",
    ),
    Case(
        "dense_general_with_batch_axis",
        construct(trained, nn.DenseGeneral, (3, 1, 5), 6, batch_dims=(0,), **_DTYPE),
        [(3, "T", 5)],
        expect=_DENSE,
    ),
    Case(
        "einsum_to_heads",
        construct(trained, nn.Einsum, (1, 1, 8), (8, 2, 3), "...d,dnh->...nh", **_DTYPE),
        [TOKENS],
        expect="MatMul -> Add -> Reshape",
    ),
    Case(
        "einsum_of_another_kind",
        construct(trained, nn.Einsum, (1, 1, 8), (8, 3), "btd,dn->bnt", **_DTYPE),
        [TOKENS],
        expect="MatMul -> Transpose -> Add",
    ),
]
