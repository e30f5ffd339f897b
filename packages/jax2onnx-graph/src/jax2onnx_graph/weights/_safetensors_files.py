"""Files of safetensors as sources of weights: a header that says where each tensor is, and the bytes of the tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import ml_dtypes  # noqa: F401  (NumPy learns the names of its types)
import numpy as np

from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import WeightsError
from jax2onnx_graph.weights._sources import WeightSource
from jax2onnx_graph.weights.absent import WeightType

__all__ = ["INDEX", "SafetensorsFiles"]

#: How the names of indices end.
INDEX = ".index.json"

_BLOCK = 1 << 24  # bytes that are mapped into memory at once
_LENGTH = 8  # bytes of the header's length
# What the format calls the element types, by NumPy's names.
_ELEMENTS = {
    "BOOL": "bool", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64",
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}  # fmt: skip


class _Place(NamedTuple):
    """The location of a tensor: its file, and its first byte there."""

    file: Path
    start: int


class SafetensorsFiles(WeightSource):
    """The tensors of one or several files of safetensors, which are mapped into memory while they are read."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """`files` has the file of each tensor."""
        self._types: dict[str, WeightType] = {}
        self._places: dict[str, _Place] = {}
        for path in dict.fromkeys(files.values()):
            for name, (of, start) in _header(path).items():
                if files.get(name) == path:
                    self._types[name], self._places[name] = of, _Place(path, start)
        if lacking := sorted(files.keys() - self._types.keys()):
            raise WeightsError(f"{files[lacking[0]]} lacks {', '.join(lacking)}, which the index says that it has.")

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
        return cls(dict.fromkeys(_header(path), path))

    def type_of(self, name: str) -> WeightType:
        return self._types[name]

    def __getitem__(self, name: str) -> Array:
        return self._rows(name, 0, None)

    def blocks(self, name: str) -> Iterator[Array]:
        dtype, shape = self._types[name]
        row = math.prod(shape[1:]) * dtype.itemsize
        if not shape or not row or shape[0] * row <= _BLOCK:
            yield self[name]
            return
        step = max(1, _BLOCK // row)
        for start in range(0, shape[0], step):
            yield self._rows(name, start, min(start + step, shape[0]))

    def _rows(self, name: str, start: int, end: int | None) -> Array:
        """Some entries along the first axis, all if there is no `end`: a view of the file."""
        (dtype, shape), (file, first) = self._types[name], self._places[name]
        if end is not None:
            first, shape = first + start * math.prod(shape[1:]) * dtype.itemsize, (end - start, *shape[1:])
        if not math.prod(shape):
            return np.empty(shape, dtype)
        try:
            return np.memmap(file, dtype.newbyteorder("<") if dtype.isbuiltin else dtype, "r", first, shape)
        except (OSError, ValueError) as error:
            raise WeightsError(f"Cannot read {name} from {file}: {error}.") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


def _header(path: Path) -> dict[str, tuple[WeightType, int]]:
    """The tensors of a file, with the place of the first byte of each."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            end = _LENGTH + int.from_bytes(file.read(_LENGTH), "little")
            if not _LENGTH < end <= size:
                raise WeightsError(f"Cannot read {path}: it is no file of safetensors, or it is cut off.")
            entries = json.loads(file.read(end - _LENGTH))
            return {name: _entry(entry, end, size) for name, entry in entries.items() if name != "__metadata__"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsError(f"Cannot read {path}: {type(error).__name__}: {error}.") from error


def _entry(entry: Mapping[str, object], start: int, size: int) -> tuple[WeightType, int]:
    """The type of a tensor and the place of its first byte.

    Args:
      entry: its entry in the header.
      start: the end of the header, from which places are counted.
      size: the bytes of the file.

    Raises:
      ValueError: the entry contradicts itself or the file.
    """
    match entry:
        case {"dtype": str(element), "shape": [*dims], "data_offsets": [int(first), int(last)]}:
            dtype, shape = _dtype(element), tuple(dim for dim in dims if isinstance(dim, int) and dim >= 0)
        case _:
            raise ValueError(f"the header has the entry {entry!r:.80}")
    if len(shape) != len(dims) or last - first != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{element}{dims} does not take {last - first} bytes")
    if not 0 <= first <= last <= size - start:
        raise ValueError(f"a tensor ends at byte {start + last}, the file has {size}")
    return WeightType(dtype, shape), start + first


def _dtype(element: str) -> Dtype:
    """The dtype of an element type of the format, such as "F32", "I64", "BF16"."""
    if element not in _ELEMENTS:
        raise ValueError(f"there is no array of elements of the type {element}")
    return np.dtype(_ELEMENTS[element])
