"""Random programs on integers, booleans and half floats, legalised for a runtime with few kernels: the numbers stay, and nothing is left over."""

from __future__ import annotations

import random

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise.kernels import KernelTable
from jax2onnx_graph.legalise.legalisation import Legalisation
from jax2onnx_graph.legalise.legalise_pass import LegalisePass
from jax2onnx_graph.targets import standard_target
from onnx.reference import ReferenceEvaluator

CASTS = "f32 f16 f64 bf16 i8 i16 i32 i64 u8 u16 u32 u64 b8"
TYPES = {
    "Add": "f32 i64", "Mul": "f32 i32 i64", "Max": "f32 i64", "Min": "f32 f64 i32 i64", "Div": "f32 i32 i64", "Where": "u8 i64 f32",
    "Less": "f32 i64", "Equal": "f32 i32 i64", "BitwiseXor": "i64", "Neg": "f32 i64",
}  # fmt: skip
TABLE = KernelTable({
    "Cast": {"13": {"T1": CASTS, "T2": CASTS}},
    **{operator: {"7": {"T": types}} for operator, types in TYPES.items()},
})  # fmt: skip
DTYPES = ["int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16"]
INTEGERS = DTYPES[:7]


def edges(dtype: str) -> np.ndarray:
    """Four numbers of a type, its limits among them."""
    if dtype not in INTEGERS:
        return np.array([0.1, -3.3, 0, 7], dtype)
    limits = np.iinfo(dtype)
    return np.array([limits.min, limits.max, 1, limits.max - 5], dtype)


def random_program(chance: random.Random, dtype: str) -> str:
    """A program on x and y of one type and a constant."""
    values, conditions = ["x", "y", "c"], ["p"]
    declared, lines = [], []
    for number in range(chance.randint(3, 7)):
        binary = ["Add", "Mul", "Max", "Min"] + ["Div"] * (dtype not in INTEGERS)
        signed = ["Neg"] if not dtype.startswith("u") else []
        op_type = chance.choice([*binary, *signed, "Where", "Less", "Equal", "Cast"])
        one, two = chance.choices(values, k=2)
        name = f"t{number}"
        if op_type in ("Less", "Equal"):
            conditions.append(name)
            declared.append(f"bool[4] {name}")
            lines.append(f"{name} = {op_type}({one}, {two})")
            continue
        operands = {"Where": f"{chance.choice(conditions)}, {one}, {two}", "Neg": one}.get(op_type, f"{one}, {two}")
        if op_type == "Cast":
            declared.append(f"int64[4] {name}w")
            lines.append(f"{name}w = Cast<to = 7>({one})")
            lines.append(f"{name} = Cast<to = {ir.DataType.from_numpy(np.dtype(dtype)).value}>({name}w)")
        else:
            lines.append(f"{name} = {op_type}({operands})")
        declared.append(f"{dtype}[4] {name}")
        values.append(name)
    last, condition = values[-1], conditions[-1]
    results = f"{dtype}[4] r, bool[4] q, {dtype}[4] m"
    body = [*lines, f"r = Identity({last})", f"q = Identity({condition})", f"m = Max({last}, {values[-2]})"]
    bits = {"float16": 17530, "bfloat16": 16640}.get(dtype, 3)
    constant = f"{dtype}[4] c = {{{bits}, {bits}, 0, {bits}}}"
    known = ", ".join([*declared, constant])
    head = f"g ({dtype}[4] x, {dtype}[4] y, bool[4] p) => ({results}) <{known}>"
    return f'<ir_version: 10, opset_import: ["" : 23]> {head} {{ {" ".join(body)} }}'


def results_of(model: ir.Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(ir.to_proto(model)).run(None, feeds)
    assert isinstance(results, list)
    return results


def comparable(array: np.ndarray) -> np.ndarray:
    """The same numbers, of a type of which NumPy compares NaN."""
    return array if array.dtype.name in (*INTEGERS, "bool") else array.astype(np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_stay_and_every_operator_has_its_kernel(dtype):
    """Sums wrap around as those of the narrow type, the order of unsigned numbers is theirs, floats are rounded."""
    chance = random.Random(dtype)
    for _ in range(8):
        text = random_program(chance, dtype)
        model = ir.from_proto(onnx.parser.parse_model(text))
        feeds = {"x": edges(dtype), "y": edges(dtype)[[1, 2, 0, 3]], "p": np.array([True, False, True, False])}
        expected = results_of(model, feeds)
        LegalisePass(standard_target, Legalisation(TABLE))(model)
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
        for got, want in zip(results_of(model, feeds), expected, strict=True):
            assert got.dtype == want.dtype, text
            np.testing.assert_array_equal(comparable(got), comparable(want), err_msg=text)
        assert not [node for node in model.graph if [*TABLE.lacks(node, 23)]], text
        assert all(value.uses() for value in model.graph.initializers.values() if value.name != "c"), text
