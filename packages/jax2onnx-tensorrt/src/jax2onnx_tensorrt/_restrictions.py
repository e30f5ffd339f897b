"""Restrictions of operators beside their element types: the last column of the parser's table, and the checks of its source.

The sources are `docs/operators.md`, `onnxOpCheckers.cpp` and `onnxOpImporters.cpp` of https://github.com/onnx/onnx-tensorrt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.facts.values import dims_of, known
from jax2onnx_graph.traversal import is_value_read, subgraphs

__all__ = ["has_other_form", "violations"]

#: The reasons for which TensorRT refuses a node, beside its element types.
Restriction = Callable[[ir.Node], Iterator[str]]

_LARGEST_K = 3839
_HEADS = range(16, 257, 8)
_RESIZE_MODES = {
    "mode": ("nearest", "linear"),
    "coordinate_transformation_mode": ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric", "align_corners"),
    "keep_aspect_ratio_policy": ("stretch",),
}  # fmt: skip


def violations(node: ir.Node) -> Iterator[str]:
    """The reasons for which TensorRT refuses a node, beside its element types."""
    for restriction in _RESTRICTIONS.get(node.op_type, ()):
        yield from restriction(node)


def has_other_form(node: ir.Node) -> bool:
    """Whether a node has attributes that TensorRT lacks, while the operators that define it have the same meaning."""
    return node.op_type == "Attention" and not node.domain and any((*_capped_or_with_past(node), *_head_sizes(node)))


def _capped_or_with_past(node: ir.Node) -> Iterator[str]:
    if node.attributes.get_float("softcap", 0.0):
        yield "a soft cap"
    if "softmax_precision" in node.attributes:
        yield "a precision of its softmax"
    if any(value is not None for value in node.inputs[4:]):
        yield "past keys and values, or their number"
    if any(value.name and value.uses() for value in node.outputs[1:]):
        yield "present keys and values, or scores, as results"


def _head_sizes(node: ir.Node) -> Iterator[str]:
    """Its kernels are for heads of 16, 24, 32, … 256 features, and values of as many as keys."""
    heads = [node.attributes.get_int(name, 1) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    sizes = {_features(value, count) for value, count in zip(node.inputs[:3], heads, strict=True)}
    (size, *others) = sizes
    if others or size not in _HEADS:
        yield f"heads of {', '.join(map(str, sizes))} features"


def _features(value: ir.Value | None, heads: int) -> int | None:
    """The number of features of a head; None where it is symbolic."""
    dims = (None if value is None else dims_of(value)) or (None,)
    size = dims[-1]
    return None if not isinstance(size, int) else size if len(dims) == 4 else size // heads


def _of_four_axes(node: ir.Node) -> Iterator[str]:
    if any(value is not None and len(dims_of(value) or ()) != 4 for value in node.inputs[:4]):
        yield "operands that have not four axes"


def _without(attribute: str) -> Restriction:
    """No other value of an attribute than 0."""

    def check(node: ir.Node) -> Iterator[str]:
        if node.attributes.get_int(attribute, 0):
            yield f"{attribute}={node.attributes.get_int(attribute, 0)}"

    return check


def _one_result(node: ir.Node) -> Iterator[str]:
    if any(value.name and is_value_read(value) for value in node.outputs[1:]):
        yield "more than one result"


def _two_or_three_axes(node: ir.Node) -> Iterator[str]:
    dims = dims_of(node.inputs[0])
    if dims is not None and len(dims) not in (4, 5):
        yield f"{len(dims) - 2} axes in space; it pools over two or three"


def _undilated(node: ir.Node) -> Iterator[str]:
    if set(node.attributes.get_ints("dilations", ()) or (1,)) != {1}:
        yield "dilations"


def _constant(index: int, what: str) -> Restriction:
    """An input that has to be a constant, where there is one."""

    def check(node: ir.Node) -> Iterator[str]:
        value = node.inputs[index] if len(node.inputs) > index else None
        if value is not None and known(value, limit=None) is None:
            yield f"{what} that are computed; they have to be constants"

    return check


def _zero_point(node: ir.Node) -> Iterator[str]:
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is None:
        return
    array = known(value, limit=None)
    if array is None or np.any(array.astype(np.int64)):
        yield "a zero point that is not 0"


def _same_both_ways(node: ir.Node) -> Iterator[str]:
    given = node.attributes.get_strings("activations", ())
    half = len(given) // 2
    if node.attributes.get_string("direction", "forward") == "bidirectional" and given[:half] != given[half:]:
        yield "activations that differ by direction"


def _resize(node: ir.Node) -> Iterator[str]:
    defaults = {
        "mode": "nearest",
        "coordinate_transformation_mode": "half_pixel",
        "keep_aspect_ratio_policy": "stretch",
    }
    for attribute, allowed in _RESIZE_MODES.items():
        value = node.attributes.get_string(attribute, defaults[attribute])
        if value not in allowed:
            yield f"{attribute}={value}"
    if node.attributes.get_int("antialias", 0):
        yield "antialiasing"


def _top_k(node: ir.Node) -> Iterator[str]:
    if not node.attributes.get_int("sorted", 1):
        yield "results that are not sorted"
    k = None if node.inputs[1] is None else known(node.inputs[1])
    if k is not None and k.item() > _LARGEST_K:
        yield f"the {k.item()} greatest elements; it finds up to {_LARGEST_K}"


def _static_operand(node: ir.Node) -> Iterator[str]:
    if not all(isinstance(size, int) for size in dims_of(node.inputs[0]) or ("?",)):
        yield "an operand of symbolic sizes"


def _static_axis(node: ir.Node) -> Iterator[str]:
    dims = dims_of(node.inputs[0])
    if dims is None or not isinstance(dims[node.attributes.get_int("axis", -1)], int):
        yield "an axis of symbolic size"


def _scattered_in_place(node: ir.Node) -> Iterator[str]:
    if any(value is not None and len(dims_of(value) or ()) != 4 for value in node.inputs[:2]):
        yield "a cache or an update that has not four axes"
    if node.attributes.get_int("axis", -2) != -2:
        yield f"axis={node.attributes.get_int('axis', -2)}; it writes along the last axis but one"


def _plain_grid(node: ir.Node) -> Iterator[str]:
    if len(dims_of(node.inputs[0]) or ()) != 4:
        yield "an operand that has not four axes"


def _same_rank(node: ir.Node) -> Iterator[str]:
    """Results of the two branches of a condition."""
    branches = list(subgraphs(node))
    ranks = [[len(dims_of(value) or ()) for value in branch.outputs] for branch in branches]
    if any(one != ranks[0] for one in ranks):
        yield "branches whose results differ in their number of axes"


def _without_branches_of_symbolic_sizes(node: ir.Node) -> Iterator[str]:
    """Branches in branches."""
    is_static = all(isinstance(size, int) for value in node.outputs for size in dims_of(value) or ("?",))
    if not is_static and any(inner.op_type == "If" for branch in subgraphs(node) for inner in branch):
        yield "a branch in a branch, with results of symbolic sizes"


def _strided_or_dilated(node: ir.Node) -> Iterator[str]:
    strides, dilations = (set(node.attributes.get_ints(name, ()) or (1,)) for name in ("strides", "dilations"))
    if strides != {1} and dilations != {1}:
        yield "both strides and dilations"


def _space(node: ir.Node) -> Iterator[str]:
    dims = dims_of(node.inputs[0])
    if dims is not None and len(dims) > 5:
        yield f"{len(dims) - 2} axes in space; it goes over up to three"


def _filter_of_known_channels(node: ir.Node) -> Iterator[str]:
    dims = dims_of(node.inputs[1])
    if dims is not None and len(dims) > 1 and not isinstance(dims[1], int):
        yield "a filter whose number of channels is symbolic"


def _stacked(node: ir.Node) -> Iterator[str]:
    """Stacked results of a loop of unknown length."""
    body = node.attributes["body"].as_graph()
    carried = len(node.inputs) - 2
    for before, after in zip(body.inputs[2:], body.outputs[1 : 1 + carried], strict=True):
        if dims_of(before) != dims_of(after):
            yield f"a state, {before.name!r}, whose shape changes from step to step"
    if len(node.outputs) > carried and (node.inputs[0] is None or known(node.inputs[0]) is None):
        yield "stacked results of a number of steps that is not known"


_AXES = (_constant(1, "axes"),)
_RECURRENT = (_same_both_ways, _without("layout"))
_POOL = (_two_or_three_axes, _undilated, _one_result)

_RESTRICTIONS: Mapping[str, tuple[Restriction, ...]] = {
    "Attention": (_capped_or_with_past, _head_sizes, _of_four_axes),
    "AveragePool": _POOL,
    "BatchNormalization": (_without("training_mode"), _one_result),
    "Conv": (_space, _filter_of_known_channels),
    "ConvTranspose": (_space, _strided_or_dilated),
    "CumSum": (_constant(1, "axes"),),
    "DequantizeLinear": (_zero_point,),
    "EyeLike": (_static_operand,),
    "GRU": _RECURRENT,
    "GridSample": (_plain_grid,),
    "Hardmax": (_static_axis,),
    "If": (_same_rank, _without_branches_of_symbolic_sizes),
    "LSTM": (*_RECURRENT, _without("input_forget")),
    "LayerNormalization": (_one_result,),
    "Loop": (_stacked,),
    "LpPool": _POOL,
    "MaxPool": _POOL,
    "OneHot": (_constant(1, "depths"),),
    "QuantizeLinear": (_zero_point,),
    "RNN": _RECURRENT,
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
                     "ReduceSum", "ReduceSumSquare", "Squeeze", "Unsqueeze"), _AXES),
    "Resize": (_resize,),
    "Split": (_constant(1, "sizes"),),
    "TensorScatter": (_scattered_in_place,),
    "TopK": (_top_k,),
}  # fmt: skip
