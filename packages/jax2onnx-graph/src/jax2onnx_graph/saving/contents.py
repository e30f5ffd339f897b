"""`Contents`: which tensors of one or several models are the same bytes in a file."""

from __future__ import annotations

import hashlib

from jax2onnx_graph._ir import ir
from jax2onnx_graph.saving.serialization import piece_blocks

__all__ = ["Content", "Contents"]

#: The number of bytes of a tensor and their SHA-256 digest.
Content = tuple[int, bytes]


class Contents:
    """The contents of tensors, each tensor read once, however many models hold it.

    Element types and shapes do not count: they are in the model, and the bytes in the file.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[ir.TensorProtocol, Content]] = {}  # the tensor too, so that its id stays its own

    def content(self, tensor: ir.TensorProtocol) -> Content:
        """The content of a tensor, which is read block by block; a layout that is changed lazily is changed."""
        if id(tensor) not in self._known:
            digest = hashlib.sha256()
            for block in piece_blocks(tensor):
                digest.update(block)
            self._known[id(tensor)] = tensor, (tensor.nbytes, digest.digest())
        return self._known[id(tensor)][1]
