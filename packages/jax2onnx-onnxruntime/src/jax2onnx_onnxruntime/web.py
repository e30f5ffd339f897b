"""`Web`: ONNX Runtime in browsers, on the processor by WebAssembly, on the graphics card by WebGPU."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.targets import PassFactory

from jax2onnx_onnxruntime.target import OnnxRuntime

__all__ = ["Web"]


class Web(OnnxRuntime):
    """ONNX Runtime Web, the npm package `onnxruntime-web`, in its build for WebGPU.

    Its kernels in WebAssembly are those of ONNX Runtime's CPU provider, as far as `versions/kernels-web.json` has them: none for
    float64, bfloat16 and integers of 16 bits. WebGPU has kernels of its own (`versions/kernels-webgpu.json`); what it lacks runs in
    WebAssembly, and values are copied there and back. So a model is made of operators with kernels for both where other forms mean the
    same, at the newest opset but two: from opset 22 on WebGPU has few. Here in Python it runs in ONNX Runtime's CPU provider.
    """

    name = "web"
    is_default = False
    opsets = range(18, 27)
    best_opset = 20

    def __init__(self) -> None:
        super().__init__()
        self._version = self.name  # `kernels.WEB`, which is imported at first use

    def of_version(self, version: str) -> NoReturn:
        """There is one: raises OptionError."""
        raise OptionError(f"The target {self.name!r} has no versions; write target={self.name!r}.")

    def supports(self, op_type: str, dtype: Dtype, opset: int) -> bool:
        """Whether it runs in WebAssembly, and on the graphics card if there is another form that does."""
        if op_type in _REPLACEABLE and not _runs_on_gpu(op_type, np.dtype(dtype), opset):
            return False
        return super().supports(op_type, dtype, opset)

    def passes(self) -> Sequence[PassFactory]:
        """Those of ONNX Runtime but for two about the time of its kernels: a graphics card selects and transposes otherwise."""
        from jax2onnx_onnxruntime._selections import SelectionsPass
        from jax2onnx_onnxruntime._transposes import TransposesPass

        return [one for one in super().passes() if one not in (SelectionsPass, TransposesPass)]


_REPLACEABLE = frozenset({"Celu", "Selu", "Softsign"})
"""Operators that rules and passes write with others where the target lacks them."""


@functools.cache
def _runs_on_gpu(op_type: str, dtype: Dtype, opset: int) -> bool:
    """Whether WebGPU has a kernel for the operator at this type."""
    from jax2onnx_graph.legalise.kernels import element_type, signature

    from jax2onnx_onnxruntime._kernels import table

    found = signature(op_type, opset)
    types = None if found is None else table("webgpu").types(op_type, found.main, opset)
    return types is not None and element_type(dtype) in types
