"""Loading models, and arrays of every element type in and out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import ReadError, RuntimeInputError, TargetError
from jax2onnx_onnxruntime import load
from jax2onnx_onnxruntime.loading import from_ort, packed, to_ort, view_of

NARROW = [ml_dtypes.int4, ml_dtypes.uint4]
WIDE = [
    np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64,
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
]  # fmt: skip


def model(inputs: str = "float[N] x", body: str = "y = Identity(x)", output: str = "float[N] y") -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 21]> g ({inputs}) => ({output}) {{ {body} }}')


@pytest.mark.parametrize("dtype", [*WIDE, *NARROW])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0, 2)])
def test_arrays_go_in_and_come_out(dtype, shape):
    codes = np.arange(int(np.prod(shape)), dtype=np.uint8).reshape(shape) % 16
    array = (codes % 2).astype(bool) if dtype is np.bool_ else codes.astype(dtype)
    held = packed(array)
    value = to_ort(held)
    for found in (from_ort(value), view_of(value)):
        assert (found.dtype, found.shape) == (array.dtype, shape)
        np.testing.assert_array_equal(found.astype(np.float32), array.astype(np.float32))


@pytest.mark.parametrize(("dtype", "last"), [(ml_dtypes.int4, -1), (ml_dtypes.uint4, 15)])
def test_narrow_numbers_are_packed_from_the_low_bits(dtype, last):
    assert packed(np.array([1, 2, 3, last]).astype(dtype)).view(np.uint8).tolist()[:2] == [0x21, 0xF3]


def test_a_view_is_the_memory_of_the_runtime():
    value = to_ort(np.zeros(2, np.float32))
    view_of(value)[0] = 3
    np.testing.assert_array_equal(from_ort(value), [3, 0])


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float16, np.int64, np.bool_, np.uint8, ml_dtypes.bfloat16, ml_dtypes.int4, np.dtype("S3")]
)
@pytest.mark.parametrize("other", ["", ", bfloat16[N] z"])
def test_an_input_of_another_type_is_refused(dtype, other):
    loaded = load(model(f"float[N] x{other}"))
    further = {"z": np.zeros(2, ml_dtypes.bfloat16)} if other else {}
    with pytest.raises(TypeError, match=r"Input 'x' of the model is tensor\(float\), not"):
        loaded({"x": np.zeros(2, dtype), **further})
    np.testing.assert_array_equal(loaded({"x": np.ones(2, np.float32), **further})[0], [1, 1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "The model has the inputs x, w; missing: w, x."),
        (("x",), "The model has the inputs x, w; missing: w."),
        (("x", "w", "z"), "The model has the inputs x, w; unknown: z."),
        (("z", "a", "x"), "The model has the inputs x, w; missing: w; unknown: a, z."),
    ],
)
def test_inputs_that_are_missing_or_unknown_are_named(given, message):
    loaded = load(model("float[N] x, float[N] w", "y = Add(x, w)"))
    with pytest.raises(ValueError, match=message):
        loaded({name: np.ones(2, np.float32) for name in given})


def test_an_input_with_a_default_may_be_left_out():
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Add(x, w) }'
    loaded, x = load(ir.from_onnx_text(text)), np.ones(2, np.float32)
    np.testing.assert_array_equal(loaded({"x": x})[0], [2, 3])
    np.testing.assert_array_equal(loaded({"x": x, "w": x})[0], [2, 2])


@pytest.mark.parametrize(
    "source",
    [
        lambda made, path: made,
        lambda made, path: ir.to_proto(made),
        lambda made, path: ir.to_proto(made).SerializeToString(),
        lambda made, path: path,
        lambda made, path: str(path),
        lambda made, path: ir.load(path),
    ],
)
@pytest.mark.parametrize("is_apart", [False, True])
def test_sources_of_a_model(tmp_path: Path, source: Callable[..., Any], is_apart: bool) -> None:
    made = model(body="y = Add(x, w)")
    weight = made.graph[0].inputs[1]
    assert weight is not None
    weight.const_value = ir.Tensor(np.arange(2, dtype=np.float32), name="w")
    weight.type, weight.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([2])
    made.graph.register_initializer(weight)
    ir.save(made, tmp_path / "model.onnx", external_data="model.data" if is_apart else None, size_threshold_bytes=0)
    loaded = load(source(made, tmp_path / "model.onnx"))
    np.testing.assert_array_equal(loaded({"x": np.ones(2, np.float32)})[0], [1, 2])


def test_weights_whose_file_is_gone_are_a_read_error(tmp_path):
    made = model(body="y = Add(x, w)")
    weight = made.graph[0].inputs[1]
    assert weight is not None
    weight.const_value = ir.ExternalTensor(
        "gone", 0, 8, ir.DataType.FLOAT, shape=ir.Shape([2]), name="w", base_dir=tmp_path
    )
    weight.type, weight.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([2])
    made.graph.register_initializer(weight)
    with pytest.raises(ReadError, match="Cannot hand the weights of the model to ONNX Runtime in a file"):
        load(made)


def test_a_model_that_the_runtime_refuses():
    with pytest.raises(TargetError, match="ONNX Runtime cannot load the model"):
        load(model(body="y = Nonsense(x)"))


def test_an_axis_without_elements_that_a_kernel_does_not_take_is_explained():
    loaded = load(model("float[1,1,N] x", "y = MaxPool<kernel_shape = [2]>(x)", "float[1,1,M] y"))
    assert loaded({"x": np.ones((1, 1, 3), np.float32)})[0].shape == (1, 1, 2)
    with pytest.raises(RuntimeInputError, match="MaxPool"):
        loaded({"x": np.ones((1, 1, 0), np.float32)})
