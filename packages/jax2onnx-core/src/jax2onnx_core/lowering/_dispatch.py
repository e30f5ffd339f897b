"""`Dispatcher`: chooses how an operation is lowered, and does it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.optional_forms import attempt

from jax2onnx_core import _compat, _compat_options
from jax2onnx_core._fingerprint import params_fingerprint
from jax2onnx_core.frontend.activation import activation_window
from jax2onnx_core.jax_types import Aval, Function, Jaxpr
from jax2onnx_core.jaxprs import open_jaxpr, struct
from jax2onnx_core.lowering._components import Components
from jax2onnx_core.lowering._functions import FunctionTable
from jax2onnx_core.lowering._log import LoweringLog
from jax2onnx_core.lowering._operation import Operation
from jax2onnx_core.lowering.context import Context
from jax2onnx_core.lowering.physical import component_count, component_struct, has_components, physical_type
from jax2onnx_core.plugins.errors import Declined, PassedOn, RuleError
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_core.plugins.rules import Complex, Rule, qualified_name

__all__ = ["Dispatcher"]

#: Checks and labels the results of a rule: `accept(operation, operands, results)`.
Accept = Callable[[Operation, Sequence[Value], Sequence[object]], list[Value]]


class Dispatcher:
    """Tries the candidates for an operation in order, unless its results have no elements.

    1. The rules for its name, those for physical tensors last, otherwise the last declared first. Where an operand or
       result has components, only those for physical tensors.
    2. For operands with components: the complex rule, or the operation on each component separately.
    3. The decomposition declared for its name.
    4. For a composite, the original call; for a primitive that a library defined by a JAX function, that function.

    A rule is optional where another rule, a decomposition or the original call comes after it. Whatever goes wrong in an optional
    rule, whoever it is by, or with its results, declines it with a reason that names rule and distribution, and so does a primitive
    that nobody lowers; in tests it is raised (`jax2onnx_graph.optional_forms`). An error of the last candidate is that of the export.
    """

    def __init__(
        self, registry: Registry, functions: FunctionTable, log: LoweringLog, accept: Accept, *, x64: bool
    ) -> None:
        self._registry = registry
        self._accept = accept
        self._x64 = x64
        self._functions = functions
        self._log = log
        self._components = Components()
        self._traces: dict[Hashable, Jaxpr] = {}
        self._decomposing = set[Hashable]()

    def lower(self, ctx: Context, operation: Operation, arguments: Sequence[Any]) -> list[Value] | None:
        """The values of the results; None where no plugin has a way."""
        split = any(map(has_components, {a.dtype for a in (*operation.avals_in, *operation.avals_out)}))
        results = ctx.empty_arrays(operation.types_out)
        results = results or self._by_rule(ctx, operation, arguments, physical_only=split)
        if results is None and split and operation.body is None:
            results = self._by_components(ctx, operation, arguments)
        if results is None and operation.name in self._registry.decompositions:
            return self._decompose(ctx, self._registry.decompositions[operation.name].fn, operation, arguments)
        if results is None and operation.body is not None:
            self._log.lowered(operation.name, "original call")
            jaxpr, operands = operation.body
            return list(ctx.inline(jaxpr, *operands))
        if results is None and operation.name not in self._registry.unsupported:
            return self._by_definition(ctx, operation, arguments)
        return results

    def _by_rule(
        self, ctx: Context, operation: Operation, arguments: Sequence[Any], *, physical_only: bool
    ) -> list[Value] | None:
        declared = self._registry.rules.get(operation.name, [])
        plain = [] if physical_only else [rule for rule in declared if not rule.physical]
        candidates = [*reversed(plain), *reversed([rule for rule in declared if rule.physical])]
        has_other_way = operation.body is not None or operation.name in self._registry.decompositions
        for place, rule in enumerate(candidates, 1):
            is_optional = has_other_way or place < len(candidates)
            results = self._attempt(ctx, operation, arguments, rule, is_optional=is_optional)
            if results is not None:
                self._log.lowered(operation.name, "rule")
                return results
        return None

    def _attempt(
        self, ctx: Context, operation: Operation, arguments: Sequence[Any], rule: Rule, *, is_optional: bool
    ) -> list[Value] | None:
        """The results of one rule; None where it declines, of which nothing but the reason is left."""
        ctx.lowered_by = rule.fn
        marks = ctx.scope.mark(), self._functions.mark(), self._log.mark()
        form = functools.partial(self._results, ctx, operation, arguments, rule, marks[2] if is_optional else None)
        reasons: list[str] = []
        found = attempt(form, reasons.append) if is_optional else form()
        if isinstance(found, list):
            return found
        owner = self._registry.owner(operation.name, rule.fn)
        declined = found or Declined(f"the rule {qualified_name(rule.fn)} by {owner} failed: {reasons[0]}")
        self._components.forget(ctx.scope.roll_back(marks[0]))
        self._functions.roll_back(marks[1])
        self._log.roll_back(marks[2])
        self._log.declined(operation.name, str(declined), is_shown=not isinstance(declined, PassedOn))
        ctx.lowered_by = None
        return None

    def _results(
        self,
        ctx: Context,
        operation: Operation,
        arguments: Sequence[Any],
        rule: Rule,
        mark: tuple[int, int, int] | None,
    ) -> list[Value] | Declined:
        """The results of one rule, or why it declines; those of an optional one, tried since `mark`, are checked."""
        try:
            result = rule.fn(ctx, *arguments, **operation.params)
            results = list(result) if isinstance(result, Sequence) else [result]
            return results if mark is None else self._checked(operation, arguments, results, mark)
        except Declined as declined:
            return declined

    def _checked(
        self, operation: Operation, arguments: Sequence[Any], results: list[Value], mark: tuple[int, int, int]
    ) -> list[Value]:
        """The results of an optional rule; declines where they take a primitive that nobody lowers."""
        missing = self._log.missing_since(mark)
        if missing:
            raise Declined(f"it takes {', '.join(missing)}, which nobody lowers")
        return self._accept(operation, jax.tree_util.tree_leaves(list(arguments)), results)

    # -- decompositions ----------------------------------------------------------------------------

    def _decompose(
        self, ctx: Context, fn: Function, operation: Operation, operands: Sequence[Value]
    ) -> list[Value] | None:
        """The values by a jaxpr of `fn`, which is traced once per export for equal operations.

        None where that comes to the same operation again: no rule lowers it, so that this has found no way.
        """
        key = fn, tuple(operation.avals_in), params_fingerprint(operation.params), _compat.trace_context()
        if key in self._decomposing:
            return None
        self._log.lowered(operation.name, "decomposition")
        ctx.lowered_by = fn
        self._decomposing.add(key)
        try:
            jaxpr = self._traces.get(key)
            if jaxpr is None:
                jaxpr = self._traces[key] = _flat_jaxpr(fn, operation, map(struct, operation.avals_in))
            return list(ctx.inline(jaxpr, *operands))
        finally:
            self._decomposing.discard(key)

    def _by_definition(self, ctx: Context, operation: Operation, operands: Sequence[Value]) -> list[Value] | None:
        """Lower a primitive by the JAX function that its library defined it by (`Primitive.def_impl`, `mlir.lower_fun`), traced as the user's."""
        definition = _compat.definition(operation.primitive)
        if definition is None:
            return None
        try:
            with (
                _compat_options.default_types(x64=self._x64),
                activation_window(self._registry.composites, self._registry) as declined,
            ):
                jaxpr = _flat_jaxpr(definition, operation, map(struct, operation.avals_in))
        except Exception as error:  # noqa: BLE001 (foreign code, perhaps not meant to be traced)
            self._log.declined(operation.name, f"its implementation cannot be traced: {error}")
            return None
        if any(eqn.primitive is operation.primitive for eqn in open_jaxpr(jaxpr)[0].eqns):
            return None
        for name, reason in declined:
            self._log.declined(name, reason)
        self._log.lowered(operation.name, "its own definition")
        return list(ctx.inline(jaxpr, *operands))

    # -- operands with components --------------------------------------------------------------------

    def _by_components(self, ctx: Context, operation: Operation, operands: Sequence[Value]) -> list[Value] | None:
        has_keys = any(_compat.is_extended_dtype(a.dtype) for a in (*operation.avals_in, *operation.avals_out))
        if operation.name in self._registry.complex_rules and not has_keys:
            self._log.lowered(operation.name, "complex rule")
            return self._by_complex_rule(ctx, self._registry.complex_rules[operation.name], operation, operands)
        if operation.name in self._registry.componentwise:
            self._log.lowered(operation.name, "componentwise")
            return self._componentwise(ctx, operation, operands)
        return None

    def _by_complex_rule(
        self, ctx: Context, fn: Function, operation: Operation, operands: Sequence[Value]
    ) -> list[Value]:
        ctx.lowered_by = fn
        flat: list[Value] = []
        examples: list[Any] = []
        for aval, operand in zip(operation.avals_in, operands, strict=True):
            if has_components(aval.dtype):
                examples.append(Complex(component_struct(aval), component_struct(aval)))
                flat += self._split(ctx, operand, aval)
            else:
                examples.append(struct(aval))
                flat.append(operand)
        return self._join(ctx, operation, ctx.inline(_flat_jaxpr(fn, operation, examples), *flat))

    def _componentwise(self, ctx: Context, operation: Operation, operands: Sequence[Value]) -> list[Value]:
        avals = (*operation.avals_in, *operation.avals_out)
        count = component_count(next(a for a in avals if has_components(a.dtype)))
        columns = [
            self._split(ctx, operand, aval) if has_components(aval.dtype) else [operand] * count
            for aval, operand in zip(operation.avals_in, operands, strict=True)
        ]
        examples = [component_struct(a) if has_components(a.dtype) else struct(a) for a in operation.avals_in]

        def bind(*xs: Any, **params: Any) -> list[Any]:
            return _compat.bind_primitive(operation.primitive, params, *xs)

        jaxpr = _flat_jaxpr(bind, operation, examples)
        rows = [ctx.inline(jaxpr, *row) for row in zip(*columns, strict=True)]
        return self._join(ctx, operation, [value for parts in zip(*rows, strict=True) for value in parts])

    def _split(self, ctx: Context, operand: Value, aval: Aval) -> tuple[Value, ...]:
        return self._components.split(ctx, operand, aval.shape, component_count(aval))

    def _join(self, ctx: Context, operation: Operation, flat: Sequence[Value]) -> list[Value]:
        """The results, of which those with components are given as consecutive components."""
        results, rest = [], list(flat)
        for aval in operation.avals_out:
            count = component_count(aval) if has_components(aval.dtype) else 0
            results.append(
                self._components.join(ctx, rest[:count], aval.shape, physical_type(aval)[1]) if count else rest[0]
            )
            del rest[: count or 1]
        if rest:
            raise RuleError(f"The complex rule for {operation.name!r} returned {len(rest)} values too many.")
        return results


def _flat_jaxpr(fn: Function, operation: Operation, examples: Any) -> Jaxpr:
    """The jaxpr of `fn` with the parameters of the operation; the leaves of its result."""
    return jax.make_jaxpr(lambda *xs: jax.tree_util.tree_leaves(fn(*xs, **operation.params)))(*examples)
