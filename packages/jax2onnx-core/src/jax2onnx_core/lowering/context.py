"""`Context`: the first argument of every lowering rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import jax
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype, DtypeLike
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.build.attributes import Attribute
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.names import Origin
from jax2onnx_graph.facts.definitions import definition_of
from jax2onnx_graph.facts.dims import Dims
from jax2onnx_graph.forms import Form, Threshold
from jax2onnx_graph.optional_forms import attempt
from jax2onnx_graph.targets import Property

from jax2onnx_core.jax_types import Aval, Function, Jaxpr, Var
from jax2onnx_core.jaxprs import Dim, is_literal
from jax2onnx_core.lowering._operation import Operation
from jax2onnx_core.lowering._scope import Scope, ScopeBuilder
from jax2onnx_core.lowering.physical import physical_array, physical_type
from jax2onnx_core.plugins.errors import Declined, RuleError

__all__ = ["Context", "LoweringEngine", "Subgraph"]

_Made = TypeVar("_Made")


class LoweringEngine(Protocol):
    """The part of the engine that contexts use: it lowers nested jaxprs and operations."""

    def lower_jaxpr(self, scope: Scope, jaxpr: Jaxpr, operands: Sequence[Value], origin: Origin) -> list[Value]:
        """Lower a jaxpr into a scope; the values of its results."""
        ...

    def lower_named(self, ctx: Context, operation: Operation, operands: Sequence[Value]) -> list[Value]:
        """Lower an operation that has a body: by the rules declared for its name, else by the body."""
        ...

    def call_function(
        self, ctx: Context, jaxpr: Jaxpr, operands: Sequence[Value], name: str, domain: str
    ) -> list[Value]:
        """Call the ONNX function whose body is the jaxpr."""
        ...

    def declined(self, ctx: Context, reason: str) -> None:
        """Keep for the report why a form of an operation was not made."""
        ...


class _RuleBuilder(ScopeBuilder):
    """A builder that declines nodes which the target cannot compute."""

    def make_node(self, op_type: str, *args: Any, **options: Any) -> ir.Node:
        """A node for this graph; declines where the target has no kernel for it and ONNX does not define it by others."""
        node = super().make_node(op_type, *args, **options)
        missing = self.target.missing_type(node, self.opset)
        if missing is not None and definition_of(node, self.opset) is None:
            raise Declined(f"{self.target.name} has no {op_type} for {missing}")
        return node


class Context:
    """The first argument of every rule: the operation that is lowered, and what writes its nodes.

    Attributes:
      op: emits nodes: `ctx.op.Add(x, y)`, `ctx.op("Add", x, y)`, `ctx.op.several("Split", x, outputs=2, axis=0)`.
      primitive, params: the name and the parameters of the operation.
      avals_in, avals_out: JAX's abstract values of its operands and results.
      opset: the version of the standard operators to export for.
      target: what the model is made for; rules ask `supports`, `guarantees`, `assumes`, `prefers` and `require`.
      builder: the `GraphBuilder` that writes the nodes, for helpers that take one.
      scope: the graph under construction.
      origin: where the nodes come from: the user's line and the name stack, after which they are named.
      lowered_by: the function that lowers the operation now, for error messages.
    """

    def __init__(self, engine: LoweringEngine, scope: Scope, operation: Operation, origin: Origin) -> None:
        self._engine = engine
        self._operation = operation
        self._state = scope.state
        self.builder: ScopeBuilder = _RuleBuilder(scope, origin)
        self.op = self.builder.op
        self.opset, self.target = scope.state.opset, scope.state.target
        self.scope, self.origin = scope, origin
        self.primitive, self.params = operation.name, operation.params
        self.avals_in, self.avals_out = operation.avals_in, operation.avals_out
        self.lowered_by: Function | None = None

    # -- nodes and constants -----------------------------------------------------------------------

    def emit(
        self, op_type: str, inputs: Sequence[Value | None], domain: str, outputs: int,
        dtype: Sequence[DtypeLike] | None, dims: Sequence[Dim] | None, attributes: dict[str, Attribute],
    ) -> tuple[Value, ...]:  # fmt: skip
        """Emit one node, as `ctx.op` does, of which everything is given as a value.

        Args:
          op_type: the name of the operator.
          inputs: its operands; None for one that is left out.
          domain: the operator's domain, empty for the standard operators.
          outputs: how many results it has.
          dtype: the element types of the results, where the schema leaves them open.
          dims: the shape of the first result, where it does not follow from the operands.
          attributes: its attributes; None for one that is left out.
        """
        return self.builder.emit(op_type, inputs, domain, outputs, dtype, dims, attributes)

    def constant(
        self, value: object, dtype: DtypeLike | None = None, *, like: Value | None = None, name: str = "const"
    ) -> Value:
        """A constant, stored once however often it is asked for.

        Args:
          value: the number or the array.
          dtype: its element type; by default that of the array.
          like: a value whose element type it has.
          name: what the value is called.
        """
        return self.builder.constant(value, dtype, like=like, name=name)

    def ints(self, values: Sequence[int]) -> Value:
        """An int64 vector: axes, shapes, repeats."""
        return self.builder.ints(values)

    def weight(self, array: object) -> Value:
        """The value of a JAX array, stored once however often it is asked for."""
        return self._state.weight(array)

    def fold(
        self, function: Callable[..., Array], *operands: Value, dims: Sequence[int], dtype: DtypeLike | None = None,
        name: str = "const",
    ) -> Value | None:  # fmt: skip
        """The constant that `function` makes of the arrays of constant operands; None if one is no constant.

        Args:
          function: NumPy arrays → the array; called when the weights are there.
          operands: the values.
          dims: the dimensions of the result.
          dtype: its element type; by default that of the first operand.
          name: what the value is called.
        """
        return self.builder.fold(function, *operands, dims=dims, dtype=dtype, name=name)

    # -- facts about values ------------------------------------------------------------------------

    def known(self, value: Value) -> Array | None:
        """The array that a value is at export time, None if it depends on the inputs or on absent weights."""
        return self.builder.known(value)

    def transposed_weight(self, value: Value) -> Value | None:
        """The weight whose transpose the constant `value` is, where both are views of the same memory."""
        return self._state.transposed(value)

    def dtype(self, value: Value) -> Dtype:
        """The element type of a value."""
        return self.builder.dtype(value)

    def dims(self, value: Value) -> Dims | None:
        """The dimensions of a value, ints or symbolic ones; None if nothing is known."""
        return self.builder.dims(value)

    def known_dims(self, value: Value) -> Dims:
        """The dimensions of a value; RuleError where they are not known."""
        return self.builder.known_dims(value)

    def set_dims(self, value: Value, dims: Sequence[Dim]) -> None:
        """Label a value with its dimensions."""
        self.builder.set_dims(value, dims)

    def with_dims(self, value: Value, dims: Sequence[Dim]) -> Value:
        """`value`, labelled with dimensions that could not be inferred."""
        return self.builder.with_dims(value, dims)

    def is_positive(self, dim: Dim) -> bool:
        """Whether a dimension is at least 1 for all values of its symbols."""
        return self.builder.is_positive(dim)

    # -- dimensions as values ------------------------------------------------------------------------

    def dim(self, dim: Dim) -> Value:
        """A dimension as an int64 scalar."""
        return self.builder.dim(dim)

    def shape(self, dims: Sequence[Dim]) -> Value:
        """Dimensions as an int64 vector."""
        return self.builder.shape(dims)

    # -- generic helpers: they emit nothing when there is nothing to do ------------------------------

    def reshape(self, x: Value, dims: Sequence[Dim]) -> Value:
        """`x` with the dimensions `dims`, in row-major order."""
        return self.builder.reshape(x, dims)

    def broadcast(self, x: Value, dims: Sequence[Dim]) -> Value:
        """`x` expanded to `dims` by NumPy's rule (aligned at the right)."""
        return self.builder.broadcast(x, dims)

    def broadcast_in_dim(self, x: Value, dims: Sequence[Dim], broadcast_dimensions: Sequence[int]) -> Value:
        """XLA's broadcast.

        Args:
          x: the value.
          dims: the shape of the result.
          broadcast_dimensions: the axis of the result for each axis of `x`.
        """
        return self.builder.broadcast_in_dim(x, dims, broadcast_dimensions)

    def cast(self, x: Value, dtype: DtypeLike) -> Value:
        """`x` converted by ONNX's Cast (whose rounding and saturation are not JAX's everywhere)."""
        return self.builder.cast(x, dtype)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Axis i of the result is axis `perm[i]` of `x`."""
        return self.builder.transpose(x, perm)

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """`x` without the given axes of size 1."""
        return self.builder.squeeze(x, axes)

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        """`x` with axes of size 1 so that they are at these places of the result."""
        return self.builder.unsqueeze(x, axes)

    def slice(
        self, x: Value, starts: Sequence[Dim] | Value, ends: Sequence[Dim] | Value, axes: Sequence[int],
        steps: Sequence[int] | None = None, *, dims: Sequence[Dim] | None = None,
    ) -> Value:  # fmt: skip
        """ONNX's Slice.

        Args:
          x: the value.
          starts: the first index on each of `axes`: dimensions, or an int64 vector.
          ends: the index after the last one, likewise.
          axes: the axes.
          steps: the distance of indices on each of them; 1 if not given.
          dims: the result's shape, if it is to be known.
        """
        return self.builder.slice(x, starts, ends, axes, steps, dims=dims)

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        """The values one after another along `axis`."""
        return self.builder.concat(xs, axis)

    # -- the target ------------------------------------------------------------------------------------

    def supports(self, op_type: str, dtype: DtypeLike) -> bool:
        """Whether the target computes the operator at this element type."""
        return self.builder.supports(op_type, dtype)

    def guarantees(self, op_type: str, dtype: DtypeLike, kept: Property) -> bool:
        """Whether the target keeps a part of the operator's meaning.

        Args:
          op_type: the name of the operator.
          dtype: the element type.
          kept: the part, such as "nan" or "empty".
        """
        return self.builder.guarantees(op_type, dtype, kept)

    def assumes(self, assumption: Assumption) -> bool:
        """Whether the model is made under a promise of the user, such as `Assumption.FINITE`."""
        return self.builder.assumes(assumption)

    def prefers(self, *forms: Form) -> Form:
        """The one of several forms of equal meaning that runs fastest on the target."""
        return self.builder.prefers(*forms)

    def threshold(self, threshold: Threshold) -> int:
        """The size from which a form pays on the target."""
        return self.builder.threshold(threshold)

    def require(self, op_type: str, value: Value | DtypeLike, *, since: int = 0) -> None:
        """Decline where the target does not compute the operator.

        Args:
          op_type: the name of the operator.
          value: the element type, or a value that has it.
          since: the opset from which the operator, or the form of it that the rule writes, exists.
        """
        if self.opset < since:
            self.decline(f"{op_type} exists from opset {since}, this is {self.opset}")
        dtype = self.dtype(value) if isinstance(value, Value) else np.dtype(value)
        if not self.supports(op_type, dtype):
            self.decline(f"{self.target.name} has no exact {op_type} for {dtype}")

    def decline(self, reason: str) -> NoReturn:
        """Leave this operation to the next rule, or to its decomposition; the report keeps the reason."""
        raise Declined(reason)

    def attempt(self, form: Callable[[], _Made], name: str) -> _Made | None:
        """The result of a part of a rule that another can replace; None, with the reason in the report, where it fails.

        Args:
          form: makes the part; it emits no nodes.
          name: what it is called in the report.
        """
        return attempt(form, lambda error: self._engine.declined(self, f"{name} failed: {error}"))

    # -- nested computations -----------------------------------------------------------------------

    def inline(self, jaxpr: Jaxpr, *operands: Value) -> tuple[Value, ...]:
        """Lower a jaxpr (closed, or open without constants) here; the values of its results."""
        return tuple(self._engine.lower_jaxpr(self.scope, jaxpr, operands, self.origin))

    def jax(self, fn: Function, *operands: Value, **static: Any) -> Value:
        """Trace a JAX function of one result on the operands' types, and lower it here.

        Args:
          fn: the function, called as `fn(*operands, **static)`.
          operands: the values of its arguments.
          static: its keyword arguments.
        """
        (result,) = self.jax_several(fn, *operands, **static)
        return result

    def jax_several(self, fn: Function, *operands: Value, **static: Any) -> tuple[Value, ...]:
        """The same as `jax` for a function of several results, in the order of its pytree's leaves."""
        avals = [jax.ShapeDtypeStruct(self.known_dims(x), self.dtype(x)) for x in operands]
        return self.inline(jax.make_jaxpr(lambda *xs: fn(*xs, **static))(*avals), *operands)

    @property
    def body(self) -> tuple[Jaxpr, Sequence[Value]]:
        """The jaxpr of the original call behind a composite, and its operands (which include what it closed over)."""
        if self._operation.body is None:
            raise RuleError(f"{self.primitive!r} is a primitive of JAX, which has no jaxpr of its own.")
        return self._operation.body

    def operation(self, name: str, jaxpr: Jaxpr, *operands: Value, **params: Any) -> tuple[Value, ...]:
        """Lower this operation as another one where some plugin has rules for that, else inline a jaxpr.

        Args:
          name: the name of the other operation.
          jaxpr: what it computes.
          operands: its operands.
          params: its parameters.
        """
        named = dataclasses.replace(self._operation, name=name, params=params, body=(jaxpr, operands))
        return tuple(self._engine.lower_named(self, named, operands))

    def subgraph(self, name: str) -> Subgraph:
        """A context that builds the body of an If, Loop or Scan; values from outside may be used in it."""
        return Subgraph(self._engine, Scope(self._state, name, self.scope), self._operation, self.origin)

    def function(self, jaxpr: Jaxpr, *operands: Value, name: str, domain: str = "jax2onnx") -> tuple[Value, ...]:
        """Call the ONNX function whose body is `jaxpr`; equal bodies are stored once. Or inline it, as was asked for.

        Args:
          jaxpr: the body, without constants.
          operands: the arguments of the call.
          name: the name of the function; a number is added for another body of the same name.
          domain: the domain of the name.
        """
        if self._state.inline_functions:
            return self.inline(jaxpr, *operands)
        return tuple(self._engine.call_function(self, jaxpr, operands, name, domain))

    # -- parity with the reference documents; rules of this project return their results ---------

    def get_value_for_var(self, var: Var) -> Value:
        """The constant behind a literal of a nested jaxpr."""
        if not is_literal(var):
            raise RuleError("Only literals have a value outside their jaxpr; operands are passed to the rule.")
        return self.builder.new_constant(physical_array(np.asarray(var.val, var.aval.dtype)))

    def fresh_name(self, base: str) -> str:
        """A name that no other value or node of the model has."""
        return self._state.names.unique(base)


class Subgraph(Context):
    """A `Context` for a body under construction."""

    def input(self, name: str, dtype: DtypeLike, dims: Sequence[Dim]) -> Value:
        """Add an input of the body.

        Args:
          name: its name, to which that of the body is added.
          dtype: its element type.
          dims: its dimensions.
        """
        value = self._state.new_value(f"{self.scope.name}.{name}", np.dtype(dtype), dims)
        self.scope.inputs.append(value)
        return value

    def input_for(self, aval: Aval, name: str = "in") -> Value:
        """An input that holds a value of a JAX aval."""
        return self.input(name, *physical_type(aval))

    def graph(self, outputs: Sequence[Value]) -> ir.Graph:
        """The finished body. An output that the body does not compute itself goes through Identity."""
        finished = self.scope.own_outputs(outputs, self.origin)
        name = self._state.names.unique(self.scope.name)
        return ir.Graph(self.scope.inputs, finished, nodes=self.scope.nodes, name=name)
