"""Saving a model: atomic, with external data where a single file could not hold the weights."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import SaveError

if TYPE_CHECKING:
    import onnx

__all__ = ["save_model", "save_sharing_weights", "weights_size"]

# A protobuf file ends at 2 GiB; the nodes need some of it.
_SINGLE_FILE_LIMIT = 1_800_000_000


def weights_size(model: ir.Model) -> int:
    """The bytes of all initializers."""
    return sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)


def save_model(model: ir.Model, path: str | os.PathLike[str], external_data: bool | None = None) -> Path:
    """Write the model to `path`; its weights to `<path>.data` if `external_data`, or if they need it (None).

    Everything is written beside the destination first and then renamed, so that a file that was
    there before stays whole whatever happens. Raises SaveError.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise SaveError(f"Cannot save to {path}: the directory {path.parent} does not exist; create it first.")
    if path.is_dir():
        raise SaveError(f"Cannot save to {path}: it is a directory; give the name of a file.")
    if external_data is None:
        external_data = weights_size(model) > _SINGLE_FILE_LIMIT
    data_name = _free_data_name(path) if external_data else None
    try:
        with _workspace(path) as workspace:
            written = workspace / path.name
            ir.save(model, written, external_data=data_name)
            if data_name is not None and (workspace / data_name).exists():
                os.replace(workspace / data_name, path.parent / data_name)
            os.replace(written, path)
    except OSError as error:
        raise SaveError(f"Cannot save to {path}: {error.strerror or error}. Nothing was changed there.") from error
    for stale in {f"{path.name}.data", f"{path.name}.data1"} - {data_name}:
        (path.parent / stale).unlink(missing_ok=True)
    return path


def save_sharing_weights(models: Mapping[str, ir.Model], directory: str | os.PathLike[str]) -> list[Path]:
    """Write models as `<name>.onnx` into a directory, their initializers once, into `weights.data`.

    Initializers are the same where they hold the same array. Existing files are replaced only when everything
    has been written. Raises SaveError.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise SaveError(f"Cannot save to {directory}: the directory does not exist; create it first.")
    try:
        with _workspace(directory / "variants") as workspace:
            offsets = _write_weights(models.values(), workspace / _WEIGHTS)
            for name, model in models.items():
                proto = _with_references(model, offsets)
                (workspace / f"{name}.onnx").write_bytes(proto.SerializeToString())
            os.replace(workspace / _WEIGHTS, directory / _WEIGHTS)
            for name in models:
                os.replace(workspace / f"{name}.onnx", directory / f"{name}.onnx")
    except OSError as error:
        raise SaveError(f"Cannot save to {directory}: {error.strerror or error}.") from error
    return [directory / f"{name}.onnx" for name in models]


_WEIGHTS = "weights.data"
_ALIGNMENT = 4096
# Smaller tensors stay in the model file, where shape inference and constant folding see them.
_EXTERNAL_FROM = 1024


def _weights(model: ir.Model) -> dict[ir.Value, ir.TensorProtocol]:
    tensors = {value: value.const_value for value in model.graph.initializers.values()}
    return {
        value: tensor for value, tensor in tensors.items() if tensor is not None and tensor.nbytes >= _EXTERNAL_FROM
    }


def _write_weights(models: Iterable[ir.Model], path: Path) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Write every different tensor once; its key → (offset, length)."""
    offsets: dict[tuple[Any, ...], tuple[int, int]] = {}
    with path.open("wb") as file:
        for model in models:
            for tensor in _weights(model).values():
                key = _tensor_key(tensor)
                if key not in offsets:
                    file.seek(-(-file.tell() // _ALIGNMENT) * _ALIGNMENT)
                    data = tensor.tobytes()
                    offsets[key] = (file.tell(), len(data))
                    file.write(data)
    return offsets


def _tensor_key(tensor: ir.TensorProtocol) -> tuple[Any, ...]:
    return tensor.dtype, tuple(tensor.shape.numpy()), hashlib.sha256(tensor.tobytes()).digest()


def _with_references(model: ir.Model, offsets: Mapping[tuple[Any, ...], tuple[int, int]]) -> onnx.ModelProto:
    """The model as a message whose large initializers point into the file of weights."""
    held = _weights(model)
    try:
        for value, tensor in held.items():
            offset, length = offsets[_tensor_key(tensor)]
            value.const_value = ir.ExternalTensor(
                _WEIGHTS, offset, length, tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=value.name or ""
            )
        return ir.to_proto(model)
    finally:
        for value, tensor in held.items():
            value.const_value = tensor


def _free_data_name(path: Path) -> str:
    """A data file beside the one that an older model of this name may be using."""
    name = f"{path.name}.data"
    return f"{name}1" if (path.parent / name).exists() else name


@contextlib.contextmanager
def _workspace(path: Path) -> Iterator[Path]:
    workspace = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield workspace
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
