"""Random JAX programs, exported, run and compared with JAX: `jax2onnx-testing fuzz`."""
