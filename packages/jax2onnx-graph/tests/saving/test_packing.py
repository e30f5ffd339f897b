"""Models of any size as a message and buffers."""

import pickle

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import WeightsError
from jax2onnx_graph.saving.packing import PackedModel
from jax2onnx_graph.weights.absent import absent_weight


def model_with(**tensors):
    """A model with these initializers, which nothing uses."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 21}, name="g")
    for name, tensor in tensors.items():
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
        graph.register_initializer(value)
    return ir.Model(graph, ir_version=10)


def sent(model):
    """The model after pickle's protocol 5, and the buffers that went beside the pickle."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(PackedModel.from_model(model), protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=buffers).unpacked(), buffers


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint64", "bool", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
@pytest.mark.parametrize("shape", [(), (3,), (0, 5), (40, 50)])
def test_arrays_come_back(dtype, shape):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    found, _ = sent(model_with(w=ir.Tensor(array, name="w")))
    tensor = found.graph.initializers["w"].const_value
    assert tensor.numpy().dtype == array.dtype
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_numbers_of_four_bits_come_back():
    array = np.random.default_rng(0).integers(-8, 8, (70, 33)).astype(ml_dtypes.int4)
    found, _ = sent(model_with(w=ir.Tensor(array, ir.DataType.INT4, name="w")))
    tensor = found.graph.initializers["w"].const_value
    assert tensor.dtype == ir.DataType.INT4
    np.testing.assert_array_equal(tensor.numpy().astype(int), array.astype(int))


def test_large_weights_are_not_copied():
    array = np.arange(1000.0)
    found, (buffer,) = sent(model_with(w=ir.Tensor(array, name="w")))
    assert np.shares_memory(np.frombuffer(buffer, np.uint8), array)
    assert np.shares_memory(found.graph.initializers["w"].const_value.numpy(), array)


def test_tied_weights_are_one_buffer_and_one_tensor():
    tensor = ir.Tensor(np.arange(1000.0), name="w")
    found, buffers = sent(model_with(a=tensor, b=tensor))
    assert len(buffers) == 1
    assert found.graph.initializers["a"].const_value is found.graph.initializers["b"].const_value


def test_absent_weights_are_named():
    with pytest.raises(WeightsError, match="kernel"):
        PackedModel.from_model(model_with(w=absent_weight("kernel", np.dtype(np.float32), (1000,))))


def test_nothing_limits_the_size():
    """More than 2 GiB, of which nothing is touched: the pages of these zeros are never made."""
    array = np.zeros((1 << 29) + 8, np.float32)
    found, (buffer,) = sent(model_with(w=ir.Tensor(array, name="w")))
    assert len(buffer.raw()) == array.nbytes > 2**31
    assert np.shares_memory(found.graph.initializers["w"].const_value.numpy(), array)
