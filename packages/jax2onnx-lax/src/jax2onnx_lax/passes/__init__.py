"""Passes that recognise ONNX's operators in code that no composite reaches."""

from __future__ import annotations

from typing import Any

from jax2onnx_lax.passes.attention_layout import AttentionLayout
from jax2onnx_lax.passes.fold_batch_norm import FoldBatchNorm
from jax2onnx_lax.passes.fold_neutral import FoldNeutral
from jax2onnx_lax.passes.recover_attention import RecoverAttention
from jax2onnx_lax.passes.recover_gelu import RecoverGelu
from jax2onnx_lax.passes.recover_layer_norm import RecoverLayerNorm
from jax2onnx_lax.passes.recover_mod import RecoverMod
from jax2onnx_lax.passes.recover_recurrent import RecoverRecurrent
from jax2onnx_lax.passes.recover_relu import RecoverRelu
from jax2onnx_lax.passes.recover_rms_norm import RecoverRmsNorm
from jax2onnx_lax.passes.recover_rotary import RecoverRotary
from jax2onnx_lax.passes.recover_silu import RecoverSilu
from jax2onnx_lax.passes.recover_softmax import RecoverSoftmax

__all__ = ["register_passes"]

_FORMULAS = (
    FoldNeutral,
    RecoverMod,
    RecoverRelu,
    RecoverSilu,
    RecoverSoftmax,
    RecoverLayerNorm,
    RecoverRmsNorm,
    RecoverGelu,
)


def register_passes(registry: Any) -> None:
    """Formulas are read once equal subexpressions are one; attention, whose operands are transposed, cells in
    loops, and the factors behind convolutions once transposes have settled."""
    for factory in _FORMULAS:
        registry.graph_pass(factory, after="CommonSubexpressionEliminationPass")
    for settled in (RecoverRotary, RecoverAttention, AttentionLayout, RecoverRecurrent, FoldBatchNorm):
        registry.graph_pass(settled, after="FoldTransposes")
