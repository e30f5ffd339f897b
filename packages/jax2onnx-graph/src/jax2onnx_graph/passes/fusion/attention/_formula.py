"""Reading a graph as attention: what two products around a softmax compute, whatever moves their axes on the way."""

from __future__ import annotations

__all__ = ["BROADCAST", "FLOATS", "Addend", "Found", "Operand", "read"]

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of, same_dim
from jax2onnx_graph.passes.fusion.attention._arrangement import Place, cost_of
from jax2onnx_graph.passes.fusion.attention._axes import (
    Axes,
    Axis,
    UnreadableError,
    atoms,
    axes_in,
    axes_of,
    product_axes,
    resolved,
    through,
    unify,
)
from jax2onnx_graph.passes.fusion.fuse_softmax import softmax_operand
from jax2onnx_graph.rewrite.patterns import is_read_once, other_operand, scalar

#: Elements of a constant that may be one number, repeated for all logits.
BROADCAST = 1 << 24
#: The element types of attention.
FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)

_SURELY_MASKED = -1e4
#: (x, node, number): `node` makes of x its view, or its product with the number.
_Multiple = tuple[ir.Value | None, ir.Node, float]

_OF_FORMULA = frozenset({"ReduceMax", "Abs", "Sub"})  # what reads the logits where a softmax is written out
_VIEWS = frozenset({"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Identity", "Concat"})


@dataclasses.dataclass
class Operand:
    """A query, key or value: the places from the tensor that it is a view of to the product."""

    places: list[Place]

    def root(self) -> tuple[Axis, ...]:
        """The axes of the tensor, without those along which it is repeated."""
        return axes_in(self.places[0].axes)

    def axes(self) -> Axes:
        """The axes at the product."""
        return self.places[-1].axes


@dataclasses.dataclass
class Addend:
    """What is added to the logits, or where they are masked.

    Attributes:
      places: the bias, or the mask that is True where a logit stays, and what it is a view of.
      hidden: what masked logits become; None for a bias.
      inverted: whether the mask is False where a logit stays, or the bias is taken off.
    """

    places: list[Place]
    hidden: float | None = None
    inverted: bool = False


@dataclasses.dataclass
class Found:
    """softmax(cap(scale · query · keyᵀ) + addends) · value.

    Attributes:
      query, key, value: the operands; `scale` does not contain their own factors.
      addends: what is added or masked, in order.
      cap: c where the logits are c · tanh(logits / c); 0 where they are not.
      keys: the axes S over which the softmax goes.
      features: the axes H that are contracted with the key.
      result: the axes of the last product.
    """

    query: Operand
    key: Operand
    value: Operand
    addends: list[Addend]
    scale: float
    cap: float
    keys: tuple[Axis, ...]
    features: tuple[Axis, ...]
    result: Axes


@dataclasses.dataclass
class _Step:
    """A node between the first product and the softmax.

    Attributes:
      node: the node.
      kind: "view", "factor", "tanh", "bias" or "mask".
      operand: the bias or mask.
      number: the factor, or what masked logits become.
      inverted: see `Addend`.
    """

    node: ir.Node
    kind: str
    operand: ir.Value | None = None
    number: float = 1.0
    inverted: bool = False


def read(node: ir.Node) -> Found | None:
    """The attention whose last product `node` is, or None."""
    for index in (0, 1):
        path = _path_to_softmax(node.inputs[index])
        if path is None:
            continue
        for product, steps in _logits(path.logits, 16):
            if product.graph is not node.graph:  # computed once, outside of a loop
                continue
            try:
                return _found(node, index, path, product, steps)
            except UnreadableError:
                continue
    return None


# ------------------------------------------------------------------------------- from the end backwards


@dataclasses.dataclass(frozen=True)
class _Path:
    """The way from logits to a product.

    Attributes:
      logits: what the softmax is of.
      axis: the axis that it goes over.
      views: the nodes after it, in order.
    """

    logits: ir.Value | None
    axis: int
    views: tuple[ir.Node, ...]


def _path_to_softmax(value: ir.Value | None) -> _Path | None:
    """The softmax of which `value` is a view."""
    views: tuple[ir.Node, ...] = ()
    while value is not None and is_read_once(value):
        node = value.producer()
        if node is None or node.domain:
            return None
        if node.op_type == "Softmax" and is_read_once(node.inputs[0]):
            return _Path(node.inputs[0], node.attributes.get_int("axis", -1), views)
        if node.op_type == "Div":
            formula = softmax_operand(node)
            is_read_by_it = formula is not None and {user.op_type for user, _ in formula[0].uses()} <= _OF_FORMULA
            return _Path(*formula, views) if formula is not None and is_read_by_it else None
        if not (_is_view(node) or _is_cast(node)):
            return None
        value, views = node.inputs[0], (node, *views)
    return None


def _is_view(node: ir.Node) -> bool:
    return not node.domain and node.op_type in _VIEWS and (node.op_type != "Concat" or len(set(node.inputs)) == 1)


def _is_cast(node: ir.Node) -> bool:
    """Whether the node converts between floating-point types."""
    source = node.inputs[0]
    is_between = source is not None and source.dtype in FLOATS and node.outputs[0].dtype in FLOATS
    return not node.domain and node.op_type == "Cast" and is_between


def _logits(value: ir.Value | None, depth: int) -> Iterator[tuple[ir.Node, list[_Step]]]:
    """(product, nodes from it to `value`) for every way to read `value` as logits."""
    node = None if value is None else value.producer()
    if node is None or node.domain or not depth:
        return
    if node.op_type in ("MatMul", "Gemm"):
        yield node, []
        return
    for inner, step in _last_steps(node):
        if not is_read_once(inner):
            continue
        for product, steps in _logits(inner, depth - 1):
            yield product, [*steps, step]


def _last_steps(node: ir.Node) -> Iterator[tuple[ir.Value | None, _Step]]:
    """(what it is applied to, the step) for every step that `node` may be."""
    first = node.inputs[0]
    if _is_view(node) or _is_cast(node):
        yield first, _Step(node, "view")
    elif node.op_type == "Tanh":
        yield first, _Step(node, "tanh")
    elif node.op_type in ("Mul", "Div"):
        for operand, number in _scaled(node):
            yield operand, _Step(node, "factor", number=number)
    elif node.op_type in ("Add", "Sub"):
        for operand in node.inputs if node.op_type == "Add" else node.inputs[:1]:
            yield operand, _Step(node, "bias", other_operand(node, operand), inverted=node.op_type == "Sub")
    elif node.op_type == "Where":
        for inverted, index in ((False, 2), (True, 1)):
            hidden = scalar(node.inputs[index], BROADCAST)
            if hidden is not None and hidden <= _SURELY_MASKED:
                yield node.inputs[3 - index], _Step(node, "mask", first, hidden, inverted)


def _operand(value: ir.Value | None, last_step: Callable[[ir.Value], _Multiple | None]) -> Operand:
    """An operand, back to the tensor that it is made of by steps that `last_step` reads."""
    steps: list[tuple[ir.Node, float]] = []
    while value is not None and (found := last_step(value)) is not None:
        value, node, number = found
        steps.append((node, number))
    if value is None:
        raise UnreadableError("an operand is missing")
    axes, factor = axes_of(value), math.prod(number for _, number in steps)
    places, cost = [Place(value, axes, factor, 0)], 0
    for node, number in reversed(steps):
        axes, factor = axes if node.op_type in ("Mul", "Div") else through(node, axes), factor / number
        cost += cost_of(node.op_type) if is_read_once(node.outputs[0]) else 0
        places.append(Place(node.outputs[0], axes, factor, cost))
    return Operand(places)


def _view_of(value: ir.Value) -> _Multiple | None:
    """(x, node, 1) where `node` makes of x its view `value`."""
    node = value.producer()
    return None if node is None or not _is_view(node) else (node.inputs[0], node, 1.0)


def _multiple(value: ir.Value) -> _Multiple | None:
    """(x, node, number) where `node` makes of x its view or multiple `value`."""
    node = value.producer()
    if node is None or node.domain:
        return None
    if _is_view(node) or _is_widening(node):
        return node.inputs[0], node, 1.0
    if node.op_type not in ("Mul", "Div"):
        return None
    for operand, number in _scaled(node):
        if _keeps_shape(node, operand):
            return operand, node, number
    return None


def _scaled(node: ir.Node) -> Iterator[tuple[ir.Value | None, float]]:
    """(x, number) where the Mul or Div is x times a number other than 0."""
    for operand in node.inputs if node.op_type == "Mul" else node.inputs[:1]:
        number = scalar(other_operand(node, operand), BROADCAST)
        if number:
            yield operand, number if node.op_type == "Mul" else 1 / number


def _is_widening(node: ir.Node) -> bool:
    return _is_cast(node) and node.outputs[0].dtype == ir.DataType.FLOAT


def _keeps_shape(node: ir.Node, operand: ir.Value | None) -> bool:
    before, after = dims_of(operand), dims_of(node.outputs[0])
    same = before is not None and after is not None and len(before) == len(after)
    return same and all(map(same_dim, before or (), after or ()))


# ------------------------------------------------------------------------------ and forwards, with axes


def _found(node: ir.Node, index: int, path: _Path, product: ir.Node, steps: Sequence[_Step]) -> Found:
    """The attention of these parts; UnreadableError where it is none."""
    left, right = (_operand(value, _multiple) for value in product.inputs[:2])
    axes, features = product_axes(product, left.axes(), right.axes())
    scale, cap, addends, axes = _followed(steps, axes, _factor(product))
    keys = axes[path.axis]
    for view in path.views:
        axes = through(view, axes)
    value = _operand(node.inputs[1 - index], _multiple)
    both = (value.axes(), axes) if index else (axes, value.axes())
    result, contracted = product_axes(node, *both)
    keys, contracted, features = atoms(keys), atoms(contracted), atoms(features)
    if keys != contracted or _factor(node) != 1:
        raise UnreadableError("the softmax does not go over the axis that the values are summed over")
    query, key = (right, left) if keys and set(keys) <= set(left.root()) else (left, right)
    if not set(keys) <= set(key.root()) or not set(keys) <= set(value.root()) or set(keys) & set(query.root()):
        raise UnreadableError("the keys are not an axis of key and value alone")
    if not keys:
        raise UnreadableError("one key")
    value.places = [place for place in value.places if math.isclose(place.factor, 1)]
    return Found(query, key, value, addends, scale, cap, keys, features, resolved(result))


def _factor(product: ir.Node) -> float:
    """The factor of a product."""
    if product.op_type == "MatMul":
        return 1.0
    if len(product.inputs) > 2 and product.inputs[2] is not None:
        raise UnreadableError("a product has a summand")
    return float(product.attributes.get_float("alpha", 1.0))


def _followed(steps: Sequence[_Step], axes: Axes, scale: float) -> tuple[float, float, list[Addend], Axes]:
    """The scale, the cap, what is added, and the axes after these steps."""
    inner, cap, addends = scale, 0.0, list[Addend]()
    for step in steps:
        if step.kind == "view":
            axes = through(step.node, axes)
        elif step.kind in ("factor", "tanh") and addends:
            raise UnreadableError("a sum is scaled")
        elif step.kind == "factor":
            inner, cap = (inner, cap * step.number) if cap else (inner * step.number, 0.0)
        elif step.kind == "tanh":
            if cap:
                raise UnreadableError("two caps")
            cap = 1.0
        else:
            hidden = step.number if step.kind == "mask" else None
            assert step.operand is not None
            addends.append(Addend(_aligned(step.operand, step.node, axes), hidden, step.inverted))
    if cap < 0:
        raise UnreadableError("a negative cap")
    return inner * cap if cap else inner, cap, addends, axes


def _aligned(value: ir.Value, node: ir.Node, axes: Axes) -> list[Place]:
    """An operand that broadcasts with logits of these axes in `node`, and what it is a view of."""
    dims, whole = dims_of(value), dims_of(node.outputs[0])
    if dims is None or whole is None or len(whole) != len(axes) or len(dims) > len(axes):
        raise UnreadableError("logits broadcast with what is added")
    places = _operand(value, _view_of).places
    first = len(axes) - len(dims)
    for own, dim, size, group in zip(places[-1].axes, dims, whole[first:], axes[first:], strict=True):
        if dim != 1 and not same_dim(dim, size):
            raise UnreadableError("a mask has another size")
        if own:
            unify(group, own)
    if any(size != 1 and not group for size, group in zip(whole, axes, strict=True)):
        raise UnreadableError("logits broadcast with what is added")
    return places
