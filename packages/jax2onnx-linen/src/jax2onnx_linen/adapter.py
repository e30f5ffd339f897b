"""Linen modules with their variables, in the forms in which programs hold them, as functions with named weights."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Adapted, Registry, errors
from jax2onnx_core.jax_types import Function, PyTree

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
    """Contribute what takes modules, pairs, `module.apply`, partials of it, variables and training states apart."""
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
    """A bound module, or a bound part of one; whatever a call changes is changed in the copy alone."""
    unbound, variables = module.unbind()
    scope = module.scope
    assert scope is not None
    made = _adapt_variables(variables)
    rngs = {name: rng.as_jax_rng() for name, rng in scope.rngs.items()}
    keys = {f"rngs.{name}": key for name, key in rngs.items()}

    def fresh() -> nn.Module:
        return unbound.bind(made.fresh(), rngs=rngs, mutable=scope.mutable)

    def written(copy: nn.Module) -> dict[str, jax.Array]:
        after = _weights(copy.variables)
        return {name: array for name, array in after.items() if array is not made.weights.get(name, array)}

    owner = type(module).__name__
    owners = {**dict.fromkeys(keys, owner), **{name: made.owners[name] or owner for name in made.weights}}
    return Adapted(fresh, {**made.weights, **keys}, written=written, around=_advised, owners=owners)


def _is_unbound(value: object) -> bool:
    import flax.linen as nn

    return isinstance(value, nn.Module) and value.scope is None


def _adapt_unbound(module: nn.Module) -> Adapted:
    """A module without variables, which functions may give it; called by itself, it fails."""
    return Adapted(lambda: module, {}, around=_advised)


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
    return _adapt_call(partial.func.__self__, *partial.args, **partial.keywords)


def _adapt_call(module: nn.Module, variables: Variables, **options: Any) -> Adapted:
    """`module.apply(variables, …)` as a function with the signature of the module's `__call__`."""
    made = _adapt_variables(_checked(module, variables))
    given = _weights({"": options})

    def call(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return _apply(module, made.fresh(), *args, **{**options, **kwargs})

    if "method" not in options:
        taken = options.keys() & inspect.signature(module.__call__).parameters.keys()
        called = functools.partial(module.__call__, **{name: options[name] for name in taken})
        functools.update_wrapper(call, called, assigned=())
    return dataclasses.replace(made, fresh=lambda: call, weights={**made.weights, **given})


def _is_apply(value: object) -> bool:
    import flax.linen as nn

    return isinstance(value, types.MethodType) and value.__func__ is nn.Module.apply


def _adapt_apply(method: types.MethodType) -> Adapted:
    return Adapted(lambda: functools.partial(_apply, method.__self__), {})


def _apply(module: nn.Module, variables: Variables, /, *args: PyTree, **kwargs: PyTree) -> PyTree:
    """`module.apply`, whose errors say what to do."""
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
    return isinstance(value, Mapping) and isinstance(value.get("params"), Mapping)


def _adapt_variables(variables: Variables) -> Adapted:
    """Collections of arrays; those of NumPy, as checkpoints have them, become JAX's."""
    variables = jax.tree.map(_as_jax, variables)
    weights = _weights(variables)
    return Adapted(lambda: variables, weights, owners={name: name.rpartition(".")[0] for name in weights})


def _is_struct(value: object) -> bool:
    """Whether `value` is a dataclass of Flax's, such as a `TrainState`, that holds parameters."""
    return "_flax_dataclass" in vars(type(value)) and isinstance(vars(value).get("params"), Mapping)


def _adapt_struct(state: Any) -> Adapted:
    collections = {name: value for name, value in vars(state).items() if isinstance(value, Mapping)}
    made = _adapt_variables(collections)
    return dataclasses.replace(made, fresh=lambda: state.replace(**made.fresh()))


def _as_jax(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


def _weights(variables: Variables) -> dict[str, jax.Array]:
    """The arrays by their paths in the collections; two of one path have the name of the collection in front."""
    from flax.core import meta

    found: dict[str, jax.Array] = {}
    for collection, tree in sorted(variables.items(), key=lambda item: item[0] != "params"):
        for path, leaf in jax.tree_util.tree_flatten_with_path(meta.unbox(tree))[0]:
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            if isinstance(leaf, jax.Array):
                found[f"{collection}.{name}" if name in found else name] = leaf
    return found


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
    """The function, whose errors say what to do."""
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
