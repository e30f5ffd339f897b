"""Rotations of pairs of features by angles, in the forms in which they are written, for `FuseRotaryEmbedding`."""

from __future__ import annotations

__all__ = ["Rotation", "angle_of_turn", "rotation_of_halves", "rotation_of_pairs"]

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dim, same_dims
from jax2onnx_graph.rewrite.pass_base import Declined
from jax2onnx_graph.rewrite.patterns import Formula, Pattern, matches, operation, permutation_of, without_axis

from jax2onnx_fusions.rotary._doubled_angles import Halves
from jax2onnx_fusions.rotary._features import LARGEST_TABLE, Features, feature_numbers, sources

_OF_ANGLES = (
    "Cast", "Concat", "Expand", "Gather", "Mul", "Neg", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip

_OTHER_ANGLES = "the cosines and sines vary along the heads, or the number of heads is not known"
_MORE_AXES = "the cosines and sines have more axes than the rotated tensor"


def _scaled(value: Pattern, factor: Pattern) -> Formula:
    return Formula("Mul", value, factor)


#: x · c and what is added to it.
_OF_HALVES = Formula("Add", _scaled("x", "c"), "turned")
#: A product, and one with a constant factor.
_PRODUCTS = (_scaled("x", "y"), _scaled("x", _scaled("y", "signs")), _scaled(_scaled("x", "y"), "signs"))
#: A sum or difference of two products.
_TURN = tuple(Formula(op_type, _scaled("x", "c"), _scaled("y", "s")) for op_type in ("Add", "Sub"))
#: x · c − y · s, and with a negated factor or product.
_REAL = (
    Formula("Sub", _scaled("x", "c"), _scaled("y", "s")),
    Formula("Add", _scaled("x", "c"), _scaled(Formula("Neg", "y"), "s")),
    Formula("Add", _scaled("x", "c"), _scaled("y", Formula("Neg", "s"))),
    Formula("Add", _scaled("x", "c"), Formula("Neg", _scaled("y", "s"))),
)
_IMAGINARY = Formula("Add", _scaled("y", "c"), _scaled("x", "s"))


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
    apart = [without_axis(value, axis % rank) for value in join.inputs]
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
    for terms in matches(_OF_HALVES, node.outputs[0]):
        whole, cos = terms["x"], terms["c"]
        for rotated, sin, signs in _signed_products(terms["turned"]):
            features = _turned(whole, rotated, signs)
            if features is None or not same_dims(features.dims, dims_of(node.outputs[0])):
                continue
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
    for found in matches(_TURN, node.outputs[0]):
        cosine, sine = _trigonometric(found["c"]), _trigonometric(found["s"])
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
    if any(angles is not None and len(angles) > len(dims) for angles in pair):
        return Declined(_MORE_AXES, node)
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
    if not angles:
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


def _halves_of(first: ir.Value, second: ir.Value) -> Features | None:
    """The tensor of which two values are the halves, or the even and the odd features."""
    own = dims_of(first) or (None,)
    half = own[-1]
    if not isinstance(half, int):
        return None
    for source, count in itertools.product(sources(first), (1, 2)):
        one, other = (feature_numbers(value, source, count) for value in (first, second))
        rows = (dims_of(source) or ())[:-count]
        if one is None or other is None or not same_dims(own[:-1], rows):
            continue
        numbers = np.arange(1, 2 * half + 1)
        for interleaved, halves in ((False, np.split(numbers, 2)), (True, (numbers[::2], numbers[1::2]))):
            if np.array_equal([one, other], halves):
                return Features(source, (*rows, 2 * half), interleaved)
    return None


def _turned(whole: ir.Value, rotated: ir.Value, signs: Array | None) -> Features | None:
    """The features x, which are `whole`, if the product of a value and signs is each pair (x₁, x₂) as (−x₂, x₁)."""
    dims, found = dims_of(whole) or (None,), feature_numbers(rotated, whole)
    if found is None or not isinstance(dims[-1], int) or dims[-1] % 2 or not same_dims(dims, dims_of(rotated)):
        return None
    if signs is not None:
        if not signs.ndim or signs.size != signs.shape[-1] or not (abs(signs) == 1).all():
            return None
        found = found * signs.reshape(-1).astype(np.int64)
    numbers = np.arange(1, dims[-1] + 1)
    for interleaved, pairs in ((False, numbers.reshape(2, -1)), (True, numbers.reshape(-1, 2).T)):
        turned = np.stack([-pairs[1], pairs[0]])
        if np.array_equal(found, turned.T.reshape(-1) if interleaved else turned.reshape(-1)):
            return Features(whole, dims, interleaved)
    return None


def _signed_products(value: ir.Value | None) -> Iterator[tuple[ir.Value, ir.Value, Array | None]]:
    """Two factors of a product, in both orders, and constant factors of one of them, which may be signs."""
    for found in matches(_PRODUCTS, value):
        signs = known(found.get("signs"), LARGEST_TABLE)
        if signs is not None or "signs" not in found:
            yield found["x"], found["y"], signs


def _rotated(real: ir.Value | None, imaginary: ir.Value | None) -> tuple[Features, ir.Value, ir.Value] | None:
    """(features, c, s) where `real` is x₁·c − x₂·s and `imaginary` is x₂·c + x₁·s."""
    for first in matches(_REAL, real):
        features = _halves_of(first["x"], first["y"])
        if features is None:
            continue
        for other in matches(_IMAGINARY, imaginary, {"x": first["x"], "y": first["y"]}):
            if _same(first["c"], other["c"]) and _same(first["s"], other["s"]):
                return features, first["c"], first["s"]
    return None


def _same(a: ir.Value, b: ir.Value) -> bool:
    """Whether these are one value, or equal constants."""
    if a is b:
        return True
    one, other = known(a, LARGEST_TABLE), known(b, LARGEST_TABLE)
    return one is not None and other is not None and np.array_equal(one, other)
