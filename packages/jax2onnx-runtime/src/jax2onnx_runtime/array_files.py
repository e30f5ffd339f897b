"""Files of named arrays in NumPy's format (`.npz`), of any element type that a model has."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np
from jax2onnx_graph.arrays import Array, Dtype

__all__ = ["UNREADABLE", "read_arrays", "restored", "write_arrays"]

#: What `read_arrays` raises for a file that is not there, or is none of these.
UNREADABLE = (
    OSError, ValueError, TypeError, AttributeError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error
)  # fmt: skip


def write_arrays(file: Path | IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write arrays by their names; those of element types that NumPy lacks as unsigned integers of the same bits."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array.view(_storable(array.dtype)))


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays that `write_arrays` has written, those of element types that NumPy lacks as integers. Raises `UNREADABLE`."""
    with path.open("rb") as stream, np.load(stream) as file:
        return {name: file[name] for name in file.files}


def restored(array: Array, dtype: Dtype) -> Array:
    """The array that was written, if it was one of this dtype; else what was read."""
    return array.view(dtype) if array.dtype == _storable(dtype) else array


def _storable(dtype: Dtype) -> Dtype:
    """A dtype of NumPy itself that holds the bits of a dtype, which may be one of `ml_dtypes`."""
    return dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")
