"""Jaxprs, equations and primitives: opened, closed, rebuilt, evaluated and traced."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence

import jax
from jax._src import core as _core
from jax._src.interpreters import partial_eval as _partial_eval
from jax._src.state import discharge as _discharge

from jax2onnx_core.jax_types import Atom, Aval, Equation, Function, Jaxpr, Params, Primitive, PyTree, Var

__all__ = [
    "abstract_results",
    "bind_primitive",
    "closed",
    "definition",
    "eval_jaxpr",
    "is_drop_var",
    "is_jaxpr",
    "is_literal",
    "open_jaxpr",
    "rebuild_jaxpr",
    "trace_thunk",
    "with_constants",
    "without_dead_equations",
    "without_references",
]

# From JAX 0.11 a closed jaxpr is a jaxpr that holds its constants.
_ClosedJaxpr = vars(_core).get("ClosedJaxpr", _core.Jaxpr)
_UNIFIED = _ClosedJaxpr is _core.Jaxpr


def is_jaxpr(value: object) -> bool:
    """Whether `value` is a jaxpr, open or closed."""
    return isinstance(value, (_core.Jaxpr, _ClosedJaxpr))


def open_jaxpr(jaxpr: Jaxpr, consts: Sequence[PyTree] = ()) -> tuple[jax.extend.core.Jaxpr, Sequence[PyTree]]:
    """The open jaxpr and its constants, whether it carries these itself or not."""
    if isinstance(jaxpr, _ClosedJaxpr) and not consts:
        return jaxpr.jaxpr, jaxpr.consts
    return jaxpr, consts


def is_literal(atom: Atom) -> bool:
    """Whether an operand of an equation is a literal."""
    return isinstance(atom, _core.Literal)


def is_drop_var(var: Var) -> bool:
    """Whether a result of an equation is thrown away."""
    return isinstance(var, _core.DropVar)


def without_references(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with the mutable array references that it makes itself (`jax.new_ref`) turned into values."""
    if not any(isinstance(effect, _core.InternalMutableArrayEffect) for effect in jaxpr.effects):
        return jaxpr
    return _discharge.discharge_state(jaxpr if isinstance(jaxpr, _ClosedJaxpr) else closed(jaxpr, ()))


def closed(jaxpr: Jaxpr, consts: Sequence[PyTree]) -> Jaxpr:
    """A closed jaxpr of these equations and constants."""
    return jaxpr.with_consts(list(consts)) if _UNIFIED else _ClosedJaxpr(jaxpr, list(consts))


def with_constants(jaxpr: Jaxpr, values: Sequence[object]) -> Jaxpr:
    """A closed jaxpr with `values` in place of its first inputs."""
    inner, consts = open_jaxpr(jaxpr)
    if _UNIFIED:
        return jaxpr.with_consts([*consts, *values])
    variables, rest = inner.invars[: len(values)], inner.invars[len(values) :]
    return _ClosedJaxpr(inner.replace(constvars=[*inner.constvars, *variables], invars=rest), [*consts, *values])


def without_dead_equations(jaxpr: Jaxpr) -> Jaxpr:
    """A closed jaxpr without the equations (of loop bodies, too) whose results nobody uses."""
    inner, consts = open_jaxpr(jaxpr)
    alive, _ = _partial_eval.dce_jaxpr(inner, [True] * len(inner.outvars), instantiate=True)
    return alive if _UNIFIED else _ClosedJaxpr(alive, list(consts))


def eval_jaxpr(jaxpr: Jaxpr, *operands: jax.Array, consts: Sequence[PyTree] = ()) -> list[jax.Array]:
    """Evaluate (or trace) a jaxpr, closed or with its constants given."""
    inner, constants = open_jaxpr(jaxpr, consts)
    return _core.eval_jaxpr(inner, constants, *operands)


def bind_primitive(primitive: Primitive, params: Params, *operands: jax.Array) -> list[jax.Array]:
    """Bind a primitive with parameters as they stand in an equation; the list of its results."""
    result = primitive.bind(*operands, **primitive.get_bind_params(params))
    return list(result) if primitive.multiple_results else [result]


def definition(primitive: Primitive) -> Function | None:
    """The function by which a library defined a primitive of its own; None for one that JAX itself implements."""
    impl: Function = primitive.impl
    function = impl.func if isinstance(impl, functools.partial) else impl
    of_jax = not isinstance(function, types.FunctionType) or function.__module__.partition(".")[0] == "jax"
    return None if of_jax else impl


def trace_thunk(thunk: Callable[[], PyTree]) -> tuple[Jaxpr, list[jax.Array], PyTree]:
    """Trace a function of no arguments: its jaxpr, with everything it closed over (tracers of the
    surrounding trace included) turned into operands; those operands; the result's pytree of avals.
    """
    traced, out = jax.make_jaxpr(thunk, return_shape=True)()
    inner, consts = open_jaxpr(traced)
    return closed(_partial_eval.convert_constvars_jaxpr(inner), ()), list(consts), out


def abstract_results(primitive: Primitive, avals: Sequence[Aval], params: Params) -> list[Aval]:
    """The avals that JAX's own rule gives the results of an equation."""
    outs, _ = primitive.abstract_eval(*avals, **params)
    return list(outs) if primitive.multiple_results else [outs]


def rebuild_jaxpr(
    jaxpr: Jaxpr, *, invars: Sequence[Var], outvars: Sequence[Atom], eqns: Sequence[Equation],
    consts: Sequence[PyTree], closed_form: bool,
) -> Jaxpr:  # fmt: skip
    """A jaxpr of the kind of `jaxpr` with other variables; `invars` begins with those of the constants."""
    count = len(jaxpr.constvars)
    if _UNIFIED:
        rebuilt = _core.Jaxpr(
            [], list(invars), list(outvars), list(eqns), jaxpr.effects, jaxpr.debug_info.with_unknown_names()
        )
        return rebuilt.with_consts(list(consts)) if consts else rebuilt
    opened = jaxpr.replace(
        constvars=list(invars[:count]), invars=list(invars[count:]), outvars=list(outvars), eqns=list(eqns),
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )  # fmt: skip
    return _ClosedJaxpr(opened, list(consts)) if closed_form else opened
