"""Recognise `RotaryEmbedding` in rotations of pairs of features (Su et al., RoFormer, 2021)."""

from __future__ import annotations

__all__ = ["FuseRotaryEmbedding"]

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dims import is_static
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dim
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import operation

_TABLE = 1 << 22  # elements of a constant that is compared or halved
_POINTWISE = frozenset({"Cos", "Sin", "Cast", "Neg"})


class FuseRotaryEmbedding(GraphPass):
    """Where cos and sin are the same for all heads:

    1. `concat(x₁·c − x₂·s, x₂·c + x₁·s)`, x₁ and x₂ the halves of x [B, T, N, H], is `RotaryEmbedding` of x as
       [B, T, N · H].
    2. So is `x · concat(c, c) + concat(−x₂, x₁) · concat(s, s)`.
    3. `stack(x₁·c − x₂·s, x₁·s + x₂·c)`, x₁ and x₂ the features with even and with odd numbers, is its
       interleaved form.
    4. For x [B, N, T, H] it is the 4-D form.
    """

    produces = frozenset({"RotaryEmbedding"})
    after = (EliminateCommonSubexpressions, FoldTransposes)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        writer = _Writer(editor)
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Concat", "Add"):
                continue
            if not editor.supports("RotaryEmbedding", node.outputs[0]):
                continue
            found = _read_concat(node) if node.op_type == "Concat" else _read_sum(node, writer)
            if found is not None:
                writer.rewrite(node, found)


@dataclasses.dataclass
class _Pair:
    """The tensor whose pairs of features are rotated.

    Attributes:
      source: [·, ·, ·, H], or [·, ·, ·, H / 2, 2] with the pairs along the last axis.
      dims: the dimensions [·, ·, ·, H].
      interleaved: whether a pair is two neighbouring features, not one of each half.
    """

    source: ir.Value
    dims: tuple[LabelledDim, ...]
    interleaved: bool


@dataclasses.dataclass
class _Found:
    """A rotation of `pair` by angles with these cosines and sines, [..., H / 2]."""

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
    """x [·, ·, ·, H] where `value` is x as [·, ·, ·, H, 1]."""
    node = operation(value, "Unsqueeze", "Reshape")
    if node is None:
        return None
    before, after = dims_of(node.inputs[0]) or (), dims_of(value) or ()
    is_stacked = len(before) == 4 and len(after) == 5 and all(map(same_dim, (*before, 1), after))
    return node.inputs[0] if is_stacked else None


def _read_rotation(real: ir.Value | None, imaginary: ir.Value | None) -> _Found | None:
    """The rotation of x₁ and x₂ to `real`, x₁·c − x₂·s, and `imaginary`, x₂·c + x₁·s."""
    difference, total = operation(real, "Sub"), operation(imaginary, "Add")
    if difference is None or total is None:
        return None
    for (first, cos), (second, sin) in _factorings(difference.inputs):
        pair = _read_pair(first, second)
        if pair is None:
            continue
        for one, other in (_operands(total.inputs), reversed(_operands(total.inputs))):
            if _is_product(one, second, cos) and _is_product(other, first, sin):
                return _Found(pair, cos, sin)
    return None


def _operands(values: Sequence[ir.Value | None]) -> tuple[ir.Value | None, ir.Value | None]:
    """The two operands of a binary node."""
    return values[0], values[1]


def _factorings(
    values: Sequence[ir.Value | None],
) -> Iterator[tuple[tuple[ir.Value, ir.Value], tuple[ir.Value, ir.Value]]]:
    """Two products in all orders of their factors: ((factor, other factor) of the first, the same of the second)."""
    nodes = [operation(value, "Mul") for value in values]
    sides = [[(a, b), (b, a)] for node in nodes if node is not None for a, b in [node.inputs] if a and b]
    if len(sides) == 2:
        yield from ((one, other) for one in sides[0] for other in sides[1])


def _is_product(value: ir.Value | None, one: ir.Value, other: ir.Value) -> bool:
    """Whether `value` is one · other, in either order."""
    node = operation(value, "Mul")
    if node is None:
        return False
    a, b = node.inputs
    return (_same(a, one) and _same(b, other)) or (_same(b, one) and _same(a, other))


def _same(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Whether these are one value, or equal constants."""
    if a is b:
        return True
    one, other = known(a, _TABLE), known(b, _TABLE)
    return one is not None and other is not None and np.array_equal(one, other)


def _read_pair(first: ir.Value, second: ir.Value) -> _Pair | None:
    """The tensor of which `first` and `second` are the halves, or the even and the odd features."""
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
    """The index that a Gather takes along the last of five axes; None if it is not one constant number."""
    index = known(node.inputs[1])
    if index is None or index.ndim or node.attributes.get_int("axis", 0) not in (4, -1):
        return None
    return int(index)


def _taken(value: ir.Value, extent: int) -> range | None:
    """The numbers of the features that `value` takes from a tensor of `extent` features by Split or Slice."""
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


def _read_sum(node: ir.Node, writer: _Writer) -> _Found | None:
    """x · cos + rotated x · sin, with cosines and sines for both halves."""
    for addends in (_operands(node.inputs), reversed(_operands(node.inputs))):
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
            halves = [writer.half(node, value) for value in (cos, sin)]
            if halves[0] is not None and halves[1] is not None:
                return _Found(pair, halves[0], halves[1])
    return None


def _common_heads_axis(found: _Found) -> int | None:
    """The axis of the heads if it is the same for cosines and sines."""
    features = found.pair.dims[3]
    assert isinstance(features, int)
    axes = {_heads_axis(found.pair.dims, dims_of(angles), features // 2) for angles in (found.cos, found.sin)}
    return axes.pop() if len(axes) == 1 else None


def _heads_axis(dims: Sequence[LabelledDim], angles: Sequence[LabelledDim] | None, features: LabelledDim) -> int | None:
    """The axis of the heads, 1 or 2, of x [·, ·, ·, H]: the angles do not vary along it, but may along the other.

    None where `angles`, aligned at the right, do not fit x, or vary along both axes.
    """
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


class _Writer:
    """Puts the operator in place; layers that share angles share what is made of them."""

    def __init__(self, editor: GraphEditor) -> None:
        self._editor = editor
        self._halves: dict[ir.Value, ir.Value | None] = {}
        self._caches: dict[object, ir.Value] = {}

    def rewrite(self, node: ir.Node, found: _Found) -> None:
        """Put `RotaryEmbedding` in the place of `node`, unless the angles vary with the heads."""
        dims, editor = labelled(found.pair.dims), self._editor
        features = dims[3]
        assert is_static(features)
        axis = _common_heads_axis(found)
        if axis is None or found.cos.dtype != node.outputs[0].dtype or found.sin.dtype != found.cos.dtype:
            return
        heads = dims[axis]
        assert is_static(heads)
        builder = editor.before(node)
        merged = axis == 2  # [B, T, N · H]; with heads first the 4-D form takes the operand as it is
        shape = (*dims[:2], heads * features) if merged else dims
        source = found.pair.source
        if len(builder.known_dims(source)) != len(shape):
            target = [0, 0, heads * features] if merged else [0, 0, 0, features]
            source = builder.op.Reshape(source, builder.ints(target), dims=shape)
        rotated = builder.op.RotaryEmbedding(
            source,
            *(self._cache(builder, angles, axis, found.pair) for angles in (found.cos, found.sin)),
            dims=shape,
            interleaved=1 if found.pair.interleaved else None,
            num_heads=heads if merged else None,
        )
        is_stacked = len(dims_of(node.outputs[0]) or ()) == 5
        last = [features // 2, 2] if is_stacked else [features]
        editor.put(node, "Reshape", [rotated, builder.ints([0, 0, heads if merged else 0, *last])])

    def _cache(self, builder: InsertionPoint, angles: ir.Value, axis: int, pair: _Pair) -> ir.Value:
        """Angles without the axis of the heads, as [B, T, H / 2]."""
        batch = pair.dims[0]
        key = (angles, axis, str(batch))
        if key not in self._caches:
            value, rank = angles, len(dims_of(angles) or ())
            if rank >= 5 - axis:
                value = builder.squeeze(value, [rank - 4 + axis])
            value = builder.unsqueeze(value, range(3 - len(builder.known_dims(value))))
            if not same_dim((dims_of(value) or ())[0], batch):
                full = labelled((batch, *(dims_of(value) or ())[1:]))
                value = builder.op.Expand(value, self._batch(builder, pair), dims=full)
            self._caches[key] = value
        return self._caches[key]

    def _batch(self, builder: InsertionPoint, pair: _Pair) -> ir.Value:
        """The shape [B, 1, 1] as an int64 vector."""
        batch = pair.dims[0]
        if isinstance(batch, int):
            return builder.ints([batch, 1, 1])
        if ("batch", str(batch)) not in self._caches:
            size = builder.op.Shape(pair.source, start=0, end=1, dims=(1,))
            self._caches["batch", str(batch)] = builder.concat([size, builder.ints([1, 1])], 0)
        return self._caches["batch", str(batch)]

    def half(self, node: ir.Node, value: ir.Value | None) -> ir.Value | None:
        """The first half of the features of `value`, made before `node`; None unless the second half equals it."""
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
        half = labelled((*dims[:-1], dims[-1] // 2))
        return self._editor.before(node).variant(maker, [inner, *maker.inputs[1:]], dims=half)


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
