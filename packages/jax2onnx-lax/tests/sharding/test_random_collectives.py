"""Collectives at random: axes, dimensions, groups, and what stands before them, mean in a file what they mean in JAX."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax2onnx_core import to_onnx

P = jax.P
Function = Callable[[jax.Array], jax.Array]
Groups = list[list[int]] | None

MESHES = [(8,), (4,), (2,), (1,), (2, 4), (4, 2), (2, 2), (1, 4), (2, 1)]
BY_GROUPS = {"psum", "pmean", "pmax", "pmin", "all_gather", "all_gather_tiled", "all_to_all", "all_to_all_tiled",
             "psum_scatter", "psum_scatter_tiled", "pswapaxes"}  # fmt: skip


@dataclasses.dataclass
class Situation:
    """What a collective is called with.

    Attributes:
      names: the axes of the mesh.
      count: the number of devices along them.
      size: that of a group of them.
      groups: the groups, if there are any.
      dims: a dimension of the operand, another one, and one of a result with a dimension more.
      choose: what chooses further arguments.
    """

    names: str | tuple[str, ...]
    count: int
    size: int
    groups: Groups
    dims: tuple[int, int, int]
    choose: random.Random

    @property
    def options(self) -> dict[str, Groups]:
        return {} if self.groups is None else {"axis_index_groups": self.groups}


def _permutation(s: Situation) -> list[tuple[int, int]]:
    if s.choose.random() < 0.3:
        shift = s.choose.randrange(s.count)
        return [(i, (i + shift) % s.count) for i in range(s.count)]
    senders = s.choose.sample(range(s.count), s.choose.randint(0, s.count))
    return list(zip(senders, s.choose.sample(range(-s.count, 0), len(senders)), strict=True))


def _ppermute(s: Situation) -> Function:
    perm = _permutation(s)
    return lambda x: lax.ppermute(x, s.names, perm)


def _pshuffle(s: Situation) -> Function:
    perm = s.choose.sample(range(s.count), s.count)
    return lambda x: lax.pshuffle(x, s.names, perm)


#: name → the collective of a situation.
COLLECTIVES: dict[str, Callable[[Situation], Function]] = {
    "psum": lambda s: lambda x: lax.psum(x, s.names, **s.options),
    "pmean": lambda s: lambda x: lax.pmean(x, s.names, **s.options),
    "pmax": lambda s: lambda x: lax.pmax(x, s.names, **s.options),
    "pmin": lambda s: lambda x: lax.pmin(x, s.names, **s.options),
    "all_gather": lambda s: lambda x: lax.all_gather(x, s.names, axis=s.dims[2], **s.options),
    "all_gather_tiled": lambda s: lambda x: lax.all_gather(x, s.names, axis=s.dims[0], tiled=True, **s.options),
    "all_to_all": lambda s: lambda x: lax.all_to_all(x, s.names, *s.dims[:2], **s.options),
    "all_to_all_tiled": lambda s: lambda x: lax.all_to_all(x, s.names, *s.dims[:2], tiled=True, **s.options),
    "pswapaxes": lambda s: lambda x: lax.pswapaxes(x, s.names, s.dims[0], **s.options),
    "psum_scatter": lambda s: lambda x: lax.psum_scatter(x, s.names, scatter_dimension=s.dims[0], **s.options),
    "psum_scatter_tiled": lambda s: lambda x: lax.psum_scatter(x, s.names, scatter_dimension=s.dims[0], tiled=True, **s.options),
    "ppermute": _ppermute,
    "pshuffle": _pshuffle,
    "axis_index": lambda s: lambda x: x * lax.axis_index(s.names),
}  # fmt: skip

#: What computes the operand of a collective.
BEFORE: list[Function] = [
    lambda x: x, jnp.sin, lambda x: x + lax.axis_index("x"), lambda x: jnp.full_like(x, 2), lambda x: jnp.stack([x, x + 1]).sum(0),
    lambda x: jnp.moveaxis(jnp.moveaxis(x, 0, -1) * 1.5, -1, 0),
]  # fmt: skip


def _situation(choose: random.Random, sizes: dict[str, int], rank: int, *, groups: bool) -> Situation:
    named = choose.choice([[a] for a in sizes] if len(sizes) == 1 else [["x"], ["y"], ["x", "y"], ["y", "x"]])
    count = math.prod(sizes[a] for a in named)
    halves = None
    if groups and len(named) == 1 and count >= 4 and choose.random() < 0.4:
        order = choose.sample(range(count), count)
        halves = [order[: count // 2], order[count // 2 :]]
    dims = choose.randrange(rank), choose.randrange(rank), choose.randrange(rank + 1)
    size = count if halves is None else count // 2
    return Situation(named[0] if len(named) == 1 else tuple(named), count, size, halves, dims, choose)


def program(name: str, seed: int) -> tuple[Function, tuple[int, ...]]:
    """A function over a mesh, with the shape of its argument."""
    choose = random.Random(f"{name} {seed}")
    sizes = dict(zip("xy", choose.choice(MESHES), strict=False))
    rank = choose.choice([1, 2, 3])
    situation = _situation(choose, sizes, rank, groups=name in BY_GROUPS)
    collective, before = COLLECTIVES[name](situation), choose.choice(BEFORE)
    shape = [choose.choice([1, 2, 3]) for _ in range(rank)]
    if name.startswith(("all_to_all", "psum_scatter", "pswapaxes")):
        shape[situation.dims[0]] = situation.size * (shape[situation.dims[0]] if name.endswith("tiled") else 1)
    divided: list[tuple[str, ...]] = [()] * rank
    for axis in choose.sample(list(sizes), len(sizes)):
        if choose.random() < 0.75:
            dim = choose.randrange(rank)
            divided[dim] = (*divided[dim], axis)
    maps = situation.groups is None and name != "psum_scatter"  # JAX maps neither groups nor every untiled scattering
    mapped = choose.randrange(rank + 1) if maps and choose.random() < 0.3 else None

    def body(x: jax.Array) -> jax.Array:
        x = before(x)
        y = collective(x) if mapped is None else jax.vmap(collective, mapped)(jnp.stack([x, 2 * x], mapped))
        return jnp.atleast_1d(y * 2 + jnp.cos(y))

    mesh = jax.make_mesh(tuple(sizes.values()), tuple(sizes), (AxisType.Auto,) * len(sizes),
                         devices=jax.devices()[: math.prod(sizes.values())])  # fmt: skip
    over = jax.shard_map(body, mesh=mesh, in_specs=P(*divided), out_specs=P(tuple(sizes)), check_vma=False)
    whole = [n * math.prod(sizes[a] for a in axes) for n, axes in zip(shape, divided, strict=True)]
    return over, tuple(whole)


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_at_random_equals_jax(name: str, seed: int) -> None:
    over, shape = program(name, seed)
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    np.testing.assert_allclose(to_onnx(over, [shape])(x), jax.jit(over)(x), rtol=1e-5, atol=1e-5)
