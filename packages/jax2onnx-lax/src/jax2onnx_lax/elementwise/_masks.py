"""Whether a value may hold infinities that a function writes to mask what does not count."""

from __future__ import annotations

from jax2onnx_core import Context, Value
from jax2onnx_graph.facts.values import known

__all__ = ["may_mask"]

# Operators that computed with masks would not be finite, or are finite whatever they get.
_FINITE = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Sigmoid", "Softmax", "Tanh"}
# Operators whose results have masks where an operand has them.
_PLAIN = {
    "Add", "Cast", "Concat", "Expand", "Gather", "Identity", "Mul", "Neg", "Pad", "ReduceMean", "ReduceSum", "Relu", "Reshape",
    "ScatterElements", "ScatterND", "Slice", "Split", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where",
}  # fmt: skip
_FAR = 200


def may_mask(ctx: Context, value: Value) -> bool:
    """Whether infinities among the constants may reach a value, or something of which nobody knows whether it has them.

    The inputs of the model are finite where that is promised; those of bodies may be what the function has masked.
    """
    pending, visited = [value], {value}
    while pending:
        one = pending.pop()
        node, array = one.producer(), known(one)
        if len(visited) > _FAR or (node is None and array is None and ctx.scope.name != "main"):
            return True
        if array is not None and array.dtype.kind not in "biu" and not (abs(array) < float("inf")).all():
            return True
        if node is None or node.op_type in _FINITE:
            continue
        if node.op_type not in _PLAIN or node.domain:
            return True
        operands = node.inputs[1:] if node.op_type == "Where" else node.inputs
        new = [x for x in operands if x is not None and x not in visited]
        visited.update(new)
        pending += new
    return False
