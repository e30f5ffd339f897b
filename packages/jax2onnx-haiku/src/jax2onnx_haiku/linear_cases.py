"""Cases of `linear`."""

from __future__ import annotations

import haiku as hk
from jax2onnx_core import expect_graph

from jax2onnx_haiku._layer_case import layer_case

__all__ = ["cases"]

_DENSE = "MatMul -> Add"

cases = [
    layer_case("linear", lambda x: hk.Linear(6)(x), [("B", 5, 8)], expect=_DENSE),
    layer_case("linear_of_a_matrix", lambda x: hk.Linear(6)(x), [("B", 8)], expect=_DENSE),
    layer_case("linear_without_bias", lambda x: hk.Linear(6, with_bias=False)(x), [("B", "T", 8)], expect="MatMul"),
    layer_case("linear_vmapped", lambda x: hk.vmap(hk.Linear(6), split_rng=False)(x), [("B", "T", 8)], expect=_DENSE),
    layer_case(
        "linear_of_batches",
        lambda x: hk.BatchApply(hk.Linear(6))(x),
        [("B", "T", 8)],
        expect=expect_graph(
            "Reshape:B*Tx8 -> MatMul -> Add -> Reshape:BxTx6", counts={"Shape": 2, "Concat": 1}, match="exact"
        ),
    ),
    layer_case("mlp", lambda x: hk.nets.MLP([6, 5])(x), [("B", 8)], expect="MatMul -> Add -> Relu -> MatMul -> Add"),
    layer_case(
        "mlp_rematerialised",
        lambda x: hk.remat(hk.nets.MLP([6, 5]))(x),
        [("B", 8)],
        expect="MatMul -> Add -> Relu -> MatMul -> Add",
    ),
    layer_case("linear_stacked", lambda x: hk.layer_stack(3)(lambda h: hk.Linear(8)(h))(x), [("B", 8)], expect="Scan"),
]
