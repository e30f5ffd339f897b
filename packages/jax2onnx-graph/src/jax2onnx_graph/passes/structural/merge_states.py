"""`MergeStates`: states of a loop that are always equal become one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of, known
from jax2onnx_graph.fingerprints import array_fingerprint
from jax2onnx_graph.passes.structural._loop_pass import LoopPass
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import node_key
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Phase

__all__ = ["MergeStates"]


class MergeStates(LoopPass):
    """Merge states of Loop and Scan, innermost loops first.

    1. States that begin with the same value, and for which each iteration computes the same where they were equal before it, are
       one: the readers of the others, in the body and behind the loop, read the first.
    """

    phase = Phase.FINISH

    def rewrite_loop(self, editor: GraphEditor, loop: ir.Node) -> None:
        first = _equal_states(loop)
        if first != list(range(len(first))):
            _merge(editor, loop, first)


def _states(node: ir.Node) -> tuple[slice, slice]:
    """The places of the states in the operands of a Loop or Scan, which are those in its body, and in the outputs of the body."""
    if node.op_type == "Loop":  # its count and condition stand before
        return slice(2, len(node.inputs)), slice(1, len(node.inputs) - 1)
    count = len(node.inputs) - node.attributes.get_int("num_scan_inputs")
    return slice(0, count), slice(0, count)


def _equal_states(node: ir.Node) -> list[int]:
    """The number of the first state that always equals each state."""
    body = node.attributes["body"].as_graph()
    operands, results = _states(node)
    inside, new = body.inputs[operands], body.outputs[results]
    groups = _numbered([_beginning(*pair) for pair in zip(node.inputs[operands], inside, strict=True)])
    while len(set(groups)) < len(groups):
        numbers = _value_numbers(body, dict(zip(inside, groups, strict=True)))
        finer = _numbered([(group, numbers.get(v, v)) for group, v in zip(groups, new, strict=True)])
        if finer == groups:
            break
        groups = finer
    return groups


def _beginning(value: ir.Value | None, inside: ir.Value) -> Hashable:
    """A key that is equal for states of the same type and shape that begin with the same."""
    array = known(value)
    start = value if array is None else array_fingerprint(array)
    return start, dims_of(inside), inside.dtype


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    """The place of the first key that equals each key."""
    first: dict[Hashable, int] = {}
    return [first.setdefault(key, place) for place, key in enumerate(keys)]


def _value_numbers(body: ir.Graph, numbers: dict[ir.Value, int]) -> dict[ir.Value, Hashable]:
    """Numbers of values of a body that are the same only for equal values, given those of its states."""
    found: dict[ir.Value, Hashable] = dict(numbers)
    of_key: dict[Hashable, int] = {}
    for node in body:
        key = node_key(node, [value if value is None else found.get(value, value) for value in node.inputs])
        if key is not None:
            number = of_key.setdefault(key, len(of_key))
            found.update({value: (number, place) for place, value in enumerate(node.outputs)})
    return found


def _merge(editor: GraphEditor, node: ir.Node, first: Sequence[int]) -> None:
    """Put a node in the place of a Loop or Scan whose state `k` is its state `first[k]`."""
    body = node.attributes["body"].as_graph()
    operands, results = _states(node)
    inside = list(body.inputs[operands])
    removed = [k for k, kept in enumerate(first) if kept != k]
    for k in removed:
        for user, index in inside[k].uses():
            user.replace_input_with(index, inside[first[k]])
    for k in reversed(removed):
        body.outputs.pop(results.start + k)
        body.inputs.pop(operands.start + k)
    gone = {operands.start + k for k in removed}
    inputs = [value for place, value in enumerate(node.inputs) if place not in gone]
    kept_outputs = [place for place in range(len(node.outputs)) if place not in removed]
    outputs = [ir.Value(type=node.outputs[place].type, shape=node.outputs[place].shape) for place in kept_outputs]
    new = ir.Node(
        "", node.op_type, inputs, list(node.attributes.values()), outputs=outputs, name=node.name,
        metadata_props=dict(node.metadata_props),
    )  # fmt: skip
    editor.insert_before(node, new)
    by_place = dict(zip(kept_outputs, outputs, strict=True))
    for place, old in enumerate(node.outputs):
        editor.replace_result(node, old, by_place[first[place] if place < len(first) else place])
    editor.discard(node)
