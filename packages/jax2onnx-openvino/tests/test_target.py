"""The target: what it answers, the models it is given, and that it loads nothing before it is needed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import ConversionError, OptionError, TargetError
from jax2onnx_graph.metadata import note_sizes
from jax2onnx_openvino import OpenVino
from jax2onnx_openvino._repairs import RepairsPass
from jax2onnx_openvino.runtime import OpenVinoRuntime

TARGET, RUNTIME = OpenVino(), OpenVinoRuntime()


@pytest.mark.parametrize(
    ("op_type", "dtype"),
    [("Add", np.float32), ("Conv", np.float32), ("MatMul", np.float16), ("Gather", np.int32), ("Div", np.int32),
     ("Less", np.int32), ("ReduceSum", np.int32), ("Add", np.int8), ("Attention", np.float32), ("Where", np.bool_), ("BitShift", np.uint32),
     ("Max", np.uint32), ("Cast", np.uint32)],
)  # fmt: skip
def test_what_is_right_is_supported(op_type, dtype):
    assert TARGET.supports(op_type, np.dtype(dtype), 23)


@pytest.mark.parametrize(
    ("op_type", "dtype"),
    [("Add", np.float64), ("Pow", np.uint32), ("Cast", np.uint64), ("Det", np.float32), ("RandomNormal", np.float32)],
)
def test_what_is_wrong_is_not_supported(op_type, dtype):
    assert not TARGET.supports(op_type, np.dtype(dtype), 23)


def test_guarantees_are_those_that_were_measured():
    assert not TARGET.guarantees("Relu", np.dtype(np.float32), "nan")
    assert not TARGET.guarantees("TopK", np.dtype(np.float32), "nan")
    assert TARGET.guarantees("Tanh", np.dtype(np.float32), "nan")
    assert TARGET.guarantees("ReduceSum", np.dtype(np.int32), "wraps")


@pytest.mark.parametrize(("op_type", "kept"), [("LSTM", True), ("GRU", True), ("RNN", True), ("RNN_Relu", False)])
def test_nan_behind_recurrences(op_type, kept):
    assert TARGET.guarantees(op_type, np.dtype(np.float32), "nan") is kept


def test_nan_behind_a_recurrence_that_loses_it_is_put_back():
    pytest.importorskip("openvino")
    text = """<ir_version: 10, opset_import: ["" : 22]>
    agraph (float[4,3,2] x, float[1,5,2] w, float[1,5,5] r) => (float[4,1,3,5] y) {
        y = RNN<hidden_size = 5, activations = ["Relu"]>(x, w, r)
    }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    for factory in TARGET.passes():
        model = factory(TARGET)(model).model
    operands = {
        "x": np.ones((4, 3, 2), np.float32),
        "w": np.ones((1, 5, 2), np.float32),
        "r": np.ones((1, 5, 5), np.float32),
    }
    operands["x"][2, 1, 0] = np.nan
    want = np.zeros((4, 1, 3, 5), bool)
    want[2:, :, 1] = True
    np.testing.assert_array_equal(np.isnan(RUNTIME.load(model)(operands)[0]), want)


def test_its_models_have_no_functions():
    program = to_onnx(lambda x: jax.nn.gelu(x @ x.T), [("N", 3)], target="openvino")
    assert not program.model.functions
    assert program.opset <= 23


def test_a_nan_that_a_kernel_loses_is_put_back():
    program = to_onnx(jnp.exp, [(3,)], target="openvino")
    assert {node.op_type for node in program.model.graph} == {"Exp", "IsNaN", "Where"}


@pytest.mark.parametrize(("fn", "dtype"), [(jnp.sin, jnp.float64), (lambda x: x + 1, jnp.int64)])
def test_types_of_64_bits_are_refused(fn, dtype):
    with jax.enable_x64(True), pytest.raises(ConversionError, match=r"openvino has no|in 32 bits"):
        to_onnx(fn, [((3,), dtype)], target="openvino")


def test_convolutions_over_four_axes_are_refused():
    def convolve(x, w):
        return jax.lax.conv_general_dilated(x, w, (1,) * 4, "VALID")

    with pytest.raises(ConversionError, match="Conv over more than three axes"):
        to_onnx(convolve, [(1, 2, 4, 4, 4, 4), (3, 2, 2, 2, 2, 2)], target="openvino")


def test_convolutions_with_filters_of_symbolic_sizes_are_refused():
    with pytest.raises(ConversionError, match="Conv with a filter of symbolic sizes"):
        to_onnx(jnp.correlate, [("N",), ("M",)], constraints=["M <= N"], target="openvino")


def test_convolutions_of_images_without_elements_are_refused():
    def convolve(x, w):
        padded = jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (2, 0, 0), (0, 0, 0)])
        return jax.lax.conv_general_dilated(padded, w, (1,), [(0, 1)], dimension_numbers=("NWC", "WIO", "NWC"))

    with pytest.raises(ConversionError, match="Conv of an image without elements"):
        to_onnx(convolve, [("B", 0, 4), (3, 4, 6)], target="openvino")


@pytest.mark.parametrize(
    "function",
    [lambda x: jax.nn.logsumexp(x, axis=1), lambda x: jnp.broadcast_to(x.max(1, initial=2)[:, None, None], (x.shape[0], 0, 2)).sum((1, 2)),
     lambda x: jnp.concatenate([jnp.zeros((x.shape[0], 0)), jnp.ones((x.shape[0], 1))], 1)],
    ids=["logsumexp", "broadcast", "concatenate"],
)  # fmt: skip
def test_arrays_without_elements_have_the_sizes_that_are_computed(function):
    pytest.importorskip("openvino")
    to_onnx(function, [("B", 0)], target="openvino").verify()


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
@pytest.mark.parametrize("size", [0, 1, 3])
def test_axes_are_repeated_no_times_in_front_of_other_operators(dtype, size):
    pytest.importorskip("openvino")

    def fn(x, y):
        whole = jnp.broadcast_to(y, (x.shape[0], 3))
        return jnp.maximum(whole, y[0, 0]), whole ^ True if dtype is np.bool_ else whole + y

    y = np.array([[1, 0, 2]], dtype)
    program = to_onnx(fn, [("B",), ((1, 3), dtype)], constraints=["B >= 0"], target="openvino")
    for got, want in zip(program(np.zeros(size, np.float32), y), fn(np.zeros(size), y), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("shape", "dims", "may_be_zero", "sliced"), [
    ("1, 3", "B, 3", True, True), ("3", "B, 3", True, True), ("1, 1", "1, 0", False, True), ("1, 3", "B, 3", False, False),
    ("B, 1", "B, 3", True, False),
])  # fmt: skip
def test_expands_to_sizes_that_may_be_0_are_sliced(shape, dims, may_be_zero, sliced):
    proto = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[{shape}] x, int64[2] s) => (float[{dims}] y) {{ y = Expand(x, s) }}""")
    model = ir.from_proto(proto)
    note_sizes(model, {"B": not may_be_zero})
    RepairsPass(TARGET)(model)
    assert ("Slice" in [node.op_type for node in model.graph]) == sliced


def test_random_bits_are_those_of_jax():
    pytest.importorskip("openvino")
    to_onnx(lambda x: jax.random.bits(jax.random.key(x), (100,)), [((), jnp.uint32)], target="openvino").verify()


def test_a_loop_of_a_negative_number_of_steps_ends():
    pytest.importorskip("openvino")

    def doubled(n, x):
        return jax.lax.fori_loop(2, n, lambda i, y: 2 * y + i, x)

    program = to_onnx(doubled, [((), np.int32), ((3,), np.float32)], target="openvino")
    x = np.ones(3, np.float32)
    for n in (-4, 2, 5):
        np.testing.assert_array_equal(program(np.int32(n), x), doubled(n, x))


def test_it_runs_a_program():
    pytest.importorskip("openvino")
    to_onnx(lambda x: jax.nn.softmax(x @ x.T), [("N", 3)], target="openvino").verify()


def test_a_model_that_the_runtime_refuses_is_an_error_of_the_target():
    pytest.importorskip("openvino")
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[N] x) => (float[N] y) { y = Nonsense(x) }'
    with pytest.raises(TargetError, match="OpenVINO cannot load the model"):
        RUNTIME.load(ir.from_onnx_text(text))


def test_without_the_runtime_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[N] x) => (float[N] y) { y = Neg(x) }'
    assert not RUNTIME.is_installed
    with pytest.raises(TargetError, match=r"pip install 'jax2onnx-openvino\[openvino\]'"):
        RUNTIME.load(ir.from_onnx_text(text))


def test_registering_imports_neither_the_runtime_nor_core():
    code = (
        "import sys\nfrom jax2onnx_openvino import plugin\n"
        "class Registry:\n    def target(self, target): print(target.name, target.is_default)\n    def runtime(self, runtime): pass\n"
        "plugin.jax2onnx_register(Registry())\n"
        "print(*({'openvino', 'jax2onnx_core', 'jax'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["openvino False", ""]


def test_a_later_version_is_treated_as_the_measured_one_and_an_earlier_one_refused():
    (measured,) = OpenVino().versions
    assert OpenVino().of_version(measured).notes == ()
    (note,) = OpenVino().of_version("2099.1").notes
    assert note.startswith(f"What OpenVINO 2099.1 computes is not known: the model is for {measured}")
    with pytest.raises(OptionError, match=rf"OpenVINO 2020\.1 is older than .*; the oldest is {re.escape(measured)}"):
        OpenVino().of_version("2020.1")
