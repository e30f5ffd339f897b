"""`ExpertSubgraph`: the nodes that experts compute from tokens, each token and each expert by itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import axis_of, named_axes
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.values import LabelledDim, constant_tensor, dims_of

from jax2onnx_fusions.experts._expert_axes import ExpertAxes, Sizes, operand_axes

__all__ = ["ExpertSubgraph", "Factor", "Refused", "Step", "is_weight"]

_Dims = tuple[LabelledDim, ...]
_MOST_VALUES = 200


@dataclasses.dataclass(frozen=True)
class Factor:
    """One operand of a matrix product."""

    index: int
    contracted: int
    columns: int


@dataclasses.dataclass(frozen=True)
class Step:
    """A node of the subgraph, with the axes of its first result and of its operands."""

    node: ir.Node
    roles: ExpertAxes
    operands: list[ExpertAxes]


class Refused(Exception):  # noqa: N818 - no error: a reason, for the user
    """The subgraph cannot be computed by pairs; the text says why."""


def _factors(step: Step, is_weight: Sequence[bool]) -> tuple[Factor, Factor]:
    """The operand of a MatMul or Gemm that is no weight, and the other one, which is. Raises Refused."""
    node = step.node
    ranks = [len(dims_of(value) or ()) for value in node.inputs[:2]]
    flips = [node.attributes.get_int(name, 0) if node.op_type == "Gemm" else 0 for name in ("transA", "transB")]
    left = Factor(0, ranks[0] - 1 - flips[0], ranks[0] - 2 + flips[0])
    right = Factor(1, ranks[1] - 2 + flips[1], ranks[1] - 1 - flips[1])
    if all(is_weight) or not any(is_weight):
        raise Refused(f"both operands of a {node.op_type} differ by token")
    return (right, left) if is_weight[0] else (left, right)


def is_weight(value: ir.Value | None) -> bool:
    """Whether a value is an input of the graph, a constant, or a view of one."""
    while value is not None and (node := value.producer()) is not None and constant_tensor(value) is None:
        if node.domain or not (facts_of(node.op_type).is_view or node.op_type in ("Cast", "Transpose")):
            return False
        value = node.inputs[0]
    return True


class ExpertSubgraph:
    """The nodes of one graph between tokens and the results of experts; what graphs around it compute is a leaf.

    Attributes:
      sizes: the numbers of tokens and experts.
      steps: the nodes in order, by the result of each that is read.
      leaves: values from outside that differ by token or by expert, with their axes.
      weights: the elements of the weights that differ by expert.
      products: the number of products with weights that differ by expert.
    """

    def __init__(
        self, graph: ir.Graph | ir.Function | None, sizes: Sizes, inside: Collection[ir.Node] | None = None
    ) -> None:
        self._graph, self.sizes, self._inside = graph, sizes, inside
        self.steps: dict[ir.Node, Step] = {}
        self.leaves: dict[ir.Value, ExpertAxes] = {}
        self.weights, self.products = 0, 0
        self._expert_axes: dict[ir.Value, ExpertAxes] = {}
        self._outside = set[ir.Value]()

    def add(self, value: ir.Value, roles: ExpertAxes) -> None:
        """Add a value and the nodes that compute it. Raises Refused."""
        if self._expert_axes.setdefault(value, roles) != roles:
            raise Refused("a value is read in two arrangements")
        node = value.producer()
        if roles.is_plain or (node is not None and node in self.steps) or value in self.leaves:
            return
        if node is None or value in self._outside or not self._is_inside(node, roles):
            self._add_leaf(value, roles)
            return
        if len(self._expert_axes) > _MOST_VALUES:
            raise Refused("an expert has too many nodes")
        operands = operand_axes(node, roles)
        if operands is None:
            raise Refused(f"{node.op_type} computes tokens or experts of each other")
        self.add_step(Step(node, roles, operands))

    def add_step(self, step: Step) -> None:
        """Add a node and those that compute its operands. Raises Refused."""
        for operand, own in zip(step.node.inputs, step.operands, strict=True):
            if operand is not None:
                self.add(operand, own)
        self._check(step)
        self.steps[step.node] = step

    def add_gates(self, value: ir.Value) -> None:
        """Take a value from outside, whatever computes it."""
        self._outside.add(value)

    def _is_inside(self, node: ir.Node, roles: ExpertAxes) -> bool:
        if node.graph is not self._graph:
            return False
        if self._inside is not None:
            return node in self._inside
        if not self.sizes.tokens:
            return not is_weight(node.outputs[0])
        return roles.has_tokens and roles.expert is not None

    def differs(self, roles: ExpertAxes) -> bool:
        """Whether a value differs by pair: by token, or by expert where there is one token."""
        return roles.has_tokens or (not self.sizes.tokens and roles.expert is not None)

    def factors(self, step: Step) -> tuple[Factor, Factor]:
        """The operand of a MatMul or Gemm that is computed of tokens, and the other one, which is a weight. Raises Refused."""
        if self.sizes.tokens:
            return _factors(step, [not roles.has_tokens for roles in step.operands[:2]])
        by_expert = [roles.expert is not None for roles in step.operands[:2]]
        weights = [value in self.leaves and own for value, own in zip(step.node.inputs[:2], by_expert, strict=True)]
        return _factors(step, weights if any(weights) else [not own for own in by_expert])

    def others(self, value: ir.Value | None, roles: ExpertAxes) -> dict[int, int]:
        """The axes of a value that are left without tokens and experts, with their sizes. Raises Refused."""
        dims = dims_of(value)
        found = None if dims is None else roles.others(dims, self.sizes)
        if found is None:
            raise Refused("an axis of an expert has a size that is not known")
        return found

    def _add_leaf(self, value: ir.Value, roles: ExpertAxes) -> None:
        self.others(value, roles)
        is_by_pair = roles.own_axes is not None
        is_by_token = roles.has_all_tokens and roles.expert is None
        if roles.has_tokens and not is_by_pair and not (is_by_token and self._in_order(value, roles)):
            raise Refused("tokens are in several arrangements")
        self.leaves[value] = roles

    def _in_order(self, value: ir.Value, roles: ExpertAxes) -> bool:
        """Whether the axes of tokens have nothing else merged with them, and lie in order where they are merged."""
        before: _Dims = ()
        for number, rows in enumerate(roles.tokens):
            assert rows is not None
            merged = number and (previous := roles.tokens[number - 1]) is not None and previous.axis == rows.axis
            before = (*before, self.sizes.tokens[number - 1]) if merged else ()
            if rows.outer != size_of(before):
                return False
        others = self.others(value, roles)
        return not any(rows is not None and rows.axis in others for rows in roles.tokens)

    def _check(self, step: Step) -> None:
        """Check that `RoutedComputation` can compute the node. Raises Refused."""
        node, facts = step.node, facts_of(step.node.op_type)
        for output in node.outputs:
            self.others(output, step.roles)
        for operand, roles in zip(node.inputs, step.operands, strict=True):
            if operand is not None:
                self.others(operand, roles)
        if node.op_type in ("MatMul", "Gemm"):
            self._check_product(step)
        elif node.op_type == "Expand":
            if 0 in self.others(node.outputs[0], step.roles).values():
                raise Refused("an axis is empty")
        elif (
            facts.elementwise is None
            and not facts.is_view
            and node.op_type != "Transpose"
            and not self._names_other_axes(step)
        ):
            raise Refused(f"{node.op_type} is not computed for each token by itself, as far as is known")

    def _check_product(self, step: Step) -> None:
        data, weight = self.factors(step)
        values = step.node.inputs
        own = self.others(values[data.index], step.operands[data.index])
        weights = self.others(values[weight.index], step.operands[weight.index])
        if step.node.op_type == "Gemm" and any(step.node.attributes.get_float(n, 1.0) != 1 for n in ("alpha", "beta")):
            raise Refused("a Gemm scales its operands")
        rest = [size for axis, size in own.items() if axis != data.contracted]
        extra = [size for axis, size in weights.items() if axis not in (weight.contracted, weight.columns)]
        by_expert = step.operands[weight.index].expert is not None
        if data.contracted not in own or math.prod(extra) != 1:
            raise Refused("a product has other axes than tokens and features")
        if math.prod(rest) != 1 and (by_expert or data.index == 1):
            raise Refused("a token has several rows of features")
        if by_expert:
            self.weights += self.sizes.experts * math.prod(weights.values())
            self.products += 1
        elif self._inside is not None:
            self.weights += math.prod(weights.values())
            self.products += 1

    def _names_other_axes(self, step: Step) -> bool:
        """Whether a node computes along an axis that it names, which is no axis of tokens or experts."""
        node, facts = step.node, facts_of(step.node.op_type)
        dims = dims_of(node.inputs[0]) or ()
        own = self.others(node.inputs[0], step.operands[0])
        by_token = [self.differs(roles) for roles in step.operands]
        if node.op_type == "Concat":
            return all(by_token) and axis_of(node, len(dims)) in own
        if not by_token[0] or any(roles.has_tokens or roles.expert is not None for roles in step.operands[1:]):
            return False
        axes = named_axes(node, len(dims)) if facts.axes_input is not None else None
        if facts.axis is not None and facts.indices_input is None:
            axes = [axis_of(node, len(dims))]
        if axes is None:
            return False
        taken = {rows.axis for rows in (*step.operands[0].tokens, step.operands[0].expert) if rows is not None}
        return not taken.intersection(axes)
