"""The inputs and outputs of a functional or sequential model, as `to_onnx` takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
from jax2onnx_core import errors
from jax2onnx_core.jax_types import PyTree
from jax2onnx_graph.build.names import Names

from jax2onnx_keras import _compat

if TYPE_CHECKING:
    import keras

__all__ = ["signature"]


def signature(model: keras.Model, *, batch: str = "B") -> dict[str, Any]:
    """The options `inputs`, `input_names` and `output_names` of `to_onnx`, for a model that knows them.

    The first axis of each input is the symbol `batch`; others without a size are dynamic, each for itself. The names are those
    of the inputs and of the layers whose results the outputs are, or the keys of a dict.

        to_onnx(model, **signature(model))

    Raises:
      OptionError: the model is a subclassed one, or not built.
    """
    found = _compat.structure(model)
    if found is None:
        raise errors.OptionError(
            f"{type(model).__name__} {model.name!r} does not know its inputs; only functional and sequential models that are "
            "built do. Say what they are: to_onnx(model, [('B', 28, 28, 1)])."
        )
    inputs, outputs = found
    if isinstance(inputs, list) and len(inputs) == 1:
        inputs = inputs[0]

    def spec(tensor: keras.KerasTensor) -> tuple[tuple[int | str | None, ...], str]:
        first, *others = tensor.shape
        return (batch if first is None else first, *others), tensor.dtype

    return {
        "inputs": [jax.tree.map(spec, inputs)],
        "input_names": _names(inputs, lambda tensor: tensor.name),
        "output_names": _names(outputs, _compat.maker),
    }


def _names(tensors: PyTree, name: Callable[[Any], str]) -> list[str]:
    """A name for each tensor, in JAX's order: its key if it is in a dict."""
    taken = Names()
    paths = jax.tree_util.tree_flatten_with_path(tensors)[0]
    keyed = isinstance(tensors, dict)
    return [taken.unique(path[0].key if keyed and len(path) == 1 else name(tensor)) for path, tensor in paths]
