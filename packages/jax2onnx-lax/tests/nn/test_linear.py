from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, bind_composite, to_onnx

TABLE = jnp.asarray(np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32))


def head(tokens: jax.Array) -> jax.Array:
    """The logits of a language model whose last layer has the table of its embeddings as kernel."""
    x, kernel = TABLE[tokens], TABLE.T
    return bind_composite("nn.linear", Call(x, kernel, None, contracted=1), lambda: x @ kernel)


def test_a_kernel_that_is_the_transpose_of_a_table_is_stored_once() -> None:
    program = to_onnx(head, [(("B", "T"), np.int32)])
    assert [w.shape for w in program.model.graph.initializers.values() if len(w.shape or ()) == 2] == [TABLE.shape]


def test_a_kernel_that_is_the_transpose_of_a_table_gives_the_logits_of_jax() -> None:
    tokens = jnp.array([[3, 63, 0]], jnp.int32)
    np.testing.assert_allclose(to_onnx(head, [(("B", "T"), np.int32)])(tokens), head(tokens), rtol=1e-5, atol=1e-5)
