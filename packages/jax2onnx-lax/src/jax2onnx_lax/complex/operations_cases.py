"""Cases of `operations`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case
from jax2onnx_core.plugins.cases import ExpectGraph

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

_indices = np.array([3, 0, 3, 9], np.int32)  # repeated and out of bounds


def _scattered(name: str, expect: ExpectGraph) -> Case:
    def scatter(x: jnp.ndarray, y: jnp.ndarray) -> jnp.ndarray:
        z = lax.complex(x, y)
        return getattr(z.at[_indices], {"mul": "multiply"}.get(name, name))(z[:4] * 2, mode="drop")

    return Case(f"scatter_{name}", scatter, [(6, 2), (6, 2)], (f"scatter-{name}",), expect)


cases = [
    Case("sort", lambda x, y: lax.sort(lax.complex(jnp.round(x), y), dimension=0), [(9, 4), (9, 4)], ("sort",),
         expect=at_most(20, If=0)),
    Case(
        "sort_with_payload",
        lambda x, y: lax.sort((lax.complex(jnp.round(x), y), x, lax.complex(y, x)), dimension=1, num_keys=1),
        [(3, 8), (3, 8)],
        ("sort",),
        expect=at_most(20, If=0),
    ),
    Case("atan2", lambda x, y: lax.atan2(lax.complex(x, y), lax.complex(y, y + 2)), [(9, 4), (9, 4)], ("atan2",), expect=at_most(260)),
    _scattered("add", at_most(20, ScatterElements=2)),
    Case(
        "scatter_add_of_a_constant_component",
        lambda x, y: jax.grad(lambda z: jnp.imag(z[_indices]).sum())(lax.complex(x, y)),
        [(6, 2), (6, 2)],
        ("scatter-add",),
        expect=at_most(10, ScatterElements=2),
    ),
    _scattered("mul", at_most(20, Scan=1)),
    _scattered("max", at_most(20, Scan=1)),
    _scattered("min", at_most(20, Scan=1)),
    Case(
        "scatter_mul_unique",
        lambda x, y: lax.complex(x, y).at[np.array([4, 1])].multiply(2j, unique_indices=True),
        [(6,), (6,)],
        ("scatter-mul",),
        expect=at_most(20, Gather=2, ScatterND=2),
    ),
]  # fmt: skip
