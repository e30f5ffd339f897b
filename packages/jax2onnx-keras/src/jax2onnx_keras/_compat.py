"""The names of Keras that are private or depend on its version."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core.jax_types import PyTree

if TYPE_CHECKING:
    import keras

__all__ = [
    "all_layers",
    "creates_weights",
    "hides_causal_mask",
    "maker",
    "stateless",
    "structure",
    "zeroes_hidden_rows",
]


def all_layers(layer: keras.Layer) -> Sequence[keras.Layer]:
    """The layer and all layers in it, each after the layer that contains it."""
    return layer._flatten_layers()


def creates_weights(layer: keras.Layer) -> bool:
    """Whether a layer that is not built would get weights if it was called."""
    return not layer.built and not getattr(layer.build, "_is_default", False)


@contextmanager
def stateless() -> Iterator[keras.StatelessScope]:
    """A scope in which nothing changes variables: the open one, or a new one."""
    import keras
    from keras.src import backend

    scope = backend.get_stateless_scope()
    if scope is not None:
        yield scope
        return
    scope = keras.StatelessScope(collect_losses=True)
    scope.__enter__()
    try:
        yield scope
    finally:
        # Layers that were built inside get their weights now; these are not to be values of the trace.
        with jax.ensure_compile_time_eval():
            scope.__exit__(None, None, None)


def structure(model: keras.Model) -> tuple[PyTree, PyTree] | None:
    """The symbolic inputs and outputs of a functional or sequential model in their containers; None for another model."""
    import keras
    from keras.src.models.functional import Functional

    functional = model._functional if isinstance(model, keras.Sequential) else model
    return (functional._inputs_struct, functional._outputs_struct) if isinstance(functional, Functional) else None


def maker(tensor: keras.KerasTensor) -> str:
    """The name of the layer or operation that a symbolic tensor is a result of."""
    return tensor._keras_history.operation.name


def hides_causal_mask() -> bool:
    """Whether attention is told to be causal; before version 3.15 it is given a mask, which operators compute."""
    from keras.layers import MultiHeadAttention

    return "use_causal_mask" in inspect.signature(MultiHeadAttention._compute_attention).parameters


@functools.cache
def zeroes_hidden_rows() -> bool:
    """Whether a masked softmax is 0 in a row whose mask hides everything; in some versions it is the same number everywhere."""
    from keras.layers import Softmax

    with jax.ensure_compile_time_eval():
        return not Softmax().call(jnp.zeros((1, 2)), mask=jnp.zeros((1, 2), bool)).any()
