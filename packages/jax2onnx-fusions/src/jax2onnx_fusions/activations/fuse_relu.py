"""`FuseRelu`: `Max` and `Min` with numbers become `Relu` and `Clip`."""

from __future__ import annotations

__all__ = ["FuseRelu"]

import dataclasses
import math

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import dims_of, same_dims
from jax2onnx_graph.forms import Form
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import is_floating, operation, other_operand, scalar

from jax2onnx_fusions._reasons import no_operator


@dataclasses.dataclass(frozen=True)
class _Rectified:
    """Relu(x), or Clip(x, 0, bound) where there is a `bound`."""

    x: ir.Value
    bound: float | None = None


class FuseRelu(NodePass[_Rectified]):
    """Activations that runtimes fuse into the operator before them, unless the target prefers the extrema:

    1. `Max(x, 0)` of floats is `Relu(x)`; with -0.0, which Relu does not give for negative numbers, it stays.
    2. `Min(Relu(x), c)` with a positive number c is `Clip(x, 0, c)`.
    """

    phase = Phase.FUSE
    produces = frozenset({"Relu", "Clip"})
    operators = frozenset({"Max", "Min"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Rectified | Declined | None:
        if len(node.inputs) != 2:
            return None
        operand, bound = _operand_and_bound(node)
        if operand is None or not is_floating(operand):
            return None
        if node.op_type == "Max":
            if bound != 0:
                return None
            if math.copysign(1, bound) < 0:
                return Declined("the bound is -0.0, which Relu does not give", node)
            return _formed(node, Form.RELU, Form.MAX, _Rectified(operand), editor)
        relu = operation(operand, "Relu")
        x = None if relu is None else relu.inputs[0]
        if x is None:
            return None
        if not bound > 0:  # NaN is not
            return Declined("the upper bound of the ReLU is not positive", node)
        return _formed(node, Form.CLIP, Form.MIN, _Rectified(x, bound), editor)

    def rewrite(self, node: ir.Node, match: _Rectified, editor: GraphEditor) -> None:
        if match.bound is None:
            editor.put(node, "Relu", [match.x])
            return
        builder = editor.before(node)
        limits = [builder.constant(number, like=match.x) for number in (0, match.bound)]
        editor.put(node, "Clip", [match.x, *limits])


def _formed(
    node: ir.Node, form: Form, instead_of: Form, found: _Rectified, editor: GraphEditor
) -> _Rectified | Declined:
    """The match, if the target has the operator for it and prefers it to `node`."""
    if not editor.supports(form.value, found.x):
        return Declined(no_operator(form.value, found.x), node)
    if editor.prefers(form, instead_of) is not form:
        return Declined(f"the target prefers {node.op_type}", node)
    return found


def _operand_and_bound(node: ir.Node) -> tuple[ir.Value | None, float]:
    """The operand that has the shape of the result, and the number that it is compared with; (None, 0) if there is none."""
    for candidate in node.inputs:
        bound = scalar(candidate)
        operand = other_operand(node, candidate)
        if bound is not None and same_dims(dims_of(operand), dims_of(node.outputs[0])):
            return operand, bound
    return None, 0.0
