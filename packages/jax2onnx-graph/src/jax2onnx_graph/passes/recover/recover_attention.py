"""Recognise `Attention` in two products around a softmax."""

from __future__ import annotations

__all__ = ["RecoverAttention"]

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim, same_dims
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.patterns import VersionedPass, is_read_once, operation, other_operand, rewrite_as, scalar

# JAX's own number for masked logits: a logit of ordinary size added to it leaves just the number.
_MASKED = float(-0.7 * np.finfo(np.float32).max)
_SURELY_MASKED = -1e4
_SWAPPED = (0, 1, 3, 2)
_HEADS = (0, 2, 1, 3)


class RecoverAttention(VersionedPass):
    """From opset 23, in single precision, where q [B, N, T, H], k [B, N, S, H] and v [B, N, S, H'] meet as

        softmax(q · transpose(k) · c, ...) · v      [B, N, T, H']

    and nobody else reads the probabilities:

    1. It is `Attention` of q, k, v, with c as its scale; c may stand at q, k or the logits.
    2. Where k and v are transposes of [B, S, N, H], operands and result are those of the 3-D form,
       [B, ·, N · H], and the transposes go; otherwise, as with caches of [B, N, S, H], of the 4-D form.
    3. `Where(mask, logits, number)`, the number large and negative, and `Add` of a bias become its mask: a float
       one, so that a row without any allowed key attends to all keys alike, as in the formula.
    4. The second product may be written transposed, as `einsum` does: v' · p'.
    """

    lowest_opset = 23

    def rewrite(self, editor: GraphEditor) -> None:
        masks = _Masks(editor)
        for node in editor.nodes():
            if node.op_type == "MatMul" and not node.domain and node.outputs[0].dtype == ir.DataType.FLOAT:
                found = _read(node)
                if found is not None and _is_plain(found):
                    _emit(editor, node, found, masks)


@dataclasses.dataclass
class _Operand:
    """A value of [B, N, ·, H], or with heads last of [B, ·, N, H]."""

    value: ir.Value
    heads_last: bool

    @property
    def axis(self) -> int:
        """Of the tokens."""
        return 1 if self.heads_last else 2

    def dims(self) -> tuple[LabelledDim, ...]:
        """As of [B, N, ·, H]."""
        dims = dims_of(self.value) or ()
        return tuple(dims[axis] for axis in _HEADS) if self.heads_last and len(dims) == 4 else dims

    def merges(self) -> bool:
        """Whether [B, ·, N · H] is a view of it."""
        return self.heads_last or self.dims()[1] == 1


@dataclasses.dataclass
class _Found:
    query: _Operand
    key: _Operand
    value: _Operand
    transposed: bool
    scale: float = 1.0
    bias: ir.Value | None = None
    mask: ir.Value | None = None
    masked: float = 0.0
    inverted: bool = False


def _perm(node: ir.Node) -> tuple[int, ...]:
    return tuple(node.attributes["perm"].as_ints()) if "perm" in node.attributes else ()


def _read_operand(value: ir.Value | None, swapped: bool) -> _Operand | None:
    """What the operand of a product is a transpose of; `swapped` if it stands there as [B, N, H, ·]."""
    node = operation(value, "Transpose")
    perm = (0, 1, 2, 3) if node is None else _perm(node)
    if node is not None and node.inputs[0] is not None:
        if perm == ((0, 2, 3, 1) if swapped else _HEADS):
            return _Operand(node.inputs[0], True)
        if swapped and perm == _SWAPPED:
            return _Operand(node.inputs[0], False)
    return None if swapped or value is None else _Operand(value, False)


def _read(node: ir.Node) -> _Found | None:
    """The parts of an attention whose last step is the product `node`."""
    for transposed in (False, True):
        probabilities, value = reversed(node.inputs) if transposed else node.inputs
        softmax = operation(_swapped(probabilities) if transposed else probabilities, "Softmax")
        if softmax is None or not is_read_once(softmax.outputs[0]) or not is_read_once(probabilities):
            continue
        found_value = _read_operand(value, transposed)
        if found_value is not None and softmax.attributes["axis"].as_int() in (-1, 3):
            return _read_logits(softmax.inputs[0], _Found(found_value, found_value, found_value, transposed))
    return None


def _swapped(value: ir.Value | None) -> ir.Value | None:
    """x [B, N, T, S] where `value` is [B, N, S, T]; for one token that is a view."""
    node = operation(value, "Transpose", "Reshape")
    if node is None:
        return None
    if node.op_type == "Transpose":
        return node.inputs[0] if _perm(node) == _SWAPPED else None
    before, after = dims_of(node.inputs[0]) or (), dims_of(value) or ()
    is_row = len(before) == len(after) == 4 and before[2] == 1
    return node.inputs[0] if is_row and same_dims([before[axis] for axis in _SWAPPED], after) else None


def _read_logits(logits: ir.Value | None, found: _Found) -> _Found | None:
    node = operation(logits, "Where")
    if node is not None:
        for inverted, index in ((False, 2), (True, 1)):
            number = scalar(node.inputs[index])
            if number is not None and number <= _SURELY_MASKED:
                found.mask, found.masked, found.inverted = node.inputs[0], number, inverted
                logits = node.inputs[3 - index]
                break
        else:
            return None
    logits, found.scale = _without_factor(logits)
    node = operation(logits, "Add")
    if node is not None:
        if found.scale != 1:
            return None
        for candidate in node.inputs:
            inner, scale = _without_factor(candidate)
            if operation(inner, "MatMul") is not None:
                found.bias, found.scale, logits = other_operand(node, candidate), scale, inner
                break
    product = operation(logits, "MatMul")
    return None if product is None else _read_product(product, found)


def _without_factor(value: ir.Value | None) -> tuple[ir.Value | None, float]:
    """What `value` is a multiple of, and the factor."""
    factor = 1.0
    while (node := operation(value, "Mul", "Div")) is not None:
        for operand in node.inputs[:1] if node.op_type == "Div" else node.inputs:
            number = scalar(other_operand(node, operand))
            if number:
                factor *= number if node.op_type == "Mul" else 1 / number
                value = operand
                break
        else:
            return value, factor
    return value, factor


def _read_product(product: ir.Node, found: _Found) -> _Found | None:
    operands = []
    for value, swapped in zip(product.inputs, (False, True), strict=True):
        inner, outer_factor = _without_factor(value)
        operand = _read_operand(inner, swapped)
        if operand is None:
            return None
        source, factor = _without_factor(operand.value)
        if source is None:
            return None
        if same_dims(dims_of(source), dims_of(operand.value)):
            operand.value, outer_factor = source, outer_factor * factor
        found.scale *= outer_factor
        operands.append(operand)
    found.query, found.key = operands
    return found


def _is_plain(found: _Found) -> bool:
    """Whether the operands are [B, N, T, H], [B, N, S, H], [B, N, S, H'] and mask and bias have rank at most 4."""
    q, k, v = (x.dims() for x in (found.query, found.key, found.value))
    if not len(q) == len(k) == len(v) == 4:
        return False
    if not all(isinstance(d, int) for dims in (q, k, v) for d in (dims[1], dims[3])):
        return False
    if not (same_dim(q[0], k[0]) and same_dims(k[:3], v[:3]) and q[1] == k[1] and q[3] == k[3]):
        return False
    ranks = [len(dims) for x in (found.mask, found.bias) if x is not None for dims in [dims_of(x) or (0,) * 9]]
    return all(rank <= 4 for rank in ranks)


def _emit(editor: GraphEditor, node: ir.Node, found: _Found, masks: _Masks) -> None:
    (batch, heads, length, features), width = found.query.dims(), found.value.dims()[3]
    assert isinstance(heads, int) and isinstance(features, int) and isinstance(width, int)
    merged = found.key.merges() and found.value.merges()
    lay_out = _merged if merged else _heads_first
    inputs: list[ir.Value | None] = [lay_out(editor, node, x) for x in (found.query, found.key, found.value)]
    if (added := masks.added(node, found)) is not None:
        inputs.append(added)
    attributes: dict[str, int | float] = {"q_num_heads": heads, "kv_num_heads": heads} if merged else {}
    if not math.isclose(found.scale, features**-0.5, rel_tol=1e-6):
        attributes["scale"] = found.scale
    attention = ir.Node(
        "", "Attention", inputs, [ir.convenience.convert_attribute(key, number) for key, number in attributes.items()],
        name=f"{node.name}.Attention",
    )  # fmt: skip
    if merged:
        result = _insert(editor, node, attention, (batch, length, heads * width))
        _serve(editor, node, result, found.transposed, editor.ints([0, 0, heads, width]))
    else:
        result = _insert(editor, node, attention, (batch, heads, length, width))
        _serve(editor, node, result, found.transposed, None)


def _serve(editor: GraphEditor, node: ir.Node, result: ir.Value, transposed: bool, split: ir.Value | None) -> None:
    """Let the readers of the product `node` read `result`: [B, T, N · H'], to be `split`, or [B, N, T, H']."""
    back = (0, 3, 1, 2) if transposed else _HEADS
    output = node.outputs[0]
    if split is None and not transposed:
        editor.replace(node, result)
        return
    for user, _ in list(output.uses()):
        if operation(user.outputs[0], "Transpose") is not None and _perm(user) == back:
            if split is None:
                rewrite_as(editor, user, "Transpose", [result], {"perm": _HEADS})
            else:
                rewrite_as(editor, user, "Reshape", [result, split])
    if not output.uses() and not output.is_graph_output():
        return
    if split is None:
        rewrite_as(editor, node, "Transpose", [result], {"perm": _SWAPPED})
        return
    batch, heads, *last = dims_of(output) or ()
    length, width = reversed(last) if transposed else last
    tokens = _insert(editor, node, ir.Node("", "Reshape", [result, split]), (batch, length, heads, width))
    rewrite_as(editor, node, "Transpose", [tokens], {"perm": (0, 2, 3, 1) if transposed else _HEADS})


def _merged(editor: GraphEditor, node: ir.Node, x: _Operand) -> ir.Value:
    """As [B, ·, N · H]."""
    batch, heads, length, features = x.dims()
    assert isinstance(heads, int) and isinstance(features, int)
    value, first = x.value, 0
    if not x.heads_last:
        if heads == 1 or length == 1:
            first = length if isinstance(length, int) else -1
        else:
            transpose = ir.Node("", "Transpose", [value], [ir.AttrInt64s("perm", _HEADS)])
            value = _insert(editor, node, transpose, (batch, length, heads, features))
    reshape = ir.Node("", "Reshape", [value, editor.ints([0, first, heads * features])])
    return _insert(editor, node, reshape, (batch, length, heads * features))


def _heads_first(editor: GraphEditor, node: ir.Node, x: _Operand) -> ir.Value:
    """As [B, N, ·, H]."""
    if not x.heads_last:
        return x.value
    return _insert(editor, node, ir.Node("", "Transpose", [x.value], [ir.AttrInt64s("perm", _HEADS)]), x.dims())


def _insert(editor: GraphEditor, before: ir.Node, node: ir.Node, dims: object) -> ir.Value:
    output = node.outputs[0]
    output.type, output.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(dims)  # type: ignore[arg-type]
    editor.graph.insert_before(before, node)
    return output


class _Masks:
    """The float masks of a graph: layers that share a mask share what is made of it."""

    def __init__(self, editor: GraphEditor) -> None:
        self._editor = editor
        self._made: dict[object, ir.Value] = {}

    def added(self, node: ir.Node, found: _Found) -> ir.Value | None:
        """Bias and mask as one tensor [·, ·, T, S] to be added to the logits, None where there is neither."""
        if found.mask is None and found.bias is None:
            return None
        length, keys = (x.dims()[2] for x in (found.query, found.key))
        identity = (found.mask, found.bias, found.masked == -np.inf, found.inverted, str(length), str(keys))
        if identity not in self._made:
            value = found.bias if found.mask is None else self._where(node, found)
            assert value is not None
            self._made[identity] = self._in_full(node, value, found)
        return self._made[identity]

    def _where(self, node: ir.Node, found: _Found) -> ir.Value:
        allowed = self._editor.constant(np.zeros((), np.float32)) if found.bias is None else found.bias
        number = -np.inf if found.masked == -np.inf else _MASKED
        choices = [allowed, self._editor.constant(np.array(number, np.float32))]
        where = ir.Node("", "Where", [found.mask, *(reversed(choices) if found.inverted else choices)])
        shapes = [dims_of(x) or () for x in (found.mask, found.bias) if x is not None]
        return _insert(self._editor, node, where, _broadcast(shapes))

    def _in_full(self, node: ir.Node, value: ir.Value, found: _Found) -> ir.Value:
        """`value` with rank 4 and the last two dimensions in full, as `Attention` wants them."""
        dims = dims_of(value) or ()
        if missing := 4 - len(dims):
            unsqueeze = ir.Node("", "Unsqueeze", [value, self._editor.ints(list(range(missing)))])
            dims = (*[1] * missing, *dims)
            value = _insert(self._editor, node, unsqueeze, dims)
        wanted = (*dims[:2], found.query.dims()[2], found.key.dims()[2])
        if same_dims(dims, wanted):
            return value
        target = [self._editor.ints([1, 1])] + [self._length(node, x) for x in (found.query, found.key)]
        shape = ir.Node("", "Concat", target, [ir.AttrInt64("axis", 0)])
        shape.outputs[0].type, shape.outputs[0].shape = ir.TensorType(ir.DataType.INT64), ir.Shape([4])
        self._editor.graph.insert_before(node, shape)
        return _insert(self._editor, node, ir.Node("", "Expand", [value, shape.outputs[0]]), wanted)

    def _length(self, node: ir.Node, x: _Operand) -> ir.Value:
        length = x.dims()[2]
        if isinstance(length, int):
            return self._editor.ints([length])
        shape = ir.Node("", "Shape", [x.value], [ir.AttrInt64("start", x.axis), ir.AttrInt64("end", x.axis + 1)])
        shape.outputs[0].type, shape.outputs[0].shape = ir.TensorType(ir.DataType.INT64), ir.Shape([1])
        self._editor.graph.insert_before(node, shape)
        return shape.outputs[0]


def _broadcast(shapes: Sequence[Sequence[LabelledDim]]) -> list[LabelledDim]:
    """The dimensions of an elementwise result, aligned at the right."""
    rank = max(map(len, shapes))
    padded: list[list[LabelledDim]] = [[*[1] * (rank - len(shape)), *shape] for shape in shapes]
    return [next((d for d in axis if d != 1), 1) for axis in zip(*padded, strict=True)]
