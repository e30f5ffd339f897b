"""What this distribution contributes: the target `onnxruntime`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_core import Target, hookimpl

if TYPE_CHECKING:
    from jax2onnx_core.registry import Registry

__all__ = ["JAX2ONNX_API", "TARGET", "jax2onnx_register"]

JAX2ONNX_API = 1


def _supports(op_type, dtype, opset):  # type: ignore[no-untyped-def]
    from jax2onnx_onnxruntime.kernels import supports

    return supports(op_type, dtype, opset)


def _legalise():  # type: ignore[no-untyped-def]
    from jax2onnx_onnxruntime.legalise import LegalisePass

    return LegalisePass()


def _load(model):  # type: ignore[no-untyped-def]
    from jax2onnx_onnxruntime.runner import load

    return load(model)


TARGET = Target(name="onnxruntime", supports=_supports, passes=(_legalise,), load=_load, default=True)


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the target ONNX Runtime, which `to_onnx` exports for unless told otherwise."""
    registry.target(TARGET)
