"""The choice of nodes to quantise, and the user's exclusions."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.traversal import walk
from jax2onnx_runtime.quantization import Mode, Quantization

from jax2onnx_onnxruntime._quantization.weights import quantisable_weight

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
      OptionError: a pattern matches nothing, no weights are left, or one that is left has NaN or infinities, which fewer bits lose.
    """
    nodes = list(walk(model.graph))
    weights = {node: [value.name or "" for value in _float_weights(node)] for node in nodes}
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
    if operators is not None:
        _check_finite([node for node in found if node.name not in excluded], request.mode)
    return frozenset(excluded)


def _check_finite(nodes: Iterable[ir.Node], mode: Mode) -> None:
    """Raise OptionError where whole numbers and scales would make finite numbers of weights that are not finite."""
    weights = dict.fromkeys(weight for node in nodes for weight in _quantised_weights(node, mode))
    broken = [weight.name or "" for weight in weights if not _is_finite(weight)]
    if broken:
        shown = ", ".join(broken[:_LISTED]) + (", …" if len(broken) > _LISTED else "")
        raise OptionError(
            f"There is NaN or infinity in {shown}, which {mode} does not hold: if they are meant, leave them in float32, "
            f"exclude={broken[:_LISTED]!r}."
        )


def _quantised_weights(node: ir.Node, mode: Mode) -> Iterator[ir.Value]:
    """The weights of a node that a mode other than half precision stores in fewer bits."""
    if mode in ("dynamic_int8", "static_int8"):
        yield from _float_weights(node)
    elif weight := quantisable_weight(node, frozenset()):
        yield weight


def _is_finite(weight: ir.Value) -> bool:
    tensor = constant_tensor(weight)
    return tensor is None or bool(np.isfinite(tensor.numpy()).all())


def _is_optional(value: ir.Value) -> bool:
    """Whether a value is an input with a default."""
    return value.is_graph_input() and value.is_initializer()


def _float_weights(node: ir.Node) -> Iterator[ir.Value]:
    """The node's float32 weights of more than one axis."""
    for value in node.inputs:
        tensor = constant_tensor(value)
        if value is not None and tensor is not None and tensor.dtype == ir.DataType.FLOAT and len(tensor.shape) > 1:
            yield value


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
