"""The masks and biases of attentions as the one float mask that the operator takes."""

from __future__ import annotations

__all__ = ["MASKED", "Masks"]

from collections.abc import Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.passes.fusion.attention._arrangement import arranged, cheapest
from jax2onnx_graph.passes.fusion.attention._axes import Axes, Axis, UnreadableError, atoms, axes_in, size_of
from jax2onnx_graph.passes.fusion.attention._formula import BROADCAST, Addend
from jax2onnx_graph.passes.fusion.attention._roles import Roles
from jax2onnx_graph.rewrite.editor import InsertionPoint, labelled
from jax2onnx_graph.rewrite.patterns import operation, scalar

# JAX's own number for masked logits: a logit of ordinary size added to it leaves just the number.
MASKED = float(-0.7 * np.finfo(np.float32).max)


class Masks:
    """The float masks of a graph: layers that share a mask share what is made of it."""

    def __init__(self) -> None:
        self._made: dict[object, ir.Value] = {}

    def added(
        self, builder: InsertionPoint, addends: Sequence[Addend], roles: Roles, operands: Sequence[ir.Value]
    ) -> ir.Value | None:
        """The sum of the addends, [·, ·, T, S] with the last two in full; None where there are none.

        Args:
          builder: where it is made.
          addends: the biases and masks, in order.
          roles: the roles of their axes.
          operands: query and key as the operator takes them, whose lengths it has.

        Raises:
          UnreadableError: a mask cannot be arranged like that.
        """
        if not addends:
            return None
        lengths = [size_of(roles.queries), size_of(roles.keys)]
        identity = (*(_identity(addend, roles) for addend in addends), *map(str, lengths))
        if identity not in self._made:
            value = _summed(builder, addends, roles)
            self._made[identity] = _in_full(builder, value, operands, lengths)
        return self._made[identity]


def _identity(addend: Addend, roles: Roles) -> object:
    """What tells an addend from others, its axes by their roles."""
    groups = (roles.batch, (*roles.heads, *roles.group), roles.queries, roles.keys)
    names = {axis: (number, place) for number, group in enumerate(groups) for place, axis in enumerate(group)}
    root = addend.places[0]
    own = tuple(tuple(names.get(axis) for axis in atoms(group)) for group in root.axes)
    return root.value, own, addend.hidden == -np.inf, addend.hidden is None, addend.inverted


def _summed(builder: InsertionPoint, addends: Sequence[Addend], roles: Roles) -> ir.Value:
    """The sum of the addends, broadcast with each other only."""
    total: ir.Value | None = None
    for addend in addends:
        value = _arranged(builder, addend, roles)
        if addend.hidden is None:
            value = builder.cast(value, np.float32)
            value = builder.op.Neg(value) if addend.inverted else value
            total = value if total is None else builder.op.Add(total, value)
        else:
            hidden = builder.constant(-np.inf if addend.hidden == -np.inf else MASKED, np.float32)
            allowed = builder.constant(0, np.float32) if total is None else total
            total = builder.op.Where(value, *((hidden, allowed) if addend.inverted else (allowed, hidden)))
    assert total is not None
    return total


def _arranged(builder: InsertionPoint, addend: Addend, roles: Roles) -> ir.Value:
    """An addend as [B or 1, heads or 1, T or 1, S or 1], without axes of size 1 in front."""
    own = set(axes_in(addend.places[0].axes))
    groups = (roles.batch, (*roles.heads, *roles.group), roles.queries, roles.keys)
    parts = _from_first(tuple(tuple(axis for axis in group if axis in own) for group in groups))
    value = _placed(builder, addend, parts)
    for place, (part, group) in enumerate(zip(parts, groups[4 - len(parts) :], strict=True)):
        if part and len(part) < len(group):
            value = builder.op.Gather(value, builder.ints(_repetition(part, group)), axis=place)
    return value


def _repetition(part: Sequence[Axis], group: Sequence[Axis]) -> list[int]:
    """Which element along the axes `part` goes with each along `group`, which has further axes."""
    sizes = [axis.size for axis in group if isinstance(axis.size, int)]
    if len(sizes) < len(group):
        raise UnreadableError("a mask is repeated along an axis without a fixed size")
    kept = [size if axis in part else 1 for axis, size in zip(group, sizes, strict=True)]
    places: list[int] = np.broadcast_to(np.arange(np.prod(kept)).reshape(kept), sizes).reshape(-1).tolist()
    return places


def _placed(builder: InsertionPoint, addend: Addend, target: Axes) -> ir.Value:
    """An addend that has all the axes of `target`."""
    place = cheapest(addend.places, target)
    value = place.value if addend.hidden is not None else _above_limit(builder, place.value)
    return arranged(builder, value, place.axes, target)


def _from_first(groups: Axes) -> Axes:
    """The groups without empty ones in front."""
    first = next((place for place, group in enumerate(groups) if group), len(groups))
    return groups[first:]


def _above_limit(builder: InsertionPoint, bias: ir.Value) -> ir.Value:
    """A bias that is a large negative number where it hides a key, or a view of one: with a number that leaves room for a logit."""
    node = operation(bias, "Where", "Unsqueeze", "Reshape", "Transpose", "Expand", "Cast")
    if node is None or node.inputs[0] is None:
        return bias
    dims = labelled(dims_of(bias) or ())
    if node.op_type != "Where":
        inner = _above_limit(builder, node.inputs[0])
        return bias if inner is node.inputs[0] else builder.variant(node, [inner, *node.inputs[1:]], dims=dims)
    numbers = [scalar(value, BROADCAST) for value in node.inputs[1:]]
    low = [number is not None and -np.inf < number < MASKED for number in numbers]
    if not any(low) or bias.dtype != ir.DataType.FLOAT:
        return bias
    limit = builder.constant(MASKED, np.float32)
    branches = [limit if is_low else value for value, is_low in zip(node.inputs[1:], low, strict=True)]
    return builder.variant(node, [node.inputs[0], *branches], dims=dims)


def _in_full(
    builder: InsertionPoint, value: ir.Value, operands: Sequence[ir.Value], lengths: Sequence[int | ir.SymbolicDim]
) -> ir.Value:
    """`value` with rank 4 and the last two dimensions in full, as `Attention` takes them."""
    value = builder.unsqueeze(value, range(4 - len(builder.known_dims(value))))
    dims = dims_of(value) or ()
    if all(dim != 1 or length == 1 for dim, length in zip(dims[2:], lengths, strict=True)):
        return value
    shapes = [_length(builder, operand, length) for operand, length in zip(operands, lengths, strict=True)]
    target = builder.concat([builder.ints([1, 1]), *shapes], 0)
    return builder.op.Expand(value, target, dims=labelled((*dims[:2], *lengths)))


def _length(builder: InsertionPoint, operand: ir.Value, length: int | ir.SymbolicDim) -> ir.Value:
    """The length of a sequence as an int64 vector of one element."""
    if isinstance(length, int):
        return builder.ints([length])
    axis = len(builder.known_dims(operand)) - 2
    return builder.op.Shape(operand, start=axis, end=axis + 1, dims=(1,))
