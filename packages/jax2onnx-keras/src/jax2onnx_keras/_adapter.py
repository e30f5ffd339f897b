"""Layers and models of Keras as functions with named weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Adapted, errors
from jax2onnx_graph.build.names import Names

from jax2onnx_keras import _compat

if TYPE_CHECKING:
    import keras

__all__ = ["adapt"]


def adapt(layer: keras.Layer) -> Adapted:
    """Adapt the layer itself: what its calls change (statistics, states, seeds) is changed in a scope, and dropped."""
    _check(layer)
    names = Names()
    variables = {names.unique(variable.path): variable for variable in layer.variables}
    scopes: list[keras.StatelessScope] = []

    @contextmanager
    def scope() -> Iterator[None]:
        unbuilt = [part for part in _compat.all_layers(layer) if _compat.creates_weights(part)]
        with _compat.stateless() as state:
            scopes[:] = [state]
            yield
        if built := [part.name for part in unbuilt if part.built]:
            raise errors.OptionError(
                f"The export was the first call of {', '.join(built)} in {layer.name}, which have their weights only now. "
                "Export again; or call the model once before."
            )

    def written(_: keras.Layer) -> Mapping[str, jax.Array]:
        now = {name: scopes[0].get_current_value(variable) for name, variable in variables.items()}
        return {name: array for name, array in now.items() if array is not None}

    return Adapted(
        fresh=lambda _: layer,
        weights={name: variable.value for name, variable in variables.items()},
        written=written,
        around=lambda fn: scope()(fn),
        owners=_owners(layer, variables),
    )


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
