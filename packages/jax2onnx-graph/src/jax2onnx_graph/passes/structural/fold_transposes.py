"""Keep whole regions of a graph in the layout that makes the transposes around them disappear."""

from __future__ import annotations

__all__ = ["FoldTransposes"]

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.layouts import (
    Layout,
    adapt,
    carried,
    inverse,
    moves_only_ones,
    permuted,
    remaining,
    then,
)
from jax2onnx_graph.facts.values import LabelledDim, constant_tensor, dims_of, known
from jax2onnx_graph.passes.structural.merge_reshapes import view_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

_TYPICAL = 16  # what a symbolic dimension counts for in the size of a tensor
_COMPUTED_NOW = 1024  # elements of a constant that is laid out at once, not when the file is written


class FoldTransposes(GraphPass):
    """Cancel, merge and move transposes so that as few elements as possible are transposed.

    1. `Transpose(Transpose(x))` is one Transpose; `Transpose` of a small constant is a constant.
    2. A *region* is a connected part of the graph whose operators compute the same in any layout
       (`layouts.carried`): elementwise and broadcasting operators, Concat, Split, Softmax, reductions,
       Pad, Slice, Resize, … For each permutation of a Transpose at its border, a region is rewritten to
       that layout where this makes the total size of transposed tensors smaller: Transposes at the
       border that undo the layout vanish, others merge, new ones appear where an operand comes or a
       result leaves in its own layout.
    3. Constants and operands of lower rank that broadcast in a region are laid out to fit.
    4. A reduction that removes axes takes its operand in the region's layout.
    """

    def rewrite(self, editor: GraphEditor) -> None:
        transposes = [node for node in editor.nodes() if node.op_type == "Transpose" and not node.domain]
        for node in transposes:
            _merge(editor, node)
        counts: Counter[Layout] = Counter()
        for node in transposes:
            if node.inputs[0] is not None:
                counts.update((_perm(node), inverse(_perm(node))))
        for layout, _ in counts.most_common():
            _relay_regions(editor, transposes, layout)


def _perm(node: ir.Node) -> Layout:
    perm = node.attributes.get_ints("perm", None)
    if perm is not None:
        return tuple(perm)
    dims = dims_of(node.inputs[0]) or ()
    return tuple(reversed(range(len(dims))))


def _transpose_of(value: ir.Value | None) -> ir.Node | None:
    producer = None if value is None else value.producer()
    if producer is None or producer.op_type != "Transpose" or producer.domain or producer.inputs[0] is None:
        return None
    return producer


def _merge(editor: GraphEditor, node: ir.Node) -> None:
    value = node.inputs[0]
    array = known(value)
    if array is not None:
        editor.replace(node, editor.constant(np.ascontiguousarray(array.transpose(_perm(node)))))
        return
    inner = _transpose_of(value)
    if inner is not None:
        _retarget(editor, node, inner.inputs[0], then(_perm(inner), _perm(node)))


def _retarget(editor: GraphEditor, node: ir.Node, source: ir.Value | None, perm: Layout) -> None:
    """Make the Transpose `node` compute `Transpose(source, perm)`, or nothing where that is `source`."""
    assert source is not None
    editor.modified = True
    node.replace_input_with(0, source)
    node.attributes.add(ir.AttrInt64s("perm", perm))
    if perm == tuple(range(len(perm))) and not editor.replace(node, source):
        node.op_type = "Identity"
        node.attributes.clear()


def _relay_regions(editor: GraphEditor, transposes: Iterable[ir.Node], layout: Layout) -> None:
    visited: set[ir.Value] = set()
    undo = inverse(layout)
    for node in transposes:
        source = node.inputs[0]
        if source is None or node.op_type != "Transpose":
            continue
        for seed, perm in ((node.outputs[0], layout), (source, undo)):
            if _perm(node) == perm and seed not in visited:
                region = _Region(editor, layout)
                region.gather(seed)
                visited.update(region.values)
                if region.nodes and region.gain() > 0:
                    region.relay()


def _size(dims: Iterable[LabelledDim]) -> int:
    return math.prod(dim if isinstance(dim, int) else _TYPICAL for dim in dims)


def _cost(dims: tuple[LabelledDim, ...] | None, perm: Layout) -> int:
    """What transposing a tensor of these dimensions costs: its elements, or nothing if none moves."""
    return 0 if dims is None or moves_only_ones(dims, perm) else _size(dims)


@dataclasses.dataclass
class _Readers:
    """Who reads a value of a region from outside of it."""

    exits: list[ir.Node]  # Transposes
    removing: list[ir.Node]  # nodes that remove axes
    others: list[tuple[ir.Node, int]]


class _Region:
    """A connected set of nodes, the values that they carry, and the layout to keep these in."""

    def __init__(self, editor: GraphEditor, layout: Layout) -> None:
        self.editor = editor
        self.layout = layout
        self.undo = inverse(layout)
        self.values: dict[ir.Value, None] = {}
        self.nodes: dict[ir.Node, range] = {}
        self._fitted: dict[ir.Value, ir.Value] = {}
        self._laid_out: dict[tuple[ir.Value, bool], ir.Value] = {}

    def gather(self, seed: ir.Value) -> None:
        """Collect the region that `seed` belongs to."""
        stack = [seed]
        while stack:
            value = stack.pop()
            if value in self.values:
                continue
            self.values[value] = None
            producer = value.producer()
            neighbours = {user: None for user, _ in value.uses()}
            if producer is not None:
                neighbours[producer] = None
            for node in neighbours:
                stack.extend(self._join(node, value))

    def _join(self, node: ir.Node, through: ir.Value) -> list[ir.Value]:
        if node in self.nodes or node.graph is not self.editor.graph:
            return []
        indices = carried(node, self.layout)
        if indices is None:
            return []
        values = [value for i in indices if (value := node.inputs[i]) is not None and self._has_layout(value)]
        if not values or not any(value is through for value in (*values, *node.outputs)):
            return []
        values += node.outputs
        self.nodes[node] = indices
        return values

    def _has_layout(self, value: ir.Value) -> bool:
        dims = dims_of(value)
        return dims is not None and len(dims) == len(self.layout) and constant_tensor(value) is None

    def _made_inside(self, value: ir.Value) -> bool:
        return value.producer() in self.nodes

    def _readers(self, value: ir.Value) -> _Readers:
        readers = _Readers([], [], [])
        for user, index in value.uses():
            if user in self.nodes and index in self.nodes[user]:
                continue
            if user.graph is not self.editor.graph or index or user.domain:
                readers.others.append((user, index))
            elif user.op_type == "Transpose":
                readers.exits.append(user)
            elif remaining(user, self.layout) is not None:
                readers.removing.append(user)
            else:
                readers.others.append((user, index))
        return readers

    # What the rewriting would save, in elements transposed.

    def gain(self) -> int:
        """Elements transposed now, minus those transposed with the region in its layout."""
        values = sum(
            self._gain_inside(value) if self._made_inside(value) else self._gain_entry(value) for value in self.values
        )
        return values - sum(self._loss_operands(node, indices) for node, indices in self.nodes.items())

    def _gain_inside(self, value: ir.Value) -> int:
        readers = self._readers(value)
        cost = _cost(dims_of(value), self.layout)
        gain = cost * sum(1 for node in readers.exits if _perm(node) == self.undo)
        for node in readers.removing:
            perm = remaining(node, self.layout)
            assert perm is not None
            gain -= _cost(dims_of(node.outputs[0]), perm)
        return gain - (cost if readers.others or value.is_graph_output() else 0)

    def _gain_entry(self, value: ir.Value) -> int:
        readers = self._readers(value)
        cost = _cost(dims_of(value), self.layout)
        entry = _transpose_of(value)
        if entry is not None and entry.inputs[0] in self.values:
            return -cost
        alone = not (readers.exits or readers.removing or readers.others or value.is_graph_output())
        if entry is not None and _perm(entry) == self.layout:
            return cost if alone else 0
        if entry is not None and alone:
            return 0
        undone = sum(1 for node in readers.exits if _perm(node) == self.undo)
        return cost * (undone - 1)

    def _loss_operands(self, node: ir.Node, indices: range) -> int:
        loss = 0
        for index in indices:
            value = node.inputs[index]
            if value is not None and value not in self.values and constant_tensor(value) is None:
                loss += _cost(self._full_dims(value), self.layout)
        return loss

    # The rewriting.

    def relay(self) -> None:
        """Rewrite the region to its layout."""
        self.editor.modified = True
        inside = [value for value in self.values if self._made_inside(value)]
        entries = [value for value in self.values if not self._made_inside(value)]
        for value in entries:
            self._fitted[value] = self._enter(value)
        for node, indices in self.nodes.items():
            self._fit_operands(node, indices)
        for value in entries:
            self._share_entry(value)
        for value in inside:
            self._leave(value)
        for node in self.nodes:
            adapt(self.editor, node, self.layout)
        for value in inside:
            value.shape = ir.Shape(permuted(dims_of(value) or (), self.undo))

    def _enter(self, value: ir.Value) -> ir.Value:
        """`value`, made outside, in the region's layout."""
        entry = _transpose_of(value)
        source, perm = value, self.undo
        if entry is not None and entry.inputs[0] is not None:
            source, perm = entry.inputs[0], then(_perm(entry), self.undo)
        if perm == tuple(range(len(perm))) and not self._made_inside(source):
            return source
        return self._transpose(source, perm)

    def _share_entry(self, value: ir.Value) -> None:
        """Let Transposes outside that make what the region made for itself vanish."""
        fitted = self._fitted[value]
        for node in self._readers(value).exits:
            if _perm(node) == self.undo and node.outputs[0] is not fitted:
                self.editor.replace(node, fitted)

    def _fit_operands(self, node: ir.Node, indices: range) -> None:
        for index in indices:
            value = node.inputs[index]
            if value is not None and not (value in self.values and self._made_inside(value)):
                node.replace_input_with(index, self._fit(value, node.op_type != "Concat"))

    def _leave(self, value: ir.Value) -> None:
        """Serve the readers of `value` outside the region, which is about to change its layout."""
        readers = self._readers(value)
        if readers.others or value.is_graph_output():
            own = self._transpose(value, self.layout, permuted(dims_of(value) or (), self.undo))
            if value.is_graph_output():
                _hand_over_output(self.editor.graph, value, own)
            for user, index in readers.others:
                user.replace_input_with(index, own)
        for node in readers.removing:
            self._leave_removing(node)
        for node in readers.exits:
            _retarget(self.editor, node, value, then(self.layout, _perm(node)))

    def _leave_removing(self, node: ir.Node) -> None:
        perm = remaining(node, self.layout)
        assert perm is not None
        adapt(self.editor, node, self.layout)
        if perm == tuple(range(len(perm))):
            return
        output = node.outputs[0]
        dims = permuted(dims_of(output) or (), inverse(perm))
        users = output.uses()
        own = self._transpose(output, perm, dims)
        if output.is_graph_output():
            _hand_over_output(self.editor.graph, output, own)
        for user, index in users:
            user.replace_input_with(index, own)
        output.shape = ir.Shape(dims)

    def _transpose(self, source: ir.Value, perm: Layout, dims: tuple[LabelledDim, ...] | None = None) -> ir.Value:
        node = ir.Node("", "Transpose", [source], [ir.AttrInt64s("perm", perm)])
        result = node.outputs[0]
        result.type = source.type
        result.shape = ir.Shape(permuted(dims or dims_of(source) or (), perm))
        self.editor.insert(node, after=source)
        return result

    def _full_dims(self, value: ir.Value) -> tuple[LabelledDim, ...]:
        dims = dims_of(value) or ()
        return (1,) * (len(self.layout) - len(dims)) + dims

    def _fit(self, value: ir.Value, broadcasts: bool) -> ir.Value:
        """An operand made outside the region, laid out to go with values of the region."""
        if value in self._fitted:
            return self._fitted[value]
        key = (value, broadcasts)
        if key not in self._laid_out:
            self._laid_out[key] = self._lay_out(value, broadcasts)
        return self._laid_out[key]

    def _lay_out(self, value: ir.Value, broadcasts: bool) -> ir.Value:
        own, full = dims_of(value) or (), self._full_dims(value)
        dims = permuted(full, self.undo)
        dims = _trimmed(dims) if broadcasts else dims
        views = moves_only_ones(full, self.undo)
        if all(dim == 1 for dim in full) or (views and dims in (own, _trimmed(own))):
            return value
        tensor = constant_tensor(value)
        if tensor is not None:
            return self.editor.own(_laid_out(tensor, full, self.undo, dims))
        view = view_of(own, dims) if views else None
        if view is not None:
            return self._operator(view[0], value, view[1], dims)
        if len(own) < len(full):
            value = self._operator("Unsqueeze", value, list(range(len(full) - len(own))), full)
        return self._transpose(value, self.undo)

    def _operator(self, op_type: str, value: ir.Value, operand: list[int], dims: tuple[LabelledDim, ...]) -> ir.Value:
        node = ir.Node("", op_type, [value, self.editor.ints(operand)])
        node.outputs[0].type = value.type
        node.outputs[0].shape = ir.Shape(dims)
        self.editor.insert(node, after=value)
        return node.outputs[0]


def _trimmed(dims: tuple[LabelledDim, ...]) -> tuple[LabelledDim, ...]:
    """Without leading axes of size 1."""
    first = next((axis for axis, dim in enumerate(dims) if dim != 1), len(dims))
    return dims[first:]


def _laid_out(
    tensor: ir.TensorProtocol, full: tuple[LabelledDim, ...], perm: Layout, dims: tuple[LabelledDim, ...]
) -> ir.TensorProtocol:
    """The constant `tensor` as of shape `full`, transposed, reshaped to `dims`; large ones when saved."""
    shape, result = ir.Shape(full).numpy(), ir.Shape(dims).numpy()

    def compute() -> ir.TensorProtocol:
        return ir.Tensor(np.ascontiguousarray(tensor.numpy().reshape(shape).transpose(perm).reshape(result)))

    if tensor.size <= _COMPUTED_NOW:
        return compute()
    return ir.LazyTensor(compute, dtype=tensor.dtype, shape=ir.Shape(dims))


def _hand_over_output(graph: ir.Graph, old: ir.Value, new: ir.Value) -> None:
    """Let `new` be the graph output that `old` is, under its name."""
    for index, output in enumerate(graph.outputs):
        if output is old:
            graph.outputs[index] = new
    new.name, old.name = old.name, new.name
