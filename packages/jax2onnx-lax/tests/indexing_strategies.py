"""Random valid parameters of gather and scatter, and the comparison of an export with JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax2onnx_core import to_onnx

__all__ = [
    "MODES",
    "Windows",
    "assert_each_equals_jax",
    "assert_equals_jax",
    "filled",
    "index_arrays",
    "of_each",
    "windows",
]

MODES = [jax.lax.GatherScatterMode.CLIP, jax.lax.GatherScatterMode.FILL_OR_DROP]


def assert_equals_jax(fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Export, run in ONNX Runtime, compare every bit but those of rounding; returns the program."""
    return assert_each_equals_jax(fn, [args], **options)


def assert_each_equals_jax(fn: Callable[..., Any], calls: Sequence[Sequence[Any]], **options: Any) -> Any:
    """The same for several calls with arguments of the same types and shapes: exported and compiled by JAX once."""
    program, compiled = to_onnx(fn, list(calls[0]), **options), jax.jit(fn)
    for args in calls:
        results = jax.tree.leaves(program(*args))
        expected = jax.tree.leaves(compiled(*map(jnp.asarray, args)))
        assert len(results) == len(expected)
        for got, want in zip(results, map(np.asarray, expected), strict=True):
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
            else:
                np.testing.assert_array_equal(got, want)
    return program


def of_each(fn: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
    """The results of JAX for each of the arguments, compiled as one program: many small ones take far longer."""
    return jax.jit(lambda each: list(map(fn, each)))(arguments)


def filled(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Distinct small values."""
    count = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(count).reshape(shape).astype(dtype)


@dataclasses.dataclass(frozen=True)
class Windows:
    """Which windows of an operand an array of indices means.

    `roles` says for each operand axis "batched", "indexed" or "fixed"; `dropped` which axes the
    windows lack; `batch` is the shape of the index array without its last axis; `batch_of` maps batched
    operand axes to axes of the batch; `offsets` are the axes of windows in the result (or the updates).
    """

    operand: tuple[int, ...]
    roles: tuple[str, ...]
    sizes: tuple[int, ...]
    dropped: tuple[int, ...]
    start_index_map: tuple[int, ...]
    batch: tuple[int, ...]
    batch_of: dict[int, int]
    offsets: tuple[int, ...]

    @property
    def batched(self) -> tuple[int, ...]:
        return tuple(sorted(self.batch_of))

    @property
    def batch_axes(self) -> tuple[int, ...]:
        return tuple(self.batch_of[axis] for axis in self.batched)

    @property
    def window(self) -> tuple[int, ...]:
        hidden = {*self.dropped, *self.batched}
        return tuple(size for axis, size in enumerate(self.sizes) if axis not in hidden)

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of a gather's result and of a scatter's updates."""
        window, batch = iter(self.window), iter(self.batch)
        rank = len(self.window) + len(self.batch)
        return tuple(next(window) if axis in self.offsets else next(batch) for axis in range(rank))


@st.composite
def windows(draw: Any, *, full_fixed: bool = False) -> Windows:
    """Windows of an operand of rank 1 to 4; with `full_fixed`, all of the axes without an index."""
    rank = draw(st.integers(1, 4))
    operand = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    roles = tuple(draw(st.sampled_from(["batched", "indexed", "indexed", "fixed", "fixed"])) for _ in range(rank))
    batched = [axis for axis in range(rank) if roles[axis] == "batched"]
    extra = draw(st.integers(0, 2))
    batch_rank = len(batched) + extra
    places = draw(st.permutations(range(batch_rank)))[: len(batched)]
    batch_of = dict(zip(batched, places, strict=True))
    sizes_at = {place: operand[axis] for axis, place in batch_of.items()}
    batch = tuple(sizes_at[i] if i in sizes_at else draw(st.integers(1, 3)) for i in range(batch_rank))
    sizes = [1 if role == "batched" else draw(st.integers(1, size)) for role, size in zip(roles, operand, strict=True)]
    if full_fixed:
        sizes = [size if role == "fixed" else s for role, size, s in zip(roles, operand, sizes, strict=True)]
    free = [axis for axis in range(rank) if sizes[axis] == 1 and roles[axis] != "batched"]
    dropped = tuple(axis for axis in free if draw(st.booleans()))
    indexed = draw(st.permutations([axis for axis in range(rank) if roles[axis] == "indexed"]))
    kept = rank - len(dropped) - len(batched)
    offsets = tuple(sorted(draw(st.permutations(range(kept + batch_rank)))[:kept]))
    return Windows(operand, roles, tuple(sizes), dropped, tuple(indexed), batch, batch_of, offsets)


@st.composite
def index_arrays(draw: Any, chosen: Windows, *, in_range: bool = False) -> np.ndarray:
    """Start indices for these windows, some out of range unless told otherwise."""
    margin = 0 if in_range else 2
    columns = []
    for axis in chosen.start_index_map:
        last = chosen.operand[axis] - chosen.sizes[axis]
        count = int(np.prod(chosen.batch))
        values = [draw(st.integers(-margin, last + margin)) for _ in range(count)]
        columns.append(np.array(values, np.int32).reshape(chosen.batch))
    dtype = draw(st.sampled_from([np.int32, np.int64, np.int8]))
    return np.stack(columns, -1).astype(dtype) if columns else np.zeros((*chosen.batch, 0), dtype)
