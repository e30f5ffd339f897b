"""Rotations of pairs of features by angles, in the forms in which they are written, for `FuseRotaryEmbedding`."""

from __future__ import annotations

__all__ = ["Rotation", "angle_of_turn", "rotation_of_halves", "rotation_of_pairs"]

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dim
from jax2onnx_graph.rewrite.pass_base import Declined
from jax2onnx_graph.rewrite.patterns import operation, permutation_of

from jax2onnx_fusions.rotary._doubled_angles import LARGEST_TABLE, Halves
from jax2onnx_fusions.rotary._features import Features, halves_of, pairs_along, unpaired

_OF_ANGLES = (
    "Cast", "Concat", "Expand", "Gather", "Mul", "Neg", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip

_OTHER_ANGLES = "the cosines and sines vary along the heads, or the number of heads is not known"


@dataclasses.dataclass(frozen=True)
class Rotation:
    """A rotation of `features` by angles that are the same for all heads.

    Attributes:
      cos, sin: the cosines and sines of the angles, [..., H / 2], or [..., H] where `is_doubled`.
      is_doubled: whether these hold each angle twice: once for each half of the features, or side by side where neighbouring
        features are rotated.
      heads_axis: the axis of the heads, 1 or 2; None where there is no such axis, but one head: x is [·, ·, H].
      batched: whether there is an axis of the batch; without it, the angles are those of x [·, heads, H].
    """

    features: Features
    cos: ir.Value
    sin: ir.Value
    is_doubled: bool
    heads_axis: int | None
    batched: bool = True


def rotation_of_pairs(node: ir.Node) -> Rotation | Declined | None:
    """Read the rotation that ends in `node`: a Concat of the two rotated halves or a stack of the rotated pairs, or a Transpose of that."""
    join, axis, rank = operation(node.outputs[0], "Concat"), -1, len(dims_of(node.outputs[0]) or (1,))
    if node.op_type == "Transpose":
        *order, axis = permutation_of(node)
        join = operation(node.inputs[0], "Concat") if order == sorted(order) else None
    if join is None or len(join.inputs) != 2 or join.attributes["axis"].as_int() % rank != axis % rank:
        return None
    apart = [_unstacked(value, axis) for value in join.inputs]
    is_stacked = None not in apart
    if node is not join and not is_stacked:
        return None
    real, imaginary = apart if is_stacked else join.inputs
    found = _rotated(real, imaginary)
    if found is None:
        return None
    features, cos, sin = found
    if features.interleaved != is_stacked:
        return Declined("the rotated features are put together in another order than they were taken apart", node)
    return _rotation(node, features, cos, sin, is_doubled=False)


def rotation_of_halves(node: ir.Node, halves: Halves) -> Rotation | Declined | None:
    """The rotation x · cos + rotated x · sin, with cosines and sines for both halves, that the Add `node` is."""
    for addends in (_operands(node.inputs), reversed(_operands(node.inputs))):
        for (whole, cos), (rotated, sin) in _factorings(tuple(addends)):
            turn = _turned(rotated, sin)
            if turn is None or not _is_source(turn[0], whole) or not _same_dims(turn[0].dims, node.outputs[0]):
                continue
            features, sin = turn
            found = _rotation(node, features, cos, sin, is_doubled=True)
            pairs = features.interleaved
            if isinstance(found, Rotation) and (
                halves.source(cos, pairs=pairs) is None or halves.source(sin, pairs=pairs) is None
            ):
                parts = "neighbouring elements" if pairs else "two halves"
                return Declined(f"the {parts} of the cosines or sines are not known to be equal", node)
            return found
    return None


def angle_of_turn(node: ir.Node) -> ir.Value | None:
    """The angles a of x · cos(a) ± y · sin(a), in whatever order and shape, which `node` adds or subtracts."""
    for (_, one), (_, other) in _factorings(node.inputs):
        cosine, sine = _trigonometric(one), _trigonometric(other)
        if cosine is not None and sine is not None and {cosine.op_type, sine.op_type} == {"Cos", "Sin"}:
            return cosine.inputs[0] if cosine.inputs[0] is sine.inputs[0] else None
    return None


def _trigonometric(value: ir.Value | None, depth: int = 8) -> ir.Node | None:
    """The cosine or sine of which `value` is a view, a part or a multiple."""
    node = operation(value, "Cos", "Sin", *_OF_ANGLES)
    if node is None or not depth or node.op_type in ("Cos", "Sin"):
        return node
    operands = node.inputs if node.op_type in ("Mul", "Concat") else node.inputs[:1]
    return next((found for x in operands if (found := _trigonometric(x, depth - 1)) is not None), None)


def _rotation(
    node: ir.Node, features: Features, cos: ir.Value, sin: ir.Value, *, is_doubled: bool
) -> Rotation | Declined:
    """The rotation that ends at `node`, where `RotaryEmbedding` can take its operands."""
    dims, batched = features.dims, True
    if len(dims) not in (3, 4):
        return Declined(f"the rotated tensor has {len(dims)} axes, not batch, sequence, heads and features", node)
    width = dims[-1] if is_doubled or not isinstance(dims[-1], int) else dims[-1] // 2
    pair = [dims_of(angles) for angles in (cos, sin)]
    if len(dims) == 3 and all(_is_of_one_head(dims, angles, width) for angles in pair):
        return Rotation(features, cos, sin, is_doubled, None)
    if len(dims) == 3:
        dims, batched = (1, *dims), False
    axes = {_heads_axis(dims, angles, width) for angles in pair}
    axis = axes.pop() if len(axes) == 1 else None
    if axis is None or (axis == 1 and not batched):
        return Declined(_OTHER_ANGLES, node)
    return Rotation(dataclasses.replace(features, dims=dims), cos, sin, is_doubled, axis, batched)


def _is_of_one_head(dims: Sequence[LabelledDim], angles: Sequence[LabelledDim] | None, width: LabelledDim) -> bool:
    """Whether angles [..., width], aligned at the right, are those of x [B, T, H]: they vary along T, and may along B."""
    if not angles or len(angles) not in (2, 3) or angles[-1] != width or not same_dim(angles[-2], dims[1]):
        return False
    return len(angles) == 2 or angles[0] == 1 or same_dim(angles[0], dims[0])


def _heads_axis(dims: Sequence[LabelledDim], angles: Sequence[LabelledDim] | None, width: LabelledDim) -> int | None:
    """The axis of the heads, 1 or 2, of x [·, ·, ·, H]: the angles [..., width] do not vary along it, but may along the other.

    None where `angles`, aligned at the right, do not fit x, or vary along both axes.
    """
    if angles is None or not 1 <= len(angles) <= 4:
        return None
    full: list[LabelledDim] = [*[1] * (4 - len(angles)), *angles]
    batch, *middle, last = full
    if last != width or not (batch == 1 or same_dim(batch, dims[0])):
        return None
    for heads, sequence in ((2, 1), (1, 2)):
        varies = middle[heads - 1] != 1 or not same_dim(middle[sequence - 1], dims[sequence])
        if not varies and isinstance(dims[heads], int):
            return heads
    return None


def _unstacked(value: ir.Value | None, axis: int = -1) -> ir.Value | None:
    """x where `value` is x with a further axis of size 1, the last or this one."""
    node = operation(value, "Unsqueeze", "Reshape")
    if node is None:
        return None
    before, after = dims_of(node.inputs[0]) or (), dims_of(value) or ()
    place = axis % (len(before) + 1)
    stacked = (*before[:place], 1, *before[place:])
    return node.inputs[0] if len(after) == len(stacked) and all(map(same_dim, stacked, after)) else None


def _rotated(real: ir.Value | None, imaginary: ir.Value | None) -> tuple[Features, ir.Value, ir.Value] | None:
    """(features, c, s) where `real` is x₁·c − x₂·s and `imaginary` is x₂·c + x₁·s."""
    total = operation(imaginary, "Add")
    if total is None:
        return None
    for (first, cos), (second, sin) in _differences(real):
        features = halves_of(first, second)
        if features is None:
            continue
        for one, other in (_operands(total.inputs), reversed(_operands(total.inputs))):
            if _is_product(one, second, cos) and _is_product(other, first, sin):
                return features, cos, sin
    return None


def _turned(rotated: ir.Value, sin: ir.Value) -> tuple[Features, ir.Value] | None:
    """(x, s) where rotated · sin is s times x with each pair (x₁, x₂) as (−x₂, x₁), whichever factor holds the signs."""
    features = _half_turned(rotated) or _pairwise_turned(rotated) or _signed(rotated)
    if features is not None:
        return features, sin
    features = _swapped(rotated)
    if features is not None:
        return next(((features, rest) for signs, rest in _factors(sin) if _are_signs(signs, features)), None)
    for factor, rest in _factors(rotated):
        features = _swapped(factor)
        if features is not None and _are_signs(sin, features):
            return features, rest
    return None


def _signed(value: ir.Value) -> Features | None:
    """The features x of which `value` is each pair (x₁, x₂) as (x₂, x₁) with constant signs −1 and 1, or where a mask negates."""
    inner = _unviewed(value) or value
    for factor, signs in _factors(inner):
        features = _swapped(factor) or _reversed_pairs(factor)
        if features is not None and _are_signs(signs, features, paired=inner is not value):
            return features
    choice = operation(value, "Where")
    mask = None if choice is None else known(choice.inputs[0], LARGEST_TABLE)
    if choice is None or mask is None:
        return None
    one, other = choice.inputs[1:]
    for kept, negated, is_negated in ((other, one, mask), (one, other, ~mask)):
        negation = operation(negated, "Neg")
        features = _swapped(kept) if negation is not None and negation.inputs[0] is kept else None
        if features is not None and _alternate(np.where(is_negated, -1, 1), features):
            return features
    return None


def _swapped(value: ir.Value | None) -> Features | None:
    """The features x of which `value` is each pair (x₁, x₂) as (x₂, x₁): joined, or read backwards."""
    join = operation(value, "Concat")
    if join is None:
        return _reversed_pairs(_unviewed(value))
    if len(join.inputs) != 2 or not _is_last(join.attributes["axis"].as_int(), value):
        return None
    second, first = join.inputs
    features = None if first is None or second is None else halves_of(first, second)
    return features if features is not None and not features.interleaved else None


def _reversed_pairs(value: ir.Value | None) -> Features | None:
    """The features x of which `value` is a view as pairs, [..., 2, H / 2] or [..., H / 2, 2], with each pair in reverse order."""
    node, dims = operation(value, "Slice"), dims_of(value)
    if node is None or node.inputs[0] is None or not dims or len(dims) < 3:
        return None
    parts = [known(part) for part in node.inputs[1:]]
    if len(parts) != 4 or any(part is None or part.size != 1 for part in parts):
        return None
    _, _, axis, step = (int(part.flat[0]) for part in parts if part is not None)
    axis %= len(dims)
    return pairs_along(node.inputs[0], axis) if step == -1 and dims[axis] == 2 else None


def _unviewed(value: ir.Value | None) -> ir.Value | None:
    """x [..., a, b] of which `value` [..., a · b] is the view."""
    node, after = operation(value, "Reshape"), dims_of(value)
    before = None if node is None else dims_of(node.inputs[0])
    if node is None or not before or not after or len(before) != len(after) + 1:
        return None
    a, b = before[-2:]
    is_view = isinstance(a, int) and isinstance(b, int) and after[-1] == a * b
    return node.inputs[0] if is_view and all(map(same_dim, before[:-2], after[:-1])) else None


def _factors(value: ir.Value | None) -> Iterator[_Factors]:
    """The two factors of a product, in both orders."""
    node = operation(value, "Mul")
    if node is not None and node.inputs[0] is not None and node.inputs[1] is not None:
        yield node.inputs[0], node.inputs[1]
        yield node.inputs[1], node.inputs[0]


def _are_signs(value: ir.Value, features: Features, *, paired: bool = False) -> bool:
    """Whether `value` is the constant that negates the first of each pair, along the features or (`paired`) along their view as pairs."""
    signs = known(value, LARGEST_TABLE)
    return signs is not None and _alternate(signs, features, paired=paired)


def _alternate(signs: Array, features: Features, *, paired: bool = False) -> bool:
    extent = features.dims[-1]
    assert isinstance(extent, int)
    view = (extent // 2, 2) if features.interleaved else (2, extent // 2)
    expected = np.broadcast_to([-1, 1] if features.interleaved else [[-1], [1]], view)
    expected = expected if paired else expected.reshape(extent)
    fits = all(size in (1, full) for size, full in zip(signs.shape[::-1], expected.shape[::-1], strict=False))
    return fits and bool((signs == expected).all())


def _half_turned(value: ir.Value) -> Features | None:
    """The features x of which `value` is concat(−x₂, x₁), x₁ and x₂ the halves."""
    turn = operation(value, "Concat")
    if turn is None or len(turn.inputs) != 2:
        return None
    if turn.attributes["axis"].as_int() not in (len(dims_of(value) or ()) - 1, -1):
        return None
    negated = operation(turn.inputs[0], "Neg")
    if negated is None or negated.inputs[0] is None or turn.inputs[1] is None:
        return None
    features = halves_of(turn.inputs[1], negated.inputs[0])
    return None if features is None or features.interleaved else features


def _pairwise_turned(value: ir.Value) -> Features | None:
    """The features x of which `value` is stack(−x₂, x₁) with its last two axes as one, x₁ the even features and x₂ the odd ones."""
    stack = operation(unpaired(value), "Concat")
    if stack is None or len(stack.inputs) != 2 or not _is_last(stack.attributes["axis"].as_int(), stack.outputs[0]):
        return None
    first, second = (_unstacked(each) for each in stack.inputs)
    negated = operation(first, "Neg")
    if negated is None or negated.inputs[0] is None:
        negated = operation(stack.inputs[0], "Neg")
        first = None if negated is None else _unstacked(negated.inputs[0])
    else:
        first = negated.inputs[0]
    features = None if first is None or second is None else halves_of(second, first)
    return features if features is not None and features.interleaved else None


def _is_last(axis: int, value: ir.Value | None) -> bool:
    return axis in (-1, len(dims_of(value) or ()) - 1)


def _is_source(features: Features, whole: ir.Value) -> bool:
    """Whether `whole` [·, ·, ·, H] is the tensor of these features, or the one that is viewed as pairs of them."""
    if features.source is whole:
        return True
    view = operation(features.source, "Reshape")
    if view is None or view.inputs[0] is not whole:
        return False
    return _same_dims(features.dims, whole)


def _same_dims(dims: Sequence[LabelledDim], value: ir.Value) -> bool:
    found = dims_of(value) or ()
    return len(dims) == len(found) and all(map(same_dim, dims, found))


def _operands(values: Sequence[ir.Value | None]) -> tuple[ir.Value | None, ir.Value | None]:
    """The two operands of a binary node."""
    return values[0], values[1]


#: The two factors of a product.
_Factors = tuple[ir.Value, ir.Value]


def _factorings(values: Sequence[ir.Value | None]) -> Iterator[tuple[_Factors, _Factors]]:
    """Two products in all orders of their factors: ((factor, other factor) of the first, the same of the second)."""
    nodes = [operation(value, "Mul") for value in values]
    sides = [[(a, b), (b, a)] for node in nodes if node is not None for a, b in [node.inputs] if a and b]
    if len(sides) == 2:
        yield from ((one, other) for one in sides[0] for other in sides[1])


def _differences(value: ir.Value | None) -> Iterator[tuple[_Factors, _Factors]]:
    """Two products whose difference `value` is, in all orders of their factors: a · b − c · d, or a · b + (−c) · d."""
    node = operation(value, "Sub", "Add")
    if node is None:
        return
    if node.op_type == "Sub":
        yield from _factorings(node.inputs)
        return
    for plus, minus in (_operands(node.inputs), _operands(node.inputs[::-1])):
        for one, (negative, factor) in _factorings((plus, minus)):
            negation = operation(negative, "Neg")
            if negation is not None and negation.inputs[0] is not None:
                yield one, (negation.inputs[0], factor)
        negation = operation(minus, "Neg")
        if negation is not None:
            yield from _factorings((plus, negation.inputs[0]))


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
    one, other = known(a, LARGEST_TABLE), known(b, LARGEST_TABLE)
    return one is not None and other is not None and np.array_equal(one, other)
