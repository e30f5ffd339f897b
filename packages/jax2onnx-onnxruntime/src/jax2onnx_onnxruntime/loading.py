"""Running a model in ONNX Runtime: sessions, and arrays of every element type in and out."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.errors import ReadError

from jax2onnx_onnxruntime._compat import onnxruntime
from jax2onnx_onnxruntime.errors import explained, explained_run

if TYPE_CHECKING:
    import onnxruntime as ort

__all__ = ["OrtModel", "default_options", "from_ort", "is_native", "load", "packed", "to_ort", "view_of"]

Source: TypeAlias = ir.Model | onnx.ModelProto | str | os.PathLike[str] | bytes
"""A model to load: as IR, as a proto, as serialised bytes, or the path of its file."""

_IN_MEMORY = 1 << 30
"""Weights beyond this many bytes are handed over in a file, as a protobuf message ends at 2 GiB."""

_NATIVE = {
    f"tensor({name})"
    for name in [
        "float",
        "double",
        "float16",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "bool",
        "string",
    ]
}
"""The types whose arrays ONNX Runtime's Python API takes and returns by itself."""


def load(source: Source, *, providers: Sequence[str] = ("CPUExecutionProvider",)) -> OrtModel:
    """Open a session on `source`; call the result with named arrays.

    Args:
      source: the model to run.
      providers: ONNX Runtime's execution providers, the preferred one first.

    Raises:
      TargetError: ONNX Runtime is not installed, or it refuses the model, or a file of it.
      ReadError: weights of the model are in a file that cannot be read.

    >>> import onnx_ir as ir
    >>> model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 21]> g (float[N] x) => (float[N] y) '
    ...                           '{ y = Neg(x) }')
    >>> load(model)({"x": np.array([1.0, -2.0], np.float32)})
    [array([-1.,  2.], dtype=float32)]
    """
    with explained():
        return OrtModel(source, providers)


class OrtModel:
    """A session with named NumPy arrays in and a list of NumPy arrays out, in the order of the model's outputs.

    Element types that NumPy lacks are those of `ml_dtypes` (bfloat16, float8_*, int4, uint4).

    Attributes:
      session: the session of ONNX Runtime.
      outputs: the names of the outputs.
      native_outputs: those whose arrays ONNX Runtime's Python API makes by itself.
      given_outputs: those that are inputs too, and so have their memory.
    """

    def __init__(
        self, source: Source, providers: Sequence[Any] = ("CPUExecutionProvider",), *,
        options: ort.SessionOptions | None = None,
    ) -> None:  # fmt: skip
        self.session = _open(source, providers, options or default_options())
        self._inputs = {i.name: i.type for i in self.session.get_inputs()}
        optional = {i.name: i.type for i in self.session.get_overridable_initializers()}
        self._types = {**self._inputs, **optional}
        types = {o.name: o.type for o in self.session.get_outputs()}
        self.outputs = [*types]
        self.native_outputs = {name for name, kind in types.items() if is_native(kind)}
        self.given_outputs = types.keys() & self._types.keys()
        self._plain = len(self.native_outputs) == len(types) and all(map(is_native, self._types.values()))

    def __call__(self, inputs: Mapping[str, object]) -> list[np.ndarray]:
        """Run the model.

        Raises:
          ValueError: an input is missing or unknown.
          TypeError: an input has another element type than the model's.
          RuntimeInputError: a convolution or a pooling has no elements to slide over.
        """
        arrays = self._checked(inputs)
        if self._plain:
            outputs: list[np.ndarray] = explained_run(self.session.run, self.outputs, arrays)
            return outputs
        # The OrtValues do not own the memory: `held` does, until the run is over.
        held = {name: packed(array) for name, array in arrays.items()}
        values = {name: to_ort(array) for name, array in held.items()}
        results = explained_run(self.session.run_with_ort_values, self.outputs, values)
        return [from_ort(value) for value in results]

    def _checked(self, inputs: Mapping[str, object]) -> dict[str, np.ndarray]:
        types = self._types
        if inputs.keys() != types.keys() and not self._inputs.keys() <= inputs.keys() <= types.keys():
            missing, unknown = self._inputs.keys() - inputs.keys(), inputs.keys() - types.keys()
            what = [f"{w}: {', '.join(sorted(n))}" for w, n in (("missing", missing), ("unknown", unknown)) if n]
            raise ValueError(f"The model has the inputs {', '.join(self._inputs) or '(none)'}; {'; '.join(what)}.")
        arrays = {}
        for name, given in inputs.items():
            arrays[name] = array = np.asarray(given)
            if ort_type_name(array.dtype) != types[name]:
                raise TypeError(f"Input {name!r} of the model is {types[name]}, not {array.dtype}.")
        return arrays


@functools.lru_cache
def ort_type_name(dtype: Dtype) -> str:
    """ONNX Runtime's name for the tensors of a dtype: `tensor(float)` for float32."""
    try:
        element = ir.DataType.from_numpy(dtype)
    except TypeError:
        return f"no ONNX tensor of {dtype}"
    return "tensor(" + element.name.lower() + ")"


def default_options() -> ort.SessionOptions:
    """Options of a session that tells of errors only."""
    options = onnxruntime().SessionOptions()
    options.log_severity_level = 3
    return options


def _open(source: Source, providers: Sequence[Any], options: ort.SessionOptions) -> ort.InferenceSession:
    runtime = onnxruntime()
    if isinstance(source, (str, os.PathLike)):
        return runtime.InferenceSession(os.fspath(source), options, providers=list(providers))
    if isinstance(source, ir.Model) and (_weight_bytes(source) > _IN_MEMORY or _is_in_files(source)):
        return _open_through_file(source, options, providers)
    return runtime.InferenceSession(_serialised(source), options, providers=list(providers))


def _serialised(source: ir.Model | onnx.ModelProto | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    proto = ir.to_proto(source) if isinstance(source, ir.Model) else source
    data: bytes = proto.SerializeToString()
    return data


def _weight_bytes(model: ir.Model) -> int:
    tensors = (value.const_value for graph in model.graphs() for value in graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def _is_in_files(model: ir.Model) -> bool:
    """Whether weights of a model are in data files, as in one that was read and then changed."""
    return any(
        isinstance(value.const_value, ir.ExternalTensor)
        for graph in model.graphs()
        for value in graph.initializers.values()
    )


def _open_through_file(model: ir.Model, options: ort.SessionOptions, providers: Sequence[Any]) -> ort.InferenceSession:
    with tempfile.TemporaryDirectory(prefix="jax2onnx-") as folder:
        path = pathlib.Path(folder) / "model.onnx"
        try:
            ir.save(model, path, external_data="model.onnx.data")
        except (OSError, ValueError) as error:  # a ValueError where it is no regular file
            raise ReadError(f"Cannot hand the weights of the model to ONNX Runtime in a file: {error}") from error
        return onnxruntime().InferenceSession(str(path), options, providers=list(providers))


def packed(array: np.ndarray) -> np.ndarray:
    """The array as ONNX Runtime wants it in memory: C order, types narrower than a byte packed from the low bits."""
    array = np.asarray(array, order="C")  # ascontiguousarray would give a scalar an axis
    bits = ir.DataType.from_numpy(array.dtype).bitwidth
    if bits >= 8:
        return array
    per_byte, mask = 8 // bits, (1 << bits) - 1
    flat = array.reshape(-1).view(np.uint8) & mask
    flat = np.pad(flat, (0, -flat.size % per_byte)).reshape(-1, per_byte)
    packed = np.zeros(array.size, np.uint8)
    shifted = flat << np.arange(0, 8, bits, dtype=np.uint8)
    packed[: len(flat)] = np.bitwise_or.reduce(shifted, axis=1)
    return packed.view(array.dtype).reshape(array.shape)


def _unpacked(data: np.ndarray, dtype: Dtype, bits: int, count: int) -> np.ndarray:
    codes = (data[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & ((1 << bits) - 1)
    codes = codes.reshape(-1)[:count]
    if dtype.name.startswith("int"):
        # The narrow signed types of ml_dtypes are stored sign-extended.
        codes = np.where(codes >> (bits - 1), codes | ((0xFF << bits) & 0xFF), codes)
    return codes.astype(np.uint8).view(dtype)


def to_ort(array: np.ndarray) -> Any:
    """A value of the runtime that uses the memory of a packed array."""
    value_class = onnxruntime().OrtValue
    return value_class.ortvalue_from_numpy_with_onnx_type(array, int(ir.DataType.from_numpy(array.dtype)))


def view_of(value: Any) -> np.ndarray:
    """The memory of a value of the runtime as an array, without a copy where NumPy has such arrays and it is on the CPU."""
    element = ir.DataType(value.element_type())
    if value.device_name() != "cpu" or element.bitwidth < 8 or not value.tensor_size_in_bytes():
        return from_ort(value)
    memory = (ctypes.c_uint8 * value.tensor_size_in_bytes()).from_address(value.data_ptr())
    return np.frombuffer(memory, np.uint8).view(element.numpy()).reshape(tuple(value.shape()))


def is_native(type_name: str) -> bool:
    """Whether ONNX Runtime's Python API takes and returns the arrays of a type by itself, such as `tensor(float)`."""
    return type_name in _NATIVE


def from_ort(value: Any) -> np.ndarray:
    """The array that a value of the runtime holds."""
    if is_native(value.data_type()):
        array: np.ndarray = value.numpy()
        return array
    element = ir.DataType(value.element_type())
    shape, size = tuple(value.shape()), value.tensor_size_in_bytes()
    data = np.frombuffer(ctypes.string_at(value.data_ptr(), size) if size else b"", np.uint8)
    if element.bitwidth < 8:
        return _unpacked(data, element.numpy(), element.bitwidth, int(np.prod(shape))).reshape(shape)
    return data.view(element.numpy()).reshape(shape)
