"""Cases of `linear`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
from jax2onnx_core import Case, construct, expect_graph, with_dtype

from jax2onnx_linen._trained import trained

__all__ = ["cases"]

_DTYPE = {"dtype": with_dtype()}
_DENSE = expect_graph("MatMul -> Add", match="exact")
_TOKENS = [("B", "T", 8)]


class Shared(nn.Module):
    """One layer, used twice."""

    def setup(self) -> None:
        self.dense = nn.Dense(8)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.dense(nn.relu(self.dense(x)))


def _mapped(*args: Any, **options: Any) -> Callable[[jax.Array], jax.Array]:
    return jax.vmap(trained(nn.Dense, (8,), *args, **options))


cases = [
    Case("dense", construct(trained, nn.Dense, (1, 8), 6, **_DTYPE), _TOKENS, expect=_DENSE),
    Case("dense_of_a_vector", construct(trained, nn.Dense, (8,), 6, **_DTYPE), [(8,)], expect=_DENSE),
    Case("dense_mapped", construct(_mapped, 6, **_DTYPE), [("B", 8)], expect=_DENSE),
    Case(
        "dense_without_bias",
        construct(trained, nn.Dense, (1, 8), 6, use_bias=False, **_DTYPE),
        [("B", 8)],
        expect=expect_graph("MatMul", match="exact"),
    ),
    Case(
        "dense_shared",
        construct(trained, Shared, (1, 8), **_DTYPE),
        [("B", 8)],
        expect=expect_graph("MatMul -> Add -> Relu -> MatMul -> Add", match="exact"),
    ),
    Case(
        "dense_general_to_heads",
        construct(trained, nn.DenseGeneral, (1, 1, 8), (2, 3), **_DTYPE),
        _TOKENS,
        covers=("nn.linear",),
        expect=expect_graph("MatMul -> Add -> Reshape", match="exact"),
    ),
    Case(
        "dense_general_from_heads",
        construct(trained, nn.DenseGeneral, (1, 1, 2, 3), 8, axis=(-1, -2), **_DTYPE),
        [("B", "T", 2, 3)],
        expect=expect_graph("Reshape -> MatMul -> Add", match="exact"),
    ),
    Case(
        "dense_general_over_another_axis",
        construct(trained, nn.DenseGeneral, (1, 4, 1), 6, axis=1, **_DTYPE),
        [("B", 4, "T")],
        expect=expect_graph("Transpose:BxTx4 -> MatMul -> Add", match="exact"),
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
        _TOKENS,
        expect=expect_graph("MatMul -> Add -> Reshape", match="exact"),
    ),
    Case(
        "einsum_of_another_kind",
        construct(trained, nn.Einsum, (1, 1, 8), (8, 3), "btd,dn->bnt", **_DTYPE),
        _TOKENS,
        expect=expect_graph("MatMul -> Transpose -> Add", match="exact"),
    ),
]
