"""Settings of JAX for the tests of programs over meshes."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest

_ORDER = "jax_raise_on_ppermute_sort_diff"


@pytest.fixture(autouse=True)
def permutations_over_axes_in_any_order() -> Iterator[None]:
    """Let `ppermute` name axes in another order than the mesh, which JAX 0.12 refuses unless it is told that this is meant."""
    before = jax.config.values.get(_ORDER)
    if before is not None:
        jax.config.update(_ORDER, False)
    yield
    if before is not None:
        jax.config.update(_ORDER, before)
