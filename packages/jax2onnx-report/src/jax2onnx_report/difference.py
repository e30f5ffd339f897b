"""`diff_models`: what one model has and another has not: interface, versions, operators, weights, nodes, metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.names import by_paths
from jax2onnx_graph.facts.type_text import tensor_type_text
from jax2onnx_graph.saving.serialization import piece_bytes
from jax2onnx_graph.traversal import all_nodes

from jax2onnx_report.summary import ModelSummary, ValueSummary, summarize, weight_tensors

__all__ = ["Change", "ModelDifference", "diff_models"]

# How many changes of one kind the text names.
_FEW = 12


@dataclasses.dataclass(frozen=True)
class Change:
    """Something that two models do not have in common.

    Attributes:
      kind: "input", "output", "version", "operator", "function", "weight", "node" or "metadata".
      name: whose it is.
      before: what the first model has, empty if nothing.
      after: what the second has, empty if nothing.
      detail: how far the values of a weight are apart.
    """

    kind: str
    name: str
    before: str
    after: str
    detail: str = ""

    def __str__(self) -> str:
        if not self.before:
            return f"+ {self.kind} {self.name}  {self.after}"
        if not self.after:
            return f"- {self.kind} {self.name}  {self.before}"
        change = self.before if self.before == self.after else f"{self.before} → {self.after}"
        return f"~ {self.kind} {self.name}  {change}" + (f", {self.detail}" if self.detail else "")


@dataclasses.dataclass(frozen=True)
class ModelDifference:
    """The changes from one model to another, kind by kind; none if the models are the same but for who wrote them."""

    changes: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def as_dict(self) -> dict[str, object]:
        """The changes in dicts, lists and strings, as JSON has them."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        if not self.changes:
            return "The models are the same."
        by_kind: dict[str, list[str]] = {}
        for change in self.changes:
            by_kind.setdefault(change.kind, []).append(str(change))
        lines = []
        for kind, texts in by_kind.items():
            lines += texts[:_FEW]
            if len(texts) > _FEW:
                lines.append(f"… {len(texts) - _FEW} more of kind {kind}")
        return "\n".join(lines)


def diff_models(before: ir.Model, after: ir.Model) -> ModelDifference:
    """The changes from one model to another.

    Weights are compared by name and value, nodes by the names of their first outputs: a node differs if its operator, its operands
    or its attributes do. Names of nodes, producers and texts for people do not count.
    """
    old, new = summarize(before), summarize(after)
    changes = [
        *_changes("input", _values(old.inputs), _values(new.inputs)),
        *_changes("output", _values(old.outputs), _values(new.outputs)),
        *_changes("version", _versions(old), _versions(new)),
        *_changes("operator", _counts(old.operators), _counts(new.operators)),
        *_changes("function", _counts(old.functions), _counts(new.functions)),
        *_weights(before, after),
        *_changes("node", _nodes(before), _nodes(after)),
        *_changes("metadata", dict(before.metadata_props), dict(after.metadata_props)),
    ]
    return ModelDifference(tuple(changes))


def _changes(kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            yield Change(kind, name, before.get(name, ""), after.get(name, ""))


def _values(values: Sequence[ValueSummary]) -> dict[str, str]:
    return {value.name: value.type for value in values}


def _versions(summary: ModelSummary) -> dict[str, str]:
    opsets = {f"opset of {domain}" if domain else "opset": str(version) for domain, version in summary.opsets.items()}
    return {**opsets, "IR version": str(summary.ir_version)}


def _counts(counts: Mapping[str, int]) -> dict[str, str]:
    return {name: str(count) for name, count in counts.items()}


def _weights(before: ir.Model, after: ir.Model) -> Iterator[Change]:
    old, new = by_paths(weight_tensors(before)), by_paths(weight_tensors(after))
    for name in dict.fromkeys([*old, *new]):
        was, becomes = old.get(name), new.get(name)
        types = ["" if tensor is None else tensor_type_text(tensor) for tensor in (was, becomes)]
        if was is None or becomes is None or types[0] != types[1]:
            yield Change("weight", name, types[0], types[1])
        elif not _is_same(was, becomes):
            yield Change("weight", name, types[0], types[1], _distance(was, becomes))


def _is_same(was: ir.TensorProtocol, becomes: ir.TensorProtocol) -> bool:
    if was.dtype == ir.DataType.STRING:
        return np.array_equal(was.numpy(), becomes.numpy())
    return piece_bytes(was) == piece_bytes(becomes)


def _distance(was: ir.TensorProtocol, becomes: ir.TensorProtocol) -> str:
    if was.dtype == ir.DataType.STRING:
        return "other strings"
    old, new = was.numpy(), becomes.numpy()
    changed = f"{int((old != new).sum())} of {old.size} elements differ"
    with np.errstate(invalid="ignore", over="ignore"):
        wide = np.complex128 if old.dtype.kind == "c" else np.float64
        distance = np.abs(new.astype(wide) - old.astype(wide))
    return f"{changed}, the largest difference is {distance[np.isfinite(distance)].max(initial=0.0):.3g}"


def _nodes(model: ir.Model) -> dict[str, str]:
    return by_paths((_output_name(node), _node_text(node)) for node in all_nodes(model))


def _output_name(node: ir.Node) -> str:
    return next((value.name for value in node.outputs if value.name), None) or node.name or node.op_type


def _node_text(node: ir.Node) -> str:
    operands = ", ".join("" if value is None else value.name or "" for value in node.inputs)
    is_weight = node.op_type == "Constant"  # which is compared as such
    attributes = ", ".join(f"{name}={_attribute(a, is_weight)}" for name, a in sorted(node.attributes.items()))
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return f"{operator}({operands})" + (f" {{{attributes}}}" if attributes else "")


def _attribute(attribute: ir.Attr, is_weight: bool) -> str:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    match attribute.type:
        case ir.AttributeType.GRAPH | ir.AttributeType.GRAPHS:
            return "graph"  # its nodes are compared themselves
        case ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            return tensor_type_text(tensor) + ("" if is_weight else f" {tensor.numpy().tolist()}")
    return str(attribute.value)
