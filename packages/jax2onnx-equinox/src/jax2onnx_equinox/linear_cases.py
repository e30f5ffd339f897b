"""Cases of `linear`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax2onnx_core import Case, construct, expect_graph, with_dtype

from jax2onnx_equinox._mapped import mapped

__all__ = ["cases"]

_DENSE = "MatMul -> Add"
_MLP = "MatMul -> Add -> Relu -> MatMul -> Add -> Relu -> MatMul -> Add"


def _linear(inputs: Any, outputs: Any, *, maps: int = 1, **options: Any) -> Callable[[jax.Array], jax.Array]:
    return mapped(eqx.nn.Linear(inputs, outputs, key=jax.random.key(0), **options), maps)


def _mlp(*sizes: Any, **options: Any) -> Callable[[jax.Array], jax.Array]:
    return mapped(eqx.nn.MLP(*sizes, key=jax.random.key(0), **options), 1)


def _ensemble(dtype: Any) -> Callable[[jax.Array], jax.Array]:
    layers = eqx.filter_vmap(lambda key: eqx.nn.Linear(8, 6, dtype=dtype, key=key))(
        jax.random.split(jax.random.key(0), 3)
    )
    return lambda x: eqx.filter_vmap(lambda layer, x: jax.vmap(layer)(x), in_axes=(eqx.if_array(0), None))(layers, x)


def _normed(dtype: Any) -> Callable[[jax.Array], jax.Array]:
    layer = eqx.nn.Linear(8, 6, dtype=dtype, key=jax.random.key(0))
    return mapped(eqx.nn.WeightNorm(layer), 1)


_TYPE = {"dtype": with_dtype()}

cases = [
    Case("linear", construct(_linear, 8, 6, **_TYPE), [("B", 8)], covers=("nn.linear",), expect=_DENSE),
    Case("linear_mapped_twice", construct(_linear, 8, 6, maps=2, **_TYPE), [("B", "T", 8)], expect=_DENSE),
    Case("linear_of_one_vector", construct(_linear, 8, 6, maps=0, **_TYPE), [(8,)], expect=_DENSE),
    Case("linear_without_bias", construct(_linear, 8, 6, use_bias=False, **_TYPE), [("B", 8)], expect="MatMul"),
    Case(
        "linear_to_scalar",
        construct(_linear, 8, "scalar", **_TYPE),
        [("B", 8)],
        expect=expect_graph("MatMul -> Add -> Reshape"),
    ),
    Case(
        "linear_from_scalar",
        construct(_linear, "scalar", 6, **_TYPE),
        [("B",)],
        expect="Unsqueeze -> MatMul:Bx6 -> Add",
    ),
    Case("linear_of_weight_norm", construct(_normed, **_TYPE), [("B", 8)], expect=_DENSE),
    Case(
        "linear_ensemble",
        construct(_ensemble, **_TYPE),
        [("B", 8)],
        expect=expect_graph("MatMul:3x6xB -> Transpose -> Add:3xBx6", counts={"MatMul": 1}),
    ),
    Case("mlp", construct(_mlp, 8, 4, 16, 2, **_TYPE), [("B", 8)], expect=_MLP),
    Case(
        "mlp_scanned",
        construct(_mlp, 8, 4, 16, 3, scan=True, **_TYPE),
        [("B", 8)],
        expect="MatMul -> Add -> Relu -> Scan:Bx16 -> MatMul -> Add",
    ),
    Case(
        "mlp_to_scalar",
        construct(_mlp, 8, "scalar", 16, 1, activation=jnp.tanh, **_TYPE),
        [("B", 8)],
        expect="MatMul -> Add -> Tanh -> MatMul -> Add -> Reshape:B",
    ),
]
