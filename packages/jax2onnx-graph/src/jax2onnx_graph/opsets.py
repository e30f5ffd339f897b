"""The versions that a model declares: of the standard operators as low as its nodes allow, of the file format likewise."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import OptionError, TargetError
from jax2onnx_graph.facts.availability import schema_of
from jax2onnx_graph.facts.dtypes import first_opset
from jax2onnx_graph.facts.node_check import is_accepted
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.targets import Target
from jax2onnx_graph.traversal import all_nodes, all_values, place_of

__all__ = [
    "OLDEST_OPSET",
    "check_opset",
    "declare_opset",
    "declare_versions",
    "means_the_same",
    "opset_lines",
    "opset_of",
    "raise_opset",
]

OLDEST_OPSET = 17
"""The oldest opset that can be asked for; what is written for it is lowered for opset 18, and written otherwise at the end."""

_FIRST_WITH_METADATA = 10
"""The first version of the file format in which nodes, values and functions carry metadata, and functions types."""


def check_opset(opset: int | None, target: Target) -> None:
    """Raise OptionError for an opset that no model for the target can have; None, the choice of the target, is fine."""
    newest = onnx.defs.onnx_opset_version()  # of the installed package, whose schemas are asked
    supported = range(OLDEST_OPSET, min(target.opsets.stop, newest + 1))
    if opset is not None and (isinstance(opset, bool) or not isinstance(opset, int) or opset not in supported):
        number = "" if isinstance(opset, int) else "it is a whole number; "
        raise OptionError(
            f"opset={opset!r} is not supported; {number}choose one from {supported[0]} to {supported[-1]}."
        )


def opset_of(model: ir.Model) -> int:
    """The version of the standard operators that a model declares."""
    return model.opset_imports[""]


def declare_opset(model: ir.Model, opset: int) -> None:
    """Declare the version of the standard operators, of the main graph and of functions."""
    roots: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for root in roots:
        root.opset_imports[""] = opset


def declare_versions(model: ir.Model, target: Target, *, keep_opset: bool) -> None:
    """Declare the lowest opset at which the model means the same and runs as well, and the format that belongs to it.

    Args:
      model: a finished model, right at the opset that it declares; it is modified in place.
      target: the runtime that it is for.
      keep_opset: whether the opset stays what it is.
    """
    opset = opset_of(model)
    if not keep_opset:
        types = {value.dtype for value in all_values(model)}
        needed = max([target.opsets[0], *map(first_opset, types)])
        for node in all_nodes(model):
            if needed < opset:
                needed = _needed_opset(node, opset, needed, target)
        opset = needed
    declare_opset(model, opset)
    model.ir_version = _ir_version(model, opset)


def raise_opset(model: ir.Model, opset: int) -> None:
    """Let a model declare at least an opset, in place.

    Raises:
      TargetError: a node means something else there.
    """
    declared = opset_of(model)
    for higher in range(declared + 1, opset + 1):
        if others := [
            node for node in all_nodes(model) if not node.domain and not means_the_same(node, higher, higher - 1)
        ]:
            raise TargetError(
                f"{others[0].op_type} ({place_of(others[0])}) means something else at opset {higher} than at {higher - 1}. Export with "
                f"to_onnx(…, opset={opset})."
            )
    declare_opset(model, max(declared, opset))
    model.ir_version = max(model.ir_version, _ir_version(model, max(declared, opset)))


def opset_lines(model: ir.Model, target: Target) -> Iterator[str]:
    """Lines about the operators of a finished model that need a version above the lowest, the newest version first."""
    opset = opset_of(model)
    needing: dict[int, dict[str, list[ir.Node]]] = {}
    for node in all_nodes(model):
        needing.setdefault(_needed_opset(node, opset, target.opsets[0], target), {}).setdefault(
            node.op_type, []
        ).append(node)
    for needed in sorted(needing, reverse=True):
        if needed > target.opsets[0]:
            yield f"below opset {needed} without: " + ", ".join(
                f"{op_type} {len(nodes)} ({place_of(nodes[0])})" for op_type, nodes in sorted(needing[needed].items())
            )


def _needed_opset(node: ir.Node, opset: int, lowest: int, target: Target) -> int:
    """The lowest opset from `lowest` on at which a node means the same and runs as well as at `opset`."""
    if node.domain or (means_the_same(node, opset, lowest) and target.runs_as_well(node, opset, lowest)):
        return lowest
    while opset > lowest:
        if not (means_the_same(node, opset, opset - 1) and target.runs_as_well(node, opset, opset - 1)):
            return opset
        opset -= 1
    return opset


def means_the_same(node: ir.Node, opset: int, lower: int) -> bool:
    """Whether a standard node has the same meaning at a lower opset."""
    schema = schema_of(node.op_type, opset)
    if schema is not None and schema.since_version <= lower:  # by the same schema
        return True
    if schema is None or schema_of(node.op_type, lower) is None:
        return False
    changed = any(lower < c.version <= opset and c.concerns(node) for c in facts_of(node.op_type).changes)
    return not changed and is_accepted(node, opset) and is_accepted(node, lower)


def _ir_version(model: ir.Model, opset: int) -> int:
    """The first version of the file format that has the opset, and a place for all that the model holds."""
    found: int = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)])
    return max(found, _FIRST_WITH_METADATA) if _needs_metadata(model) else found


def _needs_metadata(model: ir.Model) -> bool:
    return (
        bool(model.functions)
        or any(node.metadata_props for node in all_nodes(model))
        or any(value.metadata_props for value in all_values(model))
    )
