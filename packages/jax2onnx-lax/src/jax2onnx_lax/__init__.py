"""Rules and decompositions that lower all that JAX itself ships: the primitives of `jax.lax`, functions of `jax.nn` and others."""

__version__ = "0.1.0"
