"""Layers and models of Keras as functions with named weights."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Adapted, AdaptedStates, AdaptedTraining, errors
from jax2onnx_core.jax_types import PyTree
from jax2onnx_graph.build.names import Names

from jax2onnx_keras import _compat

if TYPE_CHECKING:
    import keras

__all__ = ["adapt"]

# The name of the variable of a `keras.random.SeedGenerator`.
_SEED = "seed_generator_state"


def adapt(layer: keras.Layer) -> Adapted:
    """Adapt the layer itself: what its calls change (statistics, states, seeds) is changed in a scope, and dropped."""
    _check(layer)
    names = Names()
    variables = {names.unique(variable.path): variable for variable in layer.variables}
    scopes: list[keras.StatelessScope] = []
    recurrent = {names.unique(variable.path): variable for variable in _recurrent_states(layer)}
    changing = {**{name: variable for name, variable in variables.items() if not variable.trainable}, **recurrent}
    held: dict[str, jax.Array] = {}  # the states of the call that is traced

    @contextmanager
    def scope() -> Iterator[None]:
        unbuilt = [part for part in _compat.all_layers(layer) if _compat.creates_weights(part)]
        with _compat.stateless() as state:
            scopes[:] = [state]
            for name, value in held.items():
                state.add_update((changing[name], value))
            yield
        if built := [part.name for part in unbuilt if part.built]:
            raise errors.OptionError(
                f"The export was the first call of {', '.join(built)} in {layer.name}, which have their weights only now. "
                "Export again; or call the model once before."
            )

    def written(_: keras.Layer) -> Mapping[str, jax.Array]:
        now = {name: scopes[0].get_current_value(variable) for name, variable in variables.items()}
        return {name: array for name, array in now.items() if array is not None}

    def fresh(values: Mapping[str, jax.Array]) -> keras.Layer:
        held.clear()
        held.update(values)
        return layer

    def states(wanted: object) -> AdaptedStates | None:
        chosen = {name: variable for name, variable in changing.items() if _is_wanted(variable, wanted)}

        def read(_: keras.Layer) -> Mapping[str, jax.Array]:
            return {name: scopes[0].get_current_value(variable) for name, variable in chosen.items()}

        return AdaptedStates({name: variable.value for name, variable in chosen.items()}, fresh, read)

    return Adapted(
        fresh=lambda _: fresh({}),
        weights={name: variable.value for name, variable in variables.items()},
        written=written,
        around=lambda fn: scope()(fn),
        owners=_owners(layer, variables),
        states=states,
        training=lambda wanted: _training(layer) if wanted is None else None,
    )


class _StatelessCall:
    """Calls of a layer with values in the place of its variables; `others` are those of the variables that nothing trains."""

    def __init__(self, layer: keras.Layer, trained: Mapping[str, jax.Array], others: Mapping[str, jax.Array]) -> None:
        self.others, self._layer, self._trained = others, layer, trained

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        result, after = self._layer.stateless_call([*self._trained.values()], [*self.others.values()], *args, **kwargs)
        self.others = dict(zip(self.others, after, strict=True))
        return result


def _training(layer: keras.Layer) -> AdaptedTraining:
    """The trainable variables by their paths, and the other ones: statistics, seeds."""
    names = Names()
    trained, others = (
        {names.unique(variable.path): variable.value for variable in variables}
        for variables in (layer.trainable_variables, layer.non_trainable_variables)
    )
    return AdaptedTraining(
        trained, others,
        fresh=lambda held, state: _StatelessCall(layer, _in_order(held, trained), _in_order(state, others)),
        read=lambda call: dict(call.others),
        whole=lambda held, state: {**held, **state},
    )  # fmt: skip


def _in_order(values: Mapping[str, jax.Array], names: Mapping[str, object]) -> dict[str, jax.Array]:
    """The values in the order of `names`, which JAX does not keep."""
    return {name: values[name] for name in names}


def _recurrent_states(layer: keras.Layer) -> Iterator[keras.Variable]:
    """The states of stateful recurrent layers, which Keras does not count among the variables."""
    import keras

    for part in _compat.all_layers(layer):
        if isinstance(part, keras.layers.RNN) and part.states is not None:
            yield from keras.tree.flatten(part.states)


def _is_wanted(variable: keras.Variable, wanted: object) -> bool:
    """Whether `states` means a variable: True for all but seeds, or a function that says so."""
    if wanted is True:
        return variable.name != _SEED
    return isinstance(wanted, types.FunctionType | functools.partial) and bool(wanted(variable))


def _check(layer: keras.Layer) -> None:
    """Raise OptionError where the layer has no weights, or not those of JAX."""
    import keras

    backend = keras.config.backend()
    if backend != "jax":
        raise errors.OptionError(
            f"Keras computes with {backend}, not with JAX. Set the environment variable KERAS_BACKEND=jax before keras is "
            "imported (weights that were saved with another backend can be loaded)."
        )
    if not layer.built and any(map(_compat.creates_weights, _compat.all_layers(layer))):
        raise errors.OptionError(
            f"{type(layer).__name__} {layer.name!r} has no weights yet. Call it once on an example, or its build(input_shape), "
            "before the export."
        )


def _owners(layer: keras.Layer, variables: Mapping[str, keras.Variable]) -> Mapping[str, str]:
    """The innermost layer that each variable belongs to, with its class."""
    parts = {id(variable): part for part in _compat.all_layers(layer) for variable in part.variables}
    owners = {name: parts[id(variable)] for name, variable in variables.items()}
    return {name: f"{part.path or part.name} ({type(part).__name__})" for name, part in owners.items()}
