"""Transformed Haiku functions with their parameters, in the forms in which programs hold them, as functions with named weights."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Adapted, AdaptedStates, AdaptedTraining, Registry, errors
from jax2onnx_core.jax_types import PyTree
from jax2onnx_graph.build.names import Names

from jax2onnx_haiku._compat import original_function

if TYPE_CHECKING:
    import haiku as hk

__all__ = ["register"]

#: Path of a module → name → array, as parameters and states are.
Arrays = Mapping[str, Mapping[str, Any]]

#: Path of a module and name → the name among all arrays.
NamesOf = Mapping[tuple[str, str], str]

_BOUND = (
    "Give to_onnx the function with what transformed.init returned: (transformed, params) or (transformed, params, state), "
    "or functools.partial(transformed.apply, params, None), where None stands for the random key."
)
#: How Haiku's messages begin, and what to do.
_ADVICE = {
    r"Unable to retrieve parameter": "The parameters are not those of this function: transformed.init returns them, for the same options.",
    r"'.*' with retrieved shape": "The parameters are not those of this function, or the input has another number of features than at transformed.init.",
    r"No value for": "Give the state that transformed.init of hk.transform_with_state returned: (transformed, params, state).",
    r"If your transformed function uses": "Give to_onnx the function with both: (transformed, params, state).",
    r"You must pass a non-None PRNGKey": "The function draws random numbers, as in training. Export it as it is used at "
    "inference (is_training=False, or without its dropout), or bind a key: functools.partial(transformed.apply, params, key).",
}  # fmt: skip


def register(registry: Registry) -> None:
    """Contribute the adapters of pairs of a function and its parameters, of apply functions and of transformed functions."""
    registry.adapter("haiku:Transformed", _adapt_bound, claims=_is_bound)
    registry.adapter("haiku:Transformed", _adapt_apply, claims=lambda value: original_function(value) is not None)
    registry.adapter("haiku:Transformed", _adapt_unbound, claims=_is_transformed)


def _is_transformed(value: object) -> bool:
    import haiku as hk

    return isinstance(value, (hk.Transformed, hk.TransformedWithState))


# -- functions with their parameters --------------------------------------------------------


def _is_bound(value: object) -> bool:
    return isinstance(value, tuple) and len(value) in (2, 3) and _is_transformed(value[0])


class BoundFunction(tuple[Any, ...]):  # noqa: SLOT001  (it has attributes)
    """A transformed function with its parameters (and state), as a function of its other arguments.

    Attributes:
      after: the state after the last call.
    """

    def __new__(cls, parts: Iterable[object], signature: inspect.Signature) -> Self:
        """The function of these parts, which takes the arguments of `signature`."""
        return super().__new__(cls, parts)

    def __init__(self, parts: Iterable[object], signature: inspect.Signature) -> None:
        self.after: Arrays = {}
        self.__signature__ = signature

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        transformed, *given = self
        keys = [None] * (len(_leading(transformed.apply)) - len(given))
        result = _guarded(transformed.apply)(*given, *keys, *args, **kwargs)
        if len(given) == 2:
            result, self.after = result
        return result


def _adapt_bound(bound: tuple[Any, ...]) -> Adapted:
    """Adapt a pair, which is called without a random key; of a function with a state, the model returns the result alone."""
    transformed, *given = bound
    needed = [name for name in _leading(transformed.apply) if name != "rng"]
    if len(given) != len(needed):
        raise errors.InputError(f"This {type(transformed).__name__} goes with {' and '.join(needed)}. {_BOUND}")
    _check_leading(needed, given)
    given = [jax.tree.map(_as_jax, arrays) for arrays in given]
    names = _names(given)
    weights = {
        name: array for arrays, own in zip(given, names, strict=True) for name, array in _named(arrays, own).items()
    }
    signature = inspect.signature(_original(transformed.apply))

    def fresh(values: Mapping[str, jax.Array]) -> BoundFunction:
        held = [_replaced(arrays, values, own) for arrays, own in zip(given, names, strict=True)]
        return BoundFunction((transformed, *(held if values else given)), signature)

    def states(wanted: object) -> AdaptedStates | None:
        if len(given) < 2:
            return None
        chosen = _chosen(given[1], wanted, names[1])
        return AdaptedStates(chosen, fresh, lambda copy: {name: _named(copy.after, names[1])[name] for name in chosen})

    def written(copy: BoundFunction) -> dict[str, jax.Array]:
        return {name: array for name, array in _named(copy.after, names[-1]).items() if array is not weights.get(name)}

    def training(wanted: object) -> AdaptedTraining | None:
        if wanted is not None:  # Haiku has no terms for that
            return None
        params, state = (*given, {})[:2]
        return AdaptedTraining(
            params, state,
            fresh=lambda *held: BoundFunction((transformed, *held[: len(given)]), signature),
            read=lambda copy: copy.after or state,
            whole=lambda *held: held if len(given) > 1 else held[0],
        )  # fmt: skip

    owners = {name: name.rpartition(".")[0] for name in weights}
    return Adapted(fresh, weights, written=written, owners=owners, states=states, training=training)


def _names(given: Sequence[Arrays]) -> list[NamesOf]:
    """The names of parameters, and of a state, of which equal ones are numbered: the path of the module, and the own name."""
    taken = Names()
    return [
        {(p, n): taken.unique(f"{p}.{n}") for p, bundle in (arrays or {}).items() for n in bundle} for arrays in given
    ]


def _replaced(arrays: Arrays, values: Mapping[str, jax.Array], names: NamesOf) -> Arrays:
    """Parameters, or a state, with the arrays `values`, by their names, in place of their own."""
    return {p: {n: values.get(names[p, n], x) for n, x in bundle.items()} for p, bundle in arrays.items()}


def _chosen(state: Arrays, wanted: object, names: NamesOf) -> dict[str, jax.Array]:
    """The arrays of a state that `states` means: all of them for True, or those of which a function of module, name and value says so."""
    if wanted is True:
        return _named(state, names)
    if not isinstance(wanted, types.FunctionType | functools.partial):
        return {}
    return {names[p, n]: x for p, bundle in state.items() for n, x in bundle.items() if wanted(p, n, x)}


def _as_jax(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


def _named(arrays: Arrays | None, names: NamesOf) -> dict[str, Any]:
    """The arrays by their names; those that a call has made by their paths."""
    return {names.get((p, n), f"{p}.{n}"): x for p, bundle in (arrays or {}).items() for n, x in bundle.items()}


# -- functions without their parameters -----------------------------------------------------


def _adapt_unbound(transformed: hk.Transformed | hk.TransformedWithState) -> Adapted:
    """Adapt a transformed function without parameters, such that a call of it is an error that says what to do."""
    kind = type(transformed)

    def call(self: object, *args: PyTree, **kwargs: PyTree) -> None:
        raise errors.InputError(f"A {kind.__name__} is a pair of functions, and cannot be called. {_BOUND}")

    unbound = type(kind.__name__, (kind,), {"__call__": call})
    return Adapted(lambda _: unbound(transformed.init, _guarded(transformed.apply)), {})


def _adapt_apply(apply: Callable[..., PyTree]) -> Adapted:
    return Adapted(lambda _: _guarded(apply), {})


def _guarded(apply: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """An apply function whose errors say what to do where it lacks its parameters, or has those of another function."""
    import haiku as hk

    leading = _leading(apply)

    @functools.wraps(apply)
    def guarded(*args: PyTree, **kwargs: PyTree) -> PyTree:
        _check_leading(leading, args)
        # Composites are traced apart, at another level than Haiku knows of.
        with _advice(), hk.config.context(check_jax_usage=False):
            return apply(*args, **kwargs)

    # Too few arguments are seen here.
    parameters = [
        p if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) else p.replace(default=None)
        for p in inspect.signature(apply).parameters.values()
    ]
    signature = inspect.Signature(parameters, __validate_parameters__=False)
    setattr(guarded, "__signature__", signature)  # noqa: B010
    return guarded


def _leading(apply: Callable[..., PyTree]) -> list[str]:
    """The parameters that Haiku has put in front of those of the original function: "params", "state", "rng"."""
    names = list(inspect.signature(apply).parameters)
    return names[: len(names) - len(inspect.signature(_original(apply)).parameters)]


def _original(apply: Callable[..., PyTree]) -> Callable[..., PyTree]:
    original = original_function(apply)
    assert original is not None
    return original


def _check_leading(leading: Sequence[str], args: Sequence[PyTree]) -> None:
    for place, name in enumerate(leading):
        if place >= len(args):
            raise errors.InputError(f"The apply function of Haiku takes {', '.join(leading)} first. {_BOUND}")
        if name == "rng":
            if args[place] is not None and jnp.issubdtype(jnp.result_type(args[place]), jnp.floating):
                raise errors.InputError(
                    f"The apply function of Haiku takes a random key after the parameters. {_BOUND}"
                )
        elif not isinstance(args[place], Mapping | None):
            raise errors.InputError(f"The {name} of a Haiku function are a dict of dicts of arrays. {_BOUND}")


@contextlib.contextmanager
def _advice() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        for beginning, advice in _ADVICE.items():
            if re.match(beginning, str(error)):
                error.add_note(advice)
        raise
