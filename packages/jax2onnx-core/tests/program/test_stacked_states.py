"""Ways in which JAX code takes a stacked cache apart and puts it together again: sessions hold the parts of each."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_runtime.unstacking import unstacked


def updated(cache, x):
    return jax.lax.dynamic_update_slice(cache, x, (0, 0, 0))


FORMS = {
    "indexed": lambda cache, x: jnp.stack([updated(cache[:, i], x) for i in range(3)], 1),
    "unstacked": lambda cache, x: jnp.stack([updated(c, x) for c in jnp.unstack(cache, axis=1)], 1),
    "split": lambda cache, x: jnp.stack([updated(c[:, 0], x) for c in jnp.split(cache, 3, axis=1)], 1),
    "index_in_dim": lambda cache, x: jnp.stack(
        [updated(jax.lax.index_in_dim(cache, i, 1, keepdims=False), x) for i in range(3)], 1
    ),
    "concatenated": lambda cache, x: jnp.concatenate([updated(cache[:, i], x)[:, None] for i in range(3)], 1),
    "moved": lambda cache, x: jnp.moveaxis(jnp.stack([updated(cache[:, i], x) for i in range(3)]), 0, 1),
    "some changed": lambda cache, x: jnp.stack([updated(cache[:, 0], x), cache[:, 1], cache[:, 2]], 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_stacked_cache_is_held_in_parts(form):
    def step(cache, x):
        return FORMS[form](cache, x), x * 2

    program = to_onnx(step, [("B", 3, "S", 4), ("B", 1, 4)], states={0: 0})
    found = unstacked(program.model)
    assert found is not None
    assert found.stacks["cache"].parts == ("cache.0", "cache.1", "cache.2")
    session, cache = program.session(sizes={"B": 2, "S": 5}), jnp.zeros((2, 3, 5, 4))
    for x in np.random.default_rng(0).standard_normal((2, 2, 1, 4)).astype(np.float32):
        cache, expected = step(cache, x)
        np.testing.assert_allclose(session.step(x), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(session.state["cache"], cache)
