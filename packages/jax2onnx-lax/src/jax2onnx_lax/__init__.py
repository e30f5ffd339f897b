"""What JAX itself ships, lowered to ONNX: a rule or a decomposition for every `jax.lax` primitive."""

__version__ = "0.1.0"
