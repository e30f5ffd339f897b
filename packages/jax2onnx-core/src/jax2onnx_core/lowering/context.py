"""`Context`: the first argument of every lowering rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import jax
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import DtypeLike
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.names import Origin
from jax2onnx_graph.facts.definitions import definition_of
from jax2onnx_graph.optional_forms import attempt

from jax2onnx_core.jax_types import Aval, Function, Jaxpr
from jax2onnx_core.jaxprs import Dim
from jax2onnx_core.lowering._operation import Operation
from jax2onnx_core.lowering._scope import Scope, ScopeBuilder
from jax2onnx_core.lowering.definitions import Definition
from jax2onnx_core.lowering.physical import physical_type
from jax2onnx_core.plugins.errors import Declined, PassedOn, RuleError

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


class Context(ScopeBuilder):
    """The first argument of every rule: the builder of its nodes, which knows the operation that is lowered.

    Attributes:
      op: emits nodes: `ctx.op.Add(x, y)`, `ctx.op("Add", x, y)`, `ctx.op.several("Split", x, outputs=2, axis=0)`.
      primitive, params: the name and the parameters of the operation.
      avals_in, avals_out: JAX's abstract values of its operands and results.
      opset: the version of the standard operators to export for.
      target: what the model is made for; rules ask `supports`, `guarantees`, `assumes`, `prefers` and `require`.
      scope: the graph under construction.
      origin: where the nodes come from: the user's line and the name stack, after which they are named.
      lowered_by: the function that lowers the operation now, for error messages.
    """

    def __init__(self, engine: LoweringEngine, scope: Scope, operation: Operation, origin: Origin) -> None:
        super().__init__(scope, origin)
        self._engine = engine
        self._operation = operation
        self.primitive, self.params = operation.name, operation.params
        self.avals_in, self.avals_out = operation.avals_in, operation.avals_out
        self.lowered_by: Function | None = None

    def make_node(self, op_type: str, *args: Any, **options: Any) -> ir.Node:
        """A node for this graph; declines where the target has no kernel for it and ONNX does not define it by others."""
        node = super().make_node(op_type, *args, **options)
        missing = self.target.missing_type(node, self.opset)
        if missing is not None and definition_of(node, self.opset) is None:
            raise Declined(f"{self.target.name} has no {op_type} for {missing}")
        return node

    def fresh_name(self, base: str) -> str:
        """A name that no other value or node of the model has."""
        return self._state.names.unique(base)

    # -- what values are ------------------------------------------------------------------------------

    def definition(self, value: Value) -> Definition | None:
        """The equation whose result a value is; None for constants, inputs, and what rules make inside of an equation."""
        return self._state.definition(value)

    def define(self, value: Value, primitive: str, *operands: Value, **params: Any) -> Value:
        """Say which primitive gives a value that a rule makes inside of an equation; the value.

        Args:
          value: the value; what was said of it before is kept.
          primitive: the name of the primitive.
          operands: the values that it is applied to.
          params: the parameters.
        """
        for operand in operands:
            self._state.define(operand, None)
        avals = [jax.ShapeDtypeStruct(self.known_dims(x), self.dtype(x)) for x in (*operands, value)]
        self._state.define(value, Definition(primitive, params, operands, avals[:-1], avals[-1:]))
        return value

    # -- weights ---------------------------------------------------------------------------------------

    def weight(self, array: object) -> Value:
        """The value of a JAX array, stored once however often it is asked for."""
        return self._state.weight(array)

    def transposed_weight(self, value: Value) -> Value | None:
        """The weight whose transpose the constant `value` is, where both are views of the same memory."""
        return self._state.transposed(value)

    # -- where a rule does not apply -------------------------------------------------------------------

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

    def pass_on(self, reason: str) -> NoReturn:
        """As `decline`, where the rule is for other operands and nobody could act on the reason: the report does not show it."""
        raise PassedOn(reason)

    def attempt(self, form: Callable[[], _Made], name: str) -> _Made | None:
        """The result of a part of a rule that another can replace; None, with the reason in the report, where it fails.

        Args:
          form: makes the part; it emits no nodes.
          name: what it is called in the report.
        """
        return attempt(form, lambda error: self._engine.declined(self, f"{name} failed: {error}"))

    def once(self, find: Callable[[], _Made], name: str, *given: object) -> _Made:
        """The result of an analysis, or why it declines, which is made once in a model for equal operations.

        Args:
          find: makes it of what is `given` and of the target alone; it emits no nodes.
          name: tells it from other analyses.
          given: the jaxprs, avals and parameters that it depends on; jaxprs that compute the same at the same lines are equal.
        """
        return self._state.findings.once(find, name, given)

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
        return ir.Graph(self.scope.inputs, finished, nodes=self.scope.all_nodes(), name=name)
