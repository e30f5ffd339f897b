"""Linen modules with their variables, in the forms in which programs hold them, as functions with named weights."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import itertools
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Adapted, AdaptedStates, AdaptedTraining, Registry, entry_of, errors
from jax2onnx_core.jax_types import Function, KeyPath, PyTree
from jax2onnx_graph.build.names import numbered

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["register"]

#: Collection → tree of arrays.
Variables = Mapping[str, Any]

_BOUND = (
    "Give to_onnx the module with its variables: module.bind(variables), (module, variables) or "
    "functools.partial(module.apply, variables)."
)


def register(registry: Registry) -> None:
    """Contribute the adapters of modules, pairs of module and variables, `module.apply`, partials of it, variables and training states."""
    registry.adapter("flax.linen:Module", _adapt_bound, claims=_is_bound)
    registry.adapter("flax.linen:Module", _adapt_unbound, claims=_is_unbound)
    registry.adapter("flax.linen:Module", _adapt_pair, claims=_is_pair)
    registry.adapter("flax.linen:Module", _adapt_partial, claims=_is_partial)
    registry.adapter("flax.linen:Module", _adapt_apply, claims=_is_apply)
    registry.adapter("flax.linen:Module", _adapt_variables, claims=_is_variables)
    registry.adapter("flax.linen:Module", _adapt_struct, claims=_is_struct)


# -- modules that are bound to their variables ----------------------------------------------


def _is_bound(value: object) -> bool:
    import flax.linen as nn

    return isinstance(value, nn.Module) and value.scope is not None


def _adapt_bound(module: nn.Module) -> Adapted:
    """Adapt a bound module, or a bound part of one; whatever a call changes is changed in the copy alone."""
    from flax.core.scope import union_filters

    unbound, variables = module.unbind()
    scope = module.scope
    assert scope is not None
    made = _adapt_variables(variables)
    rngs = {name: rng.as_jax_rng() for name, rng in scope.rngs.items()}
    keys = {f"rngs.{name}": key for name, key in rngs.items()}

    def fresh(values: Variables) -> nn.Module:
        return unbound.bind(made.fresh(values), rngs=rngs, mutable=scope.mutable)

    def written(copy: nn.Module) -> dict[str, jax.Array]:
        after = _weights(copy.variables)
        return {name: array for name, array in after.items() if array is not made.weights.get(name, array)}

    def states(wanted: object) -> AdaptedStates | None:
        chosen = _collections(variables, wanted)

        def with_states(values: Mapping[str, jax.Array]) -> nn.Module:
            return bound(made.fresh(values), chosen)

        return AdaptedStates(_weights(variables, chosen), with_states, lambda copy: _weights(copy.variables, chosen))

    def bound(held: Variables, mutable: Collection[str]) -> nn.Module:
        return unbound.bind(held, rngs=rngs, mutable=union_filters(scope.mutable, mutable))

    owner = type(module).__name__
    owners = {**dict.fromkeys(keys, owner), **{name: made.owners[name] or owner for name in made.weights}}
    return Adapted(
        fresh, {**made.weights, **keys}, written=written, around=_advised, owners=owners, states=states,
        training=lambda wanted: _training(variables, bound, wanted),
    )  # fmt: skip


def _training(
    variables: Variables, held_by: Callable[[Variables, Collection[str]], Any], wanted: object
) -> AdaptedTraining | None:
    """The collection "params" as what is trained, and the other collections, which a call may change.

    Args:
      variables: all collections.
      held_by: makes a model of collections and the names of those that are mutable.
      wanted: what says which parameters are trained: Linen has no terms for that.
    """
    if wanted is not None or "params" not in variables:
        return None
    others = {name: tree for name, tree in variables.items() if name != "params"}
    return AdaptedTraining(
        variables["params"], others,
        fresh=lambda params, state: held_by({"params": params, **state}, [*others]),
        read=lambda model: {name: model.variables[name] for name in others},
        whole=lambda params, state: {"params": params, **state},
    )  # fmt: skip


def _is_unbound(value: object) -> bool:
    import flax.linen as nn

    return isinstance(value, nn.Module) and value.scope is None


def _adapt_unbound(module: nn.Module) -> Adapted:
    """Adapt a module without variables, to which functions may give variables; called by itself, it fails."""
    return Adapted(lambda _: module, {}, around=_advised)


# -- modules and variables apart ------------------------------------------------------------


def _is_pair(value: object) -> bool:
    import flax.linen as nn

    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], nn.Module)


def _adapt_pair(pair: tuple[nn.Module, Variables]) -> Adapted:
    return _adapt_call(*pair)


def _is_partial(value: object) -> bool:
    return isinstance(value, functools.partial) and _is_apply(value.func) and len(value.args) == 1


def _adapt_partial(partial: functools.partial[PyTree]) -> Adapted:
    assert isinstance(partial.func, types.MethodType)
    return _adapt_call(_module_of(partial.func), *partial.args, **partial.keywords)


def _adapt_call(module: nn.Module, variables: Variables, **options: Any) -> Adapted:
    """Adapt `module.apply(variables, …)` as a function with the signature of the module's `__call__`."""
    made = _adapt_variables(_checked(module, variables))
    given = _weights({"": options})

    variables = made.fresh({})

    def fresh(values: Variables) -> Function:
        held, bound = made.fresh(values), _replaced({"": options}, values)[""] if values else options

        def call(*args: PyTree, **kwargs: PyTree) -> PyTree:
            return _apply(module, held, *args, **{**bound, **kwargs})

        if "method" not in options:
            taken = options.keys() & inspect.signature(module.__call__).parameters.keys()
            called = functools.partial(module.__call__, **{name: options[name] for name in taken})
            functools.update_wrapper(call, called, assigned=())
        return call

    def states(wanted: object) -> AdaptedStates | None:
        chosen = _collections(variables, wanted)
        if chosen and "mutable" in options:
            raise errors.OptionError(
                f"states={wanted!r:.80} makes new variables outputs, and so does mutable={options['mutable']!r}; give one of them."
            )
        return AdaptedStates(
            _weights(variables, chosen),
            lambda values: stateful(made.fresh(values), chosen),
            lambda copy: _weights(copy.variables, chosen),
        )

    def stateful(held: Variables, mutable: Collection[str]) -> _StatefulCall:
        return _StatefulCall(module, held, {**options, "mutable": [*mutable]})

    return dataclasses.replace(
        made, fresh=fresh, weights={**made.weights, **given}, states=states,
        training=lambda wanted: _training(variables, stateful, wanted),
    )  # fmt: skip


class _StatefulCall:
    """`module.apply` with some mutable collections; `variables` are those after the call."""

    def __init__(self, module: nn.Module, variables: Variables, options: Mapping[str, Any]) -> None:
        self.variables, self._module, self._options = variables, module, options

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        result, new = _apply(self._module, self.variables, *args, **{**self._options, **kwargs})
        self.variables = {**self.variables, **new}
        return result


def _is_apply(value: object) -> bool:
    import flax.linen as nn

    return isinstance(value, types.MethodType) and value.__func__ is nn.Module.apply


def _adapt_apply(method: types.MethodType) -> Adapted:
    return Adapted(lambda _: functools.partial(_apply, _module_of(method)), {})


def _module_of(method: types.MethodType) -> nn.Module:
    """The module of a bound `apply`."""
    import flax.linen as nn

    assert isinstance(method.__self__, nn.Module)
    return method.__self__


def _apply(module: nn.Module, variables: Variables, /, *args: PyTree, **kwargs: PyTree) -> PyTree:
    """Call `module.apply`, and add to its errors what the user can do."""
    with _advice():
        return module.apply(_checked(module, variables), *args, **kwargs)


def _checked(module: nn.Module, variables: object) -> Variables:
    if isinstance(variables, Mapping):
        return variables
    raise errors.InputError(
        f"The first argument of {type(module).__name__}.apply is the variables, a dict of collections, not "
        f"{'an array' if isinstance(variables, jax.Array) else repr(variables)[:80]}. {_BOUND}"
    )


# -- variables alone ------------------------------------------------------------------------


def _is_variables(value: object) -> bool:
    return isinstance(entry_of(value, "params"), Mapping)


def _adapt_variables(variables: Variables) -> Adapted:
    """Adapt collections of arrays; those of NumPy, as checkpoints have them, become JAX's."""
    variables = jax.tree.map(_as_jax, variables)
    weights = _weights(variables)
    owners = {name: name.rpartition(".")[0] for name in weights}
    return Adapted(lambda values: _replaced(variables, values) if values else variables, weights, owners=owners)


def _is_struct(value: object) -> bool:
    """Whether `value` is a dataclass of Flax's, such as a `TrainState`, that holds parameters."""
    return "_flax_dataclass" in vars(type(value)) and isinstance(vars(value).get("params"), Mapping)


def _adapt_struct(state: Any) -> Adapted:
    collections = {name: value for name, value in vars(state).items() if isinstance(value, Mapping)}
    made = _adapt_variables(collections)
    return dataclasses.replace(made, fresh=lambda values: state.replace(**made.fresh(values)))


def _as_jax(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


def _unboxed(tree: PyTree) -> PyTree:
    """The variables without their metadata; in the context of a mesh, Flax's own `unbox` would copy them to their shardings."""
    from flax.core import meta

    def bare(box: meta.AxisMetadata[PyTree]) -> PyTree:
        return box.unbox(apply_constraint=False) if isinstance(box, meta.Partitioned) else box.unbox()

    return meta.map_axis_meta(bare, tree)


def _named(variables: Variables) -> Iterator[tuple[str, KeyPath, str, jax.Array]]:
    """Each array with its collection, its path in it and its name: the path, after the collection where another array has that name.

    Names that are equal even so are numbered.
    """
    taken: set[str] = set()
    for collection, tree in sorted(variables.items(), key=lambda item: (item[0] != "params", item[0])):
        for path, leaf in jax.tree_util.tree_flatten_with_path(_unboxed(tree))[0]:
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            if isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)):
                others = numbered(f"{collection}.{name}")
                name = next(one for one in itertools.chain([name], others) if one not in taken)
                taken.add(name)
                yield collection, path, name, leaf


def _weights(variables: Variables, collections: Collection[str] | None = None) -> dict[str, jax.Array]:
    """The arrays by their names, those of all collections unless some are given."""
    return {name: leaf for c, _, name, leaf in _named(variables) if collections is None or c in collections}


# -- states ---------------------------------------------------------------------------------


def _collections(variables: Variables, wanted: object) -> list[str]:
    """The collections that a filter of Linen selects: a name, several names, True, …"""
    from flax.core.scope import in_filter
    from flax.errors import InvalidFilterError

    try:
        return [collection for collection in variables if in_filter(wanted, collection)]  # type: ignore[arg-type]  # it refuses what is no filter
    except InvalidFilterError:
        return []


def _replaced(variables: Variables, values: Mapping[str, jax.Array]) -> Variables:
    """The variables with the arrays `values`, by their names, in place of their own."""
    from flax.core import meta

    places = {(collection, path): values[name] for collection, path, name, _ in _named(variables) if name in values}

    def replaced(collection: str, tree: PyTree) -> PyTree:
        new = jax.tree_util.tree_map_with_path(lambda p, x: places.get((collection, p), x), _unboxed(tree))
        return meta.replace_boxed(tree, new)

    return {collection: replaced(collection, tree) for collection, tree in variables.items()}


# -- errors ---------------------------------------------------------------------------------

#: What to do about Flax's errors.
_ADVICE = {
    "CallCompactUnboundModuleError": _BOUND,
    "CallSetupUnboundModuleError": _BOUND,
    "ScopeParamNotFoundError": "The variables are not those of this module: they come from module.init, for the same options.",
    "ScopeParamShapeError": "The variables are not those of this module, or the input has another number of features than at module.init.",
    "ScopeCollectionNotFound": "Give all collections that module.init returned, as {'params': …, 'batch_stats': …}.",
    "ScopeVariableNotFoundError": "Give all collections that module.init returned, as {'params': …, 'batch_stats': …}.",
    "ApplyScopeInvalidVariablesStructureError": "Give the variables as module.init returned them.",
    "ModifyScopeVariableError": "The module is in training mode. Export it as it is used at inference (use_running_average=True, "
    "or train=False where the module has it), or with mutable=[…], so that the new state is a result.",
    "InvalidRngError": "The module draws random numbers, as in training mode. Export it as it is used at inference "
    "(deterministic=True, or train=False where the module has it), or bind rngs={…}.",
}  # fmt: skip


def _advised(fn: Function) -> Function:
    """The function with what the user can do added to its errors."""
    return _advice()(fn)


@contextlib.contextmanager
def _advice() -> Iterator[None]:
    from flax.errors import FlaxError

    try:
        yield
    except FlaxError as error:
        if (advice := _ADVICE.get(type(error).__name__)) is not None:
            error.add_note(advice)
        raise
    except AttributeError as error:
        if "'.setup()'" in str(error):  # what it defines, an unbound module does not have
            error.add_note(_BOUND)
        raise
