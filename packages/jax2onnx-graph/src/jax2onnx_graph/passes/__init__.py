"""Passes: structural ones, which rewrite by what operators are, and those that recover operators from formulas."""

from __future__ import annotations

from onnx_ir.passes.common import CommonSubexpressionEliminationPass, RemoveUnusedFunctionsPass

from jax2onnx_graph._ir import ir
from jax2onnx_graph.passes.recover.attention_layout import AttentionLayout
from jax2onnx_graph.passes.recover.fold_batch_norm import FoldBatchNorm
from jax2onnx_graph.passes.recover.fold_neutral import FoldNeutral
from jax2onnx_graph.passes.recover.recover_attention import RecoverAttention
from jax2onnx_graph.passes.recover.recover_gelu import RecoverGelu
from jax2onnx_graph.passes.recover.recover_layer_norm import RecoverLayerNorm
from jax2onnx_graph.passes.recover.recover_mod import RecoverMod
from jax2onnx_graph.passes.recover.recover_recurrent import RecoverRecurrent
from jax2onnx_graph.passes.recover.recover_relu import RecoverRelu
from jax2onnx_graph.passes.recover.recover_rms_norm import RecoverRmsNorm
from jax2onnx_graph.passes.recover.recover_rotary import RecoverRotary
from jax2onnx_graph.passes.recover.recover_silu import RecoverSilu
from jax2onnx_graph.passes.recover.recover_softmax import RecoverSoftmax
from jax2onnx_graph.passes.structural.fold_casts import FoldCasts
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.passes.structural.implicit_broadcast import ImplicitBroadcast
from jax2onnx_graph.passes.structural.merge_reshapes import MergeReshapes
from jax2onnx_graph.passes.structural.remove_dead_nodes import RemoveDeadNodes
from jax2onnx_graph.passes.structural.shape_folding import FoldConstants

__all__ = ["default_passes"]


def default_passes() -> list[ir.passes.InPlacePass]:
    """The passes that every export runs, in order.

    Dead nodes go first, so that the passes see only real readers, and last, with what they freed.
    Broadcasts are made implicit before transposes move, since they then move through fewer operators;
    transposes that turn out to be views are merged with reshapes after that. (`onnx_ir`'s
    IdentityEliminationPass is not used: it can make one value two outputs of a body.)

    Formulas are read once equal subexpressions are one; attention, whose operands are transposed, cells in loops,
    and the factors behind convolutions once transposes have settled.
    """
    return [
        RemoveDeadNodes(),
        MergeReshapes(),
        FoldConstants(),
        FoldCasts(),
        ImplicitBroadcast(),
        CommonSubexpressionEliminationPass(),
        FoldNeutral(),
        RecoverMod(),
        RecoverRelu(),
        RecoverSilu(),
        RecoverSoftmax(),
        RecoverLayerNorm(),
        RecoverRmsNorm(),
        RecoverGelu(),
        FoldTransposes(),
        RecoverRotary(),
        RecoverAttention(),
        AttentionLayout(),
        RecoverRecurrent(),
        FoldBatchNorm(),
        MergeReshapes(),
        RemoveDeadNodes(),
        RemoveUnusedFunctionsPass(),  # type: ignore[no-untyped-call]
    ]
