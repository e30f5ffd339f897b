"""`GroupQueries`: attention over caches that are written where the tokens until now end becomes `GroupQueryAttention`."""

from __future__ import annotations

import dataclasses

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import GraphBuilder, Value
from jax2onnx_graph.facts.axes import axis_of
from jax2onnx_graph.facts.values import dims_of, known, same_dim
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass
from jax2onnx_graph.rewrite.patterns import operation, permutation_of, source_of
from jax2onnx_graph.targets import Target

__all__ = ["DOMAIN", "GroupQueries", "group_queries"]

DOMAIN = "com.microsoft"
_HEADS = (0, 2, 1, 3)  # [B, T, N, H] as [B, N, T, H], and back
# Operators that hand numbers on, in another shape or type; those in axes that are 1 or repeated.
_VIEWS = frozenset({"Cast", "Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
# What a mask adds for a hidden key is below this in all libraries; e to its power is 0.
_HIDDEN = -1e4


@dataclasses.dataclass(frozen=True)
class _Caches:
    """The caches of an attention.

    Attributes:
      past: the keys and the values before the step, [B, K, C, H].
      new: those of the step, [B, K, T, H].
      present: those after the step.
    """

    past: tuple[Value, Value]
    new: tuple[Value, Value]
    present: tuple[Value, Value]


class GroupQueries(NodePass[_Caches]):
    """An `Attention` with its heads first, of float32, over caches of a capacity [B, K, C, H]:

    1. It and the writing of its caches are `GroupQueryAttention`, which reads the places that are filled only, where new keys
       and values are written behind the tokens until now, and each token sees what comes before it and itself. The number of
       tokens until now is that which the graph computes from `attention_mask` and `input_ids`.
    2. Where the mask hides something else, such as padding or what is beyond a window, it stays.
    """

    operators = frozenset({"Attention"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Caches | Declined | None:
        known_attributes = {"scale", "is_causal", "softcap", "qk_matmul_output_mode"}
        values = {name: node.attributes[name] for name in node.attributes}
        others = [n for n in ("is_causal", "qk_matmul_output_mode") if n in values and values[n].as_int()]
        if len(node.inputs) != 4 or len(node.outputs) != 1 or not values.keys() <= known_attributes or others:
            return None
        if "softcap" in values and values["softcap"].as_float():
            return None
        query, mask = node.inputs[0], node.inputs[3]
        key, value = (_written(x, node) for x in node.inputs[1:3])
        if query is None or query.dtype != ir.DataType.FLOAT or key is None or value is None:
            return None
        if not _shows_the_past(mask, dims_of(query), dims_of(key[0])):
            return None
        return _Caches(*((a, b) for a, b in zip(key, value, strict=True)))

    def rewrite(self, node: ir.Node, match: _Caches, editor: GraphEditor) -> None:
        builder, query = editor.before(node), node.inputs[0]
        assert query is not None, "match has looked at it"
        batch, heads, length, features = dims_of(query) or ()
        key_heads = (dims_of(match.past[0]) or ())[1]
        assert isinstance(heads, int) and isinstance(features, int) and isinstance(key_heads, int)
        operands = [_merged(builder, x) for x in (query, *match.new)]
        tokens, mask = (
            next(v for v in editor.graph.inputs if v.name == name) for name in ("input_ids", "attention_mask")
        )
        total = builder.op.Cast(builder.op.Shape(mask, start=1, end=2), to=np.dtype(np.int32))
        last = builder.op.Sub(total, builder.constant([1], np.int32))
        ends = builder.op.Expand(last, builder.op.Shape(tokens, start=0, end=1), dims=labelled([batch]))
        scale = node.attributes["scale"].as_float() if "scale" in node.attributes else float(features) ** -0.5
        results = builder.emit(
            "GroupQueryAttention", [*operands, *match.past, ends, builder.squeeze(total, [0])], DOMAIN, 3, [np.float32] * 3,
            labelled([batch, length, heads * features]), {"num_heads": heads, "kv_num_heads": key_heads, "scale": scale},
        )  # fmt: skip
        for old, new in zip(match.present, results[1:], strict=True):
            new.shape = old.shape
            editor.replace_value(old, new)
        dims = labelled([batch, length, heads, features])
        split = builder.op.Reshape(results[0], builder.ints([0, 0, heads, features]), dims=dims)
        editor.replace(node, builder.transpose(split, _HEADS))


def _merged(builder: GraphBuilder, x: Value) -> Value:
    """x [B, N, T, H] as [B, T, N · H]."""
    batch, heads, length, features = dims_of(x) or ()
    assert isinstance(heads, int) and isinstance(features, int)
    transpose = operation(x, "Transpose")
    source = transpose.inputs[0] if transpose is not None and permutation_of(transpose) == _HEADS else None
    rows = builder.transpose(x, _HEADS) if source is None else source
    return builder.op.Reshape(
        rows, builder.ints([0, 0, heads * features]), dims=labelled([batch, length, heads * features])
    )


def _written(present: Value | None, reader: ir.Node) -> tuple[Value, Value, Value] | None:
    """A cache before the step, what is written, and after it, where only an attention reads it, and it is written at the end."""
    node = None if present is None else present.producer()
    if (
        present is None
        or node is None
        or not present.is_graph_output()
        or {use.node for use in present.uses()} != {reader}
    ):
        return None
    if node.op_type == "TensorScatter" and len(node.inputs) == 3:
        past, new, place = node.inputs
        is_circular = "mode" in node.attributes and node.attributes["mode"].as_string() != "linear"
        is_at_end = _is_count(place) and not is_circular
    elif node.op_type == "ScatterElements" and "reduction" not in node.attributes:
        past, place, new = node.inputs
        is_at_end = _is_along(place, -2) and _are_places(place)
    else:
        return None
    if past is None or new is None or not past.is_graph_input() or axis_of(node, 4) != 2 or not is_at_end:
        return None
    return past, new, present


def _shows_the_past(mask: Value | None, query: object, cache: object) -> bool:
    """Whether a mask [1, 1, T, C] hides the places behind each token from it, and nothing else."""
    if not isinstance(query, tuple) or not isinstance(cache, tuple):
        return False
    choice = source_of(mask, *_VIEWS - {"Cast", "Transpose"})
    node = None if choice is None else choice.producer()
    if choice is None or node is None:
        return False
    if node.op_type == "Where":
        shown, hidden = known(node.inputs[1]), known(node.inputs[2])
        if shown is None or hidden is None or shown.any() or not (hidden <= _HIDDEN).all():
            return False
        choice = source_of(node.inputs[0], *_VIEWS - {"Cast", "Transpose"})
        node = None if choice is None else choice.producer()
    dims = dims_of(mask) or ()
    if node is None or node.op_type != "LessOrEqual" or len(dims) < 2 or any(dim != 1 for dim in dims[:-2]):
        return False
    if not (same_dim(dims[-2], query[2]) and same_dim(dims[-1], cache[2])):
        return False
    columns, rows = node.inputs
    return _is_range(columns, _is_capacity) and _is_along(columns, -1) and _are_places(rows) and _is_along(rows, -2)


def _is_along(value: Value | None, axis: int) -> bool:
    """Whether a range has its numbers along an axis, counted from the end: all others are 1, before it was expanded."""
    value = source_of(value, "Cast", "Expand", "Identity")
    transpose = operation(value, "Transpose")
    if transpose is not None:
        perm = permutation_of(transpose)
        return perm is not None and _is_along(transpose.inputs[0], perm[axis] - len(perm))
    dims = dims_of(value) or ()
    return -axis <= len(dims) and all(dim == 1 for i, dim in enumerate(dims) if i != len(dims) + axis)


def _source(value: Value | None) -> ir.Node | None:
    """The node that computes a value, behind those that hand it on."""
    found = source_of(value, *_VIEWS)
    return None if found is None else found.producer()


def _are_places(value: Value | None) -> bool:
    """Whether a value is the places of the tokens of a step: their number until now, and 0, 1, …"""
    node = _source(value)
    if node is None or node.op_type != "Add":
        return False
    a, b = node.inputs
    return (_is_count(a) and _is_range(b, _is_length)) or (_is_count(b) and _is_range(a, _is_length))


def _is_count(value: Value | None) -> bool:
    """Whether a value is the number of tokens until now; it is not below 0, and with the step's not above the capacity."""
    node = _source(value)
    if node is None:
        return False
    if node.op_type == "Sub":
        return _is_size(node.inputs[0], "attention_mask", 1) and _is_size(node.inputs[1], "input_ids", 1)
    if node.op_type == "Clip":
        least = known(source_of(node.inputs[1], *_VIEWS))
        return (
            least is not None
            and not least.any()
            and len(node.inputs) == 3
            and _is_room(node.inputs[2])
            and _is_count(node.inputs[0])
        )
    if node.op_type == "Where":  # negative numbers count from the end
        negative = _source(node.inputs[0])
        if negative is None or negative.op_type != "Less":
            return False
        zero = known(source_of(negative.inputs[1], *_VIEWS))
        return zero is not None and not zero.any() and _is_count(negative.inputs[0]) and _is_count(node.inputs[2])
    return False


def _is_room(value: Value | None) -> bool:
    """Whether a value is the number of places less that of the tokens of the step."""
    node = _source(value)
    return node is not None and node.op_type == "Sub" and _is_capacity(node.inputs[0]) and _is_length(node.inputs[1])


def _is_range(value: Value | None, is_end: object) -> bool:
    """Whether a value is 0, 1, … up to a number."""
    node = _source(value)
    if node is None or node.op_type != "Range" or not callable(is_end):
        return False
    start, step = (known(source_of(node.inputs[i], *_VIEWS)) for i in (0, 2))
    return (
        start is not None
        and step is not None
        and not start.any()
        and bool((step == 1).all())
        and bool(is_end(node.inputs[1]))
    )


def _is_length(value: Value | None) -> bool:
    return _is_size(value, "input_ids", 1)


def _is_capacity(value: Value | None) -> bool:
    node = _source(value)
    if node is None or node.op_type != "Shape" or node.inputs[0] is None:
        return False
    return (node.inputs[0].name or "").startswith("past_key_values.") and _is_size(value, node.inputs[0].name or "", 2)


def _is_size(value: Value | None, name: str, axis: int) -> bool:
    """Whether a value is the size of an input of the graph along an axis."""
    node = _source(value)
    if node is None or node.op_type != "Shape" or node.inputs[0] is None or not node.inputs[0].is_graph_input():
        return False
    ends = [node.attributes[part].as_int() if part in node.attributes else None for part in ("start", "end")]
    return node.inputs[0].name == name and ends == [axis, axis + 1]


def group_queries(target: Target, model: ir.Model) -> None:
    """Make attention to all places until now ONNX Runtime's own operator, and declare its domain."""
    if GroupQueries(target)(model).modified:
        model.opset_imports[DOMAIN] = 1
