"""Running a model on OpenVINO's CPU plugin: named NumPy arrays in, a list of NumPy arrays out."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_runtime.runtimes import import_runtime

__all__ = ["OpenVinoModel", "load", "openvino"]

_FOREIGN = {"bf16": ir.DataType.BFLOAT16, "f8e4m3": ir.DataType.FLOAT8E4M3FN, "f8e5m2": ir.DataType.FLOAT8E5M2}
"""OpenVINO's names of element types that NumPy lacks: their arrays hold the bits as another type."""


def openvino() -> ModuleType:
    """The `openvino` module.

    Raises:
      ModuleNotFoundError: it is not installed; the message names the extra that installs it.
    """
    return import_runtime(
        "openvino",
        "Running a model needs OpenVINO, which is not installed. Install it with "
        "`pip install 'jax2onnx-openvino[openvino]'`.",
    )


@functools.cache
def _core(module: ModuleType) -> Any:
    return module.Core()


def load(source: ir.Model | Path | bytes, *, threads: int | None = None) -> OpenVinoModel:
    """Compile a model, its bytes, or the file of one, for the CPU, in the precision of its own element types.

    Args:
      source: the model to run.
      threads: the number of threads; None leaves it to OpenVINO.
    """
    return OpenVinoModel(source, threads)


class OpenVinoModel:
    """A compiled model: named arrays in, a list of arrays out, in the order of the model's outputs."""

    def __init__(self, source: ir.Model | Path | bytes, threads: int | None = None) -> None:
        given = _model(source)
        model, self._defaults = _without_defaults(given)
        data = source if model is given and not isinstance(source, ir.Model) else ir.to_proto(model).SerializeToString()
        # By default the plugin may compute float32 in bfloat16, where the processor has that.
        core = _core(openvino())
        options = {"INFERENCE_PRECISION_HINT": "f32", **({} if threads is None else {"INFERENCE_NUM_THREADS": threads})}
        self.compiled = core.compile_model(core.read_model(data), "CPU", options)

    def __call__(self, inputs: Mapping[str, Any]) -> list[Array]:
        """Run the model; inputs that it does not read may be given, too.

        Raises:
          ValueError: an input is missing.
        """
        inputs = {**self._defaults, **inputs}
        # A port has the names of all values that are the same, as those before and after an Identity.
        given = [next((name for name in inputs if name in port.names), None) for port in self.compiled.inputs]
        if None in given:
            missing = [port.any_name for port, name in zip(self.compiled.inputs, given, strict=True) if name is None]
            raise ValueError(f"The model needs more inputs: {', '.join(missing)}.")
        results = self.compiled([
            _tensor(np.asarray(inputs[name]), port)
            for port, name in zip(self.compiled.inputs, given, strict=True) if name is not None
        ])  # fmt: skip
        return [_array(results[port], port) for port in self.compiled.outputs]


def _model(source: ir.Model | Path | bytes) -> ir.Model:
    if isinstance(source, ir.Model):
        return source
    return ir.from_proto(onnx.load_from_string(source)) if isinstance(source, bytes) else read_model(source)


def _without_defaults(model: ir.Model) -> tuple[ir.Model, dict[str, Array]]:
    """The model with all inputs required, since OpenVINO takes one with a default for a constant, and the defaults."""
    optional = [value for value in model.graph.inputs if value.is_initializer()]
    if not optional:
        return model, {}
    copy, defaults = model.clone(), {}
    for value in copy.graph.inputs:
        if value.is_initializer() and value.const_value is not None:
            defaults[value.name or ""] = value.const_value.numpy()
            del copy.graph.initializers[value.name or ""]
            value.const_value = None
    return copy, defaults


def _tensor(array: Array, port: Any) -> Any:
    """An array as OpenVINO takes it."""
    if port.element_type.get_type_name() not in _FOREIGN:
        return np.require(array, requirements=["C", "W"])  # it refuses what it may not write to
    tensor = openvino().Tensor(port.element_type, openvino().Shape(array.shape))
    np.copyto(tensor.data, array.view(tensor.data.dtype))
    return tensor


def _array(result: Array, port: Any) -> Array:
    """An array of its own memory, in the type of the model's output."""
    foreign = _FOREIGN.get(port.element_type.get_type_name())
    return np.array(result if foreign is None else result.view(foreign.numpy()))
