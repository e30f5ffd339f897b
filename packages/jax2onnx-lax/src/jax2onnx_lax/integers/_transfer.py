"""What primitives do to integers: for each the function that gives what is known of its result from what is known of its operands."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jax.lax import GatherScatterMode
from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import Dims, definitely_le, is_positive, is_static
from jax2onnx_core.lowering.definitions import Definition

from jax2onnx_lax._compat import max_dim, min_dim
from jax2onnx_lax.dtypes import is_bool, is_integer, is_signed
from jax2onnx_lax.integers._domain import (
    MOST_ELEMENTS,
    Affine,
    Integers,
    Relation,
    Span,
    Test,
    affine,
    elements_of,
    fitted,
    is_one,
    limits,
    meet,
    number,
    union,
    unknown,
)

__all__ = ["result"]

# Dtypes of so many bytes have the lengths of all axes, and positions along them.
_INDEX_BYTES = 4

Transfer = Callable[..., Integers | None]


def result(definition: Definition, operands: Sequence[Integers | None]) -> Integers:
    """Find the known facts of a result of an equation, an array of integers or booleans.

    Args:
      definition: the equation and the result.
      operands: what is known of the operands; None for one that holds no integers.
    """
    transfer = _TRANSFERS.get(definition.primitive)
    found = None
    if transfer is not None and (definition.primitive in _OF_ANY or None not in operands):
        found = transfer(definition, *operands)
    if found is None:
        return unknown(definition.aval)
    if definition.primitive in _OF_LENGTHS and np.dtype(definition.aval.dtype).itemsize >= _INDEX_BYTES:
        return found
    return fitted(found, definition.aval)


def _dims(definition: Definition, place: int = 0) -> Dims:
    return tuple(definition.avals_in[place].shape)


def _made(definition: Definition, form: Affine) -> Integers:
    return affine(form, tuple(definition.aval.shape))


def _raised(form: Affine, rank: int) -> Affine:
    """An affine scalar as an array of a rank; other arrays as they are."""
    return form if form.steps else form._replace(steps=(0,) * rank)


def _pair(definition: Definition, x: Integers, y: Integers) -> tuple[Affine, Affine] | None:
    if x.affine is None or y.affine is None:
        return None
    rank = len(definition.aval.shape)
    return _raised(x.affine, rank), _raised(y.affine, rank)


# ---------------------------------------------------------------------------------------- arithmetic


def _sum(definition: Definition, x: Integers, y: Integers, sign: int = 1) -> Integers | None:
    if is_bool(definition.aval.dtype):
        return None
    forms = _pair(definition, x, y)
    if forms is not None:
        return dataclasses.replace(_made(definition, _added(*forms, sign)), relations=_shifted(x, y, sign))
    low, high = (y.low, y.high) if sign > 0 else (-y.high, -y.low)
    distinct = (x.is_distinct and y.number is not None) or (y.is_distinct and x.number is not None)
    return Integers(x.low + low, x.high + high, is_distinct=distinct, relations=_shifted(x, y, sign))


def _added(x: Affine, y: Affine, sign: int) -> Affine:
    steps = tuple(a + sign * b for a, b in zip(x.steps, y.steps, strict=True))
    length = x.length if x.factor else y.length
    return Affine(x.offset + sign * y.offset, steps, x.factor + sign * y.factor, length)


def _shifted(x: Integers, y: Integers, sign: int) -> tuple[Relation, ...]:
    """How a sum or difference follows from an operand that a number is added to."""
    if y.number is not None:
        return (Relation(x, "sum", sign * y.number),)
    return (Relation(y, "sum", x.number),) if x.number is not None and sign > 0 else ()


def _difference(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    return _sum(definition, x, y, -1)


def _negative(definition: Definition, x: Integers) -> Integers | None:
    return _difference(definition, number(0), x)


def _product(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    forms = _pair(definition, x, y)
    for form, factor in zip(forms or (), reversed(forms or ()), strict=True):
        if isinstance(factor.number, int) or (factor.number is not None and form.number is not None):
            return _made(definition, _scaled(form, factor.number))
    if x is y:
        return _square(definition, x)
    corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    if all(map(is_static, corners)):
        numbers = [int(corner) for corner in corners if is_static(corner)]
        return Integers(min(numbers), max(numbers))
    if definitely_le(0, x.low) and definitely_le(0, y.low):
        return Integers(x.low * y.low, x.high * y.high)
    return None


def _scaled(form: Affine, factor: Dim) -> Affine:
    if isinstance(factor, int):
        steps = tuple(step * factor for step in form.steps)
        return Affine(form.offset * factor, steps, form.factor * factor, form.length)
    return form._replace(offset=form.offset * factor)


def _square(definition: Definition, x: Integers) -> Integers:
    size = _magnitude(x)
    return Integers(x.low * x.low if definitely_le(0, x.low) else 0, size * size)


def _magnitude(x: Integers) -> Dim:
    """The greatest magnitude of an element."""
    return max_dim(max_dim(x.high, -x.low), 0)


def _power(definition: Definition, x: Integers) -> Integers | None:
    exponent = definition.params["y"]
    if exponent == 2:
        return _square(definition, x)
    if exponent < 0 or exponent > 64 or not definitely_le(0, x.low):
        return None
    return Integers(x.low**exponent, x.high**exponent) if is_static(x.low) and is_static(x.high) else None


def _absolute(definition: Definition, x: Integers) -> Integers:
    if definitely_le(0, x.low):
        return x
    return Integers(0, _magnitude(x))


def _sign(definition: Definition, x: Integers) -> Integers:
    low, high = (1 if definitely_le(1, x.low) else 0 if definitely_le(0, x.low) else -1), 1
    if definitely_le(x.high, 0):
        high = -1 if definitely_le(x.high, -1) else 0
    form = Affine(low, (0,) * len(definition.aval.shape)) if low == high else None
    return Integers(low, high, form, relations=(Relation(x, "sign"),))


def _quotient(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    """Truncated toward zero; all bits of a quotient by zero are ones."""
    if not is_positive(y.low):
        return None
    if definitely_le(0, x.low):
        if definitely_le(x.high + 1, y.low):
            return number(0, len(definition.aval.shape))
        return Integers(x.low // y.high, x.high // y.low)
    if definitely_le(x.high, 0):
        return Integers(-(-x.low // y.low), -(-x.high // y.high))
    return Integers(min_dim(-(-x.low // y.low), 0), max_dim(x.high // y.low, 0))


def _remainder(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    """It has the sign of the dividend; that of a division by zero is the dividend."""
    if not is_positive(y.low):
        return Integers(min_dim(x.low, 0), max_dim(x.high, 0))
    if definitely_le(0, x.low):
        if definitely_le(x.high + 1, y.low) and _is_of_one_shape(definition):
            return x
        high = x.high if definitely_le(x.high, y.high - 1) else y.high - 1
        return Integers(0, high, relations=(Relation(x, "part"),))
    low = x.low if definitely_le(1 - y.high, x.low) else 1 - y.high
    high = x.high if definitely_le(x.high, y.high - 1) else y.high - 1
    return Integers(min_dim(low, 0), max_dim(high, 0))


def _smallest(definition: Definition, x: Integers, y: Integers) -> Integers:
    for one, other in ((x, y), (y, x)):
        if definitely_le(one.high, other.low) and _is_of_one_shape(definition):
            return one
    return Integers(min_dim(x.low, y.low), min_dim(x.high, y.high))


def _largest(definition: Definition, x: Integers, y: Integers) -> Integers:
    for one, other in ((x, y), (y, x)):
        if definitely_le(other.high, one.low) and _is_of_one_shape(definition):
            return one
    return Integers(max_dim(x.low, y.low), max_dim(x.high, y.high))


def _is_of_one_shape(definition: Definition) -> bool:
    """Whether no operand is a scalar that is broadcast, so that an operand may stand for the result."""
    rank = len(definition.aval.shape)
    return all(len(aval.shape) == rank for aval in definition.avals_in)


def _clamped(definition: Definition, low: Integers, x: Integers, high: Integers) -> Integers:
    """min(max(x, low), high): where the limits are swapped it is the upper one."""
    if definitely_le(low.high, x.low) and definitely_le(x.high, high.low):
        return x
    return Integers(min_dim(max_dim(x.low, low.low), high.low), min_dim(max_dim(x.high, low.high), high.high))


# ---------------------------------------------------------------------------------------- bits


def _and(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    if is_bool(definition.aval.dtype):
        return _both(definition, x, y)
    positive = [mask for mask in (x, y) if definitely_le(0, mask.low)]
    return Integers(0, min((mask.high for mask in positive), key=_static_first)) if positive else None


def _static_first(high: Dim) -> tuple[bool, int]:
    return (False, int(high)) if is_static(high) else (True, 0)


def _or(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    if is_bool(definition.aval.dtype):
        return _inverted(_both(definition, _inverted(x), _inverted(y)))
    return _joined_bits(x, y)


def _xor(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    return _unequal(definition, x, y) if is_bool(definition.aval.dtype) else _joined_bits(x, y)


def _joined_bits(x: Integers, y: Integers) -> Integers | None:
    if not (definitely_le(0, x.low) and definitely_le(0, y.low) and is_static(x.high) and is_static(y.high)):
        return None
    return Integers(0, (1 << int(max(x.high, y.high)).bit_length()) - 1)


def _not(definition: Definition, x: Integers) -> Integers | None:
    dtype = definition.aval.dtype
    if is_bool(dtype):
        return _inverted(x)
    return _difference(definition, number(-1 if is_signed(dtype) else limits(dtype)[1]), x)


def _shifted_right(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    if not definitely_le(0, x.low):
        return None
    if isinstance(y.number, int) and 0 <= y.number < limits(definition.aval.dtype)[1].bit_length():
        return Integers(x.low // (1 << y.number), x.high // (1 << y.number))
    return Integers(0, x.high)


def _shifted_left(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    if isinstance(y.number, int) and 0 <= y.number < limits(definition.aval.dtype)[1].bit_length():
        return _product(definition, x, number(1 << y.number))
    return None


def _bit_count(definition: Definition, x: Integers) -> Integers:
    least, greatest = limits(definition.aval.dtype)
    return Integers(0, (greatest - least).bit_length())


# ---------------------------------------------------------------------------------------- booleans


def _truth(holds: bool | None, *tests: Test) -> Integers:
    """A boolean, as far as it is known, with what it says of others."""
    return Integers(int(holds is True), int(holds is not False), tests=tests)


def _tests(x: Integers, if_false: Span, if_true: Span) -> list[Test]:
    """The bounds of integers, and of those that they follow from, where a comparison is false or true."""
    own = [Test(x, (if_false, if_true))]
    return own + [Test(r.base, (r.of_base(if_false), r.of_base(if_true))) for r in x.relations]


def _less(definition: Definition, x: Integers, y: Integers) -> Integers:
    gap = _gap(definition, x, y)
    holds = True if definitely_le(1, gap.low) else False if definitely_le(gap.high, 0) else None
    of_x = _tests(x, (y.low, None), (None, y.high - 1))
    return _truth(holds, *of_x, *_tests(y, (None, x.high), (x.low + 1, None)))


def _gap(definition: Definition, x: Integers, y: Integers) -> Integers:
    """The difference y - x, as numbers that do not wrap around."""
    if x.affine is not None and y.affine is not None:
        forms = _pair(definition, y, x)
        assert forms is not None, "both are affine"
        return _made(definition, _added(*forms, -1))
    return Integers(y.low - x.high, y.high - x.low)


def _greater(definition: Definition, x: Integers, y: Integers) -> Integers:
    return _less(definition, y, x)


def _at_most(definition: Definition, x: Integers, y: Integers) -> Integers:
    return _inverted(_less(definition, y, x))


def _at_least(definition: Definition, x: Integers, y: Integers) -> Integers:
    return _inverted(_less(definition, x, y))


def _equal(definition: Definition, x: Integers, y: Integers) -> Integers:
    if is_bool(definition.avals_in[0].dtype):
        return _inverted(_unequal(definition, x, y))
    gap = _gap(definition, x, y)
    holds = True if gap.number == 0 else None
    if definitely_le(1, gap.low) or definitely_le(gap.high, -1):
        holds = False
    return _truth(holds, *_equality_tests(x, y), *_equality_tests(y, x))


def _equality_tests(x: Integers, y: Integers) -> list[Test]:
    """The bounds of `x` where it differs from `y`, and where it does not."""
    other: Span = (None, None)
    if y.number is not None and _same(x.low, y.number):
        other = y.number + 1, None
    elif y.number is not None and _same(x.high, y.number):
        other = None, y.number - 1
    return _tests(x, other, (y.low, y.high))


def _same(a: Dim, b: Dim) -> bool:
    return bool(a == b)


def _unequal(definition: Definition, x: Integers, y: Integers) -> Integers:
    if not is_bool(definition.avals_in[0].dtype):
        return _inverted(_equal(definition, x, y))
    for known, other in ((x, y), (y, x)):
        if _same(known.low, known.high):
            return _inverted(_inverted(other)) if _same(known.low, 0) else _inverted(other)
    return Integers(0, 1)


def _inverted(x: Integers) -> Integers:
    tests = tuple(Test(test.base, (test.outcomes[1], test.outcomes[0])) for test in x.tests)
    return Integers(1 - x.high, 1 - x.low, tests=tests)


def _both(definition: Definition, x: Integers, y: Integers) -> Integers:
    """Both are true where the conjunction is; it cannot be where they say of the same integers what none can be."""
    if _same(x.high, 0) or _same(y.high, 0):
        return Integers(0, 0)
    for known, other in ((x, y), (y, x)):
        if _same(known.low, 1):
            return _inverted(_inverted(other))
    tests = [Test(test.base, ((None, None), test.outcomes[1])) for test in (*x.tests, *y.tests)]
    for one, two in itertools.product(x.tests, y.tests):
        if one.base is two.base:
            if meet(one.base, one.outcomes[1], two.outcomes[1]) is None:
                return Integers(0, 0)
            tests.append(Test(one.base, (_hull(one, two), (None, None))))
    return Integers(0, 1, tests=tuple(tests))


def _hull(one: Test, other: Test) -> Span:
    """Where elements are if one of two tests is false."""
    spans = [meet(test.base, test.outcomes[0]) for test in (one, other)]
    found = [Integers(*span) for span in spans if span is not None]
    return union(*found) if found else (None, None)


def _selected(definition: Definition, which: Integers, *cases: Integers) -> Integers:
    """The case that is taken; of several that may be, those of its elements with which it is taken."""
    if is_static(which.low) and is_static(which.high) and which.low == which.high:
        return cases[min(max(int(which.low), 0), len(cases) - 1)]
    if not is_bool(definition.avals_in[0].dtype):
        return Integers(*union(*cases))
    found = [(case, _where(case, which.tests, outcome)) for outcome, case in enumerate(cases)]
    possible = [(case, span) for case, span in found if span is not None]
    if len(possible) == 1 or all(case is cases[0] for case in cases):
        return possible[0][0] if possible else cases[0]
    spans = [Integers(*span) for _, span in possible] or list(cases)
    return Integers(*union(*spans))


def _where(case: Integers, tests: Sequence[Test], outcome: int) -> tuple[Dim, Dim] | None:
    """The bounds of those elements of a case that are taken where tests have an outcome; None where they cannot have it."""
    spans: list[Span] = []
    for test in tests:
        span = test.outcomes[outcome]
        if meet(test.base, span) is None:
            return None
        if test.base is case:
            spans.append(span)
        for relation in case.relations:
            if relation.base is test.base and relation.kind == "sum":
                of_base = meet(relation.base, span)
                assert of_base is not None, "it was met before"
                spans.append((of_base[0] + relation.shift, of_base[1] + relation.shift))
    return meet(case, *spans)


# ---------------------------------------------------------------------------------------- shapes


def _converted(definition: Definition, x: Integers | None) -> Integers | None:
    """The same numbers, where the dtype has them; a conversion to bool asks whether a number is not 0."""
    if x is None:
        return None
    if is_bool(definition.aval.dtype) and not is_bool(definition.avals_in[0].dtype):
        return _unequal(definition, x, number(0))
    return x


def _unchanged(definition: Definition, x: Integers, *_: Integers | None) -> Integers:
    return x


def _values(definition: Definition, x: Integers | None, *_: Integers | None) -> Integers | None:
    """Elements of the operand in another order, some perhaps left out or repeated; an empty one has none to take."""
    if x is None or not all(map(is_positive, _dims(definition))):
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
    return Integers(x.low, x.high, form, x.is_distinct, elements_of(x, _dims(definition)) or ())


def _broadcast(definition: Definition, x: Integers, *_: Integers) -> Integers:
    shape, axes = definition.params["shape"], definition.params["broadcast_dimensions"]
    sizes = dict(zip(axes, _dims(definition), strict=True))
    steps = None
    if x.affine is not None:
        own = dict(zip(axes, x.affine.steps, strict=True))
        steps = [0 if is_one(sizes.get(d, 1)) else own[d] for d in range(len(shape))]
    found = _viewed(definition, x, steps)
    is_kept = all(_same(size, sizes.get(d, 1)) for d, size in enumerate(shape))
    return found if is_kept else dataclasses.replace(found, is_distinct=False, elements=())


def _reshaped(definition: Definition, x: Integers, *_: Integers) -> Integers:
    """Axes of size one come and go; the steps along other axes are known where these stay."""
    before, after = _dims(definition), tuple(definition.aval.shape)
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
    gone = {d % len(_dims(definition)) for d in definition.params["dimensions"]}
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
        offset, steps[axis] = offset + (_dims(definition)[axis] - 1) * steps[axis], -steps[axis]
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
    return _made(definition, x.affine._replace(offset=offset, steps=tuple(steps)))


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


# ---------------------------------------------------------------------------------------- positions and reductions


def _iota(definition: Definition, *_: Integers | None) -> Integers | None:
    if not (is_integer(definition.aval.dtype) or is_bool(definition.aval.dtype)):
        return None
    shape, axis = definition.params["shape"], definition.params["dimension"]
    return _made(definition, Affine(0, tuple(int(d == axis) for d in range(len(shape)))))


def _dimension(definition: Definition, *_: Integers | None) -> Integers:
    return number(definition.params["dim"])


def _size(definition: Definition, *_: Integers | None) -> Integers:
    return number(_dims(definition)[definition.params["dimension"]])


def _position(definition: Definition, *_: Integers | None) -> Integers:
    """The place of an extreme element; the first one of none."""
    return Integers(0, max_dim(_dims(definition)[definition.params["axes"][0]] - 1, 0))


def _top(definition: Definition, x: Integers | None) -> Integers | None:
    """Elements of the operand, or their places along an axis."""
    if definition.result == 0:
        return None if x is None else Integers(x.low, x.high)
    dims, axis = _dims(definition), definition.params.get("axis", definition.params.get("reduction_dimension", -1))
    return Integers(0, dims[axis] - 1)


def _sorted(definition: Definition, *xs: Integers | None) -> Integers | None:
    x = xs[definition.result]
    return None if x is None else Integers(x.low, x.high)


def _extreme(definition: Definition, x: Integers) -> Integers | None:
    """An element of the operand; that of none is the limit of the dtype."""
    if not all(map(is_positive, _dims(definition))):
        return None
    return Integers(x.low, x.high)


def _total(definition: Definition, x: Integers) -> Integers:
    count = math.prod(_dims(definition)[axis] for axis in definition.params["axes"])
    return Integers(min_dim(x.low * count, 0), max_dim(x.high * count, 0))


def _running(definition: Definition, x: Integers) -> Integers:
    """Sums of at least one element and at most all."""
    count = _dims(definition)[definition.params["axis"]]
    return Integers(min_dim(x.low, x.low * count), max_dim(x.high, x.high * count))


#: Their results are lengths of axes, or positions along axes.
_OF_LENGTHS = frozenset({"iota", "dim_as_value", "dimension_size", "argmax", "argmin"})

#: They know something of results whatever their operands are.
_OF_ANY = frozenset({
    "iota", "dim_as_value", "dimension_size", "argmax", "argmin", "top_k", "approx_top_k", "sort", "convert_element_type",
})  # fmt: skip

_TRANSFERS: Mapping[str, Transfer] = {
    "abs": _absolute, "add": _sum, "add_any": _sum, "and": _and, "approx_top_k": _top, "argmax": _position, "argmin": _position,
    "broadcast_in_dim": _broadcast, "clamp": _clamped, "clz": _bit_count, "concatenate": _concatenated,
    "convert_element_type": _converted, "copy": _unchanged, "copy_p": _unchanged, "cummax": _values, "cummin": _values,
    "cumsum": _running, "dim_as_value": _dimension, "dimension_size": _size, "div": _quotient, "dynamic_slice": _values,
    "dynamic_update_slice": _written, "eq": _equal, "gather": _gathered, "ge": _at_least, "gt": _greater, "integer_pow": _power,
    "iota": _iota, "le": _at_most, "lt": _less, "max": _largest, "min": _smallest, "mul": _product, "ne": _unequal,
    "neg": _negative, "not": _not, "or": _or, "pad": _united, "population_count": _bit_count, "reduce_max": _extreme,
    "reduce_min": _extreme, "reduce_sum": _total, "rem": _remainder, "reshape": _reshaped, "rev": _reversed, "scatter": _written,
    "select_n": _selected, "shift_left": _shifted_left, "shift_right_arithmetic": _shifted_right,
    "shift_right_logical": _shifted_right, "sign": _sign, "slice": _sliced, "sort": _sorted, "split": _values, "square": _square,
    "squeeze": _squeezed, "stack": _united, "sub": _difference, "tile": _values, "top_k": _top, "transpose": _transposed, "unstack": _values, "xor": _xor,
}  # fmt: skip
