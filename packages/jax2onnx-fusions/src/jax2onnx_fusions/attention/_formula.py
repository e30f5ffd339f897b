"""`AttentionFormula`: two products around a softmax, read as attention whatever moves their axes on the way."""

from __future__ import annotations

__all__ = [
    "BROADCAST",
    "FLOATS",
    "Addend",
    "AttentionFormula",
    "Operand",
    "attention_formula",
    "is_readable_logit",
    "is_readable_probability",
    "read_operand",
    "view_before",
]

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import constant_tensor, dims_of, same_dim
from jax2onnx_graph.rewrite.pass_base import Declined
from jax2onnx_graph.rewrite.patterns import is_read_once, operation, other_operand, scalar

from jax2onnx_fusions._reasons import UnreadableError
from jax2onnx_fusions.attention._arrangement import Candidate, cost_of
from jax2onnx_fusions.attention._axes import (
    Axes,
    Axis,
    atoms,
    axes_in,
    axes_of,
    product_axes,
    resolved,
    through,
    unify,
)
from jax2onnx_fusions.normalisation.fuse_softmax import softmax_operand

#: Elements of a constant that may be one number, repeated for all logits.
BROADCAST = 1 << 24
#: The element types of attention.
FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)

#: By element type, the number from which on a logit of ordinary size beside it keeps no weight; half precision has none larger, and bfloat16 rounds −10⁹.
_SURELY_MASKED = {ir.DataType.FLOAT: -1e9, ir.DataType.BFLOAT16: -9.9e8, ir.DataType.FLOAT16: -4e4}
_LARGEST = float(np.finfo(np.float32).max)
#: (x, node, number): `node` makes of x its view, or its product with the number.
_Multiple = tuple[ir.Value | None, ir.Node, float]

_OF_FORMULA = frozenset({"ReduceMax", "Abs", "Sub"})  # readers of the logits where a softmax is written out
_VIEWS = frozenset({"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Identity", "Concat"})

_LONGEST = 16  # nodes from the logits back to the product
_LONGEST_WITH_READERS = 4  # nodes that are looked at where the formula is known to have other readers


@dataclasses.dataclass
class Operand:
    """A query, key or value: the values from the tensor that it is a view of to the product."""

    candidates: list[Candidate]

    def root(self) -> tuple[Axis, ...]:
        """The axes of the tensor, without those along which it is repeated."""
        return axes_in(self.candidates[0].axes)

    def axes(self) -> Axes:
        """The axes at the product."""
        return self.candidates[-1].axes


@dataclasses.dataclass
class Addend:
    """A bias that is added to the logits, or a mask.

    Attributes:
      candidates: the bias, or the mask that is True where a logit stays, and the tensors that it is a view of.
      hidden: the number that masked logits become; None for a bias.
      inverted: whether the mask is False where a logit stays, or the bias is taken off.
      factor: by how much the bias is multiplied.
    """

    candidates: list[Candidate]
    hidden: float | None = None
    inverted: bool = False
    factor: float = 1.0


@dataclasses.dataclass
class AttentionFormula:
    """softmax(cap(scale · query · keyᵀ) + addends) · value.

    Attributes:
      query, key, value: the operands; `scale` does not contain their own factors.
      addends: the biases and masks, in order.
      cap: c where the logits are c · tanh(logits / c); 0 where they are not.
      keys: the axes S over which the softmax goes.
      features: the axes H that are contracted with the key.
      result: the axes of the last product.
      probability_mask: the mask by which probabilities are set to 0 after the softmax, or multiplied where its `hidden` is 0; None for none.
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
    probability_mask: Addend | None = None


@dataclasses.dataclass
class _LogitNode:
    """A node between the first product and the softmax.

    Attributes:
      node: the node.
      kind: "view", "factor", "tanh", "bias" or "mask".
      operand: the bias or mask.
      number: the factor, or the number that masked logits become.
      inverted: see `Addend`.
    """

    node: ir.Node
    kind: Literal["view", "factor", "tanh", "bias", "mask"]
    operand: ir.Value | None = None
    number: float = 1.0
    inverted: bool = False


def attention_formula(node: ir.Node) -> AttentionFormula | Declined | None:
    """The attention whose last product `node` is; None where there are no two products around a softmax."""
    reason = ""
    for index in (0, 1):
        softmax = _softmax_before(node.inputs[index])
        for logits in () if softmax is None else _products_before(softmax.logits, _LONGEST, softmax.obstacle):
            assert softmax is not None
            found = _attempt(node, index, softmax, logits)
            if isinstance(found, AttentionFormula):
                return found
            reason = reason or found
    return Declined(reason, node) if reason else None


def _attempt(node: ir.Node, index: int, softmax: _Softmax, logits: _Logits) -> AttentionFormula | str:
    """The attention of this softmax and these logits; why it is none, if so."""
    if logits.obstacle:
        # Weights are no keys: what they score is a routing, whose scores are read again.
        is_routing = any(constant_tensor(operand) is not None for operand in logits.product.inputs)
        return "" if is_routing else logits.obstacle
    if logits.product.graph is not node.graph:
        return "the logits are computed outside of the loop or branch"
    try:
        return _formula(node, index, softmax, logits)
    except UnreadableError as error:
        return str(error)


# ------------------------------------------------------------------------------- from the end backwards


@dataclasses.dataclass(frozen=True)
class _Softmax:
    """A softmax on the way to a product.

    Attributes:
      logits: its operand.
      axis: the axis that it goes over.
      views: the nodes after it, in order.
      obstacle: why it cannot be part of an operator; empty if nothing forbids it.
    """

    logits: ir.Value | None
    axis: int
    views: tuple[ir.Node, ...]
    obstacle: str


@dataclasses.dataclass(frozen=True)
class _Logits:
    """A product, the nodes from it to the softmax, and why these cannot be part of an operator, if so."""

    product: ir.Node
    nodes: tuple[_LogitNode, ...]
    obstacle: str


def _softmax_before(value: ir.Value | None) -> _Softmax | None:
    """The softmax of which `value` is a view."""
    views: tuple[ir.Node, ...] = ()
    while value is not None:
        node = value.producer()
        if node is None or node.domain:
            return None
        if node.op_type in ("Softmax", "Div"):
            return _softmax(node, views)
        if not is_readable_probability(node):
            return None
        masked = _masked_probabilities(node)
        value, views = node.inputs[0] if masked is None else masked.value, (node, *views)
    return None


@dataclasses.dataclass(frozen=True)
class _Again:
    """A mask behind a softmax.

    Attributes:
      value: the probabilities before it.
      mask: the mask that is True where a probability stays.
      inverted: whether the mask is False there.
      multiplied: whether it is a factor of 0 or 1, which leaves NaN, and not a selection.
    """

    value: ir.Value | None
    mask: ir.Value
    inverted: bool
    multiplied: bool


def _masked_probabilities(node: ir.Node) -> _Again | None:
    """The mask by which `node` sets probabilities to 0: `Where(mask, p, 0)`, or p times the mask as numbers."""
    if node.domain or node.op_type not in ("Where", "Mul"):
        return None
    if node.op_type == "Where":
        mask, is_negated = _unnegated(node.inputs[0])
        for inverted, index in ((False, 2), (True, 1)):
            if mask is not None and scalar(node.inputs[index], BROADCAST) == 0:
                return _Again(node.inputs[3 - index], mask, inverted ^ is_negated, multiplied=False)
        return None
    for factor in node.inputs:
        if factor is not None and _bits_of(factor) is not None:
            return _Again(other_operand(node, factor), factor, inverted=False, multiplied=True)
    return None


def _bits_of(value: ir.Value | None) -> ir.Node | None:
    """The Cast of booleans to numbers that `value` is a view of."""
    node = None if value is None else value.producer()
    while node is not None and _is_view(node):
        node = None if node.inputs[0] is None else node.inputs[0].producer()
    is_cast = node is not None and not node.domain and node.op_type == "Cast"
    source = node.inputs[0] if node is not None and is_cast else None
    return node if source is not None and source.dtype == ir.DataType.BOOL else None


def _softmax(node: ir.Node, views: tuple[ir.Node, ...]) -> _Softmax | None:
    """The softmax that `node` is, or with whose formula it ends."""
    if node.op_type == "Softmax":
        logits, axis = node.inputs[0], node.attributes.get_int("axis", -1)
        others = not is_read_once(logits)
    elif (found := softmax_operand(node)) is not None:
        logits, axis = found
        others = not {user.op_type for user, _ in logits.uses()} <= _OF_FORMULA
    else:
        return None
    if not all(is_read_once(each.outputs[0]) for each in (node, *views)):
        return _Softmax(logits, axis, views, "the probabilities have a second reader")
    return _Softmax(logits, axis, views, "the logits have a second reader" if others else "")


def is_readable_probability(node: ir.Node) -> bool:
    """Whether a node between the softmax and the last product is read as a part of attention."""
    return _is_view(node) or _is_cast(node) or _masked_probabilities(node) is not None


def is_readable_logit(node: ir.Node) -> bool:
    """Whether a node between the first product and the softmax is read as a part of attention."""
    return next(_logit_nodes(node), None) is not None


def _is_view(node: ir.Node) -> bool:
    return not node.domain and node.op_type in _VIEWS and (node.op_type != "Concat" or len(set(node.inputs)) == 1)


def _is_cast(node: ir.Node) -> bool:
    """Whether the node converts between floating-point types."""
    if node.domain or node.op_type != "Cast":
        return False
    source = node.inputs[0]
    return source is not None and source.dtype in FLOATS and node.outputs[0].dtype in FLOATS


def _products_before(value: ir.Value | None, depth: int, obstacle: str) -> Iterator[_Logits]:
    """The products of which `value` may be the logits, by every way to read the nodes between them."""
    node = None if value is None else value.producer()
    if node is None or node.domain or not depth:
        return
    if node.op_type in ("MatMul", "Gemm"):
        yield _Logits(node, (), obstacle)
        return
    for inner, last in _logit_nodes(node):
        known = obstacle or ("" if is_read_once(inner) else "the logits have a second reader")
        for found in _products_before(inner, min(depth - 1, _LONGEST_WITH_READERS) if known else depth - 1, known):
            yield dataclasses.replace(found, nodes=(*found.nodes, last))


def _logit_nodes(node: ir.Node) -> Iterator[tuple[ir.Value | None, _LogitNode]]:
    """(the logits before it, the node) for every way to read `node`."""
    if _is_view(node) or _is_cast(node):
        yield node.inputs[0], _LogitNode(node, "view")
    elif node.op_type == "Tanh":
        yield node.inputs[0], _LogitNode(node, "tanh")
    elif node.op_type in ("Mul", "Div"):
        for operand, number in _scaled(node):
            yield operand, _LogitNode(node, "factor", number=number)
    elif node.op_type in ("Add", "Sub"):
        for operand in node.inputs if node.op_type == "Add" else node.inputs[:1]:
            yield operand, _LogitNode(node, "bias", other_operand(node, operand), inverted=node.op_type == "Sub")
    elif node.op_type == "Where":
        for inverted, index in ((False, 2), (True, 1)):
            hidden = scalar(node.inputs[index], BROADCAST)
            if hidden is not None and _is_hiding(hidden, node.outputs[0]):
                mask, is_negated = _unnegated(node.inputs[0])
                yield node.inputs[3 - index], _LogitNode(node, "mask", mask, hidden, inverted ^ is_negated)


def _unnegated(mask: ir.Value | None) -> tuple[ir.Value | None, bool]:
    """(mask, False), or (m, True) where `mask` is not m."""
    negation = operation(mask, "Not")
    return (mask, False) if negation is None else (negation.inputs[0], True)


def read_operand(value: ir.Value | None, last_multiple: Callable[[ir.Value], _Multiple | None]) -> Operand:
    """Read an operand, back to the tensor from which nodes that `last_multiple` reads compute it.

    A view that takes an axis of symbolic size apart mixes axes, and then it is the operand that the others begin with.
    """
    path: list[tuple[ir.Node, float]] = []
    while value is not None and (found := last_multiple(value)) is not None:
        value, node, number = found
        path.append((node, number))
    assert value is not None, "products, views and multiples have all their operands"
    axes, factor = axes_of(value), math.prod(number for _, number in path)
    candidates, cost = [Candidate(value, axes, factor, 0)], 0
    for node, number in reversed(path):
        factor = factor / number
        try:
            axes = axes if node.op_type in ("Mul", "Div") else through(node, axes)
        except UnreadableError:
            candidates, cost, axes = [], 0, axes_of(node.outputs[0])
        else:
            cost += cost_of(node.op_type) if is_read_once(node.outputs[0]) else 0
        candidates.append(Candidate(node.outputs[0], axes, factor, cost))
    return Operand(candidates)


def view_before(value: ir.Value) -> _Multiple | None:
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
    """(x, number) where the Mul or Div is x times a number other than 0 that single precision has."""
    for operand in node.inputs if node.op_type == "Mul" else node.inputs[:1]:
        number = scalar(other_operand(node, operand), BROADCAST)
        factor = number if node.op_type == "Mul" else number and 1 / number
        if factor and abs(factor) <= _LARGEST:
            yield operand, factor


def _is_widening(node: ir.Node) -> bool:
    return _is_cast(node) and node.outputs[0].dtype == ir.DataType.FLOAT


def _keeps_shape(node: ir.Node, operand: ir.Value | None) -> bool:
    before, after = dims_of(operand), dims_of(node.outputs[0])
    same = before is not None and after is not None and len(before) == len(after)
    return same and all(map(same_dim, before or (), after or ()))


# ------------------------------------------------------------------------------ and forwards, with axes


def _formula(node: ir.Node, index: int, softmax: _Softmax, logits: _Logits) -> AttentionFormula:
    """The attention of these parts.

    Raises:
      UnreadableError: it is none.
    """
    left, right = (read_operand(value, _multiple) for value in logits.product.inputs[:2])
    axes, features = product_axes(logits.product, left.axes(), right.axes())
    scale, cap, addends, axes = _followed(logits.nodes, axes, _factor(logits.product))
    keys = axes[softmax.axis]
    axes, probability_mask = _behind(softmax.views, axes)
    value = read_operand(node.inputs[1 - index], _multiple)
    both = (value.axes(), axes) if index else (axes, value.axes())
    result, contracted = product_axes(node, *both)
    keys, contracted, features = atoms(keys), atoms(contracted), atoms(features)
    if _factor(node) != 1:
        raise UnreadableError("the last product has a factor")
    if keys != contracted:
        raise UnreadableError("the softmax does not go over the axis that the values are summed over")
    if not keys:
        raise UnreadableError("there is only one key")
    query, key = (right, left) if set(keys) <= set(left.root()) else (left, right)
    if not set(keys) <= set(key.root()) or not set(keys) <= set(value.root()) or set(keys) & set(query.root()):
        raise UnreadableError("the axis of the softmax is not one of key and value alone")
    value.candidates = [candidate for candidate in value.candidates if math.isclose(candidate.factor, 1)]
    return AttentionFormula(query, key, value, addends, scale, cap, keys, features, resolved(result), probability_mask)


def _behind(nodes: Sequence[ir.Node], axes: Axes) -> tuple[Axes, Addend | None]:
    """The axes of the probabilities after these nodes, and the mask that is applied to them on the way."""
    found: Addend | None = None
    for node in nodes:
        masked = _masked_probabilities(node)
        if masked is None:
            axes = through(node, axes)
            continue
        if found is not None:
            raise UnreadableError("two masks are applied to the probabilities")
        candidates = _aligned(masked.mask, node, axes)
        cast = _bits_of(masked.mask) if masked.multiplied else None
        if cast is not None:
            if candidates[0].value is not cast.outputs[0]:
                raise UnreadableError("a view of the mask that is applied to the probabilities mixes axes")
            source = read_operand(cast.inputs[0], view_before).candidates
            for own, other in zip(source[-1].axes, candidates[0].axes, strict=True):
                unify(other, own)
            candidates = source
        found = Addend(candidates, 0.0 if masked.multiplied else None, masked.inverted)
    return axes, found


def _factor(product: ir.Node) -> float:
    """The factor of a product."""
    if product.op_type == "MatMul":
        return 1.0
    if len(product.inputs) > 2 and product.inputs[2] is not None:
        raise UnreadableError("a product has a summand")
    return float(product.attributes.get_float("alpha", 1.0))


def _followed(nodes: Sequence[_LogitNode], axes: Axes, scale: float) -> tuple[float, float, list[Addend], Axes]:
    """The scale, the cap, the addends, and the axes after these nodes."""
    inner, cap, addends = scale, 0.0, list[Addend]()
    for each in nodes:
        if each.kind == "view":
            axes = through(each.node, axes)
        elif each.kind == "tanh" and addends:
            raise UnreadableError("the logits are capped after a mask or bias")
        elif each.kind == "factor":
            addends = [_scaled_addend(addend, each) for addend in addends]
            inner, cap = (inner, cap * each.number) if cap else (inner * each.number, 0.0)
        elif each.kind == "tanh":
            if cap:
                raise UnreadableError("the logits are capped twice")
            cap = 1.0
        else:
            hidden = each.number if each.kind == "mask" else None
            assert each.operand is not None
            addends.append(Addend(_aligned(each.operand, each.node, axes), hidden, each.inverted))
    if cap < 0:
        raise UnreadableError("the soft cap is negative")
    return inner * cap if cap else inner, cap, addends, axes


def _scaled_addend(addend: Addend, factor: _LogitNode) -> Addend:
    """An addend of logits that are multiplied by a number afterwards.

    Raises:
      UnreadableError: the number is not positive, or masked logits become another number by it that hides no key, or is infinite.
    """
    number = factor.number
    if not number > 0:
        raise UnreadableError("the logits are scaled by a number that is not positive, after a mask or bias")
    if addend.hidden is None:
        return dataclasses.replace(addend, factor=addend.factor * number)
    hidden = addend.hidden * number
    if not _is_hiding(hidden, factor.node.outputs[0]) or (
        np.isfinite(addend.hidden) and hidden < np.finfo(np.float32).min
    ):
        raise UnreadableError(f"masked logits are scaled to {hidden:g}")
    return dataclasses.replace(addend, hidden=hidden)


def _is_hiding(number: float, logits: ir.Value) -> bool:
    """Whether a key whose logit is this number keeps no weight beside logits of ordinary size."""
    return number <= _SURELY_MASKED.get(logits.dtype or ir.DataType.UNDEFINED, -np.inf)


def _aligned(value: ir.Value, node: ir.Node, axes: Axes) -> list[Candidate]:
    """An operand that broadcasts with logits of these axes in `node`, and the tensors that it is a view of."""
    dims, whole = dims_of(value), dims_of(node.outputs[0])
    if dims is None or whole is None or len(whole) != len(axes) or len(dims) > len(axes):
        raise UnreadableError("the logits are broadcast to the shape of a mask or bias")
    if any(size != 1 and not group for size, group in zip(whole, axes, strict=True)):
        raise UnreadableError("the logits are broadcast to the shape of a mask or bias")
    candidates = read_operand(value, view_before).candidates
    first = len(axes) - len(dims)
    for own, dim, size, group in zip(candidates[-1].axes, dims, whole[first:], axes[first:], strict=True):
        if dim != 1 and not same_dim(dim, size):
            raise UnreadableError("the mask has another size than the logits")
        if own:
            unify(group, own)
    return candidates
