"""Random JAX programs, exported, run and compared with JAX: `nox -s fuzz`."""
