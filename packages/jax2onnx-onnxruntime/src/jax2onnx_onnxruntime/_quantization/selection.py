"""The choice of nodes to quantise, and the user's exclusions."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase

import onnx_ir as ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.traversal import walk
from jax2onnx_runtime.quantization import Mode, Quantization

__all__ = ["CONVOLUTIONS", "excluded_nodes"]

CONVOLUTIONS = ("Conv",)
_LISTED = 6

#: The operators whose weights each mode quantises; None for all that have weights.
_OPERATORS: Mapping[Mode, Collection[str] | None] = {
    "int4": ("MatMul",),
    "int8": ("MatMul",),
    "int4_qdq": ("MatMul",),
    "float8": ("MatMul",),
    "dynamic_int8": ("MatMul", "LSTM", *CONVOLUTIONS),
    "static_int8": ("MatMul", *CONVOLUTIONS),
    "float16": None,
    "bfloat16": None,
}


def excluded_nodes(model: ir.Model, request: Quantization) -> frozenset[str]:
    """The names of the nodes that the patterns leave out, and of those that read optional inputs.

    A pattern is the name of a node, of a weight that it reads, or of a module above it ("blocks.0", "head"), with the
    wildcards of file names.

    Raises:
      OptionError: a pattern matches nothing, or no weights are left.
    """
    nodes = list(walk(model.graph))
    weights = {node: [*_weights(node)] for node in nodes}
    excluded = {node.name or "" for pattern in request.exclude for node in _matching(pattern, weights)}
    if _OPERATORS[request.mode] is not None:
        # ONNX Runtime's quantizers take an initializer for a constant, though a run may be given something else.
        excluded |= {node.name or "" for node in nodes if any(v is not None and _is_optional(v) for v in node.inputs)}
    operators = _OPERATORS[request.mode]
    found = [node for node in nodes if weights[node] and (operators is None or node.op_type in operators)]
    if not found:
        what = "float32 weights" if operators is None else f"float32 weights of {', '.join(operators)}"
        raise OptionError(f"There is nothing to quantise to {request.mode}: the model has no {what}.")
    if all(node.name in excluded for node in found):
        raise OptionError(
            f"There is nothing to quantise to {request.mode}: exclude leaves out all of the model's weights."
        )
    return frozenset(excluded)


def _is_optional(value: ir.Value) -> bool:
    """Whether a value is an input with a default."""
    return value.is_graph_input() and value.is_initializer()


def _weights(node: ir.Node) -> Iterator[str]:
    """The names of the node's float32 weights of more than one axis."""
    for value in node.inputs:
        tensor = constant_tensor(value)
        if value is not None and tensor is not None and tensor.dtype == ir.DataType.FLOAT and len(tensor.shape) > 1:
            yield value.name or ""


def _matching(pattern: str, weights: Mapping[ir.Node, list[str]]) -> list[ir.Node]:
    found = [
        node for node, names in weights.items() if any(_matches(name, pattern) for name in (node.name or "", *names))
    ]
    if not found:
        names = itertools.islice(dict.fromkeys(name for names in weights.values() for name in names), _LISTED)
        raise OptionError(
            f"The pattern {pattern!r} of exclude matches no node, weight or module of the model; it has the weights "
            f"{', '.join(names)}, …"
        )
    return found


def _matches(name: str, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern + rest) for rest in ("", ".*", "/*"))
