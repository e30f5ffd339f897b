"""Propagation of layouts through equations that mean the same on whole arrays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Dim
from jax2onnx_core.jax_types import Equation
from jax2onnx_core.jaxprs import is_static
from jax2onnx_graph.facts.axis_maps import Axes, AxisMaps, Iteration, IterationAxis
from jax2onnx_graph.facts.sizes import ONE

from jax2onnx_lax.sharding._primitive_axes import ELEMENTWISE, PRIMITIVES, primitive_axes
from jax2onnx_lax.sharding.interpreter import Interpreter, Kind, ShardedValue, ShardRule, Unreduced, evaluated
from jax2onnx_lax.sharding.sharded_arrays import Devices, Layout, ShardedArray, broadcast, constant, expanded, whole

__all__ = ["PROPAGATION", "ShardedArrayRule"]

#: A rule that takes the value of each device.
ShardedArrayRule = Callable[..., Sequence[ShardedValue] | None]

_KINDS: Mapping[str, Kind] = {
    "reduce_sum": "sum", "dot_general": "sum", "conv_general_dilated": "sum", "reduce_max": "max", "reduce_min": "min",
}  # fmt: skip

#: primitive → the parameter with sizes along the axes of its result, or else of its first operand.
_SIZES = {
    "broadcast_in_dim": "shape", "iota": "shape", "reshape": "new_sizes",
    "slice": "limit_indices", "dynamic_slice": "slice_sizes", "gather": "slice_sizes",
}  # fmt: skip
_OF_RESULT = ("broadcast_in_dim", "iota", "reshape")


# -- one rule for all primitives whose axes are known ---------------------------------------------------


def propagated(run: Interpreter, eqn: Equation, *operands: ShardedArray) -> Sequence[ShardedValue] | None:
    """Divide each axis along which the equation computes as the operands are; its results are divided likewise.

    The axes of the mesh along which no such axis can be divided are leading, and mapped over.
    """
    held = _repeated_scalars(eqn, operands)
    maps = primitive_axes(eqn, [x.shape for x in held])
    if maps is None:
        return None
    plan = _Plan(run.devices, maps, held, can_sum=eqn.primitive.name in _KINDS)
    arrays = [plan.array(x, axes) for x, axes in zip(held, maps.operands, strict=True)]
    leading = [[a in x.axes for x in held] for a in plan.layout.stacked]
    values = evaluated(eqn, arrays, leading, **_sizes(eqn, maps, plan))
    results = [
        ShardedArray(x, v.aval.shape, plan.tensor_layout(axes))
        for x, v, axes in zip(values, eqn.outvars, maps.results, strict=True)
    ]
    over = frozenset(a for axis in plan.axes if axis.iteration is Iteration.SUMMED for a in plan.tiled(axis))
    if not over:
        return results
    return [
        Unreduced(_KINDS[eqn.primitive.name], over, results[0], lambda: run.on_each_device(eqn, *operands)[0].sharded)
    ]


def _sizes(eqn: Equation, maps: AxisMaps, plan: _Plan) -> Mapping[str, tuple[Dim, ...]]:
    """The parameter of an equation that holds sizes, for all devices."""
    name = _SIZES.get(eqn.primitive.name)
    if name is None:
        return {}
    axes = (maps.results if eqn.primitive.name in _OF_RESULT else maps.operands)[0] or ()
    if eqn.primitive.name == "gather":  # along a batch axis, a slice is one element
        batch = eqn.params["dimension_numbers"].operand_batching_dims
        axes = tuple(() if d in batch else group for d, group in enumerate(axes))
    return {name: plan.sizes(eqn.params[name], axes)}


def _repeated_scalars(eqn: Equation, operands: Sequence[ShardedArray]) -> list[ShardedArray]:
    """The operands, where scalars of an elementwise equation that differ by device have the shape of its result."""
    shape = eqn.outvars[0].aval.shape
    if eqn.primitive.name not in ELEMENTWISE:
        return [*operands]
    return [_of_shape(x, shape) if x.axes and not x.rank and shape else x for x in operands]


def _of_shape(x: ShardedArray, shape: tuple[Dim, ...]) -> ShardedArray:
    """A scalar as a value of this shape in which all elements are equal."""
    array = expanded(x.array, range(x.array.ndim, x.array.ndim + len(shape)))
    return ShardedArray(array, shape, Layout(x.layout.stacked, ((),) * len(shape)))


class _Plan:
    """How the iteration axes of an equation are divided.

    Attributes:
      axes: the iteration axes.
      layout: that of all of them, as if they were the dimensions of one value.
    """

    def __init__(self, devices: Devices, maps: AxisMaps, operands: Sequence[ShardedArray], *, can_sum: bool) -> None:
        self._devices, self._maps = devices, maps
        self._tensors = [axes for axes in (*maps.operands, *maps.results) if axes is not None]
        self.axes = [*dict.fromkeys(axis for axes in self._tensors for group in axes for axis in group)]
        self._inner = {axis for axes in self._tensors for group in axes for axis in _inner(group)}
        self._merged = {axis for axes in self._tensors for group in axes if len(group) > 1 for axis in group}
        self._kinds = {Iteration.SAME, Iteration.SUMMED} if can_sum else {Iteration.SAME}
        given = [self._given(x.layout, axes) for x, axes in zip(operands, maps.operands, strict=True)]
        same = Layout((), ((),) * len(self.axes))
        self.layout = devices.joined([same, *given])
        while apart := self._apart(given):
            given = [layout.stacking(apart) for layout in given]
            self.layout = devices.joined([same, *given])
        self._small = {axis for axis in self.axes if self._is_small(axis, operands)}

    def _given(self, layout: Layout, axes: Axes | None) -> Layout:
        """The layout of an operand over the iteration axes: of several that are merged, the first one is divided."""
        tiles = {_first(group): names for group, names in zip(axes or (), layout.tiled, strict=False) if group}
        apart = layout.axes.difference(layout.stacked, *tiles.values())
        led = (*layout.stacked, *(a for a in self._devices.sizes if a in apart))
        return Layout(led, tuple(tiles.get(axis, ()) for axis in self.axes))

    def _apart(self, given: Sequence[Layout]) -> frozenset[str]:
        """The axes of the mesh that divide an iteration axis which may not be divided along them."""
        is_product = any(axis.iteration is Iteration.SUMMED for axis in self.axes)
        apart = set[str]()
        for i, axis in enumerate(self.axes):
            names = self.layout.tiled[i]
            if not names:
                continue
            if axis.iteration not in self._kinds or axis in self._inner:
                apart.update(names)
            for layout, axes in zip(given, self._maps.operands, strict=True):
                if not any(axis in group for group in axes or ()):
                    apart.update(layout.axes.intersection(names))
                elif is_product:  # a factor that is the same on all devices is not repeated
                    apart.update(set(names).difference(layout.tiled[i]))
        return frozenset(apart)

    def _is_small(self, axis: IterationAxis, operands: Sequence[ShardedArray]) -> bool:
        """Whether all elements along an axis are equal, so that one of them is enough."""
        if axis.iteration is not Iteration.SAME or axis in self._merged:
            return False
        found = zip(operands, self._maps.operands, strict=True)
        return all(x.is_uniform(d) for x, axes in found for d, group in enumerate(axes or ()) if axis in group)

    def tiled(self, axis: IterationAxis) -> tuple[str, ...]:
        """The axes of the mesh that divide an iteration axis."""
        return self.layout.tiled[self.axes.index(axis)]

    def tensor_layout(self, axes: Axes, stacked: Sequence[str] | None = None) -> Layout:
        """The layout of a tensor of these axes, which has all leading axes or some of them."""
        tiled = tuple(tuple(a for axis in group for a in self.tiled(axis)) for group in axes)
        return Layout(self.layout.stacked if stacked is None else tuple(stacked), tiled)

    def sizes(self, dims: Sequence[Dim], axes: Axes) -> tuple[Dim, ...]:
        """The sizes of a tensor of all devices for those on one of them."""
        tiled = self.tensor_layout(axes).tiled
        return tuple(
            1 if self._small.issuperset(group) and group else n * self._devices.count(names)
            for n, group, names in zip(dims, axes, tiled, strict=True)
        )

    def array(self, x: ShardedArray, axes: Axes | None) -> jax.Array:
        """An operand as it is computed with."""
        axes = ((),) * x.rank if axes is None else axes
        layout = self.tensor_layout(axes, [a for a in self.layout.stacked if a in x.axes])
        array = self._devices.broadcastable(x, layout)
        return broadcast(array, (*array.shape[: len(layout.stacked)], *self.sizes(x.shape, axes)))


def _inner(group: Sequence[IterationAxis]) -> Sequence[IterationAxis]:
    """Those of the axes that are merged into one which have parts of others between their own elements."""
    first = next((i for i, axis in enumerate(group) if axis.size != ONE), len(group))
    return group[first + 1 :]


def _first(group: Sequence[IterationAxis]) -> IterationAxis:
    return next((axis for axis in group if axis.size != ONE), group[0])


def dynamic_slice(
    run: Interpreter, eqn: Equation, x: ShardedArray, *starts: ShardedArray
) -> Sequence[ShardedValue] | None:
    """A dimension of which each device takes the part of its number is divided."""
    first = list(starts)
    for d, (start, size) in enumerate(zip(starts, eqn.params["slice_sizes"], strict=True)):
        if axes := _own_part(run, x, d, size, start):
            shape, tiled = (
                (*x.shape[:d], size, *x.shape[d + 1 :]),
                (*x.layout.tiled[:d], axes, *x.layout.tiled[d + 1 :]),
            )
            x = ShardedArray(run.devices.filled(x, [d]).array, shape, Layout(x.layout.stacked, tiled))
            first[d] = whole(constant(np.zeros((), start.array.dtype)))
    return propagated(run, eqn, x, *first)


def _own_part(run: Interpreter, x: ShardedArray, dim: int, size: Dim, start: ShardedArray) -> tuple[str, ...]:
    """The axes along which each device takes the part of a dimension that has its number; none where it is not so."""
    axes = start.layout.stacked
    if not isinstance(start.array, np.ndarray) or not is_static(size) or not axes or not x.axes.isdisjoint(axes):
        return ()
    count = run.devices.count(axes)
    own = np.array_equal(start.array.reshape(-1), np.arange(count) * size)
    return axes if own and x.shape[dim] == count * size and not x.layout.tiled[dim] else ()


# -- what is linear in parts that are still to be put together ------------------------------------------------


def _scales(eqn: Equation, other: ShardedValue) -> bool:
    """Whether the other operand of a product or quotient is one finite number that is not zero."""
    value = other.sharded.array
    if not isinstance(value, np.ndarray) or value.size != 1 or not jnp.issubdtype(value.dtype, jnp.floating):
        return False
    return bool(np.isfinite(np.float64(value.item()))) and value.item() != 0


def _is_linear(eqn: Equation, operands: Sequence[ShardedValue]) -> bool:
    """Whether the parts may be put together after the equation as well as before it."""
    name, pending = eqn.primitive.name, [x for x in operands if isinstance(x, Unreduced)]
    kinds = {x.kind for x in pending}
    if len(kinds) != 1 or len({x.over for x in pending}) != 1:
        return False
    if name in ("copy", "reshape", "transpose", "squeeze", "broadcast_in_dim"):
        return True
    if name.startswith("reduce_") and _KINDS.get(name) in kinds:
        return True
    if kinds != {"sum"}:
        return False
    dtype = pending[0].total.array.dtype
    if name == "convert_element_type":
        return _only_rounds(dtype, eqn.params["new_dtype"])
    if name == "mul":
        return any(_scales(eqn, x) for x in operands if not isinstance(x, Unreduced)) and _has_range(dtype)
    if name == "div":
        return not isinstance(operands[1], Unreduced) and _scales(eqn, operands[1]) and _has_range(dtype)
    return name == "neg" or (name in ("add", "sub", "add_any") and len(pending) == len(operands))


def _only_rounds(old: np.dtype[np.generic], new: np.dtype[np.generic]) -> bool:
    """Whether a conversion leaves out digits and nothing else: a sum that is made in the type before it has all that one behind it has."""
    if not all(jnp.issubdtype(dtype, jnp.floating) for dtype in (old, new)):
        return False
    before, after = jnp.finfo(old), jnp.finfo(new)
    return bool(after.maxexp == before.maxexp and after.nmant <= before.nmant)


def _has_range(dtype: np.dtype[np.generic]) -> bool:
    """Whether a sum is a number of the type though its parts would be divided by something: not in half precision."""
    return bool(jnp.finfo(dtype).maxexp >= jnp.finfo(jnp.float32).maxexp)


def _linear(
    rule: ShardedArrayRule, run: Interpreter, eqn: Equation, *operands: ShardedValue
) -> Sequence[ShardedValue] | None:
    """The results of a rule, also on unreduced operands where the rule is linear."""
    pending = [x for x in operands if isinstance(x, Unreduced)]
    if not pending:
        return rule(run, eqn, *operands)
    if _is_linear(eqn, operands):
        totals = rule(run, eqn, *(x.total if isinstance(x, Unreduced) else x for x in operands))
        made = None if totals is None else _together(pending[0], totals[0])
        if made is not None:
            return [dataclasses.replace(made, parts=lambda: _parts_of(rule, run, eqn, *operands))]
    return rule(run, eqn, *(x.sharded for x in operands))


def _together(pending: Unreduced, total: ShardedValue) -> Unreduced | None:
    if isinstance(total, ShardedArray):
        return dataclasses.replace(pending, total=total)
    if total.kind != pending.kind:
        return None
    return dataclasses.replace(pending, over=pending.over | total.over, total=total.total)


def _parts_of(rule: ShardedArrayRule, run: Interpreter, eqn: Equation, *operands: ShardedValue) -> ShardedArray:
    sharded = [x.sharded for x in operands]
    results = rule(run, eqn, *sharded)
    return (run.on_each_device(eqn, *sharded) if results is None else results)[0].sharded


PROPAGATION: Mapping[str, ShardRule] = {
    name: functools.partial(_linear, dynamic_slice if name == "dynamic_slice" else propagated) for name in PRIMITIVES
}
"""The rules of this module: primitive → rule."""
