"""Files of safetensors as sources of weights."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import WeightsError
from jax2onnx_graph.weights._sources import WeightSource
from jax2onnx_graph.weights.absent import WeightType

__all__ = ["INDEX", "SafetensorsFiles"]

#: How the names of indices end.
INDEX = ".index.json"

_BLOCK = 1 << 24  # bytes that are read at once


class _Slice(Protocol):
    def get_dtype(self) -> str: ...
    def get_shape(self) -> Sequence[int]: ...
    def __getitem__(self, rows: slice) -> Array: ...


class _File(Protocol):
    def keys(self) -> Sequence[str]: ...
    def get_tensor(self, name: str) -> Array: ...
    def get_slice(self, name: str) -> _Slice: ...


class SafetensorsFiles(WeightSource):
    """The tensors of one or several files of safetensors. A file is open only while it is read."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """`files` has the file of each tensor."""
        self._files = dict(files)
        self._types: dict[str, WeightType] = {}
        for path in dict.fromkeys(self._files.values()):
            with _opened(path) as file:
                self._types |= {name: _type_of(file, name) for name in file.keys() if self._files.get(name) == path}  # noqa: SIM118  (it is no mapping)
        if lacking := sorted(self._files.keys() - self._types.keys()):
            raise WeightsError(
                f"{self._files[lacking[0]]} lacks {', '.join(lacking)}, which the index says that it has."
            )

    @classmethod
    def at(cls, path: Path) -> SafetensorsFiles:
        """The tensors of a file, or of the files that an index names (`model.safetensors.index.json`)."""
        if path.name.endswith(INDEX):
            try:
                places = {name: path.parent / file for name, file in json.loads(path.read_text())["weight_map"].items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise WeightsError(
                    f"{path} is no index of safetensors files ({type(error).__name__}: {error})."
                ) from error
            return cls(places)
        with _opened(path) as file:
            return cls(dict.fromkeys(file.keys(), path))

    def type_of(self, name: str) -> WeightType:
        return self._types[name]

    def __getitem__(self, name: str) -> Array:
        with _opened(self._files[name]) as file:
            return file.get_tensor(name)

    def blocks(self, name: str) -> Iterator[Array]:
        dtype, shape = self._types[name]
        row = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        if not shape or not row or shape[0] * row <= _BLOCK:
            yield self[name]
            return
        step = max(1, _BLOCK // row)
        for start in range(0, shape[0], step):
            with _opened(self._files[name]) as file:
                block = file.get_slice(name)[start : min(start + step, shape[0])]
            yield block

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_File]:
    """An open file of safetensors; errors name it."""
    try:
        import safetensors
    except ImportError as error:
        raise WeightsError("Reading safetensors files needs the library: pip install safetensors.") from error
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            yield file
    except (OSError, safetensors.SafetensorError) as error:
        raise WeightsError(f"Cannot read {path}: {error}.") from error


# What the format calls the element types, by NumPy's names.
_ELEMENTS = {
    "BOOL": "bool", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64",
}  # fmt: skip


def _type_of(file: _File, name: str) -> WeightType:
    view = file.get_slice(name)
    return WeightType(_dtype(view.get_dtype()), tuple(view.get_shape()))


def _dtype(element: str) -> Dtype:
    """The dtype of an element type of the format, such as "F32", "I64", "BF16"."""
    kinds = {"F": "float", "I": "int", "U": "uint"}
    return np.dtype(_ELEMENTS.get(element) or f"{kinds[element[0]]}{element[1:]}")
