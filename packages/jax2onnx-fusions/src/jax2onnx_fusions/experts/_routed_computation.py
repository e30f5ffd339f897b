"""`RoutedComputation`: the computation of experts for the routed pairs of a token and an expert only."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.build.grouped import grouped_product, split_rows
from jax2onnx_graph.facts.axes import axis_of, named_axes, rank_of
from jax2onnx_graph.facts.dims import Dims
from jax2onnx_graph.facts.operators import Elementwise, facts_of
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.values import LabelledDim, constant_tensor, dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.patterns import permutation_of
from jax2onnx_graph.weights.absent import computed

from jax2onnx_fusions.experts._expert_axes import ExpertAxes, token_count
from jax2onnx_fusions.experts._expert_subgraph import ExpertSubgraph, Factor, Step

__all__ = ["PairIndices", "RoutedComputation"]


@dataclasses.dataclass(frozen=True)
class PairIndices:
    """Pairs of a token and an expert, those of the first expert first.

    Attributes:
      tokens: int64[pairs], the token of each.
      experts: int64[pairs], the expert of each.
      lengths: int64[experts], how many pairs each expert has.
      count: the number of pairs; without a label where it depends on numbers.
      own_slots: int64[pairs], where tokens are slots of an expert: the number of each pair among all slots of all experts.
    """

    tokens: ir.Value
    experts: ir.Value
    lengths: ir.Value
    count: LabelledDim
    own_slots: ir.Value | None = None


class RoutedComputation:
    """Writes the nodes of an expert subgraph for some pairs.

    In each value the pairs are the first axis, followed by those axes that are neither tokens nor experts, in their order.
    """

    def __init__(self, editor: GraphEditor, at: InsertionPoint, region: ExpertSubgraph, indices: PairIndices) -> None:
        self.editor, self.at, self.region, self.indices = editor, at, region, indices
        self._values: dict[ir.Value, ir.Value] = {}
        self._runs: dict[ir.Value, Sequence[ir.Value]] = {}
        self._others: dict[ir.Value, tuple[int, ...]] = {}

    def given(self, value: ir.Value, roles: ExpertAxes, pairs: ir.Value) -> None:
        """Take `pairs` for a value of the subgraph."""
        self._values[value] = self._known(pairs, self.region.others(value, roles).values())

    def _known(self, pairs: ir.Value, others: Iterable[int]) -> ir.Value:
        """Remember which axes pairs have behind the first."""
        self._others[pairs] = tuple(others)
        return pairs

    def compute(self) -> None:
        """Write all nodes of the subgraph."""
        for step in self.region.steps.values():
            if step.node.op_type in ("MatMul", "Gemm"):
                self._values[step.node.outputs[0]] = self._product(step)
            elif facts_of(step.node.op_type).elementwise is not None:
                self._values[step.node.outputs[0]] = self._elementwise(step)
            elif facts_of(step.node.op_type).is_view:
                others = self.region.others(step.node.outputs[0], step.roles).values()
                self._values[step.node.outputs[0]] = self._reshaped(self.operand(step, 0), [*others])
            elif step.node.op_type == "Expand":
                self._values[step.node.outputs[0]] = self._expanded(step)
            elif step.node.op_type == "Transpose":
                self._values[step.node.outputs[0]] = self._transposed(step)
            else:
                self._along_axis(step)

    def operand(self, step: Step, index: int) -> ir.Value:
        """The pairs of an operand of a node that differs by token or expert."""
        value, roles = step.node.inputs[index], step.operands[index]
        assert value is not None
        return self.value(value, roles)

    def value(self, value: ir.Value, roles: ExpertAxes) -> ir.Value:
        """The pairs of a value that differs by token or expert."""
        if value not in self._values:
            if roles.has_tokens and roles.expert is not None:
                source, indices = self._pairs_first(value, roles)
            elif roles.has_tokens:
                source, indices = self._tokens_first(value, roles), self.indices.tokens
            else:
                source, indices = self._experts_first(value, roles), self.indices.experts
            others = [*self.region.others(value, roles).values()]
            taken = self.at.op.Gather(source, indices, axis=0, dims=self._dims(others))
            self._values[value] = self._known(taken, others)
        return self._values[value]

    def _dims(self, others: Iterable[int]) -> Dims:
        """The dimensions of pairs."""
        return labelled((self.indices.count, *others))

    def _reshaped(self, pairs: ir.Value, others: Sequence[int]) -> ir.Value:
        """Pairs with other axes behind the first."""
        if self._others[pairs] == tuple(others):
            return pairs
        return self._known(self.at.op.Reshape(pairs, self.at.ints([-1, *others]), dims=self._dims(others)), others)

    def _tokens_first(self, value: ir.Value, roles: ExpertAxes) -> ir.Value:
        """[tokens, …]: a value whose axes of tokens are merged to the first one."""
        others = self.region.others(value, roles)
        tokens = dict.fromkeys(rows.axis for rows in roles.tokens if rows is not None)
        moved = self.at.transpose(value, [*tokens, *others])
        if len(tokens) == 1:
            return moved
        count = token_count(self.region.sizes.tokens)
        dims = labelled((count, *others.values()))
        return self.at.op.Reshape(moved, self.at.ints([-1, *others.values()]), dims=dims)

    def _experts_first(self, value: ir.Value, roles: ExpertAxes) -> ir.Value:
        """[experts, …]: a value with its axis of experts in front."""
        split, perm, dims = self._expert_axes(value, roles, [*self.region.others(value, roles)])
        return self.at.reshape(self.at.transpose(self.at.reshape(value, split), perm), dims)

    def _pairs_first(self, value: ir.Value, roles: ExpertAxes) -> tuple[ir.Value, ir.Value]:
        """A value that has axes of both, [tokens · experts, …] or [experts · slots, …], and the number of each pair in it."""
        others, sizes = self.region.others(value, roles), self.region.sizes
        tokens = [rows.axis for rows in roles.tokens if rows is not None]
        assert roles.expert is not None
        order = [*tokens, roles.expert.axis]
        if self.indices.own_slots is not None:
            order.reverse()
        moved = self.at.transpose(value, [*order, *others])
        dims = labelled((size_of([*sizes.tokens, sizes.experts]).dim, *others.values()))
        pairs = self.at.op.Reshape(moved, self.at.ints([-1, *others.values()]), dims=dims)
        return pairs, self._own_pairs if self.indices.own_slots is None else self.indices.own_slots

    @functools.cached_property
    def _own_pairs(self) -> ir.Value:
        """The number of each pair among all pairs of a token and an expert."""
        experts = self.at.constant(self.region.sizes.experts, like=self.indices.tokens)
        return self.at.op.Add(self.at.op.Mul(self.indices.tokens, experts), self.indices.experts)

    def _expert_axes(
        self, value: ir.Value, roles: ExpertAxes, order: Sequence[int]
    ) -> tuple[list[int], list[int], list[int]]:
        """The reshape and permutation that bring the experts of a value to the front: split shape, permutation, final shape.

        Args:
          value: the value.
          roles: its roles.
          order: the axes that are left, in the order that they get.
        """
        rows, dims = roles.expert, [int(dim) for dim in dims_of(value) or () if isinstance(dim, int)]
        assert rows is not None
        outer, inner = rows.outer.number, rows.inner.number
        assert outer is not None and inner is not None, "weights have known sizes"
        split = [*dims[: rows.axis], outer, self.region.sizes.experts, inner, *dims[rows.axis + 1 :]]
        places = {axis: [axis + 2 * (axis > rows.axis)] for axis in range(len(dims))}
        places[rows.axis] = [rows.axis, rows.axis + 2]
        expert = rows.axis + 1
        perm = [expert, *(place for axis in order for place in places[axis])]
        perm += [place for place in range(len(split)) if place not in perm]  # of size 1
        others = self.region.others(value, roles)
        return split, perm, [self.region.sizes.experts, *(others[axis] for axis in order)]

    # -- operators ------------------------------------------------------------------------------

    def _aligned(self, step: Step, index: int) -> ir.Value:
        """An operand that is broadcast to the other axes of the result."""
        node, roles = step.node, step.operands[index]
        value = node.inputs[index]
        assert value is not None
        rank, own = len(dims_of(node.outputs[0]) or ()), dims_of(value) or ()
        others, sizes = self.region.others(value, roles), []
        for axis in self.region.others(node.outputs[0], step.roles):
            place = axis - rank + len(own)
            if place >= 0 or not roles.is_plain:
                sizes.append(others.get(place, 1))
        if roles.is_plain:
            return value if not own else self.at.reshape(value, sizes)
        return self._reshaped(self.value(value, roles), sizes)

    def _elementwise(self, step: Step) -> ir.Value:
        node = step.node
        if facts_of(node.op_type).elementwise is Elementwise.UNARY:
            inputs: list[ir.Value | None] = [self.operand(step, 0), *node.inputs[1:]]
        else:
            inputs = [None if v is None else self._aligned(step, i) for i, v in enumerate(node.inputs)]
        return self._variant(step, inputs)

    def _variant(self, step: Step, inputs: Sequence[ir.Value | None]) -> ir.Value:
        """The node with other operands; its result has the other axes of the original's."""
        others = [*self.region.others(step.node.outputs[0], step.roles).values()]
        (value,) = self.at.emit(step.node.op_type, inputs, "", 1, None, self._dims(others), attribute_values(step.node))
        return self._known(value, others)

    def _expanded(self, step: Step) -> ir.Value:
        aligned = self._aligned(step, 0)
        others = [*self.region.others(step.node.outputs[0], step.roles).values()]
        if self._others[aligned] == tuple(others):
            return aligned
        return self._known(self.at.op.Expand(aligned, self.at.ints([1, *others]), dims=self._dims(others)), others)

    def _transposed(self, step: Step) -> ir.Value:
        before = [*self.region.others(step.node.inputs[0], step.operands[0])]
        perm = permutation_of(step.node)
        after = [before.index(perm[axis]) + 1 for axis in self.region.others(step.node.outputs[0], step.roles)]
        if after == sorted(after):
            return self.operand(step, 0)
        others = [*self.region.others(step.node.outputs[0], step.roles).values()]
        moved = self.at.op.Transpose(self.operand(step, 0), perm=[0, *after], dims=self._dims(others))
        return self._known(moved, others)

    def _along_axis(self, step: Step) -> None:
        """A node that computes along axes that it names."""
        node, facts = step.node, facts_of(step.node.op_type)
        dims = dims_of(node.inputs[0]) or ()
        own = [*self.region.others(node.inputs[0], step.operands[0])]
        attributes = attribute_values(node)
        inputs = [value if roles.is_plain or value is None else self.value(value, roles)
                  for value, roles in zip(node.inputs, step.operands, strict=True)]  # fmt: skip
        if facts.axis is not None:
            attributes["axis"] = own.index(axis_of(node, len(dims))) + 1
        elif facts.axes_input is not None:
            places = [own.index(axis) + 1 for axis in named_axes(node, len(dims)) or ()]
            inputs += [None] * (facts.axes_input + 1 - len(inputs))
            is_scalar = rank_of(inputs[facts.axes_input]) == 0  # the axis of a CumSum
            inputs[facts.axes_input] = self.at.constant(places[0], np.int64) if is_scalar else self.at.ints(places)
        results = self.at.emit(node.op_type, inputs, "", len(node.outputs), None, None, attributes)
        for old, new in zip(node.outputs, results, strict=True):
            others = self.region.others(old, step.roles)
            self.at.set_dims(new, self._dims(others.values()))
            self._values[old] = self._known(new, others.values())

    # -- products -------------------------------------------------------------------------------

    def _product(self, step: Step) -> ir.Value:
        """A product with a weight, of each expert's pairs with its own where it differs by expert."""
        data, weight = self.region.factors(step)
        node = step.node
        others = self.region.others(node.outputs[0], step.roles)
        inner = self.region.others(node.inputs[data.index], step.operands[data.index])[data.contracted]
        if step.operands[weight.index].expert is not None:
            rows = self._reshaped(self._rows(step, data.index, inner), [inner])
            product = self._by_expert(step, weight, rows)
        else:
            rows, matrix = self.operand(step, data.index), self._plain_matrix(step, weight)
            columns = self.at.known_dims(matrix)[-1]
            assert isinstance(columns, int)
            product = self._known(self.at.op.MatMul(rows, matrix), (*self._others[rows][:-1], columns))
        product = self._reshaped(product, [*others.values()])
        if len(node.inputs) > 2 and node.inputs[2] is not None:
            return self._known(self.at.op.Add(product, self._aligned(step, 2)), others.values())
        return product

    def _rows(self, step: Step, index: int, inner: int) -> ir.Value:
        """The operand of a product that is no weight; where it is the same for all experts of one token, a row for each pair."""
        value = step.node.inputs[index]
        assert value is not None
        if not step.operands[index].is_plain:
            return self.operand(step, index)
        if value not in self._values:
            row = self.at.op.Reshape(value, self.at.ints([1, inner]), dims=(1, inner))
            taken = self.at.op.Gather(row, self.indices.tokens, axis=0, dims=self._dims([inner]))
            self._values[value] = self._known(taken, [inner])
        return self._values[value]

    def _plain_matrix(self, step: Step, weight: Factor) -> ir.Value:
        """[contracted, columns]: a weight that all experts share."""
        value = step.node.inputs[weight.index]
        assert value is not None
        dims = [dim for dim in dims_of(value) or () if isinstance(dim, int)]
        rest = [axis for axis in range(len(dims)) if axis not in (weight.contracted, weight.columns)]
        moved = self.at.transpose(value, [*rest, weight.contracted, weight.columns])
        return self.at.reshape(moved, (dims[weight.contracted], dims[weight.columns]))

    def _by_expert(self, step: Step, weight: Factor, rows: ir.Value) -> ir.Value:
        """The product of each expert's pairs with its matrix."""
        if rows not in self._runs:
            self._runs[rows] = split_rows(self.at, rows, self.indices.lengths, self.region.sizes.experts)
        runs = self._runs[rows]
        value, roles = step.node.inputs[weight.index], step.operands[weight.index]
        assert value is not None
        split, perm, dims = self._expert_axes(value, roles, [axis for axis in (weight.contracted, weight.columns)
                                                             if axis in self.region.others(value, roles)])  # fmt: skip
        matrices = (dims[1], math.prod(dims[2:]))
        tensor = constant_tensor(value)
        if tensor is None:
            stacked = self.at.reshape(self.at.transpose(self.at.reshape(value, split), perm), (dims[0], *matrices))
            products = grouped_product(self.at, runs, stacked, self.indices.lengths)
        else:
            how = ".transposed" if weight.contracted > weight.columns else ""
            products = [self.at.op.MatMul(run, self._matrix(value, tensor, split, perm, matrices, expert, how))
                        for expert, run in enumerate(runs)]  # fmt: skip
        joined = self.at.op.Concat(*products, axis=0, dims=self._dims([matrices[1]]))
        return self._known(joined, [matrices[1]])

    def _matrix(
        self, value: ir.Value, tensor: ir.TensorProtocol, split: Sequence[int], perm: Sequence[int], shape: tuple[int, int], expert: int,
        how: str,
    ) -> ir.Value:  # fmt: skip
        """The constant matrix of an expert."""

        def taken(array: Array) -> Array:
            return np.ascontiguousarray(array.reshape(split).transpose(perm)[expert].reshape(shape))

        return self.editor.derived(value, computed(taken, [tensor], tensor.dtype, shape), f"{expert}{how}")
