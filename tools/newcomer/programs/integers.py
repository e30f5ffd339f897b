"""Integers and booleans: flags in bits, rounding division, a histogram."""

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import to_onnx


def flags(words, wanted):
    matches = (words & wanted) == wanted
    bits = jax.lax.population_count(words ^ wanted)
    buckets = jnp.clip(words // 64, 0, 3)
    return {"matches": matches, "distance": bits, "per_bucket": jnp.bincount(buckets, length=4), "any": matches.any()}


program = to_onnx(flags, [(("count",), "int32"), ((), "int32")])
print(program)
print(program(np.array([-7, 5, 64, 255], np.int32), np.int32(5)))
program.verify()
