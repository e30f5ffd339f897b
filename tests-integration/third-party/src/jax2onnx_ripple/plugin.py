"""The plugin of ripple: registers its rules and composites, and lists its test cases."""

from jax2onnx_core import Case, Registry, hookimpl

JAX2ONNX_API = 1


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    from jax2onnx_ripple import layers

    registry.add(layers.rules, layers.composites)


@hookimpl
def jax2onnx_testcases() -> list[Case]:
    from jax2onnx_ripple import layers_cases

    return layers_cases.cases
