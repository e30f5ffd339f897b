"""The plugin: every pass of this package, contributed as one of a third party is."""

from __future__ import annotations

from typing import Protocol

import pluggy
from jax2onnx_graph.targets import PassFactory

__all__ = ["JAX2ONNX_API", "jax2onnx_register"]

JAX2ONNX_API = 1

# The mark that `jax2onnx_core.hookimpl` is, so that passes are used without it and JAX.
_hookimpl = pluggy.HookimplMarker("jax2onnx")


class _Registry(Protocol):
    """The part of `jax2onnx_core.Registry` that is needed here."""

    def graph_pass(self, factory: PassFactory) -> None:
        """Run a pass in every export."""


@_hookimpl
def jax2onnx_register(registry: _Registry) -> None:
    """Contribute the passes; those of a phase run in this order where they name no other."""
    from jax2onnx_fusions.activations.fuse_gelu import FuseGelu
    from jax2onnx_fusions.activations.fuse_relu import FuseRelu
    from jax2onnx_fusions.activations.fuse_silu import FuseSilu
    from jax2onnx_fusions.attention.fuse_attention import FuseAttention
    from jax2onnx_fusions.attention.heads_as_rows import HeadsAsRows
    from jax2onnx_fusions.attention.order_products import OrderProducts
    from jax2onnx_fusions.experts.batch_expert_products import BatchExpertProducts
    from jax2onnx_fusions.experts.select_capacity_slots import SelectCapacitySlots
    from jax2onnx_fusions.experts.select_expert_terms import SelectExpertTerms
    from jax2onnx_fusions.experts.select_experts import SelectExperts
    from jax2onnx_fusions.fuse_mod import FuseMod
    from jax2onnx_fusions.normalisation.fold_batch_norm import FoldBatchNorm
    from jax2onnx_fusions.normalisation.fuse_layer_norm import FuseLayerNorm
    from jax2onnx_fusions.normalisation.fuse_rms_norm import FuseRmsNorm
    from jax2onnx_fusions.normalisation.fuse_softmax import FuseSoftmax
    from jax2onnx_fusions.recurrence.fold_reversals import FoldReversals
    from jax2onnx_fusions.recurrence.join_directions import JoinDirections
    from jax2onnx_fusions.rotary.fuse_rotary_embedding import FuseRotaryEmbedding

    for graph_pass in (
        FuseMod, FuseRelu, FuseSilu, FuseSoftmax, FuseLayerNorm, FuseRmsNorm, FuseGelu, SelectExperts, SelectExpertTerms, SelectCapacitySlots,
        BatchExpertProducts, FuseAttention, OrderProducts, FuseRotaryEmbedding, HeadsAsRows, FoldReversals, JoinDirections, FoldBatchNorm,
    ):  # fmt: skip
        registry.graph_pass(graph_pass)
