"""Positions along axes, sizes, and reductions."""

from __future__ import annotations

import math
from collections.abc import Mapping

from jax2onnx_core.jaxprs import is_positive
from jax2onnx_core.lowering.definitions import Definition

from jax2onnx_lax._compat import max_dim, min_dim
from jax2onnx_lax.dtypes import is_bool, is_integer
from jax2onnx_lax.integers._domain import Affine, Integers, number
from jax2onnx_lax.integers._results import Transfer, affine_result, dims_of

__all__ = ["TRANSFERS"]


def _iota(definition: Definition, *_: Integers | None) -> Integers | None:
    if not (is_integer(definition.aval.dtype) or is_bool(definition.aval.dtype)):
        return None
    shape, axis = definition.params["shape"], definition.params["dimension"]
    return affine_result(definition, Affine(0, tuple(int(d == axis) for d in range(len(shape)))))


def _dimension(definition: Definition, *_: Integers | None) -> Integers:
    return number(definition.params["dim"])


def _size(definition: Definition, *_: Integers | None) -> Integers:
    return number(dims_of(definition)[definition.params["dimension"]])


def _position(definition: Definition, *_: Integers | None) -> Integers:
    """The place of an extreme element; the first one of none."""
    return Integers(0, max_dim(dims_of(definition)[definition.params["axes"][0]] - 1, 0))


def _top(definition: Definition, x: Integers | None) -> Integers | None:
    """Elements of the operand, or their places along an axis."""
    if definition.result == 0:
        return None if x is None else Integers(x.low, x.high)
    dims, axis = dims_of(definition), definition.params.get("axis", definition.params.get("reduction_dimension", -1))
    return Integers(0, dims[axis] - 1)


def _sorted(definition: Definition, *xs: Integers | None) -> Integers | None:
    x = xs[definition.result]
    return None if x is None else Integers(x.low, x.high)


def _extreme(definition: Definition, x: Integers) -> Integers | None:
    """An element of the operand; that of none is the limit of the dtype."""
    if not all(map(is_positive, dims_of(definition))):
        return None
    return Integers(x.low, x.high)


def _total(definition: Definition, x: Integers) -> Integers:
    count = math.prod(dims_of(definition)[axis] for axis in definition.params["axes"])
    return Integers(min_dim(x.low * count, 0), max_dim(x.high * count, 0))


def _running(definition: Definition, x: Integers) -> Integers:
    """Sums of at least one element and at most all."""
    count = dims_of(definition)[definition.params["axis"]]
    return Integers(min_dim(x.low, x.low * count), max_dim(x.high, x.high * count))


#: Primitive → what is known of its result.
TRANSFERS: Mapping[str, Transfer] = {
    "approx_top_k": _top,
    "argmax": _position,
    "argmin": _position,
    "cumsum": _running,
    "dim_as_value": _dimension,
    "dimension_size": _size,
    "iota": _iota,
    "reduce_max": _extreme,
    "reduce_min": _extreme,
    "reduce_sum": _total,
    "sort": _sorted,
    "top_k": _top,
}
