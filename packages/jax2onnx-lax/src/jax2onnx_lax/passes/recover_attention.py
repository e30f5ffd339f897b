"""Recognise `Attention` in two products around a softmax."""

from __future__ import annotations

__all__ = ["RecoverAttention"]

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from jax2onnx_core.passes.graph_pass import Dim, Scope, dims_of, same_dim, same_dims

from jax2onnx_lax.passes.matching import VersionedPass, is_read_once, operation, other_operand, rewrite_as, scalar

# JAX's own number for masked logits: a logit of ordinary size added to it leaves just the number.
_MASKED = float(-0.7 * np.finfo(np.float32).max)
_SURELY_MASKED = -1e4


class RecoverAttention(VersionedPass):
    """From opset 23, in single precision, where q [B, T, N, H], k [B, S, N, H] and v [B, S, N, H'] meet as

        transpose(softmax(transpose(q) · transpose(k) · c, ...) · transpose(v))      [B, T, N, H']

    and nobody else reads the probabilities:

    1. It is `Attention` of q, k, v as [B, ·, N · H], with c as its scale; c may stand at q, k or the logits.
    2. `Where(mask, logits, number)`, the number large and negative, and `Add` of a bias become its mask: a float
       one, so that a row without any allowed key attends to all keys alike, as in the formula.
    3. The second product may be written transposed, as `einsum` does: v' · p'.
    """

    lowest_opset = 23

    def rewrite(self, scope: Scope) -> None:
        masks = _Masks(scope)
        for node in scope.nodes():
            if node.op_type == "Transpose" and not node.domain and node.outputs[0].dtype == ir.DataType.FLOAT:
                found = _read(node)
                if found is not None:
                    _emit(scope, node, found, masks)


@dataclasses.dataclass
class _Found:
    query: ir.Value
    key: ir.Value
    value: ir.Value
    scale: float = 1.0
    bias: ir.Value | None = None
    mask: ir.Value | None = None
    masked: float = 0.0
    inverted: bool = False


def _perm(node: ir.Node) -> tuple[int, ...]:
    return tuple(node.attributes["perm"].as_ints()) if "perm" in node.attributes else ()


def _transposed(value: ir.Value | None, perm: tuple[int, ...]) -> ir.Value | None:
    """x where `value` is `Transpose(x)` by `perm`, x of rank 4."""
    node = operation(value, "Transpose")
    return node.inputs[0] if node is not None and _perm(node) == perm else None


def _read(node: ir.Node) -> _Found | None:
    """The parts of an attention whose last step is the transpose `node`."""
    product = operation(node.inputs[0], "MatMul")
    if product is None:
        return None
    if _perm(node) == (0, 2, 1, 3):
        probabilities, value = product.inputs[0], _transposed(product.inputs[1], (0, 2, 1, 3))
    elif _perm(node) == (0, 3, 1, 2):
        value, probabilities = _transposed(product.inputs[0], (0, 2, 3, 1)), product.inputs[1]
        probabilities = _transposed(probabilities, (0, 1, 3, 2))
    else:
        return None
    softmax = operation(probabilities, "Softmax")
    if value is None or softmax is None or not is_read_once(probabilities):
        return None
    if softmax.attributes["axis"].as_int() not in (-1, 3):
        return None
    found = _read_logits(softmax.inputs[0], value)
    return found if found is not None and _is_plain(found) else None


def _read_logits(logits: ir.Value | None, value: ir.Value) -> _Found | None:
    found = _Found(value, value, value)
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
    logits = _without_factor(logits, found)
    node = operation(logits, "Add")
    if node is not None:
        if found.scale != 1:
            return None
        for candidate in node.inputs:
            inner = _Found(value, value, value)
            if operation(_without_factor(candidate, inner), "MatMul") is not None:
                found.bias, found.scale = other_operand(node, candidate), inner.scale
                logits = _without_factor(candidate, inner)
                break
    product = operation(logits, "MatMul")
    return None if product is None else _read_product(product, found)


def _without_factor(value: ir.Value | None, found: _Found) -> ir.Value | None:
    """What `value` is a multiple of; the factors go into the scale."""
    while (node := operation(value, "Mul", "Div")) is not None:
        for operand in node.inputs[:1] if node.op_type == "Div" else node.inputs:
            number = scalar(other_operand(node, operand))
            if number:
                found.scale *= number if node.op_type == "Mul" else 1 / number
                value = operand
                break
        else:
            return value
    return value


def _read_product(product: ir.Node, found: _Found) -> _Found | None:
    query = _transposed(_without_factor(product.inputs[0], found), (0, 2, 1, 3))
    key = _transposed(_without_factor(product.inputs[1], found), (0, 2, 3, 1))
    query, key = _without_factor(query, found), _without_factor(key, found)
    if query is None or key is None:
        return None
    found.query, found.key = query, key
    return found


def _is_plain(found: _Found) -> bool:
    """Whether the operands are [B, T, N, H], [B, S, N, H], [B, S, N, H'] and mask and bias have rank at most 4."""
    q, k, v = (dims_of(x) or () for x in (found.query, found.key, found.value))
    if not len(q) == len(k) == len(v) == 4 or not all(isinstance(d, int) for d in (*q[2:], *k[2:], *v[2:])):
        return False
    if not (same_dim(q[0], k[0]) and same_dims(k[:3], v[:3]) and q[2:] == k[2:]):
        return False
    ranks = [len(dims) for x in (found.mask, found.bias) if x is not None for dims in [dims_of(x) or (0,) * 9]]
    return all(rank <= 4 for rank in ranks)


def _emit(scope: Scope, node: ir.Node, found: _Found, masks: _Masks) -> None:
    (_, _, heads, features), width = dims_of(found.query) or (0,) * 4, (dims_of(found.value) or (0,) * 4)[3]
    assert isinstance(heads, int) and isinstance(features, int) and isinstance(width, int)
    inputs = [_merged(scope, node, x) for x in (found.query, found.key, found.value)]
    added = masks.added(node, found)
    attributes: dict[str, int | float] = {"q_num_heads": heads, "kv_num_heads": heads}
    if not math.isclose(found.scale, features**-0.5, rel_tol=1e-6):
        attributes["scale"] = found.scale
    attention = ir.Node(
        "", "Attention", [*inputs, *([] if added is None else [added])],
        [ir.convenience.convert_attribute(key, number) for key, number in attributes.items()],
        name=f"{node.name}.Attention",
    )  # fmt: skip
    _insert(scope, node, attention, (*(dims_of(node.outputs[0]) or ())[:2], heads * width))
    rewrite_as(scope, node, "Reshape", [attention.outputs[0], scope.ints([0, 0, heads, width])])


def _merged(scope: Scope, node: ir.Node, x: ir.Value) -> ir.Value:
    """x [B, ·, N, H] as [B, ·, N · H]."""
    batch, length, heads, features = dims_of(x) or (0,) * 4
    assert isinstance(heads, int) and isinstance(features, int)
    reshape = ir.Node("", "Reshape", [x, scope.ints([0, 0, heads * features])])
    return _insert(scope, node, reshape, (batch, length, heads * features))


def _insert(scope: Scope, before: ir.Node, node: ir.Node, dims: object) -> ir.Value:
    output = node.outputs[0]
    output.type, output.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(dims)  # type: ignore[arg-type]
    scope.graph.insert_before(before, node)
    return output


class _Masks:
    """The float masks of a graph: layers that share a mask share what is made of it."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._made: dict[object, ir.Value] = {}

    def added(self, node: ir.Node, found: _Found) -> ir.Value | None:
        """Bias and mask as one tensor [·, ·, T, S] to be added to the logits, None where there is neither."""
        if found.mask is None and found.bias is None:
            return None
        length, keys = (dims_of(x)[1] for x in (found.query, found.key))  # type: ignore[index]
        identity = (found.mask, found.bias, found.masked == -np.inf, found.inverted, str(length), str(keys))
        if identity not in self._made:
            value = found.bias if found.mask is None else self._where(node, found)
            assert value is not None
            self._made[identity] = self._in_full(node, value, found)
        return self._made[identity]

    def _where(self, node: ir.Node, found: _Found) -> ir.Value:
        allowed = self._scope.constant(np.zeros((), np.float32)) if found.bias is None else found.bias
        number = -np.inf if found.masked == -np.inf else _MASKED
        choices = [allowed, self._scope.constant(np.array(number, np.float32))]
        where = ir.Node("", "Where", [found.mask, *(reversed(choices) if found.inverted else choices)])
        shapes = [dims_of(x) or () for x in (found.mask, found.bias) if x is not None]
        return _insert(self._scope, node, where, _broadcast(shapes))

    def _in_full(self, node: ir.Node, value: ir.Value, found: _Found) -> ir.Value:
        """`value` with rank 4 and the last two dimensions in full, as `Attention` wants them."""
        dims = dims_of(value) or ()
        if missing := 4 - len(dims):
            unsqueeze = ir.Node("", "Unsqueeze", [value, self._scope.ints(list(range(missing)))])
            dims = (*[1] * missing, *dims)
            value = _insert(self._scope, node, unsqueeze, dims)
        wanted = (*dims[:2], (dims_of(found.query) or ())[1], (dims_of(found.key) or ())[1])
        if same_dims(dims, wanted):
            return value
        target = [self._scope.ints([1, 1])] + [self._length(node, x) for x in (found.query, found.key)]
        shape = ir.Node("", "Concat", target, [ir.AttrInt64("axis", 0)])
        shape.outputs[0].type, shape.outputs[0].shape = ir.TensorType(ir.DataType.INT64), ir.Shape([4])
        self._scope.graph.insert_before(node, shape)
        return _insert(self._scope, node, ir.Node("", "Expand", [value, shape.outputs[0]]), wanted)

    def _length(self, node: ir.Node, x: ir.Value) -> ir.Value:
        length = (dims_of(x) or ())[1]
        if isinstance(length, int):
            return self._scope.ints([length])
        shape = ir.Node("", "Shape", [x], [ir.AttrInt64("start", 1), ir.AttrInt64("end", 2)])
        shape.outputs[0].type, shape.outputs[0].shape = ir.TensorType(ir.DataType.INT64), ir.Shape([1])
        self._scope.graph.insert_before(node, shape)
        return shape.outputs[0]


def _broadcast(shapes: Sequence[Sequence[Dim]]) -> list[Dim]:
    """The dimensions of an elementwise result, aligned at the right."""
    rank = max(map(len, shapes))
    padded: list[list[Dim]] = [[*[1] * (rank - len(shape)), *shape] for shape in shapes]
    return [next((d for d in axis if d != 1), 1) for axis in zip(*padded, strict=True)]
