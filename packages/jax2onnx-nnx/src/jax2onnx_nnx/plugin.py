"""The entry point of `jax2onnx-nnx`."""

from __future__ import annotations

from typing import Any

from jax2onnx_core import hookimpl

JAX2ONNX_API = 1


@hookimpl
def jax2onnx_register(registry: Any) -> None:
    from jax2onnx_nnx import adapter, attention, conv, embedding, linear, normalization, pooling

    registry.adapter("flax.nnx:Module", adapter.adapt)
    for module in (attention, conv, embedding, linear, normalization, pooling):
        registry.add(module.rules, module.composites)


@hookimpl
def jax2onnx_testcases() -> Any:
    from jax2onnx_nnx import (
        attention_cases,
        conv_cases,
        embedding_cases,
        linear_cases,
        normalization_cases,
        pooling_cases,
    )

    modules = (attention_cases, conv_cases, embedding_cases, linear_cases, normalization_cases, pooling_cases)
    return [case for module in modules for case in module.cases]
