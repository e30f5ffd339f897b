"""`BatchExpertProducts`: the equal operators of experts run once on the rows of all, and products of the same rows are joined."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.build.grouped import split_rows
from jax2onnx_graph.facts.axes import axis_of, named_axes
from jax2onnx_graph.facts.dims import Dims
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.values import LabelledDim, constant_tensor, dims_of, known
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase
from jax2onnx_graph.rewrite.patterns import is_read_once
from jax2onnx_graph.weights.absent import computed

from jax2onnx_fusions.experts.select_capacity_slots import SelectCapacitySlots
from jax2onnx_fusions.experts.select_expert_terms import SelectExpertTerms
from jax2onnx_fusions.experts.select_experts import SelectExperts

__all__ = ["BatchExpertProducts"]

_FEWEST = 4  # runs
_KEEP_ROWS = ("Reshape", "ReduceSum")
_Runs = tuple[ir.Value, ...]


@dataclasses.dataclass(frozen=True)
class _Group:
    """Nodes of the same operator, one for each run; `operands` has the values of all nodes for each operand."""

    nodes: tuple[ir.Node, ...]
    operands: tuple[tuple[ir.Value | None, ...], ...]

    @property
    def first(self) -> ir.Node:
        return self.nodes[0]

    @property
    def made(self) -> _Runs:
        return tuple(node.outputs[0] for node in self.nodes)


@dataclasses.dataclass(frozen=True)
class _Found:
    """The operators that compute the runs of rows of a Split.

    Attributes:
      lengths: the numbers of rows of the runs.
      rows: the number of rows of all runs together.
      whole: all rows of the runs that a Split makes, by the first of its runs.
      groups: the operators, one group for those that are alike in all runs.
      joins: the nodes that put runs together.
      splits: the runs that a Split makes.
    """

    lengths: ir.Value
    rows: LabelledDim
    whole: dict[ir.Value, ir.Value]
    groups: list[_Group]
    joins: list[tuple[ir.Node, _Runs]]
    splits: list[_Runs]

    def joined(self) -> set[ir.Value | None]:
        """The first run of each set of runs that is concatenated, or read by an operator of all rows."""
        readers = [operand[0] for group in self.groups if _is_joined(group, self) for operand in group.operands]
        return {*readers, *(runs[0] for _, runs in self.joins)}


class BatchExpertProducts(NodePass[_Found]):
    """Equal operators on the runs of a Split by unknown lengths become one operator on all rows, as where experts have runs of tokens.

    1. Nodes of the same operator, one for each run, end in a Concat of all runs in their order, and nothing else reads them.
    2. Elementwise operators, and sums and views that keep the rows, are computed of all rows at once, where their other operands are
       such runs or the same for all.
    3. Products of the same run with several constant matrices, which nothing else reads, are one product, whose columns are split
       after the runs are put together. The matrices are stored joined, and not a second time.
    4. Biases of each run, and rows that are gathered for it, stay nodes of the run.
    """

    phase = Phase.FUSE
    operators = frozenset({"Split"})
    after = (SelectExperts, SelectExpertTerms, SelectCapacitySlots)
    forms = "Equal operators for the rows of each expert"

    def match(self, node: ir.Node, editor: GraphEditor) -> _Found | None:
        found = _Reader(node).found() if _is_by_lengths(node) else None
        if found is None:
            return None
        pays = any(_is_joined(group, found) for group in found.groups) or any(
            len(beside) > 1 for beside in _side_by_side(found.groups)
        )
        return found if pays else None

    def rewrite(self, node: ir.Node, match: _Found, editor: GraphEditor) -> None:
        _Writer(editor, match).write()


def _is_by_lengths(node: ir.Node) -> bool:
    """Whether a node splits the first axis by lengths that it computes."""
    rank = len(dims_of(node.inputs[0]) or ())
    has_lengths = len(node.inputs) > 1 and node.inputs[1] is not None and constant_tensor(node.inputs[1]) is None
    return has_lengths and len(node.outputs) >= _FEWEST and rank > 0 and axis_of(node, rank) == 0


# -- reading ------------------------------------------------------------------------------------


class _Reader:
    """Follows runs from a Split to where they are put together."""

    def __init__(self, split: ir.Node) -> None:
        self._split = split
        outputs = split.outputs
        self._has_rest = len(outputs[-1].uses()) != len(outputs[0].uses()) or _operators(outputs[-1]) != _operators(
            outputs[0]
        )
        self._count = len(outputs) - self._has_rest
        self._whole: dict[ir.Value, ir.Value] = {}
        self._runs: dict[ir.Value, _Runs] = {}
        self._groups: dict[ir.Node, _Group] = {}
        self._joins: dict[ir.Node, _Runs] = {}

    def found(self) -> _Found | None:
        """The operators that compute the runs; None where other nodes read them."""
        source, lengths = self._split.inputs[:2]
        if source is None or lengths is None or self._count < _FEWEST:
            return None
        for reader, _ in lengths.uses():
            if reader.op_type == "Split" and len(reader.outputs) == len(self._split.outputs) and _is_by_lengths(reader):
                self._add_split(reader)
        waiting, size = list[ir.Value](), -1
        while len(self._runs) + len(self._joins) != size:  # a node of several runs waits until all of them are known
            size = len(self._runs) + len(self._joins)
            waiting = [*self._readers()]
        groups, joins = [*self._groups.values()], [*self._joins.items()]
        if {*waiting}.intersection(group.made[0] for group in groups) or not joins:
            return None
        if self._has_rest and (
            any(runs[0] in self._whole for _, runs in joins)
            or any(group.first.op_type != "MatMul" or group.operands[0][0] not in self._whole for group in groups)
        ):
            return None  # what is split has rows of the rest too
        rows = ir.SymbolicDim(None) if self._has_rest else (dims_of(source) or ())[0]
        return _Found(lengths, rows, self._whole, groups, joins, [self._runs[first] for first in self._whole])

    def _add_split(self, split: ir.Node) -> None:
        runs = (*split.outputs[: self._count],)
        if split.inputs[0] is not None:
            self._runs[runs[0]], self._whole[runs[0]] = runs, split.inputs[0]

    def _readers(self) -> Iterator[ir.Value]:
        """Add the readers of all runs, and yield the first of the runs that are results, or whose readers are not understood."""
        for first, runs in [*self._runs.items()]:
            every = [[*value.uses()] for value in runs]
            if any(value.is_graph_output() for value in runs):
                yield first
            if any(len(uses) != len(every[0]) for uses in every):
                yield first
                continue
            for uses in zip(*every, strict=True):
                if not self._add(runs, [user for user, _ in uses]):
                    yield first

    def _add(self, runs: _Runs, nodes: Sequence[ir.Node]) -> bool:
        first = nodes[0]
        if first in self._groups:
            return self._groups[first].nodes == tuple(nodes)
        if first.op_type == "Concat" and not first.domain:
            is_join = axis_of(first, len(dims_of(runs[0]) or (0,))) == 0 and (*first.inputs[: len(runs)],) == runs
            if is_join and len(first.inputs) - len(runs) == self._has_rest:
                self._joins[first] = runs
            return first in self._joins
        group = self._group(nodes)
        if group is None:
            return False
        self._groups[first], self._runs[group.made[0]] = group, group.made
        return True

    def _group(self, nodes: Sequence[ir.Node]) -> _Group | None:
        """Read nodes as a group, if they are alike and compute each row by itself."""
        first = nodes[0]
        if any(not _are_alike(first, node) for node in nodes) or len({*nodes}) != len(nodes):
            return None
        group = _Group((*nodes,), (*zip(*(node.inputs for node in nodes), strict=True),))
        dims = [dims_of(value) for value in group.made]
        if any(own is None or not own or not _same_sizes(own[1:], (dims[0] or ())[1:]) for own in dims):
            return None
        return group if self._is_by_row(group) else None

    def _is_by_row(self, group: _Group) -> bool:
        is_run = [operand[0] is not None and self._runs.get(operand[0]) == operand for operand in group.operands]
        if group.first.op_type == "MatMul":
            return is_run == [True, False] and _are_matrices(group.operands[1])
        if group.first.op_type == "Gather":
            return (
                is_run == [False, True]
                and axis_of(group.first, 1) == 0
                and len(dims_of(group.operands[1][0]) or ()) == 1
            )
        if group.first.op_type in _KEEP_ROWS:
            return is_run == [True, False] and _keeps_rows(group.first) and _are_same(group.operands[1])
        if facts_of(group.first.op_type).elementwise is None:
            return False
        rank = len(dims_of(group.made[0]) or ())
        return any(is_run) and all(
            len(dims_of(operand[0]) or ()) == rank
            if of_runs
            else all(_is_for_each_row(value, rank) for value in operand)
            for operand, of_runs in zip(group.operands, is_run, strict=True)
        )


def _operators(value: ir.Value) -> list[str]:
    return [user.op_type for user, _ in value.uses()]


def _are_alike(one: ir.Node, other: ir.Node) -> bool:
    same = (one.op_type, one.domain, len(one.inputs)) == (other.op_type, other.domain, len(other.inputs))
    is_one = len(one.outputs) == len(other.outputs) == 1 and not one.domain
    return same and is_one and attribute_values(one) == attribute_values(other)


def _keeps_rows(node: ir.Node) -> bool:
    """Whether a Reshape keeps the first axis, or a ReduceSum sums up others alone."""
    before, after = dims_of(node.inputs[0]), dims_of(node.outputs[0])
    if before is None or after is None or not all(isinstance(dim, int) for dim in before[1:]):
        return False
    if node.op_type == "ReduceSum":
        axes = named_axes(node, len(before))
        return bool(axes) and 0 not in (axes or ())
    shape = known(node.inputs[1])
    sizes = [math.prod(dim for dim in dims[1:] if isinstance(dim, int)) for dims in (before, after)]
    return shape is not None and shape[0] == -1 and 0 not in shape and sizes[0] == sizes[1]


def _same_sizes(one: Sequence[LabelledDim], other: Sequence[LabelledDim]) -> bool:
    """Whether two shapes are equal, and numbers."""
    return all(isinstance(dim, int) for dim in one) and [*one] == [*other]


def _are_matrices(values: Sequence[ir.Value | None]) -> bool:
    """Whether values are matrices of one shape, and all of them constants."""
    dims = [dims_of(value) for value in values]
    is_same = all(own is not None and len(own) == 2 and _same_sizes(own, dims[0] or ()) for own in dims)
    return is_same and all(constant_tensor(value) is not None for value in values)


def _is_for_each_row(value: ir.Value | None, rank: int) -> bool:
    """Whether a value is the same for each row of a tensor of this rank."""
    if value is None:
        return True
    dims = dims_of(value)
    is_known = dims is not None and all(isinstance(dim, int) for dim in dims)
    return dims is not None and is_known and (len(dims) < rank or (len(dims) == rank and dims[0] == 1))


def _are_same(operand: Sequence[ir.Value | None]) -> bool:
    return all(value is operand[0] for value in operand)


def _is_joined(group: _Group, found: _Found) -> bool:
    """Whether a group is computed of all rows at once."""
    runs = {*found.whole, *(one.made[0] for one in found.groups)}
    is_by_row = group.first.op_type in _KEEP_ROWS or facts_of(group.first.op_type).elementwise is not None
    return is_by_row and all(operand[0] in runs or _are_same(operand) for operand in group.operands)


def _side_by_side(groups: Sequence[_Group]) -> list[list[_Group]]:
    """The groups of products, those of the same rows whose matrices may be joined together."""
    found: dict[tuple[ir.Value | None, ir.DataType | None], list[_Group]] = {}
    alone: list[list[_Group]] = []
    for group in groups:
        if group.first.op_type != "MatMul":
            continue
        rows, matrices = group.operands
        if all(is_read_once(matrix) for matrix in matrices if matrix is not None):
            found.setdefault((rows[0], None if matrices[0] is None else matrices[0].dtype), []).append(group)
        else:
            alone.append([group])
    return [*found.values(), *alone]


# -- writing ------------------------------------------------------------------------------------


class _Writer:
    """Writes the groups in the order of the graph, each in front of the last node that it replaces."""

    def __init__(self, editor: GraphEditor, found: _Found) -> None:
        self._editor, self._found = editor, found
        self._whole = dict(found.whole)
        self._parts: dict[ir.Value, Sequence[ir.Value]] = {runs[0]: runs for runs in found.splits}
        self._beside = {group.first: beside for beside in _side_by_side(found.groups) for group in beside}
        self._written: set[ir.Node] = set()

    def write(self) -> None:
        """Write all groups, and discard the nodes that they replace."""
        place = {node: number for number, node in enumerate(self._editor.nodes())}
        last = {group.first: max(group.nodes, key=place.__getitem__) for group in self._found.groups}
        groups = sorted(self._found.groups, key=lambda group: place[last[group.first]])
        for group in groups:
            if group.first not in self._written:
                self._group(self._editor.before(last[group.first]), group)
        for node, runs in self._found.joins:
            at, dims = self._editor.before(node), labelled(dims_of(node.outputs[0]) or ())
            rest, whole = node.inputs[len(runs) :], self._whole[runs[0]]
            self._editor.replace(node, at.op.Concat(whole, *rest, axis=0, dims=dims) if rest else whole)
        for group in reversed(groups):
            for one in group.nodes:
                self._editor.discard(one)

    def _group(self, at: InsertionPoint, group: _Group) -> None:
        beside = self._beside.get(group.first, [group])
        self._written.update(one.first for one in beside)
        if len(beside) > 1:
            self._products(at, beside)
        elif _is_joined(group, self._found):
            inputs = [None if v[0] is None else self._whole.get(v[0], v[0]) for v in group.operands]
            self._whole[group.made[0]] = at.variant(group.first, inputs, dims=self._dims(group))
        else:
            self._for_each_run(at, group)

    def _dims(self, group: _Group, columns: int | None = None) -> Dims:
        """The dimensions of the result of a group for all rows."""
        others = (dims_of(group.made[0]) or ())[1:]
        return labelled((self._found.rows, *(others if columns is None else (*others[:-1], columns))))

    def _for_each_run(self, at: InsertionPoint, group: _Group) -> None:
        """A node for each run, as before."""
        parts = [self._of_runs(at, operand) for operand in group.operands]
        made = []
        for node, inputs in zip(group.nodes, zip(*parts, strict=True), strict=True):
            made.append(at.variant(node, inputs, dims=labelled(dims_of(node.outputs[0]) or ())))
        self._parts[group.made[0]] = made
        if group.made[0] in self._found.joined():
            self._whole[group.made[0]] = at.op.Concat(*made, axis=0, dims=self._dims(group))

    def _of_runs(self, at: InsertionPoint, operand: Sequence[ir.Value | None]) -> Sequence[ir.Value | None]:
        """The values of an operand for each run."""
        first = operand[0]
        if first is None or (first not in self._parts and first not in self._whole):
            return operand
        if first not in self._parts:
            self._parts[first] = split_rows(at, self._whole[first], self._found.lengths, len(operand))
        return self._parts[first]

    def _products(self, at: InsertionPoint, beside: Sequence[_Group]) -> None:
        """The products of each run with several matrices as one, whose columns are split for all runs at once."""
        runs = self._of_runs(at, beside[0].operands[0])
        sizes = [_expert_gates(group) for group in beside]
        matrices = zip(*(group.operands[1] for group in beside), strict=True)
        inner = (dims_of(beside[0].made[0]) or ())[1:-1]
        made = []
        for run, own in zip(runs, matrices, strict=True):
            matrix = self._side_by_side([value for value in own if value is not None], sum(sizes))
            made.append(at.op.MatMul(run, matrix, dims=labelled((ir.SymbolicDim(None), *inner, sum(sizes)))))
        whole = at.op.Concat(*made, axis=0, dims=self._dims(beside[0], sum(sizes)))
        parts = at.op.several("Split", whole, at.ints(sizes), outputs=len(sizes), axis=len(inner) + 1)
        for group, part, columns in zip(beside, parts, sizes, strict=True):
            at.set_dims(part, self._dims(group, columns))
            self._whole[group.made[0]] = part

    def _side_by_side(self, matrices: Sequence[ir.Value], columns: int) -> ir.Value:
        """Constant matrices, [k, n] each, as one."""
        tensors = [tensor for tensor in map(constant_tensor, matrices) if tensor is not None]
        first, dims = matrices[0], dims_of(matrices[0]) or ()

        def joined(*arrays: Array) -> Array:
            return np.concatenate(arrays, axis=1)

        tensor = computed(joined, tensors, tensors[0].dtype, (int(str(dims[0])), columns))
        return self._editor.derived(first, tensor, "_".join(["beside", *(str(other.name) for other in matrices[1:])]))


def _expert_gates(group: _Group) -> int:
    """The columns of the matrices of a group of products."""
    return int(str((dims_of(group.operands[1][0]) or ())[1]))
