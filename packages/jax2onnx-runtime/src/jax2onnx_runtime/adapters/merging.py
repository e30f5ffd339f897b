"""Matrices of low rank merged into the weight that they belong to: `w + scale * a @ b`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.patterns import source_of
from jax2onnx_graph.weights.absent import computed
from onnx_ir.passes.common import RemoveUnusedNodesPass

from jax2onnx_runtime.adapters.finding import BaseProduct, LowRankPair, LowRankProduct, is_stacked
from jax2onnx_runtime.adapters.optional_inputs import adapter_pairs
from jax2onnx_runtime.adapters.stacks import drop_unread_entries, entry_of

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
    given, editors = matrices(pairs), _editors(GraphEditor(copy.graph, opset=copy.opset_imports[""]))
    for pair in pairs:
        for product in pair.products:
            base = product.base
            reason = base if isinstance(base, str) else _obstacle(pair, base)
            if isinstance(base, str) or reason is not None:
                raise OptionError(f"The adapter {pair.a.name}, {pair.b.name} cannot be merged: {reason}.")
            graph = base.total.graph
            assert isinstance(graph, ir.Graph), "constants of the main graph are read in graphs"
            _merge(editors[graph], pair, product, base, given)
    for editor in reversed(editors.values()):
        editor.finish()
    RemoveUnusedNodesPass()(copy)
    for node in ir.traversal.RecursiveGraphIterator(copy.graph):
        if node.op_type == "Scan" and not node.domain:
            drop_unread_entries(node)
    RemoveUnusedNodesPass()(copy)  # the stacks whose entries nothing reads
    return copy


def _editors(editor: GraphEditor) -> dict[ir.Graph, GraphEditor]:
    """The editors of a graph and of the bodies of its loops and branches, by their graphs."""
    found = {editor.graph: editor}
    for node in editor.graph:
        for inner in editor.nested_in(node):
            found.update(_editors(inner))
    return found


def _obstacle(pair: LowRankPair, base: BaseProduct) -> str | None:
    """The reason why a pair cannot be merged into the matrices of all layers of a loop."""
    name = base.weight.name
    if not is_stacked(base.weight):
        stacked = is_stacked(pair.a) or is_stacked(pair.b)
        return f"it has matrices for each layer of a loop, but {name} is the same in all of them" if stacked else None
    return None if _is_read_once(base.weight) else f"something else reads {name}, the weight of all layers of a loop"


def _is_read_once(weight: ir.Value) -> bool:
    uses = list(weight.uses())
    if len(uses) != 1 or weight.is_graph_output():
        return False
    entry = entry_of(*uses[0])
    return entry is None or _is_read_once(entry)


def _merge(
    editor: GraphEditor, pair: LowRankPair, product: LowRankProduct, base: BaseProduct, given: Mapping[str, ir.TensorProtocol]
) -> None:  # fmt: skip
    weight, rest = _weight_now(base), base.total.inputs[base.rest]
    tensor = weight.const_value
    assert tensor is not None
    assert rest is not None
    is_transposed = bool(base.product.attributes.get_int("transB", 0))

    def merged(w: Array, a: Array, b: Array) -> Array:
        exact = np.result_type(np.float32, w.dtype if w.dtype == np.float64 else np.float32)
        first, second = (a.mT if pair.a_axis == 0 else a), (b.mT if pair.b_axis == 1 else b)
        added = (first.astype(exact) * exact.type(product.scale)) @ second.astype(exact)
        return (w.astype(exact) + (added.mT if is_transposed else added)).astype(w.dtype)

    matrices = [given[value.name or ""] for value in (pair.a, pair.b)]
    total = computed(merged, [tensor, *matrices], tensor.dtype, tensor.shape.numpy())
    if _is_read_once(weight):
        total.name = weight.name
        weight.const_value = total
    else:
        what = f"with.{pair.a.name}.{pair.b.name}.{product.scale}{'.T' if is_transposed else ''}"
        _read_instead(editor, base.product, weight, editor.derived(weight, total, what))
    editor.replace(base.total, rest)


def _weight_now(base: BaseProduct) -> ir.Value:
    """The weight that a product reads: another than before where an adapter has been merged into it already."""
    read = source_of(base.product.inputs[1], "Cast", "Identity")
    return read if read is not None and read.is_initializer() else base.weight


def _read_instead(editor: GraphEditor, product: ir.Node, weight: ir.Value, new: ir.Value) -> None:
    """Let a product read another weight, in the type in which it reads the old one."""
    read = product.inputs[1]
    assert read is not None
    if read is not weight:
        assert read.dtype is not None
        new = editor.before(product).op.Cast(new, to=read.dtype)
    product.replace_input_with(1, new)
