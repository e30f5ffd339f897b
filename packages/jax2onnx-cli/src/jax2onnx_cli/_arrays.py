"""Arrays in files: those that a command line names, and those that a command writes."""

from __future__ import annotations

import ast
import contextlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jax2onnx_cli._terminal import BadInput

if TYPE_CHECKING:
    from jax2onnx_graph import ir
    from jax2onnx_graph.arrays import Array

__all__ = ["as_json", "read_arrays", "shown", "write_arrays"]


def read_arrays(texts: Sequence[str], inputs: Mapping[str, ir.DataType | None]) -> dict[str, Array]:
    """The arrays by the names of inputs.

    Args:
      texts: `file.npy` is for the first input that no other text names, `name=file.npy` for that input, `file.npz` has arrays
        by name; `name=0.5` is a number.
      inputs: the inputs of the model with their types.
    """
    named = [(_name(text, inputs), text) for text in texts]
    free = [name for name in inputs if name not in dict(named)]
    arrays: dict[str, Array] = {}
    for name, text in named:
        content = text if name is None else text.removeprefix(f"{name}=")
        number = None if name is None else _number(text, content, inputs[name])
        loaded = _load(content, inputs) if number is None else number
        if isinstance(loaded, dict):
            found = loaded
        elif name is None and not free:
            raise BadInput(f"--input {text}: there is an array for each of the {len(inputs)} inputs already.")
        else:
            found = {free.pop(0) if name is None else name: loaded}
        if twice := sorted(found.keys() & arrays.keys()):
            raise BadInput(f"--input {text}: there is an array for {twice[0]!r} already.")
        arrays.update({name: _typed(array, inputs.get(name)) for name, array in found.items()})
    return arrays


def _name(text: str, inputs: Mapping[str, ir.DataType | None]) -> str | None:
    """The input that is meant by a text; names may have any character in them."""
    return next((name for name in inputs if text.startswith(f"{name}=")), None)


def _number(text: str, content: str, dtype: ir.DataType | None) -> Array | None:
    """The number that the content of a text is, of the dtype of the input; None where it is none."""
    from jax2onnx_graph.arrays import number_array

    number = _literal(content)
    if dtype is None or not isinstance(number, (bool, int, float)):
        return None
    try:
        return number_array(number, dtype.numpy())
    except ValueError as error:
        raise BadInput(f"--input {text}: {error}") from error


def _literal(content: str) -> object:
    """A number as JSON or Python writes it, `true`, `True`, `nan` and `-inf` among them; None or something else for other texts."""
    for read in (json.loads, float, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError):
            return read(content)
    return None


def _typed(array: Array, dtype: ir.DataType | None) -> Array:
    """An array as the dtype of its input, where that is one that NumPy's files have no name for, such as bfloat16."""
    wanted = None if dtype is None else dtype.numpy()
    if wanted is not None and wanted.kind == array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:
        return array.view(wanted)
    return array


def _load(text: str, inputs: Mapping[str, ir.DataType | None]) -> Array | dict[str, Array]:
    import numpy as np
    from jax2onnx_runtime.array_files import UNREADABLE

    path = Path(text)
    if not path.is_file():
        hint = f"; the inputs are {', '.join(inputs)}" if "=" in text else ""
        raise BadInput(f"--input {text}: there is no such file{hint}.")
    try:
        with path.open("rb") as stream:
            loaded = np.load(stream)
            return loaded if isinstance(loaded, np.ndarray) else dict(loaded)
    except UNREADABLE as error:
        raise BadInput(f"--input {text}: it is no .npy or .npz file of numbers.") from error


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an .npz file, which appears under its name only when it is complete."""
    import numpy as np
    from jax2onnx_graph.errors import SaveError
    from jax2onnx_graph.saving.writing import replaced_file

    try:
        with replaced_file(path) as stream, zipfile.ZipFile(stream, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    plain = array.astype(str) if array.dtype.kind == "O" else array  # strings
                    np.lib.format.write_array(member, plain, allow_pickle=False)
    except SaveError as error:
        raise BadInput(f"--output: {error}") from error


def shown(array: Array) -> str:
    """The dtype, the shape and a few of the numbers, in one line."""
    import numpy as np

    text = np.array2string(array, precision=4, threshold=8, edgeitems=2, separator=", ")
    return f"{array.dtype}[{', '.join(map(str, array.shape))}] {' '.join(text.split())}"


def as_json(array: Array) -> dict[str, object]:
    """An array as lists for JSON: complex numbers as pairs, NaN and infinities as texts."""
    import numpy as np

    if array.dtype.kind == "c":
        numbers = np.stack([array.real, array.imag], axis=-1)
    else:
        numbers = array if array.dtype.kind in "biuOSU" else array.astype(np.float64)
    if numbers.dtype.kind == "f":
        numbers = np.where(np.isfinite(numbers), numbers.astype(object), numbers.astype(str))
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": numbers.tolist()}
