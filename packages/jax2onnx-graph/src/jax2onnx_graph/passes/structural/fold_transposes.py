"""`FoldTransposes`: whole regions of a graph keep the order of axes that makes the transposes around them disappear."""

from __future__ import annotations

__all__ = ["FoldTransposes"]

import dataclasses
from collections import Counter
from collections.abc import Iterable

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.sizes import estimated_elements
from jax2onnx_graph.facts.values import LabelledDim, constant_tensor, dims_of, given_operands, known, same_dims
from jax2onnx_graph.passes.structural.merge_reshapes import view_of
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass, Phase
from jax2onnx_graph.rewrite.patterns import is_read_once, operation, permutation_of
from jax2onnx_graph.rewrite.permutations import (
    Permutation,
    inverse,
    moves_only_ones,
    permutable_inputs,
    permuted,
    remaining_permutation,
    rewrite_axes,
)
from jax2onnx_graph.traversal import is_value_read
from jax2onnx_graph.weights.absent import computed


class FoldTransposes(GraphPass):
    """Cancel, merge and move transposes so that as few elements as possible are transposed.

    1. `Transpose(Transpose(x))` is one Transpose; `Transpose` of a small constant is a constant. So is `Transpose(v(Transpose(x)))`,
       where the view v adds or removes axes of size 1 and has no other reader: views stand beside the one Transpose.
       The Transpose of a product of two matrices, neither a constant, that nothing else reads is the product in the other order.
    2. A *region* is a connected part of the graph whose operators compute the same on tensors with permuted axes
       (`permutations.permutable_inputs`): elementwise and broadcasting operators, Concat, Split, Softmax, reductions,
       Pad, Slice, Resize, … For each permutation of a Transpose at its border, the tensors of a region are kept permuted
       by it where this makes the total size of transposed tensors smaller: Transposes at the border that undo the
       permutation vanish, others merge, new ones appear where an operand comes or a result leaves with its own order
       of axes.
    3. Constants and operands of lower rank that broadcast in a region are permuted to fit.
    4. A reduction that removes axes takes its operand permuted as the region keeps it.
    """

    phase = Phase.LAY_OUT

    def rewrite_graph(self, editor: GraphEditor) -> None:
        transposes = [node for node in editor.nodes_of({"Transpose"}) if not node.domain]
        for node in transposes:
            _merge(editor, node)
        transposes = [node for node in editor.nodes_of({"Transpose"}) if not node.domain]
        counts: Counter[Permutation] = Counter()
        for node in transposes:
            if node.inputs[0] is not None:
                counts.update((permutation_of(node), inverse(permutation_of(node))))
        for perm, _ in counts.most_common():
            _permute_regions(editor, transposes, perm)


def _merge(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 1: compute the Transpose `node` of a small constant; merge it with a Transpose before it."""
    value = node.inputs[0]
    array = known(value)
    if array is not None:
        editor.replace(node, editor.constant(np.ascontiguousarray(array.transpose(permutation_of(node)))))
        return
    inner = operation(value, "Transpose")
    if inner is not None:
        _retarget(editor, node, inner.inputs[0], permuted(permutation_of(inner), permutation_of(node)))
    elif not _merge_with_product(editor, node):
        _merge_around_view(editor, node)


def _merge_with_product(editor: GraphEditor, node: ir.Node) -> bool:
    """Rule 1 for `Transpose(a · b)`, which is `Gemm(b, a)` with both transposed; whether it is one."""
    product = operation(node.inputs[0], "MatMul", "Gemm")
    if product is None or not is_read_once(node.inputs[0]) or len(given_operands(product)) != 2:
        return False
    a, b = product.inputs[:2]
    dtype = node.outputs[0].dtype
    if permutation_of(node) != (1, 0) or dtype is None:
        return False
    if any(len(dims_of(x) or ()) != 2 or constant_tensor(x) is not None for x in (a, b)):
        return False
    if not editor.target.supports("Gemm", dtype.numpy(), editor.opset):
        return False
    flags, operands = [], []
    for x, name in ((b, "transB"), (a, "transA")):
        inner = operation(x, "Transpose")
        flags.append(product.attributes.get_int(name, 0) == (inner is not None))
        operands.append(x if inner is None else inner.inputs[0])
    scale = product.attributes.get_float("alpha", 1.0)
    result = editor.before(node).op.Gemm(
        *operands, transA=flags[0] or None, transB=flags[1] or None, alpha=None if scale == 1 else scale,
        dims=labelled(dims_of(node.outputs[0]) or ()),
    )  # fmt: skip
    editor.replace(node, result)
    return True


def _merge_around_view(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 1 where a view that adds or removes axes of size 1 stands between the two Transposes."""
    view = operation(node.inputs[0], "Squeeze", "Unsqueeze", "Reshape")
    inner = operation(view.inputs[0], "Transpose") if view is not None and is_read_once(node.inputs[0]) else None
    if view is None or inner is None or inner.inputs[0] is None:
        return
    before, after = dims_of(inner.inputs[0]), dims_of(node.inputs[0])
    if before is None or after is None:
        return
    order = [axis for axis in permutation_of(inner) if before[axis] != 1]
    places = [place for place, dim in enumerate(after) if dim != 1]
    if not same_dims([before[axis] for axis in order], [after[place] for place in places]):
        return
    axis_at = dict(zip(places, order, strict=True))
    moved = [axis_at[place] for place in permutation_of(node) if place in axis_at]
    builder, kept = editor.before(node), sorted(moved)
    plain = builder.squeeze(inner.inputs[0], [axis for axis, dim in enumerate(before) if dim == 1])
    result = builder.transpose(plain, [kept.index(axis) for axis in moved])
    new = [i for i, place in enumerate(permutation_of(node)) if place not in axis_at]
    editor.replace(node, builder.unsqueeze(result, new))


def _retarget(editor: GraphEditor, node: ir.Node, source: ir.Value | None, perm: Permutation) -> None:
    """Make the Transpose `node` compute `Transpose(source, perm)`, or nothing where that is `source`."""
    assert source is not None
    editor.modified = True
    node.replace_input_with(0, source)
    node.attributes.add(ir.AttrInt64s("perm", perm))
    if perm == tuple(range(len(perm))):
        editor.replace(node, source)


def _permute_regions(editor: GraphEditor, transposes: Iterable[ir.Node], perm: Permutation) -> None:
    """Keep every region at these Transposes permuted by `perm`, where that transposes fewer elements."""
    visited: set[ir.Value] = set()
    for node in transposes:
        source, result = node.inputs[0], node.outputs[0]
        if source is None or node.op_type != "Transpose":
            continue
        for seed, own in ((result, perm), (source, inverse(perm))):
            is_read = is_value_read(result)
            if is_read and permutation_of(node) == own and seed not in visited:
                region = _PermutedNodes(editor, perm)
                region.gather(seed)
                visited.update(region.values)
                if region.nodes and region.gain() > 0:
                    region.permute()


def _cost(dims: tuple[LabelledDim, ...] | None, perm: Permutation) -> int:
    """The elements that `Transpose(x, perm)` moves for x of these dimensions: all, or none where the order stays."""
    return 0 if dims is None or moves_only_ones(dims, perm) else estimated_elements(dims)


@dataclasses.dataclass
class _Readers:
    """The readers outside a region of one of its values.

    Attributes:
      exits: Transposes.
      removing: nodes that remove axes, such as reductions.
      others: all others, each with the place of the operand.
    """

    exits: list[ir.Node]
    removing: list[ir.Node]
    others: list[tuple[ir.Node, int]]


class _PermutedNodes:
    """A connected set of nodes that compute the same on tensors whose axes are permuted.

    Attributes:
      perm: the permutation that values shall be kept by: from the order of axes that they get to the one that they have.
      undo: its inverse.
      values: the operands and results of the nodes that shall be kept permuted.
      nodes: the nodes, each with the places of its operands that are taken permuted.
    """

    def __init__(self, editor: GraphEditor, perm: Permutation) -> None:
        self.editor = editor
        self.perm = perm
        self.undo = inverse(perm)
        self.values: dict[ir.Value, None] = {}
        self.nodes: dict[ir.Node, range] = {}
        self._fitted: dict[ir.Value, ir.Value] = {}
        self._permuted_operands: dict[tuple[ir.Value, bool], ir.Value] = {}

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
        """Add `node`, a neighbour of the value `through`, to the region if it fits; returns the values it brings."""
        if node in self.nodes or node.graph is not self.editor.graph:
            return []
        indices = permutable_inputs(node, self.perm, self.editor.target)
        if indices is None:
            return []
        values = [value for i in indices if (value := node.inputs[i]) is not None and self._can_be_permuted(value)]
        if not values or not any(value is through for value in (*values, *node.outputs)):
            return []
        values += node.outputs
        self.nodes[node] = indices
        return values

    def _can_be_permuted(self, value: ir.Value) -> bool:
        """Whether a value has the rank of the permutation and is no constant, which is permuted when it is read."""
        dims = dims_of(value)
        return dims is not None and len(dims) == len(self.perm) and constant_tensor(value) is None

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
            elif remaining_permutation(user, self.perm) is not None:
                readers.removing.append(user)
            else:
                readers.others.append((user, index))
        return readers

    # What the rewriting would save, in elements transposed.

    def gain(self) -> int:
        """The elements transposed now, minus those transposed with the region permuted."""
        values = sum(
            self._gain_inside(value) if self._made_inside(value) else self._gain_entry(value) for value in self.values
        )
        return values - sum(self._loss_operands(node, indices) for node, indices in self.nodes.items())

    def _gain_inside(self, value: ir.Value) -> int:
        """The elements less to transpose because of a value that the region makes."""
        readers = self._readers(value)
        cost = _cost(dims_of(value), self.perm)
        gain = cost * sum(1 for node in readers.exits if permutation_of(node) == self.undo)
        for node in readers.removing:
            perm = remaining_permutation(node, self.perm)
            assert perm is not None
            gain -= _cost(dims_of(node.outputs[0]), perm)
        return gain - (cost if readers.others or value.is_graph_output() else 0)

    def _gain_entry(self, value: ir.Value) -> int:
        """The elements less to transpose because of a value that is made outside of the region."""
        readers = self._readers(value)
        cost = _cost(dims_of(value), self.perm)
        entry = operation(value, "Transpose")
        if entry is not None and entry.inputs[0] in self.values:
            return -cost
        alone = not (readers.exits or readers.removing or readers.others or value.is_graph_output())
        if entry is not None and permutation_of(entry) == self.perm:
            return cost if alone else 0
        if entry is not None and alone:
            return 0
        undone = sum(1 for node in readers.exits if permutation_of(node) == self.undo)
        return cost * (undone - 1)

    def _loss_operands(self, node: ir.Node, indices: range) -> int:
        """Elements transposed for operands of lower rank that are made outside of the region."""
        loss = 0
        for index in indices:
            value = node.inputs[index]
            if value is not None and value not in self.values and constant_tensor(value) is None:
                loss += _cost(self._full_dims(value), self.perm)
        return loss

    # The rewriting.

    def permute(self) -> None:
        """Keep the values of the region permuted."""
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
            rewrite_axes(self.editor, node, self.perm)
        for value in inside:
            value.shape = ir.Shape(permuted(dims_of(value) or (), self.undo))
        self.editor.permute_contents(inside, self.perm)

    def _enter(self, value: ir.Value) -> ir.Value:
        """`value`, made outside, permuted as the region keeps its own."""
        entry = operation(value, "Transpose")
        source, perm = value, self.undo
        if entry is not None and entry.inputs[0] is not None:
            source, perm = entry.inputs[0], permuted(permutation_of(entry), self.undo)
            self.editor.stand_in(value, source, permutation_of(entry))
        if perm == tuple(range(len(perm))) and not self._made_inside(source):
            return source
        return self._transpose(source, perm)

    def _share_entry(self, value: ir.Value) -> None:
        """Remove Transposes outside of the region whose results it has made for itself."""
        fitted = self._fitted[value]
        for node in self._readers(value).exits:
            if permutation_of(node) == self.undo and node.outputs[0] is not fitted:
                self.editor.replace(node, fitted)

    def _fit_operands(self, node: ir.Node, indices: range) -> None:
        """Replace the operands of `node` that are made outside of the region by those permuted to fit."""
        for index in indices:
            value = node.inputs[index]
            if value is not None and not (value in self.values and self._made_inside(value)):
                node.replace_input_with(index, self._fit(value, facts_of(node.op_type).elementwise is not None))

    def _leave(self, value: ir.Value) -> None:
        """Let the readers of `value` outside of the region, which is about to permute it, read it with its own order of axes."""
        readers = self._readers(value)
        if readers.others or value.is_graph_output():
            own = self._transpose(value, self.perm, permuted(dims_of(value) or (), self.undo))
            self.editor.stand_in(value, own)
            if value.is_graph_output():
                self.editor.hand_over_output(value, own)
            for user, index in readers.others:
                user.replace_input_with(index, own)
        for node in readers.removing:
            self._leave_removing(node)
        for node in readers.exits:
            _retarget(self.editor, node, value, permuted(self.perm, permutation_of(node)))

    def _leave_removing(self, node: ir.Node) -> None:
        """Let a node that removes axes take its operand permuted, and transpose its result back."""
        perm = remaining_permutation(node, self.perm)
        assert perm is not None
        rewrite_axes(self.editor, node, self.perm)
        if perm == tuple(range(len(perm))):
            return
        output = node.outputs[0]
        dims = permuted(dims_of(output) or (), inverse(perm))
        users = output.uses()
        own = self._transpose(output, perm, dims)
        if output.is_graph_output():
            self.editor.hand_over_output(output, own)
        for user, index in users:
            user.replace_input_with(index, own)
        output.shape = ir.Shape(dims)
        self.editor.stand_in(output, own)
        self.editor.set_contents([output])

    def _transpose(self, source: ir.Value, perm: Permutation, dims: tuple[LabelledDim, ...] | None = None) -> ir.Value:
        """`Transpose(source, perm)`; `dims` are those of `source` if they are about to change."""
        result = permuted(dims or dims_of(source) or (), perm)
        return self.editor.after(source).op.Transpose(source, perm=perm, dims=labelled(result))

    def _full_dims(self, value: ir.Value) -> tuple[LabelledDim, ...]:
        """The dimensions of `value` with leading axes of size 1 up to the rank of the permutation."""
        dims = dims_of(value) or ()
        return (1,) * (len(self.perm) - len(dims)) + dims

    def _fit(self, value: ir.Value, broadcasts: bool) -> ir.Value:
        """An operand made outside of the region, permuted to go with values of the region."""
        if value in self._fitted:
            return self._fitted[value]
        key = (value, broadcasts)
        if key not in self._permuted_operands:
            self._permuted_operands[key] = self._permuted_operand(value, broadcasts)
        return self._permuted_operands[key]

    def _permuted_operand(self, value: ir.Value, broadcasts: bool) -> ir.Value:
        """See `_fit`: a constant anew, a view, or a Transpose; without leading axes of size 1 if it broadcasts."""
        own, full = dims_of(value) or (), self._full_dims(value)
        dims = permuted(full, self.undo)
        dims = _trimmed(dims) if broadcasts else dims
        views = moves_only_ones(full, self.undo)
        if all(dim == 1 for dim in full) or (views and dims in (own, _trimmed(own))):
            return value
        tensor = constant_tensor(value)
        if tensor is not None:
            return self.editor.own(_permuted_constant(tensor, full, self.undo, dims), [value])
        builder, view = self.editor.after(value), view_of(own, dims) if views else None
        if view is not None:
            return builder.op(view[0], value, builder.ints(view[1]), dims=labelled(dims))
        return self._transpose(builder.unsqueeze(value, range(len(full) - len(own))), self.undo)


def _trimmed(dims: tuple[LabelledDim, ...]) -> tuple[LabelledDim, ...]:
    """The dimensions without leading ones of size 1."""
    first = next((axis for axis, dim in enumerate(dims) if dim != 1), len(dims))
    return dims[first:]


def _permuted_constant(
    tensor: ir.TensorProtocol, full: tuple[LabelledDim, ...], perm: Permutation, dims: tuple[LabelledDim, ...]
) -> ir.TensorProtocol:
    """The constant `tensor` as of shape `full`, transposed, reshaped to `dims`."""
    shape, result = ir.Shape(full).numpy(), ir.Shape(dims).numpy()
    return computed(lambda a: a.reshape(shape).transpose(perm).reshape(result), [tensor], tensor.dtype, result)
