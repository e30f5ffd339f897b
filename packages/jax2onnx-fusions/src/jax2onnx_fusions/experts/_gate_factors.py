"""`gate_factor`: the gates that a value has as a factor, so that it is zero where they are."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from jax2onnx_graph import ir
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.sub_axes import SubAxis
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.patterns import scalar

from jax2onnx_fusions.experts._expert_axes import ExpertAxes, Sizes, operand_axes
from jax2onnx_fusions.experts._sparsity import KEEP_ZEROS, sparsity

__all__ = ["GateFactor", "factors", "gate_factor"]

_MOST_NODES = 24


@dataclasses.dataclass(frozen=True)
class GateFactor:
    """Gates that are a factor of a value.

    Attributes:
      value: the gates, of which few are other than zero for a token.
      axes: their axes of tokens and, last, of experts.
    """

    value: ir.Value
    axes: tuple[int, ...]


def gate_factor(value: ir.Value, roles: ExpertAxes, sizes: Sizes) -> GateFactor | None:
    """Find the gates, the same for all features of a token, such that a value of finite factors is zero where they are.

    Args:
      value: the value.
      roles: its axes of tokens and experts.
      sizes: the numbers of tokens and experts.
    """
    found = (_gates(one, own, sizes) for one, own in factors(value, roles))
    return next((gates for gates in found if gates is not None), None)


def factors(value: ir.Value, roles: ExpertAxes) -> Iterator[tuple[ir.Value, ExpertAxes]]:
    """Yield values with their axes of tokens and experts, so that a value of finite factors is zero for a token and expert if one of them is.

    Each has all the axes that `roles` has: what lacks one is not computed of gates that differ along it.
    """
    waiting, seen = [(value, roles)], set[ir.Node]()
    for one, own in waiting:
        node = one.producer()
        if node is None or node in seen or len(seen) >= _MOST_NODES:
            continue
        seen.add(node)
        for operand, of_operand in zip(node.inputs, operand_axes(node, own) or [], strict=False):
            if operand is not None and of_operand.missing == roles.missing and _is_factor(node, operand):
                yield operand, of_operand
                waiting.append((operand, of_operand))


def _is_factor(node: ir.Node, operand: ir.Value) -> bool:
    """Whether the result of a node is zero where an operand is, if all numbers are finite."""
    match node.op_type:
        case "Mul" | "MatMul":
            return True
        case "Where":
            return scalar(node.inputs[2]) == 0
        case "Div":
            return operand is node.inputs[0]
    return facts_of(node.op_type).is_view or node.op_type in KEEP_ZEROS


def _gates(value: ir.Value, roles: ExpertAxes, sizes: Sizes) -> GateFactor | None:
    """A value as gates, if it differs by token and expert alone, and few of a token are other than zero."""
    dims, axes = dims_of(value), roles.own_axes
    others = None if dims is None else roles.others(dims, sizes)
    if axes is None or others is None or math.prod(others.values()) != 1:
        return None
    return None if sparsity(value, SubAxis(axes[-1]), sizes.experts) is None else GateFactor(value, axes)
