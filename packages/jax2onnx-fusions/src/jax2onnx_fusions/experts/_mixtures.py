"""`mixtures_at`: sums over experts of their results, weighted or selected by gates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import named_axes, rank_of
from jax2onnx_graph.facts.axis_maps import axis_maps
from jax2onnx_graph.facts.sizes import product, size_of
from jax2onnx_graph.facts.sub_axes import SubAxis
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim, same_dims
from jax2onnx_graph.rewrite.editor import InsertionPoint, labelled
from jax2onnx_graph.rewrite.patterns import operation, scalar

from jax2onnx_fusions.experts._expert_axes import ExpertAxes, Sizes, operand_axes, token_count
from jax2onnx_fusions.experts._expert_subgraph import Step, is_weight
from jax2onnx_fusions.experts._gate_factors import gate_factor
from jax2onnx_fusions.experts._routing import GateUse

__all__ = ["Mixture", "gates_by_token", "mixtures_at"]

_Dims = tuple[LabelledDim, ...]


@dataclasses.dataclass(frozen=True)
class Mixture:
    """A sum over experts: for each token, the result of each expert times its gate.

    Attributes:
      gates: the gates; booleans where they select what counts.
      gate_axes: their axes of tokens and, last, of experts.
      made: the results of the experts.
      roles: its axes of tokens and experts.
      sizes: the numbers of tokens and experts.
      start: the initial value of the sum; None for zero.
      is_gated: whether gates are factors of what the results are computed from, so that those are zero where the gates are.
      product: the product that sums over experts and features at once, if it is one; `made` is its result.
    """

    gates: ir.Value
    gate_axes: tuple[int, ...]
    made: ir.Value
    roles: ExpertAxes
    sizes: Sizes
    start: ir.Value | None = None
    is_gated: bool = False
    product: Step | None = None

    @property
    def use(self) -> GateUse:
        """Where the gates are booleans, a result which is not selected does not count even if it is NaN."""
        if self.is_gated:
            return GateUse.WITHIN
        return GateUse.SELECT if self.gates.dtype == ir.DataType.BOOL else GateUse.WEIGH


def mixtures_at(node: ir.Node) -> list[Mixture]:
    """The ways to read a node as a sum over experts whose result has the axes of tokens in front, either operand as the gates."""
    if node.op_type == "MatMul":
        return [*_of_product(node), *_of_one_token(node), *_of_contraction(node)]
    if node.op_type == "Scan":
        return _of_scan(node)
    rank = rank_of(node.inputs[0])
    axes = None if rank is None else named_axes(node, rank)
    return [] if axes is None or len(axes) != 1 else _of_sum(node.inputs[0], axes[0])


def _of_product(node: ir.Node) -> list[Mixture]:
    """[tokens…, 1, experts] · [tokens…, experts, features], or the other way round."""
    left, right = (dims_of(value) for value in node.inputs)
    if left is None or right is None or len(left) < 3 or not same_dims(left[:-2], right[:-2]):
        return []
    rank, experts = len(left), left[-1]
    if not isinstance(experts, int):
        return []
    tokens, found = tuple(range(rank - 2)), []
    for gates, made, is_one, axes in ((0, 1, left[-2], (rank - 1, rank - 2)), (1, 0, right[-1], (rank - 2, rank - 1))):
        if is_one == 1:
            found.append(
                _mixture(node.inputs[gates], (*tokens, axes[0]), node.inputs[made], (tokens, axes[1]), experts)
            )
    return [one for one in found if one is not None]


def _of_one_token(node: ir.Node) -> list[Mixture]:
    """[1, experts] · [1, experts, features], or the other way round: nothing differs by token."""
    left, right = (dims_of(value) for value in node.inputs)
    if left is None or right is None or min(len(left), len(right)) < 2 or not isinstance(left[-1], int):
        return []
    found = []
    for gates, made, own, other, axes in ((0, 1, left, right, (-1, -2)), (1, 0, right, left, (-2, -1))):
        gate, expert = len(own) + axes[0], len(other) + axes[1]
        if _are_ones(own, gate) and all(dim == 1 for dim in other[:-2]):
            found.append(_mixture(node.inputs[gates], (gate,), node.inputs[made], ((), expert), left[-1]))
    return [one for one in found if one is not None]


def _of_contraction(node: ir.Node) -> list[Mixture]:
    """[tokens…, experts · features] · [experts · features, columns], where gates are factors of the left operand.

    Of one token it may be [columns, experts · features] · [experts · features, 1], too.
    """
    dims, found = [dims_of(value) or () for value in node.inputs], list[Mixture]()
    if dims[0] and len(dims[1]) == 2 and is_weight(node.inputs[1]):
        lead = range(len(dims[0]) - 1)
        tokens = [axis for axis in lead if dims[0][axis] != 1] or lead
        found += _contracted(node, 0, (len(lead), 0), tokens)
    if len(dims[0]) == 2 and dims[1][1:] == (1,) and is_weight(node.inputs[0]):
        found += _contracted(node, 1, (0, 1), [])
    return found


def _contracted(node: ir.Node, index: int, axes: tuple[int, int], places: Sequence[int]) -> Iterator[Mixture]:
    """The mixtures that a product is, if the axis that it sums over has experts.

    Args:
      node: the product.
      index: the operand that is no weight.
      axes: the axis of this operand that is summed over, and that of the weight.
      places: the axes of tokens, of this operand and of the result.
    """
    data, dims = node.inputs[index], dims_of(node.inputs[index]) or ()
    assert data is not None
    tokens = ExpertAxes(tuple(SubAxis(axis) for axis in places), None)
    merged = _merged_axes(data, axes[0])
    operands = operand_axes(node, tokens) if merged else None
    for expert in [] if operands is None else merged:
        sizes = Sizes(tuple(dims[axis] for axis in places), _count(dims[axes[0]], expert))
        own = [dataclasses.replace(roles, expert=dataclasses.replace(expert, axis=axes[place != index]))
               for place, roles in enumerate(operands or [])]  # fmt: skip
        gated = _gated(data, own[index], node.outputs[0], tokens, sizes)
        if gated is not None:
            yield dataclasses.replace(gated, product=Step(node, tokens, own))


def _merged_axes(value: ir.Value | None, axis: int) -> list[SubAxis]:
    """The axes of known sizes above 1 that the view which makes a value merges into one of its axes."""
    view = operation(value, "Reshape", "Flatten", "Squeeze")
    maps = None if view is None else axis_maps(view)
    group = () if maps is None else maps.results[0][axis]
    sizes = [one.size for one in group]
    return [SubAxis(axis, product(sizes[:i]), product(sizes[i + 1 :]))
            for i, size in enumerate(sizes) if len(sizes) > 1 and (size.number or 0) > 1]  # fmt: skip


def _count(dim: LabelledDim, rows: SubAxis) -> int:
    """The size of an axis that is merged with others into one of the size `dim`."""
    size = size_of([dim]).divided_by(rows.outer * rows.inner)
    assert size is not None and size.number is not None, "the sizes divide each other"
    return size.number


def _gated(value: ir.Value, roles: ExpertAxes, made: ir.Value, of_made: ExpertAxes, sizes: Sizes) -> Mixture | None:
    """The mixture of what is computed from a value that has gates as factors; None where it has none."""
    gates = gate_factor(value, roles, sizes)
    if gates is None:
        return None
    return Mixture(gates.value, gates.axes, made, of_made, sizes, is_gated=True)


def _are_ones(dims: _Dims, axis: int) -> bool:
    """Whether all dimensions but one are 1."""
    return all(dim == 1 for place, dim in enumerate(dims) if place != axis)


def _of_sum(summed: ir.Value | None, axis: int) -> list[Mixture]:
    """The sum over the experts' axis of a product with gates, or of a Where that selects."""
    terms, dims, pairs = operation(summed, "Mul", "Where"), dims_of(summed), list[Sequence[ir.Value | None]]()
    if summed is None or dims is None:
        return []
    if terms is not None and (terms.op_type == "Mul" or scalar(terms.inputs[2]) == 0):
        pairs = [terms.inputs[:2], terms.inputs[1::-1]] if terms.op_type == "Mul" else [terms.inputs[:2]]
    found = [_weighted(gates, made, dims, axis) for gates, made in pairs]
    return [one for one in (*found, _summed(summed, dims, axis)) if one is not None]


def _summed(value: ir.Value, dims: _Dims, expert: int) -> Mixture | None:
    """The sum over experts of results that are computed from factors which are gates: all axes but the last are tokens."""
    experts, places = dims[expert], [axis for axis in range(len(dims)) if axis != expert][:-1]
    if not isinstance(experts, int):
        return None
    roles = ExpertAxes(tuple(SubAxis(axis) for axis in places), SubAxis(expert))
    return _gated(value, roles, value, roles, Sizes(tuple(dims[axis] for axis in places), experts))


def _of_scan(node: ir.Node) -> list[Mixture]:
    """The sum that a Scan computes by adding one term in each step to its carry."""
    body, scanned = node.attributes["body"].as_graph(), node.attributes["num_scan_inputs"].as_int()
    if scanned != 1 or len(body.outputs) != 1 or "scan_input_axes" in node.attributes:
        return []
    add = operation(body.outputs[0], "Add")
    if add is None or {*add.inputs} != {*body.inputs} or not same_dims(*(dims_of(value) for value in body.inputs)):
        return []
    return [dataclasses.replace(one, start=node.inputs[0]) for one in _of_sum(node.inputs[1], 0)]


def _weighted(gates: ir.Value | None, made: ir.Value | None, dims: _Dims, expert: int) -> Mixture | None:
    """The sum of a product along one of the axes `dims`."""
    own, experts = dims_of(gates), dims[expert]
    if own is None or not same_dims(dims_of(made), dims) or not isinstance(experts, int):
        return None
    missing = len(dims) - len(own)
    if expert >= missing and own[expert - missing] == experts and _are_ones(own, expert - missing):
        return _mixture(gates, (expert - missing,), made, ((), expert), experts)
    aligned = (*(1 for _ in range(missing)), *own)
    tokens = tuple(axis for axis in range(len(dims)) if axis != expert and same_dim(aligned[axis], dims[axis]))
    others = [axis for axis in range(len(dims)) if axis != expert and axis not in tokens]
    if any(aligned[axis] != 1 for axis in others) or not same_dim(aligned[expert], experts):
        return None
    if max(tokens, default=-1) > min(others, default=-1):
        return None
    gate_axes = tuple(axis - missing for axis in (*tokens, expert))
    return None if min(gate_axes) < 0 else _mixture(gates, gate_axes, made, (tokens, expert), experts)


def _mixture(
    gates: ir.Value | None,
    gate_axes: tuple[int, ...],
    made: ir.Value | None,
    axes: tuple[tuple[int, ...], int],
    experts: int,
) -> Mixture | None:
    dims = dims_of(made)
    if gates is None or made is None or dims is None:
        return None
    tokens, expert = axes
    roles = ExpertAxes(tuple(SubAxis(axis) for axis in tokens), SubAxis(expert))
    return Mixture(gates, gate_axes, made, roles, Sizes(tuple(dims[axis] for axis in tokens), experts))


def gates_by_token(at: InsertionPoint, mixture: Mixture) -> ir.Value:
    """[tokens, experts]: the gates."""
    dims = dims_of(mixture.gates) or ()
    ones = [axis for axis in range(len(dims)) if axis not in mixture.gate_axes]
    gates = at.transpose(mixture.gates, [*mixture.gate_axes, *ones])
    tokens = token_count(mixture.sizes.tokens)
    known = labelled((tokens, mixture.sizes.experts))
    return at.op.Reshape(gates, at.ints([-1, mixture.sizes.experts]), dims=known)
