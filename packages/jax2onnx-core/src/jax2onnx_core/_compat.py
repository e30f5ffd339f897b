"""Everything in core that depends on JAX's version or on its private API."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import os
import sys
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import jax
import numpy as np
from jax._src import api_util as _api_util
from jax._src import config as _config
from jax._src import core as _core
from jax._src import custom_batching as _custom_batching
from jax._src import debugging as _debugging
from jax._src import dtypes as _dtypes
from jax._src import effects as _effects
from jax._src import pjit as _pjit
from jax._src import source_info_util as _source_info
from jax._src import tree_util as _tree_util
from jax._src.export import shape_poly as _shape_poly
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import batching as _batching
from jax._src.interpreters import mlir as _mlir
from jax._src.interpreters import partial_eval as _partial_eval
from jax._src.lax import lax as _lax
from jax._src.state import discharge as _discharge
from jax.extend import linear_util
from jax.extend.core import primitives as _primitives
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.build.names import user_line
from jax2onnx_graph.facts.dims import Dim, Dims, is_static

from jax2onnx_core.jax_types import (
    Atom,
    Aval,
    Equation,
    Function,
    Jaxpr,
    Params,
    Primitive,
    PyTree,
    PyTreeDef,
    TraceableAval,
    Var,
)  # fmt: skip

__all__ = [
    "NO_LINE",
    "ShapedArray",
    "abstract_results",
    "as_weak",
    "bind_equation",
    "bind_primitive",
    "calling_function",
    "canonical_dtype",
    "closed",
    "cond_p",
    "current_frame",
    "default_float",
    "defines_sizes",
    "definition",
    "eval_jaxpr",
    "exact_fraction",
    "in_trace_of",
    "inner_jaxprs",
    "is_batched_by_user",
    "is_drop_var",
    "is_extended_dtype",
    "is_jaxpr",
    "is_literal",
    "is_reshape",
    "is_user_file",
    "key_physical_aval",
    "largest_of",
    "name_stack",
    "open_jaxpr",
    "plain_call_of",
    "plain_shape",
    "prints",
    "random_keys",
    "rebuild_jaxpr",
    "register_composite_rules",
    "register_size_rules",
    "scan_counts",
    "scan_p",
    "trace_context",
    "trace_thunk",
    "traceable_dtype",
    "traced_equation",
    "traced_source",
    "tree_differences",
    "user_frame",
    "while_p",
    "with_constants",
    "with_exact_shape",
    "without_dead_equations",
    "without_references",
    "wrap_key",
]  # fmt: skip

ShapedArray = _core.ShapedArray
trace_context = _config.trace_context
#: The primitives of control flow, for what evaluates them.
cond_p, scan_p, while_p = _primitives.cond_p, _primitives.scan_p, _primitives.while_p

tree_differences = _tree_util.equality_errors_pytreedef
is_user_file = _source_info.is_user_filename

# Our own frames are not the user's, and frames around `to_onnx` are not those of the function.
_EXPORT = os.path.join(os.path.dirname(__file__), "program", "export.py")
_source_info.register_exclusion(os.path.dirname(__file__))

# From JAX 0.11 a closed jaxpr is a jaxpr that holds its constants.
_ClosedJaxpr = vars(_core).get("ClosedJaxpr", _core.Jaxpr)
_UNIFIED = _ClosedJaxpr is _core.Jaxpr


def is_jaxpr(value: object) -> bool:
    """Whether `value` is a jaxpr, open or closed."""
    return isinstance(value, (_core.Jaxpr, _ClosedJaxpr))


def inner_jaxprs(eqn: Equation) -> list[Jaxpr]:
    """The jaxprs that are parameters of an equation, alone or in tuples and lists."""
    found: list[Jaxpr] = []
    pending = list(eqn.params.values())
    for value in pending:
        if isinstance(value, (tuple, list)):
            pending.extend(value)
        elif is_jaxpr(value):
            found.append(value)
    return found


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


def without_dead_equations(jaxpr: Jaxpr, results: int | None = None) -> Jaxpr:
    """A closed jaxpr of the first so many results, or all, without the equations (of loop bodies, too) that nobody uses."""
    inner, consts = open_jaxpr(jaxpr)
    count = len(inner.outvars) if results is None else results
    alive, _ = _partial_eval.dce_jaxpr(inner, [i < count for i in range(len(inner.outvars))], instantiate=True)
    return alive if _UNIFIED else _ClosedJaxpr(alive, list(consts))


def is_traced_now(value: object) -> bool:
    """Whether a value is a tracer of the trace that is under way, and none that leaked out of another."""
    return isinstance(value, _core.Tracer) and value._trace is _core.trace_ctx.trace


def is_jitted(eqn: Equation) -> bool:
    """Whether an equation is the call of a jitted function."""
    return eqn.primitive is _pjit.jit_p


def is_batched_by_user(eqn: Equation) -> bool:
    """Whether an equation is the call of a function for which the user says what `jax.vmap` computes."""
    return eqn.primitive is _custom_batching.custom_vmap_p


def plain_call_of(eqn: Equation) -> Equation:
    """A plain call of the function that an equation with a `vmap` of its own calls."""
    (jaxpr,) = inner_jaxprs(eqn)
    return eqn.replace(primitive=_core.closed_call_p, params={"call_jaxpr": jaxpr})


def eval_jaxpr(jaxpr: Jaxpr, *operands: jax.Array, consts: Sequence[PyTree] = ()) -> list[jax.Array]:
    """Evaluate (or trace) a jaxpr, closed or with its constants given."""
    inner, constants = open_jaxpr(jaxpr, consts)
    env: dict[object, jax.Array] = dict(zip([*inner.constvars, *inner.invars], [*constants, *operands], strict=True))

    def value(atom: Atom) -> jax.Array:
        found: jax.Array = atom.val if is_literal(atom) else env[atom]
        return found

    for eqn in inner.eqns:
        env.update(zip(eqn.outvars, bind_equation(eqn, list(map(value, eqn.invars))), strict=True))
    return list(map(value, inner.outvars))


def bind_equation(eqn: Equation, operands: Sequence[jax.Array]) -> list[jax.Array]:
    """Evaluate (or trace) one equation, keeping the name stack and the source line that it has.

    The value of a dimension has the dtype that it has in the equation, not that of the present mode.
    """
    names = _source_info.current_name_stack() + eqn.source_info.name_stack
    with _source_info.user_context(eqn.source_info.traceback, name_stack=names), eqn.ctx.manager:
        results = bind_primitive(eqn.primitive, eqn.params, *operands)
        return [_as_in_equation(x, v.aval) for x, v in zip(results, eqn.outvars, strict=True)]


def _as_in_equation(x: jax.Array, aval: Aval) -> jax.Array:
    is_dimension = x.dtype != aval.dtype and not x.shape and jax.numpy.issubdtype(x.dtype, np.integer)
    return jax.lax.convert_element_type(x, aval.dtype) if is_dimension else x


def bind_primitive(primitive: Primitive, params: Params, *operands: jax.Array) -> list[jax.Array]:
    """Bind a primitive with parameters as they stand in an equation; the list of its results."""
    result = primitive.bind(*operands, **primitive.get_bind_params(params))
    return list(result) if primitive.multiple_results else [result]


def definition(primitive: Primitive) -> Function | None:
    """The function by which a library defined a primitive of its own, to be run or to be compiled; None for one that JAX itself implements."""
    impl: Function = primitive.impl
    return impl if _is_of_library(impl) else _compiled_function(primitive)


def _is_of_library(fn: Function) -> bool:
    function = fn.func if isinstance(fn, functools.partial) else fn
    return isinstance(function, types.FunctionType) and function.__module__.partition(".")[0] != "jax"


def _compiled_function(primitive: Primitive) -> Function | None:
    """The function of a library that `mlir.lower_fun` registered for every platform, or for the CPU."""
    entry = _mlir._lowerings.get(primitive) or _mlir._platform_specific_lowerings["cpu"].get(primitive)
    if entry is None or not isinstance(entry.rule, types.FunctionType) or entry.rule.__code__ is not _LOWER_FUN:
        return None
    fn: Function = inspect.getclosurevars(entry.rule).nonlocals["fun"]
    return fn if _is_of_library(fn) else None


_LOWER_FUN = _mlir.lower_fun(lambda: None).__code__


def trace_thunk(thunk: Callable[[], PyTree]) -> tuple[Jaxpr, list[jax.Array], PyTreeDef]:
    """Trace a function of no arguments: its jaxpr, with everything it closed over (tracers of the
    surrounding trace included) turned into operands; those operands; the tree of its result.

    `jax.make_jaxpr` would make a jitted function of it first, which takes longer than tracing a layer.
    """
    trees: list[PyTreeDef] = []

    def leaves() -> list[jax.Array]:
        found, tree = jax.tree_util.tree_flatten(thunk())
        trees.append(tree)
        return found

    function = linear_util.wrap_init(leaves, debug_info=_api_util.debug_info("traced call", thunk, (), {}))
    jaxpr, _, consts = _partial_eval.trace_to_jaxpr_dynamic(function, [])
    return closed(_partial_eval.convert_constvars_jaxpr(jaxpr), ()), list(consts), trees[0]


def scan_counts(params: Params, operands: int) -> tuple[int, int]:
    """The number of constants and of carried values among the operands of a scan, whose parameters are `params`."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    groups = params["ft_in"].update(range(operands)).unpack()
    return len(list(groups[0])), len(list(groups[1]))


def key_physical_aval(dtype: Dtype) -> Aval:
    """The array that carries one typed random key (or one element of any extended dtype)."""
    return _core.physical_aval(_core.ShapedArray((), dtype))


def wrap_key(data: Array, aval: _core.ShapedArray) -> jax.Array:
    """Key data as a typed key array of the aval's implementation."""
    return jax.random.wrap_key_data(data, impl=aval.dtype._impl)


def random_keys(seed: int, count: int, aval: _core.ShapedArray) -> jax.Array:
    """Different typed keys [count] of the aval's implementation."""
    return jax.random.split(jax.random.key(seed, impl=aval.dtype._impl), max(count, 1))[:count]


def prints(effects: Iterable[object]) -> bool:
    """Whether an effect among those of an equation or a jaxpr is that of `jax.debug.print` or `jax.debug.callback`."""
    return any(isinstance(effect, (_debugging.DebugEffect, _debugging.OrderedDebugEffect)) for effect in effects)


def _frames(source_info: _source_info.SourceInfo) -> Iterator[_source_info.Frame]:
    """The frames behind an equation that are neither JAX's nor ours, the innermost first."""
    raw = source_info.traceback.raw_frames() if source_info.traceback else ((), ())
    inside = itertools.takewhile(lambda frame: frame.file_name != _EXPORT, map(_source_info.raw_frame_to_frame, *raw))
    return (frame for frame in inside if is_user_file(frame.file_name))


def user_frame(source_info: _source_info.SourceInfo) -> str | None:
    """The user's line behind an equation, as "file:line (function)"; None where there is none."""
    return user_line((f.file_name, f.start_line, f.function_name) for f in _frames(source_info))


def calling_function(source_info: _source_info.SourceInfo) -> str | None:
    """The qualified name of the innermost function outside of JAX that an equation stands in; None where there is none."""
    return next((frame.function_name for frame in _frames(source_info)), None)


#: Stands for the user's line where there is none.
NO_LINE = "an unknown line"


def current_frame() -> str | None:
    """The user's line that is traced, as "file:line (function)"; None where there is none."""
    return user_frame(_source_info.current()) or user_line([*_python_frames()])


def _python_frames() -> Iterator[tuple[str, int, str]]:
    """The file, line and function of each frame of this thread that is the user's; JAX's tracebacks end where a trace begins."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename != _EXPORT:
        if is_user_file(frame.f_code.co_filename):
            yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname
        frame = frame.f_back


def name_stack(source_info: _source_info.SourceInfo) -> str:
    """The named scopes of an equation, without those that are JAX's own: transformations, and the text of an einsum."""
    scopes = [scope.name for scope in source_info.name_stack.stack if isinstance(scope, _source_info.Scope)]
    return ".".join(name for name in scopes if "->" not in name)


def abstract_results(primitive: Primitive, avals: Sequence[Aval], params: Params) -> list[Aval]:
    """The avals that JAX's own rule gives the results of an equation."""
    outs, _ = primitive.abstract_eval(*avals, **params)
    return list(outs) if primitive.multiple_results else [outs]


def with_exact_shape(aval: TraceableAval, shape: Dims) -> TraceableAval:
    """The aval with these very dimensions: JAX would make plain ints of subclasses of int."""
    if shape == tuple(aval.shape) and all(type(a) is type(b) for a, b in zip(shape, aval.shape, strict=True)):
        return aval
    plain = plain_shape(shape)
    # JAX keeps one object for all equal avals, so the one that remembers symbols has to be a copy.
    result = _unshared(aval.update(shape=plain))
    object.__setattr__(result, "shape", shape)
    return result


def plain_shape(shape: Dims) -> Dims:
    """The dimensions without what subclasses of int remember."""
    return tuple(int(d) if is_static(d) else d for d in shape)


def _unshared(aval: TraceableAval) -> TraceableAval:
    copy = object.__new__(type(aval))
    for cls in type(aval).__mro__:
        for slot in vars(cls).get("__slots__", ()):
            if slot not in ("__weakref__", "__dict__"):
                object.__setattr__(copy, slot, getattr(aval, slot))
    if "__dict__" in dir(aval):
        for name, value in vars(aval).items():
            object.__setattr__(copy, name, value)
    return copy


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


@functools.cache
def is_extended_dtype(dtype: object) -> bool:
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.extended))


def default_float() -> Dtype:
    return np.dtype(_dtypes.canonicalize_dtype(np.float64))


def canonical_dtype(dtype: Dtype) -> Dtype:
    return _dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


def traceable_dtype(dtype: Dtype) -> Dtype:
    """The dtype that JAX traces with in place of `dtype`; TypeError or ValueError where it has none."""
    canonical = canonical_dtype(dtype)
    return canonical if is_extended_dtype(canonical) else jax.numpy.promote_types(canonical, canonical)


def is_reshape(eqn: Equation) -> bool:
    """Whether an equation gives its operand another shape, without a comparison of their sizes where they have symbols."""
    return eqn.primitive is _lax.reshape_p


def as_weak(array: jax.Array) -> jax.Array:
    """The array, weakly typed as Python's numbers are."""
    return _lax._convert_element_type(array, weak_type=True)


def register_composite_rules(primitive: Primitive, batch: Callable[..., list[jax.Array]]) -> None:
    """Make a primitive whose `jaxpr` parameter is its meaning (of the operands after the first `count`)
    behave as that jaxpr under every transform: evaluation, jit, grad, jvp, transposition; under vmap it becomes
    `batch(size, axis name, operands, axes, **params)`.
    """

    def inline(*operands: jax.Array, jaxpr: Jaxpr, count: int, **_: object) -> list[jax.Array]:
        return eval_jaxpr(jaxpr, *operands[count:])

    def jvp(
        primals: Sequence[jax.Array], tangents: Sequence[jax.Array], *, jaxpr: Jaxpr, count: int, **_: object
    ) -> PyTree:  # fmt: skip
        moved = {i: t for i, t in enumerate(tangents) if not isinstance(t, _ad.Zero)}

        def of_moved(values: dict[int, jax.Array]) -> PyTree:
            return inline(*(values.get(i, x) for i, x in enumerate(primals)), jaxpr=jaxpr, count=count)

        return jax.jvp(of_moved, ({i: primals[i] for i in moved},), (moved,))

    def transpose(
        cotangents: Sequence[jax.Array], *operands: jax.Array, jaxpr: Jaxpr, count: int, **_: object
    ) -> list[jax.Array | None]:
        inner, consts = open_jaxpr(jaxpr)
        return [None] * count + _ad.backward_pass(inner, False, consts, operands[count:], cotangents)

    def batcher(
        axis_data: _batching.AxisData, operands: Sequence[jax.Array], axes: Sequence[int | None], **params: object
    ) -> PyTree:
        if all(axis is None for axis in axes):  # vmap is around it, but does not concern it
            outs = primitive.bind(*operands, **params)
            return outs, [None] * len(outs)
        outs = batch(axis_data.size, axis_data.name, operands, axes, **params)
        return outs, [0] * len(outs)

    primitive.multiple_results = True
    primitive.def_impl(inline)
    primitive.def_effectful_abstract_eval(
        lambda *_, jaxpr, **__: (list(jaxpr.out_avals), {e for e in jaxpr.effects if isinstance(e, SizeEffect)})
    )
    _mlir.register_lowering(primitive, _mlir.lower_fun(inline, multiple_results=True))
    _ad.primitive_jvps[primitive] = jvp
    _ad.primitive_transposes[primitive] = transpose
    _batching.fancy_primitive_batchers[primitive] = batcher


class SizeEffect(_effects.Effect):  # type: ignore[misc]
    """A size of the shapes of other equations is given by data, so that no transformation may leave the equation out."""

    def __repr__(self) -> str:
        return "size"


for _allowed in (
    _effects.control_flow_allowed_effects, _effects.custom_derivatives_allowed_effects, _effects.remat_allowed_effects,
):  # fmt: skip
    _allowed.add_type(SizeEffect)
_SIZE_EFFECTS = frozenset({SizeEffect()})


def defines_sizes(eqn: Equation) -> bool:
    """Whether an equation, or one inside of it, gives a size that depends on data."""
    return any(isinstance(effect, SizeEffect) for effect in eqn.effects)


def register_size_rules(primitive: Primitive, refuse_batch: Callable[..., None]) -> None:
    """Make a primitive without results that gives a size; `refuse_batch(**params)` raises where the size would differ under vmap."""

    def jvp(primals: Sequence[jax.Array], _: object, **params: object) -> PyTree:
        return primitive.bind(*primals, **params), []

    def batcher(
        operands: Sequence[jax.Array], axes: Sequence[int], *, axis: int | None, **params: object
    ) -> PyTree:  # fmt: skip
        if axis is None:
            refuse_batch(**params)
        else:
            primitive.bind(jax.numpy.moveaxis(operands[0], axes[0], 0), axis=axis + 1, **params)
        return [], []

    primitive.multiple_results = True
    primitive.def_effectful_abstract_eval(lambda *_, **__: ([], _SIZE_EFFECTS))
    _ad.primitive_jvps[primitive] = jvp
    _batching.primitive_batchers[primitive] = batcher


def traced_equation(x: object) -> tuple[Primitive, Params, Sequence[object], int] | None:
    """The primitive, parameters, operands and place of the result that a tracer is; None where it is no result of an equation."""
    if not isinstance(x, _partial_eval.DynamicJaxprTracer) or x.parent is None:
        return None
    eqn = x.parent
    place = next((i for i, var in enumerate(eqn.outvars) if var is x.val), None)
    return None if place is None else (eqn.primitive, eqn.params, eqn.in_tracers, place)


def largest_of(x: object) -> Dim | None:
    """The dimension that a traced number is at most, as it is the least of that and of another one; None where nothing is known."""
    if isinstance(x, _partial_eval.DynamicJaxprTracer) and is_literal(x.val):
        return int(x.val.val)
    equation = traced_equation(x)
    if equation is None:
        return None
    primitive, params, operands, _ = equation
    if primitive is _shape_poly.dim_as_value_p:
        dim: Dim = params["dim"]
        return dim
    if primitive in (_lax.min_p, _lax.convert_element_type_p):
        return next((found for found in map(largest_of, operands) if found is not None), None)
    return None


def exact_fraction(x: object) -> tuple[Dim, int] | None:
    """Numerator and denominator, a power of two, of a number that is traced from sizes, and known numbers; None where they are not known.

    Arithmetic of such fractions makes no mistakes, as long as they are not large.
    """
    if isinstance(x, _partial_eval.DynamicJaxprTracer) and is_literal(x.val):
        x = x.val.val
    if isinstance(x, _shape_poly._DimExpr):
        return x, 1
    if isinstance(x, int | float | np.number | np.ndarray):
        return float(x).as_integer_ratio() if np.ndim(x) == 0 and np.isrealobj(x) and np.isfinite(x) else None
    equation = traced_equation(x)
    if equation is None:
        return None
    primitive, params, operands, _ = equation
    if primitive is _shape_poly.dim_as_value_p:
        return params["dim"], 1
    if not (primitive in _OF_FRACTIONS and isinstance(x, jax.Array) and x.dtype in (np.float32, np.float64)):
        return None
    found = [one for one in map(exact_fraction, operands) if one is not None]
    if len(found) < len(operands):
        return None
    return found[0] if primitive is _lax.convert_element_type_p else _of_fractions(primitive, *found)


_OF_FRACTIONS = (_lax.convert_element_type_p, _lax.add_p, _lax.sub_p, _lax.mul_p, _lax.div_p)


def _of_fractions(primitive: Primitive, left: tuple[Dim, int], right: tuple[Dim, int]) -> tuple[Dim, int] | None:
    """The sum, difference, product or quotient of two fractions; None where its denominator is no known power of two."""
    (above, below), (other_above, other_below) = left, right
    if primitive is _lax.mul_p:
        return above * other_above, below * other_below
    if primitive is _lax.div_p:
        if not is_static(other_above) or other_above <= 0 or other_above & (other_above - 1):
            return None
        return above * other_below, below * other_above
    sign = 1 if primitive is _lax.add_p else -1
    return above * other_below + sign * other_above * below, below * other_below


def traced_source(x: object) -> Hashable:
    """A value that is equal for two tracers of one variable or of one number, and for one object; the object has to be kept."""
    if not isinstance(x, _partial_eval.DynamicJaxprTracer):
        return id(x)
    return (str(x.val.aval), repr(x.val.val)) if is_literal(x.val) else id(x.val)


def in_trace_of(tracer: jax.core.Tracer) -> contextlib.AbstractContextManager[None]:
    """Inside, equations become part of the trace that made the tracer, which may be one around the present trace."""
    return _core.set_current_trace(tracer._trace)
