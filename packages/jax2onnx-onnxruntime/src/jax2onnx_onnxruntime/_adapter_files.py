"""Files of LoRA adapters (`.onnx_adapter`), which ONNX Runtime reads and writes by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import SaveError, WeightsError
from jax2onnx_graph.saving.writing import replaced_file

from jax2onnx_onnxruntime._compat import onnxruntime
from jax2onnx_onnxruntime.loading import from_ort, packed, to_ort

__all__ = ["read_adapter_file", "write_adapter_file"]

_VERSION = 1


def write_adapter_file(path: Path, matrices: Mapping[str, Array]) -> None:
    """Write matrices by the names of the model's inputs; a file that was there is replaced once the new one is whole.

    Raises:
      SaveError: nothing can be written there.
    """
    adapter = onnxruntime().AdapterFormat()
    adapter.set_adapter_version(_VERSION)
    adapter.set_model_version(_VERSION)
    held = {name: packed(array) for name, array in matrices.items()}  # the values use this memory
    adapter.set_parameters({name: to_ort(array) for name, array in held.items()})
    with replaced_file(path) as stream:
        try:
            adapter.export_adapter(stream.name)
        except RuntimeError as error:
            raise SaveError(f"Cannot save the adapter to {path}: {error}. What was there is whole.") from error


def read_adapter_file(path: Path) -> dict[str, Array]:
    """The matrices of an adapter by the names of the model's inputs.

    Raises:
      WeightsError: the file holds no adapter.
    """
    try:
        parameters = onnxruntime().AdapterFormat.read_adapter(str(path.absolute())).get_parameters()
    except RuntimeError as error:
        raise WeightsError(f"{path} holds no adapter that ONNX Runtime reads ({error}).") from error
    return {name: from_ort(value).copy() for name, value in parameters.items()}
