"""Propagation of layouts through equations that mean the same on whole arrays."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Dim
from jax2onnx_core.jax_types import Equation
from jax2onnx_core.jaxprs import bind_primitive, is_static

from jax2onnx_lax.sharding.interpreter import Interpreter, Kind, ShardedValue, ShardRule, Unreduced, evaluated
from jax2onnx_lax.sharding.sharded_arrays import Layout, ShardedArray, broadcast, expanded, whole

__all__ = ["PROPAGATION", "ShardedArrayRule", "result"]

#: A rule that takes the value of each device.
ShardedArrayRule = Callable[..., Sequence[ShardedValue] | None]

_ELEMENTWISE = (
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e", "bessel_i1e",
    "bitcast_convert_type", "cbrt", "ceil", "clamp", "clz", "complex", "conj", "convert_element_type", "copy", "copy_p", "cos", "cosh",
    "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "igamma", "igammac", "imag",
    "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter",
    "not", "or", "population_count", "pow", "real", "reduce_precision", "regularized_incomplete_beta", "rem", "round", "rsqrt",
    "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square", "sub", "tan",
    "tanh", "xor",
)  # fmt: skip


def result(
    eqn: Equation, arrays: Sequence[jax.Array], layouts: Sequence[Layout], **params: object
) -> list[ShardedValue]:
    """The results of an equation on arrays, with other parameters, in these layouts."""
    values = evaluated(eqn, arrays, **params)
    return [ShardedArray(x, v.aval.shape, layout) for x, v, layout in zip(values, eqn.outvars, layouts, strict=True)]


# -- elementwise --------------------------------------------------------------------------------------


def elementwise(run: Interpreter, eqn: Equation, *operands: ShardedArray) -> Sequence[ShardedValue] | None:
    """Operands in one layout; one that is the same everywhere keeps its size 1."""
    shape = eqn.outvars[0].aval.shape
    if (
        eqn.primitive.name == "bitcast_convert_type" and len(shape) != operands[0].rank
    ):  # a dimension of bytes comes or goes
        return None
    sharded = [x if x.rank != len(shape) and not x.axes else _of_shape(run, x, shape) for x in operands]
    layout = run.devices.joined([x.layout for x in sharded if x.rank == len(shape)])
    arrays = [run.devices.broadcastable(x, layout) if x.rank == len(shape) else x.array for x in sharded]
    return result(eqn, _broadcast([*arrays], len(layout.stacked) + len(shape)), [layout])


def _of_shape(run: Interpreter, x: ShardedArray, shape: tuple[Dim, ...]) -> ShardedArray:
    """A scalar, or a value with dimensions of size 1, as one of this shape in which elements are equal."""
    if x.rank != len(shape):
        array = expanded(x.array, range(x.array.ndim, x.array.ndim + len(shape)))
        return ShardedArray(array, shape, Layout(x.layout.stacked, ((),) * len(shape)))
    one = [d for d in range(x.rank) if _is_one(x.shape[d]) and not _is_one(shape[d])]
    x = run.devices.stacked(x, frozenset(a for d in one for a in x.layout.tiled[d]))
    return dataclasses.replace(x, shape=tuple(shape))


def _broadcast(arrays: list[jax.Array], rank: int) -> list[jax.Array]:
    """The arrays of this rank in one shape; scalars as they are."""
    full = [np.ndim(x) == rank for x in arrays]
    shapes = [jnp.shape(x) for x, is_full in zip(arrays, full, strict=True) if is_full]
    shape = tuple(next((n for n in sizes if not (is_static(n) and n == 1)), 1) for sizes in zip(*shapes, strict=True))
    return [broadcast(x, shape) if is_full else x for x, is_full in zip(arrays, full, strict=True)]


# -- shapes -------------------------------------------------------------------------------------------


def broadcast_in_dim(run: Interpreter, eqn: Equation, x: ShardedArray) -> Sequence[ShardedValue] | None:
    """New dimensions, and those that are expanded, are of size 1 until their elements are needed."""
    shape, places = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    one = [d for d, place in enumerate(places) if x.layout.tiled[d] and x.shape[d] != shape[place]]
    x = run.devices.stacked(x, frozenset(a for d in one for a in x.layout.tiled[d]))
    count, rank = len(x.layout.stacked), len(shape)
    new = [count + d for d in range(rank) if d not in places]
    tiled = dict(zip(places, x.layout.tiled, strict=True))
    layout = Layout(x.layout.stacked, tuple(tiled.get(d, ()) for d in range(rank)))
    return [ShardedArray(expanded(x.array, new), tuple(shape), layout)]


def iota(run: Interpreter, eqn: Equation) -> Sequence[ShardedValue] | None:
    """Numbers along one dimension; the others are of size 1 until their elements are needed."""
    shape, along = eqn.params["shape"], eqn.params["dimension"]
    array = lax.broadcasted_iota(eqn.params["dtype"], tuple(n if d == along else 1 for d, n in enumerate(shape)), along)
    return [whole(array, shape)]


def transpose(run: Interpreter, eqn: Equation, x: ShardedArray) -> Sequence[ShardedValue] | None:
    """The dimensions are divided as before."""
    order, count = eqn.params["permutation"], len(x.layout.stacked)
    layout = Layout(x.layout.stacked, tuple(x.layout.tiled[d] for d in order))
    return result(eqn, [x.array], [layout], permutation=(*range(count), *(count + d for d in order)))


def squeeze(run: Interpreter, eqn: Equation, x: ShardedArray) -> Sequence[ShardedValue] | None:
    """The axes that divide a dimension which goes are leading then."""
    gone = eqn.params["dimensions"]
    x = run.devices.stacked(x, frozenset(a for d in gone for a in x.layout.tiled[d]))
    count = len(x.layout.stacked)
    layout = Layout(x.layout.stacked, tuple(axes for d, axes in enumerate(x.layout.tiled) if d not in gone))
    return result(eqn, [x.array], [layout], dimensions=tuple(count + d for d in gone))


def reshape(run: Interpreter, eqn: Equation, x: ShardedArray) -> Sequence[ShardedValue] | None:
    """A dimension that is divided is the first one of those that are put together, and that come of it."""
    new = eqn.params["new_sizes"]
    groups = _groups(x.shape, new)
    if groups is None or eqn.params.get("dimensions") is not None:
        return None
    x = run.devices.filled(x)
    inner = (d for old, made in groups for d in (_after_first(old, x.shape) if made else old))
    x = run.devices.stacked(x, frozenset(a for d in inner for a in x.layout.tiled[d]))
    tiled: list[tuple[str, ...]] = [()] * len(new)
    for old, made in groups:
        axes = tuple(a for d in old for a in x.layout.tiled[d])
        if axes:
            tiled[next((d for d in made if not _is_one(new[d])), made[0])] = axes
    sizes = [size * run.devices.count(axes) for size, axes in zip(new, tiled, strict=True)]
    layout = Layout(x.layout.stacked, tuple(tiled))
    return result(eqn, [x.array], [layout], new_sizes=(*x.array.shape[: len(layout.stacked)], *sizes))


def _after_first(dims: Sequence[int], shape: Sequence[Dim]) -> Sequence[int]:
    """The dimensions of a group after the first one that is not of size 1."""
    first = next((i for i, d in enumerate(dims) if not _is_one(shape[d])), 0)
    return dims[first + 1 :]


def _groups(old: Sequence[Dim], new: Sequence[Dim]) -> list[tuple[list[int], list[int]]] | None:
    """The least groups of dimensions that a reshape makes of each other; None where symbols hide them."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + len(left), j + len(right)
        while (sizes := (math.prod(old[d] for d in left), math.prod(new[d] for d in right)))[0] != sizes[1]:
            if i < len(old) and (j == len(new) or _is_less(*sizes)):
                left.append(i)
                i += 1
            elif j < len(new):
                right.append(j)
                j += 1
            else:
                return None
        groups.append((left, right))
    return groups


def _is_less(a: Dim, b: Dim) -> bool:
    if is_static(a) and is_static(b):
        return a < b
    return bool(is_static(a)) or (not is_static(b) and b % a == 0)


def _is_one(dim: Dim) -> bool:
    return is_static(dim) and dim == 1


# -- dimensions that stay as they are --------------------------------------------------------------------


def along(*names: str) -> ShardedArrayRule:
    """A rule for operations along the dimensions that parameters name, which are not divided; others are independent."""

    def rule(run: Interpreter, eqn: Equation, *operands: ShardedArray) -> Sequence[ShardedValue] | None:
        touched = {d for name in names for d in _sequence(eqn.params[name])}
        layout = run.devices.joined([x.layout for x in operands])
        if any(layout.tiled[d] for d in touched):
            return None
        count = len(layout.stacked)
        arrays = [run.devices.relaid(run.devices.filled(x), layout).array for x in operands]
        moved = {name: _shifted(eqn.params[name], count) for name in names}
        removed = touched if len(eqn.outvars[0].aval.shape) < operands[0].rank else ()
        kept = Layout(layout.stacked, tuple(axes for d, axes in enumerate(layout.tiled) if d not in removed))
        return result(eqn, arrays, [kept] * len(eqn.outvars), **moved)

    return rule


def _sequence(value: int | Sequence[int]) -> Sequence[int]:
    return value if isinstance(value, (tuple, list)) else (value,)


def _shifted(value: int | Sequence[int], count: int) -> int | tuple[int, ...]:
    return tuple(count + d for d in value) if isinstance(value, (tuple, list)) else value + count  # type: ignore[operator]


def slice_(run: Interpreter, eqn: Equation, x: ShardedArray) -> Sequence[ShardedValue] | None:
    """Dimensions of which all is taken may be divided."""
    start, limit = eqn.params["start_indices"], eqn.params["limit_indices"]
    strides = eqn.params["strides"] or (1,) * x.rank
    partial = [d for d in range(x.rank) if (start[d], limit[d], strides[d]) != (0, x.shape[d], 1)]
    if any(x.layout.tiled[d] for d in partial):
        return None
    x, count = run.devices.filled(x), len(x.layout.stacked)
    lead = x.array.shape[:count]
    limits = tuple(limit[d] if d in partial else x.dims[d] for d in range(x.rank))
    return result(
        eqn, [x.array], [x.layout], start_indices=(*[0] * count, *start), limit_indices=(*lead, *limits),
        strides=(*[1] * count, *strides),
    )  # fmt: skip


def pad(run: Interpreter, eqn: Equation, x: ShardedArray, value: ShardedArray) -> Sequence[ShardedValue] | None:
    """Dimensions that are not padded may be divided."""
    config = eqn.params["padding_config"]
    if value.axes or any(axes and tuple(config[d]) != (0, 0, 0) for d, axes in enumerate(x.layout.tiled)):
        return None
    x = run.devices.filled(x)
    return result(
        eqn, [x.array, value.array], [x.layout], padding_config=(*[(0, 0, 0)] * len(x.layout.stacked), *config)
    )


def dynamic_slice(
    run: Interpreter, eqn: Equation, x: ShardedArray, *starts: ShardedArray
) -> Sequence[ShardedValue] | None:
    """Dimensions of which all is taken may be divided; they are, where each device takes the part of its number."""
    sizes = eqn.params["slice_sizes"]
    if x.layout.stacked or any(axes and sizes[d] != x.shape[d] for d, axes in enumerate(x.layout.tiled)):
        return None
    x = run.devices.filled(x)
    divided = {d: axes for d, start in enumerate(starts) if (axes := _own_part(run, x, d, sizes[d], start))}
    if any(start.axes and d not in divided for d, start in enumerate(starts)):
        return None
    tiled = tuple(divided.get(d, axes) for d, axes in enumerate(x.layout.tiled))
    taken = tuple(x.dims[d] if tiled[d] else size for d, size in enumerate(sizes))
    zero = jnp.zeros((), starts[0].array.dtype)
    first = [zero if d in divided else start.array for d, start in enumerate(starts)]
    return result(eqn, [x.array, *first], [Layout((), tiled)], slice_sizes=taken)


def _own_part(run: Interpreter, x: ShardedArray, dim: int, size: Dim, start: ShardedArray) -> tuple[str, ...]:
    """The axes along which each device takes the part of a dimension that has its number; none where it is not so."""
    axes = start.layout.stacked
    if not isinstance(start.array, np.ndarray) or not is_static(size) or not axes or not x.axes.isdisjoint(axes):
        return ()
    count = run.devices.count(axes)
    own = np.array_equal(start.array.reshape(-1), np.arange(count) * size)
    return axes if own and x.shape[dim] == count * size and not x.layout.tiled[dim] else ()


def dynamic_update_slice(
    run: Interpreter, eqn: Equation, x: ShardedArray, update: ShardedArray, *starts: ShardedArray
) -> Sequence[ShardedValue] | None:
    """Dimensions of which all is written may be divided."""
    layout = run.devices.joined([x.layout, update.layout])
    if layout.stacked or any(s.axes for s in starts):
        return None
    if any(axes and update.shape[d] != x.shape[d] for d, axes in enumerate(layout.tiled)):
        return None
    arrays = [run.devices.relaid(run.devices.filled(v), layout).array for v in (x, update)]
    return result(eqn, [*arrays, *(s.array for s in starts)], [layout])


def gather(run: Interpreter, eqn: Equation, x: ShardedArray, indices: ShardedArray) -> Sequence[ShardedValue] | None:
    """The operand may be divided along dimensions of which slices take all, the indices along all but the last one."""
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    if (
        x.layout.stacked
        or indices.layout.stacked
        or not x.axes.isdisjoint(indices.axes)
        or numbers.operand_batching_dims
    ):
        return None
    if indices.layout.tiled[-1] or any(axes and sizes[d] != x.shape[d] for d, axes in enumerate(x.layout.tiled)):
        return None
    kept = [d for d in range(x.rank) if d not in numbers.collapsed_slice_dims]
    if any(axes and d not in kept for d, axes in enumerate(x.layout.tiled)):
        return None
    x, indices = run.devices.filled(x), run.devices.filled(indices)
    rank = len(eqn.outvars[0].aval.shape)
    rows = iter(indices.layout.tiled)
    places = dict(zip(numbers.offset_dims, kept, strict=True))
    tiled = tuple(x.layout.tiled[places[d]] if d in places else next(rows) for d in range(rank))
    taken = tuple(x.dims[d] if x.layout.tiled[d] else size for d, size in enumerate(sizes))
    return result(eqn, [x.array, indices.array], [Layout((), tiled)], slice_sizes=taken)


# -- reductions and products ------------------------------------------------------------------------------

_KINDS: Mapping[str, Kind] = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min"}


def reduce(run: Interpreter, eqn: Equation, x: ShardedArray) -> Sequence[ShardedValue] | None:
    """Over dimensions that are divided, the result is that of all devices together."""
    axes = eqn.params["axes"]
    over = frozenset(a for d in axes for a in x.layout.tiled[d])
    before = x
    x, count = run.devices.filled(x, axes), len(x.layout.stacked)
    layout = Layout(x.layout.stacked, tuple(names for d, names in enumerate(x.layout.tiled) if d not in axes))
    (total,) = result(eqn, [x.array], [layout], axes=tuple(count + d for d in axes))
    if not over:
        return [total]
    return [Unreduced(_KINDS[eqn.primitive.name], over, total.sharded, _parts(run, eqn, before))]


def _parts(run: Interpreter, eqn: Equation, *operands: ShardedArray) -> Callable[[], ShardedArray]:
    return lambda: run.on_each_device(eqn, *operands)[0].sharded


def dot_general(run: Interpreter, eqn: Equation, lhs: ShardedArray, rhs: ShardedArray) -> Sequence[ShardedValue] | None:
    """A contraction of dimensions that are divided alike is the sum over the devices."""
    contracting, batch = eqn.params["dimension_numbers"]
    before = lhs, rhs
    lhs, rhs = run.devices.filled(lhs), run.devices.filled(rhs)
    apart = _apart(lhs, rhs, contracting, batch)
    lhs, rhs = run.devices.stacked(lhs, apart), run.devices.stacked(rhs, apart)
    over = frozenset(a for d in contracting[0] for a in lhs.layout.tiled[d])
    (total,) = _product(run, eqn, lhs, rhs)
    return [Unreduced("sum", over, total.sharded, _parts(run, eqn, *before)) if over else total]


def _apart(
    lhs: ShardedArray, rhs: ShardedArray, contracting: Sequence[Sequence[int]], batch: Sequence[Sequence[int]]
) -> frozenset[str]:
    """The axes along which a product has to be computed for each device by itself."""
    pairs = {
        *zip(contracting[0], contracting[1], strict=True),
        *zip(batch[0], batch[1], strict=True),
    }
    apart = set(lhs.layout.stacked) | set(rhs.layout.stacked)
    for i, j in pairs:
        if lhs.layout.tiled[i] != rhs.layout.tiled[j]:
            apart |= {*lhs.layout.tiled[i], *rhs.layout.tiled[j]}
    for axis in lhs.axes & rhs.axes:
        if (lhs.layout.place(axis), rhs.layout.place(axis)) not in pairs:
            apart.add(axis)
    together = [set(axes) for axes in (*lhs.layout.tiled, *rhs.layout.tiled)]
    while any(axes & apart and not axes <= apart for axes in together):
        apart.update(*(axes for axes in together if axes & apart))
    return frozenset(apart)


def _product(run: Interpreter, eqn: Equation, lhs: ShardedArray, rhs: ShardedArray) -> list[ShardedValue]:
    """The product, in which the leading axes of one operand are free, and those of both are batch axes."""
    (lc, rc), (lb, rb) = eqn.params["dimension_numbers"]
    left, right = lhs.layout.stacked, rhs.layout.stacked
    both = [a for a in left if a in right]
    numbers = (
        (_shifted(lc, len(left)), _shifted(rc, len(right))),
        ((*map(left.index, both), *_shifted(lb, len(left))), (*map(right.index, both), *_shifted(rb, len(right)))),  # type: ignore[misc]
    )
    (array,) = bind_primitive(eqn.primitive, {**eqn.params, "dimension_numbers": numbers}, lhs.array, rhs.array)
    only = [a for a in left if a not in both], [a for a in right if a not in both]
    free = [d for d in range(lhs.rank) if d not in (*lc, *lb)], [d for d in range(rhs.rank) if d not in (*rc, *rb)]
    second = len(both) + len(lb) + len(only[0]) + len(free[0])
    at = [
        *range(len(both)),
        *(len(both) + len(lb) + i for i in range(len(only[0]))),
        *(second + i for i in range(len(only[1]))),
    ]
    if at != [*range(len(at))]:
        array = lax.transpose(array, [*at, *(i for i in range(array.ndim) if i not in at)])
    tiled = [lhs.layout.tiled[d] for d in (*lb, *free[0])] + [rhs.layout.tiled[d] for d in free[1]]
    layout = Layout((*both, *only[0], *only[1]), tuple(tiled))
    return [ShardedArray(array, eqn.outvars[0].aval.shape, layout)]


def convolution(run: Interpreter, eqn: Equation, lhs: ShardedArray, rhs: ShardedArray) -> Sequence[ShardedValue] | None:
    """The batch may be divided, and the features of the result."""
    numbers = eqn.params["dimension_numbers"]
    groups = {eqn.params["feature_group_count"], eqn.params["batch_group_count"]}
    divided = [{d for d, axes in enumerate(x.layout.tiled) if axes} for x in (lhs, rhs)]
    if lhs.layout.stacked or rhs.layout.stacked or groups != {1} or not lhs.axes.isdisjoint(rhs.axes):
        return None
    if not divided[0] <= {numbers.lhs_spec[0]} or not divided[1] <= {numbers.rhs_spec[0]}:
        return None
    tiled: list[tuple[str, ...]] = [()] * lhs.rank
    tiled[numbers.out_spec[0]] = lhs.layout.tiled[numbers.lhs_spec[0]]
    tiled[numbers.out_spec[1]] = rhs.layout.tiled[numbers.rhs_spec[0]]
    arrays = [run.devices.filled(x).array for x in (lhs, rhs)]
    return result(eqn, arrays, [Layout((), tuple(tiled))])


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
    if name in ("copy", "copy_p", "reshape", "transpose", "squeeze", "broadcast_in_dim"):
        return True
    if _KINDS.get(name) in kinds:
        return True
    if kinds != {"sum"}:
        return False
    if name == "convert_element_type":
        return _keeps_range(pending[0].total.array.dtype, eqn.params["new_dtype"])
    if name == "mul":
        return any(_scales(eqn, x) for x in operands if not isinstance(x, Unreduced))
    if name == "div":
        return not isinstance(operands[1], Unreduced) and _scales(eqn, operands[1])
    return name == "neg" or (name in ("add", "sub", "add_any") and len(pending) == len(operands))


def _keeps_range(old: np.dtype[np.generic], new: np.dtype[np.generic]) -> bool:
    floats = all(jnp.issubdtype(dtype, jnp.floating) for dtype in (old, new))
    return floats and bool(jnp.finfo(new).maxexp >= jnp.finfo(old).maxexp)


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


_RULES: Mapping[str, ShardedArrayRule] = {
    **dict.fromkeys(_ELEMENTWISE, elementwise),
    **dict.fromkeys(_KINDS, reduce),
    **dict.fromkeys(("argmax", "argmin"), along("axes")),
    **dict.fromkeys(("reduce_and", "reduce_or", "reduce_prod", "reduce_xor"), along("axes")),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), along("axis")),
    "sort": along("dimension"),
    "rev": along("dimensions"),
    "concatenate": along("dimension"),
    "split": along("axis"),
    "broadcast_in_dim": broadcast_in_dim,
    "iota": iota,
    "transpose": transpose,
    "squeeze": squeeze,
    "reshape": reshape,
    "slice": slice_,
    "pad": pad,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "gather": gather,
    "dot_general": dot_general,
    "conv_general_dilated": convolution,
}  # fmt: skip

PROPAGATION: Mapping[str, ShardRule] = {name: functools.partial(_linear, rule) for name, rule in _RULES.items()}
"""The rules of this module: primitive → rule."""
