"""The body of a `shard_map`, with the conversion of its operands and results from and to whole arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Dim
from jax2onnx_core.jax_types import Equation, Params
from jax2onnx_core.jaxprs import open_jaxpr

from jax2onnx_lax.sharding.collectives import reduced
from jax2onnx_lax.sharding.interpreter import Interpreter, ShardedValue, ShardRule, Unreduced
from jax2onnx_lax.sharding.sharded_arrays import Layout, ShardedArray

__all__ = ["BODIES", "on_mesh"]

Names: TypeAlias = tuple[str, ...]
Spec: TypeAlias = jax.sharding.PartitionSpec | None


def on_mesh(outer: Interpreter, operands: Sequence[ShardedArray], params: Params) -> list[ShardedArray]:
    """The results of a body on all devices of its mesh.

    Args:
      outer: the interpreter around the body, over the axes of the mesh that are taken already.
      operands: the operands of the `shard_map`.
      params: its parameters.
    """
    jaxpr, mesh, manual = params["jaxpr"], params["mesh"], params["newly_manual_axes"]
    run = outer.within({a: n for a, n in mesh.shape.items() if a in manual or a in outer.devices.sizes})
    inner, _ = open_jaxpr(jaxpr)
    given = [
        _entered(run, x, v.aval.shape, spec)
        for x, v, spec in zip(operands, inner.invars, params["in_specs"], strict=True)
    ]
    results = run.run(jaxpr, given)
    return [_left(run, outer, x, spec) for x, spec in zip(results, params["out_specs"], strict=True)]


def _divisions(run: Interpreter, spec: Spec, rank: int) -> list[Names]:
    """The mesh axes of several devices along which a spec divides each dimension."""
    entries = [*(spec or ()), *[None] * rank][:rank]
    named = [entry if isinstance(entry, tuple) else () if entry is None else (entry,) for entry in entries]
    return [tuple(a for a in names if a in run.devices.sizes) for names in named]


def _entered(run: Interpreter, x: ShardedArray, shape: tuple[Dim, ...], spec: Spec) -> ShardedValue:
    """An operand as a value of the body, which has this shape on one device."""
    axes = _divisions(run, spec, x.rank)
    tiled = tuple((*outer, *inner) for outer, inner in zip(x.layout.tiled, axes, strict=True))
    total = ShardedArray(x.array, shape, Layout(x.layout.stacked, tiled))
    over = _unreduced(run, spec)
    return Unreduced("sum", frozenset(over), total, lambda: _on_the_first(run, total, over)) if over else total


def _on_the_first(run: Interpreter, x: ShardedArray, axes: Names) -> ShardedArray:
    """The value on the first device along each of the axes, zeros on the others, which sum up to the value."""
    x = run.devices.relaid(run.devices.filled(x), Layout((*axes, *x.layout.stacked), x.layout.tiled))
    sizes = [run.devices.sizes[a] for a in axes]
    first = (np.arange(run.devices.count(axes)) == 0).reshape(*sizes, *[1] * (x.array.ndim - len(axes)))
    return dataclasses.replace(x, array=jnp.where(first, x.array, jnp.zeros((), x.array.dtype)))


def _left(run: Interpreter, outer: Interpreter, x: ShardedValue, spec: Spec) -> ShardedArray:
    """A result of the body as an array of the outer devices; where it differs along axes that the spec does not name, that of
    the first device.
    """
    x = reduced(run.devices, "sum", x, _unreduced(run, spec))
    shape, taken = x.shape, outer.devices.sizes.keys()
    axes = _divisions(run, spec, len(shape))
    x = run.devices.filled(x)
    apart = x.axes - taken - frozenset(a for names in axes for a in names)
    x = run.devices.stacked(x, apart)
    first = tuple(0 if a in apart else slice(None) for a in x.layout.stacked)
    stacked = tuple(a for a in x.layout.stacked if a not in apart)
    x = ShardedArray(x.array[first] if apart else x.array, shape, Layout(stacked, x.layout.tiled))
    kept = tuple(tuple(a for a in names if a in taken) for names in x.layout.tiled)
    led = tuple(a for a in stacked if a in taken)
    tiled = tuple((*old, *new) for old, new in zip(kept, axes, strict=True))
    x = run.devices.relaid(x, Layout(led, tiled))
    sizes = tuple(n * run.devices.count(names) for n, names in zip(shape, axes, strict=True))
    return ShardedArray(x.array, sizes, Layout(led, kept))


def _unreduced(run: Interpreter, spec: Spec) -> Names:
    """The axes along which a spec says that parts are still to be summed up."""
    return tuple(a for a in (() if spec is None else spec.unreduced) if a in run.devices.sizes)


def shard_map(run: Interpreter, eqn: Equation, *operands: ShardedValue) -> Sequence[ShardedValue] | None:
    """A body in a body, over further axes of the mesh."""
    return on_mesh(run, [run.devices.filled(x.sharded) for x in operands], eqn.params)


BODIES: Mapping[str, ShardRule] = {"shard_map": shard_map}
"""The rules of this module: primitive → rule."""
