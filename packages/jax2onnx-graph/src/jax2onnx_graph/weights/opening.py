"""`open_weights`: the source of weights that a mapping or a path stands for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from jax2onnx_graph.errors import WeightsError
from jax2onnx_graph.weights._orbax import OrbaxCheckpoint, is_checkpoint
from jax2onnx_graph.weights._safetensors_files import INDEX, SafetensorsFiles
from jax2onnx_graph.weights._sources import GivenArrays, WeightSource

__all__ = ["open_weights"]


def open_weights(source: object) -> WeightSource:
    """The weights that `source` has, each of which is read when it is asked for.

    Args:
      source: a mapping of names to arrays, or to functions without arguments that make them; nested mappings have names
        joined by dots. Or a path: of a safetensors file, of the index of several, of a directory with one of these or
        with an Orbax checkpoint.

    Raises:
      WeightsError: it is none of these, or cannot be read.
    """
    if isinstance(source, WeightSource):
        return source
    if isinstance(source, Mapping):
        return GivenArrays(source)
    if not isinstance(source, str | os.PathLike):
        raise WeightsError(
            f"Weights come from a mapping of names to arrays, or from the path of a file, not from {type(source).__name__}."
        )
    path = Path(source)
    if not path.exists():
        raise WeightsError(f"Cannot read weights from {path}: there is no such file.")
    return _in_directory(path) if path.is_dir() else SafetensorsFiles.at(path)


def _in_directory(path: Path) -> WeightSource:
    if is_checkpoint(path):
        return OrbaxCheckpoint(path)
    found = [*path.glob(f"*.safetensors{INDEX}")] or [*path.glob("*.safetensors")]
    if len(found) != 1:
        raise WeightsError(
            f"Cannot read weights from {path}: it holds {len(found) or 'no'} safetensors files, no Orbax checkpoint. Give the "
            "path of a file."
        )
    return SafetensorsFiles.at(found[0])
