"""What this distribution contributes to jax2onnx-core."""

from jax2onnx_core import hookimpl

JAX2ONNX_API = 1


@hookimpl
def jax2onnx_register(registry):
    from jax2onnx_ripple import layers

    registry.add(layers.rules, layers.composites)


@hookimpl
def jax2onnx_testcases():
    from jax2onnx_ripple import layers_cases

    return layers_cases.cases
