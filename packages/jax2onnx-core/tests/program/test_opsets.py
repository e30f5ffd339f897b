"""The version of the operators: how low it is by default, and what a given one rules out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx


@pytest.mark.parametrize(
    ("fn", "opset", "ir_version"),
    [
        (jnp.tanh, 18, 8),
        (jax.nn.gelu, 20, 9),
        (lambda x: jnp.all(x > 0), 18, 8),
        (lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), 19, 9),
        (lambda x: jax.nn.dot_product_attention(x, x, x), 23, 11),
    ],
)
def test_the_opset_is_the_lowest_that_means_the_same(fn, opset, ir_version):
    program = to_onnx(fn, [(2, 5, 4, 8)])
    assert (program.opset, program.model.ir_version) == (opset, ir_version)
    program.verify()


def test_the_opset_of_a_specialization_is_the_lowest_too():
    program = to_onnx(lambda x: jnp.broadcast_to(x.sum(), x.shape), [("N",)])
    assert program.specialize(N=3).opset == 18


def test_a_given_opset_is_declared():
    program = to_onnx(jnp.tanh, [("N",)], opset=21)
    assert (program.opset, program.model.ir_version) == (21, 10)


def test_opset_17():
    def fn(x):
        return jax.nn.glu(x).max(axis=0), x.mean(), jax.lax.scan(lambda c, row: (c, (row * c).min()), x.sum(), x)[1]

    program = to_onnx(fn, [("N", 4)], opset=17)
    assert (program.opset, program.specialize(N=3).opset) == (17, 17)
    program.verify()


def test_what_opset_17_does_not_have_is_named_with_its_line():
    with pytest.raises(errors.ConversionError, match=r"BitwiseAnd: 1, first at .*test_opsets.py:\d+"):
        to_onnx(lambda x: x & 3, [((2,), jnp.int32)], opset=17)


def test_the_report_says_what_holds_the_opset_up():
    lines = to_onnx(lambda x: jax.nn.gelu(x), [(3,)], provenance=True).report().splitlines()
    assert lines[0] == "ONNX program main, opset 20, IR version 10, target onnxruntime"
    (below,) = [line for line in lines if line.startswith("below opset 20 without: Gelu 1 (")]
    assert "test_opsets.py:" in below


@pytest.mark.parametrize(("dtype", "first"), [(jnp.float8_e4m3fn, 19), (jnp.int4, 21), (jnp.float8_e8m0fnu, 24)])
def test_an_element_type_of_a_later_opset(dtype, first):
    def rounded(x):
        return x.astype(dtype).astype(jnp.float32)

    with pytest.raises(errors.ConversionError, match=rf"opset={first}\)"):
        to_onnx(rounded, [("N",)], opset=18)
    x = np.array([1, 2, 4], np.float32)
    np.testing.assert_array_equal(to_onnx(rounded, [("N",)], opset=first)(x), x)


def test_an_input_of_a_later_opset():
    with pytest.raises(errors.ConversionError, match="FLOAT8E5M2"):
        to_onnx(lambda x: x.astype(jnp.float32), [((3,), jnp.float8_e5m2)], opset=18)


@pytest.mark.parametrize("fn", [lambda x: x, lambda x: jnp.concatenate([x, x]), lambda x: x[1:]])
def test_an_element_type_that_the_target_has_nothing_for(fn):
    with pytest.raises(errors.ConversionError, match="FLOAT4E2M1 tensors, and onnxruntime has no operator for those"):
        to_onnx(fn, [((4,), jnp.float4_e2m1fn)])


def test_an_element_type_that_only_the_standard_has():
    program = to_onnx(lambda x: x.astype(jnp.float32).reshape(2, 2).T, [((4,), jnp.float4_e2m1fn)], target="onnx")
    assert [node.op_type for node in program.model.graph] == ["Cast", "Reshape", "Transpose"]
