"""`GraphBuilder`: the class by which rules and passes write nodes."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array, Dtype, DtypeLike
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.build.attributes import Attribute, attributes_of, element_type, plain_attributes
from jax2onnx_graph.build.element_types import check_element_types
from jax2onnx_graph.errors import Declined, RuleError
from jax2onnx_graph.facts.dims import Dim, Dims, is_empty, is_static
from jax2onnx_graph.facts.dtypes import is_exact_attribute
from jax2onnx_graph.facts.node_check import check_node, check_operands
from jax2onnx_graph.facts.schemas import output_types
from jax2onnx_graph.facts.shapes import infer_dims
from jax2onnx_graph.facts.values import constant_tensor, known
from jax2onnx_graph.forms import Form, Threshold
from jax2onnx_graph.targets import Property, Target
from jax2onnx_graph.weights.absent import AbsentTensor, computed

__all__ = ["Array", "DtypeLike", "GraphBuilder", "Operators", "Value"]

Value = ir.Value


class Operator(Protocol):
    """Emits one node of an operator and returns its only result."""

    def __call__(
        self, *inputs: Value | None, domain: str = "", dtype: DtypeLike | None = None, dims: Sequence[Dim] | None = None,
        **attributes: Attribute,
    ) -> Value: ...  # fmt: skip


class Operators:
    """`op.Add(x, y)`, `op("Add", x, y)`, and `op.several("Split", x, outputs=2, axis=0)` for several results."""

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder

    def __getattr__(self, op_type: str) -> Operator:
        def emit(*inputs: Value | None, **options: Any) -> Value:
            return self(op_type, *inputs, **options)

        return emit

    def __call__(
        self, op_type: str, *inputs: Value | None, domain: str = "", dtype: DtypeLike | None = None,
        dims: Sequence[Dim] | None = None, **attributes: Attribute,
    ) -> Value:  # fmt: skip
        """Emit one node and return its result.

        Args:
          op_type: the name of the operator.
          *inputs: its operands; None for one that is left out.
          domain: the operator's domain, empty for the standard operators.
          dtype: the element type of the result, where the schema leaves it open.
          dims: the shape of the result, where it does not follow from the operands.
          **attributes: its attributes; None for one that is left out.
        """
        (value,) = self._builder.emit(op_type, inputs, domain, 1, None if dtype is None else [dtype], dims, attributes)
        return value

    def several(
        self, op_type: str, *inputs: Value | None, outputs: int, domain: str = "",
        dtype: Sequence[DtypeLike] | None = None, dims: Sequence[Dim] | None = None, **attributes: Attribute,
    ) -> tuple[Value, ...]:  # fmt: skip
        """Emit one node and return its results.

        Args:
          op_type: the name of the operator.
          *inputs: its operands; None for one that is left out.
          outputs: the number of results.
          domain: the operator's domain, empty for the standard operators.
          dtype: the element types of the results, where the schema leaves them open.
          dims: the shape of the first result (of all results of Split), where it does not follow from the operands.
          **attributes: its attributes; None for one that is left out.
        """
        return self._builder.emit(op_type, inputs, domain, outputs, dtype, dims, attributes)


class GraphBuilder(abc.ABC):
    """Writes nodes, constants and a few generic operations at one place of one graph.

    The helpers (`reshape`, `cast`, `transpose`, …) emit nothing where there is nothing to do.

    Attributes:
      op: emits nodes: `builder.op.Add(x, y)`.
      opset: the version of the standard operators.
      target: the runtime that the model is for.
    """

    def __init__(self, opset: int, target: Target) -> None:
        self.opset, self.target = opset, target
        self.op = Operators(self)

    # -- where nodes go: for the classes derived from this -------------------------------------

    @abc.abstractmethod
    def _insert(self, node: ir.Node) -> None:
        """Put a finished node into the graph."""

    @abc.abstractmethod
    def _node_name(self, op_type: str) -> str:
        """A name for a new node of this operator."""

    def _value_names(self, node: str, count: int) -> Sequence[str | None]:
        """Names for the results of a new node; None where the graph is to choose."""
        return [node] if count == 1 else [f"{node}.{i}" for i in range(count)]

    @abc.abstractmethod
    def dims(self, value: Value) -> Dims | None:
        """The dimensions of a value; None if nothing is known."""

    @abc.abstractmethod
    def set_dims(self, value: Value, dims: Sequence[Dim]) -> None:
        """Label a value with its dimensions."""

    @abc.abstractmethod
    def shape(self, dims: Sequence[Dim]) -> Value:
        """Dimensions as an int64 vector."""

    @abc.abstractmethod
    def new_constant(self, array: Array, name: str = "const") -> Value:
        """The value that holds `array`; equal small arrays share one."""

    @abc.abstractmethod
    def new_tensor(self, tensor: ir.TensorProtocol, name: str) -> Value:
        """The value that holds a tensor whose numbers are absent."""

    # -- nodes ---------------------------------------------------------------------------------

    def emit(
        self, op_type: str, inputs: Sequence[Value | None], domain: str, outputs: int,
        dtype: Sequence[DtypeLike] | None, dims: Sequence[Dim] | None, attributes: dict[str, Attribute],
    ) -> tuple[Value, ...]:  # fmt: skip
        """Emit one node and return its results.

        Args:
          op_type: the name of the operator.
          inputs: its operands; None for one that is left out.
          domain: the operator's domain, empty for the standard operators.
          outputs: the number of results.
          dtype: the element types of the results; None where they follow from the schema.
          dims: the shape of the first result (of all results of Split); None to infer it from the operands.
          attributes: its attributes; None for one that is left out.

        Raises:
          RuleError: the schema does not allow the node, or leaves a type open.
          ConversionError: the opset or the target does not know an element type.
          Declined: an attribute cannot hold a number of float64.
        """
        node = self.make_node(op_type, inputs, domain, outputs, dtype, attributes)
        self._insert(node)
        if dims is None and not domain:
            dims = self._infer_dims(op_type, inputs, plain_attributes(attributes))
        if dims is not None:
            for output in node.outputs if op_type == "Split" else node.outputs[:1]:
                self.set_dims(output, dims)
        return tuple(node.outputs)

    def make_node(
        self, op_type: str, inputs: Sequence[Value | None], domain: str = "", outputs: int = 1,
        dtype: Sequence[DtypeLike] | None = None, attributes: dict[str, Attribute] | None = None,
    ) -> ir.Node:  # fmt: skip
        """A node with named, typed outputs, not yet in any graph; the arguments and errors are those of `emit`."""
        attributes = attributes or {}
        if not domain:
            check_operands(op_type, self.opset, inputs)
        types = self._types(op_type, inputs, domain, outputs, dtype, attributes)
        check_element_types(self.opset, self.target, [*types, *(v.dtype for v in inputs if v is not None)])
        if attributes and not domain:
            _check_precision(op_type, inputs, attributes)
        name = self._node_name(op_type)
        names = self._value_names(name, outputs)
        values = [Value(name=n, type=ir.TensorType(t)) for n, t in zip(names, types, strict=True)]
        node = ir.Node(domain, op_type, inputs, attributes_of(attributes), outputs=values, name=name)
        if not domain:
            check_node(node, self.opset, self.target.computes)
        return node

    def _types(
        self, op_type: str, inputs: Sequence[Value | None], domain: str, outputs: int,
        dtype: Sequence[DtypeLike] | None, attributes: dict[str, Attribute],
    ) -> list[ir.DataType]:  # fmt: skip
        if dtype is not None:
            return [element_type(d) for d in dtype]
        bodies = [a for a in attributes.values() if isinstance(a, ir.Graph)]
        if bodies:
            skipped = 1 if op_type == "Loop" else 0  # its first output is the condition
            return [v.dtype or ir.DataType.UNDEFINED for v in bodies[0].outputs[skipped:]][:outputs]
        return output_types(op_type, domain, self.opset, inputs, plain_attributes(attributes), outputs)

    def _infer_dims(
        self, op_type: str, inputs: Sequence[Value | None], attributes: dict[str, Attribute]
    ) -> Dims | None:
        """The dimensions of the first result, where they follow from those of the operands."""
        return infer_dims(
            op_type, inputs, attributes, {v: d for v in inputs if v is not None and (d := self.dims(v)) is not None}
        )

    # -- constants and what is known of values ---------------------------------------------------

    def constant(
        self, value: object, dtype: DtypeLike | None = None, *, like: Value | None = None, name: str = "const"
    ) -> Value:
        """A constant; equal small ones are one value.

        Args:
          value: anything that NumPy makes an array of.
          dtype: its element type, by default that of the array.
          like: a value whose element type it has, in the place of `dtype`.
          name: the beginning of its name in the model.
        """
        if like is not None:
            dtype = self.dtype(like)
        array = np.asarray(value)
        return self.new_constant(array if dtype is None else array.astype(dtype), name)

    def ints(self, values: Sequence[int]) -> Value:
        """An int64 vector: axes, shapes, repeats."""
        return self.new_constant(np.array(list(values), np.int64).reshape(-1))

    def known(self, value: Value) -> Array | None:
        """The array that a value is at export time, None if it depends on the inputs or on absent weights."""
        return known(value, limit=None)

    def fold(
        self, function: Callable[..., Array], *operands: Value, dims: Sequence[int], dtype: DtypeLike | None = None,
        name: str = "const",
    ) -> Value | None:  # fmt: skip
        """A constant that is computed of constants at export, or when absent weights are given; None if an operand is no constant.

        Args:
          function: takes the arrays of the operands and returns the array of the result.
          *operands: the operands.
          dims: the dimensions of the result.
          dtype: the element type of the result, by default that of the first operand.
          name: the beginning of its name in the model.
        """
        tensors = [tensor for x in operands if (tensor := constant_tensor(x)) is not None]
        if len(tensors) < len(operands):
            return None
        element = tensors[0].dtype if dtype is None else element_type(np.dtype(dtype))

        def typed(*arrays: Array) -> Array:
            return function(*arrays).astype(element.numpy(), copy=False)

        if any(isinstance(tensor, AbsentTensor) for tensor in tensors):
            return self.new_tensor(computed(typed, tensors, element, dims), name)
        return self.new_constant(typed(*(tensor.numpy() for tensor in tensors)), name)

    def dtype(self, value: Value) -> Dtype:
        """The element type of a value."""
        assert value.dtype is not None, "every value that a builder makes has a type"
        return value.dtype.numpy()

    def known_dims(self, value: Value) -> Dims:
        """The dimensions of a value; RuleError where they are not known."""
        dims = self.dims(value)
        if dims is None:
            raise RuleError(f"The shape of {value.name} is not known here; give dims=… to ctx.op.")
        return dims

    def with_dims(self, value: Value, dims: Sequence[Dim]) -> Value:
        """`value`, labelled with dimensions that could not be inferred."""
        self.set_dims(value, dims)
        return value

    # -- the target ------------------------------------------------------------------------------

    def supports(self, op_type: str, dtype: DtypeLike) -> bool:
        """Whether the target computes the operator at this element type."""
        return self.target.supports(op_type, np.dtype(dtype), self.opset)

    def guarantees(self, op_type: str, dtype: DtypeLike, kept: Property) -> bool:
        """Whether the target keeps a part of an operator's meaning.

        Args:
          op_type: a standard operator.
          dtype: the element type of its main operand.
          kept: the part of the meaning, such as "nan" or "empty".
        """
        return self.target.keeps(op_type, np.dtype(dtype), kept)

    def assumes(self, assumption: Assumption) -> bool:
        """Whether the model is made under a promise of the user."""
        return self.target.assumes(assumption)

    def prefers(self, *forms: Form) -> Form:
        """The one of several forms of equal meaning that runs fastest on the target."""
        return self.target.prefers(*forms)

    def threshold(self, threshold: Threshold) -> int:
        """The size from which a form pays on the target."""
        return self.target.threshold(threshold)

    # -- generic helpers: they emit nothing when there is nothing to do ----------------------------

    def reshape(self, x: Value, dims: Sequence[Dim]) -> Value:
        """`x` with the dimensions `dims`, in row-major order."""
        dims, old = tuple(dims), self.known_dims(x)
        if old == dims:
            return x
        if all(map(is_static, dims)):
            sizes = [int(d) for d in dims if is_static(d)]
            folded = self.fold(lambda array: array.reshape(sizes), x, dims=sizes, name=x.name or "const")
            if folded is not None:
                return folded
        target = self._reshape_target(old, dims)
        if target is None:
            # A size that is computed may be 0, and that is no copy then.
            allowzero = None if all(map(self.is_positive, dims)) else 1
            return self.op("Reshape", x, self.shape(dims), dims=dims, allowzero=allowzero)
        return self.op("Reshape", x, self.ints(target), dims=dims, allowzero=1 if is_empty(dims) else None)

    def _reshape_target(self, old: Dims, dims: Dims) -> list[int] | None:
        """The shape operand as a constant where ONNX's 0 (copy) and -1 (infer) allow it, else None."""
        target = [int(d) if is_static(d) else -1 for d in dims]
        for i, d in enumerate(dims):
            if target.count(-1) <= 1:
                break
            if target[i] == -1 and i < len(old) and old[i] == d and self.is_positive(d):
                target[i] = 0
        inferable = target.count(-1) == 1 and all(map(self.is_positive, dims))
        return target if target.count(-1) == 0 or inferable else None

    def is_positive(self, dim: Dim) -> bool:
        """Whether a dimension is at least 1 for all values of its symbols."""
        return is_static(dim) and dim > 0

    def broadcast(self, x: Value, dims: Sequence[Dim]) -> Value:
        """`x` expanded to `dims` by NumPy's rule (aligned at the right)."""
        if self.dims(x) == tuple(dims):
            return x
        if is_empty(dims):
            return self._without_elements(self.dtype(x), dims)
        return self.op("Expand", x, self.shape(dims), dims=dims)

    def empty_arrays(self, types: Iterable[tuple[Dtype, Dims]]) -> list[Value] | None:
        """Arrays of these types and dimensions if all of them have no elements, else None."""
        types = list(types)
        if not all(is_empty(dims) for _, dims in types):
            return None
        return [self._without_elements(dtype, dims) for dtype, dims in types]

    def _without_elements(self, dtype: Dtype, dims: Sequence[Dim]) -> Value:
        # Of no size that may be computed, since some runtimes reshape no such arrays.
        if all(map(is_static, dims)):
            return self.reshape(self.constant(np.zeros(0), dtype), dims)
        return self.op("Expand", self.constant(0, dtype), self.shape(dims), dims=dims)

    def broadcast_in_dim(self, x: Value, dims: Sequence[Dim], broadcast_dimensions: Sequence[int]) -> Value:
        """XLA's broadcast: axes of `x` are placed among those of the result, and it is repeated along the others.

        Args:
          x: a value whose dimensions are known.
          dims: the dimensions of the result.
          broadcast_dimensions: for each axis of `x`, in ascending order, the axis of the result that it becomes.
        """
        old = self.known_dims(x)
        aligned: list[Dim] = [1] * len(dims)
        for size, axis in zip(old, broadcast_dimensions, strict=True):
            aligned[axis] = size
        first = min(broadcast_dimensions, default=len(dims))
        return self.broadcast(self.reshape(x, aligned[first:]), dims)

    def cast(self, x: Value, dtype: DtypeLike) -> Value:
        """`x` converted by ONNX's Cast (whose rounding and saturation are not JAX's everywhere)."""
        return x if self.dtype(x) == np.dtype(dtype) else self.op("Cast", x, to=np.dtype(dtype))

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Axis i of the result is axis `perm[i]` of `x`."""
        perm = [int(p) for p in perm]
        if perm == sorted(perm):
            return x
        if constant_tensor(x) is None:
            return self.op("Transpose", x, perm=perm)
        sizes = [int(d) for d in self.known_dims(x) if is_static(d)]
        folded = self.fold(lambda a: a.transpose(perm), x, dims=[sizes[p] for p in perm], name=f"{x.name}.transpose")
        assert folded is not None, "the operand is a constant"
        return folded

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """`x` without the given axes of size 1."""
        if not axes:
            return x
        dims = self.known_dims(x)
        gone = {a % len(dims) for a in axes}
        kept = tuple(d for i, d in enumerate(dims) if i not in gone)
        if constant_tensor(x) is not None:
            return self.reshape(x, kept)
        return self.op("Squeeze", x, self.ints(sorted(gone)), dims=kept)

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        """`x` with axes of size 1 so that they are at these places of the result."""
        if not axes:
            return x
        dims = self.known_dims(x)
        rank = len(dims) + len(axes)
        new = sorted(a % rank for a in axes)
        rest = iter(dims)
        wide = tuple(1 if i in new else next(rest) for i in range(rank))
        if constant_tensor(x) is not None:
            return self.reshape(x, wide)
        return self.op("Unsqueeze", x, self.ints(new), dims=wide)

    def slice(
        self, x: Value, starts: Sequence[Dim] | Value, ends: Sequence[Dim] | Value, axes: Sequence[int],
        steps: Sequence[int] | None = None, *, dims: Sequence[Dim] | None = None,
    ) -> Value:  # fmt: skip
        """ONNX's Slice: the elements of `x` from `starts` to before `ends` along some axes.

        Args:
          x: the value.
          starts: one bound for each of `axes`: dimensions, or an int64 vector.
          ends: likewise.
          axes: the axes.
          steps: one step for each of `axes`; None for steps of 1.
          dims: the dimensions of the result, where they are known.
        """
        bounds = [b if isinstance(b, Value) else self.shape(b) for b in (starts, ends)]
        operands = [x, *bounds, self.ints(axes)]
        if steps is not None and any(s != 1 for s in steps):
            operands.append(self.ints(steps))
        return self.op("Slice", *operands, dims=dims)

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        """The values one after another along `axis`."""
        if len(xs) == 1:
            return xs[0]
        dims = self.dims(xs[0])
        return self.op("Concat", *xs, axis=axis if dims is None else axis % len(dims))


def _check_precision(op_type: str, inputs: Sequence[Value | None], attributes: Mapping[str, Attribute]) -> None:
    """Raise Declined where doubles would be computed with a number that an attribute can only hold as float32."""
    dtype = next((value.dtype for value in inputs if value is not None), None)
    for name, value in attributes.items():
        for number in value if isinstance(value, list | tuple) else (value,):
            if isinstance(number, float) and not is_exact_attribute(number, dtype):
                raise Declined(f"the attribute {name} of {op_type} is float32 and cannot hold {number!r} of float64")
