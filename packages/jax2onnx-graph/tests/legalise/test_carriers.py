"""Wider types that carry narrower ones, for a runtime that has few kernels."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.operators import ValueUse
from jax2onnx_graph.legalise._carriers import Embedding, find_carrier, use_of
from jax2onnx_graph.legalise.kernels import KernelTable

T = ir.DataType
CASTS = {"Cast": {"18": {"T1": "f32 f16 bf16 i8 i32 i64 u32 u64 b8", "T2": "f32 f16 bf16 i8 i32 i64 u32 u64 b8"}}}


def table(operator: str, types: str) -> KernelTable:
    return KernelTable({**CASTS, operator: {"18": {"T": types}}})


CARRIERS = {
    "floats are computed wider and rounded": ("Exp", "f32", T.BFLOAT16, (T.FLOAT, Embedding.EXACT, None)),
    "floats that are chosen need no rounding": ("Max", "f32", T.BFLOAT16, (T.FLOAT, Embedding.EXACT, Embedding.EXACT)),
    "sums of integers wrap around": ("Add", "i32 i64", T.UINT32, (T.INT32, Embedding.EXACT, Embedding.RESIDUE)),
    "the order of unsigned numbers is that of flipped ones": (
        "Max",
        "i64",
        T.UINT64,
        (T.INT64, Embedding.FLIPPED, Embedding.FLIPPED),
    ),
    "quotients need the numbers themselves": ("Div", "i32 i64", T.INT8, (T.INT32, Embedding.EXACT, Embedding.RESIDUE)),
    "movement keeps any map": ("Concat", "i64", T.UINT64, (T.INT64, Embedding.EXACT, Embedding.EXACT)),
}


@pytest.mark.parametrize("name", CARRIERS)
def test_the_carrier_keeps_the_values(name):
    operator, types, narrow, (wide, operand, result) = CARRIERS[name]
    found = find_carrier(table(operator, types), operator, "T", narrow, 23)
    assert found is not None
    assert (found.dtype, found.operands[0], found.result) == (wide, operand, result)


@pytest.mark.parametrize(
    ("operator", "types", "narrow"),
    [("Exp", "f32", T.DOUBLE), ("Div", "i32", T.UINT32), ("Exp", "", T.FLOAT16), ("Neg", "f32", T.INT8)],
)
def test_there_is_no_carrier_that_loses_values(operator, types, narrow):
    assert find_carrier(table(operator, types), operator, "T", narrow, 23) is None


def test_what_was_not_measured_has_no_carrier():
    assert find_carrier(table("Exp", "f32"), "Log", "T", T.FLOAT16, 23) is None


@pytest.mark.parametrize(
    ("key", "variable", "expected"),
    [("Add", "T", ValueUse.RING), ("ScatterND_add", "T", ValueUse.RING), ("Gather", "Tind", ValueUse.VALUE),
     ("Cast", "T1", None), ("Nonsense", "T", None)],
)  # fmt: skip
def test_the_kind_of_computation_on_a_type_variable(key, variable, expected):
    assert use_of(key, variable, 23) is expected


INTEGERS = [T.BOOL, T.INT8, T.UINT8, T.INT16, T.UINT16, T.INT32, T.UINT32, T.INT64, T.UINT64]
FLOATS = [T.FLOAT8E4M3FN, T.FLOAT8E5M2, T.FLOAT16, T.BFLOAT16, T.FLOAT, T.DOUBLE]


def holds(wide: ir.DataType, narrow: ir.DataType) -> bool:
    """Whether a type has the largest, the smallest and the finest numbers of another one."""
    if narrow in INTEGERS:
        limits = (
            [0, 1]
            if narrow == T.BOOL
            else [int(ml_dtypes.iinfo(narrow.numpy()).min), int(ml_dtypes.iinfo(narrow.numpy()).max)]
        )
        if wide == T.BOOL:
            return False
        if wide in INTEGERS:
            span = ml_dtypes.iinfo(wide.numpy())
            return all(span.min <= limit <= span.max for limit in limits)
        return wide in FLOATS and max(abs(limit) for limit in limits) <= 2 ** (ml_dtypes.finfo(wide.numpy()).nmant + 1)
    if wide not in FLOATS:
        return False
    own, other = ml_dtypes.finfo(wide.numpy()), ml_dtypes.finfo(narrow.numpy())
    finest, range_ = float(other.smallest_subnormal), float(other.max)
    return own.nmant >= other.nmant and float(own.max) >= range_ and float(own.smallest_subnormal) <= finest


def bits(dtype: ir.DataType) -> int:
    return 1 if dtype == T.BOOL else dtype.bitwidth


CARRYING = {T.UINT8, T.INT8, T.INT32, T.UINT32, T.INT64, T.UINT64, T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE}
#: An operator of each kind of computation → whether a wide integer type carries a narrow one, and whether a boolean has a meaning.
LAWS: dict[str, tuple[Callable[[ir.DataType, ir.DataType], bool], bool, bool]] = {
    "Div": (holds, False, False),
    "Add": (lambda wide, narrow: bits(wide) >= bits(narrow), False, False),
    "Max": (
        lambda wide, narrow: holds(wide, narrow) or (wide, narrow) in {(T.INT64, T.UINT64), (T.INT32, T.UINT32)},
        True,
        True,
    ),
    "Concat": (lambda wide, narrow: holds(wide, narrow) or bits(wide) == bits(narrow), True, True),
}


@pytest.mark.parametrize("operator", LAWS)
def test_a_type_carries_another_where_it_keeps_what_the_operator_needs(operator):
    carries, through_floats, is_boolean = LAWS[operator]
    for narrow in (*INTEGERS, *FLOATS):
        for wide in (*INTEGERS, *FLOATS):
            every = " ".join(dtype.short_name() for dtype in (*INTEGERS, *FLOATS))
            casts = {"Cast": {"19": {"T1": every, "T2": every}}}
            kernels = KernelTable({**casts, operator: {"19": {"T": wide.short_name()}}})
            found = find_carrier(kernels, operator, "T", narrow, 23)
            if narrow in FLOATS or wide in FLOATS:
                expected = holds(wide, narrow) and (narrow in FLOATS or through_floats)
            else:
                expected = carries(wide, narrow) and (is_boolean or narrow != T.BOOL)
            expected = expected and wide != narrow and wide in CARRYING
            assert (found is not None) == expected, (operator, narrow, wide, found)
