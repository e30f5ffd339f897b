"""What the version of the operators rules out."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx


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
