"""A model with absent weights gets them when it is saved; all that does not fit is said at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from jax2onnx_graph import ir
from jax2onnx_graph.errors import WeightsError
from jax2onnx_graph.saving.writing import save_model
from jax2onnx_graph.weights import _safetensors_files as safetensors_files
from jax2onnx_graph.weights.absent import WeightType, absent_weight, computed
from jax2onnx_graph.weights.binding import GivenWeights, Rename, bound_model, needed_weights
from safetensors.numpy import save_file

TYPES = {
    "kernel": WeightType(np.dtype(np.float32), (64, 64)),
    "bias": WeightType(np.dtype(np.float32), (64,)),
    "unused": WeightType(np.dtype(np.float32), (2,)),
}
ARRAYS = {"kernel": np.arange(4096, dtype=np.float32).reshape(64, 64), "bias": np.ones(64, np.float32)}


def model() -> ir.Model:
    """x @ kernel.T + bias, the transposition done when the kernel is there."""
    kernel = absent_weight("kernel", *TYPES["kernel"])
    tensors = {
        "transposed": computed(np.transpose, [kernel], ir.DataType.FLOAT, (64, 64)),
        "kernel": kernel,
        "bias": absent_weight("bias", *TYPES["bias"]),
    }
    values = [
        ir.Value(name=name, type=ir.TensorType(t.dtype), shape=ir.Shape(t.shape.numpy()), const_value=t)
        for name, t in tensors.items()
    ]
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["B", 64]))
    first = ir.node("MatMul", [x, values[0]])
    second = ir.node("MatMul", [first.outputs[0], values[1]])
    last = ir.node("Add", [second.outputs[0], values[2]])
    last.outputs[0].name = "y"
    last.outputs[0].type, last.outputs[0].shape = x.type, x.shape
    graph = ir.Graph(
        [x], last.outputs, nodes=[first, second, last], name="main", opset_imports={"": 18}, initializers=values
    )
    return ir.Model(graph, ir_version=8)


def given(source: object, rename: Rename | None = None) -> GivenWeights:
    return GivenWeights(TYPES, needed_weights(model()), source, rename)


def saved(source: object, folder: Path, rename: Rename | None = None) -> Mapping[str, np.ndarray]:
    path = save_model(bound_model(model(), given(source, rename)), folder / "m.onnx", external_data=True)
    loaded = onnx.load(path)
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in loaded.graph.initializer}


def check(found: Mapping[str, np.ndarray]) -> None:
    expected = {**ARRAYS, "transposed": ARRAYS["kernel"].T}
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_weights_and_what_is_computed_from_them_are_written(tmp_path: Path) -> None:
    check(saved(ARRAYS, tmp_path))


def test_a_file_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_files, "_BLOCK", 1000)
    save_file(ARRAYS, tmp_path / "model.safetensors")
    check(saved(tmp_path / "model.safetensors", tmp_path))


def test_the_model_stays_without_weights(tmp_path: Path) -> None:
    absent = model()
    bound_model(absent, given(ARRAYS))
    assert needed_weights(absent) == ["kernel", "bias"]


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_another_precision_is_converted(dtype: type, tmp_path: Path) -> None:
    found = saved({name: array.astype(dtype) for name, array in ARRAYS.items()}, tmp_path)
    np.testing.assert_array_equal(found["kernel"], ARRAYS["kernel"].astype(dtype).astype(np.float32))


def test_numbers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="numbers that float32 does not hold"):
        saved({**ARRAYS, "bias": np.full(64, 1e300)}, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "dtype", "is_held"),
    [
        (np.array([-128, 127], np.int32), np.int8, True), (np.array([128], np.int32), np.int8, False), (np.array([-129], np.int32), np.int8, False),
        (np.array([127], np.uint8), np.int8, True), (np.array([200], np.uint8), np.int8, False), (np.array([-1], np.int8), np.uint8, False),
        (np.array([2**63], np.uint64), np.int64, False), (np.array([-1], np.int64), np.uint64, False), (np.array([7], np.int64), ml_dtypes.int4, True),
        (np.array([8], np.int64), ml_dtypes.int4, False), (np.array([65504.0]), np.float16, True), (np.array([1e5]), np.float16, False),
        (np.array([1e5], ml_dtypes.bfloat16), np.float16, False), (np.array([6e4], np.float16), ml_dtypes.bfloat16, True), (np.array([1e39]), ml_dtypes.bfloat16, False),
        (np.array([np.inf, np.nan]), np.float16, True), (np.array([1e300 + 1j]), np.complex64, False), (np.array([2 + 1j]), np.complex64, True),
        (np.array([6.0, -0.5], np.float32), ml_dtypes.float4_e2m1fn, True), (np.array([-7.5], np.float32), ml_dtypes.float4_e2m1fn, False),
        (np.array([np.nan]), ml_dtypes.float4_e2m1fn, False), (np.array([np.inf]), ml_dtypes.float4_e2m1fn, False), (np.array([448.0, np.nan]), ml_dtypes.float8_e4m3fn, True),
        (np.array([500.0]), ml_dtypes.float8_e4m3fn, False), (np.array([np.inf]), ml_dtypes.float8_e4m3fn, False), (np.array([-np.inf]), ml_dtypes.float8_e5m2, True),
        (np.array([np.inf], ml_dtypes.float8_e5m2), ml_dtypes.float8_e5m2fnuz, False),
    ],
)  # fmt: skip
def test_numbers_are_those_of_the_source_or_refused(source: np.ndarray, dtype: type, is_held: bool) -> None:
    weights = GivenWeights({"w": WeightType(np.dtype(dtype), source.shape)}, ["w"], {"w": source}, None)
    if is_held:
        found = weights.array("w")
        wanted = [source.real, source.imag] if source.dtype.kind == "c" else source
        np.testing.assert_allclose(found.astype(np.float64).T, np.asarray(wanted, np.float64), rtol=1e-2)
    else:
        with pytest.raises(WeightsError, match=f"numbers that {np.dtype(dtype).name} does not hold"):
            weights.array("w")


@pytest.mark.parametrize("array", [np.array(["1"]), np.array([1.0], object), np.array([1], "datetime64[s]"), np.array([1], "timedelta64[s]"), np.array([b"1"])])  # fmt: skip
@pytest.mark.parametrize("is_made", [False, True])
def test_arrays_of_no_numbers_are_refused(array: np.ndarray, is_made: bool) -> None:
    with pytest.raises(WeightsError, match="of another type: w is "):
        GivenWeights(
            {"w": WeightType(np.dtype(np.float32), (1,))}, ["w"], {"w": (lambda: array) if is_made else array}, None
        ).array("w")


@pytest.mark.parametrize("rename", [{"kernel": "w.kernel", "bias": "w.bias"}, lambda name: f"w.{name}"])
def test_names_of_the_source_may_differ(rename: Rename, tmp_path: Path) -> None:
    check(saved({f"w.{name}": array for name, array in ARRAYS.items()}, tmp_path, rename))


def test_all_that_does_not_fit_is_said_at_once() -> None:
    source = {"kernel": np.ones((64, 3), np.float32), "other": np.ones(2), "more": np.ones(2), "unused": np.ones(9)}
    with pytest.raises(WeightsError) as raised:
        given(source)
    text = str(raised.value)
    assert "missing: bias float32[64]" in text
    assert "unknown to the program: more, other" in text
    assert "of another type: kernel is float32[64, 3], the program has float32[64, 64]" in text


@pytest.mark.parametrize("dtype", [np.int32, np.bool_, np.complex64])
def test_another_kind_of_number_is_refused(dtype: type) -> None:
    with pytest.raises(WeightsError, match="kernel is"):
        given({**ARRAYS, "kernel": ARRAYS["kernel"].astype(dtype)})


def test_a_weight_that_nobody_uses_may_be_given_or_not() -> None:
    given({**ARRAYS, "unused": np.ones(2, np.float32)})
    given(ARRAYS)


def test_functions_make_weights_one_by_one(tmp_path: Path) -> None:
    check(saved({name: lambda name=name: ARRAYS[name] for name in ARRAYS}, tmp_path))


def test_a_function_that_makes_another_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"bias is float32\[3\]"):
        saved({**ARRAYS, "bias": lambda: np.ones(3, np.float32)}, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shape", [(65, 64), (63, 64), (64, 65), (64, 64, 1), (4096,), (64,), (), (0, 64)])
def test_a_function_that_makes_another_shape_of_a_large_weight_is_refused(shape, tmp_path: Path) -> None:
    message = rf"kernel is float32\[{', '.join(map(str, shape))}\]"
    with pytest.raises(WeightsError, match=message):
        saved({**ARRAYS, "kernel": lambda: np.ones(shape, np.float32)}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    saved(ARRAYS, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def ends() -> np.ndarray:
        raise EOFError("the file ends here")

    with pytest.raises(WeightsError, match="bias could not be read"):
        saved({**ARRAYS, "bias": ends}, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_that_was_cut_off_since_leaves_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "model.safetensors", tmp_path / "out"
    target.mkdir()
    save_file(ARRAYS, source)
    weights = given(source)
    source.write_bytes(source.read_bytes()[:-5])
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        save_model(bound_model(model(), weights), target / "m.onnx", external_data=True)
    assert list(target.iterdir()) == []
