"""The plugin: registers the rules of this package. Every first export imports this module, so it imports nothing heavy."""

from jax2onnx_core import Case, Registry, hookimpl

#: The version of the plugin contract that the package is written for.
JAX2ONNX_API = 1


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the rules and composites."""
    from jax2onnx_acme import ops

    registry.add(ops.rules, ops.composites)


@hookimpl
def jax2onnx_testcases() -> list[Case]:
    """The cases, for the testing kit."""
    from jax2onnx_acme import ops_cases

    return ops_cases.cases
