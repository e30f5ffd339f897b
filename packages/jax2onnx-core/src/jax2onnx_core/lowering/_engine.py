"""`Engine`: one pass over the equations of a jaxpr; it binds what rules return and knows no operation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.names import Origin
from jax2onnx_graph.errors import located
from jax2onnx_graph.progress import steps
from jax2onnx_graph.targets import Target

from jax2onnx_core import _compat, _compat_dims, _compat_options
from jax2onnx_core._fingerprint import jaxpr_fingerprint
from jax2onnx_core.frontend._composite import is_composite
from jax2onnx_core.frontend._snapshots import ArraySnapshots
from jax2onnx_core.frontend.sizes import size_p
from jax2onnx_core.jax_types import Atom, Equation, Jaxpr
from jax2onnx_core.jaxprs import bounds, is_drop_var, is_literal, open_jaxpr
from jax2onnx_core.lowering._constant_eval import evaluate_equation
from jax2onnx_core.lowering._dispatch import Dispatcher
from jax2onnx_core.lowering._functions import FunctionTable
from jax2onnx_core.lowering._log import LoweringLog
from jax2onnx_core.lowering._model_state import DimNotation, ModelState
from jax2onnx_core.lowering._operation import Operation
from jax2onnx_core.lowering._results import accept_results
from jax2onnx_core.lowering._scope import Scope
from jax2onnx_core.lowering.context import Context
from jax2onnx_core.lowering.definitions import Definition
from jax2onnx_core.lowering.physical import is_token, physical_array, physical_type, weight_tensor
from jax2onnx_core.plugins.errors import RuleError
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_core.plugins.rules import qualified_name
from jax2onnx_core.symbols._inconclusive_dims import undecided
from jax2onnx_core.symbols.symbols import Dim, Symbols

__all__ = ["Engine"]


class Engine:
    """Lowers the equations of one export.

    Attributes:
      state: the names, constants and dimensions of the model.
      log: what was lowered how.
    """

    def __init__(
        self, registry: Registry, target: Target, opset: int, symbols: Symbols, weight_names: Mapping[Hashable, str], snapshots: ArraySnapshots,
        *, place: str, provenance: bool = False, inline_functions: bool = False, x64: bool = True,
    ) -> None:  # fmt: skip
        notation = DimNotation(
            symbols.label,
            _compat_dims.dim_expression,
            bounds,
            lambda dims: [size.traced for size in symbols.sizes_in(dims)],
        )
        self.state = ModelState(
            opset, target, notation, weight_names, functools.partial(weight_tensor, snapshots=snapshots),
            inline_functions=inline_functions,
        )  # fmt: skip
        self._symbols = symbols
        self.log = LoweringLog()
        self._registry = registry
        self._place = place
        self._provenance = provenance
        self._functions = FunctionTable(self.state)
        self._dispatcher = Dispatcher(registry, self._functions, self.log, self._accept, x64=x64)

    @property
    def functions(self) -> list[ir.Function]:
        """The ONNX functions that were made."""
        return self._functions.functions

    def lower_jaxpr(self, scope: Scope, jaxpr: Jaxpr, operands: Sequence[Value], origin: Origin) -> list[Value]:
        """Lower a jaxpr (closed, or open without constants) into `scope`; the values of its outputs."""
        inner, consts = open_jaxpr(_compat.without_references(jaxpr))
        env: dict[Any, Value] = {}
        readers = functools.cache(lambda: _first_readers(inner))
        for var, const in zip(inner.constvars, consts, strict=True):
            env[var] = self.state.weight(const, functools.partial(_constant_name, readers, var))
        if len(inner.invars) != len(operands):
            raise RuleError(f"A jaxpr with {len(inner.invars)} inputs was given {len(operands)} operands.")
        env.update(zip(inner.invars, operands, strict=True))
        for value in operands:
            self.state.define(value, None)

        def read(atom: Atom) -> Value:
            return self._literal(atom) if is_literal(atom) else env[atom]

        for index, eqn in enumerate(steps("lower", inner.eqns)):
            results = self._lower_equation(scope, index, eqn, [read(v) for v in eqn.invars], origin)
            for var, value in zip(eqn.outvars, results, strict=True):
                if not is_drop_var(var):
                    env[var] = value
        return [read(v) for v in inner.outvars]

    def _literal(self, literal: Any) -> Value:
        return self.state.constant(physical_array(np.asarray(literal.val, literal.aval.dtype)))

    def _lower_equation(
        self, scope: Scope, index: int, eqn: Equation, operands: list[Value], outer: Origin
    ) -> list[Value]:
        operation, arguments = _operation(eqn, operands)
        if any(map(is_token, (*operation.avals_in, *operation.avals_out))):
            return self._missing(operation, eqn)
        line = _compat.user_frame(eqn.source_info) if self._provenance else None
        origin = outer.within(_compat.name_stack(eqn.source_info), operation.name, line)
        if operation.name not in self._registry.unsupported:  # a callback is not run
            results = evaluate_equation(self.state, self._registry.numpy_evaluators, operation, eqn, operands)
            if results is not None:
                return results
        ctx = Context(self, scope, operation, origin)
        if eqn.primitive is size_p:
            self._define_size(ctx, operands[0], **eqn.params)
            return []
        try:
            with _compat_options.options_of(eqn):
                lowered = self._dispatcher.lower(ctx, operation, arguments)
            if lowered is None:
                return self._missing(operation, eqn)
            results = self._accept(operation, operands, lowered)
            self._define(operation, eqn, operands, results)
            self._define_sizes(ctx, results)
        except _compat_dims.inconclusive_dimension_error as error:
            raise undecided(error, self._symbols, self.place_of(eqn)) from error
        except RecursionError:
            raise
        except Exception as error:
            raise located(error, *self.lowered_by(ctx), self.place_of(eqn)) from error
        self.lowered(ctx, index, eqn, operands, results)
        return results

    def _define(self, operation: Operation, eqn: Equation, operands: list[Value], results: list[Value]) -> None:
        avals = operation.avals_in, operation.avals_out
        for index, value in enumerate(results):
            self.state.define(value, Definition(operation.name, operation.params, operands, *avals, index, eqn))

    def _define_size(self, ctx: Context, x: Value, *, size: Dim, axis: int | None, **_: object) -> None:
        """Let a size from data have the value of an axis of `x`, or of `x` itself, from here on."""
        (found,) = self._symbols.sizes_in([size])
        value = ctx.reshape(ctx.cast(x, np.int64), (1,)) if axis is None else ctx.op.Shape(x, start=axis, end=axis + 1)
        more = _compat_dims.symbol(found.traced, size) - size
        assert isinstance(more, int), "the symbol is the size, or 1 more"
        ctx.scope.define_size(found.traced, size, more, value)

    def _define_sizes(self, ctx: Context, results: Sequence[Value]) -> None:
        """Let those sizes from data that the results of an equation are the first to have, have the values of their axes."""
        for value, aval in zip(results, ctx.avals_out, strict=True) if self._symbols.from_data else ():
            for axis, dim in enumerate(aval.shape):
                for size in self._symbols.sizes_in([dim]):
                    if size.dim == dim and not ctx.scope.knows_size(size.traced):
                        self._define_size(ctx, value, size=dim, axis=axis)

    def place_of(self, eqn: Equation) -> str:
        """The user's line of an equation; the exported callable where it has none."""
        return _compat.user_frame(eqn.source_info) or self._place

    def _accept(self, operation: Operation, operands: Sequence[Value], results: Sequence[object]) -> list[Value]:
        """The results of an operation, checked and labelled; RuleError where they are not those of its avals."""
        return accept_results(self.state, operation.types_out, operands, results, self._symbols.may_agree)

    def lowered(self, ctx: Context, index: int, eqn: Equation, operands: list[Value], results: list[Value]) -> None:
        """Called for each equation, by its place in its jaxpr, that was lowered."""

    def declined(self, ctx: Context, reason: str) -> None:
        """Keep for the report why a form of an operation was not made."""
        self.log.declined(ctx.primitive, reason)

    def _missing(self, operation: Operation, eqn: Equation) -> list[Value]:
        """Stand-ins for the results of a primitive that nobody lowers, so that all such primitives are found."""
        declared = self._registry.unsupported.get(operation.name)
        self.log.missing(operation.name, self.place_of(eqn), declared)
        return [self.state.new_value("unsupported", *physical_type(aval)) for aval in operation.avals_out]

    def lowered_by(self, ctx: Context) -> tuple[str, str | None, str]:
        """The operation of a context, the function that lowers it, and the distribution that this is of."""
        rule = None if ctx.lowered_by is None else qualified_name(ctx.lowered_by)
        return ctx.primitive, rule, self._registry.owner(ctx.primitive, ctx.lowered_by)

    # -- what contexts ask for -------------------------------------------------------------------------

    def lower_named(self, ctx: Context, operation: Operation, operands: Sequence[Value]) -> list[Value]:
        """Lower an operation that has a body: by the rules declared for its name, else by the body."""
        named = Context(self, ctx.scope, operation, ctx.origin)
        results = self._dispatcher.lower(named, operation, operands)
        assert results is not None, "an operation with a body can always be lowered"
        return results

    def call_function(
        self, ctx: Context, jaxpr: Jaxpr, operands: Sequence[Value], name: str, domain: str
    ) -> list[Value]:
        """Call the ONNX function whose body is the jaxpr."""
        inner, _ = open_jaxpr(jaxpr)
        inputs, results = ([physical_type(var.aval) for var in part] for part in (inner.invars, inner.outvars))
        return self._functions.call(
            ctx, operands, (inputs, results), lambda scope, values, origin: self.lower_jaxpr(scope, jaxpr, values, origin),
            name=name, domain=domain, fingerprint=jaxpr_fingerprint(jaxpr),
        )  # fmt: skip


def _first_readers(jaxpr: Jaxpr) -> Mapping[Atom, Equation]:
    """Variable → the first equation that reads it."""
    return {atom: eqn for eqn in reversed(jaxpr.eqns) for atom in eqn.invars if not is_literal(atom)}


def _constant_name(readers: Callable[[], Mapping[Atom, Equation]], var: Atom) -> str:
    """`const`, and the function that reads the constant: that of a library where it has a table."""
    eqn = readers().get(var)
    function = None if eqn is None else _compat.calling_function(eqn.source_info)
    parts = (function or "").split(".")
    return ".".join(["const", *(part for part in parts if part.isidentifier() and not part.startswith("__"))])


def _operation(eqn: Equation, operands: Sequence[Value]) -> tuple[Operation, Sequence[Any]]:
    """The operation that an equation stands for, and the arguments for its rules (a composite's are pytrees)."""
    avals_in, avals_out = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    params = eqn.params
    if not is_composite(eqn.primitive):
        return Operation(eqn.primitive.name, params, avals_in, avals_out, eqn.primitive), operands
    count = params["count"]
    arguments = jax.tree_util.tree_unflatten(params["tree"], operands[:count])
    body = params["jaxpr"], operands[count:]
    static = params["static"].values
    return Operation(params["name"], static, avals_in[:count], avals_out, eqn.primitive, body), arguments
