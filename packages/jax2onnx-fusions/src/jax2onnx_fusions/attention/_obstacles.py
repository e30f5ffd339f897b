"""The node that keeps two products around a softmax from being read as attention, for the report."""

from __future__ import annotations

__all__ = ["obstacle"]

from collections.abc import Callable, Iterator

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.rewrite.patterns import other_operand, scalar

from jax2onnx_fusions.attention._formula import BROADCAST, is_readable_logit, is_readable_probability
from jax2onnx_fusions.normalisation.fuse_softmax import softmax_operand

_MOST = 48  # nodes that are looked at on each side of the softmax
_PASSED = frozenset({
    "Abs", "Add", "Cast", "Clip", "Concat", "Div", "Dropout", "Exp", "Expand", "Flatten", "Gather", "GatherElements", "Identity", "Log",
    "Max", "Min", "Mul", "Neg", "Pow", "Relu", "Reshape", "ScatterElements", "ScatterND", "Sigmoid", "Slice", "Split", "Sqrt", "Squeeze",
    "Sub", "Tanh", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip


def obstacle(node: ir.Node) -> str:
    """Why the product `node` is not the end of an attention; empty where no softmax of a product is before it."""
    for value in node.inputs[:2]:
        behind = _path(value, lambda each: _logits_of(each) is not None)
        before = None if behind is None else _path(_logits_of(behind[-1]), _is_product)
        if behind is not None and before is not None:
            return _reason(behind[:-1], before[:-1])
    return ""


def _reason(behind: list[ir.Node], before: list[ir.Node]) -> str:
    """The reason, of the nodes behind and before the softmax."""
    for each in behind:
        if not is_readable_probability(each):
            return f"{each.op_type} stands between the softmax and the product with the values"
    for each in before:
        if not is_readable_logit(each):
            return _reason_of_logits(each)
    return ""


def _reason_of_logits(node: ir.Node) -> str:
    numbers = [number for value in node.inputs[1:] if (number := scalar(value, BROADCAST)) is not None]
    if node.op_type == "Where" and numbers:
        return f"masked logits become {numbers[0]:g}, which leaves a key some weight beside large negative logits"
    if node.op_type in ("Mul", "Div") and all(scalar(other_operand(node, x), BROADCAST) is None for x in node.inputs):
        return "the logits are multiplied by a tensor, not by a number"
    return f"{node.op_type} stands between the product of query and key and the softmax"


def _logits_of(node: ir.Node) -> ir.Value | None:
    """The operand of the softmax that `node` is, or with whose formula it ends."""
    if node.op_type == "Softmax":
        return node.inputs[0]
    found = softmax_operand(node) if node.op_type == "Div" else None
    return None if found is None else found[0]


def _is_product(node: ir.Node) -> bool:
    """Whether the node is a product of two tensors that are computed, not of one with weights."""
    return node.op_type in ("MatMul", "Gemm") and not any(constant_tensor(x) is not None for x in node.inputs[:2])


def _path(value: ir.Value | None, is_end: Callable[[ir.Node], bool]) -> list[ir.Node] | None:
    """The nodes from `value` back to the nearest one that is the end, which is the last; None where there is none near."""
    paths: list[list[ir.Node]] = [[node] for node in _makers(value)]
    seen = {path[0] for path in paths}
    for path in paths:  # grows on the way, so that the nearest are looked at first
        if is_end(path[-1]):
            return path
        if path[-1].op_type not in _PASSED or len(paths) > _MOST:
            continue
        for operand in path[-1].inputs:
            new = [node for node in _makers(operand) if node not in seen]
            seen.update(new)
            paths.extend([*path, node] for node in new)
    return None


def _makers(value: ir.Value | None) -> Iterator[ir.Node]:
    node = None if value is None else value.producer()
    if node is not None and not node.domain:
        yield node
