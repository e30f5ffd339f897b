"""`Interpreter`: evaluates a body for all devices of a mesh on whole arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Dim, Jaxpr
from jax2onnx_core.jax_types import Atom, Equation, Var
from jax2onnx_core.jaxprs import (
    bind_primitive,
    eval_jaxpr,
    is_extended_dtype,
    is_jaxpr,
    is_literal,
    open_jaxpr,
    user_frame,
)
from jax2onnx_graph.errors import RuleError, located

from jax2onnx_lax._compat import batched, traced_body, traced_for
from jax2onnx_lax.random._equations import draws_otherwise_if_batched
from jax2onnx_lax.sharding.sharded_arrays import Devices, Layout, ShardedArray, constant, whole

__all__ = ["Interpreter", "Kind", "ShardRule", "ShardedValue", "Unreduced", "annotation", "axis_names", "evaluated"]

_SMALL = 4096  # elements of a constant that is computed while the body is traced

#: What is to be done with the parts of all devices: "sum", "max" or "min".
Kind: TypeAlias = str


@dataclasses.dataclass(frozen=True, eq=False)
class Unreduced:
    """A value that is not yet reduced over the devices, until somebody asks for the part of each.

    Attributes:
      kind: the reduction of the parts.
      over: the mesh axes along which they are.
      total: the result.
      parts: computes the part of each device.
    """

    kind: Kind
    over: frozenset[str]
    total: ShardedArray
    parts: Callable[[], ShardedArray]

    @property
    def axes(self) -> frozenset[str]:
        """The mesh axes along which the value differs."""
        return self.total.axes | self.over

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape on one device."""
        return self.total.shape

    @property
    def sharded(self) -> ShardedArray:
        """The parts."""
        return self.parts()


#: A value of a body.
ShardedValue: TypeAlias = ShardedArray | Unreduced
#: `rule(interpreter, equation, *operands)`: the results, or None where it does not know better than to compute device by device.
ShardRule: TypeAlias = Callable[..., Sequence[ShardedValue] | None]


def evaluated(
    eqn: Equation, arrays: Sequence[jax.Array], leading: Sequence[Sequence[bool]] = (), **params: object
) -> list[jax.Array]:
    """The results of an equation on arrays, with other parameters; small constants are computed at once.

    Args:
      eqn: the equation.
      arrays: its operands.
      leading: for each further leading axis, the first one first, which operands have it; the results have them all.
      params: the parameters that are others.
    """

    def computed(*operands: jax.Array) -> list[jax.Array]:
        return bind_primitive(eqn.primitive, {**eqn.params, **params}, *operands)

    for have in reversed(leading):
        computed = jax.vmap(computed, in_axes=tuple(0 if has else None for has in have))
    constant = all(isinstance(x, np.ndarray) and x.size <= _SMALL for x in arrays) and len(arrays) > 0
    is_key = any(is_extended_dtype(v.aval.dtype) for v in eqn.outvars)
    if not constant or is_key or any(map(is_jaxpr, eqn.params.values())):
        return computed(*arrays)
    with jax.ensure_compile_time_eval():
        return [np.asarray(x) for x in computed(*map(jnp.asarray, arrays))]  # type: ignore[misc]


def axis_names(eqn: Equation) -> frozenset[str]:
    """The axes of a mesh that an equation, or a jaxpr in it, uses by name."""
    found: set[str] = set()
    for name in ("axis_name", "axes"):
        value = eqn.params.get(name, ())
        found.update(a for a in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(a, str))
    for jaxpr in jax.tree_util.tree_leaves(list(eqn.params.values()), is_leaf=is_jaxpr):
        if is_jaxpr(jaxpr):
            found.update(*map(axis_names, open_jaxpr(jaxpr)[0].eqns))
    return frozenset(found)


def _one_by_one(jaxpr: Jaxpr, axes: Sequence[tuple[str, int]], operands: Sequence[ShardedArray]) -> list[jax.Array]:
    """The results of a jaxpr for one device after another, of operands whose leading axes are some of `axes`, in their order."""
    sizes, found = [size for _, size in axes], list[Sequence[jax.Array]]()
    for device in np.ndindex(*sizes):
        place = {axis: i for (axis, _), i in zip(axes, device, strict=True)}
        found.append(eval_jaxpr(jaxpr, *(x.array[tuple(place[a] for a in x.layout.stacked)] for x in operands)))
    return [jnp.reshape(jnp.stack(made), (*sizes, *made[0].shape)) for made in zip(*found, strict=True)]


def annotation(_: Interpreter, __: Equation, *operands: ShardedValue) -> Sequence[ShardedValue]:
    """The rule of an annotation, which changes no value."""
    return operands


class Interpreter:
    """Computes equations on the values of all devices.

    Rules say which equations mean the same on whole arrays; any other is computed for each device, as `jax.vmap` does it, or
    one device after another where that draws other random bits.

    Attributes:
      devices: the axes of the mesh with more than one device.
    """

    def __init__(self, sizes: Mapping[str, int], rules: Mapping[str, ShardRule]) -> None:
        self._sizes = dict(sizes)
        self._rules = rules
        self.devices = Devices({axis: size for axis, size in sizes.items() if size > 1})
        self._was_apart = False

    @property
    def is_crisp(self) -> bool:
        """Whether all so far was computed on whole arrays as they are, by rules."""
        return not self._was_apart and not self.devices.moved

    def within(self, sizes: Mapping[str, int]) -> Interpreter:
        """An interpreter for bodies over these axes, in this order, and those that are taken already."""
        return Interpreter({**sizes, **self._sizes}, self._rules)

    def run(self, jaxpr: Jaxpr, operands: Sequence[ShardedValue]) -> list[ShardedValue]:
        """The results of a jaxpr."""
        inner, consts = open_jaxpr(jaxpr)
        env: dict[Var, ShardedValue] = dict(zip(inner.constvars, map(whole, consts), strict=True))
        env.update(zip(inner.invars, operands, strict=True))

        def read(atom: Atom) -> ShardedValue:
            return whole(constant(np.asarray(atom.val, atom.aval.dtype))) if is_literal(atom) else env[atom]

        for eqn in inner.eqns:
            with traced_for(eqn):
                results = self.apply(eqn, [read(v) for v in eqn.invars])
            env.update(zip(eqn.outvars, results, strict=True))
        return [read(v) for v in inner.outvars]

    def apply(self, eqn: Equation, operands: Sequence[ShardedValue]) -> Sequence[ShardedValue]:
        """The results of an equation.

        Raises:
          RuleError: one of them has another shape than JAX's, or an array that does not fit its layout.
        """
        results = self._results(eqn, operands)
        for i, (x, v) in enumerate(zip(results, eqn.outvars, strict=True)):
            self._check(eqn, i, x.total if isinstance(x, Unreduced) else x, v.aval.shape)
        return results

    def _check(self, eqn: Equation, index: int, x: ShardedArray, shape: Sequence[Dim]) -> None:
        if len(x.shape) == len(shape) and self.devices.fits(dataclasses.replace(x, shape=tuple(shape))):
            return
        name, layout = eqn.primitive.name, x.layout
        error = RuleError(
            f"On all devices together, result {index} is of shape {list(x.array.shape)}, with the axes {list(layout.stacked)} of the mesh "
            f"leading and its dimensions divided along {list(layout.tiled)}; on each device it is of shape {list(shape)} by JAX, "
            "which does not fit. The rule for whole arrays is at fault, not your function: please report it with this line."
        )
        raise located(
            error, name, None, "jax2onnx-lax", user_frame(eqn.source_info) or "a line that JAX did not record"
        )

    def _results(self, eqn: Equation, operands: Sequence[ShardedValue]) -> Sequence[ShardedValue]:
        rule = self._rules.get(eqn.primitive.name)
        differ = axis_names(eqn) or any(x.axes for x in operands)
        if not differ and rule is not annotation and not (rule and self._is_small(eqn, operands)):
            return self._once(eqn, operands)
        results = None if rule is None else rule(self, eqn, *operands)
        if results is not None:
            return results
        return self.on_each_device(eqn, *(x.sharded for x in operands))

    def _is_small(self, eqn: Equation, operands: Sequence[ShardedValue]) -> bool:
        """Whether an array is smaller than its value, because elements are equal, or may be."""
        uniform = any(x.sharded.is_uniform(d) for x in operands for d in range(len(x.shape)))
        return uniform or eqn.primitive.name in ("broadcast_in_dim", "iota")

    def _once(self, eqn: Equation, operands: Sequence[ShardedValue]) -> list[ShardedValue]:
        """The results of an equation that is the same on all devices."""
        arrays = [self.devices.filled(x.sharded).array for x in operands]
        results = evaluated(eqn, arrays)
        return [whole(x, v.aval.shape) for x, v in zip(results, eqn.outvars, strict=True)]

    def on_each_device(self, eqn: Equation, *operands: ShardedArray) -> list[ShardedValue]:
        """The results of an equation, computed for each device by itself."""
        self._was_apart = True
        used = axis_names(eqn).union(*(x.axes for x in operands))
        axes = [a for a in self._sizes if a in used]
        laid = [self._led(x, axes) for x in operands]
        env = [(a, self._sizes[a]) for a in axes]
        jaxpr = traced_body(eqn, env)
        if draws_otherwise_if_batched(eqn):
            made = _one_by_one(jaxpr, env, laid)
            return [self._spread(x, axes, v.aval.shape) for x, v in zip(made, eqn.outvars, strict=True)]
        found: list[tuple[str, Sequence[bool]]] = []
        for axis, size in reversed(env):
            jaxpr, differ = batched(jaxpr, axis, size, [axis in x.axes for x in laid])
            found.insert(0, (axis, differ))
        results = eval_jaxpr(jaxpr, *(x.array for x in laid))
        stacked = [tuple(axis for axis, differ in found if differ[i]) for i in range(len(results))]
        return [self._spread(x, names, v.aval.shape) for x, names, v in zip(results, stacked, eqn.outvars, strict=True)]

    def _led(self, x: ShardedArray, axes: Sequence[str]) -> ShardedArray:
        """The value with those of the axes leading, in order, along which it differs."""
        x = self.devices.filled(x)
        layout = Layout(tuple(a for a in axes if a in x.axes), ((),) * x.rank)
        return self.devices.relaid(x, layout)

    def _spread(self, array: jax.Array, axes: Sequence[str], shape: tuple[Dim, ...]) -> ShardedArray:
        """A result of all devices; there is one device along some of the axes."""
        first = tuple(0 if self._sizes[a] == 1 else slice(None) for a in axes)
        names = tuple(a for a in axes if self._sizes[a] > 1)
        array = array[first] if len(names) < len(axes) else array
        return ShardedArray(array, shape, Layout(names, ((),) * len(shape)))
