"""`Context`: what a lowering rule sees of the export."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import DtypeLike, Value
from jax2onnx_graph.build.names import Origin
from jax2onnx_graph.facts.definitions import definition_of

from jax2onnx_core.jax_types import Aval, Function, Jaxpr, Var
from jax2onnx_core.jaxprs import Dim, is_literal
from jax2onnx_core.lowering._operation import Operation
from jax2onnx_core.lowering._scope import Scope, ScopeBuilder
from jax2onnx_core.lowering.physical import physical_array, physical_type
from jax2onnx_core.plugins.errors import RuleError

__all__ = ["Context", "Lowerer", "Subgraph"]


class Lowerer(Protocol):
    """What a context asks the engine for: to lower something else."""

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


class Context(ScopeBuilder):
    """The one argument that every rule gets.

    Attributes:
      op: emits nodes: `ctx.op.Add(x, y)`.
      primitive, params: the name and the parameters of the operation.
      avals_in, avals_out: JAX's abstract values of its operands and results.
      opset: the version of the standard operators to export for.
      target: the runtime to export for; rules ask `supports`, `guarantees`, `prefers` and `require`.
      lowered_by: the function that lowers the operation now, for error messages.
    """

    def __init__(self, lowerer: Lowerer, scope: Scope, operation: Operation, origin: Origin) -> None:
        super().__init__(scope, origin)
        self._lowerer = lowerer
        self._operation = operation
        self.primitive, self.params = operation.name, operation.params
        self.avals_in, self.avals_out = operation.avals_in, operation.avals_out
        self.lowered_by: Function | None = None

    # -- nodes ---------------------------------------------------------------------------------

    def make_node(self, op_type: str, *args: Any, **options: Any) -> ir.Node:
        """A node for this graph; declines where the target has no kernel for it and ONNX does not define it by others."""
        node = super().make_node(op_type, *args, **options)
        missing = self.target.missing_type(node, self.opset)
        if missing is not None and definition_of(node, self.opset) is None:
            self.decline(f"{self.target.name} has no {op_type} for {missing}")
        return node

    # -- constants and dimensions ------------------------------------------------------------------

    def weight(self, array: Any) -> Value:
        """The value of a JAX array, stored once however often it is asked for."""
        return self._state.weight(array)

    # -- nested computations -----------------------------------------------------------------------

    def inline(self, jaxpr: Jaxpr, *operands: Value) -> tuple[Value, ...]:
        """Lower a jaxpr (closed, or open without constants) here; the values of its results."""
        return tuple(self._lowerer.lower_jaxpr(self.scope, jaxpr, operands, self.origin))

    def jax(self, fn: Function, *operands: Value, **static: Any) -> Value:
        """Trace the JAX function `fn(*operands, **static)`, of one result, on the operands' types and lower it here."""
        (result,) = self.jax_several(fn, *operands, **static)
        return result

    def jax_several(self, fn: Function, *operands: Value, **static: Any) -> tuple[Value, ...]:
        """The same for a function of several results, in the order of its pytree's leaves."""
        avals = [jax.ShapeDtypeStruct(self.known_dims(x), self.dtype(x)) for x in operands]
        return self.inline(jax.make_jaxpr(lambda *xs: fn(*xs, **static))(*avals), *operands)

    @property
    def body(self) -> tuple[Jaxpr, Sequence[Value]]:
        """The jaxpr of the original call behind a composite, and its operands (which include what it closed over)."""
        if self._operation.body is None:
            raise RuleError(f"{self.primitive!r} is a primitive of JAX, which has no jaxpr of its own.")
        return self._operation.body

    def operation(self, name: str, jaxpr: Jaxpr, *operands: Value, **params: Any) -> tuple[Value, ...]:
        """Lower this operation as the one called `name` where some plugin has rules for that, else inline `jaxpr`."""
        named = dataclasses.replace(self._operation, name=name, params=params, body=(jaxpr, operands))
        return tuple(self._lowerer.lower_named(self, named, operands))

    def subgraph(self, name: str) -> Subgraph:
        """A context that builds the body of an If, Loop or Scan; values from outside may be used in it."""
        return Subgraph(self._lowerer, Scope(self._state, name, self.scope), self._operation, self.origin)

    def function(self, jaxpr: Jaxpr, *operands: Value, name: str, domain: str = "jax2onnx") -> tuple[Value, ...]:
        """Call the ONNX function whose body is `jaxpr`; equal bodies are stored once. Or inline it, as was asked for."""
        if self._state.inline_functions:
            return self.inline(jaxpr, *operands)
        return tuple(self._lowerer.call_function(self, jaxpr, operands, name, domain))

    # -- parity with the reference documents; rules of this project return their results ---------

    def get_value_for_var(self, var: Var) -> Value:
        """The constant behind a literal of a nested jaxpr."""
        if not is_literal(var):
            raise RuleError("Only literals have a value outside their jaxpr; operands are passed to the rule.")
        return self.new_constant(physical_array(np.asarray(var.val, var.aval.dtype)))

    def fresh_name(self, base: str) -> str:
        """A name that no other value or node of the model has."""
        return self._state.names.unique(base)


class Subgraph(Context):
    """A `Context` for a body under construction."""

    def input(self, name: str, dtype: DtypeLike, dims: Sequence[Dim]) -> Value:
        """Add an input of the body."""
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
