"""Recognise `Attention` in two products around a softmax."""

from __future__ import annotations

__all__ = ["RecoverAttention"]

import dataclasses
import math

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dims import Dims, is_static
from jax2onnx_graph.facts.shapes import broadcast_dims
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim, same_dims
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import is_read_once, operation, other_operand, permutation_of, scalar

# JAX's own number for masked logits: a logit of ordinary size added to it leaves just the number.
_MASKED = float(-0.7 * np.finfo(np.float32).max)
_SURELY_MASKED = -1e4
_SWAPPED = (0, 1, 3, 2)
_HEADS = (0, 2, 1, 3)


class RecoverAttention(GraphPass):
    """In single precision (the number that masks a logit is one of float32), where q [B, N, T, H], k [B, N, S, H] and
    v [B, N, S, H'] meet as

        softmax(q · transpose(k) · c, ...) · v      [B, N, T, H']

    and the probabilities have no other reader:

    1. It is `Attention` of q, k, v, with c as its scale; c may stand at q, k or the logits.
    2. Where k and v are transposes of [B, S, N, H], operands and result are those of the 3-D form,
       [B, ·, N · H], and the transposes go; otherwise, as with caches of [B, N, S, H], of the 4-D form.
    3. `Where(mask, logits, number)`, the number large and negative, and `Add` of a bias become its mask: a float
       one, so that a row without any allowed key attends to all keys alike, as in the formula.
    4. The second product may be written transposed, as `einsum` does: v' · p'.
    """

    produces = frozenset({"Attention"})
    after = ("RecoverSoftmax", "FoldTransposes", "RecoverRotary")

    def rewrite(self, editor: GraphEditor) -> None:
        masks = _Masks()
        for node in editor.nodes():
            if node.op_type != "MatMul" or node.domain or node.outputs[0].dtype != ir.DataType.FLOAT:
                continue
            found = _read(node)
            if found is not None and _is_plain(found) and editor.supports("Attention", node.outputs[0]):
                _rewrite(editor, node, found, masks)


@dataclasses.dataclass
class _Operand:
    """A query, key or value: [B, N, ·, H], or with the heads after the sequence [B, ·, N, H]."""

    value: ir.Value
    heads_last: bool

    @property
    def axis(self) -> int:
        """Sequence axis of `value`: 1 if heads are last, else 2."""
        return 1 if self.heads_last else 2

    def dims(self) -> tuple[LabelledDim, ...]:
        """The dimensions in the order [B, N, ·, H]."""
        dims = dims_of(self.value) or ()
        return tuple(dims[axis] for axis in _HEADS) if self.heads_last and len(dims) == 4 else dims

    def merges(self) -> bool:
        """Whether [B, ·, N · H] is a view of `value`."""
        return self.heads_last or self.dims()[1] == 1


@dataclasses.dataclass
class _Found:
    """An attention that was read: softmax(mask(query · keyᵀ · scale + bias)) · value.

    Attributes:
      transposed: whether the result is [B, N, H', T], as `einsum` may write it.
      mask: where logits are `masked`, a large negative number: where it is False, or True if it is `inverted`.
    """

    query: _Operand
    key: _Operand
    value: _Operand
    transposed: bool
    scale: float = 1.0
    bias: ir.Value | None = None
    mask: ir.Value | None = None
    masked: float = 0.0
    inverted: bool = False


# ------------------------------------------------------------------------------------------- reading


def _read_operand(value: ir.Value | None, swapped: bool) -> _Operand | None:
    """The query, key or value of which `value` is a view or a transpose; `swapped` if its last two axes are exchanged."""
    node = operation(value, "Transpose")
    if node is not None and node.inputs[0] is not None:
        perm = permutation_of(node)
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
        if found_value is not None and softmax.attributes.get_int("axis", -1) in (-1, 3):
            return _read_logits(softmax.inputs[0], _Found(found_value, found_value, found_value, transposed))
    return None


def _swapped(value: ir.Value | None) -> ir.Value | None:
    """x [B, N, T, S] where `value` is [B, N, S, T]: its transpose, or with T = 1 a reshape of it."""
    node = operation(value, "Transpose", "Reshape")
    if node is None:
        return None
    if node.op_type == "Transpose":
        return node.inputs[0] if permutation_of(node) == _SWAPPED else None
    before, after = dims_of(node.inputs[0]) or (), dims_of(value) or ()
    is_row = len(before) == len(after) == 4 and before[2] == 1
    return node.inputs[0] if is_row and same_dims([before[axis] for axis in _SWAPPED], after) else None


def _read_logits(logits: ir.Value | None, found: _Found) -> _Found | None:
    """`found` completed with mask, bias and scale of the logits, and the operands of their product."""
    node = operation(logits, "Where")
    if node is not None:
        logits = _read_mask(node, found)
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


def _read_mask(where: ir.Node, found: _Found) -> ir.Value | None:
    """The logits that `where` masks; None where it does not put a large negative number in their place."""
    for inverted, index in ((False, 2), (True, 1)):
        number = scalar(where.inputs[index])
        if number is not None and number <= _SURELY_MASKED:
            found.mask, found.masked, found.inverted = where.inputs[0], number, inverted
            return where.inputs[3 - index]
    return None


def _without_factor(value: ir.Value | None) -> tuple[ir.Value | None, float]:
    """(v, number) where `value` is v times the number, which collects all factors that are numbers."""
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
    """`found` completed with query and key, the operands of `product`, whose factors go into the scale."""
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
    added = [dims_of(x) for x in (found.mask, found.bias) if x is not None]
    return all(dims is not None and len(dims) <= 4 for dims in added) and broadcast_dims(added) is not None


# ------------------------------------------------------------------------------------------- writing


def _rewrite(editor: GraphEditor, node: ir.Node, found: _Found, masks: _Masks) -> None:
    """Put `Attention` in the place of the product `node`."""
    (batch, heads, length, features), width = labelled(found.query.dims()), found.value.dims()[3]
    assert is_static(heads) and is_static(features) and isinstance(width, int)
    builder = editor.before(node)
    merged = found.key.merges() and found.value.merges()
    lay_out = _merged if merged else _heads_first
    inputs: list[ir.Value] = [lay_out(builder, x) for x in (found.query, found.key, found.value)]
    if (added := masks.added(builder, found)) is not None:
        inputs.append(added)
    result = builder.op.Attention(
        *inputs,
        dims=(batch, length, heads * width) if merged else (batch, heads, length, width),
        q_num_heads=heads if merged else None,
        kv_num_heads=heads if merged else None,
        scale=None if math.isclose(found.scale, features**-0.5, rel_tol=1e-6) else found.scale,
    )
    if merged:
        _put_merged(editor, node, result, found, (batch, length, heads, width))
    else:
        _put_heads_first(editor, node, result, found)


def _put_merged(editor: GraphEditor, node: ir.Node, result: ir.Value, found: _Found, split: Dims) -> None:
    """Put `result` [B, T, N · H'], `split` as [B, T, N, H'], in the place of `node` and of the transposes of it."""
    builder = editor.before(node)
    perm = (0, 2, 3, 1) if found.transposed else _HEADS
    target = builder.ints([0, 0, *(d for d in split[2:] if is_static(d))])
    for user in _transposes(node.outputs[0], (0, 3, 1, 2) if found.transposed else _HEADS):
        editor.put(user, "Reshape", [result, target])
    if _is_used(node.outputs[0]):
        editor.put(node, "Transpose", [builder.op.Reshape(result, target, dims=split)], {"perm": perm})


def _put_heads_first(editor: GraphEditor, node: ir.Node, result: ir.Value, found: _Found) -> None:
    """Put `result` [B, N, T, H'] in the place of `node` and of the transposes of it."""
    if not found.transposed:
        editor.replace(node, result)
        return
    for user in _transposes(node.outputs[0], (0, 3, 1, 2)):
        editor.put(user, "Transpose", [result], {"perm": _HEADS})
    if _is_used(node.outputs[0]):
        editor.put(node, "Transpose", [result], {"perm": _SWAPPED})


def _transposes(value: ir.Value, perm: tuple[int, ...]) -> list[ir.Node]:
    """The nodes that transpose `value` by `perm`."""
    users = [user for user, _ in value.uses() if user.op_type == "Transpose" and not user.domain]
    return [user for user in users if permutation_of(user) == perm]


def _is_used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _merged(builder: InsertionPoint, x: _Operand) -> ir.Value:
    """The operand as [B, ·, N · H]."""
    batch, heads, length, features = labelled(x.dims())
    assert is_static(heads) and is_static(features)
    value, first = x.value, 0
    if not x.heads_last:
        if heads == 1 or length == 1:
            first = length if is_static(length) else -1
        else:
            value = builder.op.Transpose(value, perm=_HEADS, dims=(batch, length, heads, features))
    target = builder.ints([0, first, heads * features])
    return builder.op.Reshape(value, target, dims=(batch, length, heads * features))


def _heads_first(builder: InsertionPoint, x: _Operand) -> ir.Value:
    """The operand as [B, N, ·, H]."""
    return builder.op.Transpose(x.value, perm=_HEADS, dims=labelled(x.dims())) if x.heads_last else x.value


class _Masks:
    """The float masks of a graph: layers that share a mask share what is made of it."""

    def __init__(self) -> None:
        self._made: dict[object, ir.Value] = {}

    def added(self, builder: InsertionPoint, found: _Found) -> ir.Value | None:
        """Bias and mask as one tensor [·, ·, T, S] to be added to the logits, None where there is neither."""
        if found.mask is None and found.bias is None:
            return None
        length, keys = (x.dims()[2] for x in (found.query, found.key))
        identity = (found.mask, found.bias, found.masked == -np.inf, found.inverted, str(length), str(keys))
        if identity not in self._made:
            value = _as_bias(builder, found)
            self._made[identity] = _in_full(builder, value, found)
        return self._made[identity]


def _as_bias(builder: InsertionPoint, found: _Found) -> ir.Value:
    """The bias, with the number for masked logits where the mask hides a key."""
    allowed = builder.constant(0, np.float32) if found.bias is None else found.bias
    if found.mask is None:
        return allowed
    hidden = builder.constant(-np.inf if found.masked == -np.inf else _MASKED, np.float32)
    return builder.op.Where(found.mask, *((hidden, allowed) if found.inverted else (allowed, hidden)))


def _in_full(builder: InsertionPoint, value: ir.Value, found: _Found) -> ir.Value:
    """`value` with rank 4 and the last two dimensions in full, as `Attention` takes them."""
    value = builder.unsqueeze(value, range(4 - len(builder.known_dims(value))))
    dims = dims_of(value) or ()
    wanted = (*dims[:2], found.query.dims()[2], found.key.dims()[2])
    if same_dims(dims, wanted):
        return value
    target = builder.concat([builder.ints([1, 1]), *(_length(builder, x) for x in (found.query, found.key))], 0)
    return builder.op.Expand(value, target, dims=labelled(wanted))


def _length(builder: InsertionPoint, x: _Operand) -> ir.Value:
    """The length of the operand's sequence as an int64 vector of one element."""
    length = x.dims()[2]
    if isinstance(length, int):
        return builder.ints([length])
    return builder.op.Shape(x.value, start=x.axis, end=x.axis + 1, dims=(1,))
