"""Comparisons, and what they say of the integers that are compared; booleans, and selection by them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import definitely_le, is_static
from jax2onnx_core.lowering.definitions import Definition

from jax2onnx_lax.dtypes import is_bool
from jax2onnx_lax.integers._arithmetic import added
from jax2onnx_lax.integers._domain import Integers, Span, Test, meet, union
from jax2onnx_lax.integers._results import Transfer, affine_pair, affine_result, same

__all__ = ["TRANSFERS", "both", "inverted", "unequal"]


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
        forms = affine_pair(definition, y, x)
        assert forms is not None, "both are affine"
        return affine_result(definition, added(*forms, -1))
    return Integers(y.low - x.high, y.high - x.low)


def _greater(definition: Definition, x: Integers, y: Integers) -> Integers:
    return _less(definition, y, x)


def _at_most(definition: Definition, x: Integers, y: Integers) -> Integers:
    return inverted(_less(definition, y, x))


def _at_least(definition: Definition, x: Integers, y: Integers) -> Integers:
    return inverted(_less(definition, x, y))


def _equal(definition: Definition, x: Integers, y: Integers) -> Integers:
    if is_bool(definition.avals_in[0].dtype):
        return inverted(unequal(definition, x, y))
    gap = _gap(definition, x, y)
    holds = True if gap.number == 0 else None
    if definitely_le(1, gap.low) or definitely_le(gap.high, -1):
        holds = False
    return _truth(holds, *_equality_tests(x, y), *_equality_tests(y, x))


def _equality_tests(x: Integers, y: Integers) -> list[Test]:
    """The bounds of `x` where it differs from `y`, and where it does not."""
    other: Span = (None, None)
    if y.number is not None and same(x.low, y.number):
        other = y.number + 1, None
    elif y.number is not None and same(x.high, y.number):
        other = None, y.number - 1
    return _tests(x, other, (y.low, y.high))


def unequal(definition: Definition, x: Integers, y: Integers) -> Integers:
    """Whether x is not y; of booleans, whether one of them is true."""
    if not is_bool(definition.avals_in[0].dtype):
        return inverted(_equal(definition, x, y))
    for known, other in ((x, y), (y, x)):
        if same(known.low, known.high):
            return inverted(inverted(other)) if same(known.low, 0) else inverted(other)
    return Integers(0, 1)


def inverted(x: Integers) -> Integers:
    """The negation of a boolean."""
    tests = tuple(Test(test.base, (test.outcomes[1], test.outcomes[0])) for test in x.tests)
    return Integers(1 - x.high, 1 - x.low, tests=tests)


def both(definition: Definition, x: Integers, y: Integers) -> Integers:
    """Both are true where the conjunction is; it cannot be where they say of the same integers what none can be."""
    if same(x.high, 0) or same(y.high, 0):
        return Integers(0, 0)
    for known, other in ((x, y), (y, x)):
        if same(known.low, 1):
            return inverted(inverted(other))
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


#: Primitive → what is known of its result.
TRANSFERS: Mapping[str, Transfer] = {
    "eq": _equal,
    "ge": _at_least,
    "gt": _greater,
    "le": _at_most,
    "lt": _less,
    "ne": unequal,
    "select_n": _selected,
}
