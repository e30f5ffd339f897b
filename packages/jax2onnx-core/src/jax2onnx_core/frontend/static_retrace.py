"""Tracing where the trace itself needs numbers: symbols are fixed before it, and labels kept where they are proven."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax2onnx_core import _compat
from jax2onnx_core.frontend.adapters import AdaptedCallable
from jax2onnx_core.frontend.composite import is_composite
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.frontend.tracing import Traced, trace
from jax2onnx_core.plugins.errors import UndecidedDimensionError
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_core.symbols.specialise import check_specialisation, fixed_dim, specialise

__all__ = ["trace_specialised"]

Shape = tuple[Any, ...]


def trace_specialised(
    adapted: AdaptedCallable, inputs: Inputs, registry: Registry, values: Mapping[str, int]
) -> tuple[Traced, Inputs]:
    """The traced function and its inputs with the symbols `values` fixed to numbers.

    They are fixed after tracing, but for those that the trace asks about: it sees their numbers.
    """
    check_specialisation(inputs, values)
    needed: dict[str, int] = {}
    while True:
        try:
            traced, fixed = _trace_with(adapted, inputs, registry, needed)
            break
        except UndecidedDimensionError as error:
            asked = error.symbols or values.keys()
            more = {name: values[name] for name in asked if name in values and name not in needed}
            if not more:
                raise
            needed.update(more)
    return specialise(traced, fixed, {name: value for name, value in values.items() if name not in needed})


def _trace_with(
    adapted: AdaptedCallable, inputs: Inputs, registry: Registry, values: Mapping[str, int]
) -> tuple[Traced, Inputs]:
    if not values:
        return trace(adapted, inputs, registry), inputs

    def fixed(dim: Any) -> Any:
        return fixed_dim(dim, inputs.symbols, values)

    symbolic = [tuple(aval.shape) for aval in inputs.avals]
    shapes = [tuple(map(fixed, shape)) for shape in symbolic]
    plain = [aval.update(shape=tuple(map(_plain, s))) for aval, s in zip(inputs.avals, shapes, strict=True)]
    traced = trace(adapted, dataclasses.replace(inputs, avals=plain), registry)
    jaxpr, _ = _Labels(fixed).jaxpr(traced.jaxpr, symbolic)
    avals = [_compat.with_exact_shape(aval, s) for aval, s in zip(plain, shapes, strict=True)]
    out_avals = [v.aval for v in _compat.jaxpr_of(jaxpr).outvars]
    return dataclasses.replace(traced, jaxpr=jaxpr, out_avals=out_avals), dataclasses.replace(inputs, avals=avals)


def _plain(dim: Any) -> Any:
    return dim if _compat.is_symbolic_dim(dim) else int(dim)


class _Labels:
    """Puts the symbols back into a jaxpr that was traced with numbers.

    A dimension of a result is proven where JAX's own shape rule gives it an expression, for operands of symbolic
    shape, whose number is the traced one.
    """

    def __init__(self, fixed: Callable[[Any], Any]) -> None:
        self._fixed = fixed
        self._vars: dict[Any, Any] = {}
        self._shapes: dict[Any, Shape] = {}

    def jaxpr(self, jaxpr: Any, shapes: Sequence[Shape]) -> tuple[Any, list[Shape]]:
        """The labelled jaxpr for operands of these shapes, and the shapes of its results."""
        inner, consts = _compat.open_jaxpr(jaxpr)
        for var, shape in zip(inner.invars, shapes, strict=True):
            self._label(var, shape)
        rebuilt = _compat.rebuild_jaxpr(
            inner,
            eqns=[self._equation(eqn) for eqn in inner.eqns],
            invars=[self._var(v) for v in (*inner.constvars, *inner.invars)],
            outvars=[self._atom(v) for v in inner.outvars],
            consts=consts,
            closed_form=inner is not jaxpr or bool(consts),
        )
        return rebuilt, [self._shape(v) for v in inner.outvars]

    def _equation(self, eqn: Any) -> Any:
        shapes = [self._shape(v) for v in eqn.invars]
        params = dict(eqn.params)
        name = _compat.called_jaxpr(eqn.primitive, params, composite=is_composite(eqn.primitive))
        if not any(_compat.is_symbolic_dim(d) for shape in shapes for d in shape):
            results: Sequence[Shape] = [v.aval.shape for v in eqn.outvars]
        elif name is not None:
            # A jaxpr that is called twice is labelled for each of its calls.
            params[name], results = _Labels(self._fixed).jaxpr(params[name], shapes[params.get("count", 0) :])
        else:
            results = self._by_shape_rule(eqn, shapes)
        for var, shape in zip(eqn.outvars, results, strict=True):
            self._label(var, shape)
        return eqn.replace(
            invars=[self._atom(v) for v in eqn.invars], outvars=[self._var(v) for v in eqn.outvars], params=params
        )

    def _by_shape_rule(self, eqn: Any, shapes: Sequence[Shape]) -> Sequence[Shape]:
        avals = [v.aval.update(shape=shape) for v, shape in zip(eqn.invars, shapes, strict=True)]
        try:
            outs = _compat.abstract_results(eqn.primitive, avals, eqn.params)
        except (TypeError, ValueError, AssertionError, _compat.inconclusive_dimension_error):
            return [v.aval.shape for v in eqn.outvars]  # the parameters hold numbers that were symbols
        return [out.shape for out in outs]

    def _label(self, var: Any, shape: Shape) -> None:
        proven = tuple(
            symbolic if self._fixed(symbolic) == number else number
            for symbolic, number in zip(shape, var.aval.shape, strict=True)
        )
        self._shapes[var] = proven
        aval = _compat.with_exact_shape(var.aval, tuple(map(self._fixed, proven)))
        self._vars[var] = type(var)(aval)

    def _shape(self, atom: Any) -> Shape:
        if isinstance(atom, _compat.Literal):
            return ()
        return self._shapes.get(atom, tuple(atom.aval.shape))

    def _var(self, var: Any) -> Any:
        if var not in self._vars:
            self._label(var, tuple(var.aval.shape))
        return self._vars[var]

    def _atom(self, atom: Any) -> Any:
        return atom if isinstance(atom, _compat.Literal) else self._var(atom)
