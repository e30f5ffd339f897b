"""`model_pieces`: a model as pieces of a file, bytes and the large tensors themselves, which are not copied first."""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar, cast

import numpy as np
import onnx

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.weights.absent import StreamedTensor

__all__ = [
    "LARGE",
    "LARGEST_FILE",
    "Piece",
    "Segment",
    "large_tensors",
    "lay_out",
    "model_pieces",
    "piece_blocks",
    "piece_bytes",
    "reference",
    "size",
]

Piece = bytes | ir.TensorProtocol
Segment = tuple[int, int]
"""Offset and length in a data file."""

# Smaller tensors stay in the message, where shape inference and constant folding see them.
LARGE = 1024
# No file with a protobuf message is larger.
LARGEST_FILE = 2**31 - 1
# What the ONNX specification recommends for data files that are mapped into memory.
_ALIGNMENT = 4096
# What is copied of a transposed array at once: several entries of each of its columns, which are rows in memory.
_BLOCK = 1 << 23  # bytes
_TILE = 2048  # elements at least
_COLUMNS = 8

_Key = TypeVar("_Key")
_Message = TypeVar("_Message", onnx.ModelProto, onnx.GraphProto, onnx.TensorProto)


def size(pieces: Iterable[Piece]) -> int:
    """The bytes that the pieces take."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.nbytes for piece in pieces)


def piece_blocks(piece: Piece) -> Iterator[bytes | memoryview]:
    """The bytes of a piece in blocks; a weight from a file is read block by block, and a view copied so."""
    if isinstance(piece, bytes):
        yield piece
        return
    for array in piece.blocks() if isinstance(piece, StreamedTensor) and piece.dtype.bitwidth >= 8 else [piece.numpy()]:
        if piece.dtype.bitwidth < 8 or sys.byteorder != "little":
            yield ir.Tensor(array, piece.dtype).tobytes()
        elif array.flags.c_contiguous:
            yield _memory(array)
        else:
            plain, rows = array.view(f"u{array.itemsize}"), max(1, _BLOCK // max(1, array[:1].nbytes))
            yield from (_memory(_contiguous(plain[start : start + rows])) for start in range(0, len(plain), rows))


def _contiguous(view: Array) -> Array:
    """A copy in C order, made in blocks that stay in the cache of the processor where the view is a transposed array."""
    copy = np.empty(view.shape, view.dtype)
    step = max(_COLUMNS, _TILE // max(1, view.size // view.shape[-1]))
    for start in range(0, view.shape[-1], step):
        block = ..., slice(start, start + step)
        copy[block] = view[block]
    return copy


def piece_bytes(piece: Piece) -> bytes | memoryview:
    """The bytes of a piece, without a copy where its memory looks like the file."""
    blocks = list(piece_blocks(piece))
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def _memory(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def large_tensors(model: ir.Model, at_least: int = LARGE) -> dict[str, ir.TensorProtocol]:
    """The initializers of at least that many bytes, by name; never strings or empty tensors."""
    tensors = {name: value.const_value for name, value in model.graph.initializers.items()}
    return {
        name: tensor
        for name, tensor in tensors.items()
        if tensor is not None and tensor.dtype != ir.DataType.STRING and tensor.nbytes >= max(at_least, 1)
    }


def lay_out(tensors: Mapping[_Key, ir.TensorProtocol]) -> tuple[list[Piece], dict[_Key, Segment]]:
    """A data file of these tensors, and the segment of each in it."""
    pieces: list[Piece] = []
    segments: dict[_Key, Segment] = {}
    end = 0
    for key, tensor in tensors.items():
        padding = -end % _ALIGNMENT
        segments[key] = (end + padding, tensor.nbytes)
        pieces += [bytes(padding), tensor]
        end += padding + tensor.nbytes
    return pieces, segments


def model_pieces(
    model: ir.Model, data_file: str = "", segments: Mapping[str, Segment] = MappingProxyType({})
) -> list[Piece]:
    """The content of a model file. The model itself is left alone, so that threads may save it at the same time.

    Args:
      model: the model.
      data_file: the name of the data file beside it, empty for none.
      segments: initializer → its segment of the data file; all others are in the model file.
    """
    inside = {
        name: tensor
        for name, tensor in large_tensors(model, 1).items()
        if name not in segments and (tensor.nbytes >= LARGE or isinstance(tensor, ir.ExternalTensor))
    }
    message = _with_references(model, data_file, {**dict.fromkeys(inside, (0, 0)), **segments})
    graph, nested = message.graph, onnx.GraphProto.INITIALIZER_FIELD_NUMBER
    initializers = [_field(nested, _tensor_pieces(t, inside.get(t.name))) for t in graph.initializer]
    graph_pieces = _with_field(graph, nested, itertools.chain.from_iterable(initializers))
    outer = onnx.ModelProto.GRAPH_FIELD_NUMBER
    return _with_field(message, outer, _field(outer, graph_pieces))


def _with_references(model: ir.Model, location: str, segments: Mapping[str, Segment]) -> onnx.ModelProto:
    graph = model.graph
    initializers = [
        _pointing(value, location, *segments[name]) if name in segments else value
        for name, value in graph.initializers.items()
    ]
    view = ir.GraphView(
        graph.inputs, graph.outputs, nodes=graph, initializers=initializers, doc_string=graph.doc_string,
        opset_imports=graph.opset_imports, name=graph.name, metadata_props=graph.metadata_props,
    )  # fmt: skip
    shown = copy.copy(model)
    shown.graph = cast("ir.Graph", view)  # documented for serialisation, but not declared
    return ir.to_proto(shown)


def _pointing(value: ir.Value, location: str, offset: int, length: int) -> ir.Value:
    tensor = value.const_value
    assert tensor is not None, "it has a segment because it has a tensor"
    shape = ir.Shape(tensor.shape.numpy())
    external = ir.ExternalTensor(location, offset, length, tensor.dtype, shape=shape, name=value.name or "")
    pointing = ir.Value(
        name=value.name, type=value.type, shape=value.shape, doc_string=value.doc_string, const_value=external,
        metadata_props=value.metadata_props,
    )  # fmt: skip
    pointing.meta.update(value.meta)
    return pointing


def _tensor_pieces(message: onnx.TensorProto, tensor: ir.TensorProtocol | None) -> list[Piece]:
    if tensor is None:
        return [message.SerializeToString()]
    message.ClearField("external_data")
    message.ClearField("data_location")
    number = onnx.TensorProto.RAW_DATA_FIELD_NUMBER
    return _with_field(message, number, _field(number, [tensor]))


def _with_field(message: _Message, number: int, field: Iterable[Piece]) -> list[Piece]:
    """The message with `field`, which is serialised, in place of what it has under this number."""
    before, after = type(message)(), type(message)()
    for part in (before, after):
        part.CopyFrom(message)
    for present, _ in message.ListFields():
        if present.number >= number:
            before.ClearField(present.name)
        if present.number <= number:
            after.ClearField(present.name)
    return [before.SerializeToString(), *field, after.SerializeToString()]


def _field(number: int, pieces: Sequence[Piece]) -> list[Piece]:
    """A field of protobuf's wire format whose content has a length: a message, a string or bytes."""
    return [_varint(number << 3 | 2) + _varint(size(pieces)), *pieces]


def _varint(number: int) -> bytes:
    """Protobuf's integers: seven bits in a byte, the low ones first, the high bit set in all but the last."""
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])


def reference(data_file: str) -> bytes:
    """The bytes by which a model file says that a tensor is in this data file."""
    return onnx.StringStringEntryProto(key="location", value=data_file).SerializeToString()
