"""`places_at`: sums over the places that experts have for tokens, of what each expert makes of the tokens at its places."""

from __future__ import annotations

import dataclasses
import math

from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import named_axes, rank_of
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.rows import Rows, operand_rows
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.patterns import operation, scalar

from jax2onnx_fusions.experts._roles import Roles, Sizes, operand_roles
from jax2onnx_fusions.experts._sparsity import KEEP_ZEROS, Holds, Sparsity, sparsity

__all__ = ["Places", "places_at"]

_DEPTH = 24


@dataclasses.dataclass(frozen=True)
class Places:
    """A sum over places: for each token, of what the experts make at each place times the gate of both.

    Attributes:
      gates: [tokens, experts · places], the gates.
      made: [experts · places, features], what the experts make.
      roles: its rows of places, in the place of tokens, and of experts.
      sizes: how many there are.
      sparsity: a bound on the gates of a token that are not zero.
    """

    gates: ir.Value
    made: ir.Value
    roles: Roles
    sizes: Sizes
    sparsity: Sparsity


def places_at(node: ir.Node) -> Places | None:
    """A product [tokens, experts · places] · [experts · places, features] as a sum over places; None where it is none."""
    gates, made = node.inputs[:2]
    view = operation(gates, "Reshape")
    split, dims = dims_of(None if view is None else view.inputs[0]), dims_of(made)
    if gates is None or made is None or split is None or dims is None or len(split) != 3 or len(dims) != 2:
        return None
    experts, places = split[1:]
    if not isinstance(experts, int) or not isinstance(places, int) or (dims_of(gates) or ())[1:] != (experts * places,):
        return None
    bound = _joint(gates, _Axes(Rows(1, (), (places,)), Rows(1, (experts,), ()), experts, places), _DEPTH)
    if bound is None or dims[0] != experts * places:
        return None
    roles = Roles((Rows(0, (experts,), ()),), Rows(0, (), (places,)))
    return Places(gates, made, roles, Sizes((places,), experts), bound)


@dataclasses.dataclass(frozen=True)
class _Axes:
    """The rows of a value that are experts, and those that are places; None where the value is the same for all of them."""

    experts: Rows | None
    places: Rows | None
    count: int
    capacity: int

    def of_operand(self, node: ir.Node, index: int) -> _Axes | None:
        """Those of an operand; None where a row depends on other rows."""
        found = []
        for rows in (self.experts, self.places):
            own = None if rows is None else operand_rows(node, rows)
            if rows is not None and (own is None or len(own) <= index):
                return None
            found.append(None if own is None else own[index])
        return dataclasses.replace(self, experts=found[0], places=found[1])


def _joint(value: ir.Value | None, axes: _Axes | None, depth: int) -> Sparsity | None:
    """A bound on the elements that are not zero, of all places of all experts."""
    if value is None or axes is None or not depth:
        return None
    if axes.experts is None or axes.places is None:
        return None
    node = value.producer()
    if node is None or node.domain:
        return None
    if facts_of(node.op_type).is_view or node.op_type in KEEP_ZEROS:
        return _joint(node.inputs[0], axes.of_operand(node, 0), depth - 1)
    match node.op_type:
        case "Greater" if scalar(node.inputs[1]) == 0:
            return _joint(node.inputs[0], axes.of_operand(node, 0), depth - 1)
        case "Mul" | "And":
            return _product(node, axes, depth)
        case "MatMul":
            return _matmul(node, axes)
        case "ReduceSum" | "ReduceMax":
            return _reduction(node, axes, depth)
    return None


def _product(node: ir.Node, axes: _Axes, depth: int) -> Sparsity | None:
    """Of factors, the least bound; of one that differs by expert and one that differs by place, the product of theirs."""
    found, by_expert, by_place = list[Sparsity](), list[Sparsity](), list[Sparsity]()
    for index, operand in enumerate(node.inputs):
        own = axes.of_operand(node, index)
        if own is None:
            return None
        if own.experts is not None and own.places is not None:
            found += _present(_joint(operand, own, depth - 1))
        elif own.experts is not None:
            by_expert += _present(sparsity(operand, own.experts, own.count))
        elif own.places is not None:
            by_place += _present(sparsity(operand, own.places, own.capacity))
    found += [_times(one, other) for one in by_expert for other in by_place]
    best = min(found, key=lambda one: (one.bound, one.holds), default=None)
    if best is None or node.op_type == "And":
        return best
    return best.at_best(Holds.IF_FINITE)


def _present(found: Sparsity | None) -> list[Sparsity]:
    return [] if found is None else [found]


def _times(one: Sparsity, other: Sparsity) -> Sparsity:
    return Sparsity(one.bound * other.bound, max(one.holds, other.holds))


def _matmul(node: ir.Node, axes: _Axes) -> Sparsity | None:
    """Sums of products of a column of experts and a row of places."""
    roles = operand_roles(node, Roles((axes.places,), axes.experts))
    dims = dims_of(node.inputs[0])
    if roles is None or dims is None or not isinstance(dims[-1], int):
        return None
    found: list[Sparsity] = []
    for operand, own in zip(node.inputs, roles, strict=True):
        (places,), experts = own.tokens, own.expert
        if experts is not None and places is None:
            found += _present(sparsity(operand, experts, axes.count))
        elif places is not None and experts is None:
            found += _present(sparsity(operand, places, axes.capacity))
    if len(found) != 2:
        return None
    return Sparsity(math.prod(one.bound for one in found) * dims[-1], Holds.IF_FINITE)


def _reduction(node: ir.Node, axes: _Axes, depth: int) -> Sparsity | None:
    """Of so many tables together, each element may come from another one."""
    rank, dims = rank_of(node.inputs[0]), dims_of(node.inputs[0])
    reduced = None if rank is None else named_axes(node, rank)
    found = _joint(node.inputs[0], axes.of_operand(node, 0), depth - 1)
    if reduced is None or dims is None or found is None:
        return None
    sizes = [dims[axis] for axis in reduced]
    if not all(isinstance(size, int) for size in sizes):
        return None
    return Sparsity(found.bound * math.prod(size for size in sizes if isinstance(size, int)), found.holds)
