"""The command line `jax2onnx`."""

__version__ = "0.1.0"
