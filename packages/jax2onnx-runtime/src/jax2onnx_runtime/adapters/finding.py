"""Low-rank products in a graph: `x @ a @ b`, scaled at any place, with constant matrices `a` and `b`, also those of all layers of a loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.axis_maps import Iteration, axis_maps
from jax2onnx_graph.facts.sub_axes import SubAxis, result_sub_axes
from jax2onnx_graph.facts.values import LabelledDim, constant_tensor, dims_of, known
from jax2onnx_graph.rewrite.patterns import is_floating, scalar

from jax2onnx_runtime.adapters.stacks import entry_of, stacks_among

__all__ = ["BaseProduct", "LowRankPair", "LowRankProduct", "chosen_pairs", "is_stacked", "low_rank_pairs"]

_LISTED = 6
#: How a weight is read: each value that is a copy of it, and the nodes that read these.
_Use = tuple[ir.Node, int]
#: The constant that a value is a copy or an entry of.
_Matrix = Callable[[ir.Value | None], ir.Value | None]


@dataclasses.dataclass(frozen=True)
class BaseProduct:
    """The product `x @ w` of the sum `x @ w + x @ a @ b`.

    Attributes:
      product: the node that computes it.
      total: the Add that computes the sum.
      rest: which operand of the sum is not the product of low rank.
      weight: the constant matrix `w`, or the matrices of all layers of a loop.
    """

    product: ir.Node
    total: ir.Node
    rest: int
    weight: ir.Value


@dataclasses.dataclass(frozen=True)
class LowRankProduct:
    """One use of a pair of matrices.

    Attributes:
      activation: the value `x`.
      scale: the number by which `x @ a @ b` is multiplied.
      base: the product that it is added to, None where there is none; a reason why it is not known, for messages.
    """

    activation: ir.Value
    scale: float
    base: BaseProduct | str


@dataclasses.dataclass(frozen=True)
class LowRankPair:
    """Two constant matrices whose common axis is nothing but summed over, so that it may have any length.

    Attributes:
      a: the matrix that is multiplied first, an initializer, or the matrices of all layers of a loop [L, …].
      b: the other one.
      a_axis: the axis of `a` that they have in common, of the two of a matrix.
      b_axis: the same of `b`.
      between: the values between the two products that have the axis, and which of their axes it is.
      flattenings: the Reshapes between them, which make one axis of all but the last, and whose result no node needs so.
      products: where they are used.
    """

    a: ir.Value
    b: ir.Value
    a_axis: int
    b_axis: int
    between: Sequence[tuple[ir.Value, int]]
    flattenings: Sequence[ir.Node]
    products: Sequence[LowRankProduct]

    @property
    def rank(self) -> int:
        """The length of the common axis."""
        return _shape(self.a)[self.a_axis]

    @property
    def is_low(self) -> bool:
        """Whether the rank is less than the sizes of the product."""
        return self.rank < min(_shape(self.a)[1 - self.a_axis], _shape(self.b)[1 - self.b_axis])


class _NotLowRankError(Exception):
    """Says why a matrix is not the first one of a pair."""


def low_rank_pairs(model: ir.Model) -> list[LowRankPair]:
    """The pairs of low rank in a model that are added to the product of the same activation with another weight."""
    found = (pair for pair in _pairs_or_reasons(model).values() if isinstance(pair, LowRankPair))
    return [pair for pair in found if pair.is_low and all(isinstance(p.base, BaseProduct) for p in pair.products)]


def chosen_pairs(model: ir.Model, patterns: Sequence[str]) -> list[LowRankPair]:
    """The pairs one of whose names fits one of the patterns, with the wildcards of file names.

    A weight that fits is one of a pair, by whatever it is added to.

    Raises:
      OptionError: a pattern fits no weight, or one that is in no pair.
    """
    pairs = _pairs_or_reasons(model)
    seconds = {p.b.name: p for p in pairs.values() if isinstance(p, LowRankPair)}
    found: dict[str, LowRankPair] = {}
    for pattern in patterns:
        names = [name for name in pairs if fnmatchcase(name, pattern)]
        if not names:
            known = [pair.a.name or "" for pair in low_rank_pairs(model)] or [*pairs]
            shown = f"; it has {', '.join(known[:_LISTED])}, …" if known else ", which has none"
            raise OptionError(f"The pattern {pattern!r} of adapters fits no matrix of the model{shown}.")
        for name in names:
            pair = seconds.get(name) or pairs[name]
            if isinstance(pair, str):
                raise OptionError(
                    f"{name} is no matrix of an adapter, by which a result is multiplied and, after that, by another one: {pair}."
                )
            found[pair.a.name or ""] = pair
    return [found[name] for name in pairs if name in found]


def _pairs_or_reasons(model: ir.Model) -> dict[str, LowRankPair | str]:
    """The pair whose first matrix each constant matrix is, or why it is none, by its name."""
    matrices = [value for value in model.graph.initializers.values() if _is_weight(value)]
    stacks = stacks_among(value for value in matrices if is_stacked(value))
    return {value.name or "": _pair_or_reason(value, stacks) for value in matrices}


def _is_weight(value: ir.Value) -> bool:
    """Whether a value is a constant matrix of floating-point numbers, or such matrices of the layers of a loop."""
    tensor = constant_tensor(value) if value.is_initializer() and is_floating(value) else None
    return tensor is not None and (len(tensor.shape) == 2 or is_stacked(value))


def is_stacked(value: ir.Value) -> bool:
    """Whether a constant [L, …] is the matrices of all layers of a loop."""
    tensor = constant_tensor(value)
    return tensor is not None and len(tensor.shape) == 3 and any(entry_of(*use) is not None for use in value.uses())


def _shape(value: ir.Value) -> tuple[int, ...]:
    """The sizes of a matrix, or of each of those of a loop."""
    tensor = constant_tensor(value)
    assert tensor is not None, "it is a constant"
    return tuple(tensor.shape.numpy())[-2:]


def _pair_or_reason(a: ir.Value, stacks: Mapping[ir.Value, ir.Value]) -> LowRankPair | str:
    """The pair whose first matrix a constant is, or why it is none."""
    try:
        return _pair(a, _Walk(stacks))
    except _NotLowRankError as error:
        return str(error)


def _pair(a: ir.Value, walk: _Walk) -> LowRankPair:
    for node, index in walk.uses(a):
        walk.follow(walk.first_product(node, index))
    seconds = {end.matrix for end in walk.ends}
    if len(seconds) != 1 or len({end.matrix_axis for end in walk.ends}) != 1:
        raise _NotLowRankError("it is used with several others" if seconds else "nothing reads it")
    (b,), b_axis = seconds, walk.ends[0].matrix_axis
    axes = {_rank_axis(node, index) for node, index in walk.uses(a)}
    if len(axes) != 1:
        raise _NotLowRankError("it is used transposed, too")
    nodes = {end.node for end in walk.ends}
    if any(node not in nodes for node, _ in walk.uses(b)):
        raise _NotLowRankError(f"something else reads {b.name}")
    if a is b:
        raise _NotLowRankError("it is multiplied by itself")
    a_axis = axes.pop()
    sizes = _shape(a)[1 - a_axis], _shape(b)[1 - b_axis]
    products = [LowRankProduct(end.activation, *_added(end, sizes, walk.matrix)) for end in walk.ends]
    return LowRankPair(a, b, a_axis, b_axis, tuple(walk.between), tuple(walk.flattenings), products)


@dataclasses.dataclass(frozen=True)
class _Path:
    """The way from the first product.

    Attributes:
      value: a value on it.
      axis: the axis of the value that is the rank.
      activation: what the first matrix is multiplied by.
      scale: the scale so far.
      is_of_rows: whether the activation is summed over its last axis, as in `x @ a`.
    """

    value: ir.Value
    axis: int
    activation: ir.Value
    scale: float
    is_of_rows: bool


@dataclasses.dataclass(frozen=True)
class _End:
    """The second product.

    Attributes:
      node: its node.
      matrix: the other matrix.
      matrix_axis: the axis of it that is the rank.
      activation: what the first matrix is multiplied by.
      scale: the scale so far.
      is_of_rows: whether the result is `x @ a @ b`, for an activation x; with two axes it may be its transpose, or `b @ a @ x`.
    """

    node: ir.Node
    matrix: ir.Value
    matrix_axis: int
    activation: ir.Value
    scale: float
    is_of_rows: bool


class _Walk:
    """Follows the axis of the rank through a graph.

    Args:
      stacks: the values in bodies of loops that are entries of a constant, by entry.
    """

    def __init__(self, stacks: Mapping[ir.Value, ir.Value]) -> None:
        self._stacks = stacks
        self.between: dict[tuple[ir.Value, int], None] = {}
        self.flattenings: list[ir.Node] = []
        self.ends: list[_End] = []

    def uses(self, matrix: ir.Value) -> Iterator[_Use]:
        """The products that read a matrix, or a copy of it in another type."""
        if matrix.is_graph_output():
            raise _NotLowRankError("the model returns it")
        for node, index in matrix.uses():
            entry = entry_of(node, index)
            if entry is not None or _is_copy(node):
                yield from self.uses(node.outputs[0] if entry is None else entry)
            elif len(dims_of(matrix) or ()) != 2:
                raise _NotLowRankError(f"{node.op_type} reads the matrices of all layers at once")
            else:
                yield node, index

    def matrix(self, value: ir.Value | None) -> ir.Value | None:
        """The constant that a value is a copy or an entry of, in whatever type; the value behind the copies where there is none."""
        origin = _origin(value)
        stack = None if origin is None else self._stacks.get(origin)
        return origin if stack is None else stack

    def first_product(self, node: ir.Node, index: int) -> _Path:
        """The way behind the product of the first matrix."""
        other = _other(node, index)
        if not _is_product(node) or other is None or (_is(node, "Gemm") and len(node.inputs) > 2):
            raise _NotLowRankError(f"it is read by {node.op_type}, not by a product with an activation")
        if constant_tensor(self.matrix(other)) is not None:
            raise _NotLowRankError("it is multiplied by another constant")
        result = node.outputs[0]
        if index == 0 and len(dims_of(other) or ()) != 2:
            raise _NotLowRankError("it is the left factor of a product")
        is_of_rows = _summed_axis(node, 1 - index) == len(dims_of(other) or ()) - 1
        return _Path(result, _axis_behind(node, index, _rank_axis(node, index)), other, _alpha(node), is_of_rows)

    def follow(self, path: _Path) -> None:
        """Follow the axis to the products in which it is summed over."""
        value = path.value
        self.between[value, path.axis] = None
        if value.is_graph_output():
            raise _NotLowRankError("the model returns what it is multiplied to")
        for node, index in value.uses():
            factor, scale = _factor(node, index), path.scale
            if factor is not None and not _has_axis(_other(node, index), path.axis - len(dims_of(value) or ())):
                scale = path.scale * factor
            elif _is_flattening(node, index, path.axis):
                self.flattenings.append(node)
            elif not _is_copy(node):
                self.ends.append(self._end(node, index, path))
                continue
            axis = _axis_behind(node, index, path.axis)
            self.follow(dataclasses.replace(path, value=node.outputs[0], axis=axis, scale=scale))

    def _end(self, node: ir.Node, index: int, path: _Path) -> _End:
        matrix = self.matrix(_other(node, index))
        if matrix is None or not _is_weight(matrix) or not _is_product(node):
            raise _NotLowRankError(f"a result of it is read by {node.op_type}, not by a product with a matrix")
        if _summed_axis(node, index) != path.axis or (index == 1 and len(dims_of(path.value) or ()) != 2):
            raise _NotLowRankError(
                "the axis that it has in common with the next matrix is not the one that is summed over"
            )
        axis, last = _rank_axis(node, 1 - index), len(dims_of(node.outputs[0]) or ()) - 1
        is_of_rows = path.is_of_rows and _axis_behind(node, 1 - index, axis) == last
        return _End(node, matrix, 1 - axis, path.activation, path.scale * _alpha(node), is_of_rows)


def _is_flattening(node: ir.Node, index: int, axis: int) -> bool:
    """Whether a Reshape makes one axis of all axes but the last, for products alone whose results get other shapes anyway."""
    before, after = dims_of(node.inputs[0]), dims_of(node.outputs[0])
    if not _is(node, "Reshape") or index or before is None or after is None or len(after) != 2:
        return False
    if axis != len(before) - 1 or not isinstance(after[1], int) or before[-1] != after[1]:
        return False
    users = list(node.outputs[0].uses())
    results = [user.outputs[0] for user, place in users if _is(user, "MatMul") and place == 0]
    return len(results) == len(users) and all(map(_is_reshaped_only, results))


def _is_reshaped_only(value: ir.Value) -> bool:
    """Whether all readers of a value give it a shape that does not depend on the one it has."""
    if value.is_graph_output():
        return False
    return all(
        _is(user, "Reshape") and place == 0 and not _copies_sizes(user.inputs[1]) for user, place in value.uses()
    )


def _copies_sizes(shape: ir.Value | None) -> bool:
    """Whether the shape that a Reshape is given may have a 0, which stands for the size that is there."""
    node = None if shape is None else shape.producer()
    if node is not None and _is(node, "Concat"):
        return any(_copies_sizes(part) for part in node.inputs)
    if node is not None and _is(node, "Shape"):
        return False
    array = known(shape)
    return array is None or bool((array == 0).any())


# Products.


def _is(node: ir.Node, *op_types: str) -> bool:
    return node.op_type in op_types and not node.domain


def _is_copy(node: ir.Node) -> bool:
    """Whether a node copies floating-point numbers, perhaps rounded to another such type."""
    return _is(node, "Identity") or (_is(node, "Cast") and is_floating(node.outputs[0]))


def _origin(value: ir.Value | None, *further: str) -> ir.Value | None:
    """The value that a value is a copy of, by way of these operators, too."""
    while value is not None and (node := value.producer()) is not None and (_is_copy(node) or _is(node, *further)):
        value = node.inputs[0]
    return value


def _factor(node: ir.Node, index: int) -> float | None:
    """The number by which a node multiplies an operand; None for other nodes."""
    number = scalar(_other(node, index))
    if number is None or not (_is(node, "Mul") or (_is(node, "Div") and index == 0 != number)):
        return None
    return number if node.op_type == "Mul" else 1 / number


def _has_axis(value: ir.Value | None, axis: int) -> bool:
    """Whether a value has an axis, counted from the last one, of more than one element: equal numbers, one for each of the rank."""
    dims = dims_of(value) or ()
    return len(dims) >= -axis and dims[axis] != 1


def _is_product(node: ir.Node) -> bool:
    return _is(node, "MatMul", "Gemm")


def _other(node: ir.Node, index: int) -> ir.Value | None:
    """The other operand of a node with two."""
    return node.inputs[1 - index] if index < 2 <= len(node.inputs) else None


def _alpha(node: ir.Node) -> float:
    return node.attributes.get_float("alpha", 1.0)


def _is_transposed(node: ir.Node, index: int) -> bool:
    return bool(node.attributes.get_int("transA" if index == 0 else "transB", 0))


def _summed_axis(node: ir.Node, index: int) -> int | None:
    """The axis of a product's operand that is summed over; None where its shape is not known."""
    maps = axis_maps(node)
    axes = (None if maps is None else maps.operands[index]) or ()
    found = (i for i, group in enumerate(axes) if any(axis.iteration is Iteration.SUMMED for axis in group))
    return next(found, None)


def _rank_axis(node: ir.Node, index: int) -> int:
    """The axis of a product's operand with two axes that is not summed over."""
    summed = _summed_axis(node, index)
    if summed is None:
        raise _NotLowRankError(f"the shapes of a {node.op_type} that reads it are not known")
    return 1 - summed


def _axis_behind(node: ir.Node, index: int, axis: int) -> int:
    """The axis of a node's result that an axis of an operand is."""
    found = result_sub_axes(node, index, SubAxis(axis))
    if found is None or found[0] is None or not found[0].is_whole:
        raise _NotLowRankError(f"{node.op_type} reads it along an axis that its result does not have")
    return found[0].axis


# What the products are added to.


def _added(end: _End, sizes: tuple[int, int], matrix: _Matrix) -> tuple[float, BaseProduct | str]:
    """The scale of a pair's product, and what it is added to, the product of a weight of these sizes."""
    value, scale = end.node.outputs[0], end.scale
    if _is(end.node, "Gemm") and len(end.node.inputs) > 2:
        return scale, "it has an addend of its own"
    if not end.is_of_rows:
        return scale, "it multiplies the activation from the other side"
    while True:
        uses = list(value.uses())
        if value.is_graph_output() or len(uses) != 1:
            return scale, "its product is read more than once, or returned by itself"
        node, index = uses[0]
        factor = _factor(node, index)
        if _is(node, "Add"):
            return scale, _base(node, index, end.activation, sizes, matrix)
        if factor:
            scale = scale * factor
        elif not (_is_copy(node) or _is(node, "Reshape")) or index:
            return scale, f"its product is read by {node.op_type}"
        value = node.outputs[0]


def _base(
    total: ir.Node, index: int, activation: ir.Value, sizes: tuple[int, int], matrix: _Matrix
) -> BaseProduct | str:
    """The product with another weight in the other operand of a sum, under biases and further sums."""
    rest, whole = _other(total, index), dims_of(total.outputs[0])
    assert rest is not None
    if any(_is_repeated(value, whole) for value in total.inputs):
        return "its product, or what it is added to, is repeated along an axis by the sum"
    for value in _summands(rest):
        node = value.producer()
        if node is None or not _is_product(node):
            continue
        weight = matrix(node.inputs[1])
        if weight is None or not _is_weight(weight):
            continue
        rows, of_pair = (_origin(x, "Reshape") for x in (node.inputs[0], activation))
        same_rows = rows is of_pair and not _is_transposed(node, 0) and _alpha(node) == 1.0
        shape = _shape(weight)[::-1] if _is_transposed(node, 1) else _shape(weight)
        if same_rows and shape == sizes:
            return BaseProduct(node, total, 1 - index, weight)
    return "it is not added to a product of the same activation with another weight"


def _is_repeated(value: ir.Value | None, whole: Sequence[LabelledDim] | None) -> bool:
    """Whether a sum of this shape may read the elements of an operand more than once, or give it more axes."""
    dims = dims_of(value)
    if dims is None or whole is None or len(dims) != len(whole):
        return True
    return any(one == 1 != other for one, other in zip(dims, whole, strict=True))


def _summands(value: ir.Value) -> Iterable[ir.Value]:
    """The values whose sum a value is, each of which nothing else reads."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if found.is_graph_output() or len(list(found.uses())) != 1:
            continue
        node = found.producer()
        if node is not None and (_is_copy(node) or _is(node, "Add", "Reshape")):
            waiting += [operand for operand in node.inputs[: 2 if _is(node, "Add") else 1] if operand is not None]
        else:
            yield found
