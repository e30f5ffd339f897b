"""Structural passes: they rewrite graphs by what operators are, and know no JAX and no plugin."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    RemoveUnusedFunctionsPass,
)

from jax2onnx_core.passes.fold_casts import FoldCasts
from jax2onnx_core.passes.fold_constants import FoldConstants
from jax2onnx_core.passes.fold_transposes import FoldTransposes
from jax2onnx_core.passes.implicit_broadcast import ImplicitBroadcast
from jax2onnx_core.passes.merge_reshapes import MergeReshapes
from jax2onnx_core.passes.remove_dead_nodes import RemoveDeadNodes

__all__ = [
    "FoldCasts",
    "FoldConstants",
    "FoldTransposes",
    "ImplicitBroadcast",
    "MergeReshapes",
    "RemoveDeadNodes",
    "default_passes",
]


def default_passes() -> list[ir.passes.InPlacePass]:
    """The passes that every export runs, in order.

    Dead nodes go first, so that the passes see only real readers, and last, with what they freed.
    Broadcasts are made implicit before transposes move, since they then move through fewer operators;
    transposes that turn out to be views are merged with reshapes after that. (`onnx_ir`'s
    IdentityEliminationPass is not used: it can make one value two outputs of a body.)
    """
    return [
        RemoveDeadNodes(),
        MergeReshapes(),
        FoldConstants(),
        FoldCasts(),
        ImplicitBroadcast(),
        CommonSubexpressionEliminationPass(),
        FoldTransposes(),
        MergeReshapes(),
        RemoveDeadNodes(),
        RemoveUnusedFunctionsPass(),  # type: ignore[no-untyped-call]
    ]
