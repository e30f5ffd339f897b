"""The target for browsers: its tables, and models made for it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_core import errors, to_onnx
from jax2onnx_graph.legalise.kernels import bindings, operator_key, signature
from jax2onnx_onnxruntime._kernels import WEB, measured_opsets, table
from jax2onnx_onnxruntime.web import Web


def nodes(program):
    return [node for graph in program.model.graphs() for node in graph]


def on_the_gpu(key: str, opset: int) -> frozenset[ir.DataType]:
    """The element types with which WebGPU has a kernel; all for operators that it was not measured with."""
    about = signature(key, opset)
    types = None if about is None else table("webgpu").types(key, about.main, opset)
    return frozenset(ir.DataType) if types is None else types


def off_the_gpu(program) -> set[str]:
    """The operators of a model that WebGPU has no kernels for, but those that compute with sizes."""
    found = set()
    for node in nodes(program):
        about = signature(operator_key(node), program.opset)
        if about and bindings(node, about)[about.main] not in on_the_gpu(operator_key(node), program.opset):
            found.add(node.op_type)
    return found


def test_its_opsets_are_those_that_were_measured():
    assert Web().opsets == measured_opsets(WEB)


def test_the_gpu_has_the_kernels_of_its_best_opset_but_not_of_the_next_ones():
    usual = ("AveragePool", "Conv", "Cos", "Elu", "Gemm", "LSTM", "MaxPool", "Resize", "Softmax", "TopK")
    assert all(ir.DataType.FLOAT in on_the_gpu(key, Web().best_opset) for key in usual)
    assert not on_the_gpu("MaxPool", 22) | on_the_gpu("LSTM", 22) | on_the_gpu("Cos", 22) | on_the_gpu("Attention", 23)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jax.nn.dot_product_attention(x, x, x, is_causal=True),
        lambda x: jax.nn.soft_sign(x),
        lambda x: jax.nn.celu(x),
        lambda x: jax.nn.selu(x),
        lambda x: jax.nn.gelu(x),
    ],
    ids=["attention", "soft_sign", "celu", "selu", "gelu"],
)
def test_operators_without_a_kernel_for_the_gpu_are_written_with_others(fn):
    program = to_onnx(fn, [("B", "T", 2, 8)], target="web")
    assert off_the_gpu(program) <= {"Cast", "Concat", "Gather", "Squeeze"}
    assert program.opset <= Web().best_opset
    program.verify()


def test_selected_booleans_are_carried_by_numbers_that_the_gpu_selects():
    program = to_onnx(lambda c, x, y: jnp.where(c, x, y), [((3,), bool)] * 3, target="web")
    assert off_the_gpu(program) == set()
    program.verify()


def test_float32_needs_no_doubles():
    def fn(x):
        return (
            jnp.argmax(x, -1),
            jax.lax.top_k(x, 3),
            jnp.sort(x),
            jnp.cumsum(x, 1),
            jnp.linalg.norm(x),
            jnp.exp(x).sum(),
        )

    program = to_onnx(fn, [("B", 9)], target="web")
    types = {value.dtype for node in nodes(program) for value in node.outputs}
    assert ir.DataType.DOUBLE not in types
    program.verify()


SPECIAL = [
    0,
    -0.0,
    1,
    -1,
    0.3,
    -2.5,
    1.5e-45,
    -2e-40,
    1.2e-38,
    3.4e38,
    2**31 - 128,
    2**31,
    -(2**31),
    5e9,
    np.inf,
    -np.inf,
    np.nan,
]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.astype(np.int32),
        lambda x: x.astype(np.uint32),
        lambda x: jax.lax.bitcast_convert_type(x, np.uint32),
        lambda x: jax.lax.bitcast_convert_type(jax.lax.bitcast_convert_type(x, np.int32), np.float32),
        lambda x: jax.lax.nextafter(x, jnp.flip(x)),
        lambda x: jax.lax.reduce_precision(x, 8, 3),
        lambda x: jax.lax.reduce_precision(x, 5, 10),
        lambda x: jnp.cbrt(jnp.round(x)),
        lambda x: jnp.arctan2(x, jnp.flip(x)),
    ],
    ids=["int32", "uint32", "bits", "bits_and_back", "nextafter", "mantissa", "exponent", "cbrt", "arctan2"],
)
def test_special_numbers_need_no_doubles(fn):
    x = np.array(SPECIAL, np.float32)
    program = to_onnx(fn, [x.shape], target="web")
    assert ir.DataType.DOUBLE not in {value.dtype for node in nodes(program) for value in node.outputs}
    got, want = np.asarray(program(x)), np.asarray(jax.jit(fn)(x))
    if got.dtype == np.float32:
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=0)
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[got == 0]))
    else:
        np.testing.assert_array_equal(got, want)


def test_double_precision_is_refused_with_all_that_needs_it():
    with pytest.raises(errors.ConversionError, match=r"(?s)sin: once, at .*test_web.py.*tanh: once, at .*test_web.py"):
        to_onnx(lambda x: jnp.sin(jnp.tanh(x)), [jax.ShapeDtypeStruct((3,), np.float64)], x64=True, target="web")


@pytest.mark.parametrize("dtype", [jnp.uint16, jnp.bfloat16])
def test_types_without_kernels_are_refused_as_results_too(dtype):
    with pytest.raises(errors.ConversionError, match=f"web has no Cast for {jnp.dtype(dtype).name.upper()}"):
        to_onnx(lambda x: x.astype(dtype), [(3,)], target="web")


def test_there_is_one_version():
    with pytest.raises(errors.OptionError, match=r"'web' has no versions; write target='web'"):
        to_onnx(jnp.tanh, [(3,)], target="web==1.30")


@pytest.mark.parametrize(("op_type", "kept"), [("LSTM", False), ("GRU", False), ("RNN", True), ("RNN_Relu", False)])
def test_nan_behind_recurrences(op_type, kept):
    assert Web().guarantees(op_type, np.dtype(np.float32), "nan") is kept
