"""The target: what its table answers, and the models that are made for it or refused."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import ConversionError, Jax2OnnxError, OptionError, TargetError
from jax2onnx_graph.traversal import all_nodes
from jax2onnx_onnxruntime import load
from jax2onnx_qnn import Qnn
from jax2onnx_qnn.runtime import QnnRuntime

TARGET = Qnn()


def operators(program):
    return {node.op_type for node in all_nodes(program.model)}


@pytest.mark.parametrize(
    ("op_type", "dtype"), [("MatMul", np.float32), ("Gelu", np.float16), ("Add", np.int32), ("And", np.bool_), ("Attention", np.float32)]
)  # fmt: skip
def test_what_was_measured_to_run_is_supported(op_type, dtype):
    assert TARGET.supports(op_type, np.dtype(dtype), 23)


@pytest.mark.parametrize(
    ("op_type", "dtype"), [("Erf", np.float32), ("BitwiseAnd", np.int32), ("MatMul", np.float64), ("ScatterND_max", np.float32), ("Scan", np.float32),
     ("Cast", np.int8), ("Add", np.uint8)]
)  # fmt: skip
def test_what_was_measured_not_to_run_is_not_supported(op_type, dtype):
    assert not TARGET.supports(op_type, np.dtype(dtype), 23)


def test_models_for_the_npu_hold_no_functions_and_no_sizes_from_data():
    assert (TARGET.runs_functions, TARGET.runs_sizes_from_data, TARGET.ir_version, TARGET.rounding) == (
        False,
        False,
        10,
        0.025,
    )
    assert (min(TARGET.opsets), max(TARGET.opsets)) == (18, 23)


def test_a_later_version_is_treated_as_the_measured_one():
    assert TARGET.of_version("2.9").notes
    assert not TARGET.of_version("2.7").notes
    with pytest.raises(OptionError, match=r"the oldest is 2\.7"):
        TARGET.of_version("1.0")


def test_a_symbol_is_named_with_its_place_and_can_be_fixed():
    def mean(x):
        return jnp.tanh(x).mean(axis=1)

    with pytest.raises(ConversionError, match=r"symbols: B, on axis 0 of the input 'x'.*specialize=\{'B': 8\}"):
        to_onnx(mean, [("B", 16)], target="qnn")
    program = to_onnx(mean, [("B", 16)], target="qnn", specialize={"B": 4})
    assert program.model.graph.inputs[0].shape == (4, 16)


@pytest.mark.parametrize(
    ("fn", "spec", "message"),
    [
        (
            lambda x: jax.lax.mul(x, x, out_dtype=np.int8),
            [((3,), jnp.int32)],
            "Mul gives the type of its operands, int32",
        ),
        (lambda x: jax.lax.while_loop(lambda y: y.sum() < 9, lambda y: y + 1, x), [(3,)], "Loop"),
        (lambda x: x & 3, [((3,), jnp.int32)], "BitwiseAnd"),
        (
            lambda x: x.astype(jnp.uint8),
            [((3,), jnp.int32)],
            "integers that become bytes, which saturate instead of wrapping around",
        ),
        (lambda x: x + x, [((3,), jnp.uint8)], "no Add for uint8"),
        (lambda x: (x, x + 1.0), [((3,), jnp.uint8)], "Identity of uint8"),
        (lambda x: x.reshape(1, 1, 1, 1, 3, 1), [(3,)], "6 axes; there are at most 5"),
        (lambda x: x[:, :0], [(3, 4)], "an array without elements"),
    ],
)
def test_what_does_not_run_on_the_npu_is_refused(fn, spec, message):
    with pytest.raises(Jax2OnnxError, match=message):
        to_onnx(fn, spec, target="qnn")


@pytest.mark.parametrize(("dtype", "casts"), [
    ("float32", ["INT32", "FLOAT"]), ("float16", ["INT32", "FLOAT16"]), ("bool", ["INT32", "BOOL"]), ("int32", ["INT32"]),
])  # fmt: skip
def test_bytes_are_cast_by_way_of_int32(dtype, casts):
    program = to_onnx(lambda x: x.astype(dtype), [((2, 4), jnp.uint8)], target="qnn")
    assert [ir.DataType(node.attributes["to"].as_int()).name for node in program.model.graph] == casts
    x = np.array([[0, 1, 100, 127], [128, 200, 254, 255]], np.uint8)
    np.testing.assert_array_equal(load(program.model)({"x": x})[0], x.astype(dtype))


@pytest.mark.parametrize(
    "fn", [lambda x: jax.lax.top_k(x, 2), lambda x: jnp.sort(x), lambda x: jnp.argmax(x, axis=1), lambda x: jax.nn.softmax(x)]
)  # fmt: skip
def test_no_branch_on_data_is_put_in(fn):
    program = to_onnx(fn, [(3, 5)], target="qnn")
    assert not operators(program) & {"If", "Loop", "Scan"}
    x = np.linspace(-2, 2, 15, dtype=np.float32).reshape(5, 3).T.copy()
    for got, want in zip(load(program.model)({"x": x}), jax.tree_util.tree_leaves(fn(x)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def _steps(length: int):
    """A scan that no operator of the NPU stands for, of so many steps, in which three steps of another loop are."""

    def step(state, row):
        after = jax.lax.fori_loop(0, 3, lambda i, y: jnp.tanh(y + row) * (i + 1), state)
        return after, state * row

    return lambda x: jax.lax.scan(step, jnp.ones(4), x, length, reverse=True)


def test_known_steps_are_written_one_after_another():
    program = to_onnx(_steps(6), [(6, 4)], target="qnn")
    assert not operators(program) & {"Loop", "Scan"}
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    for got, want in zip(load(program.model)({"x": x}), _steps(6)(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_steps_of_many_equations_are_refused():
    with pytest.raises(Jax2OnnxError, match="qnn has no Scan"):
        to_onnx(_steps(5000), [(5000, 4)], target="qnn")


def test_without_the_provider_running_says_what_to_install(monkeypatch):
    monkeypatch.setattr(QnnRuntime, "is_installed", False)
    program = to_onnx(jnp.tanh, [(3,)])
    with pytest.raises(TargetError, match=r"pip install 'jax2onnx-qnn\[qnn\]'"):
        program.bisect(runtime="qnn")


def test_what_is_computed_in_half_precision_is_not_rounded_to_another():
    with pytest.raises(ConversionError, match="float32, so that nothing can be rounded to a given one"):
        to_onnx(lambda x: jax.lax.reduce_precision(x, 5, 10), [(3,)], target="qnn")


def test_registering_the_target_reads_no_table():
    code = (
        "import sys, jax2onnx_qnn.plugin; print('jax2onnx_qnn._support' in sys.modules, 'onnxruntime' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]
