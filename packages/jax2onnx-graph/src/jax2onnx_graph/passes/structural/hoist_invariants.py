"""`HoistInvariants`: nodes that give the same in every iteration of a loop are computed once, before it."""

from __future__ import annotations

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import facts_of, operators_where
from jax2onnx_graph.facts.sizes import estimated_elements
from jax2onnx_graph.facts.values import dims_of, given_operands, known
from jax2onnx_graph.passes.structural._loop_pass import LoopPass
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Phase
from jax2onnx_graph.rewrite.patterns import is_floating
from jax2onnx_graph.traversal import HAS_SUBGRAPHS

__all__ = ["HoistInvariants"]

# A runtime computes matrix products from quantized weights as they are, where the two stand together.
_TIED = frozenset({"DequantizeLinear", "QuantizeLinear", "DynamicQuantizeLinear"})
# Operators whose results exist where some axis of the first operand is not empty.
_NEED_ELEMENTS = operators_where(lambda facts: facts.indices_input is not None) | frozenset(
    {"ArgMax", "ArgMin", "ReduceMax", "ReduceMin", "TopK"}
)
_MOST_ELEMENTS = 1 << 22


class HoistInvariants(LoopPass):
    """Move nodes out of the bodies of Loop and Scan, innermost first:

    1. A node whose operands all come from outside of the body goes in front of the loop, and then the nodes that read it.
    2. Random draws, nodes with subgraphs, those of other domains, and those that make outputs of the body stay; so do
       quantizations, which runtimes compute together with what reads them.
    3. A node stays whose result is larger than its operands together and has more than 4 million elements.
    4. Before a loop that may have no iterations go only nodes that cannot fail: no integer division by a number that may be zero,
       no Gather, maximum or the like of a tensor that may be empty, and no scatter, whose indices the loop's condition may keep in range.
    5. Branches of an If keep their nodes, since only one of them is computed.
    """

    phase = Phase.FINISH

    def rewrite_loop(self, editor: GraphEditor, loop: ir.Node) -> None:
        _hoist(editor, loop, loop.attributes["body"].as_graph())


def _hoist(editor: GraphEditor, loop: ir.Node, body: ir.Graph) -> None:
    """Move invariant nodes of the body of a loop in front of it."""
    runs = _runs(loop)
    inside = set(body.inputs)
    for node in list(body):
        operands = given_operands(node)
        if any(value in inside for value in operands) or not _may_move(node) or not (runs or _cannot_fail(node)):
            inside.update(node.outputs)
            continue
        body.remove(node)
        if node.name:
            node.name = editor.node_name(node.name)
        editor.insert_before(loop, node)
        editor.modified = True


def _runs(loop: ir.Node) -> bool:
    """Whether a loop is known to have an iteration."""
    if loop.op_type == "Scan":
        count = loop.attributes.get_int("num_scan_inputs")
        axes = loop.attributes.get_ints("scan_input_axes", (0,) * count) or (0,) * count
        shapes = [dims_of(x) or () for x in loop.inputs[len(loop.inputs) - count :]]
        lengths = [dims[axis] for dims, axis in zip(shapes, axes, strict=True) if dims]
        return any(isinstance(length, int) and length > 0 for length in lengths)
    count_of_loop, condition = known(loop.inputs[0]), known(loop.inputs[1])
    enough = loop.inputs[0] is None or (count_of_loop is not None and bool((count_of_loop > 0).all()))
    return enough and (loop.inputs[1] is None or (condition is not None and bool(condition.all())))


def _may_move(node: ir.Node) -> bool:
    """Rules 2 and 3."""
    if node.domain or node.op_type in HAS_SUBGRAPHS or node.op_type in _TIED or facts_of(node.op_type).is_random:
        return False
    if any(value.is_graph_output() for value in node.outputs):
        return False
    made, read = (sum(estimated_elements(dims_of(v) or ()) for v in some if v) for some in (node.outputs, node.inputs))
    return made <= max(_MOST_ELEMENTS, read)


def _cannot_fail(node: ir.Node) -> bool:
    """Rule 4."""
    if node.op_type in ("Div", "Mod") and not is_floating(node.inputs[0]):
        divisor = known(node.inputs[1])
        return divisor is not None and bool(divisor.all())
    if facts_of(node.op_type).has_reduction:
        return False
    dims = dims_of(node.inputs[0]) if node.inputs else None
    return node.op_type not in _NEED_ELEMENTS or (dims is not None and all(isinstance(d, int) and d > 0 for d in dims))
