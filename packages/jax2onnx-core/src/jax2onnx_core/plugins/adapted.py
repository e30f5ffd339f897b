"""`Adapted`: a model object as a function that can be traced, with named weights and states."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from jax2onnx_core.jax_types import PyTree

__all__ = [
    "Adapted",
    "AdaptedStates",
    "AdaptedTraining",
    "Adapter",
    "adapter_of",
    "entry_of",
    "imported_adapters",
    "imported_class",
]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class AdaptedStates:
    """The part of a model object that becomes inputs and outputs of the model, because every call changes it.

    Args:
      arrays: path → array, what the object holds at the export.
      fresh: called inside the trace with path → array: an object as `Adapted.fresh` makes, that holds these arrays, among
        them those for absent weights.
      read: called with it after it was used: path → what it holds now.
    """

    arrays: Mapping[str, Any]
    fresh: Callable[[Mapping[str, Any]], Any]
    read: Callable[[Any], Mapping[str, Any]]

    def at(self, place: str) -> AdaptedStates:
        """The same states of an object at a place of another one."""
        return AdaptedStates(
            _under(place, self.arrays),
            lambda values: self.fresh(_without(place, values)),
            lambda model: _under(place, self.read(model)),
        )


@dataclasses.dataclass(frozen=True)
class AdaptedTraining:
    """A model object as the parameters that are trained and its other arrays, each a pytree in the framework's own form.

    Args:
      parameters: those that an optimizer changes.
      variables: the other arrays, some of which a call may change: statistics, random streams.
      fresh: called inside the trace with parameters and variables: an object that holds them, for one call.
      read: called with it after it was used: the variables as it holds them now.
      evaluating: called with an object of `fresh`: one that is used as at inference; None where arguments of its calls say how it is used.
      whole: called with parameters and variables: the form in which the framework takes both back.
    """

    parameters: PyTree
    variables: PyTree
    fresh: Callable[[PyTree, PyTree], PyTree]
    read: Callable[[PyTree], PyTree]
    evaluating: Callable[[PyTree], PyTree] | None = None
    whole: Callable[[PyTree, PyTree], PyTree] = lambda parameters, variables: (parameters, variables)


@dataclasses.dataclass(frozen=True)
class Adapted:
    """A model object taken apart by an adapter.

    Args:
      fresh: called inside the trace; returns an equivalent object (or, for what is not callable itself, a function)
        that owns the very same arrays, so that whatever the call mutates is dropped and the user's object is untouched. It
        is given path → array for the weights that are `jax.ShapeDtypeStruct`, and puts these arrays in their places.
      weights: path ("blocks.0.attn.query.kernel") → array, the identical objects that `fresh` uses; or their types.
      written: called with an object of `fresh` after it was used; path → what it holds now in place of the array that
        `weights` has there, for state that another call would go on from.
      modules: called with an object of `fresh`: path ("blocks.0.attn") → the part of the model there. What a call of
        the part computes is named after the path.
      around: wraps the function that is called, in the trace or to compare with it: for a scope that has to be open.
      owners: path → the part of the model that an array belongs to, as messages call it: "norm (BatchNorm)".
      callable_like: a callable with the parameters of what `fresh` makes, such as the model object itself; None where one has to
        be made to know them.
      states: called with what `to_onnx(..., states=…)` was given, in the framework's own terms: a class of variables, the
        name of a collection, a predicate; the states that it means, None where it means nothing here.
      training: called with what says which parameters are trained, in the framework's own terms, None for its usual ones; None
        where this means nothing here.
    """

    fresh: Callable[[Mapping[str, Any]], Any]
    weights: Mapping[str, Any]
    written: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    modules: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    around: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda fn: fn
    owners: Mapping[str, str] = dataclasses.field(default_factory=dict)
    callable_like: Callable[..., Any] | None = None
    states: Callable[[Any], AdaptedStates | None] = lambda _: None
    training: Callable[[object], AdaptedTraining | None] = lambda _: None

    def at(self, place: str) -> Adapted:
        """The same object found at a place of another one: all paths begin with the place ("encoder")."""
        if not place:
            return self

        def states(wanted: object) -> AdaptedStates | None:
            found = self.states(wanted)
            return None if found is None else found.at(place)

        return dataclasses.replace(
            self,
            fresh=lambda values: self.fresh(_without(place, values)),
            weights=_under(place, self.weights),
            written=lambda model: _under(place, self.written(model)),
            modules=lambda model: _under(place, self.modules(model)),
            owners=_Owners(place, self.owners),
            states=states,
        )


@dataclasses.dataclass(frozen=True)
class Adapter:
    """Takes instances of the class `claimed` ("module:qualified.name") apart, or, once its module is imported, what `claims`
    says yes to; `owner` contributed it.
    """

    claimed: str
    adapt: Callable[[Any], Adapted]
    owner: str
    claims: Callable[[Any], bool] | None = None


def imported_adapters(adapters: Iterable[Adapter]) -> list[tuple[Adapter, type]]:
    """Those adapters whose libraries have been imported, each with the class that it claims."""
    return [(adapter, cls) for adapter in adapters if (cls := imported_class(adapter.claimed)) is not None]


def adapter_of(value: object, adapters: Iterable[tuple[Adapter, type]]) -> Adapter | None:
    """The first of these adapters that takes `value` for a model object."""
    for adapter, cls in adapters:
        if adapter.claims(value) if adapter.claims else isinstance(value, cls):
            return adapter
    return None


def entry_of(value: object, key: str) -> object:
    """The entry of a mapping of any class, for `claims`, which are asked about all objects that a program reaches.

    Returns:
      None where there is no such key, where `value` is no mapping, and where its class refuses keys of another kind than its own.
    """
    if isinstance(value, dict):
        return dict.get(value, key)
    try:
        return value.get(key) if isinstance(value, Mapping) else None
    except Exception:  # noqa: BLE001 (foreign code that was not asked by its owner: a mapping with keys of its own kind)
        return None


def _under(place: str, paths: Mapping[str, T]) -> dict[str, T]:
    return {f"{place}.{path}" if path else place: value for path, value in paths.items()}


def _without(place: str, paths: Mapping[str, T]) -> dict[str, T]:
    return {path.removeprefix(place).removeprefix("."): value for path, value in paths.items()}


class _Owners(Mapping[str, str]):
    """The owners of paths under a place, each found when it is asked for."""

    def __init__(self, place: str, owners: Mapping[str, str]) -> None:
        self._place, self._owners = f"{place}.", owners

    def __getitem__(self, path: str) -> str:
        owner = self._owners[path.removeprefix(self._place)]
        return f"{self._place}{owner}" if owner.endswith(")") else f"{self._place[:-1]} ({owner})"

    def __iter__(self) -> Iterator[str]:
        return (self._place + path for path in self._owners)

    def __len__(self) -> int:
        return len(self._owners)


def imported_class(name: str) -> type | None:
    """The class of the name "module:Class", None where its module has not been imported."""
    module, _, class_name = name.partition(":")
    if module not in sys.modules:
        return None
    found = vars(sys.modules[module])[class_name]
    assert isinstance(found, type)
    return found
