"""`SinkSelections`: selections of rows move towards the inputs, so that only selected rows are computed."""

from __future__ import annotations

__all__ = ["SinkSelections"]

import dataclasses
import heapq
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.axes import axis_of, named_axes, rank_of
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.sizes import estimated_elements, size_of
from jax2onnx_graph.facts.sub_axes import SubAxis, operand_sub_axes
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.passes.structural.merge_reshapes import become_view, view_of
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass, Phase

_Dims = tuple[LabelledDim, ...]


class SinkSelections(GraphPass):
    """Move selections of rows up through nodes that compute each row by itself, so that only those rows are computed.

    1. A *selection* takes rows along one axis: a Slice of one axis; a Gather of a vector of indices or of one, which may be
       known at run time only; a GatherND that takes rows per batch. Those of equal indices move together.
    2. They move up through nodes whose rows depend on the same rows of operands (`facts.sub_axes`), to all operands that have
       the axis. Each is read by such nodes and by these selections alone, and no output of the graph.
    3. They move where this makes the work smaller: fewer elements computed, counted with the selections themselves.
    4. A selection that drops the axis keeps it on the way, with size 1; a Squeeze drops it in its place.
    """

    phase = Phase.FINISH

    def rewrite_graph(self, editor: GraphEditor) -> None:
        groups: dict[tuple[object, ...], list[_Selection]] = {}
        for node in editor.nodes():
            found = _selection(node)
            if found is not None:
                groups.setdefault(found.key, []).append(found)
        order: Mapping[ir.Node, int] = {}
        for selections in groups.values():
            order = order or {node: position for position, node in enumerate(editor.graph)}
            sinkable = _SinkableNodes(editor, selections, order)
            sinkable.gather()
            if sinkable.gain() > 0:
                sinkable.apply()
                order = {}


@dataclasses.dataclass(frozen=True)
class _Selection:
    """A node that takes some rows of its first operand.

    Attributes:
      node: the node.
      axis: the axis of the operand.
      drops: whether the result has lost the axis; one row is taken then.
      batch: the number of leading axes along which the indices differ.
    """

    node: ir.Node
    axis: int
    drops: bool = False
    batch: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """A key that selections of the same rows share."""
        bounds = (
            [*self.node.inputs[1:3], *self.node.inputs[4:]] if self.node.op_type == "Slice" else self.node.inputs[1:]
        )
        return self.node.op_type, self.batch, self.drops, self.rows, *bounds

    @property
    def source(self) -> _Dims:
        """The dimensions of the operand."""
        return dims_of(self.node.inputs[0]) or ()

    @property
    def rows(self) -> LabelledDim:
        """The number of rows of the result."""
        dims = dims_of(self.node.outputs[0])
        return 1 if self.drops or dims is None else dims[self.axis]

    def takes(self, dims: _Dims, rows: SubAxis) -> bool:
        """Whether these rows of a tensor of these dimensions are selected by the same indices."""
        return not self.batch or rows.before(dims) == tuple(size_of([dim]) for dim in self.source[: self.batch])


def _selection(node: ir.Node) -> _Selection | None:
    """The node as a selection that leaves fewer rows; None if it is none."""
    if node.domain or node.op_type not in ("Slice", "Gather", "GatherND") or dims_of(node.outputs[0]) is None:
        return None
    rank = rank_of(node.inputs[0])
    found = None if rank is None else _read(node, rank)
    return found if found is not None and _leaves_fewer(found) else None


def _leaves_fewer(selection: _Selection) -> bool:
    """Whether a selection certainly takes no more rows than there are, and fewer as far as sizes are known."""
    rows, before = selection.rows, selection.source[selection.axis]
    is_bounded = selection.node.op_type == "Slice" or rows == 1 or (isinstance(rows, int) and isinstance(before, int))
    return is_bounded and estimated_elements([rows]) < estimated_elements([before])


def _read(node: ir.Node, rank: int) -> _Selection | None:
    if node.op_type == "Slice":
        axes = named_axes(node, rank)
        return _Selection(node, axes[0]) if axes is not None and len(axes) == 1 else None
    indices = dims_of(node.inputs[1])
    if indices is None:
        return None
    if node.op_type == "Gather":
        return _Selection(node, axis_of(node, rank), drops=not indices) if len(indices) < 2 else None
    batch = node.attributes.get_int("batch_dims", 0)
    extra = len(indices) - batch
    if not batch or extra not in (1, 2) or indices[-1] != 1:
        return None
    return _Selection(node, batch, drops=extra == 1, batch=batch)


class _SinkableNodes:
    """The nodes whose results are only read by selections of the same rows, directly or through each other.

    Attributes:
      nodes: the nodes, each with the rows of its results and those of its operands.
    """

    def __init__(self, editor: GraphEditor, selections: Sequence[_Selection], order: Mapping[ir.Node, int]) -> None:
        self.editor, self.order = editor, order
        self.selections = {selection.node: selection for selection in selections}
        self.one = selections[0]
        self.nodes: dict[ir.Node, tuple[SubAxis, Sequence[SubAxis | None]]] = {}
        self._banned: set[ir.Node] = set()
        self._operands: list[ir.Value | None] = []
        self._taken: dict[tuple[ir.Value, SubAxis], ir.Value] = {}

    def gather(self) -> None:
        """Collect the nodes, without those whose operands would need selections of rows that are merged into an axis."""
        self._collect()
        while torn := {user for user, _, rows in self._entries() if not rows.is_whole}:
            self._banned |= torn
            self._collect()

    def _collect(self) -> None:
        """Collect the nodes, readers first, so that all readers of a value are known when it is looked at."""
        self.nodes = {}
        waiting: list[int] = []
        found: dict[int, ir.Node] = {}

        def visit(value: ir.Value | None) -> None:
            node = None if value is None else value.producer()
            if node is None or node not in self.order or node in self.selections or node in self._banned:
                return
            if self.order[node] not in found:
                found[self.order[node]] = node
                heapq.heappush(waiting, -self.order[node])

        for node in self.selections:
            visit(node.inputs[0])
        while waiting:
            node = found[-heapq.heappop(waiting)]
            rows = self._rows_read(node)
            operands = None if rows is None else operand_sub_axes(node, rows)
            if rows is None or operands is None or not self._fits(node, rows, operands):
                continue
            self.nodes[node] = rows, operands
            for value, taken in zip(node.inputs, operands, strict=True):
                if taken is not None:
                    visit(value)

    def _rows_read(self, node: ir.Node) -> SubAxis | None:
        """The rows of the node's results that all readers take; None if readers take different ones."""
        if any(output.is_graph_output() for output in node.outputs):
            return None
        read = {self._rows_read_by(user, index) for output in node.outputs for user, index in output.uses()}
        return read.pop() if len(read) == 1 else None

    def _rows_read_by(self, user: ir.Node, index: int) -> SubAxis | None:
        if user in self.nodes:
            return self.nodes[user][1][index]
        return SubAxis(self.selections[user].axis) if user in self.selections and index == 0 else None

    def _fits(self, node: ir.Node, rows: SubAxis, operands: Sequence[SubAxis | None]) -> bool:
        """Whether the rows can be taken of the operands, and the node be written for them."""
        if facts_of(node.op_type).per_axis_inputs:  # they hold sizes, which would be others
            return False
        if all(taken is None for taken in operands):  # the node makes the rows, as a Concat of x [1] and x does
            return False
        values = [*zip(node.inputs, operands, strict=True), *((output, rows) for output in node.outputs)]
        for value, taken in values:
            dims = dims_of(value)
            if taken is not None and (
                dims is None or not self.one.takes(dims, taken) or self._dims(dims, taken) is None
            ):
                return False
        if facts_of(node.op_type).is_view:
            return self._view(node, rows, operands) is not None
        return not self.one.batch or all(self._keeps_rows(node, axis, operands) for axis in range(rows.axis))

    def _keeps_rows(self, node: ir.Node, axis: int, operands: Sequence[SubAxis | None]) -> bool:
        """Whether the node computes each index along an axis of the batch from the same index of the operands whose rows are taken."""
        along = operand_sub_axes(node, SubAxis(axis))
        return along is not None and all(
            own == SubAxis(axis) for own, taken in zip(along, operands, strict=True) if taken is not None
        )

    def _dims(self, dims: _Dims, rows: SubAxis | None) -> _Dims | None:
        """The dimensions with the selected rows alone."""
        if rows is None:
            return dims
        merged = (rows.outer * size_of([self.one.rows]) * rows.inner).dim
        is_known = isinstance(merged, int) or merged.value is not None
        return (*dims[: rows.axis], merged, *dims[rows.axis + 1 :]) if is_known else None

    def _dims_of(self, value: ir.Value | None, rows: SubAxis | None) -> _Dims:
        """The dimensions of a value with the selected rows alone."""
        return self._dims(dims_of(value) or (), rows) or ()

    def _view(self, node: ir.Node, rows: SubAxis, operands: Sequence[SubAxis | None]) -> tuple[str, list[int]] | None:
        """The operator and operand that make the selected rows of a view from the selected rows of its operand; see `view_of`."""
        return view_of(self._dims_of(node.inputs[0], operands[0]), self._dims_of(node.outputs[0], rows))

    # What the rewriting would save, in elements computed.

    def gain(self) -> int:
        """The work now, minus that on the selected rows alone."""
        made = {(value, rows): None for _, value, rows in self._entries()}
        kept = [
            (v, SubAxis(s.axis))
            for n, s in self.selections.items()
            if (v := n.inputs[0]) and v.producer() not in self.nodes
        ]
        call = self.editor.threshold(Threshold.OPERATOR_CALL)
        before = sum(estimated_elements(dims_of(node.outputs[0]) or ()) + call for node in self.selections)
        after = sum(estimated_elements(self._dims_of(value, rows)) + call for value, rows in (*made, *kept))
        if self.one.drops:  # a Squeeze for each in place of the selection, an Unsqueeze of indices that are computed
            index = self.one.node.inputs[1]
            views = len(self.selections) - len(kept) + (index is not None and known(index) is None)
            after += views * call
        return before - after + sum(map(self._saved, self.nodes))

    def _entries(self) -> Iterator[tuple[ir.Node, ir.Value, SubAxis]]:
        """The operands from outside of the sinkable nodes whose rows are to be taken: reader, operand, rows."""
        for node, (_, operands) in self.nodes.items():
            for value, rows in zip(node.inputs, operands, strict=True):
                if value is not None and rows is not None and value.producer() not in self.nodes:
                    yield node, value, rows

    def _saved(self, node: ir.Node) -> int:
        rows, operands = self.nodes[node]
        if facts_of(node.op_type).is_view:
            return 0
        values = [*zip(node.inputs, operands, strict=True), (node.outputs[0], rows)]
        before = [estimated_elements(dims_of(value) or ()) for value, _ in values]
        after = [estimated_elements(self._dims_of(value, taken)) for value, taken in values]
        if facts_of(node.op_type).is_matrix_product and len(before) > 2:  # m·k·n of [m, k], [k, n] and [m, n]
            return math.isqrt(before[0] * before[1] * before[-1]) - math.isqrt(after[0] * after[1] * after[-1])
        return before[-1] - after[-1]

    # The rewriting.

    def apply(self) -> None:
        """Select the rows of operands from outside of the sinkable nodes, and let its nodes compute these rows alone."""
        self._prepare()
        for node in sorted(self.nodes, key=self._place):
            self._take_rows(node)
        # One selection may read another, which is replaced first.
        served = [
            (node, value) for node in self.selections if (value := node.inputs[0]) and value.producer() in self.nodes
        ]
        for node, value in served:
            if self.selections[node].drops:
                self.editor.put(node, "Squeeze", [value, self.editor.ints([self.selections[node].axis])])
            else:
                self.editor.replace(node, value)

    def _prepare(self) -> None:
        """Write the bounds or indices of the selections in the form that keeps the axis, and move the nodes behind them."""
        node = self.one.node
        self._operands = list(node.inputs[1:])
        values = [value for value in self._operands if value is not None]
        makers = [maker for v in values if (maker := v.producer()) is not None and maker in self.order]
        last = max(makers, key=self._place, default=None)
        early = [
            one
            for one in sorted(self.nodes, key=self._place)
            if last is not None and self._place(one) < self._place(last)
        ]
        if self.one.drops:
            self._operands, last = self._unsqueezed(node.inputs[1], last)
        if last is not None and early:
            self.editor.move_after(last, early)

    def _unsqueezed(
        self, index: ir.Value | None, maker: ir.Node | None
    ) -> tuple[list[ir.Value | None], ir.Node | None]:
        """The indices of a selection that drops the axis as those of one that keeps it, and the node that makes them."""
        assert index is not None, "Gather has indices"
        number = known(index)
        if number is not None:
            return [self.editor.constant(np.expand_dims(number, self.one.batch))], maker
        after = self.editor.after(index, maker or self.one.node)
        result = after.op.Unsqueeze(index, self.editor.ints([self.one.batch]))
        return [result], None if maker is None else result.producer()

    def _place(self, node: ir.Node) -> int:
        return self.order[node]

    def _take_rows(self, node: ir.Node) -> None:
        rows, operands = self.nodes[node]
        view = self._view(node, rows, operands) if facts_of(node.op_type).is_view else None
        for index, (value, taken) in enumerate(zip(node.inputs, operands, strict=True)):
            if value is not None and taken is not None and value.producer() not in self.nodes:
                node.replace_input_with(index, self._selected(value, taken, node))
        for output in node.outputs:
            output.shape = ir.Shape(self._dims_of(output, rows))
        self.editor.set_contents(node.outputs)
        if view is not None:
            become_view(self.editor, node, node.inputs[0], view)

    def _selected(self, value: ir.Value, rows: SubAxis, reader: ir.Node) -> ir.Value:
        """The selected rows of a value, taken before its first reader."""
        if (value, rows) not in self._taken:
            op, dims = self.editor.before(reader).op, labelled(self._dims_of(value, rows))
            match self.one.node.op_type:
                case "Slice":
                    starts, ends, *rest = self._operands
                    taken = op.Slice(value, starts, ends, self.editor.ints([rows.axis]), *rest[1:], dims=dims)
                case "Gather":
                    taken = op.Gather(value, self._operands[0], axis=rows.axis, dims=dims)
                case _:
                    taken = op.GatherND(value, self._operands[0], batch_dims=self.one.batch, dims=dims)
            self._taken[value, rows] = taken
        return self._taken[value, rows]
