"""Reading the files of models, whoever wrote them."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import ReadError

__all__ = ["read_model"]


def read_model(path: str | os.PathLike[str]) -> ir.Model:
    """The model in a file; weights in data files beside it are read when they are asked for.

    Raises:
      ReadError: there is no such file, or it holds no ONNX model.
    """
    if not isinstance(path, str | os.PathLike):
        raise ReadError(f"Cannot read {path!r:.80}: a path is a string or a pathlib.Path.")
    path = Path(path)
    if path.is_dir():
        raise ReadError(f"Cannot read {path}: it is a directory; give the name of a model file.")
    try:
        proto = onnx.load(str(path), load_external_data=False)
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
    ir.external_data.set_base_dir(model.graph, path.parent)
    return model


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
