"""What the kernels of older versions lose is put right, shown with kernels that lose it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_onnxruntime import OnnxRuntime
from jax2onnx_onnxruntime._repairs import RepairsPass
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

OLDEST = OnnxRuntime().of_version(OnnxRuntime().versions[0])
X = np.array([[np.nan, np.inf, -np.inf, 0.0], [1.0, 4.0, 0.25, -1.0]], np.float32)
Y = np.array([[1.0, np.nan, 1.0, np.nan], [2.0, 3.0, np.inf, -1.0]], np.float32)
#: How a kernel that loses special values computes an operator, and how the standard means it.
OPERATORS: dict[str, tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]] = {
    "Max(x, z)": (np.fmax, np.maximum),
    "Min(x, z)": (np.fmin, np.minimum),
    "Sqrt(x)": (lambda x: np.where((x == 0) | np.isinf(x), np.float32(np.nan), np.sqrt(x)), np.sqrt),
}


def _kernel(name: str, compute: Callable[..., np.ndarray]) -> type[OpRun]:
    return type(name, (OpRun,), {"op_domain": "", "_run": lambda self, *given: (compute(*given).astype(np.float32),)})


@pytest.mark.parametrize("call", OPERATORS)
def test_special_values_are_put_right(call: str) -> None:
    lossy, right = OPERATORS[call]
    name = call.partition("(")[0]
    text = f'<ir_version: 8, opset_import: ["" : 18]> g (float[2,4] x, float[2,4] z) => (float[2,4] y) {{ y = {call} }}'
    model = ir.from_onnx_text(text)
    RepairsPass(OLDEST)(model)
    evaluator = ReferenceEvaluator(ir.to_proto(model), new_ops=[_kernel(name, lossy)])
    with np.errstate(invalid="ignore"):
        (got,) = evaluator.run(None, {"x": X, "z": Y})
        np.testing.assert_array_equal(got, right(X, Y) if "z" in call else right(X))


def test_the_newest_version_loses_nothing_of_these() -> None:
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[4] x) => (float[4] y) { a = Max(x, x) b = Sqrt(a) y = Erf(b) }'
    model = ir.from_onnx_text(text)
    RepairsPass(OnnxRuntime())(model)
    assert [node.op_type for node in model.graph] == ["Max", "Sqrt", "Erf"]
