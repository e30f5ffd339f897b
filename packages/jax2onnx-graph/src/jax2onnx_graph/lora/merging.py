"""Matrices of low rank merged into the weight that they belong to: `w + scale * a @ b`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx_ir.passes.common import RemoveUnusedNodesPass

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.lora.finding import BaseProduct, LowRankPair, LowRankProduct
from jax2onnx_graph.lora.optional_inputs import adapter_pairs
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.weights.absent import computed

__all__ = ["with_merged_adapters"]


def with_merged_adapters(
    model: ir.Model, patterns: Sequence[str], matrices: Callable[[list[LowRankPair]], Mapping[str, ir.TensorProtocol]]
) -> ir.Model:
    """A copy of a model whose weights have the products of adapters added, so that nothing of these is computed any more.

    The sum is computed in at least float32 when the weight is read, and rounded once.

    Args:
      model: the model, which stays as it is.
      patterns: which matrices; see `adapter_pairs`.
      matrices: the matrices to merge, for the pairs: by the names of the initializers.

    Raises:
      OptionError: there are none, a pattern does not fit, or something else than a sum with the product of a weight is computed
        of them.
    """
    copy = model.clone()
    pairs = adapter_pairs(copy, patterns)
    given, editor = matrices(pairs), GraphEditor(copy.graph, opset=copy.opset_imports[""])
    for pair in pairs:
        for product in pair.products:
            if isinstance(product.base, str):
                raise OptionError(f"The adapter {pair.a.name}, {pair.b.name} cannot be merged: {product.base}.")
            if product.base.total.graph is not copy.graph:
                raise OptionError(
                    f"The adapter {pair.a.name}, {pair.b.name} cannot be merged: it is used in a loop or a branch."
                )
            _merge(editor, pair, product, product.base, given)
    editor.finish()
    RemoveUnusedNodesPass()(copy)
    return copy


def _merge(
    editor: GraphEditor, pair: LowRankPair, product: LowRankProduct, base: BaseProduct, given: Mapping[str, ir.TensorProtocol]
) -> None:  # fmt: skip
    weight, rest = base.weight, base.total.inputs[base.rest]
    tensor = weight.const_value
    assert tensor is not None
    assert rest is not None
    is_transposed = bool(base.product.attributes.get_int("transB", 0))

    def merged(w: Array, a: Array, b: Array) -> Array:
        exact = np.result_type(np.float32, w.dtype if w.dtype == np.float64 else np.float32)
        first, second = (a.T if pair.a_axis == 0 else a), (b.T if pair.b_axis == 1 else b)
        added = (first.astype(exact) * exact.type(product.scale)) @ second.astype(exact)
        return (w.astype(exact) + (added.T if is_transposed else added)).astype(w.dtype)

    matrices = [given[value.name or ""] for value in (pair.a, pair.b)]
    total = computed(merged, [tensor, *matrices], tensor.dtype, tensor.shape.numpy())
    if len(list(weight.uses())) == 1:
        total.name = weight.name
        weight.const_value = total
    else:
        _read_instead(editor, base.product, weight, editor.derived(weight, total, f"with.{pair.a.name}"))
    editor.replace(base.total, rest)


def _read_instead(editor: GraphEditor, product: ir.Node, weight: ir.Value, new: ir.Value) -> None:
    """Let a product read another weight, in the type in which it reads the old one."""
    read = product.inputs[1]
    assert read is not None
    if read is not weight:
        assert read.dtype is not None
        new = editor.before(product).op.Cast(new, to=read.dtype)
    product.replace_input_with(1, new)
