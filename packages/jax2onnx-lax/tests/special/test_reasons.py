"""The family of gamma is computed in float64 where the target has it, and in float32, as by JAX, where it does not."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import onnx_ir as ir
import pytest
from jax import lax
from jax2onnx_core import to_onnx
from jax2onnx_graph.traversal import all_values
from reasons import Declining, reasons_of

DOUBLE = "single precision is computed in double"
FUNCTIONS = [lax.lgamma, lax.digamma, lambda x: lax.zeta(x + 1, x), lambda x: lax.polygamma(lax.floor(x), x)]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=["lgamma", "digamma", "zeta", "polygamma"])
@pytest.mark.parametrize(
    ("dtype", "target", "is_double"),
    [("float32", "onnxruntime", True), ("float16", "onnx", True), ("float64", "onnxruntime", True), ("float32", "openvino", False)],
)  # fmt: skip
def test_double_precision_is_taken_where_there_is_any(
    fn: Callable[[jax.Array], jax.Array], dtype: str, target: str, is_double: bool
) -> None:
    inputs, x64 = [((5,), dtype)], dtype == "float64"
    assert (DOUBLE in reasons_of(Declining(DOUBLE, fn, inputs, {"target": target, "x64": x64}))) is is_double
    program = to_onnx(fn, inputs, target=target, x64=x64)
    assert (ir.DataType.DOUBLE in {value.dtype for value in all_values(program.model)}) is is_double
    if not is_double:
        x = np.array([0.25, 1.5, 2.5, 7.75, 30.0], np.float32)
        np.testing.assert_allclose(program(x), jax.jit(fn)(x), rtol=2e-5)
