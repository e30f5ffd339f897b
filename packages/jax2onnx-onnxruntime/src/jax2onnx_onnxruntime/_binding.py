"""`Binding`: the values that a model's inputs and outputs are bound to, from one run to the next, and `Buffer`, a value with its memory."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.arrays import Array, Dtype

from jax2onnx_onnxruntime._compat import onnxruntime
from jax2onnx_onnxruntime.errors import explained_run
from jax2onnx_onnxruntime.loading import OrtModel, from_ort, packed, to_ort

if TYPE_CHECKING:
    import onnxruntime as ort

__all__ = ["COPIED", "Binding", "Buffer"]

#: Arrays up to so many bytes are copied to memory that stays bound; that is quicker than binding another one.
COPIED = 1 << 16


@functools.cache
def _has_whole_bytes(dtype: Dtype) -> bool:
    return ir.DataType.from_numpy(dtype).bitwidth >= 8


class Buffer:
    """A value of the runtime, and the owner of its memory if it has none of its own.

    Attributes:
      value: the value.
      memory: the array whose memory it uses.
      owner: the buffer whose memory it uses a part of.
    """

    def __init__(self, value: ort.OrtValue, memory: Array | None = None, owner: Buffer | None = None) -> None:
        self.value, self.memory, self.owner = value, memory, owner

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.value.shape())

    def can_take(self, array: Array) -> bool:
        """Whether it has memory of its own for an array of such a shape and type, number by number."""
        memory = self.memory
        if memory is None or memory.shape != array.shape or memory.dtype != array.dtype:
            return False
        return _has_whole_bytes(array.dtype)

    @classmethod
    def from_array(cls, array: Array) -> Buffer:
        """A value with the memory of an array."""
        memory = packed(array)
        return cls(to_ort(memory), memory)


class Binding:
    """The inputs and outputs of a model in its runs; values that are as they were in the last run are not bound again.

    Args:
      model: the loaded model.
    """

    def __init__(self, model: OrtModel) -> None:
        self._model, self._binding = model, model.session.io_binding()
        self._inputs: dict[str, Buffer] = {}
        self._outputs: dict[str, Buffer] = {}
        self._places: dict[str, int] = {}

    def feed(self, inputs: Mapping[str, Array]) -> None:
        """Bind inputs to arrays, of which small ones are copied."""
        for name, array in inputs.items():
            bound = self._inputs.get(name)
            if array.nbytes > COPIED:
                array = packed(array)
                if bound is None or bound.memory is not array:
                    self.bind_input(name, Buffer.from_array(array))
            elif bound is not None and bound.memory is not None and bound.can_take(array):
                np.copyto(bound.memory, array)
            else:
                self.bind_input(name, Buffer.from_array(array.copy()))

    def bind_input(self, name: str, buffer: Buffer) -> None:
        """Let an input be a value."""
        if self._inputs.get(name) is not buffer:
            self._binding.bind_ortvalue_input(name, buffer.value)
            self._inputs[name] = buffer

    def bind_output(self, name: str, buffer: Buffer | None) -> None:
        """Let an output be written to a value; with None, to memory that the runtime allocates in each run."""
        self._places.setdefault(name, len(self._places))
        if buffer is None:
            self._binding.bind_output(name, "cpu")
            self._outputs.pop(name, None)
        elif self._outputs.get(name) is not buffer:
            self._binding.bind_ortvalue_output(name, buffer.value)
            self._outputs[name] = buffer

    def run(self) -> None:
        """Run the model on the bound values."""
        explained_run(self._model.session.run_with_iobinding, self._binding)

    def values(self, names: Collection[str]) -> list[ort.OrtValue]:
        """The values of some outputs after a run."""
        if not names:
            return []
        made, of_runtime = self._binding.get_outputs_as_ortvaluevector(), onnxruntime().OrtValue
        return [of_runtime(made[self._places[name]]) for name in names]

    def arrays(self, names: Collection[str]) -> list[Array]:
        """The arrays of some outputs after a run, which stay as they are in the next one."""
        bound = {name: self._outputs[name].memory for name in names if name in self._outputs}
        found = {name: memory.copy() for name, memory in bound.items() if memory is not None}
        if allocated := [name for name in names if name not in found]:
            if self._model.native_outputs.issuperset(allocated):
                made = self._binding.get_outputs_as_ortvaluevector()
                found |= {name: made[self._places[name]].numpy() for name in allocated}
            else:
                found |= {name: from_ort(value) for name, value in zip(allocated, self.values(allocated), strict=True)}
            found |= {name: found[name].copy() for name in self._model.given_outputs.intersection(allocated)}
        return [found[name] for name in names]
