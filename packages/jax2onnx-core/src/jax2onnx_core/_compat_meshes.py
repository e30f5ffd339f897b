"""Meshes of devices in traced functions, by JAX's private API."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax
import numpy as np
from jax._src import core as _core
from jax._src import mesh as _mesh
from jax._src import sharding_impls as _sharding_impls
from jax._src.lax import parallel as _parallel

from jax2onnx_core._compat import plain_shape, with_exact_shape
from jax2onnx_core.jax_types import Atom, Aval, Equation

__all__ = [
    "divided",
    "has_mesh",
    "in_no_mesh",
    "is_type_cast",
    "on_a_mesh",
    "typed_sharding",
    "without_mesh",
    "without_sharding",
]


@contextlib.contextmanager
def without_mesh() -> Iterator[None]:
    """Inside, JAX is in the context of no mesh, whatever `jax.set_mesh` was called with."""
    concrete = _sharding_impls._internal_use_concrete_mesh(_mesh.empty_concrete_mesh)
    with jax.sharding.use_abstract_mesh(_mesh.empty_abstract_mesh), concrete:
        yield


def on_a_mesh(eqn: Equation) -> bool:
    """Whether an equation, or one of its results, knows of a mesh of devices."""
    return not eqn.ctx.cur_abstract_mesh.empty or any(map(has_mesh, eqn.outvars))


def has_mesh(atom: Atom) -> bool:
    """Whether the type of a variable knows of a mesh of devices."""
    return _has_mesh(atom.aval)


def _has_mesh(aval: object) -> bool:
    return isinstance(aval, _core.ShapedArray) and not aval.sharding.mesh.empty


def without_sharding(aval: Aval) -> Aval:
    """The aval of the whole array, as if there were one device."""
    if not _has_mesh(aval):
        return aval
    return with_exact_shape(_core.ShapedArray(plain_shape(aval.shape), aval.dtype, aval.weak_type), aval.shape)


def typed_sharding(sharding: object) -> jax.sharding.NamedSharding | None:
    """A sharding that is part of a type, because axes of its mesh are explicit; None for any other."""
    if isinstance(sharding, jax.sharding.NamedSharding) and any(
        kind is jax.sharding.AxisType.Explicit for kind in sharding.mesh.axis_types
    ):
        return sharding
    return None


def divided(array: jax.Array, sharding: jax.sharding.NamedSharding) -> jax.Array:
    """The array, divided over the devices that there are."""
    if isinstance(sharding.mesh, jax.sharding.Mesh):
        return jax.device_put(array, sharding)
    mesh = sharding.mesh
    devices = np.array(jax.devices()[: mesh.size]).reshape(mesh.axis_sizes)
    concrete = jax.sharding.Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types)
    return jax.device_put(array, jax.sharding.NamedSharding(concrete, sharding.spec))


def in_no_mesh(eqn: Equation) -> Equation:
    """The equation, as if it had been traced in the context of no mesh; its shardings are left open."""
    params = {name: _open_sharding(name, value) for name, value in eqn.params.items()}
    if eqn.ctx.cur_abstract_mesh.empty:
        return eqn.replace(params=params)
    with eqn.ctx.manager, without_mesh():
        return eqn.replace(params=params, ctx=_core.JaxprEqnContext())


_TYPE_CASTS = (_core.pvary_p, _core.reduced_vary_cast_p, _parallel.preduced_p, _parallel.vary_unreduced_cast_p)


def is_type_cast(eqn: Equation) -> bool:
    """Whether an equation says nothing but along which axes of a mesh its operand differs between devices."""
    return eqn.primitive in _TYPE_CASTS


def _open_sharding(name: str, value: object) -> object:
    if name == "out_sharding" or (name == "sharding" and isinstance(value, jax.sharding.NamedSharding)):
        return None
    if name in ("in_shardings", "out_shardings") and isinstance(value, tuple):
        return (_sharding_impls.UNSPECIFIED,) * len(value)
    return value
