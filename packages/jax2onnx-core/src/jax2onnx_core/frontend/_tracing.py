"""Tracing: the adapted callable in the activation window, on abstract inputs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Hashable, Mapping, Sequence

import jax
from jax2onnx_graph.build.names import Names

from jax2onnx_core import _compat, _compat_comparisons, _compat_options
from jax2onnx_core._array_identity import array_identity
from jax2onnx_core.frontend._adapters import AdaptedCallable
from jax2onnx_core.frontend._advice import advise
from jax2onnx_core.frontend._checkified import error_part_name, with_numbered_checks
from jax2onnx_core.frontend._constant_keys import constant_keys
from jax2onnx_core.frontend._lost_state import lost_state
from jax2onnx_core.frontend._one_device import on_one_device
from jax2onnx_core.frontend._own_batching import without_own_batching
from jax2onnx_core.frontend._printing import printing_lines
from jax2onnx_core.frontend._pytrees import is_too_deep, path_name
from jax2onnx_core.frontend._snapshots import ArraySnapshots
from jax2onnx_core.frontend._sources import sources
from jax2onnx_core.frontend.activation import activation_window, forget_traces, named_modules
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.frontend.sizes import check_questions, check_sizes
from jax2onnx_core.jax_types import Aval, Jaxpr, KeyPath, PyTree, PyTreeDef
from jax2onnx_core.jaxprs import AbsentWeight, Dim, is_extended_dtype, open_jaxpr, struct
from jax2onnx_core.plugins.errors import ConversionError
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_core.symbols._inconclusive_dims import about_a_symbol, place_of, undecided
from jax2onnx_core.symbols._quotients import are_equal, normal_form
from jax2onnx_core.symbols._reshapes import fitting_reshapes

__all__ = ["Traced", "trace"]

# What the names of outputs begin with that are new states of a model.
_NEW_STATE = "new_state"


@dataclasses.dataclass(frozen=True)
class Traced:
    """A traced function: its closed jaxpr, and the pytree, names and avals of its results.

    Attributes:
      jaxpr: the closed jaxpr.
      out_tree, out_names, out_avals: the pytree of the results, and the name and the aval of each.
      weight_names: `array_identity` of an array → its name.
      lost: a text about state that the model cannot keep, if there is some.
      unchanged: the paths of selected states that a call returns as they were.
      undecided: the comparisons of dimensions that the trace took for false without knowing → the user's lines.
      lookups: the dimensions that were looked up in dicts and sets, which took them for no key → the user's lines.
      required: the constraints under which the sizes that the trace took for equal are → the user's lines.
      printing: the user's lines that print, which a model cannot.
      declined: the operations that calls were not traced as, with the reason: something that they use was changed.
      snapshots: the numbers of the constants that are NumPy arrays.
    """

    jaxpr: Jaxpr
    out_tree: PyTreeDef
    out_names: list[str]
    out_avals: list[Aval]
    weight_names: Mapping[Hashable, str]
    lost: str | None
    unchanged: Sequence[str] = ()
    undecided: Mapping[tuple[Dim, Dim], str] = dataclasses.field(default_factory=dict)
    lookups: Mapping[Dim, str] = dataclasses.field(default_factory=dict)
    required: Mapping[str, str] = dataclasses.field(default_factory=dict)
    printing: Sequence[str] = ()
    declined: Sequence[tuple[str, str]] = ()
    snapshots: ArraySnapshots = dataclasses.field(default_factory=ArraySnapshots)

    def with_jaxpr(self, jaxpr: Jaxpr) -> Traced:
        """The same function with another jaxpr, whose results have other dimensions."""
        return dataclasses.replace(self, jaxpr=jaxpr, out_avals=[v.aval for v in open_jaxpr(jaxpr)[0].outvars])


def trace(adapted: AdaptedCallable, inputs: Inputs, registry: Registry) -> Traced:
    """Trace the callable; an error in the user's code passes through with the user's traceback.

    Args:
      adapted: the callable.
      inputs: its inputs.
      registry: the composites that its calls are traced as.

    Raises:
      UndecidedDimensionError: the code asks for the number behind a symbolic dimension.
      ConversionError: the function returns no array, or containers that are nested too deep.
    """

    def call(weights: dict[str, jax.Array], *leaves: jax.Array) -> tuple[list[PyTree], dict[str, jax.Array]]:
        args, kwargs = jax.tree_util.tree_unflatten(inputs.tree, leaves)
        fresh = adapted.fresh(weights, kwargs.pop(adapted.state_keyword, {}))
        with named_modules(fresh.modules()):
            result = fresh(*args, **kwargs)
        _check_result(result)
        # State that the function returns is kept, and so is what it was given.
        kept = {id(leaf) for leaf in (*leaves, *weights.values(), *jax.tree_util.tree_leaves(result))}
        written.update({path: array for path, array in fresh.written().items() if id(array) not in kept})
        traced = {path: array for path, array in written.items() if _compat.is_traced_now(array)}
        found, tree = jax.tree_util.tree_flatten_with_path(with_numbered_checks(result))
        # Flattened here: a container may ask which of its parts are arrays, which their shapes are not.
        paths[:], trees[:] = [path for path, _ in found], [tree]
        return [leaf for _, leaf in found], traced

    written: dict[str, jax.Array] = {}
    paths: list[KeyPath] = []
    trees: list[PyTreeDef] = []

    window, equalities, order = (
        activation_window(registry.composites, registry, inputs.symbols),
        _compat_comparisons.undecided_equalities(are_equal),
        _compat_comparisons.simplified_comparisons(normal_form),
    )
    with window as declined, _compat_options.without_experiments(), equalities as unknown, order:
        try:
            jaxpr, (_, traced) = jax.make_jaxpr(call, return_shape=True)(adapted.absent, *inputs.avals)
        except Exception as error:  # of whatever type where annotations are checked
            cause = about_a_symbol(error)
            if cause is not None:
                raise undecided(cause, inputs.symbols, place_of(error, adapted.place)) from error
            advise(error, inputs, adapted.place)
            raise
        finally:
            if unknown.equal or unknown.lookups:  # a later trace has to ask again
                forget_traces(registry)
    taken = Names()
    names = [taken.unique(_output_name(path, has_states=bool(adapted.states))) for path in paths]
    # Absent weights are constants of the jaxpr like others.
    variables = open_jaxpr(jaxpr)[0].invars
    absent = [AbsentWeight(name, struct(v.aval)) for name, v in zip(sorted(adapted.absent), variables, strict=False)]
    jaxpr = _compat.with_constants(jaxpr, absent)
    for path in _handed_through(jaxpr, list(traced), adapted.names):
        del written[path]
    jaxpr = on_one_device(without_own_batching(_compat.without_dead_equations(jaxpr, len(names))))
    check_sizes(jaxpr, inputs.symbols)
    check_questions({**unknown.equal, **{(dim,): line for dim, line in unknown.lookups.items()}}, inputs.symbols)
    avals = [v.aval for v in open_jaxpr(jaxpr)[0].outvars]
    found = constant_keys(jaxpr)
    keys = [_name(key, adapted.names) or "" for key in found]
    changes = _that_matter(written, jaxpr, adapted.names)
    lost = lost_state(changes, keys, adapted.owners) if changes or keys else None
    unchanged = _unchanged(jaxpr, paths) if adapted.states else ()
    return Traced(
        jaxpr, trees[0], names, avals, adapted.names, lost, unchanged=unchanged, undecided=unknown.equal, lookups=unknown.lookups,
        required=fitting_reshapes(jaxpr, inputs.symbols), printing=printing_lines(jaxpr), declined=declined,
    )  # fmt: skip


def _handed_through(jaxpr: Jaxpr, last: Sequence[str], names: Mapping[Hashable, str]) -> list[str]:
    """Those of the paths of the last results whose result is the constant of that path, also out of a call that returns its operand."""
    inner, consts = open_jaxpr(jaxpr)
    held = {id(v): _name(const, names) for v, const in zip(inner.constvars, consts, strict=True)}
    results = sources(inner, inner.outvars[len(inner.outvars) - len(last) :])
    return [path for path, source in zip(last, results, strict=True) if held.get(id(source)) == path]


def _name(const: object, names: Mapping[Hashable, str]) -> str | None:
    """The path of a weight."""
    return const.name if isinstance(const, AbsentWeight) else names.get(array_identity(const))


def _that_matter(written: Mapping[str, jax.Array], jaxpr: Jaxpr, names: Mapping[Hashable, str]) -> list[str]:
    """The paths of changed state without seeds of random numbers (unsigned integers) that no result depends on."""
    seeds = {path for path, array in written.items() if jax.numpy.issubdtype(array.dtype, jax.numpy.unsignedinteger)}
    inner, consts = open_jaxpr(jaxpr)
    variables = {id(v) for eqn in inner.eqns for v in eqn.invars} | {id(v) for v in inner.outvars} if seeds else ()
    held = [const for v, const in zip(inner.constvars, consts, strict=True) if id(v) in variables]
    read = {_name(const, names) for const in held}
    return [path for path in written if path not in seeds or path in read]


def _unchanged(jaxpr: Jaxpr, paths: Sequence[KeyPath]) -> list[str]:
    """The paths of the new states, among the outputs at these paths, that are inputs; keys aside, whose counters change instead."""
    inner, _ = open_jaxpr(jaxpr)
    given = {id(variable) for variable in inner.invars}
    return [
        path_name(path[1:])
        for path, variable in zip(paths, sources(inner, inner.outvars), strict=True)
        if _is_state(path) and id(variable) in given and not is_extended_dtype(variable.aval.dtype)
    ]


def _is_state(path: KeyPath) -> bool:
    """Whether an output of a model with selected states, which stand beside the result, is one of them."""
    return path[0].idx == 1


def _check_result(result: PyTree) -> None:
    if is_too_deep(result):
        raise ConversionError(
            "The function returns containers that are nested more than 100 deep, or contain themselves."
        )
    if not jax.tree_util.tree_leaves(result):
        raise ConversionError(f"The function returns {result!r}, in which there is no array; a model needs an output.")
    for path, leaf in jax.tree_util.tree_flatten_with_path(result)[0]:
        if not _is_array(leaf):
            place = f" at {jax.tree_util.keystr(path)}" if path else ""
            raise ConversionError(
                f"The function returns {leaf!r:.80}{place}, a {type(leaf).__name__}; a model returns arrays, in lists, tuples, dicts "
                "and other pytrees. Leave it out of the result, or wrap the function in one that returns the arrays."
            )


def _is_array(leaf: object) -> bool:
    """Whether JAX takes a leaf of a result for an array."""
    if inspect.getattr_static(type(leaf), "__jax_array__", None) is not None:
        return True
    try:
        jax.typeof(leaf)
    except TypeError:
        return False
    return True


def _output_name(path: KeyPath, *, has_states: bool) -> str:
    if has_states and _is_state(path):
        return f"{_NEW_STATE}.{path_name(path[1:])}"
    path = path[1:] if has_states else path
    if (of_error := error_part_name(path)) is not None:
        return of_error
    name = path_name(path)
    return f"output_{name}".rstrip("_") if not name or name[0].isdigit() else name
