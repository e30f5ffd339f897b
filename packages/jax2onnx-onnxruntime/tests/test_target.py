"""The target: what it answers, and that it loads nothing before it is needed."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import subprocess
import sys

import jax2onnx_onnxruntime
import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import ReadError, TargetError
from jax2onnx_graph.forms import Form, Threshold
from jax2onnx_graph.legalise.guarantees import concerns
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_graph.saving.writing import save_model
from jax2onnx_graph.targets import Target, standard_target
from jax2onnx_onnxruntime import OnnxRuntime, _compat, load
from jax2onnx_onnxruntime.forms import FORMS, THRESHOLDS
from jax2onnx_onnxruntime.runtime import OrtRuntime

TARGET, RUNTIME = OnnxRuntime(), OrtRuntime()


@pytest.mark.parametrize(
    ("op_type", "dtype", "kept"),
    [
        ("ReduceMax", np.float32, "nan"),
        ("ArgMin", np.float64, "nan"),
        ("MaxPool", np.float32, "nan"),
        ("MaxPool", np.float32, "inf"),
        ("Sign", np.float16, "nan"),
        ("ScatterElements_max", np.float32, "nan"),
        ("ScatterND_min", np.float64, "nan"),
        ("ReduceSum", np.int32, "wraps"),
        ("ReduceProd", np.int64, "wraps"),
        ("Conv", np.float32, "empty"),
        ("ReduceLogSumExp", np.float32, "nan"),
        ("LayerNormalization", np.float32, "empty"),
        ("ReduceMax", np.bool_, "empty"),
        ("LogSoftmax", np.float64, "inf"),
        ("Gelu", np.float64, "accurate"),
        ("DFT", np.float32, "accurate"),
        ("ScatterND", np.float32, "order"),
        ("ScatterND_add", np.int64, "order"),
        ("Where", np.float32, "signed_zero"),
        ("Cast", ml_dtypes.float8_e4m3fn, "signed_zero"),
    ],
)
def test_what_the_kernels_lose_is_not_guaranteed(op_type, dtype, kept):
    assert not TARGET.guarantees(op_type, np.dtype(dtype), kept)
    assert standard_target.guarantees(op_type, np.dtype(dtype), kept)


@pytest.mark.parametrize(
    ("op_type", "dtype", "kept"),
    [
        ("Max", np.float32, "nan"),
        ("Clip", np.float64, "nan"),
        ("Relu", np.float16, "nan"),
        ("Sign", np.float32, "nan"),
        ("CumSum", np.int32, "wraps"),
        ("MatMul", np.uint64, "wraps"),
        ("LogSoftmax", np.float32, "inf"),
        ("Gelu", np.float32, "accurate"),
        ("RMSNormalization", np.float32, "accurate"),
        ("ScatterElements", np.float32, "order"),
        ("ScatterElements_add", np.bool_, "order"),
    ],
)
def test_what_the_kernels_keep_is_guaranteed(op_type, dtype, kept):
    assert TARGET.guarantees(op_type, np.dtype(dtype), kept)


def test_a_property_that_the_numbers_of_a_type_cannot_show_is_kept():
    assert TARGET.guarantees("ReduceMax", np.dtype(np.int32), "nan")
    assert TARGET.guarantees("ReduceSum", np.dtype(np.float32), "wraps")


def test_a_type_without_a_kernel_loses_what_the_wider_type_loses():
    assert not TARGET.guarantees("ReduceMax", np.dtype(ml_dtypes.bfloat16), "nan")
    assert not TARGET.guarantees("ReduceSum", np.dtype(np.int8), "wraps")
    assert TARGET.guarantees("Relu", np.dtype(ml_dtypes.bfloat16), "nan")


def test_the_guarantees_name_the_version_they_were_measured_with():
    data = json.loads(pathlib.Path(jax2onnx_onnxruntime.__path__[0], "guarantees.json").read_text())
    assert data["onnxruntime"].count(".") == 2


def test_no_type_is_both_kept_and_lost():
    data = json.loads(pathlib.Path(jax2onnx_onnxruntime.__path__[0], "guarantees.json").read_text())
    for properties in data["guarantees"].values():
        for kept, types in properties.items():
            assert not set(types["kept"].split()) & set(types["lost"].split())
            for name in (*types["kept"].split(), *types["lost"].split()):
                assert concerns(kept, ir.DataType.from_short_name(name))


@pytest.mark.parametrize(
    ("forms", "fastest"),
    [
        ((Form.SWISH, Form.SILU_BY_SIGMOID), Form.SILU_BY_SIGMOID),
        ((Form.GROUP_NORMALIZATION, Form.INSTANCE_NORMALIZATION), Form.INSTANCE_NORMALIZATION),
        ((Form.SOFTMAX, Form.SOFTMAX_LAST_AXIS), Form.SOFTMAX_LAST_AXIS),
        ((Form.SOFTMAX_FIRST_AXIS, Form.SOFTMAX_BY_FORMULA), Form.SOFTMAX_BY_FORMULA),
        ((Form.EINSUM, Form.MATMUL), Form.MATMUL),
        ((Form.MAX, Form.RELU), Form.RELU),
    ],
)
def test_the_fastest_form_is_preferred(forms, fastest):
    assert TARGET.prefers(*forms) is fastest
    assert standard_target.prefers(*forms) is forms[0]


def test_the_first_form_is_preferred_where_they_were_not_measured_together():
    assert TARGET.prefers(Form.EINSUM, Form.SWISH) is Form.EINSUM


def test_each_form_is_in_one_group():
    forms = [form for group in FORMS for form in group]
    assert len(forms) == len(set(forms))


def test_each_threshold_was_measured():
    assert set(THRESHOLDS) == set(Threshold)
    assert [TARGET.threshold(threshold) for threshold in THRESHOLDS] == list(THRESHOLDS.values())


def test_its_passes_take_the_target():
    assert [type(factory(TARGET)).__name__ for factory in TARGET.passes()] == [
        "FiniteRecurrencesPass", "FullyMaskedRowsPass", "AttentionFormsPass", "PartlyFilledPass", "FoldFlags", "SelectionsPass", "EmptyOperandsPass", "LegalisePass",
        "SmallProbabilitiesPass", "LongSumsPass", "TransposedProductsPass", "TransposesPass",
        "NeutralConstantsPass", "ScalarFusionsPass",
    ]  # fmt: skip


def test_it_runs_a_model():
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 23]> g (float[N] x) => (float[N] y) { y = Neg(x) }')
    (result,) = RUNTIME.load(model)({"x": np.array([1.0], np.float32)})
    assert RUNTIME.is_installed
    np.testing.assert_array_equal(result, [-1.0])


def test_a_model_that_the_runtime_refuses_is_an_error_of_the_target():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 23]> g (float[N] x) => (float[N] y) { y = Nonsense(x) }'
    )
    with pytest.raises(TargetError, match=r"ONNX Runtime cannot load the model: .*Nonsense"):
        RUNTIME.load(model)


def _with_weights_in_a_file(folder: pathlib.Path) -> pathlib.Path:
    tensor = ir.Tensor(np.arange(2048, dtype=np.float32), name="w")
    weight = ir.Value(name="w", type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
    x = ir.Value(name="x", type=ir.TensorType(tensor.dtype), shape=tensor.shape)
    node = ir.Node("", "Add", [x, weight], num_outputs=1)
    node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = "y", x.type, x.shape
    graph = ir.Graph([x], node.outputs, nodes=[node], initializers=[weight], name="g", opset_imports={"": 21})
    return save_model(ir.Model(graph, ir_version=10), folder / "m.onnx", data_file="m.data")


def _cut(file: pathlib.Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def _as_folder(file: pathlib.Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES = {
    "no data": (lambda folder: (folder / "m.data").unlink(), ReadError),
    "half the data": (lambda folder: _cut(folder / "m.data"), ReadError),
    "a folder for data": (lambda folder: _as_folder(folder / "m.data"), ReadError),
    "no model": (lambda folder: (folder / "m.onnx").unlink(), None),
    "half a model": (lambda folder: _cut(folder / "m.onnx"), None),
    "an empty model": (lambda folder: (folder / "m.onnx").write_bytes(b""), None),
    "another file": (lambda folder: (folder / "m.onnx").write_text("<html>not found</html>"), None),
    "a folder": (lambda folder: _as_folder(folder / "m.onnx"), None),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_an_error_of_ours(damage: str, tmp_path: pathlib.Path):
    path = _with_weights_in_a_file(tmp_path)
    was_read = read_model(path)
    assert load(path)({"x": np.zeros(2048, np.float32)})[0][-1] == 2047
    make, error_of_read = DAMAGES[damage]
    make(tmp_path)
    for source in (path, str(path)):
        with pytest.raises(TargetError, match="ONNX Runtime cannot load the model"):
            load(source)
    if error_of_read is not None:
        with pytest.raises(error_of_read, match="Cannot hand the weights of the model to ONNX Runtime"):
            load(was_read)


@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_bytes_that_are_no_model_are_an_error_of_ours(content: bytes):
    with pytest.raises(TargetError, match="ONNX Runtime cannot load the model"):
        load(content)


def test_without_the_runtime_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    _compat.onnxruntime.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 23]> g (float[N] x) => (float[N] y) { y = Neg(x) }')
    assert not RUNTIME.is_installed
    with pytest.raises(TargetError, match=r"pip install 'jax2onnx-onnxruntime\[cpu\]'"):
        RUNTIME.load(model)


def test_registering_imports_neither_the_runtime_nor_core():
    code = (
        "import sys\nfrom jax2onnx_onnxruntime import plugin\n"
        "class Registry:\n    def target(self, target): print(target.name, target.is_default)\n    def runtime(self, runtime): pass\n"
        "plugin.jax2onnx_register(Registry())\n"
        "print(*({'onnxruntime', 'jax2onnx_core', 'jax'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["onnxruntime True", "web False", ""]


def test_it_is_a_target():
    assert isinstance(TARGET, Target)
