"""Everything in core that depends on JAX's version or on its private API."""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import functools
import itertools
import os
import sys
import threading
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np
from jax._src import api_util as _api_util
from jax._src import config as _config
from jax._src import core as _core
from jax._src import debugging as _debugging
from jax._src import dtypes as _dtypes
from jax._src import effects as _effects
from jax._src import mesh as _mesh
from jax._src import pjit as _pjit
from jax._src import sharding_impls as _sharding_impls
from jax._src import source_info_util as _source_info
from jax._src import tree_util as _tree_util
from jax._src.export import shape_poly as _shape_poly
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import batching as _batching
from jax._src.interpreters import mlir as _mlir
from jax._src.interpreters import partial_eval as _partial_eval
from jax._src.lax import lax as _lax
from jax._src.lax import parallel as _parallel
from jax._src.state import discharge as _discharge
from jax.extend import linear_util
from jax.extend.core import primitives as _primitives
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.build.names import user_line
from jax2onnx_graph.facts.dims import Dim, Dims, Factor, SymbolicDim, Term, is_static

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

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "LESS_ONE",
    "NO_LINE",
    "ShapedArray",
    "Undecided",
    "abstract_results",
    "as_weak",
    "bind_equation",
    "bind_primitive",
    "bounds",
    "canonical_dtype",
    "check_codes",
    "checkify_kind",
    "closed",
    "cond_p",
    "constrain",
    "constraints_kept",
    "current_frame",
    "default_float",
    "default_options",
    "defines_sizes",
    "definition",
    "dim_expression",
    "divided",
    "eval_jaxpr",
    "has_mesh",
    "in_no_mesh",
    "in_trace_of",
    "inconclusive_dimension_error",
    "inner_jaxprs",
    "is_checkify_effect",
    "is_checkify_error",
    "is_checkify_imported",
    "is_drop_var",
    "is_extended_dtype",
    "is_jaxpr",
    "is_literal",
    "is_reshape",
    "is_symbolic_dim",
    "is_type_cast",
    "is_user_file",
    "key_physical_aval",
    "largest_of",
    "name_stack",
    "on_a_mesh",
    "open_jaxpr",
    "options_of",
    "prints",
    "random_keys",
    "rebuild_jaxpr",
    "register_composite_rules",
    "register_size_rules",
    "scan_counts",
    "scan_p",
    "scope_of",
    "size_comparisons",
    "solve_dims",
    "substitute",
    "symbol",
    "symbols_of",
    "trace_context",
    "trace_thunk",
    "traceable_dtype",
    "traced_equation",
    "traced_source",
    "tree_differences",
    "typed_sharding",
    "undecided_equalities",
    "unknown_symbol_error",
    "user_frame",
    "while_p",
    "with_check_codes",
    "with_constants",
    "with_exact_shape",
    "with_known_dim",
    "without_dead_equations",
    "without_experiments",
    "without_mesh",
    "without_references",
    "without_sharding",
    "wrap_key",
]  # fmt: skip

ShapedArray = _core.ShapedArray
trace_context = _config.trace_context
#: The primitives of control flow, for what evaluates them.
cond_p, scan_p, while_p = _primitives.cond_p, _primitives.scan_p, _primitives.while_p

inconclusive_dimension_error = _core.InconclusiveDimensionOperation
unknown_symbol_error = _shape_poly.UnexpectedDimVar
tree_differences = _tree_util.equality_errors_pytreedef
is_user_file = _source_info.is_user_filename

# Our own frames are not the user's, and frames around `to_onnx` are not those of the function.
_EXPORT = os.path.join(os.path.dirname(__file__), "program", "export.py")
_source_info.register_exclusion(os.path.dirname(__file__))

_CHECKIFY = "jax._src.checkify"

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
    """The function by which a library defined a primitive of its own; None for one that JAX itself implements."""
    impl: Function = primitive.impl
    function = impl.func if isinstance(impl, functools.partial) else impl
    of_jax = not isinstance(function, types.FunctionType) or function.__module__.partition(".")[0] == "jax"
    return None if of_jax else impl


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


def is_symbolic_dim(dim: object) -> TypeIs[SymbolicDim]:
    """Whether a dimension is an expression of symbols."""
    return isinstance(dim, _shape_poly._DimExpr)


def scope_of(dim: _shape_poly._DimExpr) -> jax.export.SymbolicScope:
    return dim.scope


def symbols_of(dim: _shape_poly._DimExpr) -> set[str]:
    """Names of the symbols in a dimension expression."""
    return dim._get_vars()


def dim_expression(dim: _shape_poly._DimExpr) -> list[Term]:
    """The terms that a dimension expression is the sum of."""
    return [
        (coefficient, [(f.var if f.var is not None else (f.operation, f.operands), e) for f, e in term._factors])
        for term, coefficient in dim._sorted_terms
    ]


def bounds(dim: Dim) -> tuple[float, float]:
    """The least and the greatest value that a dimension can have, as far as JAX can tell."""
    if is_static(dim):
        return dim, dim
    return _shape_poly._bounds_decision(dim, _shape_poly.BoundsPrecision.BEST)


def substitute(dim: _shape_poly._DimExpr, env: Mapping[str, Dim]) -> Dim:
    """The expression with its symbols replaced (by expressions of one other scope, or numbers)."""
    return dim._evaluate(dict(env))


def divisors(dim: _shape_poly._DimExpr) -> dict[str, int]:
    """The symbols of the scope of a dimension that have a constraint `mod(symbol, number) == 0`, with the number."""
    found: dict[str, int] = {}
    number = _shape_poly._DimExpr._to_constant
    for term, (value, _) in dim.scope._normalization_rules.items():
        (factor, exponent), *others = term._factors
        if others or exponent != 1 or factor.operation != _shape_poly._DimFactor.MOD or number(value) != 0:
            continue
        dividend, divisor = factor.operands
        name = dividend._to_var() if isinstance(dividend, _shape_poly._DimExpr) else None
        times = number(divisor)
        if name is not None and times is not None:
            found[name] = times
    return found


def constrain(scope: jax.export.SymbolicScope, constraints: Sequence[str]) -> None:
    """Add constraints to a scope, about symbols that no expression of it has yet."""
    for text in constraints:
        scope._parse_and_process_explicit_constraint(text)
        scope._bounds_cache.clear()
        scope._decision_initial_state = None


#: What the symbol ends with that stands for a size which may be 0, and is 1 more.
LESS_ONE = "__plus_1"


# JAX's rules that want an axis to have as many elements as are taken from it.
_TAKES_ELEMENTS = ("_gather_shape_rule", "_dynamic_slice_shape_rule")


class _Comparisons:
    """JAX's comparisons of sizes, of which some are decided that JAX leaves open because a size may be 0.

    1. A polynomial without negative coefficients of sizes that are at least 0 is at least 0.
    2. Single elements may be taken from an axis that may be empty: where it is, JAX itself takes none.
    """

    def __init__(self) -> None:
        self._original = _shape_poly._geq_decision
        self._lock, self._windows = threading.Lock(), 0
        self._thread = threading.local()

    @contextlib.contextmanager
    def of_sizes(self, has_sizes: Callable[[], bool]) -> Iterator[None]:
        """Inside, these are decided; for all sizes of this thread where it `has_sizes` from data."""
        outer = vars(self._thread).get("has_sizes")
        self._thread.has_sizes = has_sizes
        self._enter(1)
        try:
            yield
        finally:
            self._enter(-1)
            self._thread.has_sizes = outer

    def _has_sizes(self) -> bool:
        found = vars(self._thread).get("has_sizes")
        return found is not None and found()

    def _enter(self, change: int) -> None:
        with self._lock:
            self._windows += change
            _shape_poly._geq_decision = self._decided if self._windows else self._original

    def _decided(self, left: Dim, right: Dim, text: Callable[[], str]) -> bool:
        try:
            return bool(self._original(left, right, text))
        except inconclusive_dimension_error:
            difference, asked = left - right, _asker(sys._getframe(1)).f_code.co_name
            if not (self._has_sizes() or any(name.endswith(LESS_ONE) for name in symbols_of(difference))):
                raise
            if _is_never_negative(difference) or (
                asked in _TAKES_ELEMENTS and right == 1 and (_is_never_negative(left) or bounds(left)[0] >= 0)
            ):
                return True
            raise


def _is_never_negative(dim: Dim) -> bool:
    """Whether a dimension is a sum of products of sizes that are at least 0; a symbol less its least number is one."""
    if not is_symbolic_dim(dim):
        return bool(dim >= 0)
    if any(abs(coefficient) >= 2**31 for coefficient, _ in dim_expression(dim)):  # JAX computes with int32
        return False
    scope, least = jax.export.SymbolicScope(), {}
    for name in symbols_of(dim):
        low = bounds(symbol(name, dim))[0]
        least[name] = _shape_poly._DimExpr._from_var(name, scope) + (int(low) if low > 0 else 0)
    rest = substitute(dim, least)
    terms = dim_expression(rest) if is_symbolic_dim(rest) else [(int(rest), [])]
    return all(
        coefficient >= 0 and all(isinstance(factor, str) for factor, _ in factors) for coefficient, factors in terms
    )


size_comparisons = _Comparisons().of_sizes


@contextlib.contextmanager
def constraints_kept(scope: jax.export.SymbolicScope) -> Iterator[None]:
    """On leaving, the scope has the constraints again that it has now."""
    before = list(scope._explicit_constraints)
    try:
        yield
    finally:
        if len(scope._explicit_constraints) != len(before):
            scope._explicit_constraints[:] = before
            scope._bounds_cache.clear()
            scope._decision_initial_state = None


def solve_dims(avals: Sequence[Aval], tree: PyTreeDef) -> tuple[dict[str, Dim], list[tuple[str, int, int]]]:
    """JAX's own solution of the symbols from the shapes of the arguments.

    Returns symbol → expression over synthetic variables, and those variables as
    `(name, argument index, axis)`. Raises ValueError when a symbol cannot be solved.
    """
    solution, _, synthetic = _shape_poly.solve_dim_vars(tuple(avals), tree)
    return dict(solution), list(synthetic)


def with_known_dim(eqn: Equation) -> Equation:
    """The equation; one whose result is the size of a dimension that is known copies that number."""
    if eqn.primitive is not _shape_poly.dim_as_value_p or is_symbolic_dim(eqn.params["dim"]):
        return eqn
    aval = eqn.outvars[0].aval
    number = _core.Literal(np.asarray(int(eqn.params["dim"]), aval.dtype), aval)
    return eqn.replace(primitive=_lax.copy_p, invars=[number], params={})


@dataclasses.dataclass(frozen=True)
class Undecided:
    """Questions about symbolic dimensions that code outside of JAX asked and JAX took for false, without knowing.

    Attributes:
      equal: the pairs that were compared → "file:line (function)".
      lookups: the dimensions that were looked up in a dict or a set, whose keys nobody sees → the same.
    """

    equal: dict[tuple[Dim, Dim], str] = dataclasses.field(default_factory=dict)
    lookups: dict[Dim, str] = dataclasses.field(default_factory=dict)


#: The comparisons that JAX answers by its own equality, or refuses.
_ORDER = ("__ne__", "__lt__", "__le__", "__gt__", "__ge__")
#: The functions through which a question about a dimension goes before it is answered.
_BETWEEN = {*_ORDER, "deferred", "is_true"}


def _is_array(value: object) -> bool:
    return type(value) is not int and isinstance(value, jax.Array)


def _deferring(method: Callable[[Dim, Dim], bool]) -> Callable[[Dim, Dim], bool]:
    """The comparison of a dimension, which leaves one with an array to the array."""

    def deferred(dim: Dim, other: Dim) -> bool:
        return NotImplemented if _is_array(other) else method(dim, other)

    return deferred


def _asker(frame: types.FrameType) -> types.FrameType:
    """The frame of the code that asks a question about a dimension, of which `frame` is one on the way."""
    while frame.f_code.co_name in _BETWEEN and frame.f_back is not None:
        frame = frame.f_back
    return frame


class _Equality:
    """`==`, `hash` and `bool` of symbolic dimensions while traces are made, and comparisons of dimensions with arrays.

    JAX's own equality says False where it does not know. Then a further proof is asked, and what stays undecided is recorded.
    A dimension is true where it is not 0. Beside an array it is one.
    """

    def __init__(self) -> None:
        self._original = _shape_poly._DimExpr.__eq__
        self._original_hash = _shape_poly._DimExpr.__hash__
        self._others = {name: vars(_shape_poly._DimExpr)[name] for name in _ORDER}
        self._beside_arrays = {name: _deferring(method) for name, method in self._others.items()}
        self._lock, self._windows = threading.Lock(), 0
        self._thread = threading.local()

    @contextlib.contextmanager
    def recorded(self, proved: Callable[[Dim, Dim], bool]) -> Iterator[Undecided]:
        """Inside, the questions are recorded that code of this thread asks.

        Args:
          proved: whether two dimensions that JAX cannot tell to be equal are.
        """
        outer = vars(self._thread).get("found"), vars(self._thread).get("proved")
        self._thread.found = found = Undecided()
        self._thread.proved = proved
        self._enter(1)
        try:
            yield found
        finally:
            self._enter(-1)
            self._thread.found, self._thread.proved = outer

    def _enter(self, change: int) -> None:
        with self._lock:
            self._windows += change
            _shape_poly._DimExpr.__eq__ = self._equal if self._windows else self._original
            _shape_poly._DimExpr.__hash__ = self._hashed if self._windows else self._original_hash
            for name, method in (self._beside_arrays if self._windows else self._others).items():
                setattr(_shape_poly._DimExpr, name, method)
            if self._windows:
                _shape_poly._DimExpr.__bool__ = self._is_true
            elif "__bool__" in vars(_shape_poly._DimExpr):
                del _shape_poly._DimExpr.__bool__

    @property
    def _equal(self) -> Callable[[Dim, Dim], bool]:
        def equal(dim: Dim, other: Dim) -> bool:
            if _is_array(other):
                return NotImplemented
            answer = self._original(dim, other) or self._is_proved(dim, other)
            found = vars(self._thread).get("found")
            if answer is False and found is not None:
                frame = _asker(sys._getframe(1))
                if _is_asked_by_user(frame):
                    self._thread.found = None  # what follows compares dimensions, too
                    if _may_be_zero(dim, other):
                        found.equal.setdefault((dim, other), _place(frame))
                    self._thread.found = found
            return answer

        return equal

    @property
    def _is_true(self) -> Callable[[Dim], bool]:
        def is_true(dim: Dim) -> bool:
            return dim != 0

        return is_true

    @property
    def _hashed(self) -> Callable[[Dim], int]:
        def hashed(dim: Dim) -> int:
            found = vars(self._thread).get("found")
            if found is not None:
                frame = sys._getframe(1)
                if not str(frame.f_globals.get("__name__", "")).startswith("jax") and _looks_up(frame):
                    self._thread.found = None  # the mapping hashes the dimension, too
                    found.lookups.setdefault(dim, _place(frame))
                    self._thread.found = found
            return self._original_hash(dim)

        return hashed

    def _is_proved(self, dim: Dim, other: Dim) -> bool:
        proved = vars(self._thread).get("proved")
        expression = _shape_poly._DimExpr
        is_of_one_scope = isinstance(dim, expression) and (
            isinstance(other, int) or (isinstance(other, expression) and dim.scope is other.scope)
        )
        if proved is None or not is_of_one_scope:
            return False
        self._thread.proved = None  # the proof compares dimensions, too
        try:
            return bool(proved(dim, other))
        finally:
            self._thread.proved = proved


def _place(frame: types.FrameType) -> str:
    return user_line([(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)]) or ""


_LOOKUPS = [method.__name__ for method in (dict.get, dict.setdefault, dict.pop)]


def _looks_up(frame: types.FrameType) -> bool:
    """Whether code of no installed library asks whether a dict or a set has a key, with an answer for the case that it has not."""
    if "-packages" in frame.f_code.co_filename or not _is_asked_by_user(frame):
        return False
    instructions = list(dis.get_instructions(frame.f_code))
    current = next((one for one in instructions if one.offset == frame.f_lasti), None)
    if current is None or current.opname == "CONTAINS_OP":
        return current is not None
    same_line = (one for one in instructions if one.positions is not None and one.positions.lineno == frame.f_lineno)
    return "CALL" in current.opname and any(one.argval in _LOOKUPS for one in same_line)


def _is_asked_by_user(frame: types.FrameType) -> bool:
    """Whether a comparison is made by code that is neither JAX's nor of this project's packages, which know what they ask."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return is_user_file(frame.f_code.co_filename) and not package.startswith("jax2onnx_")


def _may_be_zero(dim: Dim, other: Dim) -> bool:
    """Whether two dimensions are equal for some sizes of their symbols."""
    try:
        least, largest = bounds(dim - other)
    except (TypeError, ValueError, inconclusive_dimension_error):  # of other scopes, or no dimension
        return False
    return least <= 0 <= largest


_equality = _Equality()
undecided_equalities = _equality.recorded


def prints(effects: Iterable[object]) -> bool:
    """Whether an effect among those of an equation or a jaxpr is that of `jax.debug.print` or `jax.debug.callback`."""
    return any(isinstance(effect, (_debugging.DebugEffect, _debugging.OrderedDebugEffect)) for effect in effects)


def user_frame(source_info: _source_info.SourceInfo) -> str | None:
    """The user's line behind an equation, as "file:line (function)"; None where there is none."""
    raw = source_info.traceback.raw_frames() if source_info.traceback else ((), ())
    inside = itertools.takewhile(lambda frame: frame.file_name != _EXPORT, map(_source_info.raw_frame_to_frame, *raw))
    return user_line((f.file_name, f.start_line, f.function_name) for f in inside if is_user_file(f.file_name))


#: Stands for the user's line where there is none.
NO_LINE = "an unknown line"


def current_frame() -> str | None:
    """The user's line that is traced, as "file:line (function)"; None where there is none."""
    return user_frame(_source_info.current())


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
    plain = _plain(shape)
    # JAX keeps one object for all equal avals, so the one that remembers symbols has to be a copy.
    result = _unshared(aval.update(shape=plain))
    object.__setattr__(result, "shape", shape)
    return result


def _plain(shape: Dims) -> Dims:
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


def symbol(name: str, like: _shape_poly._DimExpr) -> Dim:
    """The symbol `name` of the scope of the expression `like`."""
    return _shape_poly._DimExpr._from_var(name, like.scope)


def operation(name: str, operands: Sequence[Dim], like: _shape_poly._DimExpr) -> Dim:
    """The dimension that an operation ("floordiv", "mod", "max", "min") of the scope of `like` is, as it is written."""
    return _shape_poly._DimExpr._from_operation(name, *operands, scope=like.scope)


def term(coefficient: int, factors: Sequence[tuple[Factor, int]], like: _shape_poly._DimExpr) -> Dim:
    """One term of `dim_expression` as a dimension of the scope of `like`."""
    product: Dim = coefficient
    for factor, exponent in factors:
        one = symbol(factor, like) if isinstance(factor, str) else operation(*factor, like)
        for _ in range(exponent):
            product = product * one
    return product


@functools.cache
def is_extended_dtype(dtype: object) -> bool:
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.extended))


def is_checkify_imported() -> bool:
    """Whether anybody uses `jax.experimental.checkify`; JAX alone does not."""
    return _CHECKIFY in sys.modules


def is_checkify_error(value: object) -> bool:
    """Whether a result is the error of a function of `checkify`."""
    return is_checkify_imported() and isinstance(value, sys.modules[_CHECKIFY].Error)


def is_checkify_effect(key: object) -> bool:
    """Whether a key is a kind of errors of `checkify`."""
    return is_checkify_imported() and isinstance(key, sys.modules[_CHECKIFY].ErrorEffect)


def checkify_kind(effect: PyTree) -> str:
    """The name of a kind of errors: that of its class, with the types of the arguments in its text."""
    types = ", ".join(f"{x.dtype}{list(x.shape) if x.shape else ''}" for x in effect.shape_dtypes)
    return f"{effect.error_type.__name__}({types})" if types else effect.error_type.__name__


def check_codes(error: PyTree) -> list[int]:
    """The codes of the checks that an error of `checkify` may come from, in order."""
    return sorted(error._metadata)


def with_check_codes(error: PyTree, code: Callable[[jax.Array], jax.Array], codes: Mapping[int, int]) -> PyTree:
    """An error of `checkify` with other codes.

    Args:
      error: the error.
      code: computes the new codes from its codes.
      codes: the codes of all checks → the new ones.
    """
    new = {effect: code(old) for effect, old in error._code.items()}
    return dataclasses.replace(error, _code=new, _metadata={codes[c]: kind for c, kind in error._metadata.items()})


def default_float() -> Dtype:
    return np.dtype(_dtypes.canonicalize_dtype(np.float64))


def canonical_dtype(dtype: Dtype) -> Dtype:
    return _dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


def traceable_dtype(dtype: Dtype) -> Dtype:
    """The dtype that JAX traces with in place of `dtype`; TypeError or ValueError where it has none."""
    canonical = canonical_dtype(dtype)
    return canonical if is_extended_dtype(canonical) else jax.numpy.promote_types(canonical, canonical)


# What rules and decompositions are written for: JAX's defaults, with 64-bit types.
_DEFAULT_OPTIONS = {
    "jax_enable_x64": True,
    "jax_explicit_x64_dtypes": "allow",
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_default_matmul_precision": None,
    "jax_legacy_prng_key": "allow",
    "jax_random_seed_offset": 0,
    "jax_disable_jit": False,
    "jax_no_tracing": False,
    "jax_no_execution": False,
    "jax_debug_infs": False,
    "jax_debug_key_reuse": False,
    "jax_debug_nans": False,
    "jax_enable_checks": False,
    "jax_check_static_indices": False,
    "jax_check_tracer_leaks": False,
    "jax_error_checking_behavior_divide": "ignore",
    "jax_error_checking_behavior_nan": "ignore",
    "jax_error_checking_behavior_oob": "ignore",
    "jax_transfer_guard_device_to_device": "allow",
    "jax_transfer_guard_device_to_host": "allow",
    "jax_transfer_guard_host_to_device": "allow",
}
# Other jaxprs for the same operations: primitives that plugins do not know, weights as literals.
_EXPERIMENTS = {
    "jax_custom_jvp3": False,
    "jax_custom_vjp3": False,
    "jax_remat3": False,
    "jax_scan3": False,
    "jax_use_simplified_jaxpr_constants": False,
}


def default_options() -> contextlib.AbstractContextManager[None]:
    """Inside, JAX has its default options and 64-bit types, whatever the user has set."""
    return _options(_DEFAULT_OPTIONS | _EXPERIMENTS)


def without_experiments() -> contextlib.AbstractContextManager[None]:
    """Inside, the user's options hold, but for those by which JAX tries out another form of jaxprs."""
    return _options(_EXPERIMENTS)


def options_of(eqn: Equation) -> contextlib.AbstractContextManager[None]:
    """Inside, those options hold that an equation remembers from its trace, and that change what it computes."""
    kept, option = eqn.ctx.threefry_partitionable, _config.threefry_partitionable
    return contextlib.nullcontext() if option.value == kept else option(kept)


@contextlib.contextmanager
def _options(values: Mapping[str, object]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, value in values.items():
            state = _config.config_states.get(name)  # some options are older or newer than this JAX
            if state is not None and state.value != value:
                stack.enter_context(state(value))
        yield


@contextlib.contextmanager
def without_mesh() -> Iterator[None]:
    """Inside, JAX is in the context of no mesh, whatever `jax.set_mesh` was called with."""
    concrete = _sharding_impls._internal_use_concrete_mesh(_mesh.empty_concrete_mesh)
    with jax.sharding.use_abstract_mesh(_mesh.empty_abstract_mesh), concrete:
        yield


def on_a_mesh(eqn: Equation) -> bool:
    """Whether an equation, or one of its results, knows of a mesh of devices."""
    return not eqn.ctx.cur_abstract_mesh.empty or any(map(has_mesh, eqn.outvars))


def has_mesh(atom: Atom) -> bool:
    """Whether the type of a variable knows of a mesh of devices."""
    return _has_mesh(atom.aval)


def _has_mesh(aval: object) -> bool:
    return isinstance(aval, _core.ShapedArray) and not aval.sharding.mesh.empty


def without_sharding(aval: Aval) -> Aval:
    """The aval of the whole array, as if there were one device."""
    if not _has_mesh(aval):
        return aval
    return with_exact_shape(_core.ShapedArray(_plain(aval.shape), aval.dtype, aval.weak_type), aval.shape)


def typed_sharding(sharding: object) -> jax.sharding.NamedSharding | None:
    """A sharding that is part of a type, because axes of its mesh are explicit; None for any other."""
    if isinstance(sharding, jax.sharding.NamedSharding) and any(
        kind is jax.sharding.AxisType.Explicit for kind in sharding.mesh.axis_types
    ):
        return sharding
    return None


def divided(array: jax.Array, sharding: jax.sharding.NamedSharding) -> jax.Array:
    """The array, divided over the devices that there are."""
    if isinstance(sharding.mesh, jax.sharding.Mesh):
        return jax.device_put(array, sharding)
    mesh = sharding.mesh
    devices = np.array(jax.devices()[: mesh.size]).reshape(mesh.axis_sizes)
    concrete = jax.sharding.Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types)
    return jax.device_put(array, jax.sharding.NamedSharding(concrete, sharding.spec))


def in_no_mesh(eqn: Equation) -> Equation:
    """The equation, as if it had been traced in the context of no mesh; its shardings are left open."""
    params = {name: _open_sharding(name, value) for name, value in eqn.params.items()}
    if eqn.ctx.cur_abstract_mesh.empty:
        return eqn.replace(params=params)
    with eqn.ctx.manager, without_mesh():
        return eqn.replace(params=params, ctx=_core.JaxprEqnContext())


def is_reshape(eqn: Equation) -> bool:
    """Whether an equation gives its operand another shape, without a comparison of their sizes where they have symbols."""
    return eqn.primitive is _lax.reshape_p


_TYPE_CASTS = (_core.pvary_p, _core.reduced_vary_cast_p, _parallel.preduced_p, _parallel.vary_unreduced_cast_p)


def is_type_cast(eqn: Equation) -> bool:
    """Whether an equation says nothing but along which axes of a mesh its operand differs between devices."""
    return eqn.primitive in _TYPE_CASTS


def _open_sharding(name: str, value: object) -> object:
    if name == "out_sharding" or (name == "sharding" and isinstance(value, jax.sharding.NamedSharding)):
        return None
    if name in ("in_shardings", "out_shardings") and isinstance(value, tuple):
        return (_sharding_impls.UNSPECIFIED,) * len(value)
    return value


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


def traced_source(x: object) -> Hashable:
    """A value that is equal for two tracers of one variable or of one number, and for one object; the object has to be kept."""
    if not isinstance(x, _partial_eval.DynamicJaxprTracer):
        return id(x)
    return (str(x.val.aval), repr(x.val.val)) if is_literal(x.val) else id(x.val)


def in_trace_of(tracer: jax.core.Tracer) -> contextlib.AbstractContextManager[None]:
    """Inside, equations become part of the trace that made the tracer, which may be one around the present trace."""
    return _core.set_current_trace(tracer._trace)
