"""Arrays whose elements are those of their operands, in other places."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from jax.lax import GatherScatterMode
from jax2onnx_core.jaxprs import is_positive
from jax2onnx_core.lowering.definitions import Definition

from jax2onnx_lax.dtypes import is_bool, is_signed
from jax2onnx_lax.integers._booleans import unequal
from jax2onnx_lax.integers._domain import (
    MOST_ELEMENTS,
    Affine,
    Integers,
    elements_of,
    is_one,
    limits,
    number,
    union,
    unknown,
)
from jax2onnx_lax.integers._results import Transfer, affine_result, dims_of, same

__all__ = ["TRANSFERS"]


def _converted(definition: Definition, x: Integers | None) -> Integers | None:
    """The same numbers, where the dtype has them; a conversion to bool asks whether a number is not 0."""
    if x is None:
        return None
    if is_bool(definition.aval.dtype) and not is_bool(definition.avals_in[0].dtype):
        return unequal(definition, x, number(0))
    return x


def _unchanged(definition: Definition, x: Integers, *_: Integers | None) -> Integers:
    return x


def _values(definition: Definition, x: Integers | None, *_: Integers | None) -> Integers | None:
    """Elements of the operand in another order, some perhaps left out or repeated; an empty one has none to take."""
    if x is None or not all(map(is_positive, dims_of(definition))):
        return None
    return Integers(x.low, x.high, _uniform(definition, x))


def _uniform(definition: Definition, x: Integers) -> Affine | None:
    """The form of an array of the same number in all places."""
    if x.affine is None or any(x.affine.steps):
        return None
    return x.affine._replace(steps=(0,) * len(definition.aval.shape))


def _viewed(definition: Definition, x: Integers, steps: Sequence[int] | None) -> Integers:
    """The elements of the operand in the same number, affine with these steps if they are known."""
    form = None
    if x.affine is not None and steps is not None:
        form = x.affine._replace(steps=tuple(steps))
    return Integers(x.low, x.high, form, x.is_distinct, elements_of(x, dims_of(definition)) or ())


def _broadcast(definition: Definition, x: Integers, *_: Integers) -> Integers:
    shape, axes = definition.params["shape"], definition.params["broadcast_dimensions"]
    sizes = dict(zip(axes, dims_of(definition), strict=True))
    steps = None
    if x.affine is not None:
        own = dict(zip(axes, x.affine.steps, strict=True))
        steps = [0 if is_one(sizes.get(d, 1)) else own[d] for d in range(len(shape))]
    found = _viewed(definition, x, steps)
    is_kept = all(same(size, sizes.get(d, 1)) for d, size in enumerate(shape))
    return found if is_kept else dataclasses.replace(found, is_distinct=False, elements=())


def _reshaped(definition: Definition, x: Integers, *_: Integers) -> Integers:
    """Axes of size one come and go; the steps along other axes are known where these stay."""
    before, after = dims_of(definition), tuple(definition.aval.shape)
    if definition.params.get("dimensions") is not None:
        return Integers(x.low, x.high)
    if x.affine is None:
        return _viewed(definition, x, None)
    if not any(x.affine.steps):
        return _viewed(definition, x, (0,) * len(after))
    kept = [(size, step) for size, step in zip(before, x.affine.steps, strict=True) if not is_one(size)]
    if [size for size, _ in kept] != [size for size in after if not is_one(size)]:
        return _viewed(definition, x, None)
    steps = iter(step for _, step in kept)
    return _viewed(definition, x, [0 if is_one(size) else next(steps) for size in after])


def _squeezed(definition: Definition, x: Integers) -> Integers:
    gone = {d % len(dims_of(definition)) for d in definition.params["dimensions"]}
    steps = None if x.affine is None else [step for d, step in enumerate(x.affine.steps) if d not in gone]
    return _viewed(definition, x, steps)


def _transposed(definition: Definition, x: Integers) -> Integers:
    steps = None if x.affine is None else [x.affine.steps[d] for d in definition.params["permutation"]]
    return Integers(x.low, x.high, None if steps is None else _with_steps(x, steps), x.is_distinct)


def _with_steps(x: Integers, steps: Sequence[int]) -> Affine | None:
    return None if x.affine is None else x.affine._replace(steps=tuple(steps))


def _reversed(definition: Definition, x: Integers) -> Integers:
    axes = definition.params["dimensions"]
    if x.affine is None:
        return Integers(x.low, x.high, None, x.is_distinct)
    offset, steps = x.affine.offset, list(x.affine.steps)
    for axis in axes:
        offset, steps[axis] = offset + (dims_of(definition)[axis] - 1) * steps[axis], -steps[axis]
    return Integers(x.low, x.high, x.affine._replace(offset=offset, steps=tuple(steps)), x.is_distinct)


def _sliced(definition: Definition, x: Integers) -> Integers:
    starts, strides = definition.params["start_indices"], definition.params.get("strides")
    strides = [1] * len(starts) if strides is None else strides
    if x.affine is None or not all(isinstance(stride, int) for stride in strides):
        return Integers(x.low, x.high, None, x.is_distinct)
    offset = x.affine.offset
    for start, step in zip(starts, x.affine.steps, strict=True):
        offset = offset + start * step
    steps = [step * stride for step, stride in zip(x.affine.steps, strides, strict=True)]
    return affine_result(definition, x.affine._replace(offset=offset, steps=tuple(steps)))


def _concatenated(definition: Definition, *xs: Integers) -> Integers:
    if len(xs) == 1:
        return xs[0]
    parts = [elements_of(x, tuple(aval.shape)) for x, aval in zip(xs, definition.avals_in, strict=True)]
    elements: tuple[Integers, ...] = ()
    if len(definition.aval.shape) == 1 and None not in parts:
        elements = tuple(e for part in parts for e in part or ())
    return Integers(*union(*xs), elements=elements if len(elements) <= MOST_ELEMENTS else ())


def _united(definition: Definition, *xs: Integers | None) -> Integers:
    return Integers(*union(*(x for x in xs if x is not None)))


def _written(definition: Definition, x: Integers, *rest: Integers) -> Integers:
    """An array with some of its elements replaced by those of updates."""
    updates = rest[1] if definition.primitive == "scatter" else rest[0]
    if definition.params.get("update_jaxpr") is not None:
        return unknown(definition.aval)
    return Integers(*union(x, updates))


def _gathered(definition: Definition, x: Integers, indices: Integers) -> Integers | None:
    """Elements of the operand, or what is filled in where an index is out of range."""
    found = _values(definition, x)
    mode, fill = definition.params["mode"], definition.params.get("fill_value")
    if found is None or GatherScatterMode.from_any(mode) != GatherScatterMode.FILL_OR_DROP:
        return found
    if fill is None:
        least, greatest = limits(definition.aval.dtype)
        fill = least if is_signed(definition.aval.dtype) else greatest
    return Integers(*union(found, number(int(fill))))


#: Primitive → what is known of its result.
TRANSFERS: Mapping[str, Transfer] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenated,
    "convert_element_type": _converted,
    "copy": _unchanged,
    "copy_p": _unchanged,
    "cummax": _values,
    "cummin": _values,
    "dynamic_slice": _values,
    "dynamic_update_slice": _written,
    "gather": _gathered,
    "pad": _united,
    "reshape": _reshaped,
    "rev": _reversed,
    "scatter": _written,
    "slice": _sliced,
    "split": _values,
    "squeeze": _squeezed,
    "stack": _united,
    "tile": _values,
    "transpose": _transposed,
    "unstack": _values,
}
