"""`trace_inputs`: tracing with symbols fixed to numbers, before the trace where it asks for them; labels are kept where proven."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from jax2onnx_core import _compat, _compat_dims
from jax2onnx_core.frontend._adapters import AdaptedCallable
from jax2onnx_core.frontend._tracing import Traced, trace
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.jax_types import Atom, Aval, Equation, Jaxpr, Params, Var
from jax2onnx_core.jaxprs import Dim, Dims, is_jaxpr, is_literal, is_static, is_symbolic_dim, open_jaxpr
from jax2onnx_core.plugins.errors import UndecidedDimensionError
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_core.symbols._jaxpr_rewriter import JaxprRewriter
from jax2onnx_core.symbols._specialize import fixed_dim, specialization, specialized_aval, specialized_jaxpr

__all__ = ["SpecializedFunction", "specialize_traced", "trace_inputs"]


@dataclasses.dataclass(frozen=True)
class SpecializedFunction:
    """A traced function and its inputs, with the symbols, perhaps none, that were fixed to numbers.

    Attributes:
      traced: the function.
      inputs: its inputs, with a constraint for each comparison of dimensions that the trace took for false or true.
      specialized: the symbols that were fixed → their numbers.
      given: the inputs as they were before symbols were fixed.
    """

    traced: Traced
    inputs: Inputs
    specialized: Mapping[str, int]
    given: Inputs

    def specialize(
        self, values: Mapping[str, int], adapted: AdaptedCallable, registry: Registry
    ) -> SpecializedFunction:
        """The function with further symbols fixed; it is traced anew only where a number may decide otherwise what the trace took for false.

        Args:
          values: symbols → numbers.
          adapted: the callable.
          registry: the composites of the plugins.

        Raises:
          SymbolError: a symbol is unknown, or cannot have this number.
        """
        values = specialization(self.inputs.avals, self.given.symbols, values)
        together = {**self.specialized, **values}
        if not self.inputs.symbols.allow(together) or _looked_up(self.traced, self.inputs, values):
            return trace_inputs(adapted, self.given, registry, together)
        traced, inputs = specialize_traced(self.traced, self.inputs, values)
        return SpecializedFunction(traced, inputs.with_fixed(values), together, self.given)


def specialize_traced(traced: Traced, inputs: Inputs, values: Mapping[str, int]) -> tuple[Traced, Inputs]:
    """The traced function and its inputs with the symbols of `values` replaced by numbers.

    Args:
      traced: the function.
      inputs: its inputs.
      values: the user's symbols → their numbers.
    """
    avals = [specialized_aval(aval, inputs.symbols, values) for aval in inputs.avals]
    jaxpr = specialized_jaxpr(traced.jaxpr, inputs.symbols, values)
    return traced.with_jaxpr(jaxpr), dataclasses.replace(inputs, avals=avals)


def trace_inputs(
    adapted: AdaptedCallable, inputs: Inputs, registry: Registry, specialize: Mapping[str, int] | None = None
) -> SpecializedFunction:
    """Trace the callable, with some symbols of its inputs fixed to numbers.

    They are fixed after tracing, but for those that the trace asks about: it sees their numbers.

    Args:
      adapted: the callable.
      inputs: its inputs.
      registry: the composites of the plugins.
      specialize: symbols → numbers.

    Raises:
      OptionError, SymbolError: `specialize` has symbols that no input has, or values that they cannot have.
      UndecidedDimensionError: the code asks for the number behind a symbolic dimension that has none.
    """
    values = {} if specialize is None else specialization(inputs.avals, inputs.symbols, specialize)
    if not values:
        traced = trace(adapted, inputs, registry)
        return SpecializedFunction(traced, _constrained(inputs, traced), {}, inputs)
    needed: dict[str, int] = {}
    while True:
        try:
            traced, fixed = _trace_with(adapted, inputs, registry, needed)
        except Exception as error:  # with the numbers there may be none
            asked = (error.symbols if isinstance(error, UndecidedDimensionError) else None) or values.keys()
            more = {name: values[name] for name in asked if name in values and name not in needed}
            if not more:
                raise
            needed.update(more)
            continue
        fixed = _constrained(fixed, traced)
        looked_up = _looked_up(traced, inputs, values)
        if looked_up.keys() - needed.keys():
            needed.update(looked_up)
            continue
        if len(needed) == len(values) or fixed.symbols.allow(values):
            break
        needed = dict(values)  # they decide otherwise what the trace took for false
    rest = {name: value for name, value in values.items() if name not in needed}
    traced, fixed = specialize_traced(traced, fixed, rest)
    return SpecializedFunction(traced, fixed.with_fixed(values), values, inputs)


def _looked_up(traced: Traced, inputs: Inputs, values: Mapping[str, int]) -> dict[str, int]:
    """Those of the symbols that the trace looked up in a dict or a set, whose keys nobody knows."""
    names = inputs.symbols.names(traced.lookups)
    return {name: values[name] for name in names if name in values}


def _constrained(inputs: Inputs, traced: Traced) -> Inputs:
    """The inputs with a constraint for each comparison of dimensions that the trace took for false, and each that it took for true."""
    label = inputs.symbols.label
    different = [f"{label(left)} != {label(right)}" for left, right in traced.undecided]
    return inputs.with_constraints([*different, *traced.required])


def _trace_with(
    adapted: AdaptedCallable, inputs: Inputs, registry: Registry, values: Mapping[str, int]
) -> tuple[Traced, Inputs]:
    if not values:
        return trace(adapted, inputs, registry), inputs

    def fixed(dim: Dim) -> Dim:
        return fixed_dim(dim, inputs.symbols, values)

    symbolic = [tuple(aval.shape) for aval in inputs.avals]
    shapes = [tuple(map(fixed, shape)) for shape in symbolic]
    plain = [aval.update(shape=tuple(map(_plain, s))) for aval, s in zip(inputs.avals, shapes, strict=True)]
    traced = trace(adapted, dataclasses.replace(inputs, avals=plain), registry)
    jaxpr, _ = _Labelling(fixed).label(traced.jaxpr, symbolic)
    avals = [_compat.with_exact_shape(aval, s) for aval, s in zip(plain, shapes, strict=True)]
    return traced.with_jaxpr(jaxpr), dataclasses.replace(inputs, avals=avals)


def _plain(dim: Dim) -> Dim:
    return int(dim) if is_static(dim) else dim


class _Labelling(JaxprRewriter):
    """Puts the symbols back into a jaxpr that was traced with numbers.

    A dimension of a result is proven where JAX's own shape rule gives it an expression, for operands of symbolic
    shape, whose number is the traced one.
    """

    def __init__(self, fixed: Callable[[Dim], Dim]) -> None:
        super().__init__()
        self._fixed = fixed
        self._shapes: dict[Var, Dims] = {}

    def label(self, jaxpr: Jaxpr, shapes: Sequence[Dims]) -> tuple[Jaxpr, list[Dims]]:
        """The labelled jaxpr for operands of these shapes, and the shapes of its results."""
        inner, _ = open_jaxpr(jaxpr)
        for var, shape in zip(inner.invars, shapes, strict=True):
            self._prove(var, shape)
        return self.rebuild(jaxpr), [self._shape(v) for v in inner.outvars]

    def aval(self, var: Var) -> Aval:
        return _compat.with_exact_shape(var.aval, tuple(map(self._fixed, self._shape(var))))

    def params(self, eqn: Equation) -> Params:
        shapes = [self._shape(v) for v in eqn.invars]
        params = dict(eqn.params)
        results: Sequence[Dims] = [v.aval.shape for v in eqn.outvars]
        if any(is_symbolic_dim(d) for shape in shapes for d in shape):
            called = _called_jaxpr(eqn)
            if called is None:
                results = self._by_shape_rule(eqn, shapes)
            else:
                # A jaxpr that is called twice is labelled for each of its calls.
                operands = shapes[len(shapes) - len(open_jaxpr(params[called])[0].invars) :]
                params[called], results = _Labelling(self._fixed).label(params[called], operands)
        for var, shape in zip(eqn.outvars, results, strict=True):
            self._prove(var, shape)
        return params

    def _by_shape_rule(self, eqn: Equation, shapes: Sequence[Dims]) -> Sequence[Dims]:
        avals = [v.aval.update(shape=shape) for v, shape in zip(eqn.invars, shapes, strict=True)]
        try:
            outs = _compat.abstract_results(eqn.primitive, avals, eqn.params)
        except (TypeError, ValueError, AssertionError, _compat_dims.inconclusive_dimension_error):
            return [v.aval.shape for v in eqn.outvars]  # the parameters hold numbers that were symbols
        return [out.shape for out in outs]

    def _prove(self, var: Var, shape: Dims) -> None:
        self._shapes[var] = tuple(
            symbolic if self._fixed(symbolic) == number else number
            for symbolic, number in zip(shape, var.aval.shape, strict=True)
        )

    def _shape(self, atom: Atom) -> Dims:
        if is_literal(atom):
            return ()
        return self._shapes.get(atom, tuple(atom.aval.shape))


def _called_jaxpr(eqn: Equation) -> str | None:
    """The parameter with the jaxpr that an equation applies to its (last) operands; None if it is no such call.

    It is one if it holds just one jaxpr, whose operands and results have the types of the equation's.
    """
    found = [key for key, value in eqn.params.items() if is_jaxpr(value)]
    if len(found) != 1:
        return None
    inner, _ = open_jaxpr(eqn.params[found[0]])
    operands = eqn.invars[len(eqn.invars) - len(inner.invars) :]
    same = _types(inner.invars) == _types(operands) and _types(inner.outvars) == _types(eqn.outvars)
    return found[0] if same else None


def _types(atoms: Sequence[Atom]) -> list[tuple[Dims, object]]:
    return [(v.aval.shape, v.aval.dtype) for v in atoms]
