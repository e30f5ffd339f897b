"""Engines of TensorRT for RTX, whose builder needs no GPU, from the environment that has it; ONNX Runtime computes the values of the models."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_runtime.feeds import symbol_space
from jax2onnx_runtime.runtimes import LoadedModel
from jax2onnx_runtime.sizes import choose_sizes
from jax2onnx_tensorrt import engine_profiles
from jax2onnx_tensorrt.building import build, tensorrt
from other_runtimes import OtherRuntime

__all__ = ["EngineBuilder", "load"]


class EngineBuilder:
    """Builds an engine of each model before another runtime runs it.

    Args:
      python: the interpreter of the environment with the builder.
      run: loads a model that an engine could be built of.
    """

    def __init__(self, python: str, run: Callable[[ir.Model], LoadedModel]) -> None:
        self._builder, self._run = OtherRuntime(python, module="engines"), run

    def load(self, model: ir.Model) -> LoadedModel:
        """The model in the other runtime.

        Raises:
          TargetError: TensorRT does not build an engine for all sizes that are tried of the model.
        """
        self._builder.load(model)(ranges(model))
        return self._run(model)


def ranges(model: ir.Model) -> dict[str, Array]:
    """The least, the usual and the largest shape of each input with symbols, over the sizes at which models are tried."""
    space = symbol_space(model)
    chosen = choose_sizes(space)
    sizes = {
        name: (min(s[name] for s in chosen), chosen[-1][name], max(s[name] for s in chosen)) for name in space.names
    }
    profiles = engine_profiles(model, {"all": sizes} if sizes else {})
    return {name: np.array(three) for profile in profiles.shapes.values() for name, three in profile.shapes.items()}


def load(model: bytes) -> LoadedModel:
    """In the environment of the builder: what builds an engine for ranges of shapes, and gives its size."""

    def run(shapes: Mapping[str, Array]) -> list[Array]:
        profile = {name: [tuple(map(int, shape)) for shape in three] for name, three in shapes.items()}
        return [np.array(len(build(tensorrt(), model, {"all": profile} if profile else {})))]

    return run
