"""`ArraySnapshots`: what the user's NumPy arrays hold at the export, since he may write into them afterwards."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from jax2onnx_graph.arrays import Array

from jax2onnx_core._array_identity import array_identity

__all__ = ["ArraySnapshots"]


class ArraySnapshots:
    """Copies of arrays that can change, made when a function is first lowered, and used whenever it is lowered again."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[object, Array]] = {}  # with what the id belongs to
        self._copied: dict[Hashable, tuple[Array, Array]] = {}  # by the memory that was copied, with the owner of that

    def snapshot(self, constant: object, array: Array) -> Array:
        """The numbers that a constant of a jaxpr holds: `array` itself if nobody can write into it, else a copy.

        Args:
          constant: the constant; the same one always has the same copy.
          array: its numbers as they are now.
        """
        if not _can_change(array):
            return array
        if id(constant) not in self._copies:
            self._copies[id(constant)] = constant, self._copy(array)
        return self._copies[id(constant)][1]

    def _copy(self, array: Array) -> Array:
        """A copy of the array; that of a transposed matrix is a view of the copy of the matrix, so that both are one weight."""
        if array.ndim == 2 and not array.flags.c_contiguous and array.flags.f_contiguous:
            return self._copy(array.T).T
        memory = array_identity(array)
        if memory not in self._copied:
            self._copied[memory] = array, array.copy()
        return self._copied[memory][1]


def _can_change(array: Array) -> bool:
    """Whether an array, or one that it is a view of, can be written into."""
    while not array.flags.writeable and isinstance(array.base, np.ndarray):
        array = array.base
    return array.flags.writeable
