"""The plugin: functions and custom operators."""

from __future__ import annotations

from jax2onnx_core import Case, Registry, hookimpl

__all__ = ["JAX2ONNX_API", "jax2onnx_register", "jax2onnx_testcases"]

JAX2ONNX_API = 1


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the rules for functions and custom operators."""
    from jax2onnx_functions import function, operator

    registry.add(function.rules, operator.rules)


@hookimpl
def jax2onnx_testcases() -> list[Case]:
    """The cases of both modules."""
    from jax2onnx_functions import function_cases, operator_cases

    return [*function_cases.cases, *operator_cases.cases]
