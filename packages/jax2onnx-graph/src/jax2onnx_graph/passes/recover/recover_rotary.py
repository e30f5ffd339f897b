"""Recognise `RotaryEmbedding` in rotations of pairs of features (Su et al., RoFormer, 2021)."""

from __future__ import annotations

__all__ = ["RecoverRotary"]

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dim
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.patterns import VersionedPass, operation, rewrite_as

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})
_TABLE = 1 << 22  # elements of a constant that is compared or halved
_POINTWISE = frozenset({"Cos", "Sin", "Cast", "Neg"})


class RecoverRotary(VersionedPass):
    """From opset 23, in single and half precision, where cos and sin are the same for all heads:

    1. `concat(x₁·c − x₂·s, x₂·c + x₁·s)`, x₁ and x₂ the halves of x [B, T, N, H], is `RotaryEmbedding` of x as
       [B, T, N · H].
    2. So is `x · concat(c, c) + concat(−x₂, x₁) · concat(s, s)`.
    3. `stack(x₁·c − x₂·s, x₁·s + x₂·c)`, x₁ and x₂ the features with even and with odd numbers, is its
       interleaved form.
    4. For x [B, N, T, H] it is the 4-D form.
    """

    lowest_opset = 23

    def rewrite(self, editor: GraphEditor) -> None:
        emitter = _Emitter(editor)
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Concat", "Add") or node.outputs[0].dtype not in _FLOATS:
                continue
            found = _read_concat(node) if node.op_type == "Concat" else _read_sum(node, emitter)
            if found is not None:
                emitter.emit(node, found)


@dataclasses.dataclass
class _Pair:
    """`source` is [·, ·, ·, H], or interleaved as [·, ·, ·, H / 2, 2]."""

    source: ir.Value
    dims: tuple[LabelledDim, ...]
    interleaved: bool


@dataclasses.dataclass
class _Found:
    pair: _Pair
    cos: ir.Value
    sin: ir.Value


# ------------------------------------------------------------------------------------------- reading


def _read_concat(node: ir.Node) -> _Found | None:
    """The two rotated halves side by side, or the rotated pairs stacked."""
    if len(node.inputs) != 2:
        return None
    axis, rank = node.attributes["axis"].as_int(), len(dims_of(node.outputs[0]) or ())
    if axis not in (-1, rank - 1) or rank not in (4, 5):
        return None
    first, second = node.inputs if rank == 4 else map(_unstacked, node.inputs)
    found = _read_rotation(first, second)
    return found if found is not None and found.pair.interleaved == (rank == 5) else None


def _unstacked(value: ir.Value | None) -> ir.Value | None:
    node = operation(value, "Unsqueeze", "Reshape")
    if node is None:
        return None
    before, after = dims_of(node.inputs[0]) or (), dims_of(value) or ()
    is_stacked = len(before) == 4 and len(after) == 5 and all(map(same_dim, (*before, 1), after))
    return node.inputs[0] if is_stacked else None


def _read_rotation(real: ir.Value | None, imaginary: ir.Value | None) -> _Found | None:
    difference, total = operation(real, "Sub"), operation(imaginary, "Add")
    if difference is None or total is None:
        return None
    for (first, cos), (second, sin) in _factorings(difference.inputs):
        pair = _read_pair(first, second)
        if pair is None:
            continue
        for one, other in (_sides(total.inputs), reversed(_sides(total.inputs))):
            if _is_product(one, second, cos) and _is_product(other, first, sin):
                return _Found(pair, cos, sin)
    return None


def _sides(values: Sequence[ir.Value | None]) -> tuple[ir.Value | None, ir.Value | None]:
    return values[0], values[1]


def _factorings(
    values: Sequence[ir.Value | None],
) -> Iterator[tuple[tuple[ir.Value, ir.Value], tuple[ir.Value, ir.Value]]]:
    """Two products, each as (one, other factor) in both orders."""
    nodes = [operation(value, "Mul") for value in values]
    sides = [[(a, b), (b, a)] for node in nodes if node is not None for a, b in [node.inputs] if a and b]
    if len(sides) == 2:
        yield from ((one, other) for one in sides[0] for other in sides[1])


def _is_product(value: ir.Value | None, one: ir.Value, other: ir.Value) -> bool:
    node = operation(value, "Mul")
    if node is None:
        return False
    a, b = node.inputs
    return (_same(a, one) and _same(b, other)) or (_same(b, one) and _same(a, other))


def _same(a: ir.Value | None, b: ir.Value | None) -> bool:
    if a is b:
        return True
    one, other = known(a, _TABLE), known(b, _TABLE)
    return one is not None and other is not None and np.array_equal(one, other)


def _read_pair(first: ir.Value, second: ir.Value) -> _Pair | None:
    """What `first` and `second` are the halves, or the even and odd features, of."""
    one, other = first.producer(), second.producer()
    if one is None or other is None or one.domain or one.op_type != other.op_type:
        return None
    source = one.inputs[0]
    dims = dims_of(source)
    if source is None or source is not other.inputs[0] or dims is None or not isinstance(dims[-1], int):
        return None
    if one.op_type == "Gather" and len(dims) == 5 and dims[4] == 2 and isinstance(dims[3], int):
        is_pair = (_gathered(one), _gathered(other)) == (0, 1)
        return _Pair(source, (*dims[:3], 2 * dims[3]), True) if is_pair else None
    extent = dims[-1]
    if len(dims) != 4 or extent % 2:
        return None
    halves, alternate = (range(extent // 2), range(extent // 2, extent)), (range(0, extent, 2), range(1, extent, 2))
    taken = (_taken(first, extent), _taken(second, extent))
    return _Pair(source, dims, taken != halves) if taken in (halves, alternate) else None


def _gathered(node: ir.Node) -> int | None:
    index = known(node.inputs[1])
    if index is None or index.ndim or node.attributes.get_int("axis", 0) not in (4, -1):
        return None
    return int(index)


def _taken(value: ir.Value, extent: int) -> range | None:
    """Which features the result of a Split or Slice of the last axis are."""
    node = value.producer()
    assert node is not None
    if node.op_type == "Split":
        last = (dims_of(value) or (None,))[-1]
        if node.attributes.get_int("axis", 0) not in (3, -1) or len(node.outputs) != 2 or not isinstance(last, int):
            return None
        return range(last) if value is node.outputs[0] else range(extent - last, extent)
    if node.op_type != "Slice":
        return None
    arrays = [known(x) for x in node.inputs[1:]]
    if len(arrays) < 3 or any(array is None or array.size != 1 for array in arrays):
        return None
    start, end, axis, *step = (int(array.flat[0]) for array in arrays if array is not None)
    return range(*slice(start, end, *step).indices(extent)) if axis in (3, -1) else None


def _read_sum(node: ir.Node, emitter: _Emitter) -> _Found | None:
    """x · cos + rotated x · sin, with cosines and sines for both halves."""
    for addends in (_sides(node.inputs), reversed(_sides(node.inputs))):
        for (whole, cos), (rotated, sin) in _factorings(tuple(addends)):
            turn = operation(rotated, "Concat")
            if turn is None or len(turn.inputs) != 2 or turn.attributes["axis"].as_int() not in (3, -1):
                continue
            negated = operation(turn.inputs[0], "Neg")
            if negated is None or negated.inputs[0] is None or turn.inputs[1] is None:
                continue
            pair = _read_pair(turn.inputs[1], negated.inputs[0])
            if pair is None or pair.interleaved or pair.source is not whole:
                continue
            if _heads_axis(pair.dims, dims_of(cos), pair.dims[3]) is None:
                continue
            halves = [emitter.half(node, value) for value in (cos, sin)]
            if halves[0] is not None and halves[1] is not None:
                return _Found(pair, halves[0], halves[1])
    return None


def _heads_axis(dims: Sequence[LabelledDim], angles: Sequence[LabelledDim] | None, features: LabelledDim) -> int | None:
    """The axis of [·, ·, ·, H] along which the angles do not vary, and the other is that of the tokens."""
    if angles is None or not 1 <= len(angles) <= 4:
        return None
    full: list[LabelledDim] = [*[1] * (4 - len(angles)), *angles]
    batch, *middle, last = full
    if last != features or not (batch == 1 or same_dim(batch, dims[0])):
        return None
    for heads, tokens in ((2, 1), (1, 2)):
        if middle[heads - 1] == 1 and same_dim(middle[tokens - 1], dims[tokens]) and isinstance(dims[heads], int):
            return heads
    return None


# ------------------------------------------------------------------------------------------- writing


class _Emitter:
    """Puts the operator in place; layers that share angles share what is made of them."""

    def __init__(self, editor: GraphEditor) -> None:
        self._editor = editor
        self._halves: dict[ir.Value, ir.Value | None] = {}
        self._caches: dict[object, ir.Value] = {}

    def emit(self, node: ir.Node, found: _Found) -> None:
        dims, editor = found.pair.dims, self._editor
        features = dims[3]
        assert isinstance(features, int)
        axes = {_heads_axis(dims, dims_of(angles), features // 2) for angles in (found.cos, found.sin)}
        axis = axes.pop()
        if axes or axis is None or found.cos.dtype != node.outputs[0].dtype or found.sin.dtype != found.cos.dtype:
            return
        heads = dims[axis]
        assert isinstance(heads, int)
        attributes: dict[str, int] = {"interleaved": 1} if found.pair.interleaved else {}
        target, operand = [0, 0, 0, features], dims
        if axis == 2:
            attributes["num_heads"] = heads
            target, operand = [0, 0, heads * features], (*dims[:2], heads * features)
        source = found.pair.source
        if len(dims_of(source) or ()) != len(operand):
            source = self._insert(node, "Reshape", [source, editor.ints(target)], operand)
        caches = [self._cache(node, angles, axis, found.pair) for angles in (found.cos, found.sin)]
        rotated = self._insert(node, "RotaryEmbedding", [source, *caches], operand, attributes)
        is_stacked = len(dims_of(node.outputs[0]) or ()) == 5
        last = [features // 2, 2] if is_stacked else [features]
        rewrite_as(editor, node, "Reshape", [rotated, editor.ints([0, 0, heads if axis == 2 else 0, *last])])

    def _cache(self, node: ir.Node, angles: ir.Value, axis: int, pair: _Pair) -> ir.Value:
        """Angles without the axis of the heads, as [B, T, H / 2]."""
        batch, _, _, features = pair.dims
        key = (angles, axis, str(batch))
        if key in self._caches:
            return self._caches[key]
        editor, dims = self._editor, dims_of(angles) or ()
        assert isinstance(features, int)
        value = angles
        if len(dims) > 3 - axis + 1:
            at = len(dims) - 4 + axis
            dims = (*dims[:at], *dims[at + 1 :])
            value = self._insert(node, "Squeeze", [value, editor.ints([at])], dims)
        if missing := 3 - len(dims):
            dims = (*[1] * missing, *dims)
            value = self._insert(node, "Unsqueeze", [value, editor.ints(list(range(missing)))], dims)
        if not same_dim(dims[0], batch):
            full = (batch, *dims[1:])
            value = self._insert(node, "Expand", [value, self._batch(node, pair)], full)
        self._caches[key] = value
        return value

    def _batch(self, node: ir.Node, pair: _Pair) -> ir.Value:
        """[B, 1, 1]."""
        batch = pair.dims[0]
        if isinstance(batch, int):
            return self._editor.ints([batch, 1, 1])
        if ("batch", str(batch)) not in self._caches:
            attributes = {"start": 0, "end": 1}
            size = self._insert(node, "Shape", [pair.source], (1,), attributes, ir.DataType.INT64)
            ones = self._editor.ints([1, 1])
            whole = self._insert(node, "Concat", [size, ones], (3,), {"axis": 0}, ir.DataType.INT64)
            self._caches["batch", str(batch)] = whole
        return self._caches["batch", str(batch)]

    def half(self, node: ir.Node, value: ir.Value | None) -> ir.Value | None:
        """The first half of the features of `value` where the second certainly equals it."""
        if value is None:
            return None
        if value not in self._halves:
            self._halves[value] = self._make_half(node, value)
        return self._halves[value]

    def _make_half(self, node: ir.Node, value: ir.Value) -> ir.Value | None:
        array = known(value, _TABLE)
        if array is not None:
            middle = array.shape[-1] // 2 if array.ndim else 0
            is_double = array.ndim > 0 and np.array_equal(array[..., :middle], array[..., middle:])
            return self._editor.constant(np.ascontiguousarray(array[..., :middle])) if is_double else None
        maker, dims = value.producer(), dims_of(value)
        if maker is None or maker.domain or dims is None or not isinstance(dims[-1], int):
            return None
        last = len(dims) - 1
        if maker.op_type == "Concat":
            is_double = len(maker.inputs) == 2 and maker.inputs[0] is maker.inputs[1]
            return maker.inputs[0] if is_double and maker.attributes["axis"].as_int() in (-1, last) else None
        if not _keeps_features(maker, last):
            return None
        inner = self.half(node, maker.inputs[0])
        if inner is None:
            return None
        attributes = {key: attribute.value for key, attribute in maker.attributes.items()}
        inputs, dtype = [inner, *maker.inputs[1:]], value.dtype
        return self._insert(node, maker.op_type, inputs, (*dims[:-1], dims[-1] // 2), attributes, dtype)

    def _insert(
        self,
        before: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        dims: Sequence[LabelledDim],
        attributes: dict[str, int] | None = None,
        dtype: ir.DataType | None = None,
    ) -> ir.Value:
        converted = [ir.convenience.convert_attribute(key, value) for key, value in (attributes or {}).items()]
        node = ir.Node("", op_type, inputs, converted)
        output = node.outputs[0]
        output.type, output.shape = ir.TensorType(dtype or before.outputs[0].dtype), ir.Shape(dims)  # type: ignore[arg-type]
        self._editor.graph.insert_before(before, node)
        self._editor.modified = True
        return output


def _keeps_features(node: ir.Node, last: int) -> bool:
    """Whether the last axis of the result is that of the operand, feature by feature."""
    if node.op_type in _POINTWISE:
        return True
    if node.op_type == "Unsqueeze":
        axes = known(node.inputs[1])
        return axes is not None and last not in axes and -1 not in axes
    rank = len(dims_of(node.inputs[0]) or ())
    if node.op_type == "Gather":
        return node.attributes.get_int("axis", 0) not in (-1, rank - 1)
    if node.op_type == "Slice":
        axes = known(node.inputs[3]) if len(node.inputs) > 3 else None
        return axes is not None and not {-1, last} & set(axes.tolist())
    return False
