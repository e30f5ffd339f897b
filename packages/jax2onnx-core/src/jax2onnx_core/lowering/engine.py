"""`Engine`: one pass over the equations; looks rules up, binds what they return, knows no operation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.targets import Target

from jax2onnx_core import _compat
from jax2onnx_core.frontend.composite import is_composite
from jax2onnx_core.lowering.constant_eval import fold_equation
from jax2onnx_core.lowering.constants import Constants
from jax2onnx_core.lowering.context import Context
from jax2onnx_core.lowering.emitter import make_node
from jax2onnx_core.lowering.functions import FunctionTable
from jax2onnx_core.lowering.log import Record
from jax2onnx_core.lowering.physical import component_count, is_packed, onnx_dtype, physical
from jax2onnx_core.lowering.scope import DimLowerer, Scope
from jax2onnx_core.plugins.complex_pair import Complex
from jax2onnx_core.plugins.errors import Declined, Jax2OnnxError, RuleError
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_core.symbols.inconclusive_dims import undecided
from jax2onnx_core.symbols.symbols import SpecializedDim, Symbols

__all__ = ["PROVENANCE_KEY", "Engine", "Operation"]

# The metadata of a value whose dimensions were specialised: the expressions that they were.
PROVENANCE_KEY = "jax2onnx.dims"


@dataclasses.dataclass(frozen=True)
class Operation:
    """What is to be lowered: an equation, or the named call that a composite equation stands for."""

    name: str
    params: Mapping[str, Any]
    avals_in: Sequence[Any]
    avals_out: Sequence[Any]
    primitive: Any
    # The jaxpr that a named call was traced to, and its operands.
    body: tuple[Any, Sequence[ir.Value]] | None = None

    def decompose(self, ctx: Context) -> Sequence[ir.Value]:
        assert self.body is not None
        jaxpr, operands = self.body
        return ctx.inline(jaxpr, *operands)


class Engine:
    """The state of one export while its equations are lowered."""

    def __init__(
        self,
        registry: Registry,
        target: Target,
        opset: int,
        symbols: Symbols,
        weight_names: Mapping[int, str],
        *,
        provenance: bool = False,
    ) -> None:
        self.registry, self.target, self.opset, self.symbols = registry, target, opset, symbols
        self.provenance = provenance
        self.location: str | None = None
        self.names = Names()
        self.constants = Constants(self, weight_names)
        self.dims: dict[ir.Value, tuple[Any, ...]] = {}
        self.functions = FunctionTable(self)
        self.record = Record()
        # Packed value ↔ its components, so that neighbouring operations need no packing in between.
        self._components: dict[ir.Value, tuple[Scope, list[ir.Value]]] = {}
        self._whole: dict[tuple[ir.Value, ...], ir.Value] = {}
        self._traces: dict[Any, Any] = {}

    # -- values ------------------------------------------------------------------------------

    def set_dims(self, value: ir.Value, dims: Sequence[Any]) -> None:
        self.dims[value] = dims = tuple(dims)
        value.shape = ir.Shape([self.symbols.label(d) if _compat.is_symbolic_dim(d) else int(d) for d in dims])
        if any(isinstance(d, SpecializedDim) for d in dims):
            value.metadata_props[PROVENANCE_KEY] = ", ".join(self.symbols.label(d) for d in dims)

    def new_value(self, name: str, dtype: np.dtype[Any], dims: Sequence[Any]) -> ir.Value:
        """A named value without a producer: an input of some graph."""
        value = ir.Value(name=self.names.value(name), type=ir.TensorType(onnx_dtype(np.dtype(dtype))))
        self.set_dims(value, dims)
        return value

    def identity(self, scope: Scope, value: ir.Value) -> ir.Value:
        """A new name for a value, where a graph needs an output of its own."""
        node = make_node(self, "Identity", [value], "", 1, None, {})
        scope.nodes.append(node)
        if value in self.dims:
            self.set_dims(node.outputs[0], self.dims[value])
        return node.outputs[0]

    def emit_dims(self, scope: Scope, op_type: str, *inputs: ir.Value, dims: tuple[Any, ...], **attrs: Any) -> ir.Value:
        """Emit shape arithmetic into the prologue of a root scope."""
        node = make_node(self, op_type, inputs, "", 1, None, attrs)
        scope.prologue.append(node)
        self.set_dims(node.outputs[0], dims)
        return node.outputs[0]

    def dim_lowerer(self, scope: Scope, symbol: Callable[[str], ir.Value]) -> DimLowerer:
        def emit(op_type: str, *inputs: ir.Value, dims: tuple[Any, ...], **attrs: Any) -> ir.Value:
            return self.emit_dims(scope, op_type, *inputs, dims=dims, **attrs)

        return DimLowerer(symbol, emit, self.constants.constant)

    # -- jaxprs ------------------------------------------------------------------------------

    def lower_jaxpr(self, scope: Scope, jaxpr: Any, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Lower a jaxpr (closed, or open without constants) into `scope`; the values of its outputs."""
        inner, consts = _compat.open_jaxpr(_compat.without_references(jaxpr))
        env: dict[Any, ir.Value] = {}
        for var, const in zip(inner.constvars, consts, strict=True):
            env[var] = self.constants.weight(const)
        if len(inner.invars) != len(operands):
            raise RuleError(f"A jaxpr with {len(inner.invars)} inputs was given {len(operands)} operands.")
        env.update(zip(inner.invars, operands, strict=True))

        def read(atom: Any) -> ir.Value:
            return self.constants.literal(atom) if isinstance(atom, _compat.Literal) else env[atom]

        for eqn in inner.eqns:
            results = self._lower_equation(scope, eqn, [read(v) for v in eqn.invars])
            for var, value in zip(eqn.outvars, results, strict=True):
                if not isinstance(var, _compat.DropVar):
                    env[var] = value
        return [read(v) for v in inner.outvars]

    def _lower_equation(self, scope: Scope, eqn: Any, operands: list[ir.Value]) -> list[ir.Value]:
        outer = self.names.enter(_compat.name_stack(eqn.source_info), eqn.primitive.name)
        outer_location = self.location
        if self.provenance:
            self.location = _compat.user_frame(eqn.source_info)
        try:
            operation, arguments = self._operation(eqn, operands)
            results = fold_equation(self, operation, eqn, operands)
            if results is None:
                results = self._lower_operation(scope, operation, arguments, eqn.source_info)
                self._stamp(operation, operands, results)
            return results
        finally:
            self.names.leave(outer)
            self.location = outer_location

    def _operation(self, eqn: Any, operands: list[ir.Value]) -> tuple[Operation, Sequence[Any]]:
        avals_in = [v.aval for v in eqn.invars]
        avals_out = [v.aval for v in eqn.outvars]
        params = eqn.params
        if not is_composite(eqn.primitive):
            return Operation(eqn.primitive.name, params, avals_in, avals_out, eqn.primitive), operands
        count = params["count"]
        arguments = jax.tree_util.tree_unflatten(params["tree"], operands[:count])
        name = params["name"]
        self.names.relabel(name)
        body = params["jaxpr"], operands[count:]
        operation = Operation(name, params["static"].values, avals_in[:count], avals_out, eqn.primitive, body)
        return operation, arguments

    def _lower_operation(
        self, scope: Scope, operation: Operation, arguments: Sequence[Any], source_info: Any
    ) -> list[ir.Value]:
        ctx = Context(self, scope, operation)
        try:
            results = self._dispatch(ctx, operation, arguments)
        except Jax2OnnxError:
            raise
        except _compat.inconclusive_dimension_error as error:
            raise undecided(error, self.symbols, _compat.user_frame(source_info)) from error
        except Exception as error:
            raise RuleError(
                f"Lowering {operation.name!r} failed ({type(error).__name__}: {error}) for the equation at "
                f"{_compat.user_frame(source_info) or 'an unknown line'}. The rule is by "
                f"{self.registry.owners.get(f'primitive {operation.name}', 'an unknown plugin')}."
            ) from error
        if results is None:
            frame = _compat.user_frame(source_info)
            self.record.missing(operation.name, frame, self.registry.unsupported.get(operation.name))
            results = [self.new_value("unsupported", *physical(aval)) for aval in operation.avals_out]
        return results

    # -- dispatch ----------------------------------------------------------------------------

    def _dispatch(self, ctx: Context, operation: Operation, arguments: Sequence[Any]) -> list[ir.Value] | None:
        """Try the candidates in order; None where no plugin has one."""
        packed = any(is_packed(a.dtype) for a in (*operation.avals_in, *operation.avals_out))
        for rule in reversed(self.registry.rules.get(operation.name, ())):
            if packed and not rule.packed:
                continue
            mark = len(ctx.scope.nodes)
            try:
                result = rule.fn(ctx, *arguments, **operation.params)
            except Declined as declined:
                ctx.scope.roll_back(mark)
                self.record.declined(operation.name, str(declined))
                continue
            self.record.lowered(operation.name, "rule")
            return list(result) if isinstance(result, (list, tuple)) else [result]
        if packed and operation.body is None:
            results = self._dispatch_packed(ctx, operation, arguments)
            if results is not None:
                return results
        if operation.name in self.registry.decompositions:
            fn = self.registry.decompositions[operation.name]
            self.record.lowered(operation.name, "decomposition")
            return self._decompose(ctx, fn, operation, arguments)
        if operation.body is not None:
            self.record.lowered(operation.name, "original call")
            return list(operation.decompose(ctx))
        return None if operation.name in self.registry.unsupported else self._by_definition(ctx, operation, arguments)

    def _by_definition(self, ctx: Context, operation: Operation, operands: Sequence[ir.Value]) -> list[ir.Value] | None:
        """Lower a primitive that a library defined by a JAX function (`Primitive.def_impl`) by that function."""
        definition = _compat.definition(operation.primitive)
        if definition is None:
            return None
        try:
            jaxpr = jax.make_jaxpr(lambda *xs: jax.tree_util.tree_leaves(definition(*xs, **operation.params)))(
                *(_struct(a) for a in operation.avals_in)
            )
        except Exception as error:  # noqa: BLE001 (foreign code, perhaps not meant to be traced)
            self.record.declined(operation.name, f"its implementation cannot be traced: {error}")
            return None
        if _compat.binds(jaxpr, operation.primitive):
            return None
        self.record.lowered(operation.name, "its own definition")
        return self.lower_jaxpr(ctx.scope, jaxpr, operands)

    def lower_named(self, ctx: Context, operation: Operation, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Lower an operation that has a body: by the rules declared for its name, else by the body."""
        results = self._dispatch(Context(self, ctx.scope, operation), operation, operands)
        assert results is not None
        return results

    def _decompose(
        self, ctx: Context, fn: Callable[..., Any], operation: Operation, operands: Sequence[ir.Value]
    ) -> list[ir.Value]:
        def flat(*xs: Any) -> list[Any]:
            return jax.tree_util.tree_leaves(fn(*xs, **operation.params))

        return self.lower_jaxpr(ctx.scope, self.trace(flat, operation.avals_in, (fn, operation)), operands)

    def trace(self, fn: Callable[..., Any], avals: Sequence[Any], key: tuple[Callable[..., Any], Operation]) -> Any:
        """The jaxpr of `fn` on these avals; equal operations are traced once per export."""
        function, operation = key
        cache_key = (function, tuple(avals), tuple(sorted(operation.params.items(), key=lambda kv: kv[0])))
        try:
            found = self._traces.get(cache_key)
        except TypeError:  # unhashable parameters
            return jax.make_jaxpr(fn)(*(_struct(a) for a in avals))
        if found is None:
            found = self._traces[cache_key] = jax.make_jaxpr(fn)(*(_struct(a) for a in avals))
        return found

    # -- complex numbers and keys ------------------------------------------------------------

    def _dispatch_packed(
        self, ctx: Context, operation: Operation, operands: Sequence[ir.Value]
    ) -> list[ir.Value] | None:
        if operation.name in self.registry.complex_rules and not _has_keys(operation):
            self.record.lowered(operation.name, "complex")
            return self._lower_complex(ctx, self.registry.complex_rules[operation.name], operation, operands)
        if operation.name in self.registry.componentwise:
            self.record.lowered(operation.name, "componentwise")
            return self._lower_componentwise(ctx, operation, operands)
        return None

    def _lower_complex(
        self, ctx: Context, fn: Callable[..., Any], operation: Operation, operands: Sequence[ir.Value]
    ) -> list[ir.Value]:
        flat_operands: list[ir.Value] = []
        examples: list[Any] = []
        for aval, operand in zip(operation.avals_in, operands, strict=True):
            if is_packed(aval.dtype):
                parts = self.unpack(ctx, operand, aval)
                dtype, dims = physical(aval)
                part = jax.ShapeDtypeStruct(dims[:-1], dtype)
                examples.append(Complex(part, part))
                flat_operands += parts
            else:
                examples.append(_struct(aval))
                flat_operands.append(operand)
        traced = jax.make_jaxpr(lambda *xs: jax.tree_util.tree_leaves(fn(*xs, **operation.params)))(*examples)
        flat = self.lower_jaxpr(ctx.scope, traced, flat_operands)
        return self._repack(ctx, operation, flat)

    def _lower_componentwise(self, ctx: Context, operation: Operation, operands: Sequence[ir.Value]) -> list[ir.Value]:
        count = component_count(next(a for a in (*operation.avals_in, *operation.avals_out) if is_packed(a.dtype)))
        columns = [
            self.unpack(ctx, operand, aval) if is_packed(aval.dtype) else [operand] * count
            for aval, operand in zip(operation.avals_in, operands, strict=True)
        ]
        avals = [_part(aval) if is_packed(aval.dtype) else _struct(aval) for aval in operation.avals_in]
        traced = jax.make_jaxpr(lambda *xs: _compat.bind_equation(operation.primitive, operation.params, *xs))(*avals)
        rows = [self.lower_jaxpr(ctx.scope, traced, list(row)) for row in zip(*columns, strict=True)]
        return self._repack(ctx, operation, [value for parts in zip(*rows, strict=True) for value in parts])

    def _repack(self, ctx: Context, operation: Operation, flat: Sequence[ir.Value]) -> list[ir.Value]:
        results, rest = [], list(flat)
        for aval in operation.avals_out:
            count = component_count(aval) if is_packed(aval.dtype) else 0
            if count:
                results.append(self.pack(ctx, rest[:count], aval))
                del rest[:count]
            else:
                results.append(rest.pop(0))
        if rest:
            raise RuleError(f"The complex rule for {operation.name!r} returned {len(rest)} values too many.")
        return results

    def unpack(self, ctx: Context, value: ir.Value, aval: Any) -> list[ir.Value]:
        """The components of a packed value, each computed once."""
        known = ctx.known(value)
        if known is not None:
            return [ctx.constant(np.asarray(known[..., i])) for i in range(known.shape[-1])]
        scope, found = self._components.get(value, (None, []))
        if scope is None or not ctx.scope.is_inside(scope):
            dims = physical(aval)[1]
            found = [
                ctx.op("Gather", value, ctx.constant(np.array(i, np.int64)), axis=-1, dims=dims[:-1])
                for i in range(int(dims[-1]))
            ]
            self._components[value] = ctx.scope, found
            self._whole[tuple(found)] = value
        return found

    def pack(self, ctx: Context, components: Sequence[ir.Value], aval: Any) -> ir.Value:
        """One tensor with the components on a new last axis; the value itself if they are just its components."""
        whole = self._whole.get(tuple(components))
        if whole is not None:
            return whole
        dims = physical(aval)[1]
        columns = [ctx.unsqueeze(ctx.broadcast(c, dims[:-1]), [len(dims) - 1]) for c in components]
        packed: ir.Value = ctx.op("Concat", *columns, axis=len(dims) - 1, dims=dims)
        self._components[packed] = ctx.scope, list(components)
        return packed

    # -- stamping ----------------------------------------------------------------------------

    def _stamp(self, operation: Operation, operands: Sequence[ir.Value], results: Sequence[ir.Value]) -> None:
        """Check what a rule returned against the equation's avals and label it with them."""
        if len(results) != len(operation.avals_out):
            raise RuleError(
                f"The rule for {operation.name!r} returned {len(results)} values for {len(operation.avals_out)} results."
            )
        for aval, value in zip(operation.avals_out, results, strict=True):
            dtype, dims = physical(aval)
            if not isinstance(value, ir.Value):
                raise RuleError(f"The rule for {operation.name!r} returned {value!r}, not an onnx_ir.Value.")
            if value.dtype != onnx_dtype(dtype):
                raise RuleError(
                    f"The rule for {operation.name!r} returned {value.dtype}, but JAX's result is {dtype}{list(dims)}."
                )
            known = self.dims.get(value)
            if known is None or (_says_more(dims, known) and value.producer() is not None and value not in operands):
                self.set_dims(value, dims)
            elif len(known) != len(dims):
                raise RuleError(
                    f"The rule for {operation.name!r} returned shape {list(known)}, but JAX's result has {list(dims)}."
                )


def _says_more(dims: Sequence[Any], known: Sequence[Any]) -> bool:
    """Whether the equation's dimensions differ from those a rule inferred, or remember symbols where those do not."""
    return dims != known or any(isinstance(d, SpecializedDim) for d in dims)


def _struct(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def _part(aval: Any) -> jax.ShapeDtypeStruct:
    dtype, dims = physical(aval)
    return jax.ShapeDtypeStruct(dims[:-1], dtype)


def _has_keys(operation: Operation) -> bool:
    return any(_compat.is_extended_dtype(a.dtype) for a in (*operation.avals_in, *operation.avals_out))
