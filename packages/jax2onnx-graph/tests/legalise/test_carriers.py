"""Wider types that carry narrower ones, for a runtime that has few kernels."""

from __future__ import annotations

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
