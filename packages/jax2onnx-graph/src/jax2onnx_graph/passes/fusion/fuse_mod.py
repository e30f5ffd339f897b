"""Recognise `Mod` in the remainder whose sign is corrected."""

from __future__ import annotations

__all__ = ["FuseMod"]

from jax2onnx_graph.passes.structural.fold_constants import FoldConstants
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.remainders import floored_remainder


class FuseMod(GraphPass):
    """`i % n` of Python, as in the index of a ring buffer:

    1. `Where(And(r < 0, r != 0), r + n, r)` with `r = Mod(x, n, fmod=1)` of integers and a positive number n is
       `Mod(x, n)`.
    2. So it is with `Xor(r < 0, n < 0)` as the first condition, where `n < 0` is a constant, false.
    """

    after = (FoldConstants,)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            mod = floored_remainder(node) if node.op_type == "Where" and not node.domain else None
            if mod is not None:
                editor.put(node, "Mod", mod.inputs)
