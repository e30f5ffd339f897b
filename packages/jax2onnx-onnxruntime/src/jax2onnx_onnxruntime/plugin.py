"""What this distribution contributes: the target `onnxruntime`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jax2onnx_core import Target, hookimpl

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from jax2onnx_core.plugins.registry import Registry

    from jax2onnx_onnxruntime.runner import Runner, Source

__all__ = ["JAX2ONNX_API", "TARGET", "jax2onnx_register"]

JAX2ONNX_API = 1


# The imports are inside: registering is cheap, and ONNX Runtime is not needed to export.


def _supports(op_type: str, dtype: np.dtype[Any], opset: int) -> bool:
    from jax2onnx_onnxruntime.kernels import supports

    return supports(op_type, dtype, opset)


def _legalise() -> ir.passes.PassBase:
    from jax2onnx_onnxruntime.legalise import LegalisePass

    return LegalisePass()


def _vector_products() -> ir.passes.PassBase:
    from jax2onnx_onnxruntime.fusions import VectorProductsPass

    return VectorProductsPass()


def _neutral_constants() -> ir.passes.PassBase:
    from jax2onnx_onnxruntime.neutral_constants import NeutralConstantsPass

    return NeutralConstantsPass()


def _load(model: Source) -> Runner:
    from jax2onnx_onnxruntime.runner import load

    return load(model)


TARGET = Target(
    name="onnxruntime",
    supports=_supports,
    passes=(_legalise, _vector_products, _neutral_constants),
    load=_load,
    default=True,
)


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the target ONNX Runtime, which `to_onnx` exports for unless told otherwise."""
    registry.target(TARGET)
