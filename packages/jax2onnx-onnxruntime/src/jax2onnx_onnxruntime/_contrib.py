"""Operators of ONNX Runtime's own domain that models may be made of, with the element types whose kernels are faithful and fast."""

from __future__ import annotations

from collections.abc import Mapping

from jax2onnx_graph.arrays import Dtype

from jax2onnx_onnxruntime._kernels import is_since

__all__ = ["DOMAIN", "runs_contrib"]

DOMAIN = "com.microsoft."

_FIRST = "1.31"
"""The first version that was measured with them."""

# LinearAttention was measured with 1.31 and 1.32: NaN, infinities, extremes, a decay of -inf, no steps and no batch give what the
# loop gives, by all update rules. Its float16 kernel rounds the state otherwise than a loop of float16 does.
# MatMulNBits takes as long in float16 as in float32, of 4 and of 8 bits, for one row and for 64 (1.32, x64).
_KERNELS: Mapping[str, frozenset[str]] = {
    f"{DOMAIN}LinearAttention": frozenset({"float32"}),
    f"{DOMAIN}MatMulNBits": frozenset({"float32", "float16"}),
}


def runs_contrib(op_type: str, dtype: Dtype, version: str) -> bool:
    """Whether a version of ONNX Runtime has a kernel for one of its own operators.

    Args:
      op_type: the operator, with its domain.
      dtype: the element type of its main operand.
      version: the version, as `jax2onnx_onnxruntime._kernels` knows it.
    """
    return is_since(version, _FIRST) and dtype.name in _KERNELS.get(op_type, ())
