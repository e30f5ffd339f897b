"""Reading the files of models, whoever wrote them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import onnx
from google.protobuf.message import DecodeError

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import ReadError

__all__ = ["FileVersion", "are_data_files_unchanged", "read_model"]

_Result = TypeVar("_Result")


class FileVersion:
    """A file as it was when this was made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = self._now()

    def is_unchanged(self) -> bool:
        """Whether there is still the same file, and nothing was written to it."""
        return self._now() == self._seen

    def is_elsewhere(self) -> bool:
        """Whether the file was removed or replaced by another one, so that a map of it is still what it was."""
        now = self._now()
        return now is None or self._seen is None or now[:2] != self._seen[:2]

    def _now(self) -> tuple[int, ...] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class _StoredTensor(ir.ExternalTensor):
    """Weights in a data file that has to be the one that was there when the model was read."""

    __slots__ = ("_version",)

    def __init__(self, tensor: ir.ExternalTensor, version: FileVersion) -> None:
        super().__init__(
            tensor.location, tensor.offset, tensor.length, tensor.dtype, shape=tensor.shape, name=tensor.name or "",
            doc_string=tensor.doc_string, metadata_props=tensor.metadata_props, base_dir=tensor.base_dir,
        )  # fmt: skip
        self._version = version

    def numpy(self) -> Array:
        return self._read(super().numpy)

    def __array__(self, dtype: Any = None) -> Array:
        return self._read(lambda: super(_StoredTensor, self).__array__(dtype))

    def tobytes(self) -> bytes:
        return self._read(super().tobytes)

    def tofile(self, file: BinaryIO) -> None:
        file.write(self.tobytes())

    def is_unchanged(self) -> bool:
        """Whether its file is what it was when the model was read."""
        return self._version.is_unchanged()

    def _read(self, read: Callable[[], _Result]) -> _Result:
        version, is_mapped = self._version, self.raw is not None
        if not version.is_unchanged() and not (is_mapped and version.is_elsewhere()):
            raise ReadError(
                f"Cannot read {version.path}: it has changed since the model was read. Read the model again."
            )
        try:
            return read()
        except ValueError as error:  # it is too short, or no regular file
            raise ReadError(f"Cannot read the weight {self.name} in {version.path}: {error}.") from error


def read_model(path: str | os.PathLike[str]) -> ir.Model:
    """The model in a file; weights in data files beside it are read when they are asked for, and as long as these do not change.

    Raises:
      ReadError: there is no such file, or it holds no ONNX model.
    """
    if not isinstance(path, str | os.PathLike):
        raise ReadError(f"Cannot read {path!r:.80}: a path is a string or a pathlib.Path.")
    path = Path(path)
    folder = path.parent.absolute()  # data files are read later, perhaps from another working directory
    if path.is_dir():
        raise ReadError(f"Cannot read {path}: it is a directory; give the name of a model file.")
    try:
        proto = onnx.load(str(path), format="protobuf", load_external_data=False)
    except OSError as error:
        raise ReadError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (DecodeError, ValueError) as error:
        raise ReadError(f"Cannot read {path}: it is no ONNX model.") from error
    if not proto.HasField("graph"):
        raise ReadError(f"Cannot read {path}: it is no ONNX model.")
    _forget_maps(proto.graph)
    try:
        model = ir.from_proto(proto)
    except ir.serde.SerdeError as error:
        raise ReadError(f"Cannot read {path}: {_innermost(error)}") from error
    ir.external_data.set_base_dir(model.graph, folder)
    _watch_data_files(model)
    return model


def are_data_files_unchanged(model: ir.Model) -> bool:
    """Whether all data files of a model are what they were when it was read."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    return all(tensor.is_unchanged() for tensor in tensors if isinstance(tensor, _StoredTensor))


def _watch_data_files(model: ir.Model) -> None:
    """Let weights in data files notice that these have changed."""
    versions: dict[str, FileVersion] = {}
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor):
                version = versions.setdefault(str(tensor.path), FileVersion(Path(tensor.path)))
                stored = _StoredTensor(tensor, version)
                # Those of subgraphs, of which saving lays out none in files, are in the memory.
                value.const_value = stored if graph is model.graph else ir.Tensor(stored.numpy(), name=stored.name)


def _forget_maps(graph: onnx.GraphProto) -> None:
    """Leave out the types of maps, which classifiers of other libraries return and the IR has no type for."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        inner = value.type
        while inner.HasField("sequence_type") or inner.HasField("optional_type"):
            inner = inner.sequence_type.elem_type if inner.HasField("sequence_type") else inner.optional_type.elem_type
        if inner.HasField("map_type"):
            value.ClearField("type")


def _innermost(error: BaseException) -> BaseException:
    return error if error.__cause__ is None else _innermost(error.__cause__)
