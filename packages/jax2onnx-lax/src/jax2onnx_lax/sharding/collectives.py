"""Collectives, computed on the values of all devices."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Dim
from jax2onnx_core.jax_types import Equation, Params

from jax2onnx_lax._compat import permutes_in_mesh_order
from jax2onnx_lax.sharding.interpreter import Interpreter, Kind, ShardedValue, ShardRule, Unreduced, annotation
from jax2onnx_lax.sharding.sharded_arrays import STACKED, Devices, Layout, ShardedArray, constant, whole

__all__ = ["COLLECTIVES", "reduced"]

Groups = Sequence[Sequence[int]] | None

_REDUCTIONS: Mapping[Kind, Callable[..., jax.Array]] = {"sum": jnp.sum, "max": jnp.max, "min": jnp.min}


def _names(devices: Devices, axes: object) -> tuple[str, ...]:
    """The axes among those that a collective names along which there are several devices."""
    return tuple(a for a in (axes if isinstance(axes, (tuple, list)) else (axes,)) if a in devices.sizes)


def _together(devices: Devices, x: ShardedArray, names: Sequence[str]) -> ShardedArray:
    """The value with these axes as its first leading ones, in order, also where it does not differ along them."""
    x = devices.stacked(devices.filled(x), frozenset(names))
    rest = tuple(a for a in x.layout.stacked if a not in names)
    return devices.relaid(x, Layout((*names, *rest), x.layout.tiled))


def _one_axis(devices: Devices, x: ShardedArray, names: Sequence[str]) -> jax.Array:
    """The array of a value whose first leading axes are these, with one axis of all their devices."""
    array = _together(devices, x, names).array
    return lax.reshape(array, (devices.count(names), *array.shape[len(names) :]))


def _several_axes(devices: Devices, array: jax.Array, names: Sequence[str]) -> jax.Array:
    """The inverse: an array with an axis for each name in the place of its first one."""
    return lax.reshape(array, (*(devices.sizes[a] for a in names), *array.shape[1:]))


def _without(layout: Layout, names: Sequence[str]) -> Layout:
    """The layout of a value that is the same along these axes, which are not leading."""
    return Layout(layout.stacked, tuple(tuple(a for a in axes if a not in names) for axes in layout.tiled))


def _as_tiles(devices: Devices, x: ShardedArray, dim: int, names: Sequence[str]) -> ShardedArray:
    """The value with these axes the last ones that divide a dimension."""
    axes = (*(a for a in x.layout.tiled[dim] if a not in names), *names)
    x = devices.stacked(devices.filled(x), frozenset(names) if x.layout.tiled[dim] != axes else frozenset())
    tiled = tuple(axes if d == dim else t for d, t in enumerate(x.layout.tiled))
    taken = {a for t in tiled for a in t}
    return devices.relaid(x, Layout(tuple(a for a in x.layout.stacked if a not in taken), tiled))


# -- reductions ---------------------------------------------------------------------------------------------


def reduced(devices: Devices, kind: Kind, x: ShardedValue, names: Sequence[str]) -> ShardedArray:
    """The sum, or another combination, over the devices along axes."""
    if isinstance(x, Unreduced) and x.kind == kind and x.over <= set(names):
        return reduced(devices, kind, x.total, [a for a in names if a not in x.over])
    x = x.sharded
    differing = [a for a in names if a in x.axes]
    same = devices.count([a for a in names if a not in x.axes])
    if differing:
        x = _combined(devices, kind, devices.filled(x, [d for d, axes in enumerate(x.layout.tiled) if axes]), differing)
    if kind == "sum" and same > 1:
        x = dataclasses.replace(x, array=lax.mul(x.array, jnp.full(x.array.shape, same, x.array.dtype)))
    return x


def _combined(devices: Devices, kind: Kind, x: ShardedArray, names: Sequence[str]) -> ShardedArray:
    """The same along axes that are leading, or divide dimensions: the parts of these are combined where they stand."""
    layout, parts, gone = x.layout, list[Dim](devices.sizes[a] for a in x.layout.stacked), []
    gone += [i for i, a in enumerate(layout.stacked) if a in names]
    sizes: list[Dim] = [devices.sizes[a] for a in layout.stacked if a not in names]
    for d, axes in enumerate(layout.tiled):
        divided = axes if set(axes) & set(names) else ()
        gone += [len(parts) + i for i, a in enumerate(divided) if a in names]
        parts += [*(devices.sizes[a] for a in divided), x.shape[d] if divided else x.dims[d]]
        sizes.append(x.shape[d] * devices.count([a for a in axes if a not in names]) if divided else x.dims[d])
    array = _REDUCTIONS[kind](jnp.reshape(x.array, parts), axis=tuple(gone)).astype(x.array.dtype)
    stacked = tuple(a for a in layout.stacked if a not in names)
    return ShardedArray(jnp.reshape(array, sizes), x.shape, Layout(stacked, _without(layout, names).tiled))


def reduction(kind: Kind) -> ShardRule:
    """The rule of `psum`, `pmax` or `pmin`."""

    def rule(run: Interpreter, eqn: Equation, *operands: ShardedValue) -> Sequence[ShardedValue] | None:
        axes, groups = eqn.params["axes"], eqn.params.get("axis_index_groups")
        if any(isinstance(a, int) for a in axes):  # of an operand
            return None
        names = _names(run.devices, axes)
        if groups is not None:
            return [_in_groups(run.devices, kind, x.sharded, names, groups) for x in operands]
        return [reduced(run.devices, kind, x, names) for x in operands]

    return rule


def _in_groups(
    devices: Devices, kind: Kind, x: ShardedArray, names: Sequence[str], groups: Sequence[Sequence[int]]
) -> ShardedValue:
    """The combination within each group of devices."""
    x = _together(devices, x, names)
    array = _one_axis(devices, x, names)
    made = [_REDUCTIONS[kind](array[np.array(group)], axis=0).astype(array.dtype) for group in groups]
    owner = {device: g for g, group in enumerate(groups) for device in group}
    every = jnp.stack(made)[np.array([owner[i] for i in range(len(owner))])]
    return ShardedArray(_several_axes(devices, every, names), x.shape, x.layout)


# -- gathering and scattering ---------------------------------------------------------------------------------


def all_gather(run: Interpreter, eqn: Equation, operand: ShardedValue) -> Sequence[ShardedValue] | None:
    """Parts along a dimension become the whole dimension of every device."""
    devices, params, x = run.devices, eqn.params, operand.sharded
    names, dim = _names(devices, params["axis_name"]), params["all_gather_dimension"]
    shape = eqn.outvars[0].aval.shape
    if params.get("axis_index_groups") is not None:
        return _gathered_in_groups(devices, x, names, params)
    if params["tiled"]:
        x = _as_tiles(devices, x, dim, names)
        return [ShardedArray(x.array, shape, _without(x.layout, names))]
    array = _one_axis(devices, x, names)
    rest = _together(devices, x, names).layout
    array = jnp.moveaxis(array, 0, len(rest.stacked) - len(names) + dim)
    tiled = (*rest.tiled[:dim], (), *rest.tiled[dim:])
    return [ShardedArray(array, shape, Layout(rest.stacked[len(names) :], tiled))]


def _gathered_in_groups(devices: Devices, x: ShardedArray, names: Sequence[str], params: Params) -> list[ShardedValue]:
    return [_by_blocks(devices, x, names, functools.partial(_gathered_blocks, params))]


def _gathered_blocks(params: Params, blocks: list[jax.Array]) -> list[jax.Array]:
    """The gathered blocks of its group, for each device."""
    dim, found = params["all_gather_dimension"], dict[int, jax.Array]()
    for group in params["axis_index_groups"]:
        mine = [blocks[i] for i in group]
        all_of_them = jnp.concatenate(mine, axis=dim) if params["tiled"] else jnp.stack(mine, axis=dim)
        found |= dict.fromkeys(group, all_of_them)
    return [found[i] for i in range(len(blocks))]


def _by_blocks(
    devices: Devices, x: ShardedArray, names: Sequence[str], fn: Callable[[list[jax.Array]], list[jax.Array]]
) -> ShardedArray:
    """The value of each device along axes, computed from those of all of them; every other axis is mapped over."""
    x = devices.stacked(devices.filled(x), x.axes)
    together = _together(devices, x, names)
    rest = together.layout.stacked[len(names) :]
    array = _one_axis(devices, x, names)

    def computed(array: jax.Array) -> jax.Array:
        return jnp.stack(fn([array[i] for i in range(devices.count(names))]))

    for i in range(len(rest)):
        computed = jax.vmap(computed, in_axes=len(rest) - i, out_axes=1)
    made = _several_axes(devices, computed(array), names)
    shape = tuple(made.shape[len(names) + len(rest) :])
    return ShardedArray(made, shape, Layout((*names, *rest), ((),) * len(shape)))


def reduce_scatter(run: Interpreter, eqn: Equation, operand: ShardedValue) -> Sequence[ShardedValue] | None:
    """The sum, of which each device keeps its part of a dimension."""
    devices, params = run.devices, eqn.params
    names, dim = _names(devices, params["axis_name"]), params["scatter_dimension"]
    shape = eqn.outvars[0].aval.shape
    if params.get("axis_index_groups") is not None:
        blocks = functools.partial(_scattered_blocks, params)
        return [_by_blocks(devices, operand.sharded, names, blocks)]
    total = devices.filled(reduced(devices, "sum", operand, names), [dim])
    if params["tiled"]:
        tiled = tuple((*axes, *names) if d == dim else axes for d, axes in enumerate(total.layout.tiled))
        return [ShardedArray(total.array, shape, Layout(total.layout.stacked, tiled))]
    return [_unstacked(devices, devices.stacked(total, frozenset(total.layout.tiled[dim])), dim, names, shape)]


def _unstacked(
    devices: Devices, x: ShardedArray, dim: int, names: Sequence[str], shape: tuple[Dim, ...]
) -> ShardedArray:
    """The value of which each device along axes keeps one element of a dimension, which goes."""
    array = jnp.moveaxis(x.array, len(x.layout.stacked) + dim, 0)
    array = _several_axes(devices, array, names)
    return ShardedArray(
        array, shape, Layout((*names, *x.layout.stacked), (*x.layout.tiled[:dim], *x.layout.tiled[dim + 1 :]))
    )


def _scattered_blocks(params: Params, blocks: list[jax.Array]) -> list[jax.Array]:
    dim, found = params["scatter_dimension"], dict[int, jax.Array]()
    for group in params["axis_index_groups"]:
        total = functools.reduce(jnp.add, [blocks[i] for i in group])
        parts = jnp.split(total, len(group), axis=dim)
        kept = parts if params["tiled"] else [jnp.squeeze(part, dim) for part in parts]
        found.update(zip(group, kept, strict=True))
    return [found[i] for i in range(len(blocks))]


def all_to_all(run: Interpreter, eqn: Equation, operand: ShardedValue) -> Sequence[ShardedValue] | None:
    """Each device sends a part of one dimension to each, and puts what it gets together along another.

    Untiled calls bind the primitive alike, with the new dimension of size 1 in front and the old one taken away behind.
    """
    devices, params, x = run.devices, eqn.params, operand.sharded
    names = _names(devices, params["axis_name"])
    split, concat, shape = params["split_axis"], params["concat_axis"], eqn.outvars[0].aval.shape
    if params.get("axis_index_groups") is not None:
        return [_by_blocks(devices, x, names, functools.partial(_exchanged_blocks, params))]
    if split == concat:
        x = _together(devices, devices.stacked(x, frozenset(x.layout.tiled[split])), names)
        array, at = _one_axis(devices, x, names), 1 + len(x.layout.stacked) - len(names) + split
        parts = devices.count(names), array.shape[at] // devices.count(names)
        exchanged = jnp.swapaxes(jnp.reshape(array, (*array.shape[:at], *parts, *array.shape[at + 1 :])), 0, at)
        return [ShardedArray(_several_axes(devices, jnp.reshape(exchanged, array.shape), names), shape, x.layout)]
    x = _as_tiles(devices, x, concat, names)
    divided = tuple((*axes, *names) if d == split else axes for d, axes in enumerate(_without(x.layout, names).tiled))
    return [ShardedArray(x.array, shape, Layout(x.layout.stacked, divided))]


def _exchanged_blocks(params: Params, blocks: list[jax.Array]) -> list[jax.Array]:
    split, concat, found = params["split_axis"], params["concat_axis"], dict[int, jax.Array]()
    for group in params["axis_index_groups"]:
        parts = [jnp.split(blocks[i], len(group), axis=split) for i in group]
        for j, device in enumerate(group):
            found[device] = jnp.concatenate([part[j] for part in parts], axis=concat)
    return [found[i] for i in range(len(blocks))]


# -- sending -----------------------------------------------------------------------------------------------


def ppermute(run: Interpreter, eqn: Equation, operand: ShardedValue) -> Sequence[ShardedValue] | None:
    """Each device gets the value of the one that sends to it, zeros where there is none.

    JAX counts the devices in the order of the named axes, earlier versions in that of the mesh, and from the last one below zero.
    """
    names = _names(run.devices, eqn.params["axis_name"])
    if permutes_in_mesh_order():
        names = tuple(a for a in run.devices.sizes if a in names)
    count, x = run.devices.count(names), operand.sharded
    senders: dict[int, int] = {target % count: source % count for source, target in eqn.params["perm"]}
    if not names:
        return [x] if senders else [_zeros(x)]
    if len(senders) == count and x.axes.isdisjoint(names):
        return [x]
    if (shift := _rotation(senders, count)) is not None and (turned := _turned(run.devices, x, names, shift)):
        return [turned]
    x = _together(run.devices, x, names)
    array = _one_axis(run.devices, x, names)
    array = array[np.array([senders.get(i, i) for i in range(count)])]
    if len(senders) < count:
        got = np.array([i in senders for i in range(count)]).reshape(count, *[1] * (array.ndim - 1))
        array = jnp.where(got, array, jnp.zeros((), array.dtype))
    return [ShardedArray(_several_axes(run.devices, array, names), x.shape, x.layout)]


def _zeros(x: ShardedArray) -> ShardedArray:
    return dataclasses.replace(x, array=jnp.zeros_like(x.array))


def _rotation(senders: Mapping[int, int], count: int) -> int | None:
    """The difference of the indices of a device and its sender, if it is the same for all of them."""
    shifts = {(target - source) % count for target, source in senders.items()}
    return shifts.pop() if len(senders) == count and len(shifts) == 1 else None


def _turned(devices: Devices, x: ShardedArray, names: Sequence[str], shift: int) -> ShardedArray | None:
    """The value rotated along one axis, leading or dividing a dimension; None where it is not that."""
    if len(names) > 1:
        return None
    place = x.layout.place(names[0])
    at = x.layout.stacked.index(names[0]) if place == STACKED else len(x.layout.stacked) + (place or 0)
    if place != STACKED and x.layout.tiled[place or 0] != (names[0],):
        return None
    size, parts = x.array.shape[at], devices.sizes[names[0]]
    cut = size // parts * (parts - shift)
    first, second = lax.slice_in_dim(x.array, 0, cut, axis=at), lax.slice_in_dim(x.array, cut, size, axis=at)
    return dataclasses.replace(x, array=lax.concatenate([second, first], at))


def pbroadcast(run: Interpreter, eqn: Equation, operand: ShardedValue) -> Sequence[ShardedValue] | None:
    """All devices get the value of one."""
    names = _names(run.devices, eqn.params["axis_name"])
    x = operand.sharded
    if x.axes.isdisjoint(names):
        return [x]
    x = _together(run.devices, x, names)
    array = _one_axis(run.devices, x, names)[eqn.params["source"]]
    return [ShardedArray(array, x.shape, Layout(x.layout.stacked[len(names) :], x.layout.tiled))]


def axis_index(run: Interpreter, eqn: Equation) -> Sequence[ShardedValue] | None:
    """The numbers of the devices along an axis."""
    names = _names(run.devices, eqn.params["axis_name"])
    if not names:
        return [whole(constant(np.zeros((), np.int32)))]
    numbers = np.arange(run.devices.count(names), dtype=np.int32).reshape([run.devices.sizes[a] for a in names])
    return [ShardedArray(constant(numbers), (), Layout(names, ()))]


COLLECTIVES: Mapping[str, ShardRule] = {
    **dict.fromkeys(("psum", "psum_invariant", "unreduced_psum"), reduction("sum")),
    "pmax": reduction("max"),
    "pmin": reduction("min"),
    **dict.fromkeys(("all_gather", "all_gather_invariant", "all_gather_reduced"), all_gather),
    **dict.fromkeys(("reduce_scatter", "unreduced_reduce_scatter"), reduce_scatter),
    "all_to_all": all_to_all,
    "ppermute": ppermute,
    "pbroadcast": pbroadcast,
    "axis_index": axis_index,
    **dict.fromkeys(
        ("pvary", "preduced", "reduced_vary_cast", "reduced_vary_cast_p", "vary_unreduced_cast", "vary_unreduced_cast_p",
         "name", "sharding_constraint", "layout_constraint", "reshard", "xla_metadata_value", "optimization_barrier",
         "stop_gradient", "device_put", "shard_alike"),
        annotation,
    ),
    **dict.fromkeys(("debug_callback", "debug_print", "inspect_sharding"), lambda run, eqn, *operands: []),
}  # fmt: skip
"""The rules of this module: primitive → rule."""
