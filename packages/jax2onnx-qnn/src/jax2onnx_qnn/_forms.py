"""Operators in the forms in which the NPU runs them, and right, as measured with the provider's library. All sizes are fixed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.values import constant_tensor, dims_of, known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

from jax2onnx_qnn._restrictions import MOST_AXES

__all__ = ["FormsPass"]

_T = ir.DataType
_ELEMENTWISE_AXES = 4

#: Writes a node in another form, where it needs one.
_Rule = Callable[[GraphEditor, ir.Node], None]

#: Operators whose results are indices from 0 on, or of an element of their operand.
_COUNTS = {
    "ArgMax",
    "ArgMin",
    "Cast",
    "Gather",
    "GatherElements",
    "Identity",
    "Range",
    "Reshape",
    "Squeeze",
    "TopK",
    "Unsqueeze",
}


class FormsPass(GraphPass):
    """Write operators in the forms that the NPU has.

    1. Booleans are cast to integers of 64 bits by way of 32, and bytes to everything, which are 1 in floats otherwise.
    2. A norm over several axes goes over one axis, into which they are merged; RMSNormalization is one of rows, since that of more axes
       gives other numbers where the last but one is no multiple of 8.
    3. Elementwise operators on five axes go over two.
    4. Images whose last axis are channels are resized with channels first.
    5. A slice from a computed place is a Gather.
    6. Cumulative sums from the end go over a reversed operand; those without the own element subtract it.
    7. The remainder of integers is what the quotient leaves.
    8. Computed bounds of Clip are operands of Max and Min.
    9. Computed indices that may be below zero, which GatherElements and scatters do not know, get the size of the axis.
    10. The one index of a ScatterND gets an axis.
    11. Booleans on five axes are broadcast as integers.
    12. A product with a constant of which both operand and result are reshaped, to one shape, gets a bias of zeros: the library has no
        memory for it otherwise.
    13. An operand of floats next to one number many times, before it is reshaped, is a Pad: a product of it with a bias reads other numbers
        than those of the Concat.
    14. A Transpose of more axes than the NPU has goes over fewer: axes of size 1 are left out, and those that stay side by side are one.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in list(editor.nodes()):
            rule = None if node.domain else _RULES.get(node.op_type)
            if rule is not None and all(map(_is_static, (*node.inputs, *node.outputs))):
                rule(editor, node)


def _is_static(value: ir.Value | None) -> bool:
    return value is None or not value.name or (dims := dims_of(value)) is None or all(isinstance(d, int) for d in dims)


def _sizes(value: ir.Value | None) -> tuple[int, ...]:
    dims = None if value is None else dims_of(value)
    return tuple(d for d in dims or () if isinstance(d, int))


def _is_constant(value: ir.Value | None) -> bool:
    return value is None or constant_tensor(value) is not None


def _reshape(b: GraphBuilder, value: ir.Value, sizes: Sequence[int]) -> ir.Value:
    return b.op("Reshape", value, b.ints(sizes), dims=tuple(sizes))


def _cast(editor: GraphEditor, node: ir.Node) -> None:
    source = node.inputs[0]
    to = node.attributes.get_int("to", 0)
    if source is not None and (
        (source.dtype == _T.BOOL and to == _T.INT64) or (source.dtype == _T.UINT8 and to != _T.INT32)
    ):
        b = editor.before(node)
        node.replace_input_with(0, b.op("Cast", source, to=int(_T.INT32), dims=b.dims(source)))
        editor.modified = True


def _norm(editor: GraphEditor, node: ir.Node) -> None:
    x, *weights = node.inputs
    sizes = _sizes(x)
    axis = node.attributes.get_int("axis", -1) % max(len(sizes), 1)
    normalised, size = sizes[axis:], math.prod(sizes[axis:])
    kept = (math.prod(sizes[:axis]),) if node.op_type == "RMSNormalization" else sizes[:axis]
    if x is None or (*kept, size) == sizes or any(w is not None and _sizes(w) != normalised for w in weights):
        return
    b = editor.before(node)
    operands = [
        _reshape(b, x, (*kept, size)),
        *(None if w is None else _reshape(b, w, (size,)) for w in weights),
    ]
    attributes = {**attribute_values(node), "axis": -1}
    (normed,) = b.emit(node.op_type, operands, "", 1, None, (*kept, size), attributes)
    editor.put(node, "Reshape", [normed, b.ints(sizes)])


def _elementwise(editor: GraphEditor, node: ir.Node) -> None:
    sizes = _sizes(node.outputs[0])
    if len(sizes) <= _ELEMENTWISE_AXES or any(value is not None and _sizes(value) != sizes for value in node.inputs):
        return
    b, flat = editor.before(node), (sizes[0], math.prod(sizes[1:]))
    operands = [None if value is None else _reshape(b, value, flat) for value in node.inputs]
    (result,) = b.emit(node.op_type, operands, "", 1, None, flat, attribute_values(node))
    editor.put(node, "Reshape", [result, b.ints(sizes)])


def _resize(editor: GraphEditor, node: ir.Node) -> None:
    x, _, scales, lengths = (*node.inputs, None, None, None)[:4]
    given = known(scales if lengths is None else lengths)
    sizes, result = _sizes(x), _sizes(node.outputs[0])
    if (
        x is None
        or given is None
        or len(sizes) != 4
        or given.size != 4
        or sizes[1] == result[1]
        or sizes[3] != result[3]
    ):
        return
    b, first = editor.before(node), [0, 3, 1, 2]
    turned = b.op("Transpose", x, perm=first, dims=tuple(sizes[i] for i in first))
    factors = b.constant(given[first], given.dtype)
    operands = [turned, None, *((None, factors) if lengths is not None else (factors,))]
    (resized,) = b.emit("Resize", operands, "", 1, None, tuple(result[i] for i in first), attribute_values(node))
    editor.put(node, "Transpose", [resized], {"perm": [0, 2, 3, 1]})


def _slice(editor: GraphEditor, node: ir.Node) -> None:
    x, starts, _, given, steps = (*node.inputs, None, None)[:5]
    axes, strides = (None if value is None else known(value) for value in (given, steps))
    if x is None or starts is None or _is_constant(starts) or (strides is not None and np.any(strides != 1)):
        return
    b, taken, result = editor.before(node), x, _sizes(node.outputs[0])
    for place, axis in enumerate(range(len(_sizes(starts)) or 1) if axes is None else axes.tolist()):
        sizes = list(_sizes(taken))
        if sizes[axis] == result[axis]:
            continue
        start = b.op("Gather", starts, b.constant([place], np.int64), axis=0, dims=(1,))
        places = b.op("Add", start, b.constant(np.arange(result[axis]), like=starts), dims=(result[axis],))
        sizes[axis] = result[axis]
        taken = b.op("Gather", taken, places, axis=axis, dims=tuple(sizes))
    editor.replace(node, taken)


def _expand(editor: GraphEditor, node: ir.Node) -> None:
    x, sizes, result = node.inputs[0], node.inputs[1], _sizes(node.outputs[0])
    if x is None or x.dtype != _T.BOOL or len(result) <= _ELEMENTWISE_AXES:
        return
    b = editor.before(node)
    numbers = b.op("Expand", b.op("Cast", x, to=int(_T.INT32), dims=_sizes(x)), sizes, dims=result)
    editor.put(node, "Cast", [numbers], {"to": int(_T.BOOL)})


def _cumulative_sum(editor: GraphEditor, node: ir.Node) -> None:
    x, given = node.inputs
    axis = None if given is None else known(given)
    reverse, exclusive = (node.attributes.get_int(name, 0) for name in ("reverse", "exclusive"))
    if x is None or axis is None or not (reverse or exclusive):
        return
    b, dims = editor.before(node), _sizes(x)
    summed = b.op("CumSum", _flipped(b, x, axis.item()) if reverse else x, given, dims=dims)
    summed = _flipped(b, summed, axis.item()) if reverse else summed
    if exclusive:
        editor.put(node, "Sub", [summed, x])
    else:
        editor.replace(node, summed)


def _flipped(b: GraphBuilder, x: ir.Value, axis: int) -> ir.Value:
    return b.op("Slice", x, b.ints([-1]), b.ints([-(2**31)]), b.ints([axis]), b.ints([-1]), dims=_sizes(x))


def _remainder(editor: GraphEditor, node: ir.Node) -> None:
    x, y = node.inputs
    if x is None or y is None or x.dtype not in (_T.INT32, _T.INT64) or not node.attributes.get_int("fmod", 0):
        return
    b = editor.before(node)
    dims = _sizes(node.outputs[0])
    whole = b.op("Mul", b.op("Div", x, y, dims=dims), y, dims=dims)
    editor.put(node, "Sub", [x, whole])


def _clip(editor: GraphEditor, node: ir.Node) -> None:
    x, low, high = (*node.inputs, None, None)[:3]
    if x is None or (_is_constant(low) and _is_constant(high)):
        return
    b = editor.before(node)
    for operator, bound in (("Max", low), ("Min", high)):
        x = x if bound is None else b.op(operator, x, bound, dims=_sizes(node.outputs[0]))
    editor.replace(node, x)


def _elements(editor: GraphEditor, node: ir.Node) -> None:
    sizes = _sizes(node.inputs[0])
    if sizes:
        _wrap(editor, node, np.array(sizes[node.attributes.get_int("axis", 0)]))


def _rows(editor: GraphEditor, node: ir.Node) -> None:
    depth = (_sizes(node.inputs[1]) or (0,))[-1]
    _wrap(editor, node, np.array(_sizes(node.inputs[0])[:depth]))


def _scatter_rows(editor: GraphEditor, node: ir.Node) -> None:
    _rows(editor, node)
    _, indices, updates = node.inputs
    if indices is not None and updates is not None and len(_sizes(indices)) == 1:
        b = editor.before(node)
        for place in (1, 2):
            value = node.inputs[place]
            assert value is not None, "both were there"
            node.replace_input_with(place, b.op("Unsqueeze", value, b.ints([0]), dims=(1, *_sizes(value))))
        editor.modified = True


def _wrap(editor: GraphEditor, node: ir.Node, sizes: np.ndarray) -> None:
    """Add the size of the axis to the indices that are below zero."""
    indices = node.inputs[1]
    if indices is None or _is_counted(indices):
        return
    array = known(indices, limit=None)
    b, dims = editor.before(node), _sizes(indices)
    if array is not None:
        if np.any(array < 0):
            node.replace_input_with(1, b.constant(np.where(array < 0, array + sizes, array), like=indices))
            editor.modified = True
        return
    below = b.op("Less", indices, b.constant(0, like=indices), dims=dims)
    wrapped = b.op("Add", indices, b.constant(sizes, like=indices), dims=dims)
    node.replace_input_with(1, b.op("Where", below, wrapped, indices, dims=dims))
    editor.modified = True


def _is_counted(value: ir.Value) -> bool:
    """Whether the numbers are results of a search, or of a Range that ascends from zero or a number above it."""
    node = value.producer()
    while node is not None and node.op_type in _COUNTS:
        if node.op_type == "Range":
            return all((array := known(part)) is not None and array >= 0 for part in (node.inputs[0], node.inputs[2]))
        if node.op_type in ("ArgMax", "ArgMin") or (node.op_type == "TopK" and value is node.outputs[1]):
            return True
        source = node.inputs[0]
        if node.op_type == "TopK" or source is None:
            return False
        value, node = source, source.producer()
    return False


def _product(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 12."""
    x, product = node.inputs[0], node.outputs[0]
    reshape = None if x is None else x.producer()
    if reshape is None or reshape.op_type not in ("Flatten", "Reshape") or constant_tensor(node.inputs[1]) is None:
        return
    reshaped = [user for user, _ in product.uses() if user.op_type == "Reshape"]
    if any(_sizes(user.outputs[0]) == _sizes(reshape.inputs[0]) for user in reshaped):
        dtype = product.dtype
        assert dtype is not None
        zeros = editor.constant(np.zeros(_sizes(product)[-1:], dtype.numpy()))
        b = editor.after(product)
        editor.reroute(product, lambda value: b.op("Add", value, zeros, dims=b.dims(value)))


def _joined(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 13."""
    result, fill = node.outputs[0], known(node.inputs[-1])
    if (
        result.dtype not in (_T.FLOAT, _T.FLOAT16)
        or len(node.inputs) != 2
        or fill is None
        or fill.size == 0
        or (fill != fill.flat[0]).any()
    ):
        return
    if any(user.op_type == "Reshape" for user, _ in result.uses()):
        axis, axes = node.attributes["axis"].as_int(), len(_sizes(result))
        amounts = [0] * (2 * axes)
        amounts[axes + axis % axes] = fill.shape[axis]
        editor.put(node, "Pad", [node.inputs[0], editor.ints(amounts), editor.constant(fill.flat[0])])


def _transpose(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 14: between reshapes, which other reshapes take in."""
    x, result = node.inputs[0], node.outputs[0]
    sizes, reshape = _sizes(x), None if x is None else x.producer()
    if len(sizes) <= MOST_AXES or reshape is None or reshape.op_type != "Reshape" or result.is_graph_output():
        return
    source, users = reshape.inputs[0], [user for user, _ in result.uses()]
    if source is None or 0 in sizes or any(user.op_type != "Reshape" for user in users):
        return
    groups = _side_by_side([axis for axis in node.attributes["perm"].as_ints() if sizes[axis] != 1])
    order = sorted(range(len(groups)), key=lambda group: groups[group])
    merged = [math.prod(sizes[axis] for axis in groups[group]) for group in order]
    b = editor.before(node)
    operand = _reshape(b, source, merged)
    turned = b.transpose(operand, [order.index(group) for group in range(len(groups))])
    for user in users:
        user.replace_input_with(0, turned)
        user.replace_input_with(1, editor.ints(_sizes(user.outputs[0])))
    editor.discard(node)
    if not reshape.outputs[0].uses() and not reshape.outputs[0].is_graph_output():
        editor.discard(reshape)


def _side_by_side(axes: Sequence[int]) -> list[list[int]]:
    """The runs of axes that follow each other."""
    groups: list[list[int]] = []
    for axis in axes:
        if groups and axis == groups[-1][-1] + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


_ELEMENTWISE = (
    "Cos",
    "Elu",
    "Floor",
    "Log",
    "Max",
    "Min",
    "Neg",
    "Not",
    "Round",
    "Sin",
    "Softplus",
    "Sqrt",
    "Tanh",
    "Ceil",
    "Sign",
)

_RULES: Mapping[str, _Rule] = {
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _joined,
    "CumSum": _cumulative_sum,
    "Expand": _expand,
    "GatherElements": _elements,
    "GatherND": _rows,
    "LayerNormalization": _norm,
    "MatMul": _product,
    "Mod": _remainder,
    "RMSNormalization": _norm,
    "Resize": _resize,
    "ScatterElements": _elements,
    "ScatterND": _scatter_rows,
    "Slice": _slice,
    "Transpose": _transpose,
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
}
