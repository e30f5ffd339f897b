"""`PackedModel`: a model of any size in a form that other processes take."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import onnx

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.saving.serialization import large_tensors, model_pieces, piece_bytes

__all__ = ["PackedModel"]

# Tensors in the message refer to it; no file has this name.
_LOCATION = "packed"


@dataclasses.dataclass(frozen=True)
class PackedModel:
    """A model as a message, and the bytes of its large weights as arrays.

    pickle's protocol 5 hands arrays over as buffers of their own, without a copy, and so there is no limit of 2 GiB.

    Attributes:
      message: the model without its large weights.
      arrays: the bytes of each large weight by its name; tied weights have one array.
    """

    message: bytes
    arrays: Mapping[str, Array]

    @classmethod
    def from_model(cls, model: ir.Model) -> PackedModel:
        """Pack a model. A weight whose memory looks like a file's is not copied; a model with absent weights cannot be packed."""
        tensors = large_tensors(model)
        segments = {name: (0, tensor.nbytes) for name, tensor in tensors.items()}
        pieces = model_pieces(model, _LOCATION, segments)
        different = {id(tensor): np.frombuffer(piece_bytes(tensor), np.uint8) for tensor in tensors.values()}
        return cls(
            b"".join(map(piece_bytes, pieces)), {name: different[id(tensor)] for name, tensor in tensors.items()}
        )

    def unpacked(self) -> ir.Model:
        """The model, whose large weights are views of `arrays`."""
        model = ir.from_proto(onnx.ModelProto.FromString(self.message))
        known: dict[tuple[int, ir.DataType, tuple[int, ...]], ir.TensorProtocol] = {}
        for name, array in self.arrays.items():
            value = model.graph.initializers[name]
            tensor = value.const_value
            assert tensor is not None, "an initializer has a tensor"
            key = id(array), tensor.dtype, tuple(tensor.shape.numpy())
            if key not in known:
                known[key] = _tensor(array, *key[1:], name)
            value.const_value = known[key]
        return model


def _tensor(array: Array, dtype: ir.DataType, shape: tuple[int, ...], name: str) -> ir.TensorProtocol:
    """A tensor around the bytes that a file would hold."""
    if dtype.bitwidth < 8:
        return ir.PackedTensor(array, dtype, shape=shape, name=name)
    numbers = array.view(dtype.numpy().newbyteorder("<")) if dtype.numpy().isbuiltin else array.view(dtype.numpy())
    return ir.Tensor(numbers.reshape(shape), dtype, name=name)
