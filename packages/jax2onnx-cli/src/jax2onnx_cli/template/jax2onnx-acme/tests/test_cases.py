"""The tests that the testing kit makes of this package's cases."""

from jax2onnx_testing.suite import *  # noqa: F403
