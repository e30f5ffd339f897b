"""`Masks`: the masks and biases of attentions, each as the one float mask that the operator takes."""

from __future__ import annotations

__all__ = ["Mask", "Masks"]

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Literal, TypeGuard

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known
from jax2onnx_graph.rewrite.editor import InsertionPoint, labelled
from jax2onnx_graph.rewrite.patterns import is_floating, operation, scalar

from jax2onnx_fusions._reasons import UnreadableError
from jax2onnx_fusions.attention._arrangement import Arrangement, cheapest, moved
from jax2onnx_fusions.attention._attention_axes import AttentionAxes
from jax2onnx_fusions.attention._axes import Axes, Axis, atoms, axes_in, size_of
from jax2onnx_fusions.attention._formula import BROADCAST, Addend

# JAX's own number for masked logits: a logit of ordinary size added to it leaves just the number.
MASKED = float(-0.7 * np.finfo(np.float32).max)

# A number from here on stays what it is when logits or biases of ordinary size are added.
_ABSORBING = -1e30

_HIDING = 1e3  # a number in the computation of a bias that hides keys, not one of ordinary size
# One among others in a constant, which may be a bias by distance.
_HIDING_AMONG_OTHERS = -1e4
_VIEWS = ("Unsqueeze", "Reshape", "Transpose", "Expand", "Cast")
_ELEMENTWISE = frozenset({
    "Add", "Cast", "Expand", "Identity", "Mul", "Neg", "Reshape", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Part:
    """An addend as [B or 1, heads or 1, T or 1, S or 1], without axes of size 1 in front.

    Attributes:
      addend: the bias or mask.
      arrangement: the moves that bring its axes there.
      repetitions: pairs of an axis and the indices that are then gathered along it, since the part varies along some of its
        heads only.
    """

    addend: Addend
    arrangement: Arrangement
    repetitions: Sequence[tuple[int, list[int]]]


@dataclasses.dataclass(frozen=True)
class Mask:
    """The sum of the addends of an attention, [·, ·, T, S] with the last two in full.

    Attributes:
      key: equal for masks that are equal tensors.
      parts: the addends, in order.
      lengths: T and S.
      masks_probabilities: whether the one mask among the addends sets the probabilities to 0 after the softmax, too.
    """

    key: Hashable
    parts: Sequence[_Part]
    lengths: tuple[LabelledDim, LabelledDim]
    masks_probabilities: bool = False

    @property
    def deciding(self) -> Mask:
        """The part of it that decides whether a query sees a key: without biases of ordinary numbers."""
        parts = [part for part in self.parts if part.addend.hidden is not None or not _is_ordinary(part.addend)]
        return dataclasses.replace(self, key=(self.key, "deciding"), parts=parts)

    @property
    def varies_with_heads(self) -> bool:
        """Whether heads have masks or biases of their own."""
        return any(len(axes) > 2 and axes[-3] != 1 for axes in map(_dims_of_part, self.parts))

    @property
    def is_of_one_number(self) -> bool:
        """Whether all addends are masks with one number, which `MASKED` can stand for."""
        return len({part.addend.hidden for part in self.parts} - {None}) == 1 and all(
            part.addend.hidden is not None for part in self.parts
        )


class Masks:
    """The masks of a graph: layers that share a mask share the tensor that is made of it."""

    def __init__(self) -> None:
        self._masks: dict[Hashable, Mask] = {}
        self._values: dict[Hashable, ir.Value] = {}

    def from_addends(
        self, addends: Sequence[Addend], roles: AttentionAxes, probability_mask: Addend | None = None
    ) -> Mask | None:
        """The sum of the addends, whose axes have these roles; None where there are none.

        `probability_mask` is the mask that is applied to the probabilities, which has to be the one among the addends. In a row with a key
        that is seen, it sets to 0 what is 0 already, since the softmax of hidden logits is; in other rows all probabilities become 0.

        Masks that replace logits by one number may replace them by any other that hides a key: in a row without a key
        that is seen, all are equal. Beside other numbers and biases that are added later, or are masks themselves, a
        number has to be itself, or the limit that all lower ones become, and logits added to it must leave it as it is.
        A bias whose computation is not known is taken to be of ordinary size.

        Raises:
          UnreadableError: a mask cannot be arranged like that.
        """
        if probability_mask is not None:
            _check_probability_mask(addends, probability_mask, roles)
        if not addends:
            return None
        _check_numbers(addends)
        lengths = size_of(roles.queries), size_of(roles.keys)
        key = (*(_key(addend, roles) for addend in addends), *map(str, lengths), probability_mask is not None)
        if key not in self._masks:
            parts = [_part(addend, roles) for addend in addends]
            self._masks[key] = Mask(key, parts, lengths, probability_mask is not None)
        return self._masks[key]

    def value(self, builder: InsertionPoint, mask: Mask, operands: Sequence[ir.Value]) -> ir.Value:
        """The mask as one float tensor.

        Args:
          builder: where it is made, if it has not been made before.
          mask: the mask.
          operands: query and key as the operator takes them, whose lengths it has.
        """
        if mask.key not in self._values:
            self._values[mask.key] = _in_full(builder, _summed(builder, mask), operands, mask.lengths)
        return self._values[mask.key]

    def seen(self, builder: InsertionPoint, mask: Mask, layout: Literal["BNT", "BTN", "BT"]) -> ir.Value:
        """1 where a query sees a key, else 0: [B, N, T, 1], [B, T, N, 1] or [B, T, 1], with size 1 along axes that make no difference."""
        key = (mask.key, "seen", layout)
        if key not in self._values:
            total = _summed(builder, mask.deciding)
            total = builder.unsqueeze(total, range(4 - len(builder.known_dims(total))))
            limit = max(part.addend.hidden for part in mask.parts if part.addend.hidden is not None)
            above = builder.op.Greater(total, builder.constant(max(limit, _ABSORBING), np.float32))
            dims = labelled((*(dims_of(total) or ())[:3], 1))
            seen = builder.op.ReduceMax(builder.cast(above, np.float32), builder.ints([3]), keepdims=1, dims=dims)
            seen = builder.op.Transpose(seen, perm=[0, 2, 1, 3]) if layout == "BTN" else seen
            self._values[key] = builder.squeeze(seen, [1]) if layout == "BT" else seen
        return self._values[key]


def _check_probability_mask(addends: Sequence[Addend], probability_mask: Addend, roles: AttentionAxes) -> None:
    """Check that a mask that is applied to the probabilities is the one before the softmax.

    Raises:
      UnreadableError: it is not, or a row in which it hides no key may hide all by a bias.
    """
    masks = [addend for addend in addends if addend.hidden is not None]
    if not masks:
        raise UnreadableError("a mask is applied to the probabilities, and none to the logits")
    if len(masks) > 1:
        raise UnreadableError("one mask is applied to the probabilities, and several to the logits")
    number = masks[0].hidden
    assert number is not None
    if _key(masks[0], roles) != _key(dataclasses.replace(probability_mask, hidden=number), roles):
        raise UnreadableError("the mask that is applied to the probabilities is not the one of the logits")
    if number == -np.inf and probability_mask.hidden is not None:
        raise UnreadableError("the probabilities of a row without a key that is seen are NaN, times 0")
    biases = [addend for addend in addends if addend.hidden is None]
    if any(_hides(bias.candidates[-1].value) for bias in biases):
        raise UnreadableError(
            "a bias that hides keys is added to the logits, and a mask is applied to the probabilities"
        )
    if number <= _ABSORBING and not all(map(_is_ordinary, biases)):
        raise UnreadableError(
            "a bias that may be as large as the number of masked keys stands before a mask of the probabilities"
        )


def _is_ordinary(bias: Addend) -> bool:
    """Whether all numbers of a bias are certainly of ordinary size."""
    return _is_computed(bias.candidates[-1].value)


def _is_computed(bias: ir.Value | None, depth: int = 16) -> bool:
    """Whether a bias is computed of finite numbers: of positions, weights or products, and not of an input alone."""
    if bias is None:
        return False
    array, node = known(bias, BROADCAST), bias.producer()
    if array is not None:
        return bool(np.isfinite(array).all()) and float(np.abs(array).max(initial=0)) < _HIDING**2
    if node is None or node.domain:
        return False
    if not depth or node.op_type not in _ELEMENTWISE:
        return node.op_type in ("MatMul", "Gemm", "Range", "CumSum")
    if node.op_type == "Cast" and not is_floating(node.inputs[0]):
        return True
    return all(_is_computed(value, depth - 1) for value in node.inputs[: 1 if node.op_type in _VIEWS else None])


def _dims_of_part(part: _Part) -> tuple[LabelledDim, ...]:
    """The dimensions of a part once it is arranged."""
    moves = part.arrangement.moves
    return moves[-1].dims if moves else dims_of(part.arrangement.candidate.value) or ()


def _check_numbers(addends: Sequence[Addend]) -> None:
    """Check that these masks and biases are one float mask.

    Raises:
      UnreadableError: they are not.
    """
    numbers = [addend.hidden for addend in addends]
    if any(addend.factor > 1 and _hides(addend.candidates[-1].value) for addend in addends):
        raise UnreadableError("a bias that hides keys is multiplied, and may become infinite")
    masks = {number for number in numbers if number is not None}
    if any(number > _ABSORBING for number in masks):
        if len(masks) > 1:
            raise UnreadableError("masks hide keys by different numbers, which logits would change")
        if None in numbers[next(i for i, number in enumerate(numbers) if number is not None) :]:
            raise UnreadableError("a bias is added to a mask whose number it would change")
        if any(addend.hidden is None and _hides(addend.candidates[-1].value) for addend in addends):
            raise UnreadableError("one mask is added, and the other hides keys by a number that logits would change")
    if len({number for number in masks if -np.inf < number <= MASKED}) > 1:
        raise UnreadableError("masks hide keys by different numbers below the limit that both would become")


def _hides(bias: ir.Value | None, depth: int = 8) -> bool:
    """Whether a bias is computed of a number that is as large as those which hide keys."""
    node = None if bias is None else bias.producer()
    if node is None or node.domain or not depth or node.op_type not in _ELEMENTWISE:
        number, array = scalar(bias, BROADCAST), known(bias, BROADCAST)
        if number is not None or array is None:
            return number is not None and abs(number) >= _HIDING
        return is_floating(bias) and float(array.min(initial=0)) <= _HIDING_AMONG_OTHERS
    return any(_hides(value, depth - 1) for value in node.inputs)


def _key(addend: Addend, roles: AttentionAxes) -> Hashable:
    """A key that two addends share only if they are equal, their axes told by their roles."""
    groups, root = _groups(roles), addend.candidates[0]
    names = {axis: (number, index) for number, group in enumerate(groups) for index, axis in enumerate(group)}
    own = tuple(tuple(names.get(axis) for axis in atoms(group)) for group in root.axes)
    # It is repeated along the axes of a group that it does not have, where it has others of the group.
    met = {name[0] for group in own for name in group if name is not None}
    sizes = tuple(tuple(str(axis.size) for axis in groups[number]) for number in sorted(met))
    return root.value, own, sizes, addend.hidden, addend.inverted, addend.factor


def _groups(roles: AttentionAxes) -> Axes:
    """The axes of the logits as the operator groups them."""
    return roles.batch, (*roles.heads, *roles.group), roles.queries, roles.keys


# ----------------------------------------------------------------------------------------------- reading


def _part(addend: Addend, roles: AttentionAxes) -> _Part:
    own, groups = set(axes_in(addend.candidates[0].axes)), _groups(roles)
    kept = _from_first(tuple(tuple(axis for axis in group if axis in own) for group in groups))
    arrangement = cheapest(addend.candidates, kept)
    repetitions = [
        (index, _repetition(part, group))
        for index, (part, group) in enumerate(zip(kept, groups[4 - len(kept) :], strict=True))
        if part and len(part) < len(group)
    ]
    return _Part(addend, arrangement, repetitions)


def _repetition(part: Sequence[Axis], group: Sequence[Axis]) -> list[int]:
    """The index along the axes `part` that goes with each along `group`, which has further axes."""
    sizes = [axis.size for axis in group if isinstance(axis.size, int)]
    if len(sizes) < len(group):
        raise UnreadableError("the mask is repeated along an axis whose size is not known")
    kept = [size if axis in part else 1 for axis, size in zip(group, sizes, strict=True)]
    indices: list[int] = np.broadcast_to(np.arange(np.prod(kept)).reshape(kept), sizes).reshape(-1).tolist()
    return indices


def _from_first(groups: Axes) -> Axes:
    """The groups without empty ones in front."""
    first = next((index for index, group in enumerate(groups) if group), len(groups))
    return groups[first:]


# ----------------------------------------------------------------------------------------------- writing


def _summed(builder: InsertionPoint, mask: Mask) -> ir.Value:
    """The sum of the addends, broadcast with each other only."""
    total: ir.Value | None = None
    for part in mask.parts:
        value, addend = _arranged(builder, part), part.addend
        if addend.hidden is None:
            value = builder.cast(value, np.float32)
            factor = -addend.factor if addend.inverted else addend.factor
            value = value if factor == 1 else builder.op.Neg(value) if factor == -1 else _times(builder, value, factor)
            total = value if total is None else builder.op.Add(total, value)
        else:
            is_any = mask.is_of_one_number or mask.masks_probabilities or addend.hidden > _ABSORBING
            number = MASKED if is_any else max(addend.hidden, MASKED)
            stays_infinite = addend.hidden == -np.inf and not mask.masks_probabilities
            hidden = builder.constant(-np.inf if stays_infinite else number, np.float32)
            allowed = builder.constant(0, np.float32) if total is None else total
            total = builder.op.Where(value, *((hidden, allowed) if addend.inverted else (allowed, hidden)))
    assert total is not None
    return total


def _times(builder: InsertionPoint, value: ir.Value, factor: float) -> ir.Value:
    return builder.op.Mul(value, builder.constant(factor, np.float32))


def _arranged(builder: InsertionPoint, part: _Part) -> ir.Value:
    """The value of a part."""
    value = part.arrangement.candidate.value
    value = value if part.addend.hidden is not None else _above_limit(builder, value)
    value = moved(builder, value, part.arrangement.moves)
    for axis, indices in part.repetitions:
        value = builder.op.Gather(value, builder.ints(indices), axis=axis)
    return value


def _above_limit(builder: InsertionPoint, bias: ir.Value) -> ir.Value:
    """A bias that is a large negative number where it hides a key: with a number that leaves room for a logit.

    Where it is a sum or has several such numbers, keys that it hides may differ: of several numbers none is replaced. Twice the one
    number is -inf, and so is twice the other.
    """
    return _raised(builder, bias) if len(_low_numbers(bias)) == 1 else bias


def _low_numbers(bias: ir.Value | None) -> set[float]:
    """The numbers below `MASKED` that a bias selects, or its addends."""
    node = operation(bias, *_VIEWS, "Where", "Add")
    if node is None:
        return set()
    if node.op_type == "Where":
        return {number for value in node.inputs[1:] if _is_low(number := scalar(value, BROADCAST))}
    return set().union(*map(_low_numbers, node.inputs[: 2 if node.op_type == "Add" else 1]))


def _is_low(number: float | None) -> TypeGuard[float]:
    return number is not None and -np.inf < number < MASKED


def _raised(builder: InsertionPoint, bias: ir.Value) -> ir.Value:
    """The bias with `MASKED` in the place of lower numbers."""
    node = operation(bias, *_VIEWS, "Where", "Add")
    if node is None or bias.dtype != ir.DataType.FLOAT:
        return bias
    inputs = list(node.inputs)
    if node.op_type == "Where":
        limit = builder.constant(MASKED, np.float32)
        inputs[1:] = [limit if _is_low(scalar(value, BROADCAST)) else value for value in inputs[1:]]
    else:
        end = 2 if node.op_type == "Add" else 1
        inputs[:end] = [value if value is None else _raised(builder, value) for value in inputs[:end]]
    is_same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
    return bias if is_same else builder.variant(node, inputs, dims=labelled(dims_of(bias) or ()))


def _in_full(
    builder: InsertionPoint, value: ir.Value, operands: Sequence[ir.Value], lengths: Sequence[LabelledDim]
) -> ir.Value:
    """`value` with rank 4 and the last two dimensions in full, as `Attention` takes them."""
    value = builder.unsqueeze(value, range(4 - len(builder.known_dims(value))))
    dims = dims_of(value) or ()
    if all(dim != 1 or length == 1 for dim, length in zip(dims[2:], lengths, strict=True)):
        return value
    shapes = [_length(builder, operand, length) for operand, length in zip(operands, lengths, strict=True)]
    target = builder.concat([builder.ints([1, 1]), *shapes], 0)
    return builder.op.Expand(value, target, dims=labelled((*dims[:2], *lengths)))


def _length(builder: InsertionPoint, operand: ir.Value, length: LabelledDim) -> ir.Value:
    """The length of a sequence as an int64 vector of one element."""
    if isinstance(length, int):
        return builder.ints([length])
    axis = len(builder.known_dims(operand)) - 2
    return builder.op.Shape(operand, start=axis, end=axis + 1, dims=(1,))
